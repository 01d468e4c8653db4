"""CSV, TSV and Parquet tables of tags → label table, with a plain account of what was understood."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from positively.data.assemble import build_matrix, gather_images
from positively.data.columns import find_layout
from positively.data.dialect import RawTable, read_raw_text
from positively.data.images import find_broken
from positively.data.names import name_classes, read_aliases, read_classes
from positively.data.options import ReadOptions
from positively.data.parquet import is_parquet, read_raw_parquet
from positively.data.records import Records, read_records
from positively.errors import ImageError, TableError, and_more
from positively.labels import NEGATIVE, POSITIVE, UNKNOWN, LabelTable

_DEFAULTS = ReadOptions()


def read_table(
    path: str | Path, options: ReadOptions = _DEFAULTS, classes: Sequence[str] | None = None
) -> tuple[LabelTable, list[str]]:
    """Read a table of tags in any of the three usual shapes.

    The shapes are an image and a column of tags, an image and one column a class, and one image-tag pair a line.

    Args:
        path: CSV, TSV or Parquet file.
        options: How to read it.
        classes: Exactly these classes in this order, as those of a trained model; wins over ``options.classes``.

    Returns:
        The table, and the lines that tell what was understood.

    Raises:
        TableError: The table cannot be understood, or contradicts itself.
        ImageError: Images are missing or broken, and the options do not say to leave them out.
    """
    path = Path(path)
    fixed = _fixed_classes(options, classes)
    root = _root(path, options)
    raw = _open(path)
    records = read_records(raw, find_layout(raw, options), options)
    aliases = read_aliases(Path(options.aliases)) if options.aliases is not None else {}
    naming = name_classes(records.spellings, aliases, fixed, options.unknown_tags == "ignore", raw.place)
    gathered = gather_images(records, root, options, raw.place)
    blank = NEGATIVE if options.blank == "negative" else UNKNOWN
    table = LabelTable(
        gathered.images,
        naming.classes,
        build_matrix(records, gathered, naming, blank, raw.place),
        blank,
        root,
        gathered.splits,
        gathered.lines,
        raw.source,
    )
    table, broken = _leave_out_broken(table, options)
    table, rare = _leave_out_rare(table, options.min_count, fixed is not None)
    if not table.counts(POSITIVE).any():
        raise TableError(
            f"{raw.source}: no image carries any tag, so there is nothing to learn from. "
            "Check the columns and the classes, and --min-count."
        )
    told = [_tell_file(raw, records), *records.notes, _tell_size(table), *_tell_states(records, options, table)]
    told += [*naming.notes, *gathered.notes, *broken, *rare, *_tell_parts(table)]
    return table, told


def _open(path: Path) -> RawTable:
    return read_raw_parquet(path) if is_parquet(path) else read_raw_text(path)


def _root(path: Path, options: ReadOptions) -> Path:
    if options.images is None:
        return path.parent
    if not Path(options.images).is_dir():
        raise TableError(f"--images {options.images}: there is no such folder. Pass the folder that holds the images.")
    return Path(options.images)


def _fixed_classes(options: ReadOptions, classes: Sequence[str] | None) -> tuple[str, ...] | None:
    if classes is None:
        return read_classes(Path(options.classes)) if options.classes is not None else None
    twice = [name for name, count in Counter(classes).items() if count > 1]
    if twice or not classes:
        what = f"hold {and_more([repr(name) for name in twice])} more than once" if twice else "are empty"
        raise TableError(f"The classes that were given {what}. Pass each class once.")
    return tuple(classes)


def _leave_out_broken(table: LabelTable, options: ReadOptions) -> tuple[LabelTable, list[str]]:
    broken = find_broken(table.paths) if options.verify else {}
    if not broken:
        return table, []
    listed = [f"'{table.images[row]}' ({table.place(row)}: {reason})" for row, reason in broken.items()]
    if not options.skip_broken:
        raise ImageError(
            f"{len(broken):,} of {len(table):,} images cannot be decoded: {and_more(listed)}. "
            "Repair them, or pass --skip-broken."
        )
    kept = np.setdiff1d(np.arange(len(table)), list(broken))
    if not len(kept):
        raise ImageError(f"{table.source}: none of the images can be decoded: {and_more(listed)}.")
    return table.select(kept), [
        f"Images left out because they cannot be decoded (--skip-broken): {len(broken):,}, {and_more(listed, 3)}."
    ]


def _leave_out_rare(table: LabelTable, min_count: int, is_fixed: bool) -> tuple[LabelTable, list[str]]:
    counts = table.counts(POSITIVE)
    without = [f"'{name}'" for name, count in zip(table.classes, counts, strict=True) if not count]
    if is_fixed:
        return table, [f"Classes that no image carries: {and_more(without)}."] if without else []
    notes = [f"Classes that no image carries were left out: {and_more(without)}."] if without else []
    rare = [f"'{name}' {count}" for name, count in zip(table.classes, counts, strict=True) if 0 < count < min_count]
    if rare:
        notes.append(f"Tags on fewer than {min_count} images were left out (--min-count): {and_more(rare)}.")
    kept = [name for name, count in zip(table.classes, counts, strict=True) if count >= max(min_count, 1)]
    return (table.with_classes(kept) if len(kept) < len(table.classes) else table), notes


def _tell_file(raw: RawTable, records: Records) -> str:
    kind = ", Parquet" if raw.kind == "Parquet" else "" if raw.encoding == "UTF-8" else f", {raw.encoding}"
    header = "" if raw.has_header else ", no header"
    return f"{raw.source}{kind}{header}: {records.shape}."


def _tell_size(table: LabelTable) -> str:
    tags = np.diff(table.positives().indptr)
    none = int((tags == 0).sum())
    without = f"; images without any: {none:,}" if none else ""
    return f"{len(table):,} images, {len(table.classes):,} classes, {tags.mean():.1f} tags an image{without}."


def _tell_states(records: Records, options: ReadOptions, table: LabelTable) -> list[str]:
    told = []
    if records.shape == "one column a class":
        told += [f"An empty cell is {options.blank}."] if "blank" in records.codes else []
    else:
        told.append(f"A tag that is not there is {options.blank}.")
    if "zero" in records.codes:
        hint = "" if options.zero == "negative" else " (if it says that the tag is absent, pass --zero negative)"
        told.append(f"0 is {options.zero}{hint}.")
    if table.blank == UNKNOWN and (absences := table.total(NEGATIVE)):
        told.append(f"Verified absences: {absences:,}.")
    elif table.blank == NEGATIVE and (unknown := table.total(UNKNOWN)):
        told.append(f"Unknown labels: {unknown:,}.")
    return [" ".join(told)] if told else []


def _tell_parts(table: LabelTable) -> list[str]:
    told = []
    if table.splits is not None:
        parts = Counter(table.splits)
        told.append(
            "Splits: " + ", ".join(f"{name} {parts[name]:,}" for name in ("train", "val", "test") if parts[name]) + "."
        )
    counts = table.counts(POSITIVE)
    rarest = [f"'{table.classes[i]}' {counts[i]:,}" for i in np.argsort(counts, kind="stable") if counts[i]][:5]
    return [*told, f"Rarest classes: {', '.join(rarest)}."]
