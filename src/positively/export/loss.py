"""What a file of smaller numbers loses, by photos that did not shape it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import numpy as np

from positively.calibration import log_rank
from positively.export.graph import Scores
from positively.labels import POSITIVE, States

MOST_RANK_LOST = 0.1
"""Share of the log-rank that may go. Where ONNX Runtime's settings were compared on photographs, 4 % went with a
quarter of the tags changed, 5 % with a third and 16 % with three quarters: a tenth is past what any use bears."""
MOST_TAGS_CHANGED = 0.5
"""Tags that may change, as a share of those the exact file gives: beyond, the two hardly speak of the same photo."""
_FEW_TAGS = 20
"""Where fewer are given, some may lie on their thresholds by chance: they are taken for so many."""


@dataclass(frozen=True)
class Loss:
    """Scores of a smaller file beside the exact ones."""

    photos: int
    mean_difference: float
    """Of a score."""
    largest_difference: float
    tags: int
    """Given at the thresholds by the exact scores."""
    tags_after: int
    """Given by the file's."""
    changed: int
    """Pairs of photo and class of which only one of them gives the tag."""
    pairs: int
    """Pairs there are."""
    log_rank: float
    """How high known tags rank: mean −log of the share of photos above; NaN where none is known."""
    log_rank_after: float

    @property
    def is_usable(self) -> bool:
        """Whether the file still does what it is for."""
        ranks = not self.log_rank_after < (1 - MOST_RANK_LOST) * self.log_rank  # true of NaN: then the tags decide
        tags = self.changed <= MOST_TAGS_CHANGED * max(self.tags, _FEW_TAGS)
        return bool(np.isfinite(self.mean_difference)) and ranks and tags

    def to_json(self) -> str:
        """For metadata; null where a number is none."""
        return json.dumps({name: value if np.isfinite(value) else None for name, value in asdict(self).items()})

    def __str__(self) -> str:
        told = (
            f"On {self.photos:,} photos that did not shape it, scores differ from the run's by "
            f"{self.mean_difference:.2g} on average and {self.largest_difference:.2g} at most. It gives "
            f"{self.tags_after:,} tags, the run {self.tags:,}; {self.changed:,} of {self.pairs:,} pairs of photo and "
            f"class change ({100 * self.changed / self.pairs:.2g} %)."
        )
        if np.isnan(self.log_rank):
            return f"{told} No tag of these photos is known, so that nothing is told of how high they rank."
        return (
            f"{told} How high known tags rank (mean −log of the share of photos above): {self.log_rank:.3f} before, "
            f"{self.log_rank_after:.3f} after."
        )


def compare(exact: Scores, smaller: Scores, thresholds: Scores, states: States | None) -> Loss:
    """Compare scores N×C at the thresholds C, and by label states N×C if there are any."""
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
