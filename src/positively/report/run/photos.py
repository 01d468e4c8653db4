"""The photos of a report: which are shown, and how they are embedded in the page."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path, PureWindowsPath

import numpy as np
import numpy.typing as npt

from positively.errors import ImageError
from positively.images.decode import load_image
from positively.missing.result import Pairs
from positively.report.page import Photo

SIDE, QUALITY = 240, 72
"""Pixels of the longer side and JPEG quality: about ten kilobytes a picture."""
_FEW_PIXELS = 100
# Pairs of a list that are searched for examples of many classes.
_DEEPEST = 20_000


class PhotoBook:
    """Small pictures of a run's images; each image is read once.

    Args:
        root: Folder of the images; None if it was not found.
        images: Names of the images; folders that all of them share are not shown.
    """

    def __init__(self, root: Path | None, images: Sequence[str] = ()) -> None:
        self.root, self._hidden = root, len(shared_folders(images))
        self.lost: dict[str, str] = {}
        """Images that could not be shown, and why."""
        self._made: dict[str, tuple[str, bool]] = {}

    def photo(self, image: str, title: str, badge: str = "", lines: Sequence[str] = ()) -> Photo:
        """A picture with its caption, or a sentence if the image cannot be read."""
        if image not in self._made and image not in self.lost:
            try:
                self._made[image] = self._shrink(image)
            except (ImageError, OSError) as error:
                self.lost[image] = str(getattr(error, "reason", "")) or "not found"
        uri, is_tiny = self._made.get(image, ("", False))
        problem = f"This picture cannot be shown: {self.lost[image]}." if image in self.lost else ""
        return Photo(image[self._hidden :], uri, problem, title, badge, lines, is_tiny)

    def _shrink(self, image: str) -> tuple[str, bool]:
        if self.root is None:
            raise FileNotFoundError
        picture = load_image(self.root / image, at_least=SIDE)
        is_tiny = max(picture.size) < _FEW_PIXELS
        picture.thumbnail((SIDE, SIDE))
        data = io.BytesIO()
        picture.save(data, "PNG" if is_tiny else "JPEG", quality=QUALITY)
        kind = "png" if is_tiny else "jpeg"
        return f"data:image/{kind};base64,{base64.b64encode(data.getvalue()).decode()}", is_tiny


def shared_folders(images: Sequence[str]) -> str:
    """The folders shared by all images if their names are absolute paths, else an empty text.

    >>> shared_folders(["/home/me/photos/a/1.jpg", "/home/me/photos/b/2.jpg"])
    '/home/me/photos/'
    """
    first, last = min(images, default=""), max(images, default="")
    if not PureWindowsPath(first).anchor:  # it knows the roots of all systems
        return ""
    same = [one for one, other in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))]
    return first[: max(first.rfind(mark, 0, len(same)) for mark in "/\\") + 1]


def first_of_each(pairs: Pairs, count: int, each: int) -> list[int]:
    """Positions of the first pairs, at most ``each`` per class and one per image."""
    taken: dict[int, int] = {}
    seen: set[int] = set()
    chosen: list[int] = []
    first = slice(_DEEPEST)
    for place, (row, column) in enumerate(zip(pairs.rows[first].tolist(), pairs.columns[first].tolist(), strict=True)):
        if len(chosen) == count:
            break
        if taken.get(column, 0) < each and row not in seen:
            taken[column] = taken.get(column, 0) + 1
            seen.add(row)
            chosen.append(place)
    return chosen


def expected_mistakes(probabilities: npt.NDArray[np.float64], given: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """``(N,)`` expected number of wrong or omitted tags of each photo.

    >>> expected_mistakes(np.array([[0.9, 0.2]]), np.array([[True, False]])).round(2).tolist()
    [0.3]
    """
    return np.asarray(np.where(given, 1.0 - probabilities, probabilities).sum(axis=1))
