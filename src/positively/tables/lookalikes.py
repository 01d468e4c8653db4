"""Tags that look like each other, and are probably one tag in two spellings.

Spellings that differ only in case and blanks are joined when a table is read. The ones found here need your consent:

1. **Variants** differ in marks between the letters (hotdog, hot-dog), accents and umlauts (Kuehlschrank, Kühlschrank),
   British and American spelling (colour, color), or number (dog, dogs; Stuhl, Stühle).
2. **Slips** differ in one letter that is missing, added or changed, or in two neighbours swapped (persno, person). Many
   different words are that similar (cat and car, tree and three, house and mouse, horse and house). So a slip has five
   letters or more, begins with the same letter, and concerns no digit; it is far rarer than the other tag; and no photo
   carries both, because people rarely write a tag twice.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from positively.labels import POSITIVE, LabelTable
from positively.tables.spelling import folded, languages, plurals, spellings, squashed

_SHORTEST_SLIP = 5
# A single photo is a slip if three have the other tag; from two photos on, the other must have 20 times as many, or 5
# times if the word is long: there are few pairs of long words that differ in a letter.
_ONCE_TO, _TIMES_AS_MANY, _TIMES_IF_LONG, _LONG = 3, 20, 5, 9


def find_lookalikes(table: LabelTable) -> dict[str, str]:
    """The rarer of two similar tags → the more frequent one."""
    counts = dict(zip(table.classes, table.counts(POSITIVE).tolist(), strict=True))
    column = {name: i for i, name in enumerate(table.classes)}
    positives = table.positives().tocsc()

    def photos(name: str) -> "np.ndarray[tuple[int], np.dtype[np.int32]]":
        begin, end = positives.indptr[column[name] : column[name] + 2]
        rows: np.ndarray[tuple[int], np.dtype[np.int32]] = positives.indices[begin:end]
        return rows

    def rank(name: str) -> tuple[int, int, str]:
        return -counts[name], len(name), name

    found: dict[str, str] = {}
    carried = [name for name, count in counts.items() if count]
    for pair in _variants(carried):
        frequent, rare = sorted(pair, key=rank)
        found[rare] = min(frequent, found.get(rare, frequent), key=rank)
    for pair in _slips(carried):
        frequent, rare = sorted(pair, key=rank)
        times = _TIMES_IF_LONG if len(rare) >= _LONG else _TIMES_AS_MANY
        enough = _ONCE_TO if counts[rare] == 1 else times * counts[rare]
        if counts[frequent] >= enough and not np.intersect1d(photos(rare), photos(frequent)).size:
            found[rare] = min(frequent, found.get(rare, frequent), key=rank)
    return found


def nearest_classes(names: Sequence[str], classes: Sequence[str]) -> dict[str, str]:
    """The class that each name is probably meant to be, if exactly one is near."""
    given, near = set(classes), defaultdict(set)
    for pairs in (_variants([*names, *classes]), _slips([*names, *classes])):
        for pair in pairs:
            for name, other in (pair, pair[::-1]):
                if name not in given and other in given:
                    near[name].add(other)
    return {name: others.pop() for name, others in near.items() if len(others) == 1}


def _variants(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Pairs of names that are the same word in two spellings, or its singular and plural."""
    by_key: dict[str, list[str]] = defaultdict(list)
    for name in names:
        for key in spellings(name):
            by_key[key].append(name)
    spoken = languages(names)
    found = {_pair(spelled[0], other) for spelled in by_key.values() for other in spelled[1:]}
    for name in names:
        for key in spellings(name):
            others = {other for plural in plurals(key, spoken) for other in by_key.get(plural, ())}
            # A plural may gain an umlaut (Stuhl, Stühle), and does not lose one (Küche, Kuchen).
            loses = key == folded(name) != squashed(name)
            found |= {_pair(name, other) for other in others if not (loses and folded(other) == squashed(other))}
    yield from sorted(pair for pair in found if pair[0] != pair[1])


def _pair(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one < other else (other, one)


def _slips(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Pairs of names that differ in one slip.

    Two such names become equal if the right letter of each is left out, so only names that share a shortened form are
    compared. This is fast for thousands of classes.
    """
    shortened = defaultdict(set)
    keys = {name: key for name in names if len(key := squashed(name)) >= _SHORTEST_SLIP}
    for name, key in keys.items():
        shortened[key].add(name)
        for i in range(len(key)):
            shortened[key[:i] + key[i + 1 :]].add(name)
    seen = set()
    for group in shortened.values():
        ordered = sorted(group)
        for i, name in enumerate(ordered):
            for other in ordered[i + 1 :]:
                if (name, other) not in seen and _is_slip(keys[name], keys[other]):
                    seen.add((name, other))
                    yield name, other


def _is_slip(one: str, other: str) -> bool:
    """Whether one letter missing, added or changed, or two neighbours swapped, make one name the other.

    >>> _is_slip("persno", "person"), _is_slip("house", "mouse"), _is_slip("1980s", "1990s"), _is_slip("beach", "bench")
    (True, False, False, True)
    """
    shorter, longer = sorted((one, other), key=len)
    start = next((i for i, (x, y) in enumerate(zip(shorter, longer, strict=False)) if x != y), len(shorter))
    left, right = shorter[start:], longer[start:]
    if not start or not right or any(letter.isdigit() for letter in left[:2] + right[:2]):
        return False
    if len(shorter) < len(longer):
        return left == right[1:]
    return left[1:] == right[1:] or (left[:2] == right[1::-1] and left[2:] == right[2:])
