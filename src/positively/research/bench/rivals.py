"""Comparison of many methods with one of them, seed by seed."""

from __future__ import annotations

from collections.abc import Sequence

from positively.errors import and_more
from positively.finetune import create_method
from positively.report import Table
from positively.research.bench.claims import CONFIDENCE, compare
from positively.research.bench.results import Result, select
from positively.research.bench.series import mean_over, row_names
from positively.research.bench.tables import SPREAD_NOTE, percents, show

MARKS = {"holds": " ▲", "no difference": " =", "does not hold": "", "undecided (one seed)": " ?"}
"""Mark after a value: better than the row it is compared with, no difference, worse, or a single seed."""


def rivals_table(results: Sequence[Result], dataset: str, depth: str, against: str, title: str) -> Table:
    """Build a table of mAP by row and known ratio, each compared with the row ``against``.

    Args:
        results: Results of a suite.
        dataset: Dataset to show.
        depth: Depth to show.
        against: The row to compare with, on the common seeds.
        title: Title of the table.

    Returns:
        The table.
    """
    here = select(results, dataset=dataset, depth=depth, noise=0.0)
    ratios = sorted({result.cell.ratio for result in here})
    lines, ahead = [], []
    for name in row_names(here):
        of_row = select(here, row=name)
        cells = []
        for ratio in ratios:
            word = compare(here, {"row": name, "ratio": ratio}, {"row": against, "ratio": ratio}, dataset, depth).word
            cells.append(show(mean_over(of_row, "mAP", [ratio])) + ("" if name == against else MARKS.get(word, "")))
            if word == "holds":
                ahead.append(f"{name} ({100 * ratio:g} %)")
        if not any(result.test for result in of_row):
            cells = [of_row[0].failure, *("" for _ in ratios[1:])]
        mean = mean_over(of_row, "mAP", ratios)
        uses_negatives = any(create_method(result.method, **result.options).uses_negatives for result in of_row[:1])
        sees = "positives, negatives" if uses_negatives else "positives"
        lines.append((name, sees, *cells, show(mean.mean if mean else None)))
    found = f"Ahead of {against}: {and_more(ahead, 40) if ahead else 'none'}."
    marks = (
        f"▲ better than {against}, = no difference, by the {100 * CONFIDENCE:g} % interval (Student's t) of the "
        "differences seed by seed; ? undecided (one seed); no mark: worse."
    )
    return Table(title, ("", "sees", *percents(ratios), "mean"), tuple(lines), (found, marks, SPREAD_NOTE))
