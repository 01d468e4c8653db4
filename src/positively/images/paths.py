"""Where the images of a table lie: looked up folder by folder, since asking for each file is slow."""

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path, PurePosixPath

from positively.images.decode import IMAGE_ENDINGS, is_image_name


def tidy(name: str) -> str:
    """Name of an image without the blanks and the ``./`` around it.

    >>> tidy(" ./a.jpg")
    'a.jpg'
    """
    name = name.strip()
    while name.startswith("./"):
        name = name[2:].lstrip("/")
    return name


def locate(names: Sequence[str], root: Path) -> list[str | None]:
    r"""Name under which each image lies below ``root``, or None where there is none.

    Three kinds of names are found although no file is called exactly that: with ``\`` between folders (on Windows they
    are always turned into ``/``, so that a name is the same on every system), with the last folders of ``root`` in
    front (``photos/a.jpg`` below ``photos``), and without an ending (``a`` where ``a.jpg`` is).
    """
    listing = cache(_list_folder)
    base = os.fspath(root)
    above = Path(os.path.abspath(base)).parts  # noqa: PTH100 (resolve would follow links)

    def exists(name: str) -> bool:
        folder, file = os.path.split(os.path.join(base, name))  # noqa: PTH118 (pathlib is 10 times slower)
        # The second look is for disks that do not tell A.jpg from a.jpg, and folders that may not be listed.
        return file in listing(folder) or Path(base, name).is_file()

    @cache
    def endings(folder: str) -> dict[str, str]:
        """Name without ending → image; of several, such as a JPEG and its RAW, the more common format."""
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
    """Say what lies beside a missing image under nearly the same name, or nothing."""
    path = root / PurePosixPath(name.replace("\\", "/"))
    similar = sorted(file for file in _list_folder(os.fspath(path.parent)) if _stem(file) == _stem(path.name))
    return f" There is '{similar[0]}' beside it." if similar else ""


def _stem(name: str) -> str:
    return os.path.splitext(name)[0].casefold() or name  # noqa: PTH122 (a bare name, not a path)


def _list_folder(folder: str) -> frozenset[str]:
    try:
        with os.scandir(folder or ".") as entries:
            return frozenset(entry.name for entry in entries if not entry.is_dir())
    except OSError:
        return frozenset()
