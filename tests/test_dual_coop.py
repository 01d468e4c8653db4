"""DualCoOp: positions by CLIP's own projection, two prompts a class, and runs that predict without the text tower."""

import copy
import json
import shutil
import sys
from dataclasses import replace

import huggingface_hub
import numpy as np
import pytest
import timm
import torch
from safetensors.torch import load_file, save_file
from timm.layers import AttentionPool2d
from torch import nn
from torch.nn import functional as F

import positively as po
import shapes
import tiny_clip
from positively.errors import ConfigError, WeightsError
from positively.finetune.run import train
from positively.labels import LabelTable
from positively.models import Backbone, create_backbone, create_classifier
from positively.models.attention_pool import dense_projection
from positively.models.heads import create_head
from positively.models.saving import load_model
from positively.models.text_tower import TextTower
from positively.runs.folder import RunFolder
from positively.runs.saving import load_model_config
from test_methods import make
from wording import naming

CLASSES = ("red", "pale_blue", "green")


def some_table(classes=CLASSES):
    return LabelTable.from_positives(["a.png"], classes, [[0]])


@pytest.fixture(scope="module")
def backbone(place):
    return create_backbone("tiny_clip", str(place / "tiny_clip.safetensors"), image_size=24)


@pytest.fixture
def head(backbone, place):
    torch.manual_seed(0)
    made = create_head("dual-coop", 64, len(CLASSES), text_model=str(place / "text"), prompt_length=5)
    made.connect(backbone)
    made.setup(some_table())
    return made


# The visual side


@pytest.mark.parametrize("size", [(8, 8), (12, 12), (3, 5)])
def test_positions_go_through_the_pools_own_projections_without_its_attention(head, place, size):
    state = load_file(place / "tiny_clip.safetensors")
    feature_map = torch.randn(2, 64, *size)
    grid = state["head.pos_embed"][1:].T.reshape(1, 64, 8, 8)
    shifted = (feature_map + F.interpolate(grid, size, mode="bicubic")).flatten(2).transpose(1, 2)
    values = F.linear(shifted, state["head.v.weight"], state["head.v.bias"])
    projected = F.linear(values, state["head.proj.weight"], state["head.proj.bias"])
    torch.testing.assert_close(head.pool(feature_map)[:, 0], F.normalize(projected, dim=-1), atol=2e-5, rtol=1e-4)


def test_a_pool_that_attends_to_one_position_gives_that_positions_projection(backbone, place):
    """The attention pool itself, made to look at nothing but the first position, as the oracle."""
    network = timm.create_model("tiny_clip", num_classes=tiny_clip.EMBEDDING)
    network.load_state_dict(load_file(place / "tiny_clip.safetensors"))
    pool, feature_map = network.head, torch.randn(1, 64, 8, 8)
    nn.init.zeros_(pool.q.weight)
    with torch.no_grad():  # every head asks with 1, and the key of the first position is the largest by far
        pool.q.bias.fill_(1)
        shifted = feature_map.flatten(2)[0].T + pool.pos_embed[1:]
        direction = torch.linalg.lstsq(shifted, F.one_hot(torch.tensor(0), 64).float()[:, None]).solution[:, 0]
        mean = feature_map.mean((2, 3))[0] + pool.pos_embed[0]
        direction -= mean * (direction @ mean) / (mean @ mean)
        assert (shifted @ direction).argmax() == 0
        pool.k.weight.copy_(1e4 * direction.expand(64, 64))
        pool.k.bias.zero_()
        weight, offset = dense_projection(Backbone(network, 16))
        expected = pool(feature_map)[0]
    torch.testing.assert_close(weight @ feature_map[0, :, 0, 0] + offset[:, 0, 0], expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(dense_projection(backbone), (weight, offset))  # from the file as from the module


def test_a_pool_with_its_three_projections_in_one_is_read_too(backbone, place):
    pool = AttentionPool2d(64, feat_size=8, out_features=24)
    state = load_file(place / "tiny_clip.safetensors")
    joined = {f"qkv.{kind}": torch.cat([state[f"head.{name}.{kind}"] for name in "qkv"]) for kind in ("weight", "bias")}
    pool.load_state_dict(joined | {name: state[f"head.{name}"] for name in ("proj.weight", "proj.bias", "pos_embed")})
    network = timm.create_model("tiny_clip")
    network.head = pool
    torch.testing.assert_close(dense_projection(Backbone(network, 16)), dense_projection(backbone))


def test_logits_are_the_published_ones(head):
    """A softmax over (negative, positive) of 5 · Σ w · M, with the weights of the positive map for both."""
    head.eval()
    feature_map = torch.randn(3, 64, 4, 6)
    positions, texts = head.pool(feature_map)[:, 0].numpy().astype(float), head.texts.numpy().astype(float)
    expected = np.empty((3, len(CLASSES)))
    for image in range(3):
        for c in range(len(CLASSES)):
            maps = [20 * positions[image] @ texts[kind, c] for kind in (0, 1)]
            weights = np.exp(maps[0]) / np.exp(maps[0]).sum()
            sums = np.array([5 * (weights * values).sum() for values in maps])
            expected[image, c] = 1 / (1 + np.exp(sums[1] - sums[0]))
    np.testing.assert_allclose(head(feature_map).sigmoid().detach(), expected, atol=1e-4)
    assert np.ptp(expected) > 0.01


# The text side


def test_learned_tokens_stand_between_the_start_and_the_name(place):
    """Tokens that are those of words give what transformers makes of the words, padded to its full length."""
    from transformers import CLIPTextModelWithProjection, CLIPTokenizer

    tokenizer = CLIPTokenizer.from_pretrained(place / "text")
    model = CLIPTextModelWithProjection.from_pretrained(place / "text")
    written = tokenizer("a b red", add_special_tokens=False)["input_ids"]
    assert len(written) == 3  # a known word is one token
    tower = TextTower(str(place / "text"), CLASSES, length=3)
    prompts = model.get_input_embeddings()(torch.tensor(written)).detach().expand(2, 1, 3, -1)
    texts = [f"a b red {name}." for name in ("red", "pale blue", "green")]
    given = tokenizer(texts, padding="max_length", max_length=tiny_clip.POSITIONS, return_tensors="pt")
    expected = F.normalize(model(**given).text_embeds, dim=-1)
    found = tower.encode(prompts)
    assert tower.ids.shape[1] < tiny_clip.POSITIONS
    torch.testing.assert_close(found, expected.expand(2, -1, -1))


def test_only_prompts_get_a_gradient_and_every_token_of_them_does(head):
    head(torch.randn(4, 64, 5, 5)).square().sum().backward()
    assert [name for name, _ in head.named_parameters()] == ["prompts"]
    assert (head.prompts.grad.abs().amax(-1) > 1e-6).all()
    assert not any(parameter.requires_grad for parameter in head._tower.model.parameters())
    assert not any("tower" in name for name in head.state_dict())


def test_prompts_can_be_shared_by_all_classes(backbone, place):
    head = create_head("dual-coop", 64, 3, text_model=str(place / "text"), class_specific=False, prompt_length=5)
    head.connect(backbone)
    head.setup(some_table())
    assert head.prompts.shape == (2, 1, 5, tiny_clip.WIDTH) and head.prompts.std() < 0.04
    texts = head.eval().texts
    assert texts.shape == (2, 3, tiny_clip.EMBEDDING) and not torch.allclose(texts[:, 0], texts[:, 1], atol=1e-3)


class OpenClipTower(nn.Module):
    """OpenCLIP's text tower, of torch's own layers."""

    class Block(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
            self.mlp = nn.ModuleDict({"c_fc": nn.Linear(width, 4 * width), "c_proj": nn.Linear(4 * width, width)})

        def forward(self, x):
            mask = torch.full((x.shape[1], x.shape[1]), -torch.inf).triu(1)
            normed = self.ln_1(x)
            x = x + self.attn(normed, normed, normed, attn_mask=mask, need_weights=False)[0]
            hidden = self.mlp["c_fc"](self.ln_2(x))
            return x + self.mlp["c_proj"](hidden * torch.sigmoid(1.702 * hidden))

    def __init__(self, words, width, positions, size):
        super().__init__()
        self.token_embedding = nn.Embedding(words, width)
        self.positional_embedding = nn.Parameter(torch.randn(positions, width))
        self.transformer = nn.ModuleDict({"resblocks": nn.ModuleList(self.Block(width, 4) for _ in range(2))})
        self.ln_final = nn.LayerNorm(width)
        self.text_projection = nn.Parameter(torch.randn(width, size))

    def forward(self, ids):
        x = self.token_embedding(ids) + self.positional_embedding[: ids.shape[1]]
        for block in self.transformer["resblocks"]:
            x = block(x)
        return self.ln_final(x)[torch.arange(len(ids)), ids.argmax(-1)] @ self.text_projection


def test_a_text_tower_of_openclip_is_read_as_it_is(place, tmp_path):
    for file in (place / "text").glob("*.json"):
        if file.name != "config.json":
            shutil.copy(file, tmp_path)
    shutil.copy(place / "text" / "merges.txt", tmp_path)
    words = len(json.loads((tmp_path / "vocab.json").read_text()))
    torch.manual_seed(0)
    reference = OpenClipTower(words, 16, 30, 8).requires_grad_(False)
    for name, parameter in reference.named_parameters():  # torch starts some of them at zero
        parameter.add_(0.1 * torch.randn_like(parameter)) if name.endswith("bias") else None
    text = {"context_length": 30, "vocab_size": words, "width": 16, "heads": 4, "layers": 2}
    config = {"model_cfg": {"embed_dim": 8, "quick_gelu": True, "vision_cfg": {}, "text_cfg": text}}
    (tmp_path / "open_clip_config.json").write_text(json.dumps(config))
    save_file(reference.state_dict() | {"visual.x": torch.zeros(1)}, tmp_path / "open_clip_model.safetensors")
    tower = TextTower(str(tmp_path), CLASSES, length=2)
    prompts = reference.token_embedding.weight[[3, 4]].expand(1, 1, 2, 16)
    ids = tower.ids.clone()
    ids[:, 1:3] = torch.tensor([3, 4])
    torch.testing.assert_close(tower.encode(prompts)[0], F.normalize(reference(ids), dim=-1), atol=1e-5, rtol=1e-4)


# What every head promises


@pytest.mark.parametrize("side", [1, 7, 14])
def test_stored_positions_give_the_logits_of_the_map(head, side):
    feature_map = torch.randn(2, 64, side, side + 1)
    pooled = head.eval().pool(feature_map)
    assert pooled.shape == (2, 1, side * (side + 1), tiny_clip.EMBEDDING)
    assert torch.equal(head.pool(pooled), pooled)
    assert torch.equal(head(pooled), head(feature_map))
    torch.testing.assert_close(head(pooled.half()), head(pooled), atol=0.1, rtol=0.01)


def test_the_head_compiles_runs_in_half_precision_and_copies_share_the_text_tower(head):
    feature_map = torch.randn(2, 64, 4, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = head(feature_map)
    logits.sum().backward()
    assert logits.dtype == torch.float32 and head.prompts.grad.isfinite().all()
    head.eval()
    torch.testing.assert_close(logits, head(feature_map), atol=1.0, rtol=0.1)
    compiled = torch.compile(head, backend="aot_eager")
    torch.testing.assert_close(compiled(feature_map), head(feature_map), atol=1e-4, rtol=1e-4)
    other = copy.deepcopy(head)
    assert other._tower is head._tower
    assert other.prompts is not head.prompts


def test_texts_are_those_of_the_prompts_whenever_they_are_used_or_saved(head):
    feature_map = torch.randn(2, 64, 4, 4)
    for change in range(2):
        with torch.no_grad():
            head.prompts.add_(change)
        learning = head.train()(feature_map).detach()
        with torch.inference_mode():  # as scores are made
            torch.testing.assert_close(head.eval()(feature_map), learning, atol=1e-4, rtol=1e-4)
    expected = head.texts.clone()
    wrong = head.state_dict() | {"texts": torch.zeros_like(head.texts)}  # an average of texts is no text
    head.load_state_dict(wrong)
    assert torch.equal(head.state_dict()["texts"], expected)


# A training


@pytest.fixture(scope="module")
def finished(tables, place, tmp_path_factory):
    """A run on the squares, with a copy of the text tower that is gone afterwards."""
    text = tmp_path_factory.mktemp("gone") / "text"
    shutil.copytree(place / "text", text)
    config = shapes.settings("dual-coop", "probe", place)
    config = replace(config, out=str(text.parent / "run"), head_options=config.head_options | {"text_model": str(text)})
    run = train(tables[0], config)
    shutil.rmtree(text)
    return run


def test_only_prompts_learn_and_the_loss_falls(tables, fabric, place):
    training = make(tables, fabric, place, "dual-coop", "probe", refit=False, restore_best=False)
    head = training.classifier.head
    before = {name: tensor.clone() for name, tensor in training.classifier.state_dict().items()}
    tower = {name: tensor.clone() for name, tensor in head._tower.model.state_dict().items()}
    training.run()
    changed = {
        name for name, tensor in training.classifier.state_dict().items() if not torch.equal(tensor, before[name])
    }
    assert changed == {"head.prompts", "head.texts"}
    assert all(torch.equal(tensor, tower[name]) for name, tensor in head._tower.model.state_dict().items())
    losses = [row["loss"] for row in training.history]
    assert losses[-1] < 0.2 * losses[0]
    assert torch.equal(head.texts, head._tower.encode(head.prompts).detach())


def test_a_run_predicts_without_transformers_and_without_the_text_tower(finished, tables, place, fabric, monkeypatch):
    """And what was averaged are the prompts, of which the saved texts are."""
    expected = make(tables, fabric, place, "dual-coop", "probe")
    expected.run()
    logits = expected.score(tables[1])
    monkeypatch.setitem(sys.modules, "transformers", None)
    model = load_model(RunFolder(finished), load_model_config(RunFolder(finished)))
    assert model.head._tower is None and model.head.saved_options["text_model"] is None
    trained = expected.classifier.head
    assert torch.equal(model.head.prompts, trained.prompts)
    assert torch.equal(model.head.texts, trained.texts)
    scores = po.Run(finished).scores(tables[1])
    np.testing.assert_allclose(scores, 1 / (1 + np.exp(-logits.astype(float))), atol=0.01)
    assert np.mean((scores > 0.5) == (tables[1].states() == 1)) > 0.9


def test_what_is_stored_is_small_and_named_by_its_projection(finished, place, backbone):
    stored = [tensor for path in (place / "features").rglob("*.safetensors") for tensor in load_file(path).values()]
    assert (1, 144, tiny_clip.EMBEDDING) in {tuple(tensor.shape[1:]) for tensor in stored if tensor.ndim == 4}
    head = create_head("dual-coop", 64, 3)
    head.connect(backbone)
    key = head.feature_key
    assert head.double().feature_key == key  # a precision of training is none of what is stored
    head.offset += 0.1
    assert head.feature_key != key


# What cannot be


def test_a_missing_package_says_how_to_install_it(head, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(WeightsError, match=naming("transformers", "pip install 'positively[clip]'")):
        head.setup(some_table())


def offline(*given, **options):
    raise OSError("no network")


def test_towers_that_do_not_fit_are_told(backbone, place, tmp_path, monkeypatch):
    head = create_head("dual-coop", 64, 3)
    plain = create_classifier("positively_tiny", 3, "none", 24).backbone
    for other in (plain, Backbone(timm.create_model("vit_tiny_patch16_224", num_classes=0))):
        with pytest.raises(ConfigError, match=naming("CLIP", "attention pool")):
            head.connect(other)
    with pytest.raises(WeightsError, match="random"):
        head.connect(create_backbone("tiny_clip", "none", 24))
    state = load_file(place / "tiny_clip.safetensors")
    save_file({name: tensor for name, tensor in state.items() if "proj" not in name}, tmp_path / "w.safetensors")
    with pytest.raises(WeightsError, match=naming("w.safetensors", "head.proj.weight")):
        head.connect(create_backbone("tiny_clip", str(tmp_path / "w.safetensors"), 24))
    head.connect(backbone)
    with pytest.raises(ConfigError, match="text_model"):
        head.setup(some_table())
    tiny_clip.write_text_tower(tmp_path / "other", projection=8)
    for source, classes, message in (
        (tmp_path / "other", CLASSES, r"\b8\b.*\b24\b"),
        (place / "text", ("red", "green" * 9), "'(green)+' .*tokens.* 40"),
    ):
        wrong = create_head("dual-coop", 64, len(classes), text_model=str(source))
        wrong.connect(backbone)
        with pytest.raises(ConfigError, match=message):
            wrong.setup(some_table(classes))
    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    monkeypatch.setattr(huggingface_hub, "model_info", offline)
    with pytest.raises(WeightsError, match=naming("'nobody/nothing'", "no network")):
        TextTower("nobody/nothing", CLASSES, 2)
    (tmp_path / "empty").mkdir()
    with pytest.raises(WeightsError, match=naming("empty'", "CLIP")):
        TextTower(str(tmp_path / "empty"), CLASSES, 2)


def test_clips_own_repository_is_where_its_text_tower_is_looked_for(backbone, monkeypatch):
    head = create_head("dual-coop", 64, 3)
    monkeypatch.setitem(backbone.network.pretrained_cfg, "hf_hub_id", "timm/tiny_clip.untrained")
    head.connect(backbone)
    assert head.text_model == "timm/tiny_clip.untrained"


def test_a_text_tower_of_the_hub_is_taken_from_the_cache_if_all_of_it_is_there(place, tmp_path, monkeypatch):
    asked = []

    def download(repo_id, allow_patterns, local_files_only=False):
        asked.append(local_files_only)
        return str(place / "text" if len(asked) == needed else tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    monkeypatch.setattr(huggingface_hub, "model_info", lambda *given, **options: None)
    for needed in (1, 2):  # the second time the cache has nothing of the text tower
        asked.clear()
        assert TextTower("somebody/clip", CLASSES, 2).size == tiny_clip.EMBEDDING
        assert asked == [True, False][:needed]


def test_it_learns_from_known_positives_and_negatives_on_stored_positions():
    method = po.finetune.methods.create_method("dual-coop")
    assert method.depths == ("probe",) and method.needs_negatives
    assert (method.options.gamma_negative, method.options.gamma_positive, method.options.clip) == (2.0, 1.0, 0.05)
