"""Lists and XML files of PASCAL VOC → which classes each image shows."""

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from positively.errors import TableError, and_more
from positively.tables.benchmark import read_file

CLASSES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
    *("diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"),
)
"""The 20 classes in the official, alphabetical order."""
UNPACK = "Unpack the download again"
"""What helps against most of what can be wrong."""

Sightings = list[dict[int, bool]]
"""For each image: position of the class → whether it is there only as difficult."""


def read_rows(file: Path, width: int) -> list[tuple[int, list[str]]]:
    """Lines that hold anything, as words; the first word of each is an image, once."""
    rows = [(line, text.split()) for line, text in enumerate(read_file(file, UNPACK).split("\n"), 1) if text.strip()]
    if not rows:
        raise TableError(f"{file}: the list is empty. {UNPACK}.")
    lines: dict[str, int] = {}
    for line, words in rows:
        if len(words) != width:
            raise TableError(f"{file} line {line}: {width} words are expected, not '{' '.join(words)}'. {UNPACK}.")
        if lines.setdefault(words[0], line) != line:
            raise TableError(
                f"{file} line {line}: image '{words[0]}' already stands on line {lines[words[0]]}. Keep one of the two."
            )
    return rows


def read_lists(lists: Path, images: Sequence[str], part: str) -> Sightings:
    """Read ``<class>_<part>.txt`` of all 20 classes: each image with 1 (there), -1 (absent) or 0 (only difficult)."""
    files = [lists / f"{name}_{part}.txt" for name in CLASSES]
    if missing := [file.name for file in files if not file.is_file()]:
        raise TableError(
            f"{lists}: {len(missing)} of {len(files)} lists are missing ({and_more(missing)}), and there is no folder "
            f"{lists.parents[1] / 'Annotations'} to read instead.{_about(part)} {UNPACK}."
        )
    rows = {image: row for row, image in enumerate(images)}
    sightings: Sightings = [{} for _ in images]
    for position, file in enumerate(files):
        found = read_rows(file, 2)
        for line, (image, number) in found:
            if number not in ("1", "-1", "0"):
                raise TableError(f"{file} line {line}: '{number}' is none of 1 (there), -1 (absent) and 0 (difficult).")
            if image not in rows:
                raise TableError(
                    f"{file} line {line}: image '{image}' is not in the list of the part {part}. {UNPACK}."
                )
            if number != "-1":
                sightings[rows[image]][position] = number == "0"
        if len(found) < len(images):
            raise TableError(f"{file}: only {len(found):,} of the {len(images):,} images of {part}. {UNPACK}.")
    return sightings


def read_xml(folder: Path, images: Sequence[str], part: str) -> Sightings:
    """Read ``<image>.xml`` of every image."""
    there = {file.name for file in folder.glob("*.xml")}
    missing = [f"{image}.xml" for image in images if f"{image}.xml" not in there]
    if missing:
        raise TableError(
            f"{folder}: {len(missing):,} of {len(images):,} files are missing ({and_more(missing)})."
            f"{_about(part)} {UNPACK}."
        )
    return [_read_objects(folder / f"{image}.xml") for image in images]


def _about(part: str) -> str:
    return " Only of 2007 did VOC publish the annotations of the test part." if part == "test" else ""


def _read_objects(file: Path) -> dict[int, bool]:
    text = read_file(file, UNPACK)
    # Entities can make a small file grow without end, and VOC has none.
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise TableError(f"{file}: a document type or entities have no place in an annotation. {UNPACK}.")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise TableError(f"{file}: the XML is broken ({error}). {UNPACK}.") from None
    seen: dict[int, bool] = {}
    for thing in root.findall("object"):
        name, difficult = (thing.findtext(key, default).strip() for key, default in (("name", ""), ("difficult", "0")))
        if name not in CLASSES:
            raise TableError(f"{file}: an object is called '{name}', which is none of the 20 classes of VOC.")
        if difficult not in ("0", "1"):
            raise TableError(f"{file}: an object is '{difficult}' difficult, which is neither 0 nor 1.")
        position = CLASSES.index(name)
        seen[position] = seen.get(position, True) and difficult == "1"
    return seen
