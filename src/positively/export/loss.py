"""The loss of quality of a quantized file, measured on images that were not used to calibrate it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import numpy as np

from positively.calibration import log_rank
from positively.export.graph import Scores
from positively.labels import POSITIVE, States

MOST_RANK_LOST = 0.1
"""Largest acceptable loss of the log-rank. In a comparison of settings on photographs, a loss of 4 % came with a
quarter of the tags changed, 5 % with a third and 16 % with three quarters."""
MOST_TAGS_CHANGED = 0.5
"""Largest acceptable share of changed tags, relative to the number of tags of the exact file."""
_FEW_TAGS = 20
"""Minimum number of tags for this share, because with few tags some are near their thresholds by chance."""


@dataclass(frozen=True)
class Loss:
    """Comparison of the scores of a quantized file with the exact ones."""

    photos: int
    mean_difference: float
    """Mean absolute difference of a score."""
    largest_difference: float
    tags: int
    """Number of tags by the exact scores."""
    tags_after: int
    """Number of tags by the scores of the file."""
    changed: int
    """Number of image-class pairs whose tag differs."""
    pairs: int
    """Number of all image-class pairs."""
    log_rank: float
    """Mean −log(rank / N) of the known tags by the exact scores; NaN if none is known."""
    log_rank_after: float
    """The same by the scores of the file."""

    @property
    def is_usable(self) -> bool:
        """Whether the loss is acceptable."""
        ranks = not self.log_rank_after < (1 - MOST_RANK_LOST) * self.log_rank  # true for NaN: then only tags count
        tags = self.changed <= MOST_TAGS_CHANGED * max(self.tags, _FEW_TAGS)
        return bool(np.isfinite(self.mean_difference)) and ranks and tags

    def to_json(self) -> str:
        """JSON for metadata, with null for NaN."""
        return json.dumps({name: value if np.isfinite(value) else None for name, value in asdict(self).items()})

    def __str__(self) -> str:
        told = (
            f"On {self.photos:,} photos that were not used for calibration, its scores differ from the run's by "
            f"{self.mean_difference:.2g} on average and by at most {self.largest_difference:.2g}. It predicts "
            f"{self.tags_after:,} tags, the run {self.tags:,}; {self.changed:,} of {self.pairs:,} image-tag pairs "
            f"change ({100 * self.changed / self.pairs:.2g} %)."
        )
        if np.isnan(self.log_rank):
            return f"{told} The rank of known tags was not compared because these photos have none."
        return (
            f"{told} The log-rank of known tags (higher is better) is {self.log_rank:.3f} before and "
            f"{self.log_rank_after:.3f} after."
        )


def compare(exact: Scores, smaller: Scores, thresholds: Scores, states: States | None) -> Loss:
    """Compare scores N×C at (C,) thresholds and, if given, with label states N×C."""
    difference = np.abs(smaller - exact)
    before, after = exact >= thresholds, smaller >= thresholds
    known = None if states is None else states == POSITIVE
    ranks = [float("nan") if known is None else log_rank(scores, known) for scores in (exact, smaller)]
    return Loss(
        photos=len(exact),
        mean_difference=float(difference.mean()),
        largest_difference=float(difference.max()),
        tags=int(before.sum()),
        tags_after=int(after.sum()),
        changed=int((before != after).sum()),
        pairs=before.size,
        log_rank=ranks[0],
        log_rank_after=ranks[1],
    )
