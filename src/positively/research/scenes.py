"""Scenes of handwritten digits: a multi-label dataset that needs no download.

scikit-learn contains 1,797 digits of the UCI optical recognition set. A scene shows one to four digits of different
classes with random size, tilt, intensity and position, and pieces of other digits as clutter; its labels are its
digits. Class frequencies and co-occurrences are uneven. Train and test scenes use the handwriting of different people.
"""

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

from positively.files import write_text
from positively.labels import NEGATIVE, LabelTable

CLASSES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
Grey = npt.NDArray[np.float32]


@dataclass(frozen=True)
class SceneStyle:
    """Difficulty of the scenes."""

    size: int = 48
    smallest: int = 12
    largest: int = 18
    tilt: float = 12.0
    clutter: int = 3
    noise: float = 0.05


@cache
def _digits() -> tuple[Grey, npt.NDArray[np.int64]]:
    from sklearn.datasets import load_digits

    digits = load_digits()
    return (digits.images / 16.0).astype(np.float32), digits.target


def _handwriting(part: Literal["train", "test"]) -> npt.NDArray[np.int64]:
    """Digits of this part. The set is ordered by writer, so the last third is by other people."""
    images, _ = _digits()
    border = len(images) * 2 // 3
    return np.arange(border) if part == "train" else np.arange(border, len(images))


def _paste(canvas: Grey, ink: Grey, generator: np.random.Generator, style: SceneStyle, strength: float) -> None:
    """Draw one digit, or a piece of one, at a random position, size and tilt."""
    size = int(generator.integers(style.smallest, style.largest + 1))
    picture = Image.fromarray((ink * 255).astype(np.uint8)).resize((size, size), Image.Resampling.BICUBIC)
    picture = picture.rotate(generator.uniform(-style.tilt, style.tilt), Image.Resampling.BICUBIC, expand=True)
    drawn = np.asarray(picture, dtype=np.float32) / 255 * strength
    height, width = min(drawn.shape[0], style.size), min(drawn.shape[1], style.size)
    top = int(generator.integers(0, style.size - height + 1))
    left = int(generator.integers(0, style.size - width + 1))
    region = canvas[top : top + height, left : left + width]
    np.maximum(region, drawn[:height, :width], out=region)


def _companions() -> npt.NDArray[np.float64]:
    """Preference of digit j as a companion of digit i: neighbours on a ring, and small digits."""
    distance = np.abs(np.subtract.outer(np.arange(10), np.arange(10)))
    ring = np.minimum(distance, 10 - distance)
    liking: npt.NDArray[np.float64] = np.exp(-ring / 1.5) * np.linspace(1.6, 0.4, 10)
    return liking


def make_scene(
    part: Literal["train", "test"], index: int, seed: int = 0, style: SceneStyle | None = None
) -> tuple[npt.NDArray[np.uint8], list[int]]:
    """Create one scene, as a function of the arguments: grey pixels (size, size) and its digits."""
    style = style or SceneStyle()
    generator = np.random.default_rng([seed, part == "test", index])
    images, targets = _digits()
    ours = _handwriting(part)

    common = np.linspace(1.6, 0.4, 10)
    classes = [int(generator.choice(10, p=common / common.sum()))]
    for _ in range(int(generator.integers(0, 4))):
        liking = _companions()[classes].mean(axis=0)
        liking[classes] = 0
        classes.append(int(generator.choice(10, p=liking / liking.sum())))

    canvas = np.zeros((style.size, style.size), dtype=np.float32)
    for _ in range(style.clutter):
        # A quarter of a digit: ink that looks like handwriting but is not a digit.
        piece = images[generator.choice(ours)].copy()
        keep_rows, keep_columns = generator.integers(0, 2, size=2)
        piece[4 * keep_rows : 4 * keep_rows + 4] = 0
        piece[:, 4 * keep_columns : 4 * keep_columns + 4] = 0
        _paste(canvas, piece, generator, style, strength=generator.uniform(0.4, 0.9))
    for digit in classes:
        written = generator.choice(ours[targets[ours] == digit])
        _paste(canvas, images[written], generator, style, strength=generator.uniform(0.6, 1.0))
    canvas += generator.normal(0, style.noise, canvas.shape).astype(np.float32)
    return (canvas.clip(0, 1) * 255).astype(np.uint8), sorted(classes)


def write_scenes(
    folder: Path, part: Literal["train", "test"], count: int, seed: int = 0, style: SceneStyle | None = None
) -> LabelTable:
    """Write ``count`` scenes as PNG files with complete labels in ``<part>.csv``, and return the complete table."""
    (folder / part).mkdir(parents=True, exist_ok=True)
    names, labels = [], []
    for index in range(count):
        pixels, classes = make_scene(part, index, seed, style)
        name = f"{part}/{index:05d}.png"
        Image.fromarray(pixels).save(folder / name)
        names.append(name)
        labels.append(classes)
    lines = [f"{name},{';'.join(CLASSES[c] for c in row)}\n" for name, row in zip(names, labels, strict=True)]
    write_text(folder / f"{part}.csv", "image,tags\n" + "".join(lines))
    table = LabelTable.from_positives(names, CLASSES, labels, blank=NEGATIVE)
    return replace(table, root=folder, source=f"{part}.csv")
