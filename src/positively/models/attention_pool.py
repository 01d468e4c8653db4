"""CLIP's attention pool as a dense projection: what it makes of every position, without its attention."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import safe_open
from timm.layers.attention_pool2d import AttentionPool2d
from torch import Tensor, nn

from positively.errors import ConfigError, WeightsError, option
from positively.models.backbones import Backbone
from positively.models.weights import pretrained_config


@torch.no_grad()
def dense_projection(backbone: Backbone) -> tuple[Tensor, Tensor]:
    """Weight d×C and offset d×H×W by which a map becomes what CLIP compares with texts, position by position.

    The pool's value projection v and its output projection c follow one another without anything between, so that they
    are one linear map: c(v(x + position)) = CV·x + (CV·position + C·bᵥ + b_c).

    Raises:
        ConfigError: If the backbone does not end in such a pool.
        WeightsError: If the pool's output projection, which timm counts as the classifier, is nowhere to be found.
    """
    pool = getattr(backbone.network, "head", None)
    if not isinstance(pool, AttentionPool2d):
        raise ConfigError(
            f"Head 'dual-coop' looks at every position through CLIP's attention pool, and backbone {backbone.name!r} "
            f"does not end in one. Pass {option('backbone', 'resnet101_clip.openai')} or another CLIP ResNet of timm."
        )
    # In double: the product of two projections is stored in single precision, and names the stored features.
    weight, bias = _output_projection(backbone, pool)
    weight, bias = weight.double(), bias.double()
    width = weight.shape[1]
    value_weight, value_bias = (pool.v.weight, pool.v.bias) if pool.qkv is None else (pool.qkv.weight, pool.qkv.bias)
    dense = weight @ value_weight[-width:].double()
    if value_bias is not None:
        bias = bias + weight @ value_bias[-width:].double()
    positions = pool.pos_embed[1:].double()  # the first is that of the mean, which attention asks with
    offset = dense @ positions.T + bias[:, None]
    return dense.float(), offset.reshape(-1, *pool.feat_size).float()


def _output_projection(backbone: Backbone, pool: AttentionPool2d) -> tuple[Tensor, Tensor]:
    if isinstance(pool.proj, nn.Linear):
        return pool.proj.weight, pool.proj.bias
    file = pretrained_config(backbone.network).get("file")
    if not file:
        raise WeightsError(
            f"The attention pool of {backbone.name!r} has random weights, and head 'dual-coop' needs CLIP's. Pass "
            f"{option('weights', 'pretrained')}, or a .safetensors file."
        )
    names = ("head.proj.weight", "head.proj.bias")
    with safe_open(Path(file).expanduser(), "pt") as tensors:
        if not set(names) <= set(tensors.keys()):
            raise WeightsError(
                f"{file} lacks {names[0]} or {names[1]}, the last projection of CLIP's attention pool. Save the timm "
                "model with its own number of classes, not with num_classes=0."
            )
        return tensors.get_tensor(names[0]), tensors.get_tensor(names[1])
