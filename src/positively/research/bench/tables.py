"""Tables of benchmark results, with the figures of the paper."""

from __future__ import annotations

import math
from collections.abc import Sequence

from positively.errors import and_more
from positively.report import Table
from positively.research.bench.published import DATA, RATIOS, TABLE_1, TABLE_3, Published, differences
from positively.research.bench.results import MEASURES, Result, Spread, select
from positively.research.bench.series import Axis, Lines, mean_over, of_rows, over_axis, over_epochs, row_names

NOTHING = "–"
"""Text of an empty cell."""

MEASURE_NAMES = {
    "mAP": "mAP",
    "OF1_tuned": "OF1 at thresholds tuned on complete labels",
    "CF1_tuned": "CF1 at thresholds tuned on complete labels",
    "tags_given": "assigned tags, relative to the true number",
    "sum_of_scores": "sum of scores, relative to the true number",
    "OF1": "OF1",
    "CF1": "CF1",
    "OF1_half": "OF1 at 0.5",
    "CF1_half": "CF1 at 0.5",
    "OF1_oracle": "OF1 oracle, one threshold",
    "CF1_oracle": "CF1 oracle, one threshold",
}
"""Column headers."""

HISTORY_NAMES = {
    "holdout_map": "mAP on held-out images",
    "spread": "standard deviation of the logits",
    "tau": "temperature τ, mean over classes",
}
"""Names of the metrics of a history."""

SPREAD_NOTE = "Mean ± standard deviation over the seeds (n − 1); without ±, one seed."
THRESHOLD_NOTE = (
    "OF1 and CF1: at per-class thresholds chosen on held-out training images; at 0.5; and (oracle) at a single "
    "threshold for all classes, the best on the test labels, separately for OF1 and CF1. The oracle threshold is not "
    "available in practice; as a single threshold it may still be worse than per-class thresholds."
)


def show(value: Spread | float | str | None, percent: bool = True) -> str:
    """Format a value: percent with one decimal, or a plain number; text is unchanged, and a missing value is a dash.

    Example:
        >>> show(0.457), show(Spread(0.5, 0.01, 2)), show(None), show("not measurable"), show(0.457, percent=False)
        ('45.7', '50.0 ± 1.0', '–', 'not measurable', '0.457')
    """
    if isinstance(value, str):
        return value
    if value is None or math.isnan(value.mean if isinstance(value, Spread) else value):
        return NOTHING
    if isinstance(value, Spread):
        deviation = f" ± {value.std:.3f}" if value.seeds > 1 else ""
        return str(value) if percent else f"{value.mean:.3f}{deviation}"
    return f"{100 * value:.1f}" if percent else f"{value:.3f}"


def percents(shares: Sequence[float]) -> list[str]:
    """Shares as column headers: ``10 %``."""
    return [f"{100 * share:g} %" for share in shares]


def table_1(
    results: Sequence[Result],
    dataset: str,
    depth: str,
    rows: Sequence[str] | None = None,
    measures: Sequence[str] = MEASURES,
) -> Table:
    """Build Table 1: mAP at every known ratio below 100 %, and averages over the ratios, with the rows of the paper.

    Args:
        results: Results of a benchmark.
        dataset: Dataset to show.
        depth: Depth to show.
        rows: Names of the rows, in this order; default: all.
        measures: Measures to average. Rows that lack a ratio have no average.

    Returns:
        The table.
    """
    here = of_rows(select(results, dataset=dataset, depth=depth, noise=0.0), rows)
    here = [result for result in here if result.cell.ratio < 1]
    ratios = tuple(sorted({result.cell.ratio for result in here}))
    lines: list[tuple[str, ...]] = []
    for name in row_names(here, rows):
        of_row = select(here, row=name)
        values = [mean_over(of_row, "mAP", [ratio]) for ratio in ratios]
        values += [mean_over(of_row, measure, ratios) for measure in measures]
        lines.append(_line(name, values))
    notes = [_what_ran(here), SPREAD_NOTE, THRESHOLD_NOTE]
    family, some = _family(here), "" if ratios == RATIOS else f" ({len(ratios)} ratios)"
    if some and ratios:
        notes.append(f"Averages are over {', '.join(percents(ratios))} only. † The paper's, over all nine ratios.")
    if family:
        lines.append(_divider(family))
        lines += [_published_line(row, ratios, measures) for row in TABLE_1[family]]
    head = ("", *percents(ratios), *(f"Avg. {MEASURE_NAMES[measure]}{some}" for measure in measures))
    title = f"Table 1: {dataset}, depth {depth}, mAP by known ratio, in percent"
    return Table(title, head, tuple(lines), (*notes, *differences(family)))


def table_3(
    results: Sequence[Result],
    dataset: str,
    depth: str,
    rows: Sequence[str] | None = None,
    measures: Sequence[str] = MEASURES,
) -> Table:
    """Build Table 3: complete labels, with the rows of the paper for MS-COCO."""
    here = of_rows(select(results, dataset=dataset, depth=depth, noise=0.0, ratio=1.0), rows)
    lines = []
    for name in row_names(here, rows):
        of_row = select(here, row=name)
        lines.append(_line(name, [mean_over(of_row, measure, [1.0]) for measure in measures]))
    family = _family(here)
    beneath: tuple[str, ...] = ()
    if family == "coco":  # the paper has no such table for VOC
        lines.append(_divider(family))
        lines += [_line(f"{row.name} (paper)", [row.test.get(measure) for measure in measures]) for row in TABLE_3]
        beneath = differences(family, table=3)
    head = ("", *(MEASURE_NAMES[measure] for measure in measures))
    title = f"Table 3: {dataset}, depth {depth}, complete labels, in percent"
    return Table(title, head, tuple(lines), (_what_ran(here), SPREAD_NOTE, THRESHOLD_NOTE, *beneath))


def sweep(
    results: Sequence[Result],
    dataset: str,
    depth: str,
    rows: Sequence[str] | None = None,
    over: Axis = "ratio",
    measure: str = "mAP",
    at: float | None = None,
    title: str = "",
) -> Table:
    """Build a table of one measure over known ratios or noise; the options are those of ``over_axis``."""
    lines = over_axis(results, dataset, depth, rows, over, measure, at)
    what = "known ratio" if over == "ratio" else "noise (positives flipped to negative)"
    setting = f", {lines.setting}" if lines.setting else ""
    title = title or f"{dataset}, depth {depth}{setting}: {MEASURE_NAMES[measure]} by {what}, in percent"
    return _from_lines(lines, title, percents(lines.places))


def curves(
    results: Sequence[Result],
    key: str = "holdout_map",
    rows: Sequence[str] | None = None,
    title: str = "",
    percent: bool = True,
) -> Table:
    """Build a table of a metric after each epoch. The results must belong to one dataset, depth, ratio and noise."""
    lines = over_epochs(results, key, rows)
    epochs = [f"epoch {epoch:.0f}" for epoch in lines.places]
    return _from_lines(lines, title or f"{HISTORY_NAMES.get(key, key)}, after each epoch", epochs, percent=percent)


def _from_lines(lines: Lines, title: str, heads: Sequence[str], percent: bool = True) -> Table:
    rows = tuple(_line(name, values, percent) for name, values in lines.rows.items())
    return Table(title, ("", *heads), rows, (SPREAD_NOTE,))


def _line(
    name: str,
    values: Sequence[Spread | float | None],
    percent: bool = True,
) -> tuple[str, ...]:
    return (name, *(show(value, percent) for value in values))


def _published_line(row: Published, ratios: tuple[float, ...], measures: Sequence[str]) -> tuple[str, ...]:
    """Row of the paper's table 1 at our ratios; the paper reports F1 only as an average over all nine."""
    cells = [show(row.by_ratio.get(ratio)) for ratio in ratios]
    for measure in measures:
        value = show(row.mean_map(ratios) if measure == "mAP" else row.test.get(measure))
        partial = measure != "mAP" and ratios != RATIOS and value != NOTHING
        cells.append(f"{value}†" if partial else value)
    return (f"{row.name} (paper)", *cells)


def _divider(family: str) -> tuple[str]:
    return (f"As published, not run here: ResNet-101, 448 px, {DATA[family]}",)


def _family(results: Sequence[Result]) -> str:
    return next((result.family for result in results if result.family in DATA), "")


def _what_ran(results: Sequence[Result]) -> str:
    # The size of the holdout varies slightly between seeds.
    images: dict[tuple[str, int], set[int]] = {}
    for result in (result for result in results if not result.failure):
        images.setdefault((result.backbone, result.image_size), set()).add(result.labels.get("images", 0))
    ran = []
    for (backbone, size), counts in sorted(images.items()):
        fewest_most = " to ".join(f"{count:,}" for count in sorted({min(counts), max(counts)}))
        ran.append(f"{backbone} at {size} px on {fewest_most} training images")
    return f"Here: {and_more(ran)}." if ran else "No results yet."
