"""The list of missing tags as files in a folder of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain, count
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from positively.data.options import ReadOptions
from positively.data.writing import WRITABLE, write_table
from positively.errors import FileError, option
from positively.files import is_temporary, write_json, write_with
from positively.labels import POSITIVE, LabelTable
from positively.missing.listing import MissingTags, Pairs

Format = Literal["csv", "parquet"]

SUMMARY = "summary.json"
COLUMN = "missing"
"""Column of the written table that holds the tags which are probably missing."""
_ROWS_AT_ONCE = 100_000
_MARK = "positively missing"
_NAMES = ("missing", "wrong", "classes")
_LISTS = {f"{name}.{form}" for name in _NAMES for form in ("csv", "parquet")}


class MissingFolder:
    """A folder of our own: its summary is marked and lists our files, and nobody else's are ever written over."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if self.path.exists() and not self.path.is_dir():
            raise FileError(f"{self.path} is a file. Pass another folder with {option('out', 'DIR')}.")
        self._summary = _read_summary(self.path / SUMMARY)
        there = {p.name for p in self.path.iterdir() if not is_temporary(p)} if self.path.exists() else set()
        if there - {"folds"} if not self._summary else there & _LISTS - self._files:
            raise FileError(f"{self.path} holds other files. Pass another folder with {option('out', 'DIR')}.")

    @property
    def folds(self) -> Path:
        """Where the scores of finished folds wait for the others."""
        return self.path / "folds"

    @property
    def _files(self) -> set[str]:
        """Names of the files that this folder's summary lists."""
        return {name for name in self._summary.get("files", ()) if isinstance(name, str)}

    def _list(self, files: set[str]) -> None:
        self._summary |= {"written_by": _MARK, "files": sorted(files)}
        write_json(self.path / SUMMARY, self._summary)

    def write(self, found: MissingTags, form: Format, summary: dict[str, Any]) -> list[Path]:
        """Write the lists and the counts; returns their files."""
        names = {f"{name}.{form}" for name in _NAMES}
        stale = self._files & _LISTS - names  # of an earlier call: they would contradict the new ones
        earlier, self._summary = self._files, {"written_by": _MARK, **summary, **describe(found)}
        self._list(earlier | names)  # before they are written: what a kill leaves behind is ours too
        suggested: dict[str, Any] = {"probability": found.values, "expected_precision": found.expected_precision}
        counts = found.counts
        classes: dict[str, Any] = {
            "tag": list(found.classes),
            "known": counts.known,
            "missing": np.where(counts.learned, np.round(counts.missing, 1), np.nan),
            "at_most": np.where(counts.learned, np.round(counts.at_most, 1), np.nan),
            "judged": counts.learned.astype(np.int64),
        }
        files = [
            self._write(f"missing.{form}", _columns(found, suggested)),
            self._write(f"wrong.{form}", _columns(found.wrong, {"doubt": found.wrong.values})),
            self._write(f"classes.{form}", iter([classes])),
        ]
        for name in stale:
            (self.path / name).unlink(missing_ok=True)
        self._list(self._files - stale)
        return files

    def write_tags(
        self, found: MissingTags, table: LabelTable, source: Path, options: ReadOptions, above: float, accept: bool
    ) -> tuple[Path, int]:
        """Write the table as it came in, with what is at least so probable: in a column of its own, or accepted.

        Returns:
            The file, and how many tags were added.
        """
        total = int((_rounded(found.values) >= above).sum())  # by the probabilities as the list shows them
        rows, columns = found.rows[:total].tolist(), found.columns[:total].tolist()
        added = {
            (found.images[row], found.classes[column]): int(POSITIVE) for row, column in zip(rows, columns, strict=True)
        }
        is_table = source.is_file() and source.suffix.lower() in WRITABLE
        out = self._free(source.stem or "tags", source.suffix if is_table else ".csv")
        self._list(self._files | {out.name})
        write_table(out, table, added, source=source, options=options, column=None if accept else COLUMN)
        return out, total

    def _free(self, stem: str, suffix: str) -> Path:
        """Place for the table: not that of a list, nor of a file that somebody else put there."""
        names = chain([f"{stem}{suffix}", f"{stem}.tagged{suffix}"], (f"{stem}.tagged-{n}{suffix}" for n in count(2)))
        places = (self.path / name for name in names if name not in _LISTS | {SUMMARY})
        return next(place for place in places if place.name in self._files or not place.exists())

    def _write(self, name: str, parts: Iterator[dict[str, Any]]) -> Path:
        import pyarrow
        import pyarrow.csv
        import pyarrow.parquet

        def typed(part: dict[str, Any]) -> Any:  # an empty list has no type by itself
            kinds = {list: pyarrow.string()}
            # From pandas' point of view, NaN is a blank: what cannot be judged has no number.
            arrays = {n: pyarrow.array(v, kinds.get(type(v)), from_pandas=True) for n, v in part.items()}
            return pyarrow.table(arrays)

        def fill(temporary: Path) -> None:
            first = typed(next(parts))
            kind = pyarrow.csv.CSVWriter if name.endswith(".csv") else pyarrow.parquet.ParquetWriter
            style = {"write_options": pyarrow.csv.WriteOptions(quoting_style="needed")} if name.endswith(".csv") else {}
            with kind(str(temporary), first.schema, **style) as writer:
                writer.write_table(first)
                for part in parts:
                    writer.write_table(typed(part))

        write_with(self.path / name, fill)
        return self.path / name


def _read_summary(path: Path) -> dict[str, Any]:
    """The summary of a folder that we wrote; empty for anything else."""
    try:
        summary = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return summary if isinstance(summary, dict) and summary.get("written_by") == _MARK else {}


def describe(found: MissingTags) -> dict[str, Any]:
    """The figures of a list, for a file: counts, and what is expected of its first entries."""
    learned = found.counts.learned
    depths = [depth for depth in (10, 100, 500, 1000, 5000, 10_000) if depth <= len(found)]
    return {
        "suggestions": len(found),
        "missing": float(found.counts.missing[learned].sum()),
        "at_most": float(found.counts.at_most[learned].sum()),
        "expected_precision": {str(depth): float(found.expected_precision[depth - 1]) for depth in depths},
        "wrong": len(found.wrong),
        "not_judged": [found.classes[column] for column in np.flatnonzero(~learned)],
    }


def _columns(pairs: Pairs, values: dict[str, npt.NDArray[Any]]) -> Iterator[dict[str, Any]]:
    """Columns of a list, some rows at a time: names of ten million pairs would not fit into memory at once."""
    for start in range(0, max(len(pairs), 1), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        yield {
            "image": [pairs.images[row] for row in pairs.rows[part].tolist()],
            "tag": [pairs.classes[column] for column in pairs.columns[part].tolist()],
            **{name: _rounded(array[part]) for name, array in values.items()},
        }


def _rounded(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    return np.asarray(np.round(values.astype(np.float64), 4), dtype=np.float64)
