"""The one way in: whatever holds labels, a file or a folder → label table."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from positively.errors import TableError
from positively.labels import LabelTable
from positively.tables.diagnostics import Report, stop
from positively.tables.formats import find_format
from positively.tables.options import DEFAULTS, ReadOptions


def read_labels(
    path: str | Path,
    options: ReadOptions = DEFAULTS,
    classes: Sequence[str] | None = None,
    report: Report = stop,
) -> tuple[LabelTable, list[str]]:
    """Read a table of tags, COCO annotations, PASCAL VOC or any other registered format, whichever lies there.

    Args:
        path: CSV, TSV or Parquet file; COCO json, or the folder with its ``annotations``; VOCdevkit or a year of it.
        options: How to read it.
        classes: Exactly these classes in this order, as those of a trained model; wins over ``options.classes``.
        report: What to do with a problem after which reading can go on; unless told, raise it.

    Returns:
        The table, and the lines that tell what was understood (options in them are marked, as in errors).

    Raises:
        TableError: It is none of these, or cannot be understood.
        ImageError: Images are missing or broken, and the options do not say to leave them out.
    """
    path = Path(path)
    found = find_format(path)
    if found is None:
        raise TableError(
            f"{path}: a folder without annotations/instances_<part><year>.json (COCO) and without VOC2007, VOC2012 or "
            "ImageSets/ (PASCAL VOC). Pass such a folder, or the CSV, TSV or Parquet file that holds the tags."
        )
    table, notes = found.read(path, options, classes, report)
    return replace(table, origin=path), notes
