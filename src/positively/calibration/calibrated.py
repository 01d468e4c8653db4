"""What a classifier's scores mean, in one piece that is saved with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from positively.calibration.expected_f1 import Expected, expected, expected_f1_thresholds, precision_thresholds
from positively.calibration.posterior import Calibration
from positively.calibration.summary import Summary
from positively.metrics.average_precision import Values


@dataclass(frozen=True)
class CalibratedScores:
    """A calibration, and the summary of the out-of-sample scores it was made from."""

    calibration: Calibration
    summary: Summary

    def thresholds(self, precision: float | None = None) -> Values:
        """``(C,)`` probabilities from which on a tag is given; infinite where none is.

        Args:
            precision: Wished share of right tags; by default the largest expected F1 of each class.
        """
        thresholds = (
            expected_f1_thresholds(self.calibration, self.summary)
            if precision is None
            else precision_thresholds(self.calibration, self.summary, precision)
        )
        return np.where(self.calibration.learned, thresholds, np.inf)

    def expected(self, thresholds: npt.ArrayLike) -> Expected:
        """What thresholds are expected to do on images like those of the table."""
        return expected(self.calibration, self.summary, thresholds)

    def to_arrays(self, name: str) -> dict[str, npt.NDArray[Any]]:
        """Plain arrays under names that begin with ``name``, to be written to a file."""
        return {
            f"{name}.{kind}.{field.name}": np.ascontiguousarray(getattr(part, field.name))
            for kind, part in (("calibration", self.calibration), ("summary", self.summary))
            for field in fields(part)
        }

    @classmethod
    def from_arrays(cls, name: str, arrays: Mapping[str, npt.NDArray[Any]]) -> CalibratedScores:
        """What :meth:`to_arrays` gave."""
        calibration: dict[str, Any] = {
            field.name: arrays[f"{name}.calibration.{field.name}"] for field in fields(Calibration)
        }
        calibration["common_label_frequency"] = calibration["common_label_frequency"].item()
        summary = {field.name: arrays[f"{name}.summary.{field.name}"] for field in fields(Summary)}
        return cls(Calibration(**calibration), Summary(**summary))


@dataclass(frozen=True)
class OutOfSample:
    """Scores of a table's images, each made without the image's own label, and what they mean."""

    scores: npt.NDArray[np.float32]
    """``(N, C)``, known positives levelled (see ``rescale_loo``)."""
    calibrated: CalibratedScores
