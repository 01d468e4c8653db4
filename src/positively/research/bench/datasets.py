"""A benchmark: a complete training table and a complete test table, read from where they lie."""

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
    """Two tables without an image in common; what is not annotated in them is negative."""

    name: str
    family: str
    """Whose figures of the paper stand beside it: "coco", "voc", or "" for neither."""
    train: LabelTable
    test: LabelTable
    notes: tuple[str, ...] = ()

    @property
    def sizes(self) -> str:
        """A line that says how large it is."""
        numbers = f"{len(self.train):,} images to learn from, {len(self.test):,} to test on"
        return f"{self.name}: {numbers}, {len(self.train.classes)} classes."

    def digest(self) -> str:
        """Short name of all images and labels."""
        return hashlib.blake2b((self.train.digest() + self.test.digest()).encode(), digest_size=6).hexdigest()

    def subset(self, train_images: int | None, test_images: int | None) -> Dataset:
        """A seeded sample of both tables, the rows in their order."""
        train, test = _sample(self.train, train_images), _sample(self.test, test_images)
        return replace(self, train=train, test=test)


def read_dataset(place: str | Path, options: ReadOptions) -> Dataset:
    """Read a benchmark.

    Args:
        place: COCO's folder (train → val), a VOCdevkit (trainval → test; train → val where there is no test), or a
            folder with ``train.csv`` and ``test.csv`` or ``val.csv`` whose tags are complete (and ``classes.txt``).
        options: How to read images and labels; part, blank and classes are ours.

    Raises:
        TableError: If there is nothing of the kind, or the two tables do not fit.
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
        raise TableError(f"{place}: the test labels have no negatives, so that nothing can be scored.")
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
        raise TableError(f"{place} has train.csv but neither test.csv nor val.csv to score on.")
    test, test_notes = read_labels(files[0], complete, classes=train.classes)
    protocol = f"Tags are taken as complete; scored on {files[0].name}."
    return train, test, [protocol, *_notable(train_notes, test_notes)]


def _read_parts(
    place: Path, options: ReadOptions, train_part: str, test_part: str
) -> tuple[LabelTable, LabelTable, list[str]]:
    test, test_notes = read_labels(place, replace(options, part=test_part))
    train, train_notes = read_labels(place, replace(options, part=train_part), classes=test.classes)
    return train, test, [f"Learning from {train_part}, scored on {test_part}.", *_notable(train_notes, test_notes)]


def _notable(*notes: list[str]) -> list[str]:
    """What is not as published: images left out, lists that are short."""
    return [note for some in notes for note in some if "left out" in note or "published" in note]


def _family(classes: tuple[str, ...]) -> str:
    if len(classes) == 80 and "hair drier" in classes:
        return "coco"
    return "voc" if len(classes) == 20 and "tvmonitor" in classes else ""


def _sample(table: LabelTable, images: int | None) -> LabelTable:
    if images is None or images >= len(table):
        return table
    return table.select(np.sort(np.random.default_rng(len(table)).permutation(len(table))[:images]))
