"""A table of text, as Markdown, as CSV, and as a part of a page."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass

from positively.errors import ConfigError


@dataclass(frozen=True)
class Table:
    """A table of text; a row of one cell is a divider across all columns."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    is_text: bool = False
    """Whether its cells are sentences, which are left-aligned and may wrap."""
    is_sortable: bool = False
    """Whether readers can sort it, by the first number of each cell; long tables scroll under their head."""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) not in (1, len(self.head)):
                raise ConfigError(f"{self.title}: a row of {len(row)} cells under {len(self.head)} heads: {row[0]}.")

    def markdown(self) -> str:
        """As Markdown: title, table, notes."""
        lines = [tuple(escape_markdown(cell) for cell in self.head)]
        lines.append((":--", *(":--" if self.is_text else "--:",) * (len(self.head) - 1)))
        for row in self.rows:
            cells = [escape_markdown(cell) for cell in row]
            lines.append(tuple(cells) if len(row) > 1 else (f"**{cells[0]}**", *("",) * (len(self.head) - 1)))
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        notes = "\n".join(f"- {escape_markdown(note)}" for note in self.notes)
        return f"**{escape_markdown(self.title)}**\n\n{table}\n" + (f"\n{notes}\n" if notes else "")

    def csv(self) -> str:
        """As CSV: head and rows; a divider is a row of one cell."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.head, *self.rows])
        return text.getvalue()


def escape_markdown(text: str) -> str:
    r"""Text with the special characters of Markdown escaped.

    >>> print(escape_markdown("PU-MLC* | <b>"))
    PU-MLC\* \| \<b\>
    """
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", " ".join(text.split()))
