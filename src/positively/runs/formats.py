"""Predictions as CSV, JSON lines or Parquet, written one by one, so any number of them needs little memory."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from itertools import islice
from pathlib import Path

from positively.errors import FileError, option
from positively.files import write_with
from positively.runs.tagging import Prediction
from positively.tables.parquet import import_pyarrow

_ROWS_AT_ONCE = 10_000


def write_csv(path: Path, predictions: Iterable[Prediction]) -> None:
    """One line per image: tags and scores, best first, separated by ``;``, and the error if it could not be read."""
    # Bytes of a file name that are not UTF-8 are escaped, so the file stays valid UTF-8.
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["image", "tags", "scores", "error"])
        for one in predictions:
            scores = ";".join(f"{score:.4f}" for score in one.tags.values())
            writer.writerow([one.image, ";".join(one.tags), scores, one.error or ""])


def write_json_lines(path: Path, predictions: Iterable[Prediction]) -> None:
    """One object per image: ``image``, ``tags`` (tag → score, best first) and ``error``."""
    # Bytes of a file name that are not UTF-8 are escaped as in JSON.
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
        for one in predictions:
            file.write(f"{json.dumps(asdict(one), ensure_ascii=False)}\n")


def write_parquet(path: Path, predictions: Iterable[Prediction]) -> None:
    """One row per image: ``image``, lists ``tags`` and ``scores``, best first, and ``error``."""
    pa = import_pyarrow("Writing")
    lists = {"tags": pa.list_(pa.string()), "scores": pa.list_(pa.float32())}
    schema = pa.schema({"image": pa.string(), **lists, "error": pa.string()})
    remaining = iter(predictions)
    with pa.parquet.ParquetWriter(path, schema) as writer:
        while rows := list(islice(remaining, _ROWS_AT_ONCE)):
            columns = {
                "image": [one.image.encode(errors="backslashreplace").decode() for one in rows],
                "tags": [list(one.tags) for one in rows],
                "scores": [list(one.tags.values()) for one in rows],
                "error": [one.error for one in rows],
            }
            writer.write_table(pa.table(columns, schema=schema))


FORMATS: Mapping[str, Callable[[Path, Iterable[Prediction]], None]] = {
    ".csv": write_csv,
    ".jsonl": write_json_lines,
    ".parquet": write_parquet,
}
"""Ending of a file → its writer."""


def write_predictions_file(out: str | Path, predictions: Iterable[Prediction], *, overwrite: bool = False) -> Path:
    """Write predictions in one step.

    Raises:
        FileError: The file exists and may not be replaced, or no format has its ending.
    """
    path = Path(out)
    if path.suffix.lower() not in FORMATS:
        raise FileError(f"{path}: predictions are written to {', '.join(FORMATS)} files.")
    if path.exists() and not overwrite:
        raise FileError(f"{path} already exists. Choose another file, or pass {option('overwrite', True)}.")
    write_with(path, lambda temporary: FORMATS[path.suffix.lower()](temporary, predictions))
    return path
