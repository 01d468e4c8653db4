"""Read the label table of any file or folder."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from positively.errors import TableError
from positively.labels import LabelTable
from positively.tables.diagnostics import Report, stop
from positively.tables.foreign import recognise
from positively.tables.formats import find_format
from positively.tables.options import DEFAULTS, ReadOptions


def read_labels(
    path: str | Path,
    options: ReadOptions = DEFAULTS,
    classes: Sequence[str] | None = None,
    report: Report = stop,
) -> tuple[LabelTable, list[str]]:
    """Read a table of tags, COCO annotations, PASCAL VOC or any other registered format.

    Args:
        path: CSV, TSV, Excel, Parquet or JSON lines file; COCO json, or the folder with its ``annotations``; VOCdevkit
            or a year of it.
        options: How to read it.
        classes: Exactly these classes in this order, such as those of a trained model. Overrides ``options.classes``.
        report: Called with each problem after which reading can continue; by default it raises.

    Returns:
        The table, and notes on how it was understood (options in them are marked, as in errors).

    Raises:
        TableError: The format is not known, or the file cannot be understood.
        ImageError: Images are missing or broken, and the options do not ask to leave them out.
    """
    path = Path(path)
    found = find_format(path)
    if found is None:
        raise TableError(
            recognise(path)
            or f"{path}: a folder without annotations/instances_<part><year>.json (COCO) and without VOC2007, VOC2012 "
            "or ImageSets/ (PASCAL VOC). Pass such a folder, or the CSV, TSV, Excel, Parquet or JSON lines file with "
            "the tags."
        )
    try:
        table, notes = found.read(path, options, classes, report)
    except TableError as error:
        sentence = recognise(path) if path.is_file() else None
        if sentence is None:
            raise
        raise TableError(sentence) from error
    return replace(table, origin=path), notes
