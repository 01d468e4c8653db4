"""PASCAL VOC folders, read from the XML annotations, or from the lists of each class if there are none."""

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from positively.errors import TableError, and_more, option
from positively.labels import NEGATIVE, POSITIVE, UNKNOWN, LabelState, LabelTable
from positively.tables.benchmark import Benchmark, benchmark_table, choose_year, read_file
from positively.tables.build import image_folder
from positively.tables.diagnostics import Report, stop
from positively.tables.formats import TableFormat
from positively.tables.options import DEFAULTS, ReadOptions

CLASSES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
    *("diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"),
)
"""The 20 classes in the official, alphabetical order."""
_PARTS = ("train", "val", "trainval", "test")

_UNPACK = "Unpack the download again"
_DIFFICULT = {"unknown": UNKNOWN, "negative": NEGATIVE, "positive": POSITIVE}

_Sightings = list[dict[int, bool]]
"""For each image: position of the class → whether all its objects are difficult."""


class VOC(TableFormat):
    """A part of PASCAL VOC: ``VOCdevkit``, or one year of it such as ``VOCdevkit/VOC2007``.

    ``part``, ``year``, ``difficult`` and ``empty_images`` are options of this format. Images come in the order of
    ``ImageSets/Main/<part>.txt``.
    """

    def matches(self, path: Path) -> bool:
        """Whether this is such a folder, by its name or contents, and not one of COCO."""
        # Some disks do not distinguish Annotations of VOC from annotations of COCO.
        if not path.is_dir() or any((path / "annotations").glob("instances_*.json")):
            return False
        return path.absolute().name == "VOCdevkit" or _is_home(path) or bool(_find_years(path))

    def read(
        self,
        path: Path,
        options: ReadOptions = DEFAULTS,
        classes: Sequence[str] | None = None,
        report: Report = stop,
    ) -> tuple[LabelTable, list[str]]:
        """Read one part of one year."""
        home, notes = _find_home(path, options.year)
        lists = home / "ImageSets" / "Main"
        part = options.part or "trainval"
        source, numbers, images = _read_order(lists, part)
        annotations = home / "Annotations"
        has_xml = annotations.is_dir()
        sightings = _read_xml(annotations, images, part) if has_xml else _read_lists(lists, images, part)
        difficult = sum(only for seen in sightings for only in seen.values())
        notes.append(f"Read from {'the XML annotations' if has_xml else 'the lists of each class'}.")
        if difficult:
            notes.append(
                f"Classes whose only objects in an image are difficult, read as {options.difficult}: {difficult:,}."
            )
        found = Benchmark(
            f"VOC {_year_of(home) or home.name} {part}",
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


def _year_of(folder: Path) -> int | None:
    """The year of a folder with a name such as ``VOC2007``."""
    match = re.fullmatch(r"VOC(\d{4})", folder.absolute().name)
    return int(match[1]) if match else None


def _find_years(path: Path) -> dict[int, Path]:
    """The folders of the years in a VOCdevkit, or in the folder that contains it."""
    inside = [folder for kit in (path / "VOCdevkit", path) for folder in kit.glob("VOC[0-9]*") if folder.is_dir()]
    return {year: folder for folder in inside if (year := _year_of(folder)) is not None}


def _is_home(path: Path) -> bool:
    """Whether this is the folder of one year, by its name or contents."""
    return (path / "ImageSets").is_dir() or (_year_of(path) is not None and not _find_years(path))


def _find_home(path: Path, asked: int | None) -> tuple[Path, list[str]]:
    if not path.is_dir():
        raise TableError(f"{path}: no such folder. Pass VOCdevkit, or VOC2007 in it.")
    if _is_home(path):
        if asked is not None and asked != _year_of(path):
            raise TableError(
                f"{path}: {option('year', asked)} is not this folder. Remove the option, or pass the folder VOCdevkit."
            )
        return path, []
    years = _find_years(path)
    if not years:
        raise TableError(f"{path}: it has no folder such as VOC2007 or VOC2012. {_UNPACK}.")
    year, notes = choose_year(years, asked, str(path))
    return years[year], notes


def _read_order(lists: Path, part: str) -> tuple[str, list[int], list[str]]:
    """The list of the images: its name, line numbers and images."""
    if part not in _PARTS:
        raise TableError(f"{option('part', part)}: VOC has the parts {', '.join(_PARTS)}.")
    if not lists.is_dir():
        raise TableError(f"{lists}: no such folder. It should have the lists of the images. {_UNPACK}.")
    plain = lists / f"{part}.txt"
    files = [plain, *(lists / f"{name}_{part}.txt" for name in CLASSES)]
    file = next((file for file in files if file.is_file()), None)
    if file is None:
        there = [name for name in _PARTS if any(lists.glob(f"{name}.txt")) or any(lists.glob(f"*_{name}.txt"))]
        raise TableError(
            f"{lists}: no list of the part {part} (looked for {plain.name} and {files[1].name}); "
            f"there are {', '.join(there) or 'no others'}. Pass {option('part')}, or get the images of that part."
        )
    rows = _read_rows(file, 1 if file == plain else 2)
    return file.name, [line for line, _ in rows], [words[0] for _, words in rows]


def _states(seen: dict[int, bool], difficult: LabelState) -> dict[int, LabelState]:
    states = {position: difficult if only else POSITIVE for position, only in seen.items()}
    return {position: state for position, state in states.items() if state != NEGATIVE}


def _read_rows(file: Path, width: int) -> list[tuple[int, list[str]]]:
    """Lines that are not blank, as words; the first word of each is an image that occurs once."""
    rows = [(line, text.split()) for line, text in enumerate(read_file(file, _UNPACK).split("\n"), 1) if text.strip()]
    if not rows:
        raise TableError(f"{file}: the list is empty. {_UNPACK}.")
    lines: dict[str, int] = {}
    for line, words in rows:
        if len(words) != width:
            raise TableError(f"{file} line {line}: {width} words are expected, not '{' '.join(words)}'. {_UNPACK}.")
        if lines.setdefault(words[0], line) != line:
            raise TableError(
                f"{file} line {line}: image '{words[0]}' is already on line {lines[words[0]]}. Keep one of the two."
            )
    return rows


def _read_lists(lists: Path, images: Sequence[str], part: str) -> _Sightings:
    """Read ``<class>_<part>.txt`` of all 20 classes: each image with 1 (present), -1 (absent) or 0 (difficult)."""
    files = [lists / f"{name}_{part}.txt" for name in CLASSES]
    if missing := [file.name for file in files if not file.is_file()]:
        raise TableError(
            f"{lists}: {len(missing)} of {len(files)} lists are missing ({and_more(missing)}), and there is no folder "
            f"{lists.parents[1] / 'Annotations'} to read instead.{_about(part)} {_UNPACK}."
        )
    rows = {image: row for row, image in enumerate(images)}
    sightings: _Sightings = [{} for _ in images]
    for position, file in enumerate(files):
        found = _read_rows(file, 2)
        for line, (image, number) in found:
            if number not in ("1", "-1", "0"):
                raise TableError(f"{file} line {line}: '{number}' is not 1 (present), -1 (absent) or 0 (difficult).")
            if image not in rows:
                raise TableError(
                    f"{file} line {line}: image '{image}' is not in the list of the part {part}. {_UNPACK}."
                )
            if number != "-1":
                sightings[rows[image]][position] = number == "0"
        if len(found) < len(images):
            raise TableError(f"{file}: only {len(found):,} of the {len(images):,} images of {part}. {_UNPACK}.")
    return sightings


def _read_xml(folder: Path, images: Sequence[str], part: str) -> _Sightings:
    """Read ``<image>.xml`` of every image."""
    there = {file.name for file in folder.glob("*.xml")}
    missing = [f"{image}.xml" for image in images if f"{image}.xml" not in there]
    if missing:
        raise TableError(
            f"{folder}: {len(missing):,} of {len(images):,} files are missing ({and_more(missing)})."
            f"{_about(part)} {_UNPACK}."
        )
    return [_read_objects(folder / f"{image}.xml") for image in images]


def _about(part: str) -> str:
    return " VOC published annotations of a test part only for 2007." if part == "test" else ""


def _read_objects(file: Path) -> dict[int, bool]:
    text = read_file(file, _UNPACK)
    # Entities can make a small file grow without limit, and VOC has none.
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise TableError(f"{file}: an annotation must not have a document type or entities. {_UNPACK}.")
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 (no entities: see above)
    except ElementTree.ParseError as error:
        raise TableError(f"{file}: the XML is broken ({error}). {_UNPACK}.") from None
    seen: dict[int, bool] = {}
    for thing in root.findall("object"):
        name, difficult = (thing.findtext(key, default).strip() for key, default in (("name", ""), ("difficult", "0")))
        if name not in CLASSES:
            raise TableError(f"{file}: the object '{name}' is not one of the 20 classes of VOC.")
        if difficult not in ("0", "1"):
            raise TableError(f"{file}: 'difficult' of an object is '{difficult}', not 0 or 1.")
        position = CLASSES.index(name)
        seen[position] = seen.get(position, True) and difficult == "1"
    return seen
