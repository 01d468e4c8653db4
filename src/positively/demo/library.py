"""A small photo library whose tags are incomplete in the way people leave them, together with the complete truth."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np

from positively.demo.drawing import THINGS, Light, Place, draw_postcard
from positively.files import write_text
from positively.logs import Progress, counted_progress

PHOTOS, NEW_PHOTOS = 1000, 300
TAGS = ("sea", "snow", "night", *(name for name in THINGS if name not in ("bush", "rock")))

# How often a photo of a place shows a thing; places that are not named have the first number.
_USUAL: dict[str, tuple[float, dict[Place, float]]] = {
    "mountain": (0.12, {"mountains": 0.85}),
    "sun": (0.35, {}),
    "moon": (0.0, {}),
    "cloud": (0.45, {"coast": 0.35}),
    "balloon": (0.08, {"meadow": 0.3}),
    "bird": (0.15, {"coast": 0.4}),
    "tree": (0.4, {"coast": 0.12}),
    "house": (0.15, {"village": 0.9, "coast": 0.2}),
    "tent": (0.08, {"mountains": 0.3, "meadow": 0.2}),
    "flower": (0.15, {"meadow": 0.55, "coast": 0.02}),
    "lighthouse": (0.0, {"coast": 0.35}),
    "dog": (0.12, {}),
    "boat": (0.0, {"coast": 0.6}),
    "bush": (0.3, {"coast": 0.1}),
    "rock": (0.25, {}),
}
_LIGHTS: dict[Light, float] = {"day": 0.5, "evening": 0.15, "grey": 0.2, "night": 0.15}
# How often a person who tags a photo writes a tag down if the thing is large: what everybody sees is left out most.
_HABITS = {"sea": 0.5, "snow": 0.6, "night": 0.35, "mountain": 0.7, "sun": 0.5, "moon": 0.7, "cloud": 0.2}
_HABITS |= {"balloon": 0.95, "bird": 0.5, "tree": 0.35, "house": 0.5, "tent": 0.8, "flower": 0.6, "lighthouse": 0.95}
_HABITS |= {"dog": 0.9, "boat": 0.85}
# Photos of an album come from one trip; whoever tagged it wrote down this share of what they usually do.
_ALBUM, _CARE = (8, 30), (0.0, 0.7, 1.0, 1.0)


@dataclass(frozen=True)
class Library:
    """Where the files of a library are."""

    folder: Path

    @property
    def photos(self) -> Path:
        """The table with some of the tags."""
        return self.folder / "photos.csv"

    @property
    def truth(self) -> Path:
        """The table of the same photos with every tag."""
        return self.folder / "truth.csv"

    @property
    def new(self) -> Path:
        """The table of other photos with every tag, to score a model on."""
        return self.folder / "new-photos.csv"


def make_library(folder: str | Path, photos: int = PHOTOS, new_photos: int = NEW_PHOTOS, seed: int = 0) -> Library:
    """Draw a photo library; what is there already is not drawn again.

    Tags are missing not at random: some albums carry no tag at all, small things are left out more often than large
    ones, and common things such as clouds more often than rare ones such as lighthouses.

    Args:
        folder: Where the tables are written; the photos are in ``photos/`` and ``new-photos/`` below it.
        photos: Photos with some of their tags.
        new_photos: Photos of other albums with every tag.
        seed: Seed of everything that is drawn.
    """
    folder = Path(folder)
    library = Library(folder)
    if library.photos.exists():  # written last
        return library
    with counted_progress("Drawing photos", photos + new_photos) as progress:
        known, complete = _draw(folder, "photos", photos, np.random.default_rng([seed, 0]), progress)
        _, new = _draw(folder, "new-photos", new_photos, np.random.default_rng([seed, 1]), progress)
    _write(library.new, new)
    _write(library.truth, complete)
    _write(library.photos, known)
    return library


Rows = list[tuple[str, list[str]]]


def _draw(folder: Path, part: str, count: int, random: np.random.Generator, progress: Progress) -> tuple[Rows, Rows]:
    """Draw photos, album by album; returns their known tags and all of them."""
    (folder / part).mkdir(parents=True, exist_ok=True)
    known: Rows = []
    complete: Rows = []
    while len(complete) < count:
        place: Place = get_args(Place)[int(random.integers(4))]
        has_snow, care = bool(random.random() < (0.35 if place == "mountains" else 0.08)), float(random.choice(_CARE))
        for _ in range(min(int(random.integers(*_ALBUM)), count - len(complete))):
            light: Light = list(_LIGHTS)[int(random.choice(4, p=list(_LIGHTS.values())))]
            things = _things(place, light, has_snow, random)
            name = f"{part}/{len(complete):04d}.jpg"
            picture, sizes = draw_postcard(place, light, has_snow, things, random)
            picture.save(folder / name, quality=88)
            shown = {"sea": place == "coast", "snow": has_snow, "night": light == "night"}
            tags = [tag for tag in TAGS if shown.get(tag, tag in things)]
            complete.append((name, tags))
            known.append((name, [tag for tag in tags if random.random() < care * _chance(tag, sizes)]))
            progress.advance()
    return known, complete


def _things(place: Place, light: Light, has_snow: bool, random: np.random.Generator) -> list[str]:
    chances = {name: usual.get(place, other) for name, (other, usual) in _USUAL.items()}
    if light != "day":
        chances["sun"] *= 0.6 if light == "evening" else 0.0
    if light == "night":
        chances |= {"moon": 0.5, "bird": 0.0, "balloon": 0.0}
    if has_snow:
        chances["flower"] = 0.0
    return [name for name, chance in chances.items() if random.random() < chance]


def _chance(tag: str, sizes: dict[str, float]) -> float:
    """How likely a person is to write a tag down: the smaller the thing, the less."""
    if tag not in sizes:
        return _HABITS[tag]
    smallest, largest = THINGS[tag].size
    return _HABITS[tag] * (0.5 + 0.5 * (sizes[tag] - smallest) / (largest - smallest))


def _write(file: Path, rows: Iterable[tuple[str, list[str]]]) -> None:
    write_text(file, "image,tags\n" + "".join(f"{image},{';'.join(tags)}\n" for image, tags in rows))
