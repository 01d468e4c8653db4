"""A CLIP in small, its parts as they come: a timm ResNet with an attention pool, and a folder of transformers.

The visual tower is worth something once :mod:`shapes` trained it for a moment. The text tower is random and knows no
word; but what it makes of learned tokens is as rich as a trained one's, so that prompts can learn.
"""

import json

import torch
from timm.models import build_model_with_cfg, generate_default_cfgs, register_model
from timm.models.byobnet import ByoBlockCfg, ByobNet, ByoModelCfg
from torch.nn.functional import normalize

EMBEDDING, WIDTH, POSITIONS = 24, 32, 40
LETTERS = [*"abcdefghijklmnopqrstuvwxyz0123456789.,-"]
WORDS = ["red", "blue"]  # which the tokenizer reads at once; others letter by letter

default_cfgs = generate_default_cfgs(
    {
        "tiny_clip.untrained": {
            **{"num_classes": EMBEDDING, "input_size": (3, 16, 16), "fixed_input_size": True, "pool_size": (8, 8)},
            **{"first_conv": "stem.conv", "classifier": "head.proj", "interpolation": "bicubic"},
            **{"mean": (0.48, 0.46, 0.41), "std": (0.27, 0.26, 0.28)},
        }
    }
)


@register_model
def tiny_clip(pretrained=False, **options):
    """Images → map of 64 channels and half their side → attention pool of an 8×8 map → 24 numbers."""
    blocks = tuple(ByoBlockCfg(type="bottle", d=1, c=width, s=1, br=0.5) for width in (32, 64))
    config = ByoModelCfg(blocks=blocks, stem_chs=16, stem_type="3x3", stem_pool="", head_type="attn_abs")
    return build_model_with_cfg(ByobNet, "tiny_clip", pretrained, model_cfg=config, **options)


def logits(network, texts, images):
    """What the visual tower learns by: its positions' closeness to free vectors in place of texts."""
    config = network.pretrained_cfg
    mean, std = (torch.tensor(config[name])[:, None, None] for name in ("mean", "std"))
    positions = network.forward_features((images / 255 - mean) / std).flatten(2).transpose(1, 2)
    positions = normalize(network.head.proj(network.head.v(positions)), dim=-1)
    positive, negative = 10 * torch.einsum("bpd,tcd->tbpc", positions, normalize(texts, dim=-1))
    return (positive.softmax(1) * (positive - negative)).sum(1)


def write_text_tower(folder, seed=0, projection=EMBEDDING):
    """A random text tower and its tokenizer, as transformers saves them."""
    from transformers import CLIPTextConfig, CLIPTextModelWithProjection, CLIPTokenizer

    tokens = [*LETTERS, *(f"{letter}</w>" for letter in LETTERS)]
    merges = []
    for word in WORDS:
        parts = [*word[:-1], f"{word[-1]}</w>"]
        while len(parts) > 1:
            merges.append((parts[0], parts[1]))
            parts[:2] = ["".join(parts[:2])]
            tokens.append(parts[0])
    tokens += ["<|startoftext|>", "<|endoftext|>"]
    vocabulary = {token: index for index, token in enumerate(dict.fromkeys(tokens))}
    folder.mkdir(parents=True)
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{one} {two}\n" for one, two in merges))
    tokenizer = CLIPTokenizer.from_pretrained(folder)
    tokenizer.save_pretrained(folder)
    ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    config = CLIPTextConfig(
        vocab_size=len(vocabulary),
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=POSITIONS,
        projection_dim=projection,
        pad_token_id=tokenizer.eos_token_id,
        **ends,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        tower = CLIPTextModelWithProjection(config)
    # Prompts begin at N(0, 0.02²): beside these positions that is little, so that both of a class begin nearly alike,
    # as a trained tower's do. (Where they do not, logits begin far out, where the loss has no slope.)
    tower.text_model.embeddings.position_embedding.weight.data.mul_(10)
    tower.save_pretrained(folder)
