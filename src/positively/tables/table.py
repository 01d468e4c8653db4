"""CSV, TSV and Parquet tables of tags → label table, with a plain account of what was understood."""

from collections.abc import Sequence
from pathlib import Path

from positively.errors import option
from positively.images.paths import locate, tidy
from positively.labels import NEGATIVE, UNKNOWN, LabelTable
from positively.tables.build import Draft, finish, fixed_classes, image_folder, tell_size
from positively.tables.columns import find_image_column, find_layout
from positively.tables.diagnostics import Report, stop
from positively.tables.dialect import RawTable, read_raw_text
from positively.tables.names import name_classes, read_aliases
from positively.tables.options import ReadOptions
from positively.tables.parquet import is_parquet, read_raw_parquet
from positively.tables.records import Records, read_records

_DEFAULTS = ReadOptions()


def read_table(
    path: str | Path,
    options: ReadOptions = _DEFAULTS,
    classes: Sequence[str] | None = None,
    report: Report = stop,
) -> tuple[LabelTable, list[str]]:
    """Read a table of tags in any of the three usual shapes.

    The shapes are an image and a column of tags, an image and one column a class, and one image-tag pair a line.

    Args:
        path: CSV, TSV or Parquet file.
        options: How to read it.
        classes: Exactly these classes in this order, as those of a trained model; wins over ``options.classes``.
        report: What to do with a problem after which reading can go on; unless told, raise it.

    Returns:
        The table, and the lines that tell what was understood.

    Raises:
        TableError: The table cannot be understood, or contradicts itself.
        ImageError: Images are missing or broken, and the options do not say to leave them out.
    """
    path = Path(path)
    fixed = fixed_classes(options, classes)
    root = image_folder(options) or path.parent
    raw = _open(path)
    records = read_records(raw, find_layout(raw, options), options)
    aliases = read_aliases(Path(options.aliases)) if options.aliases is not None else {}
    naming = name_classes(records.spellings, aliases, fixed, options.unknown_tags == "ignore", raw.place, report)
    blank = NEGATIVE if options.blank == "negative" else UNKNOWN
    draft = Draft(records, naming, root, blank, raw.source, raw.place, keeps_classes=fixed is not None)
    table, notes = finish(draft, options, report)
    told = [_tell_file(raw, records), *records.notes, tell_size(table), *_tell_states(records, options, table)]
    return table, told + notes


def read_image_names(path: str | Path, options: ReadOptions = _DEFAULTS) -> list[str]:
    """Names of the images of a table, once each, in order; whatever else it holds, and whether or not they are there.

    Args:
        path: CSV, TSV or Parquet file; a column of names is enough.
        options: Folder of the images, and their column if it is not found by itself.
    """
    path = Path(path)
    root = image_folder(options) or path.parent
    raw = _open(path)
    column = find_image_column(raw, options)
    names = [cells[column] for _, cells in raw.rows() if cells[column].strip()]
    found = locate(names, root)
    return list(dict.fromkeys(there or tidy(name) for name, there in zip(names, found, strict=True)))


def _open(path: Path) -> RawTable:
    return read_raw_parquet(path) if is_parquet(path) else read_raw_text(path)


def _tell_file(raw: RawTable, records: Records) -> str:
    kind = ", Parquet" if raw.kind == "Parquet" else "" if raw.encoding == "UTF-8" else f", {raw.encoding}"
    header = "" if raw.has_header else ", no header"
    return f"{raw.source}{kind}{header}: {records.shape}."


def _tell_states(records: Records, options: ReadOptions, table: LabelTable) -> list[str]:
    told = []
    if records.shape == "one column a class":
        told += [f"An empty cell is {options.blank}."] if "blank" in records.codes else []
    else:
        told.append(f"A tag that is not there is {options.blank}.")
    if "zero" in records.codes:
        way_out = f" (if it says that the tag is absent, pass {option('zero', 'negative')})"
        hint = "" if options.zero == "negative" else way_out
        told.append(f"0 is {options.zero}{hint}.")
    if table.blank == UNKNOWN and (absences := table.total(NEGATIVE)):
        told.append(f"Verified absences: {absences:,}.")
    elif table.blank == NEGATIVE and (unknown := table.total(UNKNOWN)):
        told.append(f"Unknown labels: {unknown:,}.")
    return [" ".join(told)] if told else []
