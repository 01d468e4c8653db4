"""Locate the images of a table, with one listing per folder because checking each file is slow."""

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path, PurePosixPath

from positively.images.decode import IMAGE_ENDINGS, is_image_name


def tidy(name: str) -> str:
    """Name of an image without surrounding spaces and a leading ``./``.

    >>> tidy(" ./a.jpg")
    'a.jpg'
    """
    name = name.strip()
    while name.startswith("./"):
        name = name[2:].lstrip("/")
    return name


def locate(names: Sequence[str], root: Path) -> list[str | None]:
    r"""Name of each image relative to ``root``, or None if there is no such file.

    Three kinds of names are also accepted: with ``\`` between folders (always converted to ``/`` on Windows, so that
    names are the same on every system), with the last folders of ``root`` as a prefix (``photos/a.jpg`` in ``photos``),
    and without a file extension (``a`` for ``a.jpg``).
    """
    listing = cache(_list_folder)
    base = os.fspath(root)
    above = Path(os.path.abspath(base)).parts  # noqa: PTH100 (resolve would follow links)

    def exists(name: str) -> bool:
        folder, file = os.path.split(os.path.join(base, name))  # noqa: PTH118 (pathlib is 10 times slower)
        # The second check is for case-insensitive disks and folders that cannot be listed.
        return file in listing(folder) or Path(base, name).is_file()

    @cache
    def endings(folder: str) -> dict[str, str]:
        """Images by their name without extension; of several, such as a JPEG and its RAW, the more common format."""
        images = [file for file in listing(folder) if is_image_name(file)]
        images.sort(key=lambda file: -IMAGE_ENDINGS.index(os.path.splitext(file)[1].lower()))  # noqa: PTH122
        return {os.path.splitext(file)[0]: file for file in images}  # noqa: PTH122

    def with_ending(name: str) -> str | None:
        folder, file = os.path.split(name)
        found = None if is_image_name(name) else endings(os.path.join(base, folder)).get(file)  # noqa: PTH118
        return os.path.join(folder, found).replace(os.sep, "/") if found else None  # noqa: PTH118

    def find(name: str) -> str | None:
        turned = tidy(name.replace("\\", "/"))
        spellings = [turned] if os.sep == "\\" else list(dict.fromkeys([name, turned]))
        parts = turned.split("/")
        inside = ["/".join(parts[k:]) for k in range(1, len(parts)) if tuple(parts[:k]) == above[-k:]]
        there = next((spelling for spelling in [*spellings, *inside] if exists(spelling)), None)
        return there or next(filter(None, map(with_ending, [turned, *inside])), None)

    return [find(name) for name in names]


def hint(name: str, root: Path) -> str:
    """Suggest a file with a similar name for a missing image; empty if there is none."""
    path = root / PurePosixPath(name.replace("\\", "/"))
    similar = sorted(file for file in _list_folder(os.fspath(path.parent)) if _stem(file) == _stem(path.name))
    return f" Did you mean '{similar[0]}'?" if similar else ""


def _stem(name: str) -> str:
    return os.path.splitext(name)[0].casefold() or name  # noqa: PTH122 (a bare name, not a path)


def _list_folder(folder: str) -> frozenset[str]:
    try:
        with os.scandir(folder or ".") as entries:
            return frozenset(entry.name for entry in entries if not entry.is_dir())
    except OSError:
        return frozenset()
