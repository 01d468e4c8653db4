"""COCO annotation files. A class is positive in an image if it has any annotation of it, crowds included."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from positively.errors import ImageError, TableError, and_more, option
from positively.images.paths import locate, tidy
from positively.labels import POSITIVE, LabelState, LabelTable
from positively.tables.benchmark import Benchmark, benchmark_table, choose_year, read_file
from positively.tables.build import image_folder
from positively.tables.diagnostics import Report, stop
from positively.tables.foreign import recognise
from positively.tables.formats import TableFormat
from positively.tables.options import DEFAULTS, ReadOptions

_NAME = re.compile(r"instances_([a-z]+)(\d{4})\.json")
_AGAIN = "Download it again"
_LISTS = ("images", "annotations", "categories")
# Everything else, above all the outlines, is dropped while the file is parsed: it is most of the file.
_READ_KEYS = {*_LISTS, "id", "name", "file_name", "image_id", "category_id", "caption", "keypoints"}


class COCO(TableFormat):
    """COCO instances: the json file, or the folder that holds ``annotations/instances_<part><year>.json``.

    ``part``, ``year`` and ``empty_images`` are options of this format. Classes come in the order of their ids,
    images in that of the file.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".json",)

    def matches(self, path: Path) -> bool:
        """Whether this is a json, or a folder with ``annotations``."""
        return path.suffix.lower() in self.suffixes or (path / "annotations").is_dir()

    def read(
        self,
        path: Path,
        options: ReadOptions = DEFAULTS,
        classes: Sequence[str] | None = None,
        report: Report = stop,
    ) -> tuple[LabelTable, list[str]]:
        """Read the instances of one part."""
        file, notes = _find_file(path, options)
        parts = _load(file)
        columns, names = _read_categories(file, parts["categories"])
        rows, images = _read_images(file, parts["images"])
        labels = _read_annotations(file, parts["annotations"], rows, columns)
        match = _NAME.fullmatch(file.name)
        name = f"COCO {match[2]} {match[1]}" if match else "annotations in the format of COCO"
        root = _image_root(file, images, options)
        found = Benchmark(name, file.name, "image", root, names, images, range(1, len(images) + 1), labels, notes)
        return benchmark_table(found, options, classes, report)

    def images(self, path: Path, options: ReadOptions = DEFAULTS) -> tuple[Path, list[str]]:
        """All images that a json lists, whether or not they are annotated or exist."""
        parts = _parse(path)
        entries = parts.get("images") if isinstance(parts, dict) else None
        if not isinstance(entries, list) or not entries:
            raise TableError(recognise(path) or f"{path}: this is not a COCO file, because it has no list of images.")
        _, images = _read_images(path, entries)
        return _image_root(path, images, options), images


def _find_file(path: Path, options: ReadOptions) -> tuple[Path, list[str]]:
    if not path.is_dir():
        match = _NAME.fullmatch(path.name)
        for name, asked, group in zip(("part", "year"), (options.part, options.year), (1, 2), strict=True):
            if asked is not None and (match is None or match[group] != str(asked)):
                raise TableError(
                    f"{path}: {option(name, asked)} does not fit the name of this file. "
                    "Remove the option, or pass the folder."
                )
        return path, []
    folder, part = path / "annotations", options.part or "train"
    files = sorted(file.name for file in folder.glob("*.json"))
    found = [match for match in map(_NAME.fullmatch, files) if match]
    years = {int(match[2]) for match in found if match[1] == part}
    if not years:
        there = (
            f"there are {and_more([match[0] for match in found] or files, 8)}" if files else "there is no json in it"
        )
        way_out = f" COCO does not publish labels of its test images: use {option('part', 'val')}."
        test = way_out if part == "test" else ""
        raise TableError(
            f"{folder}: no instances_{part}{options.year or '<year>'}.json, but {there}.{test} "
            f"Pass {option('part')}, or unpack the annotations again."
        )
    year, notes = choose_year(years, options.year, f"{folder} for the part {part}")
    return folder / f"instances_{part}{year}.json", notes


def _parse(file: Path) -> Any:
    text = read_file(file, _AGAIN)
    try:
        return json.loads(text, object_hook=lambda entry: {key: entry[key] for key in _READ_KEYS & entry.keys()})
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise TableError(
            f"{file} {where}: the file is not valid JSON, or it is cut off ({error.msg}). {_AGAIN}."
        ) from None
    except (ValueError, RecursionError) as error:
        raise TableError(f"{file}: cannot be read ({error}). {_AGAIN}.") from None


def _load(file: Path) -> dict[str, list[Any]]:
    """The three lists of the file; the error says what else the file is."""
    parts = _parse(file)
    lists = {name: parts.get(name) for name in _LISTS} if isinstance(parts, dict) else {}
    if isinstance(lists.get("images"), list) and "annotations" not in parts:
        raise TableError(f"{file}: it has images without annotations, as in the test part of COCO. Pass the val part.")
    first = (lists.get("annotations") or [{}])[:1] if isinstance(lists.get("annotations"), list) else []
    if any("caption" in entry for entry in first if isinstance(entry, dict)):
        raise TableError(f"{file}: this is a file of captions, which has no classes. Pass instances_*.json.")
    if wrong := [name for name in _LISTS if not isinstance(lists.get(name), list)]:
        raise TableError(
            f"{file}: this is not a COCO file, because it has no list of {', '.join(wrong)}. Pass instances_*.json."
        )
    if any("keypoints" in entry for entry in parts["categories"] if isinstance(entry, dict)):
        raise TableError(f"{file}: this is a file of keypoints, which has persons only. Pass instances_*.json.")
    if empty := [name for name in _LISTS if not parts[name]]:
        raise TableError(f"{file}: the list of {', '.join(empty)} is empty. {_AGAIN}, or pass another file.")
    return {name: parts[name] for name in _LISTS}


def _read_categories(file: Path, entries: list[Any]) -> tuple[dict[int, int], list[str]]:
    """The column of each category id, and the names in the order of the ids."""
    names: dict[int, str] = {}
    for number, entry in enumerate(entries, 1):
        number_of, name = _take(entry, "id", int), _take(entry, "name", str)
        if number_of is None or name is None or not name.strip():
            raise TableError(f"{file.name} category {number}: it needs an 'id' (a number) and a 'name'. {_AGAIN}.")
        if number_of in names or name in names.values():
            raise TableError(f"{file.name} category {number}: the id {number_of} or the name '{name}' occurs twice.")
        names[number_of] = name
    ordered = sorted(names)
    return {number_of: column for column, number_of in enumerate(ordered)}, [names[i] for i in ordered]


def _read_images(file: Path, entries: list[Any]) -> tuple[dict[int | str, int], list[str]]:
    """The row of each image id, and the file names in the order of the list."""
    rows: dict[int | str, int] = {}
    names: dict[str, None] = {}
    for number, entry in enumerate(entries, 1):
        number_of, name = _take(entry, "id", (int, str)), _take(entry, "file_name", str)
        if number_of is None or name is None or not tidy(name):
            raise TableError(f"{file.name} image {number}: it needs an 'id' and a 'file_name'. {_AGAIN}.")
        if number_of in rows or tidy(name) in names:
            raise TableError(
                f"{file.name} image {number}: the id {number_of} or the file '{name}' occurs twice. Keep one of them."
            )
        rows[number_of] = len(rows)
        names[tidy(name)] = None
    return rows, list(names)


def _read_annotations(
    file: Path, entries: list[Any], rows: dict[int | str, int], columns: dict[int, int]
) -> list[dict[int, LabelState]]:
    labels: list[dict[int, LabelState]] = [{} for _ in rows]
    strays = []
    for number, entry in enumerate(entries, 1):
        image, category = _take(entry, "image_id", (int, str)), _take(entry, "category_id", int)
        if image in rows and category in columns:
            labels[rows[image]][columns[category]] = POSITIVE
        else:
            what = f"category_id {category}" if image in rows else f"image_id {image}"
            strays.append(f"annotation {number} has the {what}")
    if strays:
        raise TableError(
            f"{file.name}: {strays[0]}, which is not in the file ({len(strays):,} such annotations in all). "
            f"The file is damaged, or was merged from two. {_AGAIN}."
        )
    return labels


def _take(entry: object, key: str, kind: type | tuple[type, ...]) -> Any:
    value = entry.get(key) if isinstance(entry, dict) else None
    return value if isinstance(value, kind) else None


def _image_root(file: Path, images: Sequence[str], options: ReadOptions) -> Path:
    """The first of the usual folders that has any of the images."""
    match = _NAME.fullmatch(file.name)
    subset = match[1] + match[2] if match else None
    given, beside = image_folder(options), file.parent if file.parent.name else file.parent.absolute()
    base = given or (beside.parent if beside.name == "annotations" else beside)
    named = [base / subset, base / "images" / subset] if subset else []
    folders = [*named, base, base / "images"]
    found = {folder: locate(images, folder) for folder in folders if folder.is_dir()}
    # A folder with exactly these names is preferred to one whose name is part of them, such as train2014/a.jpg.
    exact = [folder for folder, names in found.items() if set(names) & set(images)]
    near = [folder for folder, names in found.items() if any(names)]
    if exact or near:
        return (exact or near)[0]
    looked = ", ".join(f"{folder.as_posix().rstrip('/')}/" for folder in named or folders)
    raise ImageError(
        f"{file.name}: none of its {len(images):,} images were found in {looked}. Pass {option('images', 'DIR')}."
    )
