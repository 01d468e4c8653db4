"""Decode text files and split them into rows of cells with line numbers."""

import codecs
import csv
import io
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from positively.errors import TableError
from positively.images.decode import is_image_name

if TYPE_CHECKING:
    import _csv

Row = tuple[int, list[str]]

_DELIMITERS = ",;\t|"
_SNIFFED_ROWS = 50
_SNIFFED_CHARACTERS = 1 << 20
_ROWS_AT_ONCE = 1000
_LIMIT_LOCK = threading.Lock()
_SIGNATURES = {
    b"PK\x03\x04": "is a spreadsheet or an archive, not text. Open it and save it as CSV",
    b"\xd0\xcf\x11\xe0": "is an Excel workbook, not text. Open it and save it as CSV",
    b"\x1f\x8b": "is compressed. Unpack it first",
}


@dataclass(frozen=True)
class RawTable:
    """A file as named columns of text cells. Each call of ``rows()`` iterates over it from the start."""

    source: str
    columns: tuple[str, ...]
    rows: Callable[[], Iterator[Row]]
    has_header: bool = True
    header_line: int = 1
    encoding: str = "UTF-8"
    kind: str = "CSV"
    """Name of the format, for notes."""
    unit: str = "line"
    """What the numbers of the rows count in the file."""
    whole_rows: Callable[[], Iterator[Row]] | None = None
    """The same rows, with text for cells that cannot hold labels, such as records, which ``rows()`` gives as blanks;
    None if there are none. Used to write such columns in another format."""

    def place(self, line: int) -> str:
        """Name a row, such as ``tags.csv line 14``."""
        return f"{self.source} {self.unit} {line}"


def read_bytes(path: Path) -> bytes:
    """The contents of a file.

    Raises:
        TableError: There is no such file, or it is empty or cannot be read.
    """
    try:
        contents = path.read_bytes()
    except FileNotFoundError:
        raise TableError(f"{path}: not found. Check the path.") from None
    except OSError as error:
        what = "a folder, not a file" if path.is_dir() else f"cannot be read ({error.strerror})"
        raise TableError(f"{path}: {what}. Pass the file that holds the tags.") from None
    if not contents.strip():
        raise TableError(f"{path}: the file is empty. It needs a header and a line for each image.")
    return contents


def read_text(path: Path) -> tuple[str, str]:
    """The text of a file and its encoding: UTF-8, UTF-16 with a byte order mark, or else Windows-1252."""
    contents = read_bytes(path)
    for signature, sentence in _SIGNATURES.items():
        if contents.startswith(signature):
            raise TableError(f"{path}: the file {sentence}.")
    text, encoding = _decode(path, contents)
    if "\0" in text:
        raise TableError(f"{path}: the file has NUL bytes, so it is not text. Save it as CSV in UTF-8.")
    return text, encoding


def _decode(path: Path, contents: bytes) -> tuple[str, str]:
    marked = contents.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    for codec, name in [("utf-16", "UTF-16")] if marked else [("utf-8-sig", "UTF-8"), ("cp1252", "Windows-1252")]:
        try:
            return contents.decode(codec), name
        except UnicodeDecodeError:
            continue
    raise TableError(f"{path}: the text is neither UTF-8 nor Windows-1252. Save it as CSV in UTF-8.")


def parse_rows(text: str, delimiter: str, source: str) -> Iterator[Row]:
    """Rows that are not blank, with the line on which each begins (a quoted cell may span several lines)."""
    # Strict, because otherwise an unclosed quotation mark silently takes the rest of the file into one cell.
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    numbered = _numbered(reader, source)
    while True:
        with _cells_of_any_length():
            rows = list(islice(numbered, _ROWS_AT_ONCE))
        if not rows:
            return
        for line, cells in rows:
            if any(cell and not cell.isspace() for cell in cells) and not _is_excel_hint(line, cells, delimiter):
                yield line, cells


def _numbered(reader: "_csv.Reader", source: str) -> Iterator[Row]:
    line = 1
    try:
        for cells in reader:
            yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        raise TableError(
            f"{source} line {line}: the quotation marks do not match ({error}). "
            "Close it, or write it twice if it belongs to the text."
        ) from None


@contextmanager
def _cells_of_any_length() -> Iterator[None]:
    """Raise the limit of the csv module (131,072 characters a cell) for a moment: a cell may have thousands of tags.

    The limit is one for the whole process, so a lock keeps other readers of ours out meanwhile.
    """
    with _LIMIT_LOCK:
        limit = csv.field_size_limit(2**31 - 1)
        try:
            yield
        finally:
            csv.field_size_limit(limit)


def find_delimiter(text: str) -> str:
    r"""Find which of , ; tab | separates the cells, from the first lines.

    >>> find_delimiter("image;tags\na.jpg;cat, dog\n")
    ';'
    """
    start = text[:_SNIFFED_CHARACTERS]
    if has_excel_hint(text):
        return start[4]
    return max(_DELIMITERS, key=lambda delimiter: _score(start, delimiter))


def has_excel_hint(text: str) -> bool:
    """Whether the first line tells Excel the delimiter: ``sep=;``."""
    return text[:4].lower() == "sep=" and text[5:6] in ("\r", "\n")


@dataclass(frozen=True)
class Dialect:
    """How a text file with delimiters is written."""

    delimiter: str = ","
    encoding: str = "utf-8"
    line_end: str = "\n"
    has_hint: bool = False
    """Whether the first line tells Excel the delimiter."""


def dialect_of(path: Path) -> Dialect:
    """The dialect of a text file, to write another one like it: UTF-8, with a byte order mark if Excel needs it."""
    text, found = read_text(path)
    # Excel reads UTF-8 without a byte order mark as Windows-1252.
    marked = path.read_bytes().startswith(codecs.BOM_UTF8) or found != "UTF-8"
    line_end = "\r\n" if "\r\n" in text[: text.find("\n") + 1] else "\n"
    return Dialect(find_delimiter(text), "utf-8-sig" if marked else "utf-8", line_end, has_excel_hint(text))


def dialect_for_lists(source: Path | None) -> Dialect:
    """The dialect of the .csv files that we write about a table: that of the table if it is a .csv file, too."""
    return (
        dialect_of(source) if source is not None and source.suffix.lower() == ".csv" and source.is_file() else Dialect()
    )


def _score(start: str, delimiter: str) -> tuple[bool, float, float, int]:
    reader = csv.reader(io.StringIO(start, newline=""), delimiter=delimiter)
    with _cells_of_any_length():
        rows = [cells for cells in islice(reader, _SNIFFED_ROWS) if cells]
    if not rows or len(rows[0]) < 2:
        return False, 0.0, 0.0, 0
    with_image = sum(any(is_image_name(cell.strip()) for cell in cells) for cells in rows)
    as_wide = sum(len(cells) == len(rows[0]) for cells in rows)
    return True, with_image / len(rows), as_wide / len(rows), len(rows[0])


def _is_excel_hint(line: int, cells: list[str], delimiter: str) -> bool:
    # Split at its own delimiter, the line `sep=;` for Excel is two cells.
    return line == 1 and delimiter.join(cells).lower() == f"sep={delimiter}"
