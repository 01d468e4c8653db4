"""Convolutions that pad as TensorFlow does, made static: what an exported graph would compute anew in every pass."""

from __future__ import annotations

from timm.layers.conv2d_same import Conv2dSame
from torch import Tensor, nn

SIZE_STEP = 32
"""What sides of images are a multiple of, where they are padded evenly: every stage then halves them evenly."""


class EvenlyPadded(nn.Module):
    """What a convolution that pads as TensorFlow does computes of maps whose sides its stride divides.

    Its padding depends on the size of the map, but not among such sizes; as numbers of the graph it would have to be
    computed in every pass.
    """

    def __init__(self, conv: Conv2dSame) -> None:
        super().__init__()
        (rows, columns), (down, across) = conv.kernel_size, conv.stride
        above = max((rows - 1) * conv.dilation[0] + 1 - down, 0)
        beside = max((columns - 1) * conv.dilation[1] + 1 - across, 0)
        self.pad = nn.ZeroPad2d((beside // 2, beside - beside // 2, above // 2, above - above // 2))
        self.conv = nn.Conv2d(
            conv.in_channels,
            conv.out_channels,
            (rows, columns),
            (down, across),
            0,
            (conv.dilation[0], conv.dilation[1]),
            conv.groups,
            device="meta",  # nothing is drawn from the caller's random stream
        )
        self.conv.weight, self.conv.bias = conv.weight, conv.bias

    def forward(self, x: Tensor) -> Tensor:
        """The convolution."""
        convolved: Tensor = self.conv(self.pad(x))
        return convolved


def pad_evenly(model: nn.Module) -> None:
    """Replace convolutions that pad as TensorFlow does, in place: sides must be multiples of `SIZE_STEP`."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is Conv2dSame:
                setattr(module, name, EvenlyPadded(child))
