"""What a format of label tables has to do, and which format a path is in. Ours are listed in the registry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from positively.labels import LabelTable
from positively.registry import TABLES
from positively.tables.diagnostics import Report, stop
from positively.tables.options import DEFAULTS, ReadOptions

if TYPE_CHECKING:
    from positively.tables.editable import EditableTable

register_table = TABLES.register
"""Class decorator that registers a table format under a name: ``@register_table("jsonl")``."""


class TableFormat(ABC):
    """A file or folder format that holds images and their labels.

    Formats whose files are rows of cells derive from :class:`positively.tables.rows.RowFormat` instead, which needs
    less.
    """

    suffixes: ClassVar[tuple[str, ...]] = ()
    """Endings of its files, in lower case and with the dot. ``predict`` takes such a file for a table, not an image."""

    def matches(self, path: Path) -> bool:
        """Whether a path is in this format. Must be cheap; by default the ending decides."""
        return path.suffix.lower() in self.suffixes and not path.is_dir()

    @abstractmethod
    def read(
        self,
        path: Path,
        options: ReadOptions = DEFAULTS,
        classes: Sequence[str] | None = None,
        report: Report = stop,
    ) -> tuple[LabelTable, list[str]]:
        """Read the label table, and say in a few lines how it was understood.

        Args:
            path: The file or folder.
            options: How to read it.
            classes: Exactly these classes in this order, as those of a trained model; wins over ``options.classes``.
            report: Called with each problem after which reading can go on; unless told, it raises.

        Raises:
            TableError: The file cannot be understood, or contradicts itself.
            ImageError: Images are missing or broken, and the options do not say to leave them out.
        """

    def images(self, path: Path, options: ReadOptions = DEFAULTS) -> tuple[Path, list[str]]:
        """Folder and names of the images, for ``predict``; formats that can, also name images that are not there."""
        table, _ = self.read(path, replace(options, verify=False))
        return table.root, list(table.images)


@runtime_checkable
class Writer(Protocol):
    """A format that can also be written: one with a method ``write``."""

    suffixes: ClassVar[tuple[str, ...]]

    def read(self, path: Path, options: ReadOptions, classes: Sequence[str] | None) -> tuple[LabelTable, list[str]]:
        """As in :class:`TableFormat`: what was written is read back."""

    def write(self, table: EditableTable, out: Path) -> None:
        """Write all columns and rows, with the details of ``table.source`` where that is in the same format.

        Args:
            table: What to write.
            out: A temporary file, which is read back and then moved into place; its ending says nothing.
        """


def find_format(path: Path) -> TableFormat | None:
    """Find the format a path is in; None for a folder without labels. A file that no format claims is read as CSV."""
    # Formats of the user's own come last in the registry and are asked first: they may claim a .json of their own.
    formats = (TABLES[name]() for name in reversed(list(TABLES)))
    found = next((one for one in formats if one.matches(path)), None)
    return found or (None if path.is_dir() else TABLES["csv"]())


def table_suffixes() -> tuple[str, ...]:
    """Endings of the files that are read as tables."""
    return tuple(suffix for made in TABLES.values() for suffix in made.suffixes)


def writers() -> dict[str, Writer]:
    """Ending of a file → the format that writes it."""
    formats = [made() for made in TABLES.values()]
    return {suffix: one for one in formats if isinstance(one, Writer) for suffix in one.suffixes}
