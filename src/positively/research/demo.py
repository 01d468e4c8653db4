"""The demo: scenes of handwritten digits of which 70 % of the tags are hidden, found again by a probe, in a minute.

It needs no torch. The backbone knows nothing of digits: it was trained on photos.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from positively.api import Embeddings, embed, find_missing, fit, read
from positively.files import write_text
from positively.labels import LabelTable
from positively.logs import counted_progress, logger
from positively.metrics import mean_average_precision
from positively.probe import fit as fit_probe
from positively.research.scenes import CLASSES, write_scenes

KNOWN_RATIO = 0.3
TRAIN_SCENES, TEST_SCENES = 2000, 1000
DEPTHS = (100, 500)


def make_tables(folder: Path) -> tuple[LabelTable, LabelTable]:
    """Write the scenes (once) and return the complete tables of train and test."""
    logger.info(f"Writing {TRAIN_SCENES:,} + {TEST_SCENES:,} scenes of handwritten digits to {folder}.")
    tables = []
    for part, count in (("train", TRAIN_SCENES), ("test", TEST_SCENES)):
        file = folder / f"{part}.csv"
        if not file.exists():  # written last, so that an interrupted call starts over
            write_scenes(folder, part, count)  # type: ignore[arg-type]
        tables.append(read(file, classes=str(classes_file(folder)), blank="negative", quiet=True))
    return tables[0], tables[1]


def write_tags(folder: Path, table: LabelTable, seed: int = 0) -> LabelTable:
    """Write the table a user would have, 30 % of the positive tags, as a CSV file, and read it back."""
    hidden = table.with_known_ratio(KNOWN_RATIO, seed).positives_only()
    lines = []
    for image, states in zip(hidden.images, hidden.states(), strict=True):
        lines.append(f"{image},{';'.join(hidden.classes[c] for c in np.flatnonzero(states == 1))}\n")
    file = folder / f"train-30-percent-seed{seed}.csv"
    write_text(file, "image,tags\n" + "".join(lines))
    return read(file, classes=str(classes_file(folder)), quiet=True)


def classes_file(folder: Path) -> Path:
    """File with the names of all classes: among few tags one might be missing."""
    file = folder / "classes.txt"
    write_text(file, "\n".join(CLASSES) + "\n")
    return file


def run_demo(out: Path, backbone: str = "auto") -> dict[str, float]:
    """Find the hidden tags, train a run, and compare it with a probe that sees every label.

    Args:
        out: Folder of the scenes, the lists and the run; what is stored there is used again.
        backbone: What embeds the scenes.

    Returns:
        Measures by name, all shares.
    """
    scenes = out / "scenes"
    complete, test = make_tables(scenes)
    tags = write_tags(scenes, complete)
    found = find_missing(tags, backbone=backbone, quiet=True)
    found.write(out / "missing")
    hidden = {(image, tag) for image, tag in _positives(complete)} - set(_positives(tags))
    right = np.array([(one.image, one.tag) in hidden for one in found[: DEPTHS[-1]]])
    run = fit(tags, backbone=backbone, out=str(out / "run"), resume="auto", quiet=True)
    train, new = (_embed(table, backbone) for table in (complete, test))
    scores = fit_probe(train.X, complete.states()).scores(new.X)
    return {
        **{f"right among the first {depth} suggestions": float(right[:depth].mean()) for depth in DEPTHS},
        "mAP on test scenes, 30 % of the tags": run.evaluate(test).mean_average_precision,
        "mAP on test scenes, every label": mean_average_precision(scores, test.states()),
    }


def _positives(table: LabelTable) -> list[tuple[str, str]]:
    return [(table.images[row], table.classes[column]) for row, column in np.argwhere(table.states() == 1).tolist()]


def _embed(table: LabelTable, backbone: str) -> Embeddings:
    with counted_progress(f"Embedding {table.source}") as progress:
        return embed(table, backbone, progress=progress)
