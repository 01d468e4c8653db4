"""The fitted classifier as plain arrays, to save and export: embeddings → logits of P(tag | image)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from positively.calibration import Calibration
from positively.embedding.rows import FeatureRows
from positively.errors import ConfigError
from positively.probe.basis import Kernel
from positively.probe.linalg import Double, Single, as_rows, gaussian_kernel, root_normalize, row_blocks
from positively.probe.probe import Probe


class Classifier(Protocol):
    """Maps embeddings to logits."""

    def logits(self, features: FeatureRows) -> Single:
        """Logits B×C of embeddings B×D (B×(1+P)×D with parts)."""


class _Arrays:
    """A dataclass of arrays that can be written to a file."""

    def to_arrays(self, name: str) -> dict[str, npt.NDArray[Any]]:
        """Plain arrays under names that begin with ``name``."""
        parts = {entry.name: getattr(self, entry.name) for entry in fields(self)}  # type: ignore[arg-type]
        return {f"{name}.{key}": np.asarray(value, dtype=np.float32, order="C") for key, value in parts.items()}

    @classmethod
    def from_arrays(cls, name: str, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Read the arrays that :meth:`to_arrays` returned."""
        return cls(**{entry.name: arrays[f"{name}.{entry.name}"] for entry in fields(cls)})  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class KernelClassifier(_Arrays):
    """Scores u = weightᵀ k(x) + bias with a Gaussian kernel k, then logits gain · asinh(u) + offset.

    With parts, u = u(whole) + max u(part).
    """

    landmarks: Single
    """M×D, root-normalized."""
    precision: Single
    """A single number."""
    weight: Single
    """M×C."""
    bias: Single
    gain: Single
    offset: Single

    @classmethod
    def of(cls, probe: Probe) -> KernelClassifier:
        """The kernel classifier of a probe."""
        kernel, calibration = probe.kernel.ridge.basis.embed, probe.kernel.calibration
        if not isinstance(kernel, Kernel):
            raise ConfigError("This probe has no Gaussian kernel, so it cannot be saved as a kernel classifier.")
        weight, bias = probe.kernel.weights(probe.step.factor)
        width = calibration.width
        # With parts, the score is the sum of the score of the whole image and that of its best part.
        center = calibration.center / (2 if probe.kernel.ridge.has_parts else 1)
        single = [weight / width, (bias - center) / width, calibration.slope * width, calibration.offset]
        return cls(kernel.landmarks, np.float32(kernel.precision), *(part.astype(np.float32) for part in single))  # type: ignore[arg-type]

    def logits(self, features: FeatureRows) -> Single:
        """Logits B×C of embeddings B×D (B×(1+P)×D with parts)."""
        rows, landmarks = as_rows(features), self.landmarks.astype(np.float64)
        result = np.empty((len(rows), self.weight.shape[1]), dtype=np.float32)
        for part in row_blocks(len(rows)):
            # Double precision: large weights magnify rounding errors, which depend on an image's place in a block.
            values = root_normalize(np.asarray(rows[part], dtype=np.float64))
            scores = gaussian_kernel(values, landmarks, float(self.precision)) @ self.weight + self.bias
            if scores.ndim == 3:
                scores = scores[:, 0] + scores[:, 1:].max(axis=1)
            result[part] = self.gain * np.arcsinh(scores) + self.offset
        return result


@dataclass(frozen=True, eq=False)
class LinearClassifier(_Arrays):
    """Logits weightᵀ x + bias; parts of images are ignored."""

    weight: Single
    """D×C."""
    bias: Single

    @classmethod
    def of(cls, probe: Probe) -> LinearClassifier:
        """The linear classifier that was fitted together with the kernel classifier."""
        if probe.linear is None:
            raise ConfigError("This probe has no linear classifier. Pass linear=True to fit one.")
        return cls.meaning(*probe.linear.weights(probe.step.factor), probe.linear.calibration)

    @classmethod
    def meaning(cls, weight: Double, bias: Double, calibration: Calibration) -> LinearClassifier:
        """Fold the calibration into weights D×C and biases (C,)."""
        folded = weight * calibration.slope, bias * calibration.slope + calibration.offset
        return cls(*(part.astype(np.float32) for part in folded))

    def logits(self, features: FeatureRows) -> Single:
        """Logits B×C of embeddings B×D."""
        rows = as_rows(features)
        result = np.empty((len(rows), self.weight.shape[1]), dtype=np.float32)
        for part in row_blocks(len(rows)):
            values = np.asarray(rows[part], dtype=np.float32)
            result[part] = (values[:, 0] if values.ndim == 3 else values) @ self.weight + self.bias
        return result
