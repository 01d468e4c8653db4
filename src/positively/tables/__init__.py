"""Read files of any format as label tables, and write tables back."""

from typing import TYPE_CHECKING

from positively.lazy import lazy

if TYPE_CHECKING:
    from positively.tables.formats import TableFormat, register_table
    from positively.tables.options import ReadOptions
    from positively.tables.overlap import image_hashes, refuse_overlap, with_hashes
    from positively.tables.reading import read_labels
    from positively.tables.rows import RawTable, RowFormat, read_text

__all__ = [
    "RawTable",
    "ReadOptions",
    "RowFormat",
    "TableFormat",
    "image_hashes",
    "read_labels",
    "read_text",
    "refuse_overlap",
    "register_table",
    "with_hashes",
]

__getattr__ = lazy(
    __name__,
    {
        "formats": ["TableFormat", "register_table"],
        "options": ["ReadOptions"],
        "overlap": ["image_hashes", "refuse_overlap", "with_hashes"],
        "reading": ["read_labels"],
        "rows": ["RawTable", "RowFormat", "read_text"],
    },
)
