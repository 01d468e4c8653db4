"""Whether a claim of the paper holds here: two rows, seed by seed, and a word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from positively.bench.results import Result, Spread, select, spread
from positively.bench.tables import NOTHING, show
from positively.report.tables import Table

Word = Literal["holds", "does not hold", "inside the spread", "undecided (one seed)", "not measured"]


@dataclass(frozen=True)
class Verdict:
    """What comparing two rows says; the numbers are fractions."""

    better: Spread | None
    """The row that the claim puts ahead."""
    worse: Spread | None
    ahead: int = 0
    """Seeds in which it is ahead, where both rows have the same number of seeds."""
    percent: bool = True
    """Whether the numbers are shares, to be shown in percent."""

    @property
    def difference(self) -> float:
        """Difference of the means; nan where one of them is missing."""
        return self.better.mean - self.worse.mean if self.better and self.worse else float("nan")

    @property
    def margin(self) -> float:
        """Sum of the half spreads: a difference that is not larger is none."""
        return sum(row.half for row in (self.better, self.worse) if row)

    @property
    def word(self) -> Word:
        """The verdict."""
        if self.better is None or self.worse is None:
            return "not measured"
        if self.is_one_seed:
            return "undecided (one seed)"
        if abs(self.difference) <= self.margin:
            return "inside the spread"
        return "holds" if self.difference > 0 else "does not hold"

    @property
    def is_one_seed(self) -> bool:
        """Whether a row has a single seed, so that nobody knows its spread."""
        return 1 in [row.seeds for row in (self.better, self.worse) if row]

    @property
    def sentence(self) -> str:
        """The numbers behind the word, for the table of claims."""
        if self.better is None or self.worse is None:
            return NOTHING
        sides = f"{show(self.better, self.percent)} against {show(self.worse, self.percent)}"
        numbers = f"{sides}: {self._points(self.difference, '+')}{' points' if self.percent else ''}".replace("-", "−")
        if self.is_one_seed:
            return f"{numbers}; one seed, so the spread is unknown"
        pairs = self.better.seeds
        seeds = f"; ahead in {self.ahead} of {pairs} seeds" if pairs == self.worse.seeds else ""
        return f"{numbers}, half spreads together {self._points(self.margin)}{seeds}"

    def _points(self, value: float, sign: str = "") -> str:
        return f"{100 * value:{sign}.1f}" if self.percent else f"{value:{sign}.3f}"


def verdict(better: Sequence[float], worse: Sequence[float], percent: bool = True) -> Verdict:
    """Compare the row a claim puts ahead with the other one, one number a seed, in the order of the seeds.

    >>> verdict([0.45, 0.46], [0.43, 0.44]).word
    'holds'
    """
    ahead = sum(one > other for one, other in zip(better, worse, strict=False))
    return Verdict(spread(better), spread(worse), ahead, percent)


def compare(
    results: Sequence[Result], better: Mapping[str, Any], worse: Mapping[str, Any], dataset: str, depth: str
) -> Verdict:
    """Compare two sides on the seeds both have.

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
        sides.append({seed: value for seed, value in values.items() if value is not None})
    seeds = sorted(sides[0].keys() & sides[1].keys())
    percent = all("@" not in side.get("measure", "mAP") for side in (better, worse))
    return verdict([sides[0][seed] for seed in seeds], [sides[1][seed] for seed in seeds], percent)


def _value(result: Result, measure: str) -> float | None:
    key, _, epoch = measure.partition("@")
    return result.history[int(epoch)].get(key) if epoch else result.test.get(key)


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
    note = "A difference of means that is not larger than the two half spreads together is no difference."
    rows = tuple(claim.line() for claim in claims)
    return Table(title, ("Claim", "Compared", "Numbers", "Verdict"), rows, (note,), is_text=True)
