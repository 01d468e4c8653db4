"""Write the reviewed table to a file next to the original, which is never changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from positively.errors import ConfigError, option
from positively.files import free_place, refuse_foreign, sibling
from positively.labels import LabelTable
from positively.review.store import DecisionStore
from positively.tables.options import ReadOptions
from positively.tables.write_back import write_table, written_suffix


def default_export(source: Path) -> Path:
    """Default file of the reviewed table: ``tags.csv`` → ``tags.reviewed.csv``, ``photos/`` likewise."""
    return sibling(source, f".reviewed{written_suffix(source)}")


def free_export(source: Path, store: DecisionStore) -> Path:
    """The default file, with a number if the name is taken by another or an edited file."""
    return free_place(default_export(source), store.is_own_export)


def export_table(
    out: Path,
    source: Path,
    table: LabelTable,
    options: ReadOptions,
    store: DecisionStore,
    decided: Mapping[tuple[str, str], int],
) -> tuple[int, int]:
    """Write the table with the decisions.

    Returns:
        Number of new tags and of new absences.

    Raises:
        FileError: Another file has that name.
    """
    refuse_foreign(out, store.is_own_export, name="export")
    rows = {image: row for row, image in enumerate(table.images)}
    columns = {tag: column for column, tag in enumerate(table.classes)}
    changes = {
        (image, tag): state
        for (image, tag), state in decided.items()
        if state and image in rows and not _is_recorded(table, rows[image], columns.get(tag), state)
    }
    write_table(out, table, changes, source=None if source.is_dir() else source, options=options, reviewed=True)
    store.add_export(out)
    states = list(changes.values())
    return states.count(1), states.count(-1)


def _is_recorded(table: LabelTable, row: int, column: int | None, state: int) -> bool:
    return column is not None and int(table.offsets[row, column]) + int(table.blank) == state


def check_export(out: Path, store: Path) -> None:
    """Raise early if there is nothing to export."""
    if not store.exists():
        raise ConfigError(
            f"{option('export', str(out))}: there is no review in {store} yet. Start one without {option('export')}."
        )
