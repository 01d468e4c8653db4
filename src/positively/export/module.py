"""What is exported: pixels → scores and tags, with everything in between inside."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from positively.models import Classifier
from positively.models.onnx import for_use


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
        self.classifier = for_use(classifier)
        self.register_buffer("cuts", torch.from_numpy(cuts).float())
        self.requires_grad_(False).eval()

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Scores and tags."""
        scores = self.classifier(images).sigmoid()
        return scores, scores >= self.cuts
