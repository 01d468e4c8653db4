"""Recognise files of other programs that cannot be read as a table, to say what they are and how to convert them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from positively.images.decode import is_image_name

_READ_AT_MOST = 1 << 26
_START = 1 << 16
_AS_CSV = "Convert it to a CSV file with the columns image,tags"
_AS_COCO = "Export the data from there in the COCO format"
_EXIFTOOL = "Write its tags to a table with: exiftool -csv -sep ';' -Subject -Keywords -r PHOTOS > tags.csv"

# Format and fix.
Found = tuple[str, str]

# Ending → what it is, where the contents need not be looked at.
_BY_ENDING: dict[str, Found] = {
    ".lrcat": ("a Lightroom catalog", f"Save the metadata to the photos in Lightroom (Ctrl+S). {_EXIFTOOL}"),
    ".xmp": ("an XMP sidecar file of one photo", _EXIFTOOL),
    ".xls": ("a workbook of an old Excel", "Save it as .xlsx or as CSV"),
    ".ods": ("an OpenDocument spreadsheet", "Save it as .xlsx or as CSV"),
    ".numbers": ("an Apple Numbers spreadsheet", "Export it as CSV or as Excel"),
    ".zip": ("a zip archive", "Unpack it, and pass the file or folder in it"),
    ".tfrecord": ("TFRecord files of TensorFlow", _AS_CSV),
    ".sqlite": ("a database", f"Export the tags from the program that wrote it. {_AS_CSV}"),
    ".db": ("a database", f"Export the tags from the program that wrote it. {_AS_CSV}"),
}

_Test = Callable[[Any], bool]


def _has(*keys: str) -> _Test:
    return lambda value: isinstance(value, dict) and all(key in value for key in keys)


def _first(test: _Test) -> _Test:
    return lambda value: isinstance(value, list) and bool(value) and test(value[0])


def _is_far_from_coco(value: Any) -> bool:
    """Whether it has none of the lists of COCO; otherwise the reader of COCO says what is wrong."""
    return not any(_has(key)(value) for key in ("images", "annotations", "categories"))


_JSON: list[tuple[_Test, Found]] = [
    (_first(_has("SourceFile")), ("the JSON output of exiftool", _EXIFTOOL)),
    (_first(_has("data", "annotations")), ("a JSON export of Label Studio", _AS_COCO)),
    (_first(_has("data", "predictions")), ("a JSON export of Label Studio", _AS_COCO)),
    (_first(_has("annotation_id", "annotator")), ("a JSON-MIN export of Label Studio", _AS_COCO)),
    (_has("shapes", "imagePath"), ("a LabelMe file of one image", "Convert the folder with labelme2coco")),
    (_has("_via_settings"), ("a project of the VGG Image Annotator", "In it, choose Annotation, Export (COCO format)")),
    (
        lambda value: isinstance(value, dict) and any(map(_has("filename", "regions"), value.values())),
        ("annotations of the VGG Image Annotator", "In it, choose Annotation, Export (COCO format)"),
    ),
    (_first(_has("image", "annotations")), ("a CreateML file", _AS_COCO)),
    (_first(_has("data_row")), ("an export of Labelbox", _AS_COCO)),
    (_has("item", "annotations"), ("a file of V7 Darwin", _AS_COCO)),
    (_has("samples"), ("a dataset of FiftyOne", _AS_COCO)),
    (_has("objects", "size"), ("a Supervisely file of one image", _AS_COCO)),
    (_is_far_from_coco, ("JSON, but neither COCO, which lists images, nor another known format", _AS_CSV)),
]

_XML: list[tuple[str, Found]] = [
    (r"<annotations>.*<image ", ("a CVAT XML file", "In CVAT, export the task in the COCO format")),
    (
        r"<annotation\b",
        ("a PASCAL VOC file of one image", "Pass the folder that has Annotations and ImageSets, such as VOC2007"),
    ),
    (r"<x:xmpmeta|<rdf:RDF", ("XMP metadata", _EXIFTOOL)),
    (r"<dataset>.*<images>", ("an XML file of dlib's imglab", _AS_CSV)),
    (r"<plist", ("an Apple property list", "Export the photos with their metadata. " + _EXIFTOOL)),
    (r"", ("XML in an unknown format", _AS_CSV)),
]

_HEADERS: list[tuple[set[str], Found]] = [
    ({"annotation_id", "annotator"}, ("a CSV export of Label Studio", _AS_COCO)),
    ({"region_shape_attributes"}, ("a CSV file of the VGG Image Annotator", "In it, choose Export (COCO format)")),
]


def recognise(path: Path) -> str | None:
    """Sentences that name the format of another program and what to do; None if it is not known, or not foreign."""
    found = _in_folder(path) if path.is_dir() else _in_file(path)
    return f"{path}: this is {found[0]}, which cannot be read. {found[1]}." if found else None


def _in_file(path: Path) -> Found | None:
    ending = path.suffix.lower()
    try:
        if ending in _BY_ENDING or path.stat().st_size > _READ_AT_MOST:
            return _BY_ENDING.get(ending) if path.exists() else None
        text = path.read_bytes().decode("utf-8-sig", errors="replace").strip()
    except OSError:
        return None
    if ending == ".json":
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            # Otherwise it is cut off: the reader says where.
            return (
                ("JSON lines in a .json file", "Rename it to .jsonl") if _is_object(text.partition("\n")[0]) else None
            )
        return next((found for test, found in _JSON if test(value)), None)
    if text.startswith("<"):
        return next(found for pattern, found in _XML if re.search(pattern, text[:_START], re.DOTALL))
    if ending in (".yaml", ".yml"):
        is_yolo = re.search(r"^names\s*:", text, re.MULTILINE)
        return ("a YOLO dataset", _AS_COCO) if is_yolo else ("a YAML file", _AS_CSV)
    lines = text[:_START].splitlines()
    if lines and all(re.fullmatch(r"\d+( -?[\d.]+){4,}", line.strip()) for line in lines[:20]):
        return "a YOLO file of one image", _AS_COCO
    header = {name.strip().strip('"').casefold() for name in lines[0].split(",")} if lines else set()
    return next((found for names, found in _HEADERS if names <= header), None)


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _in_folder(path: Path) -> Found | None:
    def has(pattern: str) -> bool:
        return next(path.glob(pattern), None) is not None

    if (has("*.yaml") and (has("labels") or has("*/labels") or has("images"))) or has("labels/*.txt"):
        return "a YOLO dataset", _AS_COCO
    if has("*.xmp"):
        return "a folder of photos with XMP sidecar files", _EXIFTOOL
    if has("Annotations/*.xml") or has("annotations/*.xml") or has("*.xml"):
        return "a folder of PASCAL VOC files without ImageSets", "Add ImageSets/Main/trainval.txt, with a name a line"
    if any(is_image_name(one.name) and one.with_suffix(".json").is_file() for one in path.glob("*.*")):
        return "a folder of LabelMe files", "Convert it with labelme2coco"
    if any(is_image_name(one.name) for one in path.glob("*/*.*")):
        return "a folder with a folder for each class", _AS_CSV
    if any(is_image_name(one.name) for one in path.glob("*.*")):
        return "a folder of photos without a table", "Pass the table, and the folder with --images"
    return None
