"""The head of the probe: Gaussian kernel values with landmark images, followed by a linear layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from positively.errors import ConfigError
from positively.labels import LabelTable
from positively.models.heads.base import Head, Pooling
from positively.models.heads.linear import LinearHead, pool_positions, pool_windows
from positively.models.heads.normalization import root_normalize


class KernelHead(Head):
    """Kernel head: pooling, `root_normalize`, Gaussian kernel with landmark images, and a linear layer.

    The kernel values are k(x, l) = exp(−precision · ‖x − l‖²) for each landmark l. A linear layer maps them to scores
    u, and the logits are gain · asinh(u) + offset, because a least-squares score grows like a probability rather than
    its logit. ``linear`` is a plain linear layer on the pooled embeddings, fitted to the same targets, for tools that
    have no kernels.

    With a ``window`` the head also uses parts of the map, u = u(whole) + max u(part), which finds small objects.

    Takes feature maps (B, C, H, W) or pooled embeddings, (B, C) or (B, 1 + parts, C) with a window, and returns logits
    (B, classes).

    Example:
        >>> import torch
        >>> from positively.models import KernelHead
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
        """Create the layers; `positively.probe` chooses the landmarks and solves for the weights.

        Args:
            channels: Number of channels of the map.
            classes: Number of classes.
            pooling: Pooling over positions; "mix" is the mean of average and maximum.
            landmarks: Number of landmark images.
            window: Side of the windows in positions of the map, overlapping by a third; 0 uses the whole map only.
                Stored embeddings grow with the number of windows.
        """
        super().__init__()
        if landmarks < 1:
            raise ConfigError(f"landmarks must be at least 1, not {landmarks}.")
        if window < 0:
            raise ConfigError(f"window must be at least 0, not {window}.")
        self.pooling, self.window = pooling, window
        self.register_buffer("landmarks", torch.zeros(landmarks, channels))
        self.register_buffer("precision", torch.ones(()))
        self.register_buffer("gain", torch.ones(classes))
        self.register_buffer("offset", torch.zeros(classes))
        self.kernel_linear = nn.Linear(landmarks, classes)
        self.linear = nn.Linear(channels, classes)
        self.start("default")

    def setup(self, table: LabelTable) -> None:
        """Reduce the landmarks to the number of images in small tables."""
        count = min(len(self.landmarks), len(table))
        self.landmarks = self.landmarks[:count].clone()
        layer = nn.Linear(count, self.kernel_linear.out_features)
        self.kernel_linear = layer.to(self.landmarks)
        self.saved_options = {**self.saved_options, "landmarks": count}
        self.start("default")

    @property
    def feature_key(self) -> str:
        """Pooling of the stored embeddings; without a window as for the linear head."""
        return f"{self.pooling}, windows of {self.window}" if self.window else self.pooling

    def pool(self, feature_map: Tensor) -> Tensor:
        """Pool (B, C, H, W) to (B, C) or (B, 1 + parts, C); pooled embeddings are returned unchanged."""
        if self.window and feature_map.ndim == 4:
            return pool_windows(feature_map, self.pooling, self.window)
        return pool_positions(feature_map, self.pooling)

    def embed(self, features: Tensor) -> Tensor:
        """Kernel values, shape (B, landmarks), or (B, 1 + parts, landmarks) with a window.

        Never in half precision, because the solution relies on small differences of them.
        """
        with torch.autocast(features.device.type, enabled=False):
            rows = root_normalize(self.pool(features).to(self.landmarks.dtype))
            return gaussian_kernel(rows, self.landmarks, self.precision)

    def classify(self, embedding: Tensor) -> Tensor:
        """Logits of kernel values, shape (B, classes)."""
        with torch.autocast(embedding.device.type, enabled=False):
            scores: Tensor = self.kernel_linear(embedding)
            if self.window:
                scores = scores[:, 0] + scores[:, 1:].amax(1)
            return self.gain * scores.asinh() + self.offset

    def as_linear(self) -> LinearHead:
        """The linear head that was fitted together with this one."""
        channels, classes = self.linear.in_features, self.linear.out_features
        plain = LinearHead(channels, classes, pooling=self.pooling)
        plain.linear.load_state_dict(self.linear.state_dict())
        return plain.to(self.linear.weight.device)


def gaussian_kernel(rows: Tensor, landmarks: Tensor, precision: Tensor | float) -> Tensor:
    """Gaussian kernel values exp(−precision · ‖x − l‖²).

    Args:
        rows: Embeddings, shape (B, D).
        landmarks: Embeddings of the landmarks, shape (M, D).
        precision: Precision of the kernel.

    Returns:
        Kernel values, shape (B, M).

    Example:
        >>> import torch
        >>> from positively.models.heads import gaussian_kernel
        >>> gaussian_kernel(torch.tensor([[0.0, 1.0]]), torch.tensor([[0.0, 1.0], [1.0, 0.0]]), 0.5)
        tensor([[1.0000, 0.3679]])
    """
    squared = rows.square().sum(-1, keepdim=True) + landmarks.square().sum(-1) - 2 * rows @ landmarks.T
    return torch.exp(-precision * squared.clamp_min(0))
