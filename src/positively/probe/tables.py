"""Fit a probe to a label table and the embeddings of its images."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import scipy

from positively.calibration import CalibratedScores, OutOfSample, pooled_log_rank
from positively.embedding.rows import FeatureRows
from positively.labels import POSITIVE, UNKNOWN, LabelTable
from positively.options import Positive, Range
from positively.probe.fitting import LANDMARKS, WIDTH, fit
from positively.probe.linalg import WholeImages
from positively.probe.probe import MOST_SCORES, Probe
from positively.probe.series import find_series
from positively.probe.soft import ONE_STEP, SelfTraining

# Positives that were not selected by their score, for a class whose reviewed labels are told apart.
_FEWEST = 3

METHOD = "closed-form"
"""The registered name of the probe as a method."""


@dataclass(frozen=True)
class ProbeOptions:
    """Options of the probe that are otherwise chosen automatically."""

    width: Positive = WIDTH
    """The kernel is exp(−width · squared distance / mean squared distance)."""
    negatives: bool = True
    """Use known negatives, if there are any."""
    soft: Annotated[float, Range(minimum=0, maximum=1)] | None = None
    """Weight of the probabilities of unknown labels in the second step; 0 skips that step; by default, it is chosen."""


def fit_table(
    table: LabelTable,
    features: FeatureRows,
    options: ProbeOptions | None = None,
    *,
    seed: int = 0,
    landmarks: int = LANDMARKS,
    linear: bool = False,
) -> Probe:
    """Fit a probe to a table with content hashes; copies and series are left out together.

    Args:
        table: Images and label states.
        features: N×D embeddings, or N×(1+P)×D with parts.
        options: Options that are not chosen automatically.
        seed: Seed of landmarks and label folds.
        landmarks: Number of images that the kernel compares each image with.
        linear: Whether to fit a plain linear classifier too.
    """
    options = options or ProbeOptions()
    table = table if options.negatives else table.positives_only()
    return fit(
        features,
        label_states(table),
        reviewed=reviewed_labels(table),
        groups=find_series(WholeImages(features), copies(table), seed),
        landmarks=landmarks,
        width=options.width,
        step=None if options.soft is None else (SelfTraining(options.soft) if options.soft else ONE_STEP),
        linear=linear,
        seed=seed,
    )


def calibrated_heads(probe: Probe) -> dict[str, CalibratedScores]:
    """Calibrated scores of the kernel classifier and of the linear one, by name."""
    parts = {"kernel": probe.kernel} | ({} if probe.linear is None else {"linear": probe.linear})
    return {name: CalibratedScores(part.calibration, part.summary) for name, part in parts.items()}


def first_out_of_sample(probe: Probe) -> OutOfSample | None:
    """Leave-one-out scores of the first step, which rank missing tags best; None for a very large table."""
    if np.prod(probe.labels.shape) > MOST_SCORES:
        return None
    scores = probe.first_scores(np.arange(probe.labels.shape[1]))
    return OutOfSample(scores, CalibratedScores(probe.first, probe.first_summary))


def fit_measures(probe: Probe) -> dict[str, float]:
    """Rank of the known tags by leave-one-out scores, and the options that the fit chose."""
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
    """States of a table; sparse if most are unknown."""
    return table.offsets if table.blank == UNKNOWN else table.states()


def reviewed_labels(table: LabelTable) -> scipy.sparse.csr_array | None:
    """N×C flags of the labels that were decided because of their score; None if the table lists none.

    They are not known at random: taken as such, they make the tags look nearly complete. A class with too few other
    positives has nothing to compare them with, so there they count as ordinary labels.
    """
    if table.reviewed is None:
        return None
    rows, columns = table.reviewed.nonzero()
    states = np.asarray(table.offsets[rows, columns]).reshape(-1) + int(table.blank)
    selected = np.bincount(columns[states == POSITIVE], minlength=len(table.classes))
    is_used = (states != UNKNOWN) & (table.counts(POSITIVE) - selected >= _FEWEST)[columns]
    flags = np.ones(int(is_used.sum()), dtype=np.int8)
    return scipy.sparse.csr_array((flags, (rows[is_used], columns[is_used])), shape=table.offsets.shape)


def copies(table: LabelTable) -> npt.NDArray[np.int64] | None:
    """Group of each image by content, or None if there are no copies."""
    contents = table.contents()
    return contents if contents.max(initial=0) < len(contents) - 1 else None
