"""What is exported: pixels → scores and tags, with everything in between inside."""

from __future__ import annotations

import copy

import numpy as np
import numpy.typing as npt
import torch
from timm.layers.conv2d_same import Conv2dSame
from torch import Tensor, nn

from positively.models import Classifier, fold_lgconv

SIZE_STEP = 32
"""What sides of images are a multiple of, where an export takes any size: every stage then halves them evenly."""


class ExportModule(nn.Module):
    """Images → scores and tags.

    Shapes: images B×3×H×W, RGB in [0, 1]; scores B×classes in [0, 1]; tags B×classes, whether a score reaches its cut.
    Normalisation, the head, the sigmoid and the cuts are inside, and LgConv is folded.
    """

    cuts: Tensor

    def __init__(self, classifier: Classifier, cuts: npt.NDArray[np.float64]) -> None:
        """Take a copy, so that the run itself stays as it is.

        Args:
            classifier: The trained network.
            cuts: Score from which on a class is given; infinite for one that never is.
        """
        super().__init__()
        self.classifier = copy.deepcopy(classifier).cpu().float().to(memory_format=torch.contiguous_format)
        fold_lgconv(self.classifier)
        self.register_buffer("cuts", torch.from_numpy(cuts).float())
        self.requires_grad_(False).eval()

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Scores and tags."""
        scores = self.classifier(images).sigmoid()
        return scores, scores >= self.cuts


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
        )
        self.conv.weight, self.conv.bias = conv.weight, conv.bias

    def forward(self, x: Tensor) -> Tensor:
        """The convolution."""
        convolved: Tensor = self.conv(self.pad(x))
        return convolved


def pad_evenly(model: nn.Module) -> None:
    """Replace convolutions that pad as TensorFlow does, in place: sides must be multiples of :data:`SIZE_STEP`."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is Conv2dSame:
                setattr(module, name, EvenlyPadded(child))
