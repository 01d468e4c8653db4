"""Find all problems of a table at once, for ``positively check``."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from positively.errors import PositivelyError, and_more, option, plural
from positively.labels import NEGATIVE, POSITIVE, UNKNOWN, LabelTable
from positively.tables.diagnostics import Collected, Problem
from positively.tables.learnable import why_unlearnable
from positively.tables.lookalikes import find_lookalikes, nearest_classes
from positively.tables.names import UnknownTagsError
from positively.tables.options import DEFAULTS, ReadOptions
from positively.tables.overlap import can_hash, image_hashes, refuse_overlap, with_hashes
from positively.tables.reading import read_labels


@dataclass(frozen=True)
class Inspection:
    """A table as far as it can be read, notes on how it was understood, and its problems."""

    table: LabelTable | None
    """None if the table cannot be read."""
    notes: list[str]
    problems: list[Problem]
    aliases: dict[str, str]
    """Tag → the tag that is probably meant."""


def inspect_labels(
    path: str | Path,
    options: ReadOptions = DEFAULTS,
    classes: Sequence[str] | None = None,
    to_learn_from: bool = True,
) -> Inspection:
    """Read a table, collect all its problems, and look for further ones that a reader does not report.

    Args:
        path: As for :func:`positively.tables.reading.read_labels`.
        options: How to read it.
        classes: Exactly these classes in this order. Overrides ``options.classes``.
        to_learn_from: Whether to look for tags that cannot be learned; not needed for a test table.

    Raises:
        PositivelyError: The file cannot be read at all.
    """
    collected = Collected()
    try:
        table, notes = read_labels(path, options, classes, collected)
    except PositivelyError as error:
        if not collected.problems:
            raise
        return Inspection(None, [], [*collected.problems, Problem("table", error.message, True)], {})
    has_content = can_hash(table)
    table = with_hashes(table) if has_content else table
    unknown = [name for error in collected.errors if isinstance(error, UnknownTagsError) for name in error.names]
    aliases = nearest_classes(unknown, table.classes)
    problems = [*collected.problems, *(_copies(table) if has_content else [])]
    if to_learn_from:
        has_given_classes = classes is not None or options.classes is not None
        # Classes that the user lists are all meant.
        alike = {} if has_given_classes else find_lookalikes(table)
        aliases |= alike
        reason = why_unlearnable(table)
        problems += [Problem("nothing to learn", reason, stops_training=True)] if reason else []
        problems += [*_lookalikes(table, alike), *_too_little(table, has_given_classes)]
    return Inspection(table, [*notes, *_rarest(table)], problems, aliases)


def _rarest(table: LabelTable) -> list[str]:
    counts = table.counts(POSITIVE)
    rarest = [f"'{table.classes[i]}' {counts[i]:,}" for i in np.argsort(counts, kind="stable") if counts[i]]
    return [f"Rarest classes: {', '.join(rarest[:5])}."] if rarest else []


def find_overlap(parts: Mapping[str, LabelTable]) -> list[Problem]:
    """Images of one part whose content is also in another."""
    collected = Collected()
    refuse_overlap(parts, collected)
    return collected.problems


def _lookalikes(table: LabelTable, alike: Mapping[str, str]) -> list[Problem]:
    if not alike:
        return []
    counts = dict(zip(table.classes, table.counts(POSITIVE), strict=True))
    listed = [f"'{rare}' ({counts[rare]:,}) and '{other}' ({counts[other]:,})" for rare, other in alike.items()]
    sentence = (
        f"{table.source}: tags that look alike: {and_more(listed)}. If they are the same, merge them: "
        f"{option('write_aliases', 'FILE')} writes the list for {option('aliases', 'FILE')}."
    )
    return [Problem("look-alike tags", sentence, stops_training=False)]


def _too_little(table: LabelTable, has_given_classes: bool) -> list[Problem]:
    """Classes with too few photos, and photos without tags."""
    found = []
    counts = table.counts(POSITIVE)
    leave_out = "remove them from the list" if has_given_classes else f"leave them out: {option('min_count', 2)}"
    for number, words in ((0, "no photo"), (1, "a single photo")):
        rare = [f"'{table.classes[i]}'" for i in np.flatnonzero(counts == number)]
        if rare:
            verb = "has" if len(rare) == 1 else "have"
            found.append(
                f"{table.source}: {len(rare):,} of {plural(len(counts), 'class', 'classes')} {verb} {words}: "
                f"{and_more(rare)}. "
                f"Tag more photos, or {leave_out}."
            )
    # In a complete table, a photo without tags is a negative of every class.
    empty: list[int] = np.flatnonzero(np.diff(table.offsets.indptr) == 0).tolist()
    if empty and table.blank == UNKNOWN:
        listed = and_more([f"'{table.images[row]}'" for row in empty], 3)
        found.append(
            f"{table.source}: {len(empty):,} of {len(table):,} photos have no tag: {listed}. "
            "Tag them, or let a trained model tag them."
        )
    return [Problem("too little", sentence, stops_training=False) for sentence in found]


def _copies(table: LabelTable) -> list[Problem]:
    """Photos with the same content and different names."""
    rows_of: dict[str, list[int]] = defaultdict(list)
    for row, code in enumerate(image_hashes(table)):
        rows_of[code].append(row)
    contradicting, differing, equal = [], [], []
    for rows in (rows for rows in rows_of.values() if len(rows) > 1):
        states = table.states(rows)
        there, absent = (states == POSITIVE).any(axis=0), (states == NEGATIVE).any(axis=0)
        names = " = ".join(f"'{table.images[row]}'" for row in rows[:3]) + (" = …" if len(rows) > 3 else "")
        if np.any(there & absent):
            contradicting.append(f"{names} ({_tags(table, there & absent)})")
        elif np.any(there & ~(states == POSITIVE).all(axis=0)):
            differing.append(f"{names} ({_tags(table, there & ~(states == POSITIVE).all(axis=0))})")
        else:
            equal.append(names)
    sentences = {
        "copies of a photo with contradicting tags": contradicting,
        "copies of a photo with different tags": differing,
        "copies of a photo": equal,
    }
    fix = "Keep one copy of each, with all of its tags."
    return [
        Problem("copies", f"{table.source}: {words}: {and_more(listed)}. {fix}", stops_training=False)
        for words, listed in sentences.items()
        if listed
    ]


def _tags(table: LabelTable, chosen: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> str:
    return and_more([f"'{table.classes[i]}'" for i in np.flatnonzero(chosen)], 3)
