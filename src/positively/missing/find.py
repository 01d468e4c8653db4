"""Find missing tags from a table with its embeddings, or from the probabilities of any model."""

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

# Probabilities closer to 0 or 1 than this are rounding errors.
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
    """Find the missing tags of a table from leave-one-out scores of a probe.

    Args:
        table: Images and their known tags.
        embeddings: N×D, one row for each image.
        options: Parameters of the fit that are not chosen automatically.
        seed: Seed of landmarks and label folds.
        landmarks: Number of images that the kernel compares each image with.
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
    """Find missing tags from the probabilities of any model.

    Args:
        scores: N×C probabilities, each from a model that did not see the labels of the image, such as in
            cross-validation. Only their order within a class matters; they need not be calibrated.
        states: N×C of +1 positive, 0 unknown, −1 negative.
        images: N names; by default ``image 0`` …
        classes: C names; by default ``class 0`` …
        min_probability: Leave out what is less probable than this.
    """
    checked, checked_states = check_inputs(scores, states)
    if checked.size and not (checked.min() >= 0.0 and checked.max() <= 1.0):
        raise MetricError("Scores must be probabilities between 0 and 1. Apply a sigmoid to logits.")
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
    """Raise if no tag can be missing from a table, or if there is nothing to learn from."""
    if not table.total(UNKNOWN):
        raise ConfigError(
            f"{table.source}: every label is known, so no tag can be missing. If an absent tag may be missing, "
            f"do not pass {option('blank', 'negative')}."
        )
    require_learnable(table)
