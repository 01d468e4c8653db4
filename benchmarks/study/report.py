"""Tables of a study: mean ± standard deviation over the seeds, and paired differences between rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.study import budget, figures, parts, teaching
from benchmarks.study.criteria import CRITERIA
from benchmarks.study.parts import PARTS, ROWS, SWEEPS
from benchmarks.study.reading import Found, compared, read_found
from benchmarks.study.settings import AT_SIZES, BIASED, UNIFORM, Setting
from benchmarks.study.sweep import agreement
from benchmarks.study.variants import Variant
from positively.files import safe_name, write_text
from positively.report import Table
from positively.research.bench.claims import CONFIDENCE, Verdict
from positively.research.bench.results import Result, Spread, spread
from positively.research.bench.tables import NOTHING, SPREAD_NOTE, show

MARKS = {"holds": "▲", "does not hold": "▼", "no difference": "="}
"""Marks of the verdicts on the claim that a row is ahead of the one it is compared with."""
DIFFERENCE_NOTE = (
    "Differences are in points of mAP, paired by seed, with the "
    f"{100 * CONFIDENCE:g} % interval (Student's t): ▲ ahead, ▼ behind, = the interval contains 0."
)


def write_report(part: str, out: Path) -> Path:
    """Write the tables and figures of a part from the stored results; returns the Markdown file."""
    lines = [f"# Part {part}\n", document_text(part, out)]
    for found, _ in _measured_tables(part, out):
        place = safe_name(f"{part}-{found.dataset}-{found.backbone}-{found.size}")
        names = figures.draw(part, found, out / "figures" / place)
        lines += [f"![{name}](figures/{name}.png)\n" for name in names]
    path = out / f"{part}.md"
    write_text(path, "\n".join(lines))
    return path


def document_text(part: str, out: Path) -> str:
    """The tables of a part as a document has them, with each note once at the end."""
    lines, notes = [], []
    for found, tables in _measured_tables(part, out):
        lines.append(f"#### {found.dataset}, {found.backbone}, {found.size:,} images\n")
        lines += [replace(table, notes=()).markdown() for table in tables if table.rows]
        notes += [note for table in tables if table.rows for note in table.notes]
    if notes:
        lines.append("".join(f"- {note}\n" for note in dict.fromkeys(notes)))
    return "\n".join(lines)


def _measured_tables(part: str, out: Path) -> list[tuple[Found, list[Table]]]:
    """The tables of each dataset and backbone that have results."""
    made = [
        (found, criterion_tables(found) if part == "criterion" else row_tables(part, found))
        for found in read_found(out)
    ]
    return [one for one in made if any(len(row) > 1 for table in one[1] for row in table.rows)]


def row_tables(part: str, found: Found) -> list[Table]:
    """MAP and differences of the rows of a part."""
    measured = {setting for setting, _, size in found.cells if size == found.size}
    settings = [setting for setting in PARTS[part] if setting.name in measured]
    if part == "settings":
        # Part "ablation" has the uniform settings of the same rows.
        others = [setting for setting in settings if setting not in UNIFORM]
        return [*_by_setting(part, found, others), *_by_size(part, found)]
    if part == "teaching":
        taught = [setting for setting in settings if _measured(part, found, [setting])]
        return [*(_by_way(found, setting) for setting in taught), _pair(part, found, taught)[1]]
    return _by_answers(found) if part == "budget" else _pair(part, found, settings)


def _pair(part: str, found: Found, settings: Sequence[Setting]) -> list[Table]:
    """Tables of rows × settings with their mean: one of mAP, one of differences."""
    rows, names = _measured(part, found, settings), [setting.name for setting in settings]
    head = ("", *(setting.title for setting in settings), *(("mean",) if len(settings) > 1 else ()))
    means, differences = [], []
    for row in rows:
        values = [found.mean(name, row.name) for name in names]
        average = spread(list(found.averages(names, row.name).values()))
        means.append((row.title, *(show(value) for value in (*values, average)))[: len(head)])
        for other in dict.fromkeys((rows[0], *(one for one in rows if one.name == row.against))):
            if other is row:
                continue
            verdicts = [compared(found.values(name, row.name), found.values(name, other.name)) for name in names]
            verdicts.append(compared(found.averages(names, row.name), found.averages(names, other.name)))
            differences.append((f"{row.title} − {other.title}", *map(difference, verdicts))[: len(head)])
    note = _labels_note(found, settings)
    return [
        Table("mAP on the test images, percent", head, tuple(means), (SPREAD_NOTE, note)),
        Table("Differences in mAP, points", head, tuple(differences), (DIFFERENCE_NOTE,), is_text=True),
    ]


def _by_setting(part: str, found: Found, settings: Sequence[Setting]) -> list[Table]:
    """Table with one line per setting and row."""
    lines: list[tuple[str, ...]] = []
    for setting in settings:
        rows = [row for row in parts.rows_of(part, setting) if found.values(setting.name, row.name)]
        if not rows:
            continue
        lines.append((f"{setting.title} ({_known(found, setting.name, rows[0].name)})",))
        first = found.values(setting.name, rows[0].name)
        for row in rows:
            values = found.values(setting.name, row.name)
            ahead = difference(compared(values, first)) if row is not rows[0] else ""
            lines.append((row.title, show(spread(list(values.values()))), ahead))
    head = ("", "mAP, percent", "difference from the first row")
    notes = (SPREAD_NOTE, DIFFERENCE_NOTE, "In brackets: known positives / known negatives, mean over the seeds.")
    return [Table("By setting", head, tuple(lines), notes, is_text=True)]


def _by_size(part: str, found: Found) -> list[Table]:
    sizes = sorted({size for setting, _, size in found.cells if setting == AT_SIZES.name})
    rows = _measured(part, found, [AT_SIZES])
    if len(sizes) < 2:
        return []
    lines = []
    for row in rows:
        lines.append((row.title, *(show(found.mean(AT_SIZES.name, row.name, size)) for size in sizes)))
    for row in rows[1:]:
        verdicts = [
            compared(found.values(AT_SIZES.name, row.name, size), found.values(AT_SIZES.name, rows[0].name, size))
            for size in sizes
        ]
        lines.append((f"{row.title} − {rows[0].title}", *map(difference, verdicts)))
    head = ("", *(f"{size:,} images" for size in sizes))
    return [Table(f"By size, {AT_SIZES.title}", head, tuple(lines), (SPREAD_NOTE, DIFFERENCE_NOTE), is_text=True)]


def _by_answers(found: Found) -> list[Table]:
    """Tables of plans and rows × answers: mAP, differences to positives alone at the same cost, and labels obtained."""
    first, *_ = budget.VARIANTS
    means, differences, bought = [], [], []
    for plan in dict.fromkeys(setting.plan for setting in budget.SETTINGS):
        same = [setting for setting in budget.SETTINGS if setting.plan == plan]
        for row in _measured("budget", found, same):
            name, values = f"{plan}: {row.title}", [found.values(setting.name, row.name) for setting in same]
            means.append((name, *(show(spread(list(one.values()))) for one in values)))
            if row is first:
                bought.append((plan, *(_known(found, setting.name, row.name) for setting in same)))
            reference = [found.values(setting.name, first.name) for setting in budget.SETTINGS[: len(same)]]
            pairs = zip(values, reference, strict=True)
            if means[0] is not means[-1]:
                differences.append((name, *(difference(compared(one, other)) for one, other in pairs)))
    head = ("", *(f"{share:g} A answers" for share in budget.SHARES))
    note = "A is the number of positives in the table. Differences are from positives alone at the same cost."
    return [
        Table("mAP on the test images by number of answers, percent", head, tuple(means), (SPREAD_NOTE, note)),
        Table(
            f"Differences from {means[0][0] if means else NOTHING}, points",
            head,
            tuple(differences),
            (DIFFERENCE_NOTE,),
            is_text=True,
        ),
        Table("Labels obtained, positives / negatives, mean over the seeds", head, tuple(bought)),
    ]


def _by_way(found: Found, setting: Setting) -> Table:
    """Table of rows × uses of the trained network, and quality of the targets."""
    lines = []
    for row in _measured("teaching", found, [setting]):
        cells = found.cells.get((setting.name, row.name, found.size), {}).values()
        shown = [show(_spread_of(cells, way)) for way in (*teaching.WAYS, teaching.TARGETS)]
        leak = _spread_of(cells, teaching.LEAK)
        lines.append((row.title, *shown, f"{leak.mean:.2f}".replace("-", "−") if leak else NOTHING))
    notes = (
        SPREAD_NOTE,
        "Solved: the probe, with windows, on the embeddings after training; one step, λ of the initial network. "
        "Targets: mAP of the last targets over the unknown labels. Leak: how much higher known tags rank than unknown "
        "ones in the scores that the targets come from (log-rank); well above 0, the scores reveal which labels were "
        "known.",
    )
    return Table(
        f"{setting.title}, mAP, percent", ("", *teaching.WAYS.values(), "targets", "leak"), tuple(lines), notes
    )


def _spread_of(cells: Iterable[Result], measure: str) -> Spread | None:
    return spread([cell.test[measure] for cell in cells if measure in cell.test])


def _known(found: Found, setting: str, row: str) -> str:
    cells = found.cells.get((setting, row, found.size), {}).values()
    counts = [spread([float(cell.labels[kind]) for cell in cells]) for kind in ("positives", "negatives")]
    return " / ".join(f"{one.mean:,.0f}" for one in counts if one) or NOTHING


def criterion_tables(found: Found) -> list[Table]:
    """The mAP lost by choosing λ with each criterion, and its rank correlation with mAP over the grid.

    By known ratio, by size, and for tags that are not missing at random.
    """
    steps = {step: row for step, row in SWEEPS.items() if any(key[1] == row for key in found.cells)}
    cells = {
        (row, setting, size): list(results.values())
        for (setting, row, size), results in found.cells.items()
        if row in steps.values()
    }
    ratios, biased = (
        {one.title: one.name for one in some if any(key[1] == one.name for key in cells)} for some in (UNIFORM, BIASED)
    )
    sizes = {f"{size:,} images": size for size in sorted({size for _, name, size in cells if name in ratios.values()})}
    regret, correlation = "Regret in points of mAP", "Spearman's rank correlation"
    asked: list[tuple[str, dict[str, Any], int, str]] = [
        (f"{regret}; mean over the sizes", dict(ratios), 1, "regret"),
        (f"{regret}; mean over the ratios", dict(sizes), 2, "regret"),
        (f"{correlation} of criterion and mAP over the grid of λ; mean over the ratios", dict(sizes), 2, "correlation"),
    ]
    if biased:
        asked.append((f"{regret}; tags not missing at random", dict(biased), 1, "regret"))
    tables = []
    for title, columns, place, measure in asked:
        lines = []
        for step, row in steps.items():
            for criterion in CRITERIA:
                groups: list[list[float]] = [
                    [
                        getattr(agreement(one.history, criterion), measure)
                        for key, results in cells.items()
                        if key[0] == row and key[place] == column and (place == 1 or key[1] in ratios.values())
                        for one in results
                    ]
                    for column in columns.values()
                ]
                groups.append([value for group in groups for value in group])
                factor = 100 if measure == "regret" else 1
                shown = [f"{factor * sum(one) / len(one):.2f}".replace("-", "−") if one else NOTHING for one in groups]
                lines.append((criterion if len(steps) == 1 else f"{criterion}, {step}", *shown))
        notes = ("Regret: mAP of the best λ − mAP of the chosen λ.",)
        tables.append(Table(title, ("", *columns, "mean"), tuple(lines), notes))
    return tables


def difference(found: Verdict) -> str:
    """Mean difference, its interval and a mark.

    Example:
        >>> from positively.research.bench.claims import verdict
        >>> difference(verdict([0.45, 0.47, 0.46], [0.43, 0.44, 0.43]))
        '+2.67 (+1.23 to +4.10) ▲'
    """
    if not found.differences:
        return NOTHING
    mean, mark = f"{100 * found.difference:+.2f}", MARKS.get(found.word, f", {found.word}")
    if found.is_one_measurement:
        return f"{mean} {mark}".replace("-", "−")
    low, high = found.interval
    return f"{mean} ({100 * low:+.2f} to {100 * high:+.2f}) {mark}".replace("-", "−")


def _measured(part: str, found: Found, settings: Sequence[Setting]) -> list[Variant]:
    return [row for row in ROWS[part] if any(found.values(setting.name, row.name) for setting in settings)]


def _labels_note(found: Found, settings: Sequence[Setting]) -> str:
    names = {setting.name for setting in settings}
    counts = {len(cells) for (name, _, size), cells in found.cells.items() if name in names and size == found.size}
    seeds = " to ".join(str(count) for count in sorted({min(counts), max(counts)})) if counts else "No"
    return f"{seeds} seeds; each seed has its own masks, landmarks and folds."
