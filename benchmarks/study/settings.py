"""Settings of the study: which labels of a table are known, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks.study import masks
from benchmarks.study.closed import Labels
from benchmarks.study.problem import Problem
from positively.labels import States


@dataclass(frozen=True)
class Setting:
    """A way of hiding labels."""

    name: str
    """As on the command line."""
    title: str
    """As in a table."""
    labels: Callable[[Problem], Labels]
    ratio: float
    """Share of the labels (or positives) that is known."""
    noise: float = 0.0
    """Share of the positives labeled negative before hiding."""
    has_negatives: bool = True
    """Whether negatives are known."""
    answers: float = 0.0
    """In a budget: the number of answers, as a share of the number of positives."""
    plan: str = ""
    """In a budget: how the answers were spent."""


def _masked(mask: Callable[[States, int], States]) -> Callable[[Problem], Labels]:
    """Labels of the whole benchmark, restricted to the images of a smaller table, so that sizes share their masks."""
    return lambda problem: Labels(mask(problem.photos.truth, problem.seed)[problem.rows])


def _uniform(percent: int) -> Setting:
    title = f"{percent} % known" if percent < 100 else "complete"
    ratio = percent / 100
    return Setting(f"uniform-{percent}", title, _masked(partial(masks.uniform, ratio=ratio)), ratio)


def _by_class(percent: int) -> Setting:
    mask = partial(masks.uniform, ratio=percent / 100, spread=0.8)
    return Setting(f"by-class-{percent}", f"{percent} % known, uneven over classes", _masked(mask), percent / 100)


def _flipped(share: int, percent: int) -> Setting:
    mask = partial(masks.flipped, share=share / 100, ratio=percent / 100)
    title = f"{share} % of the positives labeled negative, {percent} % known"
    return Setting(f"flipped-{share}-known-{percent}", title, _masked(mask), percent / 100, share / 100)


def _sure(percent: int) -> Setting:
    def labels(problem: Problem) -> Labels:
        return Labels(masks.sure(problem.truth, problem.seed, percent / 100, problem.sureness))

    return Setting(f"sure-{percent}", f"{percent} %, easiest tags first", labels, percent / 100, has_negatives=False)


def _by_tags(name: str, mask: Callable[..., States], words: str, percent: int) -> Setting:
    labels, ratio = _masked(partial(mask, ratio=percent / 100)), percent / 100
    return Setting(f"{name}-{percent}", f"{percent} %, {words}", labels, ratio, has_negatives=False)


UNIFORM = tuple(_uniform(percent) for percent in (10, 30, 50, 70, 90, 100))
SINGLE = Setting("single", "one positive per image", _masked(masks.single_positive), 0.0, has_negatives=False)
OTHERS = (
    SINGLE,
    _flipped(30, 50),
    _flipped(50, 100),
    *(_by_class(percent) for percent in (10, 30)),
    *(_by_tags("crowded", masks.crowded, "fewer in images with many tags", percent) for percent in (10, 30)),
    *(_by_tags("salient", masks.salient, "most frequent tag of an image first", percent) for percent in (10, 30)),
    *(_sure(percent) for percent in (10, 30)),
)
BIASED = tuple(setting for setting in OTHERS if not setting.has_negatives)
"""Tags that are not missing at random."""
AT_SIZES = UNIFORM[1]
"""The setting in which tables of several sizes are compared."""
