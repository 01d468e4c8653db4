"""Write the list of missing tags to a folder."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from positively.errors import FileError, option
from positively.files import file_digest, free_place, refuse_foreign, write_json, write_with
from positively.labels import POSITIVE, LabelTable
from positively.manifest import MANIFEST, Manifest
from positively.missing.result import MissingTags, Pairs, rounded
from positively.tables.dialect import Dialect, dialect_for_lists
from positively.tables.options import ReadOptions
from positively.tables.parquet import write_columns
from positively.tables.write_back import write_table, written_suffix

Format = Literal["csv", "parquet"]

SUMMARY = "summary.json"
COLUMN = "missing"
"""Column of the written table for the tags that are probably missing."""
_ROWS_AT_ONCE = 100_000
_ELSEWHERE = f"Pass another folder with {option('out', 'DIR')}."
_NAMES = ("missing", "wrong", "classes")
_LISTS = {f"{name}.{form}" for name in _NAMES for form in ("csv", "parquet")}


class MissingFolder:
    """A folder whose manifest lists the files we wrote, with their digests.

    Only files that are listed there and have not changed since are overwritten.

    Args:
        path: The folder; it does not have to exist.
        source: The table that is read, which is never overwritten.

    Raises:
        FileError: The folder cannot be written, or a file that would be overwritten is not ours or was changed.
    """

    def __init__(self, path: str | Path, source: Path | None = None) -> None:
        self.path, self._source = Path(path), source
        if self.path.exists() and not self.path.is_dir():
            raise FileError(f"{self.path} is a file. {_ELSEWHERE}")
        places = (self.path, *self.path.absolute().parents)
        above = next((place for place in places if place.exists()), places[-1])  # Windows: a disk that does not exist
        if not (above.is_dir() and os.access(above, os.W_OK)):
            raise FileError(f"{self.path} cannot be written: no write permission in {above}. {_ELSEWHERE}")
        self._manifest = Manifest(self.path)
        self._refuse_others()

    def _refuse_others(self) -> None:
        """Raise if a list would replace a file that is not ours, or if a folder that is not ours has any file."""
        is_ours = self._manifest.read() is not None

        def may_stay(place: Path) -> bool:
            return place == self.folds or (is_ours and place.name not in _LISTS) or self._is_own(place)

        refuse_foreign(self.path, may_stay, "DIR")

    def _is_own(self, place: Path) -> bool:
        """Whether a file may be overwritten: it is ours, has not changed since, and is not the table that is read."""
        is_source = self._source is not None and self._source.exists() and self._source.samefile(place)
        return not is_source and self._manifest.may_replace(place)

    @property
    def folds(self) -> Path:
        """Folder for the scores of finished folds."""
        return self.path / "folds"

    def write(
        self, found: MissingTags, form: Format, summary: dict[str, Any], source: Path | None = None
    ) -> list[Path]:
        """Write the lists and the counts, and return their files. Lists in CSV have the delimiter of the source."""
        self._refuse_others()  # again, because a list may have been edited meanwhile
        names = [f"{name}.{form}" for name in _NAMES]
        dialect = dialect_for_lists(source or self._source)
        listed = self._manifest.read() or {}
        # Listed before they are written, so that the files of a killed process are ours too.
        self._manifest.write(listed | dict.fromkeys([*names, SUMMARY]))
        write_json(self.path / SUMMARY, {**summary, **describe(found)})
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
            self._write(f"missing.{form}", _columns(found, suggested), dialect),
            self._write(f"wrong.{form}", _columns(found.wrong, {"doubt": found.wrong.values}), dialect),
            self._write(f"classes.{form}", iter([classes]), dialect),
        ]
        for name in listed.keys() & _LISTS - set(names):  # of an earlier call, which would contradict the new ones
            (self.path / name).unlink(missing_ok=True)
            del listed[name]
        self._manifest.write(listed | {file.name: file_digest(file) for file in (*files, self.path / SUMMARY)})
        return files

    def write_tags(
        self, found: MissingTags, table: LabelTable, source: Path, options: ReadOptions, above: float, accept: bool
    ) -> tuple[Path, int]:
        """Write the table with the tags above a probability, in a separate column or among the others.

        Returns:
            The file, and how many tags were added.
        """
        added = {(one.image, one.tag): int(POSITIVE) for one in found.above(above)}
        self._source = source  # the source of a run is known only now
        out = self._free(source.stem or "tags", written_suffix(source))
        write_table(
            out, table, added, source=source, options=options, column=None if accept else COLUMN, reviewed=accept
        )
        listed = self._manifest.read() or {}
        # The copy of another table, such as the one before its review, does not belong to the lists.
        for name in listed.keys() - {*_LISTS, SUMMARY, out.name}:
            if self._is_own(self.path / name):
                (self.path / name).unlink()
                del listed[name]
        self._manifest.write(listed | {out.name: file_digest(out)})
        return out, len(added)

    def _free(self, stem: str, suffix: str) -> Path:
        """A path for the table that is not that of a list, nor of a file that is not ours or was changed."""
        first = self.path / f"{stem}{suffix}"
        is_taken = first.name in {*_LISTS, SUMMARY, MANIFEST} or (first.exists() and not self._is_own(first))
        return free_place(self.path / f"{stem}.tagged{suffix}", self._is_own) if is_taken else first

    def _write(self, name: str, parts: Iterator[dict[str, Any]], dialect: Dialect) -> Path:
        def write(temporary: Path) -> None:
            if name.endswith(".csv"):
                _write_csv(temporary, parts, dialect)
            else:
                write_columns(temporary, parts)

        write_with(self.path / name, write)
        return self.path / name


def _write_csv(out: Path, parts: Iterator[dict[str, Any]], dialect: Dialect) -> None:
    with out.open("w", encoding=dialect.encoding, newline="") as file:
        writer = csv.writer(file, delimiter=dialect.delimiter, lineterminator="\n")
        for number, part in enumerate(parts):
            if not number:
                writer.writerow(part)
            writer.writerows(zip(*(map(_cell, values) for values in part.values()), strict=True))


def _cell(value: Any) -> str:
    """A cell of a list: blank for what cannot be judged, no decimals for whole numbers."""
    if isinstance(value, str):
        return value
    return "" if np.isnan(value) else f"{value:.12g}"


def describe(found: MissingTags) -> dict[str, Any]:
    """Counts and expected precision of a list, for summary.json."""
    learned = found.counts.learned
    depths = [depth for depth in (10, 100, 500, 1000, 5000, 10_000) if depth <= len(found)]
    return {
        "suggestions": len(found),
        "missing": float(found.counts.missing[learned].sum()),
        "at_most": float(found.counts.at_most[learned].sum()),
        "expected_precision": {str(depth): float(found.expected_precision[depth - 1]) for depth in depths},
        "caution": found.caution,
        "wrong": len(found.wrong),
        "not_judged": [found.classes[column] for column in np.flatnonzero(~learned)],
    }


def _columns(pairs: Pairs, values: dict[str, npt.NDArray[Any]]) -> Iterator[dict[str, Any]]:
    """The columns of a list, some rows at a time, because the names of ten million pairs do not fit into memory."""
    for start in range(0, max(len(pairs), 1), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        yield {
            "image": [pairs.images[row] for row in pairs.rows[part].tolist()],
            "tag": [pairs.classes[column] for column in pairs.columns[part].tolist()],
            **{name: rounded(array[part]) for name, array in values.items()},
        }
