"""Benchmark datasets: a complete training table and a complete test table."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from positively.errors import TableError
from positively.labels import LabelTable
from positively.tables import ReadOptions, read_labels, refuse_overlap, with_hashes


@dataclass(frozen=True)
class Dataset:
    """Training and test table without common images. Labels that are not annotated are negative."""

    name: str
    family: str
    """Dataset of the paper to compare with: "coco", "voc", or "" for neither."""
    train: LabelTable
    test: LabelTable
    notes: tuple[str, ...] = ()

    @property
    def sizes(self) -> str:
        """One-line summary of the sizes."""
        numbers = f"{len(self.train):,} training images, {len(self.test):,} test images"
        return f"{self.name}: {numbers}, {len(self.train.classes)} classes."

    def digest(self) -> str:
        """Digest of all images and labels."""
        return hashlib.blake2b((self.train.digest() + self.test.digest()).encode(), digest_size=6).hexdigest()

    def subset(self, train_images: int | None, test_images: int | None) -> Dataset:
        """Seeded random sample of both tables, in table order."""
        train, test = _sample(self.train, train_images), _sample(self.test, test_images)
        return replace(self, train=train, test=test)


def read_dataset(place: str | Path, options: ReadOptions) -> Dataset:
    """Read a benchmark dataset.

    Args:
        place: COCO folder (train, val), VOCdevkit (trainval, test; or train, val without test), or a folder with
            complete tables ``train.csv`` and ``test.csv`` or ``val.csv`` (and ``classes.txt``).
        options: How to read images and labels; part, blank and classes are overridden.

    Returns:
        The dataset.

    Raises:
        TableError: If the folder has none of these layouts, or the tables do not fit together.
    """
    place = Path(place)
    if (place / "train.csv").is_file():
        train, test, notes = _read_csv(place, options)
    elif any((place / "annotations").glob("instances_*.json")):
        train, test, notes = _read_parts(place, options, "train", "val")
    else:
        has_test = any(place.glob("**/ImageSets/Main/*test.txt"))
        train, test, notes = _read_parts(place, options, *(("trainval", "test") if has_test else ("train", "val")))
    if not test.has_negatives:
        raise TableError(f"{place}: the test labels have no negatives, so nothing can be scored.")
    train, test = with_hashes(train), with_hashes(test)
    refuse_overlap({"the training part": train, "the test part": test})
    family = _family(train.classes)
    year = "2012" if "VOC2012" in str(train.root) else "2007"
    name = f"voc{year}" if family == "voc" else place.resolve().name
    return Dataset(name, family, train, test, tuple(notes))


def _read_csv(place: Path, options: ReadOptions) -> tuple[LabelTable, LabelTable, list[str]]:
    classes = str(place / "classes.txt") if (place / "classes.txt").is_file() else None
    complete = replace(options, blank="negative", classes=options.classes or classes)
    train, train_notes = read_labels(place / "train.csv", complete)
    files = [place / name for name in ("test.csv", "val.csv") if (place / name).is_file()]
    if not files:
        raise TableError(f"{place} has train.csv but no test.csv or val.csv.")
    test, test_notes = read_labels(files[0], complete, classes=train.classes)
    protocol = f"Tags are assumed complete; scored on {files[0].name}."
    return train, test, [protocol, *_notable(train_notes, test_notes)]


def _read_parts(
    place: Path, options: ReadOptions, train_part: str, test_part: str
) -> tuple[LabelTable, LabelTable, list[str]]:
    test, test_notes = read_labels(place, replace(options, part=test_part))
    train, train_notes = read_labels(place, replace(options, part=train_part), classes=test.classes)
    return train, test, [f"Trained on {train_part}, scored on {test_part}.", *_notable(train_notes, test_notes)]


def _notable(*notes: list[str]) -> list[str]:
    """Notes on deviations from the published dataset: images left out, short lists."""
    return [note for some in notes for note in some if "left out" in note or "published" in note]


def _family(classes: tuple[str, ...]) -> str:
    if len(classes) == 80 and "hair drier" in classes:
        return "coco"
    return "voc" if len(classes) == 20 and "tvmonitor" in classes else ""


def _sample(table: LabelTable, images: int | None) -> LabelTable:
    if images is None or images >= len(table):
        return table
    return table.select(np.sort(np.random.default_rng(len(table)).permutation(len(table))[:images]))
