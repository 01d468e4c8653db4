"""Text towers in the format of OpenCLIP, which the hub repositories of timm's CLIP ResNets contain."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

CONFIG, WEIGHTS = "open_clip_config.json", "open_clip_model.safetensors"
_NAMES = {
    "ln_1": "layer_norm1",
    "ln_2": "layer_norm2",
    "attn.out_proj": "self_attn.out_proj",
    "mlp.c_fc": "mlp.fc1",
    "mlp.c_proj": "mlp.fc2",
}
"""Layers of a block: name in OpenCLIP → name in transformers."""


def text_config(file: Path) -> dict[str, Any]:
    """Read the arguments of ``CLIPTextConfig`` of transformers."""
    model = json.loads(file.read_text(encoding="utf-8"))["model_cfg"]
    text = model["text_cfg"]
    return {
        "vocab_size": text["vocab_size"],
        "hidden_size": text["width"],
        "intermediate_size": 4 * text["width"],
        "num_hidden_layers": text["layers"],
        "num_attention_heads": text["heads"],
        "max_position_embeddings": text["context_length"],
        "projection_dim": model["embed_dim"],
        "hidden_act": "quick_gelu" if model.get("quick_gelu") else "gelu",
    }


def text_weights(file: Path) -> dict[str, Tensor]:
    """Load the weights with the names of ``CLIPTextModelWithProjection`` of transformers."""
    return _renamed({name.removeprefix("text."): tensor for name, tensor in load_file(file).items()})


def _renamed(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    made = {
        "text_projection.weight": state["text_projection"].T,
        "text_model.embeddings.token_embedding.weight": state["token_embedding.weight"],
        "text_model.embeddings.position_embedding.weight": state["positional_embedding"],
        "text_model.final_layer_norm.weight": state["ln_final.weight"],
        "text_model.final_layer_norm.bias": state["ln_final.bias"],
    }
    blocks = {name.removeprefix("transformer.resblocks."): value for name, value in state.items()}
    for name in blocks.keys() - state.keys():
        number, _, layer = name.partition(".")
        place = f"text_model.encoder.layers.{number}"
        if layer.startswith("attn.in_proj_"):  # queries, keys and values, stacked
            kind = layer.removeprefix("attn.in_proj_")
            for letter, part in zip("qkv", blocks[name].chunk(3), strict=True):
                made[f"{place}.self_attn.{letter}_proj.{kind}"] = part
        else:
            layer, _, kind = layer.rpartition(".")
            made[f"{place}.{_NAMES[layer]}.{kind}"] = blocks[name]
    return {name: tensor.contiguous() for name, tensor in made.items()}
