"""What a probe found, as plain arrays: embeddings → logits of P(tag | image), to be saved and to be exported."""

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
    """Embeddings → logits."""

    def logits(self, features: FeatureRows) -> Single:
        """Logits B×C of embeddings B×D (B×(1+P)×D with parts)."""


class _Arrays:
    """Arrays under names, to be written to a file."""

    def to_arrays(self, name: str) -> dict[str, npt.NDArray[Any]]:
        """Plain arrays under names that begin with ``name``."""
        parts = {entry.name: getattr(self, entry.name) for entry in fields(self)}  # type: ignore[arg-type]
        return {f"{name}.{key}": np.asarray(value, dtype=np.float32, order="C") for key, value in parts.items()}

    @classmethod
    def from_arrays(cls, name: str, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """What :meth:`to_arrays` gave."""
        return cls(**{entry.name: arrays[f"{name}.{entry.name}"] for entry in fields(cls)})  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class KernelClassifier(_Arrays):
    """Scores u = weightᵀ k(x) + bias over Gaussian kernel values, then logits gain · asinh(u) + offset.

    With parts, u = u(whole) + max u(part).
    """

    landmarks: Single
    """M×D, root-normalised."""
    precision: Single
    """One number."""
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
            raise ConfigError("This probe has no kernel to be saved.")
        weight, bias = probe.kernel.weights(probe.step.factor)
        width = calibration.width
        # With parts, the score is a sum of two: of the whole image and of its best part.
        center = calibration.center / (2 if probe.kernel.ridge.has_parts else 1)
        single = [weight / width, (bias - center) / width, calibration.slope * width, calibration.offset]
        return cls(kernel.landmarks, np.float32(kernel.precision), *(part.astype(np.float32) for part in single))  # type: ignore[arg-type]

    def logits(self, features: FeatureRows) -> Single:
        """Logits B×C of embeddings B×D (B×(1+P)×D with parts)."""
        rows, landmarks = as_rows(features), self.landmarks.astype(np.float64)
        result = np.empty((len(rows), self.weight.shape[1]), dtype=np.float32)
        for part in row_blocks(len(rows)):
            # Double precision: large weights of either sign magnify rounding, which depends on an image's place.
            values = root_normalize(np.asarray(rows[part], dtype=np.float64))
            scores = gaussian_kernel(values, landmarks, float(self.precision)) @ self.weight + self.bias
            if scores.ndim == 3:
                scores = scores[:, 0] + scores[:, 1:].max(axis=1)
            result[part] = self.gain * np.arcsinh(scores) + self.offset
        return result


@dataclass(frozen=True, eq=False)
class LinearClassifier(_Arrays):
    """Logits weightᵀ x + bias over embeddings as they are; parts of images are not looked at."""

    weight: Single
    """D×C."""
    bias: Single

    @classmethod
    def of(cls, probe: Probe) -> LinearClassifier:
        """The linear classifier that was fitted beside the kernel's."""
        if probe.linear is None:
            raise ConfigError("This probe has no linear classifier. Fit it with linear=True.")
        return cls.meaning(*probe.linear.weights(probe.step.factor), probe.linear.calibration)

    @classmethod
    def meaning(cls, weight: Double, bias: Double, calibration: Calibration) -> LinearClassifier:
        """Weights D×C and biases of scores, with what they mean folded in."""
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
