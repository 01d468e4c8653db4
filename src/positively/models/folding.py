"""LgConv for use: what is linear in the map goes into the 3×3 kernel, and the global branch is left with its attention.

With BatchNorm's statistics fixed, norm(z) = s·z + t with s = weight / √(variance + ε). So in conv(x) +
norm(projection(x) + handed back), the part s·projection(x) is a 1×1 convolution of the same positions and joins the
middle of the kernel, t joins the bias, and s the projection of the few vectors that are handed back.
"""

from __future__ import annotations

import copy
from typing import cast

import torch
from timm.layers.conv2d_same import Conv2dSame
from torch import Tensor, nn

from positively.models.lgconv import LgConv


class FoldedLgConv(nn.Module):
    """What an `LgConv` in eval mode computes, with one convolution less. It cannot be trained.

    Shapes: input B×C×H×W, output that of the convolution.
    """

    @torch.no_grad()
    def __init__(self, block: LgConv) -> None:
        super().__init__()
        self.branch = copy.deepcopy(block.global_branch)
        norm, projection = self.branch.norm, self.branch.projection
        # In double: the difference to the unfolded block is then one rounding of the weights.
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
        """Return the local and the global answer, added."""
        added: Tensor = self.conv(x) + self.branch.handed_back(x)
        return added


def fold_lgconv(model: nn.Module) -> nn.Module:
    """Fold every LgConv of ``model``, in place, for use: it is in eval mode then, and gives what it gave before.

    Left alone are convolutions that compute their kernel anew in every pass, and those with a stride that pad as
    TensorFlow does: the middle of the kernel then stands on other positions than the projection.

    >>> folded = fold_lgconv(nn.Sequential(LgConv(nn.Conv2d(64, 64, 3, padding=1))))
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
    """Whether there is a plain kernel to fold into, and its middle stands where the projection looks."""
    conv = block.conv
    is_plain = type(conv) is nn.Conv2d or (type(conv) is Conv2dSame and max(conv.stride) == 1)
    return is_plain and block.global_branch.norm.running_var is not None
