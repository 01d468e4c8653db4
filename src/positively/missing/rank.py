"""Out-of-sample scores and label states → the list of missing tags."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from positively.calibration import Calibration
from positively.labels import POSITIVE, UNKNOWN, States
from positively.missing.listing import ClassCounts, MissingTags, Pairs


def rank_missing(
    scores: npt.NDArray[np.floating],
    states: States,
    calibration: Calibration,
    images: Sequence[str],
    classes: Sequence[str],
) -> MissingTags:
    """List what is probably missing from a table, and which of its tags look wrong.

    Args:
        scores: N×C out-of-sample scores, each made without the image's own label.
        states: N×C label states.
        calibration: What these scores mean.
        images: N names.
        classes: C names.
    """
    targets = calibration.soft_targets(scores, states)
    rows, columns = np.nonzero((states == UNKNOWN) & calibration.learned)
    order = np.argsort(-targets[rows, columns], kind="stable")
    rows, columns = rows[order], columns[order]
    known = (states == POSITIVE).sum(axis=0)
    counts = ClassCounts(
        known=known,
        missing=np.maximum(calibration.positives - known, 0.0),
        at_most=np.maximum(calibration.at_most - known, 0.0),
        learned=calibration.learned,
    )
    likely = calibration.probabilities(scores)
    wrong_rows, wrong_columns = np.nonzero((states == POSITIVE) & calibration.learned)
    worst = np.argsort(likely[wrong_rows, wrong_columns], kind="stable")
    names = tuple(classes)
    wrong = Pairs(images, names, wrong_rows[worst], wrong_columns[worst], likely[wrong_rows, wrong_columns][worst])
    return MissingTags(images, names, rows, columns, targets[rows, columns], counts, wrong)
