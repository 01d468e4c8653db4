"""Backbones, heads, freezing and the classifier, over several timm models and a module of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import timm
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from positively.errors import ConfigError, WeightsError
from positively.models import Backbone, Classifier, LinearHead, create_backbone, create_classifier
from positively.models.freezing import stages_of
from positively.models.heads import HEADS, create_head
from wording import naming

torch.set_num_threads(1)

MODELS = {  # name → channels, side of the map at 96 px
    "test_resnet": (96, 3),
    "test_vit": (64, 6),
    "test_efficientnet": (256, 3),
    "test_convnext": (64, 3),
    "test_mambaout": (64, 3),  # channels last
    "mobilenetv3_small_050": (288, 3),  # its num_features before pooling is not that of its classifier
    "deit_tiny_distilled_patch16_224": (192, 6),  # two prefix tokens
    "xcit_nano_12_p16_224": (128, 6),  # a class token that is not declared
    "mixer_s32_224": (512, 3),  # fixed size, and no way to change it after
}


@pytest.fixture
def plain_module() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU())


# Backbones


@pytest.mark.parametrize("name", MODELS)
def test_every_backbone_gives_a_map_and_learns(name: str) -> None:
    channels, side = MODELS[name]
    backbone = create_backbone(name, weights="none", image_size=96)
    assert backbone.training
    images = torch.randn(2, 3, 96, 96)
    feature_map = backbone(images)
    assert feature_map.shape == (2, channels, side, side)
    assert backbone.channels == channels
    (feature_map * torch.randn_like(feature_map)).sum().backward()
    learning = {n: p for n, p in backbone.named_parameters() if p.requires_grad}
    assert learning
    assert [n for n, p in learning.items() if p.grad is None] == []  # distributed training needs this


def test_map_of_a_vit_keeps_positions_and_drops_the_class_token() -> None:
    backbone = create_backbone("test_vit", weights="none", image_size=64).eval()
    images = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        tokens = backbone.network.forward_features(images)
        feature_map = backbone(images)
    assert torch.equal(feature_map[0, :, 1, 2], tokens[0, 1 + 1 * 4 + 2])


def test_normalisation_and_name_come_with_the_backbone(plain_module: nn.Module) -> None:
    vit = create_backbone("test_vit", weights="none", image_size=96)
    assert (vit.mean, vit.std, vit.interpolation) == ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5), "bicubic")
    assert (vit.name, vit.image_size) == ("test_vit", 96)
    own = create_backbone(plain_module)
    assert own.mean == (0.485, 0.456, 0.406)
    assert (own.name, own.channels, own.network) == ("Sequential", 8, plain_module)


def test_a_timm_model_given_as_a_module_is_taken_without_its_classifier() -> None:
    backbone = create_backbone(timm.create_model("test_resnet"), image_size=96)
    assert backbone(torch.zeros(1, 3, 96, 96)).shape == (1, 96, 3, 3)
    assert backbone.mean == tuple(backbone.network.pretrained_cfg["mean"])
    assert not backbone.network.fc.weight.requires_grad
    assert create_backbone(backbone) is backbone


class Answering(nn.Module):
    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.shape = shape

    def forward(self, images: Tensor) -> Tensor:
        return torch.zeros(len(images), *self.shape)


@pytest.mark.parametrize("given, expected", [((5,), (5, 1, 1)), ((4, 5), (5, 2, 2)), ((7, 5), (5, 7, 1))])
def test_vectors_and_tokens_become_maps(given: tuple[int, ...], expected: tuple[int, ...]) -> None:
    assert create_backbone(Answering(given))(torch.zeros(2, 3, 8, 8)).shape == (2, *expected)


def test_a_module_that_gives_no_map_is_refused() -> None:
    with pytest.raises(ConfigError, match="map"):
        create_backbone(Answering((2, 2, 2, 2)))


def test_looking_through_leaves_mode_and_statistics_alone(plain_module: nn.Module) -> None:
    plain_module[1].eval()
    Backbone(plain_module)
    assert [module.training for module in plain_module] == [True, False, True]
    assert plain_module[1].num_batches_tracked == 0


def test_unknown_backbone_is_told_with_a_near_name() -> None:
    with pytest.raises(ConfigError, match=naming("'resnet10l'", "resnet101")):
        create_backbone("resnet10l")
    with pytest.raises(ConfigError, match=r"test_resnet\.r160_in1k"):
        create_backbone("test_resnet.r160_in1", weights="none")


def test_a_size_the_backbone_cannot_read_is_told() -> None:
    with pytest.raises(ConfigError, match=naming("'vgg11'", "8×8", "224×224")):
        create_backbone("vgg11", weights="none", image_size=8)
    with pytest.raises(ConfigError, match=naming("100×100", "256×256")):
        create_backbone("swinv2_tiny_window8_256", weights="none", image_size=100)


# Weights


@pytest.fixture
def stored(tmp_path: Path) -> tuple[Path, dict[str, Tensor]]:
    """Weights of a whole timm model, classifier included."""
    torch.manual_seed(1)
    state = timm.create_model("test_resnet").state_dict()
    save_file(state, tmp_path / "weights.safetensors")
    return tmp_path / "weights.safetensors", state


def test_weights_from_a_file_are_loaded_without_the_classifier(stored: tuple[Path, dict[str, Tensor]]) -> None:
    path, state = stored
    network = create_backbone("test_resnet", str(path), 96).network
    assert all(torch.equal(tensor, state[name]) for name, tensor in network.state_dict().items())
    assert set(state) - set(network.state_dict()) == {"fc.weight", "fc.bias"}


def test_classifiers_of_two_parts_are_dropped(tmp_path: Path) -> None:
    name = "deit_tiny_distilled_patch16_224"
    save_file(timm.create_model(name).state_dict(), tmp_path / "w.safetensors")
    create_backbone(name, str(tmp_path / "w.safetensors"))


def test_half_precision_files_are_cast(stored: tuple[Path, dict[str, Tensor]]) -> None:
    path, state = stored
    save_file({name: tensor.half() if tensor.ndim > 1 else tensor for name, tensor in state.items()}, path)
    weight = create_backbone("test_resnet", str(path), 96).network.conv1[0].weight
    assert weight.dtype == torch.float32
    assert torch.equal(weight, state["conv1.0.weight"].half().float())


def test_a_file_serves_a_vit_at_another_size(tmp_path: Path) -> None:
    model = timm.create_model("test_vit")
    save_file(model.state_dict(), tmp_path / "w.safetensors")
    backbone = create_backbone("test_vit", str(tmp_path / "w.safetensors"), image_size=96)
    assert backbone(torch.zeros(1, 3, 96, 96)).shape == (1, 64, 6, 6)
    assert torch.equal(backbone.network.blocks[0].attn.qkv.weight, model.blocks[0].attn.qkv.weight)


def test_a_file_goes_into_a_module_of_ones_own(plain_module: nn.Module, tmp_path: Path) -> None:
    wanted = {name: torch.ones_like(tensor) for name, tensor in plain_module.state_dict().items()}
    save_file(wanted, tmp_path / "w.safetensors")
    create_backbone(plain_module, str(tmp_path / "w.safetensors"))
    assert bool((plain_module[0].weight == 1).all())


@pytest.mark.parametrize(
    "change, facts",
    [
        ({"bn1.weight": None}, ["missing", "bn1.weight"]),
        ({"extra.weight": torch.zeros(1)}, ["unknown", "extra.weight"]),
        ({"bn1.bias": torch.zeros(3)}, ["shape", "bn1.bias", "3", "32"]),
    ],
)
def test_weights_that_do_not_fit_are_named(
    stored: tuple[Path, dict[str, Tensor]], change: dict[str, Tensor | None], facts: list[str]
) -> None:
    path, state = stored
    save_file({name: tensor for name, tensor in {**state, **change}.items() if tensor is not None}, path)
    with pytest.raises(WeightsError, match=naming(*facts)):
        create_backbone("test_resnet", str(path), 96)


def test_pickled_weights_are_never_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("a pickle was opened"))
    (tmp_path / "weights.pth").write_bytes(b"anything")
    with pytest.raises(WeightsError, match="save_file"):
        create_backbone("test_resnet", str(tmp_path / "weights.pth"))
    (tmp_path / "disguised.safetensors").write_bytes(b"anything")
    with pytest.raises(WeightsError, match="safetensors"):
        create_backbone("test_resnet", str(tmp_path / "disguised.safetensors"))
    with pytest.raises(WeightsError, match="code"):
        create_backbone("vit_huge_patch14_gap_224.in1k_ijepa")


def test_weights_that_are_not_there_are_told() -> None:
    with pytest.raises(WeightsError, match=r"nowhere\.safetensors"):
        create_backbone("test_resnet", "nowhere.safetensors")
    with pytest.raises(WeightsError, match="'test_mambaout'"):
        create_backbone("test_mambaout")


def test_no_network_names_the_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: Any, **__: Any) -> None:
        raise OSError("Name or service not known")

    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda **_: None)
    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", unreachable)
    with pytest.raises(WeightsError) as caught:
        create_backbone("test_resnet")
    for part in ("'test_resnet'", "Name or service not known", "weights='FILE'", "HF_HOME", "weights='none'"):
        assert part in str(caught.value)


def test_weights_in_the_hub_cache_need_no_network(
    stored: tuple[Path, dict[str, Tensor]], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, state = stored
    asked: dict[str, Any] = {}
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda **place: asked.update(place) or str(path))
    network = create_backbone("test_resnet", image_size=96).network
    assert asked["repo_id"] == "timm/test_resnet.r160_in1k"
    assert torch.equal(network.conv1[0].weight, state["conv1.0.weight"])


# Freezing


def learning(model: nn.Module) -> set[str]:
    return {name for name, parameter in model.named_parameters() if parameter.requires_grad}


def test_only_the_last_stages_learn() -> None:
    options: dict[str, Any] = {"weights": "none", "image_size": 96}
    one = create_classifier("test_resnet", 3, learn_stages=1, **options)
    assert {name.removeprefix("network.").split(".")[0] for name in learning(one.backbone)} == {"layer4"}
    two = create_classifier("test_resnet", 3, learn_stages=2, **options)
    assert {name.split(".")[1] for name in learning(two.backbone)} == {"layer3", "layer4"}
    every = create_classifier("test_resnet", 3, learn_stages=5, **options)
    assert learning(every) == learning(create_classifier("test_resnet", 3, **options))
    none = create_classifier("test_resnet", 3, learn_stages=0, **options)
    assert learning(none) == {"head.linear.weight", "head.linear.bias"}


def test_what_follows_the_last_stage_learns_with_it() -> None:
    lite = create_classifier("efficientnet_lite0", 3, weights="none", image_size=96, learn_stages=1)
    tops = {".".join(name.split(".")[1:3]) for name in learning(lite.backbone)}
    assert tops == {"blocks.5", "blocks.6", "conv_head.weight", "bn2.weight", "bn2.bias"}
    vit = create_classifier("test_vit", 3, weights="none", image_size=96, learn_stages=1)
    assert {name.split(".")[1] for name in learning(vit.backbone)} == {"blocks", "norm"}


def test_global_branches_learn_in_frozen_stages_too() -> None:
    model = create_classifier("test_resnet", 3, weights="none", image_size=96, lgconv=True, learn_stages=1)
    early = {name for name in learning(model.backbone) if "layer4" not in name}
    assert early
    assert all("global_branch" in name for name in early)
    model(torch.randn(2, 3, 96, 96)).sum().backward()
    assert all(p.grad is not None for p in model.parameters() if p.requires_grad)


def test_stages_without_parameters_do_not_count() -> None:
    assert all(stages_of(timm.create_model("vgg11", num_classes=0)))


def test_stages_that_are_not_there_are_told(plain_module: nn.Module) -> None:
    options: dict[str, Any] = {"weights": "none", "image_size": 96}
    for wrong in (6, -1):
        with pytest.raises(ConfigError, match=naming("5 stages", "learn_stages", wrong)):
            create_classifier("test_resnet", 3, learn_stages=wrong, **options)
    with pytest.raises(ConfigError, match="stages"):
        create_classifier(plain_module, 3, learn_stages=1)
    assert len(learning(create_classifier(plain_module, 3, learn_stages=0))) == 2
    with pytest.raises(ConfigError, match="LgConv"):
        create_classifier("test_resnet", 3, lgconv=True, learn_stages=0, **options)


def statistics(model: nn.Module) -> dict[str, Tensor]:
    return {name: buffer.clone() for name, buffer in model.named_buffers() if "running" in name or "tracked" in name}


def changed(before: dict[str, Tensor], after: dict[str, Tensor]) -> set[str]:
    return {name for name in before if not torch.equal(before[name], after[name])}


def test_frozen_statistics_survive_training_and_affine_still_learns() -> None:
    model = create_classifier("test_resnet", 3, weights="none", image_size=96, lgconv=True, freeze_batchnorm=True)
    before = statistics(model)
    model.eval()
    model.train()
    model(torch.randn(4, 3, 96, 96)).sum().backward()
    assert changed(before, statistics(model)) == set()
    assert model.training
    assert model.backbone.network.bn1.weight.grad is not None
    model.freeze_batchnorm = False
    model.train()(torch.randn(4, 3, 96, 96))
    assert changed(before, statistics(model)) == set(before)


def test_frozen_stages_keep_their_statistics() -> None:
    model = create_classifier("test_resnet", 3, weights="none", image_size=96, learn_stages=1)
    before = statistics(model)
    model.train()(torch.randn(4, 3, 96, 96))
    assert {name.split(".")[2] for name in changed(before, statistics(model))} == {"layer4"}


# Classifier and head


def test_a_frozen_backbone_rests_and_keeps_no_graph() -> None:
    model = create_classifier("test_resnet", 3, weights="none", image_size=96, learn_stages=0).train()
    assert not any(module.training for module in model.backbone.modules())
    images = torch.randn(2, 3, 96, 96)
    features = model.features(images)
    assert not features.requires_grad
    model(images).sum().backward()
    assert model.head.linear.weight.grad is not None


def test_bytes_and_numbers_up_to_one_are_normalised_alike() -> None:
    model = create_classifier("test_vit", 3, weights="none", image_size=96).eval()
    pixels = torch.randint(0, 256, (2, 3, 96, 96), dtype=torch.uint8)
    with torch.no_grad():
        expected = model.head(model.backbone((pixels / 255 - 0.5) / 0.5))
        torch.testing.assert_close(model(pixels), expected)
        torch.testing.assert_close(model(pixels / 255), expected)
    assert not {"mean", "std"} & set(model.state_dict())


@pytest.mark.parametrize("pooling", ["average", "max", "mix"])
def test_kept_features_give_the_same_logits(pooling: Any) -> None:
    model = create_classifier("test_vit", 4, weights="none", image_size=96, head_options={"pooling": pooling}).eval()
    images = torch.rand(2, 3, 96, 96)
    with torch.no_grad():
        features = model.features(images)
        assert features.shape == (2, model.backbone.channels)
        torch.testing.assert_close(model.head(features), model(images))


def test_pooling_is_what_it_says() -> None:
    feature_map = torch.tensor([0.0, 1.0, 2.0, 5.0]).reshape(1, 1, 2, 2)
    pooled = [LinearHead(1, 1, pooling=kind).pool(feature_map).item() for kind in ("average", "max", "mix")]
    assert pooled == [2.0, 5.0, 3.5]


def test_prior_start_gives_every_image_the_class_frequencies() -> None:
    head = LinearHead(5, 3)
    head.start("prior", torch.tensor([0.1, 0.0, 0.9]))
    probabilities = head(torch.randn(2, 5)).sigmoid()
    torch.testing.assert_close(probabilities, torch.tensor([[0.1, 1e-4, 0.5]] * 2))
    head.start("default")
    assert head.linear.weight.any()
    assert not head.linear.bias.any()


def test_heads_refuse_what_they_do_not_know() -> None:
    with pytest.raises(ConfigError, match=naming("'cubic'", "linear")):
        create_head("cubic", 8, 2)
    with pytest.raises(ConfigError, match=naming("pooling", "'average'")):
        create_head("linear", 8, 2, pooling="sum")
    with pytest.raises(ConfigError, match="class"):
        create_head("linear", 8, 0)
    head = create_head("linear", 8, 2)
    for frequencies in (None, torch.ones(3)):
        with pytest.raises(ConfigError, match="2 classes"):
            head.start("prior", frequencies)
    with pytest.raises(ConfigError, match=naming("'default'", "'prior'")):
        head.start("zero")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [name for name, kind in HEADS.items() if not kind.needs_backbone])
def test_every_head_takes_maps_and_kept_features(name: str) -> None:
    head = create_head(name, 8, 3)
    feature_map = torch.randn(2, 8, 4, 5)
    assert head(feature_map).shape == (2, 3)
    torch.testing.assert_close(head(head.pool(feature_map)), head(feature_map))


def test_a_saved_classifier_is_the_same_when_loaded(tmp_path: Path) -> None:
    options: dict[str, Any] = {"weights": "none", "image_size": 96, "lgconv": True}
    first = create_classifier("test_resnet", 3, **options).eval()
    save_file(first.state_dict(), tmp_path / "model.safetensors")
    second = create_classifier("test_resnet", 3, **options).eval()
    second.load_state_dict(load_file(tmp_path / "model.safetensors"))
    images = torch.randn(2, 3, 96, 96)
    assert isinstance(second, Classifier)
    assert torch.equal(first(images), second(images))


def test_classifier_compiles_and_runs_in_half_precision() -> None:
    model = create_classifier("test_resnet", 3, weights="none", image_size=64, lgconv=True, learn_stages=1).eval()
    images = torch.randn(2, 3, 64, 64)
    compiled = torch.compile(model, backend="aot_eager")
    torch.testing.assert_close(compiled(images), model(images), atol=1e-4, rtol=1e-4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert model(images).isfinite().all()
