"""Many methods beside one: who sees negatives, who is ahead of it and who is not, seed by seed."""

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
"""Behind a number: the row is ahead of the one it is compared with, level with it, behind, or one seed says nothing."""


def rivals_table(results: Sequence[Result], dataset: str, depth: str, against: str, title: str) -> Table:
    """MAP of every row at every ratio, each compared with the row ``against``.

    Args:
        results: Of a suite.
        dataset: Whose results.
        depth: Whose results.
        against: The row the others are compared with, on the seeds that both have.
        title: Of the table.
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
        f"▲ ahead of {against} and = no difference to it, by the {100 * CONFIDENCE:g} % interval (Student's t) of the "
        "differences seed by seed; ? undecided, one seed; without a mark, behind."
    )
    return Table(title, ("", "sees", *percents(ratios), "mean"), tuple(lines), (found, marks, SPREAD_NOTE))
