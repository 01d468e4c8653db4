"""Golden record of the small tables, from stored embeddings and from the images."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import numpy.typing as npt

import positively as po
from benchmarks.golden import names
from benchmarks.golden.pictures import CLASSES, TABLES, SmallTable, write_tables
from benchmarks.golden.probe import Record, record_missing, record_probe, require_clear_cut
from benchmarks.golden.review import record_review
from positively.cli import main as positively

REVIEWED = "series"
BY_COMMAND = "negatives"
"""The table that also goes through the command line."""
EMBEDDINGS = "pictures/embeddings"
EVERY_DIMENSION = 8
"""Only every eighth dimension of the embeddings is stored, because all come from the same layer."""
_NOISE, _NOISE_OF_NETWORKS = 1e-6, 1e-5
"""Relative differences of embeddings that must not change a choice: with stored embeddings, and with new ones."""


def record_small(
    folder: Path,
    recorded: Mapping[str, npt.NDArray] | None = None,
    pictures: Sequence[str] = TABLES,
    tables: Sequence[str] = TABLES,
) -> Record:
    """Record the small tables.

    Args:
        folder: An empty folder for images and runs.
        recorded: A record whose embeddings are used, so that probe and review are compared without the network.
        pictures: Tables to embed and train on; all of them without a record.
        tables: Tables to record.

    Returns:
        The record.
    """
    small = write_tables(folder)
    read = {name: po.read(small[name].path, images=folder, quiet=True) for name in (*tables, "test")}
    found: Record = {}
    for name in read:
        found[f"{name}/digest"] = np.array(small[name].digest)
        if name in pictures or (pictures and name == "test"):
            rows = names.embeddings(read[name])
            found[f"{name}/{EMBEDDINGS}"] = rows[:, ::EVERY_DIMENSION]
            if recorded is None and name in TABLES:
                require_clear_cut(rows, read[name], _NOISE_OF_NETWORKS)
                require_clear_cut(rows[:, ::EVERY_DIMENSION], read[name], _NOISE)
    stored = found if recorded is None else recorded
    for name in tables:
        rows = stored[f"{name}/{EMBEDDINGS}"]
        parts = {"probe": record_probe(rows, read[name], stored[f"test/{EMBEDDINGS}"])}
        if name == REVIEWED:
            questions = None if recorded is None else recorded[f"{name}/review/questions"]
            truth = _in_order(small[name], read[name])
            parts["review"] = record_review(folder, small[name].path, read[name], rows, truth, questions)
        if name in pictures:
            parts["pictures"] = _record_pictures(read[name], small["test"], folder / "runs" / name)
        if name in pictures and name == BY_COMMAND:
            parts["pictures by command"] = _record_commands(small[name], small["test"], folder / "runs" / "by-command")
        found |= {f"{name}/{part}/{key}": value for part, record in parts.items() for key, value in record.items()}
    return found


def expected(
    recorded: Mapping[str, npt.NDArray], pictures: Sequence[str] = TABLES, tables: Sequence[str] = TABLES
) -> Record:
    """Part of a record that `record_small` reproduces with these tables, some of which are embedded."""
    embedded = {*pictures, "test"} if pictures else set()

    def is_repeated(name: str) -> bool:
        one, part = name.split("/")[:2]
        return one in (*tables, "test") and (one in embedded or not part.startswith("pictures"))

    return {name: value for name, value in recorded.items() if is_repeated(name)}


def _in_order(small: SmallTable, table: po.LabelTable) -> npt.NDArray[np.int8]:
    """The truth in the class order of the table."""
    return small.truth[:, [CLASSES.index(name) for name in table.classes]]


def _record_pictures(table: po.LabelTable, test: SmallTable, out: Path) -> Record:
    """Record missing list, run, evaluation and predictions with default options."""
    found = record_missing(po.find_missing(table, quiet=True))
    run = po.fit(table, out=out, quiet=True)
    complete = po.read(test.path, images=table.root, blank="negative", quiet=True)
    evaluation = run.evaluate(complete)
    found |= {f"run {name}": value for name, value in record_missing(po.find_missing(run)).items()}
    held_out = run.folder.read_out_of_sample()
    assert held_out is not None
    scores = [list(one.tags.items()) for one in run.predict(complete.paths, top=len(run.classes))]
    tags = [list(one.tags.items()) for one in run.predict(complete.paths)]
    return found | {
        "thresholds": np.array(run.thresholds),
        "out-of-sample scores": held_out[2].scores,
        "out-of-sample probabilities": held_out[2].calibrated.calibration.probabilities(held_out[2].scores),
        "predicted scores": _matrix(scores, run.classes),
        "predicted tags": ~np.isnan(_matrix(tags, run.classes)),
        "evaluation": _evaluation(evaluation.to_dict()),
    }


def _record_commands(table: SmallTable, test: SmallTable, out: Path) -> Record:
    """Record the files written by the commands."""
    images = ["--images", str(table.path.parent)]
    _command("missing", str(table.path), *images, "--out", str(out / "missing"), "--min-probability", "0")
    _command("train", str(table.path), *images, "--out", str(out / "run"))
    _command("evaluate", str(out / "run"), str(test.path), *images, "--blank", "negative")
    _command("predict", str(out / "run"), str(test.path), *images, "--top", "6", "--out", str(out / "tags.jsonl"))
    classes = sorted({row["tag"] for row in _rows(out / "missing" / "classes.csv")})
    listed, counts = _rows(out / "missing" / "missing.csv"), _rows(out / "missing" / "classes.csv")
    predicted = [json.loads(line) for line in (out / "tags.jsonl").read_text().splitlines()]
    limits = json.loads((out / "run" / "thresholds.json").read_text())
    pairs = [[int(Path(row["image"]).stem), classes.index(row["tag"])] for row in listed]
    return {
        "missing.pairs": np.array(pairs, dtype=np.int16),
        "missing.values": np.array([float(row["probability"]) for row in listed]),
        "counts": np.array([[float(row[key]) for key in ("known", "missing", "at_most", "judged")] for row in counts]),
        "thresholds": np.array([limits[name] for name in classes], dtype=np.float64),
        "predicted scores": _matrix([list(one["tags"].items()) for one in predicted], classes),
        "evaluation": _evaluation(json.loads((out / "run" / "evaluation.json").read_text())),
    }


def _command(*words: str) -> None:
    with redirect_stdout(StringIO()) as output:
        code = positively(list(words))
    assert code == 0, output.getvalue()


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _matrix(predictions: list[list[tuple[str, float]]], classes: Sequence[str]) -> npt.NDArray[np.float64]:
    """Scores, shape (N, C); NaN where a tag is not assigned."""
    found = np.full((len(predictions), len(classes)), np.nan)
    for row, tags in enumerate(predictions):
        for tag, score in tags:
            found[row, list(classes).index(tag)] = score
    return found


def _evaluation(content: dict) -> npt.NDArray[np.float64]:
    """MAP, average precision of each class, and F1 in three variants."""
    precision = [np.nan if value is None else value for _, value in sorted(content["average_precision"].items())]
    f1 = [value for name in ("f1", "f1_at_half", "f1_top_3") for value in content[name].values()]
    return np.array([content["mean_average_precision"], *precision, *f1])
