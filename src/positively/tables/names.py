"""Map the spellings of tags to classes: names that differ only in case or blanks are joined, aliases are applied."""

import csv
import difflib
import io
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from positively.errors import TableError, and_more, option, plural
from positively.files import write_with
from positively.tables.diagnostics import Report, stop
from positively.tables.dialect import dialect_for_lists, find_delimiter, parse_rows, read_text

LEFT_OUT = -1


class UnknownTagsError(TableError):
    """Tags that are not among the classes, with their names."""

    def __init__(self, message: str, names: Sequence[str]) -> None:
        super().__init__(message)
        self.names = names


@dataclass(frozen=True)
class Spellings:
    """The tags as written: cleaned name, number of occurrences, and first line of each."""

    names: Sequence[str]
    counts: Sequence[int]
    lines: Sequence[int]


@dataclass(frozen=True)
class Naming:
    """The classes, the class of each spelling (or ``LEFT_OUT``), and notes."""

    classes: tuple[str, ...]
    class_of: npt.NDArray[np.int64]
    notes: list[str]


def clean(name: str) -> str:
    r"""Strip, reduce inner blanks to one space, and compose accents.

    >>> clean("  hot \t dog ")
    'hot dog'
    """
    return " ".join(unicodedata.normalize("NFC", name).split())


def normalized(name: str) -> str:
    """A key that is the same for names that differ only in case or blanks."""
    return unicodedata.normalize("NFC", clean(name).casefold())


def read_classes(path: Path) -> tuple[str, ...]:
    """Read a list of classes, one on each line."""
    lines: dict[str, int] = {}
    for line, name in enumerate(map(clean, read_text(path)[0].split("\n")), 1):
        if name in lines:
            raise TableError(f"{path.name} line {line}: the class '{name}' is already on line {lines[name]}.")
        if name:
            lines[name] = line
    return tuple(lines)


def read_aliases(path: Path) -> dict[str, str]:
    """Read lines ``alias,name``; returns key of the alias → name, with chains of aliases resolved."""
    text, _ = read_text(path)
    names: dict[str, str] = {}
    lines: dict[str, int] = {}
    for line, cells in parse_rows(text, find_delimiter(text), path.name):
        alias_and_name = [clean(cell) for cell in cells]
        if [word.casefold() for word in alias_and_name] == ["alias", "name"] and not names:
            continue
        if len(alias_and_name) != 2 or not all(alias_and_name):
            raise TableError(f"{path.name} line {line}: each line needs two cells, alias and name, such as puppy,dog")
        key, name = normalized(alias_and_name[0]), alias_and_name[1]
        if normalized(names.setdefault(key, name)) != normalized(name):
            raise TableError(
                f"{path.name} line {line}: '{alias_and_name[0]}' becomes '{name}' here and '{names[key]}' on "
                f"line {lines[key]}. Remove one of the two lines."
            )
        lines.setdefault(key, line)
    return {key: _follow(key, names, f"{path.name} line {lines[key]}") for key in names}


def write_aliases(path: Path, *aliases: Mapping[str, str], source: Path | None = None) -> None:
    """Write alias → name as :func:`read_aliases` reads it; of several names for an alias, the last is used.

    The file has the delimiter of ``source`` if that is a CSV file.
    """
    dialect = dialect_for_lists(source)
    names = {normalized(alias): (alias, name) for given in aliases for alias, name in given.items()}
    text = io.StringIO()
    writer = csv.writer(text, delimiter=dialect.delimiter, lineterminator="\n")
    writer.writerows([("alias", "name"), *names.values()])
    contents = text.getvalue().encode(dialect.encoding)
    write_with(path, lambda temporary: temporary.write_bytes(contents))


def _follow(key: str, names: Mapping[str, str], place: str) -> str:
    passed, name = [key], names[key]
    # A line 'Dog,dog' chooses a spelling, and ends the chain.
    while normalized(name) in names and normalized(name) != passed[-1]:
        if normalized(name) in passed:
            raise TableError(f"{place}: the aliases form a circle: {' → '.join([*passed, name])}. Remove one.")
        passed.append(normalized(name))
        name = names[normalized(name)]
    return name


def name_classes(
    spellings: Spellings,
    aliases: Mapping[str, str],
    fixed: Sequence[str] | None,
    ignore_unknown: bool,
    place: Callable[[int], str],
    report: Report = stop,
) -> Naming:
    """Assign a class to each spelling.

    Args:
        spellings: The tags as written.
        aliases: Key of an alias → name.
        fixed: Exactly these classes in this order; None to take those found, in alphabetical order.
        ignore_unknown: Leave out tags that are not among the fixed classes; otherwise they are an error.
        place: Words for a line of the file.
        report: Called with an error for tags that are not among the fixed classes.
    """
    named = [aliases.get(normalized(name), name) for name in spellings.names]
    if fixed is None:
        spelled = _common_spelling(spellings, aliases)
        named = [spelled[normalized(name)] for name in named]
        classes = tuple(sorted(set(named), key=lambda name: (name.casefold(), name)))
        position = {name: i for i, name in enumerate(classes)}
        class_of = [position[name] for name in named]
        notes = []
    else:
        classes = tuple(fixed)
        class_of = _find_fixed(named, classes)
        notes = _check_unknown(spellings, class_of, classes, ignore_unknown, place, report)
    notes = _tell_merged(spellings, aliases, classes, class_of) + notes
    return Naming(classes, np.array(class_of, dtype=np.int64).reshape(-1), notes)


def _common_spelling(spellings: Spellings, aliases: Mapping[str, str]) -> dict[str, str]:
    """The spelling of each key: that of the alias file, else the most frequent one (the first of several)."""
    chosen: dict[str, str] = {}
    most: dict[str, int] = defaultdict(int)
    for name, count in zip(spellings.names, spellings.counts, strict=True):
        if count > most[normalized(name)] or normalized(name) not in chosen:
            chosen[normalized(name)], most[normalized(name)] = name, count
    return chosen | {normalized(name): name for name in reversed(list(aliases.values()))}


def _find_fixed(named: Sequence[str], classes: Sequence[str]) -> list[int]:
    exact = {clean(name): i for i, name in enumerate(classes)}
    loose: dict[str, list[int]] = defaultdict(list)
    for i, name in enumerate(classes):
        loose[normalized(name)].append(i)
    found = []
    for name in named:
        near = loose.get(normalized(name), [])
        found.append(exact.get(name, near[0] if len(near) == 1 else LEFT_OUT))
    return found


def _check_unknown(
    spellings: Spellings,
    class_of: Sequence[int],
    classes: Sequence[str],
    ignore_unknown: bool,
    place: Callable[[int], str],
    report: Report,
) -> list[str]:
    unknown = sorted((i for i, found in enumerate(class_of) if found == LEFT_OUT), key=lambda i: spellings.lines[i])
    if not unknown:
        return []
    names = [spellings.names[i] for i in unknown]
    where = place(spellings.lines[unknown[0]])
    error = UnknownTagsError(_unknown_sentence(names, classes, where, ignore_unknown), names)
    report("unknown tags", error, skipped=ignore_unknown)
    if not ignore_unknown:
        return []
    counted = Counter({name: spellings.counts[i] for name, i in zip(names, unknown, strict=True)}).most_common()
    listed = and_more([f"'{name}' ({plural(count, 'time')})" for name, count in counted])
    return [f"Tags that are not among the classes, ignored: {listed}."]


def _unknown_sentence(names: Sequence[str], classes: Sequence[str], where: str, is_ignored: bool) -> str:
    by_key = {normalized(name): name for name in classes}
    near = [] if is_ignored else difflib.get_close_matches(normalized(names[0]), by_key, n=1)
    hint = f"; did you mean '{by_key[near[0]]}'?" if near else "."
    more = f" ({len(names) - 1} more like this: {and_more(names[1:])}.)" if len(names) > 1 else ""
    way_out = "" if is_ignored else f", or pass {option('unknown_tags', 'ignore')}"
    return (
        f"{where}: the tag '{names[0]}' is not among the {len(classes)} classes{hint}{more} "
        f"Correct it{',' if way_out else ' or'} add it to the classes{way_out}."
    )


def _tell_merged(
    spellings: Spellings, aliases: Mapping[str, str], classes: Sequence[str], class_of: Sequence[int]
) -> list[str]:
    united: dict[int, list[str]] = defaultdict(list)
    applied: list[str] = []
    for name, found in zip(spellings.names, class_of, strict=True):
        if found == LEFT_OUT:
            continue
        if normalized(name) != normalized(classes[found]):
            applied.append(f"'{name}' → '{classes[found]}'")
        else:
            united[found].append(name)
    merged = []
    for found, names in united.items():
        others = [f"'{name}'" for name in names if name != clean(classes[found])]
        if others:
            merged.append(f"{and_more(others)} → '{classes[found]}' ({len(names)} spellings)")
    notes = [f"Spellings joined: {and_more(merged, 3)}."] if merged else []
    return notes + ([f"Aliases applied: {and_more(applied)}."] if aliases and applied else [])
