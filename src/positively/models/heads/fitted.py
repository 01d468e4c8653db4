"""Fills heads with the solution of a probe."""

from __future__ import annotations

import torch
from torch import nn

from positively.models.heads.kernel import KernelHead
from positively.probe import KernelClassifier, LinearClassifier


@torch.no_grad()
def fill_kernel(head: KernelHead, solved: KernelClassifier) -> None:
    """Copy the solution of a probe into a kernel head; its outputs are then logits of P(tag | image)."""
    head.landmarks.copy_(torch.from_numpy(solved.landmarks))
    head.precision.fill_(float(solved.precision))
    head.kernel_linear.weight.copy_(torch.from_numpy(solved.weight.T))
    head.kernel_linear.bias.copy_(torch.from_numpy(solved.bias))
    head.gain.copy_(torch.from_numpy(solved.gain))
    head.offset.copy_(torch.from_numpy(solved.offset))


@torch.no_grad()
def fill_linear(layer: nn.Linear, solved: LinearClassifier) -> None:
    """Copy a linear solution of a probe into a layer."""
    layer.weight.copy_(torch.from_numpy(solved.weight.T))
    layer.bias.copy_(torch.from_numpy(solved.bias))
