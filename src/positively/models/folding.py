"""Folding of LgConv for inference: its linear part moves into the 3×3 kernel, only the attention part remains.

With fixed BatchNorm statistics, norm(z) = s·z + t with s = weight / √(variance + ε). In conv(x) + norm(projection(x) +
attention), s·projection(x) is a 1×1 convolution and moves to the centre of the kernel, t moves to the bias, and s
scales the projection of the attention part.
"""

from __future__ import annotations

import copy
from typing import cast

import torch
from timm.layers.conv2d_same import Conv2dSame
from torch import Tensor, nn

from positively.models.lgconv import LgConv


class FoldedLgConv(nn.Module):
    """An `LgConv` in eval mode with one convolution less. It cannot be trained.

    Takes inputs of shape (B, C, H, W); the output has the shape of the convolution's.

    Args:
        block: The LgConv to fold.
    """

    @torch.no_grad()
    def __init__(self, block: LgConv) -> None:
        super().__init__()
        self.branch = copy.deepcopy(block.global_branch)
        norm, projection = self.branch.norm, self.branch.projection
        # In double precision, so that folding rounds the weights only once.
        scale = norm.weight.double() / torch.sqrt(cast(Tensor, norm.running_var).double() + norm.eps)
        shift = norm.bias.double() - scale * cast(Tensor, norm.running_mean).double()
        if projection.bias is not None:
            shift = shift + scale * projection.bias.double()
        weight = scale[:, None] * projection.weight.double().flatten(1)
        kernel = block.conv.weight.double().clone()
        kernel[:, :, 1, 1] += weight
        bias = shift if block.conv.bias is None else shift + block.conv.bias.double()
        self.conv = copy.deepcopy(block.conv)
        self.conv.weight = nn.Parameter(kernel.to(block.conv.weight.dtype))
        self.conv.bias = nn.Parameter(bias.to(block.conv.weight.dtype))
        projection.weight.copy_(weight[..., None, None])
        projection.bias = None
        del self.branch.norm
        self.requires_grad_(False).eval()

    def forward(self, x: Tensor) -> Tensor:
        """Sum of convolution and attention part."""
        added: Tensor = self.conv(x) + self.branch.handed_back(x)
        return added


def fold_lgconv(model: nn.Module) -> nn.Module:
    """Fold every LgConv of a model in place, for inference. The model is set to eval mode; its output is unchanged.

    Convolutions that compute their kernel in each pass are not folded, nor are strided ones with TensorFlow padding,
    whose kernel centre is at other positions than the projection.

    Args:
        model: The model.

    Returns:
        The same model.

    Example:
        >>> import torch
        >>> from positively.models import LgConv, fold_lgconv
        >>> folded = fold_lgconv(torch.nn.Sequential(LgConv(torch.nn.Conv2d(64, 64, 3, padding=1))))
        >>> folded(torch.zeros(2, 64, 7, 5)).shape
        torch.Size([2, 64, 7, 5])
    """
    model.eval()
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, LgConv) and _is_aligned(child):
                setattr(module, name, FoldedLgConv(child))
    return model


def _is_aligned(block: LgConv) -> bool:
    """Whether there is a constant kernel to fold into, centred where the projection is."""
    conv = block.conv
    is_plain = type(conv) is nn.Conv2d or (type(conv) is Conv2dSame and max(conv.stride) == 1)
    return is_plain and block.global_branch.norm.running_var is not None
