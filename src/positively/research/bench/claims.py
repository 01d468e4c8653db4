"""Verdicts on the claims of the paper: two rows compared seed by seed."""

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
"""Confidence level of the interval that must exclude 0 for a difference to count."""

VERDICT_NOTES = (
    f"Rows are compared seed by seed. A claim holds if the {100 * CONFIDENCE:g} % interval (Student's t) of the mean "
    "difference is above 0, and does not hold if it is below. Otherwise no difference was found; more seeds may change "
    "that.",
    "Claims are not corrected for multiple testing: of twenty comparisons without a true difference, one is expected "
    "to show one. The interval covers variation between seeds (hidden labels, holdout, training), not datasets.",
)
"""Notes below a table of claims."""


@dataclass(frozen=True)
class Verdict:
    """Result of comparing two rows seed by seed, as fractions."""

    better: Spread | None
    """The row that should be better according to the claim, over the common seeds."""
    worse: Spread | None
    differences: tuple[float, ...] = ()
    """Better − worse, one value per seed. Effects of the seed on both rows (such as hidden labels) cancel."""
    percent: bool = True
    """Whether the values are shares, to be shown in percent."""

    @property
    def difference(self) -> float:
        """Mean of the paired differences; NaN without results."""
        paired = spread(self.differences)
        return paired.mean if paired else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """Student's t interval of the mean difference; NaN for a single measurement."""
        paired = spread(self.differences)
        if paired is None or self.is_one_measurement:
            return math.nan, math.nan
        # stdtrit is the quantile of Student's t; importing scipy.stats takes a second.
        quantile = float(stdtrit(paired.seeds - 1, (1 + CONFIDENCE) / 2))
        margin = quantile * paired.std / math.sqrt(paired.seeds)
        return paired.mean - margin, paired.mean + margin

    @property
    def ahead(self) -> int:
        """Number of seeds in which the row that should be better is better."""
        return sum(difference > 0 for difference in self.differences)

    @property
    def is_one_measurement(self) -> bool:
        """Whether there is a single seed, or several identical ones.

        If the seed changes nothing in either row (no hidden labels, no randomness), ten seeds are ten copies of one
        measurement, and an interval of zero width would be misleading. Equal differences of rows that do vary are real
        measurements.
        """
        if self.better is None or self.worse is None:
            return False
        is_repeated = self.better.std == 0 == self.worse.std and self.difference != 0
        return len(self.differences) == 1 or is_repeated

    @property
    def word(self) -> Word:
        """Verdict on the claim."""
        if not self.differences:
            return "not measured"
        if self.is_one_measurement:
            return "undecided (one seed)"
        low, high = self.interval
        return "holds" if low > 0 else "does not hold" if high < 0 else "no difference"

    @property
    def sentence(self) -> str:
        """Numbers behind the verdict, for the table of claims."""
        if not self.differences:
            return NOTHING
        seeds, unit = len(self.differences), " points" if self.percent else ""
        numbers = f"{show(self.better, self.percent)} against {show(self.worse, self.percent)}: "
        numbers += f"{self._signed(self.difference)}{unit}"
        if seeds == 1:
            return f"{numbers}; one seed, so the error is unknown"
        if self.is_one_measurement:
            return f"{numbers} in each of {seeds} identical seeds, which count as one"
        low, high = (self._signed(end) for end in self.interval)
        return f"{numbers}, {100 * CONFIDENCE:g} % interval {low} to {high}; ahead in {self.ahead} of {seeds} seeds"

    def _signed(self, value: float) -> str:
        # One digit more than the means, for intervals that end near 0.
        return (f"{100 * value:+.2f}" if self.percent else f"{value:+.4f}").replace("-", "−")


def verdict(better: Sequence[float], worse: Sequence[float], percent: bool = True) -> Verdict:
    """Compare two rows seed by seed.

    Args:
        better: Values of the row that should be better, one per seed.
        worse: Values of the other row for the same seeds.
        percent: Whether the values are shares.

    Returns:
        The verdict.

    Example:
        >>> verdict([0.45, 0.47, 0.46], [0.43, 0.44, 0.43]).word
        'holds'
    """
    differences = tuple(one - other for one, other in zip(better, worse, strict=True))
    return Verdict(spread(better), spread(worse), differences, percent)


def compare(
    results: Sequence[Result], better: Mapping[str, Any], worse: Mapping[str, Any], dataset: str, depth: str
) -> Verdict:
    """Compare two sides on their common seeds. Values that are missing or NaN are left out.

    Args:
        results: Results of a suite.
        better: The side that should be better: its ``row``, and ``ratio`` and ``noise`` (default 1 and 0); ``measure``
            is test mAP by default, and ``spread@0`` is a value of the history after the first epoch.
        worse: The other side.
        dataset: Dataset to compare on.
        depth: Depth to compare at.

    Returns:
        The verdict.
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
    return result.history[int(epoch)].get(key) if result.history else None  # diverged cells have no history


@dataclass(frozen=True)
class Claim:
    """One row of the table of claims."""

    claim: str
    """Claim of the paper."""
    compared: str
    """Rows, dataset, depth and ratio that are compared."""
    verdict: Verdict | str
    """Verdict, or the reason why there is none: "not measurable: LgConv on stored embeddings"."""

    def line(self) -> tuple[str, ...]:
        """Claim, comparison, numbers, verdict."""
        if isinstance(self.verdict, str):
            return (self.claim, self.compared, NOTHING, self.verdict)
        return (self.claim, self.compared, self.verdict.sentence, self.verdict.word)


def claims_table(claims: Sequence[Claim], title: str = "Claims of the paper, and what was found here") -> Table:
    """Build the table of claims, one row per claim."""
    rows = tuple(claim.line() for claim in claims)
    return Table(title, ("Claim", "Compared", "Numbers", "Verdict"), rows, VERDICT_NOTES, is_text=True)
