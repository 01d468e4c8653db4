"""The base class of formats whose files are rows of cells, such as CSV, Excel and Parquet."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path

from positively.errors import TableError, and_more, option
from positively.images.paths import locate, tidy
from positively.labels import NEGATIVE, UNKNOWN, LabelTable
from positively.tables.build import Draft, finish, fixed_classes, image_folder, tell_size
from positively.tables.columns import find_image_column, find_layout
from positively.tables.diagnostics import Report, stop
from positively.tables.dialect import RawTable, read_text
from positively.tables.formats import TableFormat
from positively.tables.names import name_classes, read_aliases
from positively.tables.options import DEFAULTS, ReadOptions
from positively.tables.records import Records, read_records

__all__ = ["RawTable", "RowFormat", "read_text"]


class RowFormat(TableFormat):
    """A table of named columns, in any of the three usual shapes.

    The shapes are an image and a column of tags, an image and a column for each class, and one image and tag per line.
    The roles of the columns and the separator of tags are detected. If a format has a method ``write`` (see
    :class:`positively.tables.formats.Writer`), ``review`` and ``missing`` write tables in it, otherwise as CSV.
    """

    @abstractmethod
    def open(self, path: Path) -> RawTable:
        """Open a file as named columns of text cells. A cell with several tags may be a JSON list.

        Raises:
            TableError: There is no such file, or it cannot be parsed.
        """

    def read(
        self,
        path: Path,
        options: ReadOptions = DEFAULTS,
        classes: Sequence[str] | None = None,
        report: Report = stop,
    ) -> tuple[LabelTable, list[str]]:
        """Read the labels in any of the shapes."""
        fixed = fixed_classes(options, classes)
        root = image_folder(options) or path.parent
        raw = self.open(path)
        records = read_records(raw, find_layout(raw, options), options)
        aliases = read_aliases(Path(options.aliases)) if options.aliases is not None else {}
        naming = name_classes(records.spellings, aliases, fixed, options.unknown_tags == "ignore", raw.place, report)
        blank = NEGATIVE if options.blank == "negative" else UNKNOWN
        draft = Draft(records, naming, root, blank, raw.source, raw.place, keeps_classes=fixed is not None)
        table, notes = finish(draft, options, report)
        told = [_tell_file(raw, records), *records.notes, tell_size(table), *_tell_states(records, options, table)]
        return table, told + _tell_commas(raw, records, report) + notes

    def images(self, path: Path, options: ReadOptions = DEFAULTS) -> tuple[Path, list[str]]:
        """The names in the column of images, each once, whether or not the images exist. No other column is needed."""
        root = image_folder(options) or path.parent
        raw = self.open(path)
        column = find_image_column(raw, options)
        names = [cells[column] for _, cells in raw.rows() if cells[column].strip()]
        found = locate(names, root)
        return root, list(dict.fromkeys(there or tidy(name) for name, there in zip(names, found, strict=True)))


def _tell_file(raw: RawTable, records: Records) -> str:
    kind = f", {raw.kind}" if raw.kind != "CSV" else "" if raw.encoding == "UTF-8" else f", {raw.encoding}"
    header = "" if raw.has_header else ", no header"
    return f"{raw.source}{kind}{header}: {records.shape}."


def _tell_commas(raw: RawTable, records: Records, report: Report) -> list[str]:
    """Report tags that were perhaps one tag with a comma in it."""
    together = records.always_together() if records.syntax is not None and records.syntax.separator == "," else []
    if not together:
        return []
    found = f"Tags that always occur next to each other: {and_more(together)}."
    fix = (
        f"If two of them are one tag that holds a comma, separate the tags by ';' and pass {option('separator', ';')}."
    )
    report("tags with a comma", TableError(f"{raw.source}: {found} {fix}"), skipped=True)
    return [f"{found} They may be one tag that holds a comma."]


def _tell_states(records: Records, options: ReadOptions, table: LabelTable) -> list[str]:
    told = []
    if records.shape == "one column per class":
        told += [f"An empty cell is {options.blank}."] if "blank" in records.codes else []
    else:
        told.append(f"A tag that is not listed is {options.blank}.")
    if "zero" in records.codes:
        way_out = f" (if it means that the tag is absent, pass {option('zero', 'negative')})"
        hint = "" if options.zero == "negative" else way_out
        told.append(f"0 is {options.zero}{hint}.")
    if table.reviewed is not None:
        told.append(f"Labels from a review or {option('accept_above')} (column 'reviewed'): {table.reviewed.nnz:,}.")
    if table.blank == UNKNOWN and (absences := table.total(NEGATIVE)):
        told.append(f"Verified absences: {absences:,}.")
    elif table.blank == NEGATIVE and (unknown := table.total(UNKNOWN)):
        told.append(f"Unknown labels: {unknown:,}.")
    return [" ".join(told)] if told else []
