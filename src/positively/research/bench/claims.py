"""Whether a claim of the paper holds here: two rows, seed by seed, and a word."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from scipy.special import stdtrit

from positively.report import Table
from positively.research.bench.results import Result, Spread, select, spread
from positively.research.bench.tables import NOTHING, show

Word = Literal["holds", "does not hold", "no difference", "undecided (one seed)", "not measured"]

CONFIDENCE = 0.95
"""Of the interval that has to leave 0 out before a difference is called one."""

VERDICT_NOTES = (
    f"Rows are compared seed by seed. A claim holds where the {100 * CONFIDENCE:g} % interval (Student's t) of the "
    "mean difference lies above 0, and does not where it lies below; otherwise no difference was found, which more "
    "seeds may change.",
    "Each claim is judged by itself: of twenty without any true difference, one is called a difference by chance. The "
    "interval covers what a seed changes (labels hidden, images held out, the training), not other datasets.",
)
"""What stands under a table of claims."""


@dataclass(frozen=True)
class Verdict:
    """What comparing two rows says, seed by seed; the numbers are fractions."""

    better: Spread | None
    """The row that the claim puts ahead, over the seeds that both have."""
    worse: Spread | None
    differences: tuple[float, ...] = ()
    """Better − worse, one number a seed: what a seed does to both rows (which labels it hides) cancels."""
    percent: bool = True
    """Whether the numbers are shares, to be shown in percent."""

    @property
    def difference(self) -> float:
        """Mean of the paired differences; nan where there is none."""
        paired = spread(self.differences)
        return paired.mean if paired else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """Student's interval of the mean difference; nan where one measurement says nothing of its error."""
        paired = spread(self.differences)
        if paired is None or self.is_one_measurement:
            return math.nan, math.nan
        # stdtrit is the quantile of Student's t; scipy.stats, which has it too, takes a second to import.
        quantile = float(stdtrit(paired.seeds - 1, (1 + CONFIDENCE) / 2))
        margin = quantile * paired.std / math.sqrt(paired.seeds)
        return paired.mean - margin, paired.mean + margin

    @property
    def ahead(self) -> int:
        """Seeds in which the row that the claim puts ahead is ahead."""
        return sum(difference > 0 for difference in self.differences)

    @property
    def is_one_measurement(self) -> bool:
        """Whether there is a single seed, or several that repeat one.

        Where the seed changes nothing in either row (no label hidden, nothing drawn), ten seeds are ten copies of one
        measurement, and an interval of no width would claim a certainty that nobody has. An equal difference of rows
        that do vary is another matter: there every seed is a measurement, and all of them agree.
        """
        if self.better is None or self.worse is None:
            return False
        is_repeated = self.better.std == 0 == self.worse.std and self.difference != 0
        return len(self.differences) == 1 or is_repeated

    @property
    def word(self) -> Word:
        """The verdict."""
        if not self.differences:
            return "not measured"
        if self.is_one_measurement:
            return "undecided (one seed)"
        low, high = self.interval
        return "holds" if low > 0 else "does not hold" if high < 0 else "no difference"

    @property
    def sentence(self) -> str:
        """The numbers behind the word, for the table of claims."""
        if not self.differences:
            return NOTHING
        seeds, unit = len(self.differences), " points" if self.percent else ""
        numbers = f"{show(self.better, self.percent)} against {show(self.worse, self.percent)}: "
        numbers += f"{self._signed(self.difference)}{unit}"
        if seeds == 1:
            return f"{numbers}; one seed, so that its error is unknown"
        if self.is_one_measurement:
            return f"{numbers} in each of {seeds} seeds, which change nothing here: they count as one"
        low, high = (self._signed(end) for end in self.interval)
        return f"{numbers}, {100 * CONFIDENCE:g} % interval {low} to {high}; ahead in {self.ahead} of {seeds} seeds"

    def _signed(self, value: float) -> str:
        # One digit more than the means have: an interval that ends near 0 is the one that is looked at closely.
        return (f"{100 * value:+.2f}" if self.percent else f"{value:+.4f}").replace("-", "−")


def verdict(better: Sequence[float], worse: Sequence[float], percent: bool = True) -> Verdict:
    """Compare the row a claim puts ahead with the other one, one number a seed, the same seeds in the same order.

    >>> verdict([0.45, 0.47, 0.46], [0.43, 0.44, 0.43]).word
    'holds'
    """
    differences = tuple(one - other for one, other in zip(better, worse, strict=True))
    return Verdict(spread(better), spread(worse), differences, percent)


def compare(
    results: Sequence[Result], better: Mapping[str, Any], worse: Mapping[str, Any], dataset: str, depth: str
) -> Verdict:
    """Compare two sides on the seeds that both have; a number that could not be computed is no number.

    Args:
        results: Of a suite.
        better: The side a claim puts ahead: its ``row``, and ``ratio`` and ``noise`` (1 and 0 unless told); ``measure``
            is mAP on the test images unless told, and ``spread@0`` a number of the history after its first epoch.
        worse: The other side.
        dataset: Whose results.
        depth: Whose results.
    """
    sides = []
    for side in (better, worse):
        place = {"ratio": 1.0, "noise": 0.0, **side}
        measure = place.pop("measure", "mAP")
        found = select(results, dataset=dataset, depth=depth, **place)
        values = {result.cell.seed: _value(result, measure) for result in found}
        sides.append({seed: value for seed, value in values.items() if value is not None and not math.isnan(value)})
    seeds = sorted(sides[0].keys() & sides[1].keys())
    percent = all("@" not in side.get("measure", "mAP") for side in (better, worse))
    return verdict([sides[0][seed] for seed in seeds], [sides[1][seed] for seed in seeds], percent)


def _value(result: Result, measure: str) -> float | None:
    key, _, epoch = measure.partition("@")
    if not epoch:
        return result.test.get(key)
    return result.history[int(epoch)].get(key) if result.history else None  # a cell that diverged has none


@dataclass(frozen=True)
class Claim:
    """One line of the table of claims."""

    claim: str
    """What the paper says."""
    compared: str
    """What stood against what: rows, dataset, depth, ratio."""
    verdict: Verdict | str
    """What came of it, or why nothing can: "not measurable: LgConv on kept features"."""

    def line(self) -> tuple[str, ...]:
        """Claim, comparison, numbers, verdict."""
        if isinstance(self.verdict, str):
            return (self.claim, self.compared, NOTHING, self.verdict)
        return (self.claim, self.compared, self.verdict.sentence, self.verdict.word)


def claims_table(claims: Sequence[Claim], title: str = "Claims of the paper, and what was found here") -> Table:
    """One line a claim."""
    rows = tuple(claim.line() for claim in claims)
    return Table(title, ("Claim", "Compared", "Numbers", "Verdict"), rows, VERDICT_NOTES, is_text=True)
