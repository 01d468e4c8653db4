"""Find the images of the records, and join the lines of each image."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from positively.errors import ImageError, TableError, option, plural
from positively.images.paths import hint, locate
from positively.tables.diagnostics import Report
from positively.tables.options import ReadOptions
from positively.tables.records import Records

# Examples that a message names, in addition to the first.
_EXAMPLES = 5

Place = Callable[[int], str]


@dataclass(frozen=True)
class Gathered:
    """The images that were found, each once, and the row of each record among them (−1: left out)."""

    images: list[str]
    lines: npt.NDArray[np.int64]
    splits: list[str] | None
    row_of: npt.NDArray[np.int64]
    notes: list[str]


def gather_images(records: Records, root: Path, options: ReadOptions, place: Place, report: Report) -> Gathered:
    """Find every image below ``root``, and join the lines of each image."""
    found = locate(records.images, root)
    if not options.find_images:
        found = [name or image for name, image in zip(found, records.images, strict=True)]
    missing = [i for i, name in enumerate(found) if name is None]
    if missing:
        error = _not_found(records, missing, root, place, options.skip_missing_images)
        if len(missing) == len(found):
            raise error
        report("missing images", error, skipped=options.skip_missing_images)
    rows: dict[str, int] = {}
    firsts: list[int] = []
    repeats: list[tuple[int, int]] = []
    row_of = np.full(len(found), -1, dtype=np.int64)
    for record, name in enumerate(found):
        if name is None:
            continue
        row = row_of[record] = rows.setdefault(name, len(rows))
        if row == len(firsts):
            firsts.append(record)
        else:
            repeats.append((firsts[row], record))
    splits = _one_split_each(records, repeats, firsts, place, report)
    notes = [] if records.is_long else _tell_repeats(records, repeats)
    notes += _tell_other_names(records.images, found)
    if missing and options.skip_missing_images:
        count = len({records.images[i] for i in missing})
        notes.append(f"Images left out because they were not found ({option('skip_missing_images', True)}): {count:,}.")
    lines = np.array([records.lines[record] for record in firsts], dtype=np.int64)
    return Gathered(list(rows), lines, splits, row_of, notes)


def _not_found(records: Records, missing: Sequence[int], root: Path, place: Place, is_skipped: bool) -> ImageError:
    first, *others = dict.fromkeys(records.images[i] for i in missing)
    way_out = f" Pass {option('images', 'DIR')}."
    if len(missing) < len(records.images):
        leave_out = f"or leave it out with {option('skip_missing_images', True)}"
        way_out = "" if is_skipped else f" Check the name, pass {option('images', 'DIR')}, {leave_out}."
    return ImageError(
        f"{place(records.lines[missing[0]])}: image '{first}' not found under {root.as_posix().rstrip('/')}/"
        f"{like_this(others)}.{hint(first, root)}{way_out}"
    )


def like_this(others: Sequence[str]) -> str:
    """The number of further cases of a problem, with some examples."""
    listed = ", ".join(others[:_EXAMPLES]) + (" …" if len(others) > _EXAMPLES else "")
    return f" ({len(others):,} more like this: {listed})" if others else ""


def _one_split_each(
    records: Records, repeats: Sequence[tuple[int, int]], firsts: Sequence[int], place: Place, report: Report
) -> list[str] | None:
    splits, images, lines = records.splits, records.images, records.lines
    if splits is None:
        return None
    torn = [(first, again) for first, again in repeats if splits[first] != splits[again]]
    if torn:
        (first, again), others = torn[0], dict.fromkeys(images[again] for _, again in torn)
        error = TableError(
            f"{place(lines[again])}: image '{images[again]}' belongs to '{splits[again]}' here and to "
            f"'{splits[first]}' on line {lines[first]}{like_this(list(others)[1:])}. Keep it in one of them."
        )
        report("images in two splits", error)
    return [splits[record] for record in firsts]


def _tell_repeats(records: Records, repeats: Sequence[tuple[int, int]]) -> list[str]:
    if not repeats:
        return []
    first, again = repeats[0]
    count = len({first for first, _ in repeats})
    return [
        f"Images on more than one line, whose tags were joined: {count:,} (first '{records.images[again]}', "
        f"lines {records.lines[first]} and {records.lines[again]})."
    ]


def _tell_other_names(names: Sequence[str], found: Sequence[str | None]) -> list[str]:
    """Say which names were read as others: with an ending, or without the folder of the images in front."""
    pairs = [(name, there) for name, there in dict(zip(names, found, strict=True)).items() if there is not None]
    longer = [pair for pair in pairs if len(pair[1]) > len(pair[0])]
    shorter = [pair for pair in pairs if pair[0].replace("\\", "/").endswith(f"/{pair[1]}")]
    return [
        f"{what}: {plural(len(changed), 'image')} (first '{changed[0][0]}', read as '{changed[0][1]}')."
        for what, changed in (("Names without an ending", longer), ("Names that repeat the folder", shorter))
        if changed
    ]
