"""Three small tables of generated images, and a complete test table, identical on every machine.

Images are drawn with NumPy and stored as PNG. An image shows shapes of random size and position on a noisy background.
Each shape usually has the same color, so that a frozen network can tell most of them apart.
"""

from __future__ import annotations

import csv
import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

CLASSES = ("ring", "square", "stripes", "cross", "triangle", "dots")
_COLORS = ((220, 40, 40), (40, 180, 60), (50, 60, 220), (220, 190, 40), (200, 60, 200), (60, 200, 210))
_SIDE, _SHAPE = 72, 28
_FREQUENCY = (0.42, 0.38, 0.34, 0.30, 0.26, 0.24)
TABLES = ("negatives", "series", "single")
SIZES = {"negatives": 120, "series": 150, "single": 160, "test": 60}
LABEL_SEEDS = {"negatives": 0, "series": 5, "single": 0, "test": 0}
"""Seeds of the known labels, chosen so that rounding decides no λ and all three kinds of last steps occur."""
_COPIES, _SERIES, _SERIES_LENGTH, _WRONG = 10, 5, 4, 6
_COPIED = slice(20, 20 + _COPIES)
"""Rows of the images that have an exact copy."""

Pixels = npt.NDArray[np.uint8]
States = npt.NDArray[np.int8]


@dataclass(frozen=True)
class SmallTable:
    """One table on disk."""

    name: str
    path: Path
    truth: States
    """True label states +1 and −1, shape (N, C)."""
    states: States
    """Known label states +1, 0 and −1, shape (N, C)."""
    digest: str
    """SHA-256 of all pixels."""


def write_tables(folder: Path) -> dict[str, SmallTable]:
    """Write all tables and their images into an empty folder."""
    return {name: _write_table(folder, name) for name in SIZES}


def _write_table(folder: Path, name: str) -> SmallTable:
    generator = np.random.default_rng([24, sorted(SIZES).index(name)])
    truth = np.where(generator.random((SIZES[name], len(CLASSES))) < _FREQUENCY, 1, -1).astype(np.int8)
    truth[(truth < 0).all(axis=1), 0] = 1
    pixels = [_draw(row, generator) for row in truth]
    if name == "series":
        pixels, truth = _with_series(pixels, truth, generator)
    states = _known(name, truth, np.random.default_rng([LABEL_SEEDS[name], sorted(SIZES).index(name)]))
    digest = hashlib.sha256(np.stack(pixels).tobytes()).hexdigest()
    images = [f"{name}/{row:03d}.png" for row in range(len(pixels))]
    (folder / name).mkdir(parents=True)
    for image, picture in zip(images, pixels, strict=True):
        Image.fromarray(picture).save(folder / image)
    path = folder / f"{name}.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        # Only one of the tables has a column of absent tags.
        writer.writerow(["image", "tags", "absent"] if name == "negatives" else ["image", "tags"])
        for image, row in zip(images, states, strict=True):
            present, absent = (";".join(CLASSES[c] for c in np.flatnonzero(row == sign)) for sign in (1, -1))
            writer.writerow([image, present, absent] if name == "negatives" else [image, present])
    return SmallTable(name, path, truth, states, digest)


def _known(name: str, truth: States, generator: np.random.Generator) -> States:
    """Known label states of a table."""
    draws = generator.random(truth.shape)
    if name == "test":
        return truth
    if name == "negatives":
        return np.where(draws < 0.5, truth, 0).astype(np.int8)
    if name == "single":
        chosen = np.where(truth > 0, draws, -1.0).argmax(axis=1)
        return (np.arange(truth.shape[1]) == chosen[:, None]).astype(np.int8)
    states = ((truth > 0) & (draws < 0.5)).astype(np.int8)
    # Some tags are wrong, on images that are neither copies nor part of a series.
    for row in range(_WRONG):
        states[row, int(np.flatnonzero(truth[row] < 0)[0])] = 1
    # No tag is known for both an image and its copy, because rounding would decide the order of equal scores.
    copies = states[SIZES[name] : SIZES[name] + _COPIES]
    copies[states[_COPIED] == 1] = 0
    return states


def _with_series(pixels: list[Pixels], truth: States, generator: np.random.Generator) -> tuple[list[Pixels], States]:
    """Add exact copies, and series of images that differ in brightness and noise."""
    rows = list(range(len(pixels)))
    for row in range(*_COPIED.indices(len(pixels))):
        pixels.append(pixels[row].copy())
        rows.append(row)
    for row in range(40, 40 + _SERIES):
        for _ in range(_SERIES_LENGTH - 1):
            changed = pixels[row] * generator.uniform(0.95, 1.05) + generator.integers(-2, 3, pixels[row].shape)
            pixels.append(changed.clip(0, 255).astype(np.uint8))
            rows.append(row)
    return pixels, truth[rows]


def _draw(row: npt.NDArray[np.int8], generator: np.random.Generator) -> Pixels:
    """Draw an image of the given shapes."""
    pixels = generator.integers(70, 150, 3) + generator.integers(-30, 31, (_SIDE, _SIDE, 3))
    for c in generator.permutation(np.flatnonzero(row > 0)):
        usual = generator.random() < 0.8
        color = np.array(_COLORS[c]) if usual else generator.integers(0, 256, 3)
        size = int(generator.integers(_SHAPE * 2 // 3, _SHAPE + 1))
        top, left = generator.integers(0, _SIDE - size, 2)
        mask = _mask(CLASSES[c], size)
        region = pixels[top : top + size, left : left + size]
        region[mask] = color + generator.integers(-25, 26, (int(mask.sum()), 3))
    return np.asarray(pixels.clip(0, 255), dtype=np.uint8)


def _mask(shape: str, size: int) -> npt.NDArray[np.bool_]:
    """Mask of a shape."""
    y, x = np.mgrid[:size, :size]
    middle = (size - 1) / 2
    distance = np.hypot(y - middle, x - middle)
    masks = {
        "ring": (distance <= middle) & (distance > middle * 0.55),
        "square": np.ones((size, size), dtype=np.bool_),
        "stripes": (y // 3) % 2 == 0,
        "cross": (np.abs(y - middle) < size / 6) | (np.abs(x - middle) < size / 6),
        "triangle": np.abs(x - middle) <= y / 2,
        "dots": (y % 8 < 4) & (x % 8 < 4),
    }
    return np.asarray(masks[shape], dtype=np.bool_)
