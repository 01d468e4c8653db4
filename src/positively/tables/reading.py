"""The one way in: whatever holds labels, a file or a folder → label table."""

from collections.abc import Sequence
from pathlib import Path

from positively.errors import TableError
from positively.labels import LabelTable
from positively.tables.coco import read_coco
from positively.tables.diagnostics import Report, stop
from positively.tables.options import ReadOptions
from positively.tables.table import read_table
from positively.tables.voc import find_years, is_home, read_voc

_DEFAULTS = ReadOptions()


def read_labels(
    path: str | Path,
    options: ReadOptions = _DEFAULTS,
    classes: Sequence[str] | None = None,
    report: Report = stop,
) -> tuple[LabelTable, list[str]]:
    """Read a table of tags, COCO annotations or PASCAL VOC, whichever lies there.

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
    if path.suffix.lower() == ".json":
        return read_coco(path, options, classes, report)
    if not path.is_dir():
        return read_table(path, options, classes, report)
    # VOC's folder is called Annotations, which some disks do not tell from COCO's annotations.
    if any((path / "annotations").glob("instances_*.json")):
        return read_coco(path, options, classes, report)
    if path.absolute().name == "VOCdevkit" or is_home(path) or find_years(path):
        return read_voc(path, options, classes, report)
    if (path / "annotations").is_dir():
        return read_coco(path, options, classes, report)
    raise TableError(
        f"{path}: a folder without annotations/instances_<part><year>.json (COCO) and without VOC2007, VOC2012 or "
        "ImageSets/ (PASCAL VOC). Pass such a folder, or the CSV, TSV or Parquet file that holds the tags."
    )
