"""Static padding instead of TensorFlow padding, which an exported graph would recompute in every pass."""

from __future__ import annotations

from timm.layers.conv2d_same import Conv2dSame
from torch import Tensor, nn

SIZE_STEP = 32
"""Image sides must be a multiple of this for even padding, so that every stage halves them evenly."""


class EvenlyPadded(nn.Module):
    """A convolution with TensorFlow padding, for maps whose sides are divisible by the stride.

    TensorFlow padding depends on the size of the map, but is constant for such sizes. A constant keeps it out of the
    exported graph.
    """

    def __init__(self, conv: Conv2dSame) -> None:
        super().__init__()
        (rows, columns), (down, across) = conv.kernel_size, conv.stride
        vertical = max((rows - 1) * conv.dilation[0] + 1 - down, 0)
        horizontal = max((columns - 1) * conv.dilation[1] + 1 - across, 0)
        self.pad = nn.ZeroPad2d(
            (horizontal // 2, horizontal - horizontal // 2, vertical // 2, vertical - vertical // 2)
        )
        self.conv = nn.Conv2d(
            conv.in_channels,
            conv.out_channels,
            (rows, columns),
            (down, across),
            0,
            (conv.dilation[0], conv.dilation[1]),
            conv.groups,
            device="meta",  # does not draw from the random generator
        )
        self.conv.weight, self.conv.bias = conv.weight, conv.bias

    def forward(self, x: Tensor) -> Tensor:
        """Compute the convolution."""
        convolved: Tensor = self.conv(self.pad(x))
        return convolved


def pad_evenly(model: nn.Module) -> None:
    """Replace convolutions with TensorFlow padding in place. Image sides must be multiples of `SIZE_STEP`."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is Conv2dSame:
                setattr(module, name, EvenlyPadded(child))
