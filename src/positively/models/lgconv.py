"""LgConv: a 3×3 convolution with a parallel global branch ("Local-Global Convolution" in the paper)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

import torch
from timm.layers.conv2d_same import Conv2dSame
from torch import Tensor, nn
from torch.nn import functional as F

from positively.errors import ConfigError

Init = Literal["constant", "normal"]

# A head of the branch needs several channels, and stems have only three.
MINIMUM_CHANNELS = 32


class GlobalBranch(nn.Module):
    """Global branch: aggregates the map into one vector per head and broadcasts it to all positions.

    Takes maps (B, C, H, W) and returns (B, O, ⌈H/stride⌉, ⌈W/stride⌉).

    Three linear maps are moved past the sums over positions to save computation: the value convolution acts on the
    aggregated vectors, the projection on the vectors to broadcast, and the spatial average enters the attention scores
    after its convolution. The result equals that of the layers in the order of the paper, up to rounding.

    Args:
        channels: Number of input channels C.
        out_channels: Number of output channels O.
        stride: Stride of the convolution.
        heads: Maximum number of heads; the largest divisor of the channels is used.
        reduction: Factor by which channels are reduced for the attention.
        scale: Initial weight of the BatchNorm.
        init: Initialisation of that weight, see `add_lgconv`.
        **factory: Device and dtype of the layers.
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
        # The branch starts close to zero, so that pretrained weights keep working.
        if init == "constant":
            nn.init.constant_(self.norm.weight, scale)
        else:
            nn.init.normal_(self.norm.weight, std=scale)

    def forward(self, x: Tensor) -> Tensor:
        """Compute what the branch adds to the output of the convolution."""
        # projection(x + values · broadcast), with both summands projected separately.
        added: Tensor = self.norm(self.projection(x) + self.handed_back(x))
        return added

    def handed_back(self, x: Tensor) -> Tensor:
        """Projected attention part: what the heads broadcast to every position."""
        local = F.relu(self.reduce(x))
        average = local.mean((2, 3))
        # Softmax over thousands of positions, so always in float32.
        aggregation = _scores(self.aggregation, local, average).flatten(2).float().softmax(-1).to(x.dtype)
        row_step, column_step = self.projection.stride
        broadcast = _scores(self.broadcast, local, average).sigmoid()[..., ::row_step, ::column_step]

        gathered = torch.einsum("bhp,bcp->bhc", aggregation, x.flatten(2))
        value_weight = self.value.weight.reshape(self.heads, -1, x.shape[1])
        values = torch.einsum("bhc,hdc->bhd", gathered, value_weight)
        if self.value.bias is not None:  # added once, because the aggregation weights of a head sum to one
            values = values + self.value.bias.view(self.heads, -1)
        projection_weight = self.projection.weight.reshape(-1, self.heads, x.shape[1] // self.heads)
        projected = torch.einsum("bhd,ohd->bho", values, projection_weight)
        return torch.einsum("bho,bhrc->borc", projected, broadcast)


def _scores(attention: nn.Conv2d, local: Tensor, average: Tensor) -> Tensor:
    """1×1 convolution of local features and their spatial average, without expanding the average."""
    reduced = local.shape[1]
    constant = F.linear(average, attention.weight[:, reduced:, 0, 0], attention.bias)
    return F.conv2d(local, attention.weight[:, :reduced]) + constant[..., None, None]


class LgConv(nn.Module):
    """A convolution plus a global branch: ``conv(x) + global_branch(x)``.

    Takes maps (B, C, H, W); the output has the shape of the convolution's. The branch takes device, dtype and training
    mode from ``conv``.

    Args:
        conv: The convolution.
        heads: Maximum number of attention heads.
        reduction: Factor by which channels are reduced for the attention.
        scale: Initial weight of the branch.
        init: Initialisation of that weight, see `add_lgconv`.

    Example:
        >>> import torch
        >>> from positively.models import LgConv
        >>> block = LgConv(torch.nn.Conv2d(64, 64, 3, padding=1))
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
        """Sum of convolution and global branch."""
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
    """Add a global branch to every plain 3×3 convolution of a model, in place.

    Wrapped are ungrouped 3×3 convolutions with at least 32 input channels that keep the size of the map (or divide it
    by their stride). Stems and convolutions that already have a branch are not changed.

    Args:
        model: Any network. Load pretrained weights first, so that their names still match.
        heads: Maximum number of attention heads; each layer uses the largest divisor of its channels.
        reduction: Factor by which channels are reduced for the attention.
        scale: Initial weight of the branch (the weight of its BatchNorm).
        init: ``"constant"`` sets all channels to ``scale`` (paper), ``"normal"`` draws from N(0, scale²) (reference
            code).
        under: Names of modules; only convolutions in one of them are wrapped. Default: all.

    Returns:
        The same model. Its output is almost unchanged at the start.

    Raises:
        ConfigError: If there is no convolution to wrap, or an option is out of range.

    Example:
        >>> import torch
        >>> from positively.models import add_lgconv
        >>> network = add_lgconv(torch.nn.Sequential(torch.nn.Conv2d(64, 64, 3, padding=1)))
        >>> type(network[0]).__name__
        'LgConv'
    """
    if init not in ("constant", "normal"):
        raise ConfigError(f"init of LgConv must be 'constant' or 'normal', not {init!r}.")
    if heads < 1 or reduction < 1:
        raise ConfigError(f"LgConv needs at least 1 head and a reduction of at least 1, not {heads} and {reduction}.")
    # Collected before anything changes, and by identity, so that a shared convolution stays shared.
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
    # `same_pad` marks timm's weight-standardised convolutions, which pad inside forward like Conv2dSame.
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
        f"LgConv cannot be added to {type(model).__name__}: {reason}. Use a backbone with plain 3×3 convolutions "
        "(resnet50, resnet101, resnet101_clip, vgg16, densenet121 …), or disable LgConv."
    )
