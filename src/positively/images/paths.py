"""Where the images of a table lie: looked up folder by folder, since asking for each file is slow."""

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path, PurePosixPath


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

    A backslash is turned where it parts folders: always on Windows, so that a name is the same on every system.
    """
    listing = cache(_list_folder)
    base = os.fspath(root)

    def exists(name: str) -> bool:
        folder, file = os.path.split(os.path.join(base, name))  # noqa: PTH118 (pathlib is 10 times slower)
        # The second look is for disks that do not tell A.jpg from a.jpg, and folders that may not be listed.
        return file in listing(folder) or Path(base, name).is_file()

    found: list[str | None] = []
    for name in names:
        turned = tidy(name.replace("\\", "/"))
        spellings = [turned] if os.sep == "\\" else dict.fromkeys([name, turned])
        found.append(next((spelling for spelling in spellings if exists(spelling)), None))
    return found


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
