"""Bytes → text → rows of cells, each with the line it stands on: for tables, and for lists of aliases and classes."""

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
    """A file as named columns of text cells; ``rows()`` walks through it from the top each time it is called."""

    source: str
    columns: tuple[str, ...]
    rows: Callable[[], Iterator[Row]]
    has_header: bool = True
    header_line: int = 1
    encoding: str = "UTF-8"
    kind: str = "CSV"
    """Name of the format, as it is told."""
    unit: str = "line"
    """What the numbers of the rows count in the file."""
    whole_rows: Callable[[], Iterator[Row]] | None = None
    """The same rows with the text of cells that can hold no labels, such as records, which ``rows()`` gives as blanks;
    None where there are none. Used to write such columns in another format."""

    def place(self, line: int) -> str:
        """Name a row as a person finds it: ``tags.csv line 14``."""
        return f"{self.source} {self.unit} {line}"


def read_bytes(path: Path) -> bytes:
    """Contents of a file, or a sentence."""
    try:
        contents = path.read_bytes()
    except FileNotFoundError:
        raise TableError(f"{path}: not found. Check the path.") from None
    except OSError as error:
        what = "a folder, not a file" if path.is_dir() else f"cannot be read ({error.strerror})"
        raise TableError(f"{path}: {what}. Pass the file that holds the tags.") from None
    if not contents.strip():
        raise TableError(f"{path}: the file is empty. It needs a header and one line an image.")
    return contents


def read_text(path: Path) -> tuple[str, str]:
    """Text of a file and the encoding it is in: UTF-8, UTF-16 with its mark, or else Windows-1252."""
    contents = read_bytes(path)
    for signature, sentence in _SIGNATURES.items():
        if contents.startswith(signature):
            raise TableError(f"{path}: the file {sentence}.")
    text, encoding = _decode(path, contents)
    if "\0" in text:
        raise TableError(f"{path}: the file holds NUL bytes, so it is not text. Save it as CSV in UTF-8.")
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
    """Rows that hold anything, each with the line on which it begins (a quoted cell may span several)."""
    # Strict, because a quotation mark that is never closed would otherwise swallow the rest of the file in silence.
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
            "Close the mark, or write it twice where it belongs to the text."
        ) from None


@contextmanager
def _cells_of_any_length() -> Iterator[None]:
    """Lift the limit of the csv module (131,072 characters a cell), which is one for the whole process, and restore it.

    A cell may hold thousands of tags. Nothing of the program's own code runs meanwhile, and no second reader of ours.
    """
    with _LIMIT_LOCK:
        limit = csv.field_size_limit(2**31 - 1)
        try:
            yield
        finally:
            csv.field_size_limit(limit)


def find_delimiter(text: str) -> str:
    r"""Find which of , ; tab | stands between the cells, by the first lines.

    >>> find_delimiter("image;tags\na.jpg;cat, dog\n")
    ';'
    """
    start = text[:_SNIFFED_CHARACTERS]
    if has_excel_hint(text):
        return start[4]
    return max(_DELIMITERS, key=lambda delimiter: _score(start, delimiter))


def has_excel_hint(text: str) -> bool:
    """Whether the first line tells Excel what stands between the cells: ``sep=;``."""
    return text[:4].lower() == "sep=" and text[5:6] in ("\r", "\n")


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
    # Excel writes `sep=;` as the first line when asked to; split at its own delimiter it is two cells.
    return line == 1 and delimiter.join(cells).lower() == f"sep={delimiter}"
