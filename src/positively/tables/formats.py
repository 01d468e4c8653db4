"""The base class of table formats, and how the format of a path is found."""

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
    """A file or folder format with images and their labels.

    Formats whose files consist of rows of cells derive from :class:`positively.tables.rows.RowFormat` instead, which
    needs less code.
    """

    suffixes: ClassVar[tuple[str, ...]] = ()
    """Suffixes of its files, in lower case and with the dot. ``predict`` reads such files as tables, not as images."""

    def matches(self, path: Path) -> bool:
        """Whether a path has this format. Must be fast; by default the suffix decides."""
        return path.suffix.lower() in self.suffixes and not path.is_dir()

    @abstractmethod
    def read(
        self,
        path: Path,
        options: ReadOptions = DEFAULTS,
        classes: Sequence[str] | None = None,
        report: Report = stop,
    ) -> tuple[LabelTable, list[str]]:
        """Read the label table, with notes on how it was understood.

        Args:
            path: The file or folder.
            options: How to read it.
            classes: Exactly these classes in this order, such as those of a model. Overrides ``options.classes``.
            report: Called with each problem after which reading can continue; by default it raises.

        Raises:
            TableError: The file cannot be understood, or contradicts itself.
            ImageError: Images are missing or broken, and the options do not ask to leave them out.
        """

    def images(self, path: Path, options: ReadOptions = DEFAULTS) -> tuple[Path, list[str]]:
        """Folder and names of the images, for ``predict``; if the format can, also of images that do not exist."""
        table, _ = self.read(path, replace(options, verify=False))
        return table.root, list(table.images)


@runtime_checkable
class Writer(Protocol):
    """A format that can also be written: it has a method ``write``."""

    suffixes: ClassVar[tuple[str, ...]]

    def read(self, path: Path, options: ReadOptions, classes: Sequence[str] | None) -> tuple[LabelTable, list[str]]:
        """As in :class:`TableFormat`; used to read back what was written."""

    def write(self, table: EditableTable, out: Path) -> None:
        """Write all columns and rows, with the details of ``table.source`` if that has the same format.

        Args:
            table: What to write.
            out: A temporary file, which is read back and then moved into place; its suffix means nothing.
        """


def find_format(path: Path) -> TableFormat | None:
    """The format of a path; None for a folder without labels. A file of no known format is read as CSV."""
    # Formats of plugins come last in the registry and are asked first: they may have a .json of their own.
    formats = (TABLES[name]() for name in reversed(list(TABLES)))
    found = next((one for one in formats if one.matches(path)), None)
    return found or (None if path.is_dir() else TABLES["csv"]())


def table_suffixes() -> tuple[str, ...]:
    """Suffixes of the files that are read as tables."""
    return tuple(suffix for made in TABLES.values() for suffix in made.suffixes)


def writers() -> dict[str, Writer]:
    """Suffix of a file → the format that writes it."""
    formats = [made() for made in TABLES.values()]
    return {suffix: one for one in formats if isinstance(one, Writer) for suffix in one.suffixes}
