"""A calibration together with the scores it was fitted on, saved with the classifier."""

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
    """A calibration and the summary of the out-of-sample scores it was fitted on."""

    calibration: Calibration
    summary: Summary

    def thresholds(self, precision: float | None = None) -> Values:
        """``(C,)`` thresholds on the probability; infinite for a class that is never predicted.

        Args:
            precision: Minimum expected share of correct tags; by default, thresholds maximize the expected F1.
        """
        thresholds = (
            expected_f1_thresholds(self.calibration, self.summary)
            if precision is None
            else precision_thresholds(self.calibration, self.summary, precision)
        )
        return np.where(self.calibration.learned, thresholds, np.inf)

    def expected(self, thresholds: npt.ArrayLike) -> Expected:
        """Expected precision, recall, F1 and number of tags at these thresholds."""
        return expected(self.calibration, self.summary, thresholds)

    def to_arrays(self, name: str) -> dict[str, npt.NDArray[Any]]:
        """Plain arrays for a file, under names that begin with ``name``."""
        return {
            f"{name}.{kind}.{field.name}": np.ascontiguousarray(getattr(part, field.name))
            for kind, part in (("calibration", self.calibration), ("summary", self.summary))
            for field in fields(part)
        }

    @classmethod
    def from_arrays(cls, name: str, arrays: Mapping[str, npt.NDArray[Any]]) -> CalibratedScores:
        """Read the arrays that :meth:`to_arrays` returned."""
        calibration: dict[str, Any] = {
            field.name: arrays[f"{name}.calibration.{field.name}"] for field in fields(Calibration)
        }
        calibration["common_label_frequency"] = calibration["common_label_frequency"].item()
        summary = {field.name: arrays[f"{name}.summary.{field.name}"] for field in fields(Summary)}
        return cls(Calibration(**calibration), Summary(**summary))


@dataclass(frozen=True)
class OutOfSample:
    """Out-of-sample scores of a table's images, and their calibration."""

    scores: npt.NDArray[np.float32]
    """``(N, C)``, with known positives rescaled (see ``rescale_loo``)."""
    calibrated: CalibratedScores
