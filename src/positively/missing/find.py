"""A table with its embeddings, or anybody's probabilities → the list of missing tags."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import scipy

from positively.calibration import calibrate
from positively.embedding.rows import FeatureRows
from positively.errors import ConfigError, MetricError, option
from positively.labels import UNKNOWN, LabelTable
from positively.logs import counted_progress, logger
from positively.metrics.average_precision import check_inputs
from positively.missing.rank import rank_missing
from positively.missing.result import MissingTags
from positively.probe import LANDMARKS, ProbeOptions, fit_table
from positively.probe.series import MOST_IMAGES
from positively.tables.learnable import require_learnable

# Probabilities nearer to 0 or 1 than this are rounding.
_SUREST = 1e-7


def missing_in_table(
    table: LabelTable,
    embeddings: FeatureRows,
    options: ProbeOptions | None = None,
    *,
    seed: int = 0,
    landmarks: int = LANDMARKS,
    min_probability: float = 0.0,
) -> MissingTags:
    """Find what a table lacks, by leave-one-out scores of a probe.

    Args:
        table: Images and what is known of them.
        embeddings: N×D, one row an image.
        options: What of the fit is not to be found.
        seed: Seed of landmarks and label folds.
        landmarks: Images the kernel compares with.
        min_probability: Leave out what is less probable than this.
    """
    require_labels(table)
    with counted_progress("Fitting the probe"):
        probe = fit_table(table, embeddings, options, seed=seed, landmarks=landmarks)
    groups = probe.kernel.ridge.groups
    if groups is not None:
        alike = "Copies" if len(table) > MOST_IMAGES else "Near-duplicates"
        logger.debug(f"{alike}, scored without each other: {len(table) - groups.max() - 1:,} photos.")
    return rank_missing(
        probe.first_scores,
        probe.labels.states,
        probe.first,
        table.images,
        table.classes,
        min_probability=min_probability,
    )


def missing_in_scores(
    scores: npt.ArrayLike,
    states: npt.ArrayLike,
    images: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    *,
    min_probability: float = 0.0,
) -> MissingTags:
    """What is missing, by the probabilities of anybody's model.

    Args:
        scores: N×C probabilities, each by a model that did not see the image's labels (as of cross-validation). Their
            order within a class counts; their height need not be right.
        states: N×C of +1 positive, 0 unknown, −1 negative.
        images: N names; by default ``image 0`` …
        classes: C names; by default ``class 0`` …
        min_probability: Leave out what is less probable than this.
    """
    checked, checked_states = check_inputs(scores, states)
    if checked.size and not (checked.min() >= 0.0 and checked.max() <= 1.0):
        raise MetricError("Scores are probabilities between 0 and 1. Logits become that by a sigmoid.")
    logits = scipy.special.logit(np.clip(checked.astype(np.float64), _SUREST, 1.0 - _SUREST))
    calibration = calibrate(logits, checked_states, leave_one_out=False, frequency_asinh_scale=np.inf)
    rows, columns = checked.shape
    return rank_missing(
        logits,
        checked_states,
        calibration,
        [f"image {row}" for row in range(rows)] if images is None else images,
        [f"class {column}" for column in range(columns)] if classes is None else classes,
        min_probability=min_probability,
    )


def require_labels(table: LabelTable) -> None:
    """Raise if nothing can be missing from a table, or if there is nothing to learn from."""
    if not table.total(UNKNOWN):
        raise ConfigError(
            f"{table.source}: every label is known, so no tag can be missing. If an absent tag may be missing, "
            f"do not pass {option('blank', 'negative')}."
        )
    require_learnable(table)
