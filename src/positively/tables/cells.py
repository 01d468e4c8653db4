"""Parse the contents of a cell: a state, one tag, or several tags."""

import ast
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from positively.errors import TableError, option

Code = Literal["positive", "zero", "negative", "blank"]

_WORDS: dict[str, Code] = {
    **dict.fromkeys(("x", "yes", "y", "true", "t", "✓", "✔"), "positive"),
    **dict.fromkeys(("no", "n", "false", "f"), "zero"),
    **dict.fromkeys(("", "nan", "na", "n/a", "<na>", "null", "none"), "blank"),
}
_NUMBERS: dict[float, Code] = {1.0: "positive", 0.0: "zero", -1.0: "negative"}

# Lines for each image, from which on a table whose header says "tags" may still hold one tag a line.
_LINES_AN_IMAGE = 1.2
# Commas for each other mark in a table whose tags may hold commas.
_RIVALS = 4
_SEPARATORS = {";": "';'", "|": "'|'", "\n": "line breaks", ",": "','"}
_ESCAPED = {"\\n": "\n", "\\t": "\t"}
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")
_SIDE_BY_SIDE = re.compile(r"['\"]\s+['\"]")

EMPTY_IN_PANDAS = frozenset({"nan", "NaN", "None", "<NA>"})
"""What pandas writes for an empty cell that was converted to text."""

Splitter = Callable[[str], list[str]]


@dataclass(frozen=True)
class TagSyntax:
    """How tags are separated in a cell, and the words that describe it in notes."""

    split: Splitter
    wording: str
    notes: tuple[str, ...] = ()
    one_a_cell: bool = False
    separator: str | None = None
    """The character between two tags, if there is one."""

    @property
    def is_list(self) -> bool:
        """Whether each cell is written as a list."""
        return self.separator is None and not self.one_a_cell


def state_code(cell: str) -> Code | None:
    """Read a cell in the column of a class: 1, 0, −1, blank or another spelling of these; None for anything else.

    >>> [state_code(cell) for cell in ("1.0", "FALSE", "-1", " ", "cat")]
    ['positive', 'zero', 'negative', 'blank', None]
    """
    word = cell.strip().casefold()
    if word in _WORDS:
        return _WORDS[word]
    try:
        return _NUMBERS.get(float(word.replace("−", "-").replace(",", ".")))
    except ValueError:
        return None


def find_syntax(
    cells: Iterable[str], asked: str | None, *, has_states: bool = False, one_a_cell: bool = False
) -> TagSyntax:
    """Find how tags are separated, looking at every cell.

    Args:
        cells: The cells that hold tags.
        asked: Separator given by the user, which decides.
        has_states: Each line has a state of its own, so a comma belongs to the name.
        one_a_cell: Each cell holds one tag, so every mark belongs to the name.
    """
    if asked is not None:
        return _asked_syntax(_ESCAPED.get(asked, asked))
    filled = [cell for cell in (cell.strip() for cell in cells) if cell]
    if filled and all(map(_is_list, filled)):
        return TagSyntax(_split_list, "written as lists")
    counts = _count_marks(filled)
    if has_states:
        counts[","] = 0
    chosen = None if one_a_cell else _likely_mark(counts)
    rival = max((mark for mark in counts if mark != ","), key=lambda mark: counts[mark])
    is_common = counts[rival] * _RIVALS >= counts[","]
    if (
        chosen == ","
        and counts[rival]
        and is_common
        and _is_in_names(",", [tag for cell in filled for tag in cell.split(rival)])
    ):
        chosen = rival
    others = [_SEPARATORS[mark] for mark in counts if counts[mark] and mark != chosen]
    notes = (f"Characters kept as part of tags: {', '.join(others)}.",) if others else ()
    if chosen is None:
        return TagSyntax(lambda cell: [cell], "one tag a cell", notes, one_a_cell=True)
    return TagSyntax(_splitter(chosen), f"separated by {_SEPARATORS[chosen]}", notes, separator=chosen)


def are_pairs(images: Sequence[str], cells: Sequence[str], names_one_tag: bool) -> bool:
    """Whether each line holds one image and one tag, although tags may hold marks such as a comma.

    In such a table images are repeated, and tags with a mark occur as a whole: their parts are not in other cells.

    Args:
        images: Image of each line.
        cells: Cell of tags of each line.
        names_one_tag: The column is called "tag" or the like, not "tags".

    >>> are_pairs(["a.jpg", "a.jpg", "b.jpg"], ["table, laid", "cup", "cup"], True)
    True
    >>> are_pairs(["a.jpg", "a.jpg", "b.jpg", "b.jpg"], ["cat, dog", "cat", "dog", "fox, cat"], False)
    False
    """
    lines = [(image, cell.strip()) for image, cell in zip(images, cells, strict=True) if cell.strip()]
    count = len({image for image, _ in lines})
    if len(lines) == count or (not names_one_tag and len(lines) < _LINES_AN_IMAGE * count):
        return False
    mark = _likely_mark(_count_marks([cell for _, cell in lines]))
    if mark is None:
        return True
    if not names_one_tag and mark != ",":
        return False
    return _is_in_names(mark, [cell for _, cell in lines], enough=all if names_one_tag else any)


def _is_in_names(mark: str, cells: Iterable[str], enough: Callable[[Iterable[bool]], bool] = all) -> bool:
    """Whether a mark is part of names: the parts of a cell that holds it are seldom found in other cells."""
    parts_of = {cell: {part.strip() for part in cell.split(mark)} for cell in map(str.strip, cells)}
    frequency = Counter(part for parts in parts_of.values() for part in parts)
    marked = [parts for cell, parts in parts_of.items() if mark in cell]
    return sum(enough(frequency[part] > 1 for part in parts) for parts in marked) * 2 < len(marked)


def reviewed_tags(cell: str) -> list[str]:
    """The tags in a cell of the column of reviewed tags, which has one form in every table."""
    text = cell.strip()
    tags = _split_list(text) if text and _is_list(text) else text.split(";")
    return [tag.strip() for tag in tags if tag.strip()]


def reviewed_cell(tags: Iterable[str]) -> str:
    """The cell that :func:`reviewed_tags` reads.

    >>> reviewed_cell(["cat", "dog"]), reviewed_tags(reviewed_cell(["a;b", "c"]))
    ('cat;dog', ['a;b', 'c'])
    """
    listed = list(tags)
    return json.dumps(listed, ensure_ascii=False) if any(";" in tag for tag in listed) else ";".join(listed)


def _is_list(cell: str) -> bool:
    return cell[0] == "[" and cell[-1] == "]"


def _count_marks(filled: Sequence[str]) -> dict[str, int]:
    return {mark: sum(mark in cell for cell in filled) for mark in _SEPARATORS}


def _likely_mark(counts: Mapping[str, int]) -> str | None:
    # A comma is common inside names, so it has to occur at least twice as often as another mark to be preferred.
    chosen = max(counts, key=lambda mark: counts[mark] * (1 if mark == "," else 2))
    return chosen if counts[chosen] else None


def _asked_syntax(separator: str) -> TagSyntax:
    if not separator:
        raise TableError(f"{option('separator')} is empty. Pass the character between two tags, such as ';'.")
    if separator.isspace() and separator != "\n":
        name = "blanks" if separator == " " else "tabs"
    else:
        name = _SEPARATORS.get(separator, f"'{separator}'")
    return TagSyntax(_splitter(separator), f"separated by {name}", separator=separator)


def _splitter(separator: str) -> Splitter:
    return lambda cell: cell.split(separator)


def _split_list(cell: str) -> list[str]:
    r"""Read a list in JSON, in Python, as numpy prints it, or as bare words in brackets.

    >>> _split_list('["a", "b"]'), _split_list("['a', 'b']"), _split_list("['a' 'b']"), _split_list("[a, b]")
    (['a', 'b'], ['a', 'b'], ['a', 'b'], ['a', 'b'])
    """
    cell = cell.strip()
    if not cell:
        return []
    try:
        items = json.loads(cell)
    except RecursionError:
        raise ValueError(cell) from None
    except ValueError:
        # Python would join 'a' 'b' (two strings without a comma) into one.
        if _SIDE_BY_SIDE.search(cell):
            return [single or double for single, double in _QUOTED.findall(cell)]
        try:
            items = ast.literal_eval(cell)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            if "'" in cell or '"' in cell:
                raise ValueError(cell) from None
            return [word.strip() for word in cell[1:-1].split(",")]
    if any(isinstance(item, list | dict | tuple | set) for item in items):
        raise ValueError(cell)
    return [str(item) for item in items if item is not None]
