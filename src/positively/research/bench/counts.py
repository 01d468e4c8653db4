"""Table 2: number of labels that training from positives alone saves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from positively.labels import NEGATIVE, POSITIVE, LabelTable
from positively.report import Table
from positively.research.bench.published import MISPRINT, TABLE_2
from positively.research.bench.tables import NOTHING


@dataclass(frozen=True)
class Labels:
    """Number of known positives and negatives."""

    positives: int
    negatives: int

    @property
    def total(self) -> int:
        """Number of labels of a method that uses both."""
        return self.positives + self.negatives

    @property
    def reduction(self) -> float:
        """Share of the labels that a positive-only method does not need; NaN without labels."""
        return self.negatives / self.total if self.total else math.nan


@dataclass(frozen=True)
class LabelCounts:
    """Labels of a table at one known ratio, counted in two ways."""

    ratio: float
    seed: int
    rounded: Labels
    """Ratio × total, rounded down, as in the paper."""
    drawn: Labels
    """Labels that the random mask of the benchmark keeps."""


def rounded_down(total: int, ratio: float) -> int:
    """Number of labels at a known ratio, as computed in the paper.

    Example:
        >>> rounded_down(241_035, 0.1), rounded_down(6_381_605, 0.5), rounded_down(100, 0.29)
        (24103, 3190802, 29)
    """
    return math.floor(Fraction(str(ratio)) * total)  # in floating point, 0.29 × 100 is 28.999…


def label_counts(table: LabelTable, ratios: Sequence[float] = (0.1, 0.5, 1.0), seed: int = 0) -> list[LabelCounts]:
    """Count the known labels of a complete table at each ratio."""
    positives, negatives = table.total(POSITIVE), table.total(NEGATIVE)
    counts = []
    for ratio in ratios:
        rounded = Labels(rounded_down(positives, ratio), rounded_down(negatives, ratio))
        masked = table.with_known_ratio(ratio, seed)
        counts.append(LabelCounts(ratio, seed, rounded, Labels(masked.total(POSITIVE), masked.total(NEGATIVE))))
    return counts


def table_2(counts: Sequence[LabelCounts], dataset: str, family: str = "coco") -> Table:
    """Build Table 2: labels used by positive-only and by other methods, with those of the paper for MS-COCO."""
    ratios = [f"{100 * count.ratio:g} %" for count in counts]
    head = ("", *(f"{who}, {ratio}" for who in ("Positives only", "Both") for ratio in ratios))
    seeds = sorted({count.seed for count in counts})
    drawn = f"As the mask draws them (seed {', '.join(map(str, seeds))})"
    rows: list[tuple[str, ...]] = [("Ratio × total, rounded down as in the paper",)]
    rows += _block([count.rounded for count in counts])
    rows += [(drawn,), *_block([count.drawn for count in counts])]
    if family == "coco":  # the paper has no counts for other datasets
        rows += [("As printed in the paper: MS-COCO, 82,783 images",), *_printed_block([c.ratio for c in counts])]
    title = f"Table 2: {dataset}, annotated labels used in training by known ratio"
    return Table(title, head, tuple(rows), (MISPRINT,) if family == "coco" else ())


def _printed_block(ratios: Sequence[float]) -> list[tuple[str, ...]]:
    """Figures of the paper; a reduction that contradicts its own counts is marked as a misprint."""
    printed = {figures.ratio: figures for figures in TABLE_2}
    paper = [printed.get(ratio) for ratio in ratios]
    rows = _block([None if figures is None else Labels(figures.positives, figures.negatives) for figures in paper])
    reductions = []
    for figures, real in zip(paper, rows[-1][1:], strict=False):
        text = _percent(figures.reduction if figures else math.nan)
        reductions.append(text if text == real else f"{text} (misprint: {real})")
    return [*rows[:-1], ("Reduction", *reductions, *(NOTHING,) * len(ratios))]


def _block(labels: Sequence[Labels | None]) -> list[tuple[str, ...]]:
    """Positive, negative, total and reduction, for positive-only methods and for both."""
    number = [NOTHING if count is None else f"{count.positives:,}" for count in labels]
    negatives = [NOTHING if count is None else f"{count.negatives:,}" for count in labels]
    totals = [NOTHING if count is None else f"{count.total:,}" for count in labels]
    nothing = [NOTHING if count is None else "0" for count in labels]
    reductions = [_percent(math.nan if count is None else count.reduction) for count in labels]
    return [
        ("Positive", *number, *number),
        ("Negative", *nothing, *negatives),
        ("Total", *number, *totals),
        ("Reduction", *reductions, *(NOTHING,) * len(labels)),
    ]


def _percent(share: float) -> str:
    return NOTHING if math.isnan(share) else f"−{100 * share:.1f} %"
