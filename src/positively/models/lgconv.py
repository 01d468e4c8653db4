"""LgConv: a 3×3 convolution with a global branch beside it ("Local-Global Convolution" and its figure in the paper)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

import torch
from timm.layers.conv2d_same import Conv2dSame
from torch import Tensor, nn
from torch.nn import functional as F

from positively.errors import ConfigError

Init = Literal["constant", "normal"]

# A head of the branch needs a few channels to carry anything, and stems have three.
MINIMUM_CHANNELS = 32


class GlobalBranch(nn.Module):
    """Gather the whole map into one vector a head, and hand it back to every position.

    Shapes: input B×C×H×W, output B×O×⌈H/stride⌉×⌈W/stride⌉, for any H and W.

    Three linear maps are moved past the sums over positions: the value convolution acts on the gathered vectors, the
    projection on the few vectors that are handed back, and the map's average joins the attention scores after its
    convolution. Nothing is ever expanded to H×W that is the same everywhere, and the result is that of the layers
    applied in the order of the paper, up to rounding.
    """

    def __init__(
        self,
        channels: int,
        out_channels: int,
        stride: tuple[int, int] = (1, 1),
        heads: int = 8,
        reduction: int = 4,
        scale: float = 1e-4,
        init: Init = "constant",
        **factory: Any,
    ) -> None:
        super().__init__()
        reduced = max(1, channels // reduction)
        self.heads = max(count for count in range(1, heads + 1) if channels % count == 0)
        self.reduce = nn.Conv2d(channels, reduced, 1, **factory)
        self.aggregation = nn.Conv2d(2 * reduced, self.heads, 1, **factory)
        self.broadcast = nn.Conv2d(2 * reduced, self.heads, 1, **factory)
        self.value = nn.Conv2d(channels, channels, 1, **factory)
        self.projection = nn.Conv2d(channels, out_channels, 1, stride=stride, **factory)
        self.norm = nn.BatchNorm2d(out_channels, **factory)
        # The branch starts next to silent, so that pretrained weights keep their meaning.
        if init == "constant":
            nn.init.constant_(self.norm.weight, scale)
        else:
            nn.init.normal_(self.norm.weight, std=scale)

    def forward(self, x: Tensor) -> Tensor:
        """Return what the branch adds to the convolution's output."""
        # projection(x + values · broadcast): the inner residual and what the heads hand back, summed after projecting.
        added: Tensor = self.norm(self.projection(x) + self.handed_back(x))
        return added

    def handed_back(self, x: Tensor) -> Tensor:
        """What the heads hand back to every position, projected."""
        local = F.relu(self.reduce(x))
        average = local.mean((2, 3))
        # Softmax over the positions, in float32 whatever the precision around it: it normalises thousands of them.
        aggregation = _scores(self.aggregation, local, average).flatten(2).float().softmax(-1).to(x.dtype)
        row_step, column_step = self.projection.stride
        broadcast = _scores(self.broadcast, local, average).sigmoid()[..., ::row_step, ::column_step]

        gathered = torch.einsum("bhp,bcp->bhc", aggregation, x.flatten(2))
        value_weight = self.value.weight.reshape(self.heads, -1, x.shape[1])
        values = torch.einsum("bhc,hdc->bhd", gathered, value_weight)
        if self.value.bias is not None:  # enters once: the aggregation weights of a head sum to one
            values = values + self.value.bias.view(self.heads, -1)
        projection_weight = self.projection.weight.reshape(-1, self.heads, x.shape[1] // self.heads)
        projected = torch.einsum("bhd,ohd->bho", values, projection_weight)
        return torch.einsum("bho,bhrc->borc", projected, broadcast)


def _scores(attention: nn.Conv2d, local: Tensor, average: Tensor) -> Tensor:
    """1×1 convolution of the local features and their spatial average, without expanding the average."""
    reduced = local.shape[1]
    constant = F.linear(average, attention.weight[:, reduced:, 0, 0], attention.bias)
    return F.conv2d(local, attention.weight[:, :reduced]) + constant[..., None, None]


class LgConv(nn.Module):
    """``conv(x) + global_branch(x)``: a convolution that also sees the whole map.

    Shapes: input B×C×H×W, output that of ``conv``. Device, dtype and training mode of the branch follow ``conv``.

    >>> block = LgConv(nn.Conv2d(64, 64, 3, padding=1))
    >>> block(torch.zeros(2, 64, 7, 5)).shape
    torch.Size([2, 64, 7, 5])
    """

    def __init__(
        self, conv: nn.Conv2d, heads: int = 8, reduction: int = 4, scale: float = 1e-4, init: Init = "constant"
    ) -> None:
        super().__init__()
        self.conv = conv
        self.global_branch = GlobalBranch(
            conv.in_channels,
            conv.out_channels,
            (conv.stride[0], conv.stride[1]),
            heads,
            reduction,
            scale,
            init,
            device=conv.weight.device,
            dtype=conv.weight.dtype,
        )
        self.train(conv.training)

    def forward(self, x: Tensor) -> Tensor:
        """Return the local and the global answer, added."""
        added: Tensor = self.conv(x) + self.global_branch(x)
        return added


def add_lgconv(
    model: nn.Module,
    heads: int = 8,
    reduction: int = 4,
    scale: float = 1e-4,
    init: Init = "constant",
    under: Collection[str] = ("",),
) -> nn.Module:
    """Put a global branch beside every plain 3×3 convolution of ``model``, in place.

    Wrapped are ungrouped 3×3 convolutions with at least 32 input channels that keep the size of the map (or divide it
    by their stride). Stems stay plain, and a convolution that has its branch already is left alone.

    Args:
        model: Any network; pretrained weights are loaded before, so that their names still fit.
        heads: Attention heads; a layer takes the largest divisor of its channels up to this.
        reduction: The attention is computed on this many times fewer channels.
        scale: How loud the branch starts: the weight of its BatchNorm.
        init: ``"constant"`` starts every channel at ``scale`` (the paper), ``"normal"`` draws from N(0, scale²) (its
            code).
        under: Names of modules: only convolutions at or below one of them are wrapped. Default: anywhere.

    Returns:
        The same model; its output has hardly changed.

    Raises:
        ConfigError: If there is nothing to wrap.
    """
    if init not in ("constant", "normal"):
        raise ConfigError(f"LgConv starts 'constant' or 'normal', not {init!r}.")
    if heads < 1 or reduction < 1:
        raise ConfigError(f"LgConv needs at least 1 head and a reduction of at least 1, not {heads} and {reduction}.")
    # Read before anything is changed. By identity: a convolution that is used in two places keeps being one.
    convolutions = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, nn.Conv2d) and any(f"{name}.".startswith(f"{top}." if top else "") for top in under)
    }
    wrapped: dict[nn.Module, LgConv] = {}
    for name, conv in convolutions.items():
        owner = model.get_submodule(name.rpartition(".")[0])
        if name and not isinstance(owner, LgConv | GlobalBranch) and not _in_stem(name) and _is_plain(conv):
            wrapped[conv] = LgConv(conv, heads, reduction, scale, init)
    for module in list(model.modules()):
        for name, child in list(module._modules.items()):
            if child in wrapped:
                setattr(module, name, wrapped[child])
    if not wrapped and not any(isinstance(module, LgConv) for module in model.modules()):
        raise ConfigError(_why_nothing(model, list(convolutions.values())))
    return model


def _in_stem(name: str) -> bool:
    top = name.partition(".")[0]
    return top in ("conv1", "conv_stem") or top.startswith("stem")


def _is_plain(conv: nn.Conv2d) -> bool:
    # `same_pad`: timm's weight-standardised convolutions; like Conv2dSame they pad inside forward.
    pads_itself = isinstance(conv, Conv2dSame) or getattr(conv, "same_pad", False)
    keeps_size = pads_itself or conv.padding in (conv.dilation, "same")
    return conv.kernel_size == (3, 3) and conv.groups == 1 and conv.in_channels >= MINIMUM_CHANNELS and keeps_size


def _why_nothing(model: nn.Module, convolutions: list[nn.Conv2d]) -> str:
    square = [conv for conv in convolutions if conv.kernel_size == (3, 3)]
    grouped = sum(conv.groups > 1 for conv in square)
    if square:
        reason = (
            f"of its {len(square)} 3×3 convolutions {grouped} are grouped, and the others belong to the stem, have "
            f"fewer than {MINIMUM_CHANNELS} input channels or change the size of the map"
        )
    else:
        reason = "it has no 3×3 convolution"
    return (
        f"LgConv finds nothing to wrap in {type(model).__name__}: {reason}. Take a backbone of plain 3×3 convolutions "
        "(resnet50, resnet101, resnet101_clip, vgg16, densenet121 …), or leave LgConv out."
    )
