"""PASCAL VOC folders → label table, from the XML annotations or, where there are none, from the lists of each class."""

import re
from collections.abc import Sequence
from pathlib import Path

from positively.errors import TableError, option
from positively.labels import NEGATIVE, POSITIVE, UNKNOWN, LabelState, LabelTable
from positively.tables.benchmark import Benchmark, benchmark_table, choose_year
from positively.tables.build import image_folder
from positively.tables.diagnostics import Report, stop
from positively.tables.options import ReadOptions
from positively.tables.voc_labels import CLASSES, UNPACK, read_lists, read_rows, read_xml

PARTS = ("train", "val", "trainval", "test")

_DEFAULTS = ReadOptions()
_DIFFICULT = {"unknown": UNKNOWN, "negative": NEGATIVE, "positive": POSITIVE}


def read_voc(
    path: str | Path,
    options: ReadOptions = _DEFAULTS,
    classes: Sequence[str] | None = None,
    report: Report = stop,
) -> tuple[LabelTable, list[str]]:
    """Read a part of PASCAL VOC: ``VOCdevkit``, or one year of it such as ``VOCdevkit/VOC2007``.

    Args:
        path: The folder.
        options: How to read it: ``part``, ``year``, ``difficult`` and ``empty_images`` are for this format.
        classes: Exactly these classes in this order, as those of a trained model; wins over ``options.classes``.
        report: What to do with a problem after which reading can go on; unless told, raise it.

    Returns:
        The table (images in the order of ``ImageSets/Main/<part>.txt``), and the lines that tell about it.

    Raises:
        TableError: The folder is not VOC, or something of it is missing or damaged.
        ImageError: Images are missing or broken, and the options do not say to leave them out.
    """
    home, notes = _find_home(Path(path), options.year)
    lists = home / "ImageSets" / "Main"
    part = options.part or "trainval"
    source, numbers, images = _read_order(lists, part)
    annotations = home / "Annotations"
    has_xml = annotations.is_dir()
    sightings = read_xml(annotations, images, part) if has_xml else read_lists(lists, images, part)
    difficult = sum(only for seen in sightings for only in seen.values())
    notes.append(f"Read from {'the XML annotations' if has_xml else 'the lists of each class'}.")
    if difficult:
        notes.append(f"Classes that an image shows only as difficult are {options.difficult}: {difficult:,}.")
    found = Benchmark(
        f"VOC {year_of(home) or home.name} {part}",
        source,
        "line",
        image_folder(options) or home / "JPEGImages",
        CLASSES,
        [f"{image}.jpg" for image in images],
        numbers,
        [_states(seen, _DIFFICULT[options.difficult]) for seen in sightings],
        notes,
    )
    return benchmark_table(found, options, classes, report)


def year_of(folder: Path) -> int | None:
    """Year of a folder that is named ``VOC2007`` and the like."""
    match = re.fullmatch(r"VOC(\d{4})", folder.absolute().name)
    return int(match[1]) if match else None


def find_years(path: Path) -> dict[int, Path]:
    """Folders of the years in a VOCdevkit, or in the folder that holds it."""
    inside = [folder for kit in (path / "VOCdevkit", path) for folder in kit.glob("VOC[0-9]*") if folder.is_dir()]
    return {year: folder for folder in inside if (year := year_of(folder)) is not None}


def is_home(path: Path) -> bool:
    """Whether this is the folder of one year, by its name or by what is in it."""
    return (path / "ImageSets").is_dir() or (year_of(path) is not None and not find_years(path))


def _find_home(path: Path, asked: int | None) -> tuple[Path, list[str]]:
    if not path.is_dir():
        raise TableError(f"{path}: there is no such folder. Pass VOCdevkit, or VOC2007 in it.")
    if is_home(path):
        if asked is not None and asked != year_of(path):
            raise TableError(
                f"{path}: {option('year', asked)} is not this folder. Leave it out, or pass the folder VOCdevkit."
            )
        return path, []
    years = find_years(path)
    if not years:
        raise TableError(f"{path}: there is no folder VOC2007, VOC2012 or the like in it. {UNPACK}.")
    year, notes = choose_year(years, asked, str(path))
    return years[year], notes


def _read_order(lists: Path, part: str) -> tuple[str, list[int], list[str]]:
    """The list of the images: its name, and its lines and images."""
    if part not in PARTS:
        raise TableError(f"{option('part', part)}: VOC has the parts {', '.join(PARTS)}.")
    if not lists.is_dir():
        raise TableError(f"{lists}: there is no such folder, and it should hold the lists of the images. {UNPACK}.")
    plain = lists / f"{part}.txt"
    files = [plain, *(lists / f"{name}_{part}.txt" for name in CLASSES)]
    file = next((file for file in files if file.is_file()), None)
    if file is None:
        there = [name for name in PARTS if any(lists.glob(f"{name}.txt")) or any(lists.glob(f"*_{name}.txt"))]
        raise TableError(
            f"{lists}: no list of the part {part} (looked for {plain.name} and {files[1].name}); "
            f"there are {', '.join(there) or 'no others'}. Pass {option('part')}, or get the images of that part."
        )
    rows = read_rows(file, 1 if file == plain else 2)
    return file.name, [line for line, _ in rows], [words[0] for _, words in rows]


def _states(seen: dict[int, bool], difficult: LabelState) -> dict[int, LabelState]:
    states = {position: difficult if only else POSITIVE for position, only in seen.items()}
    return {position: state for position, state in states.items() if state != NEGATIVE}
