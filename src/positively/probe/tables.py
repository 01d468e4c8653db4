"""A label table and embeddings of its images → a probe: what every verb does with a frozen backbone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from positively.calibration import CalibratedScores, OutOfSample, pooled_log_rank
from positively.embedding.rows import FeatureRows
from positively.labels import UNKNOWN, LabelTable
from positively.options import Positive, Range
from positively.probe.fitting import LANDMARKS, WIDTH, fit
from positively.probe.linalg import WholeImages
from positively.probe.probe import MOST_SCORES, Probe
from positively.probe.series import find_series
from positively.probe.soft import ONE_STEP, SelfTraining

METHOD = "closed-form"
"""The registered name of the probe as a method."""


@dataclass(frozen=True)
class ProbeOptions:
    """What can be fixed in place of being found."""

    width: Positive = WIDTH
    """The kernel is exp(−width · squared distance / mean squared distance)."""
    negatives: bool = True
    """Use known negatives, where there are any; positives alone do without."""
    soft: Annotated[float, Range(minimum=0, maximum=1)] | None = None
    """Share of their probability that unknown labels carry in the second step; 0 is one step, none is chosen."""


def fit_table(
    table: LabelTable,
    features: FeatureRows,
    options: ProbeOptions | None = None,
    *,
    seed: int = 0,
    landmarks: int = LANDMARKS,
    linear: bool = False,
) -> Probe:
    """Fit a probe to a table with content hashes; copies and series are scored without each other.

    Args:
        table: Images and what is known of them.
        features: N×D embeddings, or N×(1+P)×D with those of parts.
        options: What is not to be found.
        seed: Seed of landmarks and label folds.
        landmarks: Images the kernel compares with.
        linear: Fit a plain linear classifier as well.
    """
    options = options or ProbeOptions()
    table = table if options.negatives else table.positives_only()
    return fit(
        features,
        label_states(table),
        groups=find_series(WholeImages(features), copies(table), seed),
        landmarks=landmarks,
        width=options.width,
        step=None if options.soft is None else (SelfTraining(options.soft) if options.soft else ONE_STEP),
        linear=linear,
        seed=seed,
    )


def calibrated_heads(probe: Probe) -> dict[str, CalibratedScores]:
    """What the scores of the kernel classifier and of the linear one mean, by name."""
    parts = {"kernel": probe.kernel} | ({} if probe.linear is None else {"linear": probe.linear})
    return {name: CalibratedScores(part.calibration, part.summary) for name, part in parts.items()}


def first_out_of_sample(probe: Probe) -> OutOfSample | None:
    """Leave-one-out scores of the first step, which order what is missing best; None for a very large table."""
    if np.prod(probe.labels.shape) > MOST_SCORES:
        return None
    scores = probe.first_scores(np.arange(probe.labels.shape[1]))
    return OutOfSample(scores, CalibratedScores(probe.first, probe.first_summary))


def fit_measures(probe: Probe) -> dict[str, float]:
    """How high known tags rank by scores that did not see them, and what the fit chose."""
    parts = {"log_rank": probe.kernel} | ({} if probe.linear is None else {"log_rank_linear": probe.linear})
    found = {name: pooled_log_rank(part.summary) for name, part in parts.items()}
    return {
        **{name: value for name, value in found.items() if math.isfinite(value)},
        "soft": probe.step.strength,
        "filled": float(probe.step.imputes),
        "label_frequency": probe.calibration.common_label_frequency,
        "classes_learned": float(probe.calibration.learned.sum()),
    }


def label_states(table: LabelTable) -> Any:
    """States of a table: sparse, as the table holds them, where most are unknown."""
    return table.offsets if table.blank == UNKNOWN else table.states()


def copies(table: LabelTable) -> npt.NDArray[np.int64] | None:
    """Group of each image by content, if any is there twice: copies must not be scored by each other."""
    contents = table.contents()
    return contents if contents.max(initial=0) < len(contents) - 1 else None
