"""Open a table of tags, or a folder of photos without tags, for a review."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from positively.errors import ConfigError, ImageError, and_more, option, plural
from positively.files import sibling
from positively.images.decode import is_image_name, verify_images
from positively.labels import UNKNOWN, LabelTable
from positively.tables.formats import find_format
from positively.tables.options import ReadOptions
from positively.tables.reading import read_labels


def open_reviewable(path: Path, options: ReadOptions) -> tuple[LabelTable, list[str]]:
    """As :func:`open_table`, but a complete table is refused."""
    table, notes = open_table(path, options)
    if table.classes and table.is_complete:
        raise ConfigError(
            f"{table.source}: every label is known, so there is nothing to review. Omit {option('blank')} and "
            f"{option('zero')} if an absent tag may be missing."
        )
    if not table.classes:
        notes = [*notes, "Create the first tag on the page, from a few photos."]
    return table, notes


def open_table(path: Path, options: ReadOptions) -> tuple[LabelTable, list[str]]:
    """Read a table of tags, or list all photos in a folder without labels.

    Returns:
        The table (without classes for a folder of photos), and lines that describe how it was read.
    """
    return _read_folder(path, options) if is_bare_folder(path) else read_labels(path, options)


def is_bare_folder(path: Path) -> bool:
    """Whether a path is a folder without labels in a known format such as COCO or PASCAL VOC."""
    return path.is_dir() and find_format(path) is None


def _read_folder(folder: Path, options: ReadOptions) -> tuple[LabelTable, list[str]]:
    if options.images is not None:
        raise ConfigError(f"{folder} is the folder of the photos itself; omit {option('images')}.")
    names = sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if is_image_name(path.name) and not _is_hidden(path.relative_to(folder)) and path.is_file()
    )
    # Names that are not valid text cannot be written to a table.
    odd = [name for name in names if not _is_text(name)]
    names = [name for name in names if _is_text(name)]
    if not names:
        raise ImageError(f"There are no photos under {folder}.")
    verified = verify_images([folder / name for name in names])
    table = LabelTable.from_positives(names, (), [[] for _ in names], UNKNOWN)
    table = replace(table, root=folder, source=sibling(folder, "").name, hashes=verified.hashes)
    whole = np.setdiff1d(np.arange(len(names)), list(verified.broken))
    if not len(whole):
        raise ImageError(f"None of the {len(names):,} photos under {folder} can be read. Repair them.")
    notes = [f"{folder}: {plural(len(whole), 'photo')} without tags."]
    if verified.broken:
        listed = [f"'{names[row]}' ({reason})" for row, reason in verified.broken.items()]
        notes.append(f"Photos left out because they cannot be read: {len(listed):,}, {and_more(listed, 3)}.")
    if odd:
        notes.append(f"Photos left out because their names are not UTF-8: {len(odd):,}.")
    return table.select(whole), notes


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
