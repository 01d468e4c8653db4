"""The closed form's head: Gaussian kernel values with landmark images, then one linear layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from positively.errors import ConfigError
from positively.labels import LabelTable
from positively.models.heads.base import Head, Pooling
from positively.models.heads.linear import LinearHead, pool_positions, pool_windows
from positively.models.heads.normalization import root_normalize


class KernelHead(Head):
    """Feature map → logits, by pooling, `root_normalize`, and a Gaussian kernel with some images of the table.

    k(x, l) = exp(−precision · ‖x − l‖²) with each landmark l, a linear layer over these values gives scores u, and the
    logits are gain · asinh(u) + offset: a least-squares score grows like a probability, not like its logit. Beside it
    stands ``linear``, a plain layer over the raw pooled features that is solved for the same targets: the same
    classifier for tools that know no kernel.

    With a ``window`` it looks at parts of the map as well, u = u(whole) + max u(part): a small thing counts that the
    mean over the whole map hides.

    Shapes: input B×C×H×W, or features that were pooled before and stored, B×C (B×(1+parts)×C with a window); output
    B×classes.

    >>> head = KernelHead(channels=8, classes=3, landmarks=5, window=3)
    >>> head.pool(torch.zeros(2, 8, 7, 7)).shape, head(torch.zeros(2, 8, 7, 7)).shape
    (torch.Size([2, 10, 8]), torch.Size([2, 3]))
    """

    is_solved = True
    landmarks: Tensor
    precision: Tensor
    gain: Tensor
    offset: Tensor

    def __init__(
        self, channels: int, classes: int, *, pooling: Pooling = "average", landmarks: int = 2000, window: int = 0
    ) -> None:
        """Make room for the landmarks; `positively.probe` chooses them and solves for the weights.

        Args:
            channels: Channels of the map.
            classes: Number of classes.
            pooling: How the map is pooled over its positions; "mix" is the mean of average and maximum.
            landmarks: How many images of the table every image is compared with.
            window: Side of the parts, in positions of the map; they overlap by a third. 0: the whole map alone. What
                is stored of an image grows by the number of its parts.
        """
        super().__init__()
        if landmarks < 1:
            raise ConfigError(f"A kernel needs at least one landmark, not {landmarks}.")
        if window < 0:
            raise ConfigError(f"A window has 0 positions or more, not {window}.")
        self.pooling, self.window = pooling, window
        self.register_buffer("landmarks", torch.zeros(landmarks, channels))
        self.register_buffer("precision", torch.ones(()))
        self.register_buffer("gain", torch.ones(classes))
        self.register_buffer("offset", torch.zeros(classes))
        self.kernel_linear = nn.Linear(landmarks, classes)
        self.linear = nn.Linear(channels, classes)
        self.start("default")

    def setup(self, table: LabelTable) -> None:
        """A table with fewer images than landmarks lends all of them."""
        count = min(len(self.landmarks), len(table))
        self.landmarks = self.landmarks[:count].clone()
        layer = nn.Linear(count, self.kernel_linear.out_features)
        self.kernel_linear = layer.to(self.landmarks)
        self.saved_options = {**self.saved_options, "landmarks": count}
        self.start("default")

    @property
    def feature_key(self) -> str:
        """Features pooled in this way: without a window the same as the linear head stores."""
        return f"{self.pooling}, windows of {self.window}" if self.window else self.pooling

    def pool(self, feature_map: Tensor) -> Tensor:
        """Pool B×C×H×W to B×C, or B×(1+parts)×C; features that are pooled already pass through."""
        if self.window and feature_map.ndim == 4:
            return pool_windows(feature_map, self.pooling, self.window)
        return pool_positions(feature_map, self.pooling)

    def embed(self, features: Tensor) -> Tensor:
        """Kernel values B×landmarks (B×(1+parts)×landmarks with a window).

        Never in half precision, for what was solved for takes differences of them.
        """
        with torch.autocast(features.device.type, enabled=False):
            rows = root_normalize(self.pool(features).to(self.landmarks.dtype))
            return gaussian_kernel(rows, self.landmarks, self.precision)

    def classify(self, embedding: Tensor) -> Tensor:
        """Logits of kernel values."""
        with torch.autocast(embedding.device.type, enabled=False):
            scores: Tensor = self.kernel_linear(embedding)
            if self.window:
                scores = scores[:, 0] + scores[:, 1:].amax(1)
            return self.gain * scores.asinh() + self.offset

    def as_linear(self) -> LinearHead:
        """The plain head that was solved beside this one."""
        channels, classes = self.linear.in_features, self.linear.out_features
        plain = LinearHead(channels, classes, pooling=self.pooling)
        plain.linear.load_state_dict(self.linear.state_dict())
        return plain.to(self.linear.weight.device)


def gaussian_kernel(rows: Tensor, landmarks: Tensor, precision: Tensor | float) -> Tensor:
    """exp(−precision · ‖x − l‖²) of every row B×D with every landmark M×D: B×M.

    >>> gaussian_kernel(torch.tensor([[0.0, 1.0]]), torch.tensor([[0.0, 1.0], [1.0, 0.0]]), 0.5)
    tensor([[1.0000, 0.3679]])
    """
    squared = rows.square().sum(-1, keepdim=True) + landmarks.square().sum(-1) - 2 * rows @ landmarks.T
    return torch.exp(-precision * squared.clamp_min(0))
