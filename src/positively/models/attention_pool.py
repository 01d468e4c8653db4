"""The attention pool of CLIP's ResNets as a dense projection of every position, without the attention."""

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
    """Projection of a feature map into the space in which CLIP compares images with texts, position by position.

    The value projection v and the output projection c of the pool are applied in sequence, so they are one linear map:
    c(v(x + position)) = CV·x + (CV·position + C·bᵥ + b_c).

    Args:
        backbone: A CLIP ResNet of timm.

    Returns:
        Weight, shape (d, C), and offset, shape (d, H, W).

    Raises:
        ConfigError: If the backbone does not end in such a pool.
        WeightsError: If the output projection, which timm treats as the classifier, is missing.
    """
    pool = getattr(backbone.network, "head", None)
    if not isinstance(pool, AttentionPool2d):
        raise ConfigError(
            f"Head 'dual-coop' needs the attention pool of a CLIP ResNet, and backbone {backbone.name!r} has none. "
            f"Pass {option('backbone', 'resnet101_clip.openai')} or another CLIP ResNet of timm."
        )
    # In double precision, because the product is rounded to single precision and is part of the embedding's key.
    weight, bias = _output_projection(backbone, pool)
    weight, bias = weight.double(), bias.double()
    width = weight.shape[1]
    value_weight, value_bias = (pool.v.weight, pool.v.bias) if pool.qkv is None else (pool.qkv.weight, pool.qkv.bias)
    dense = weight @ value_weight[-width:].double()
    if value_bias is not None:
        bias = bias + weight @ value_bias[-width:].double()
    positions = pool.pos_embed[1:].double()  # the first one belongs to the mean, the query of the attention
    offset = dense @ positions.T + bias[:, None]
    return dense.float(), offset.reshape(-1, *pool.feat_size).float()


def _output_projection(backbone: Backbone, pool: AttentionPool2d) -> tuple[Tensor, Tensor]:
    if isinstance(pool.proj, nn.Linear):
        return pool.proj.weight, pool.proj.bias
    file = pretrained_config(backbone.network).get("file")
    if not file:
        raise WeightsError(
            f"The attention pool of {backbone.name!r} has random weights, and head 'dual-coop' needs those of CLIP. "
            f"Pass {option('weights', 'pretrained')}, or a .safetensors file."
        )
    names = ("head.proj.weight", "head.proj.bias")
    with safe_open(Path(file).expanduser(), "pt") as tensors:
        if not set(names) <= set(tensors.keys()):
            raise WeightsError(
                f"{file} lacks {names[0]} or {names[1]}, the output projection of CLIP's attention pool. Save the timm "
                "model with its own number of classes, not with num_classes=0."
            )
        return tensors.get_tensor(names[0]), tensors.get_tensor(names[1])
