"""Tags that look like one another: what is probably one tag in two spellings.

Spellings that differ only in case and blanks are united as a table is read; here is what needs somebody's consent:

1. **Variants** are equal but for blanks, hyphens and the like (hotdog, hot-dog), or for a plural ending (dog, dogs).
2. **Slips** differ by one letter that is missing, added or changed, or by two neighbours swapped (persno, person). Many
   words lie that near to others that are meant (cat and car, tree and three, house and mouse, horse and house). So a
   slip has five letters or more, begins with the same one, and concerns no digit; it is far rarer than the other tag;
   and no photo carries both, since nobody writes one tag twice.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from positively.labels import POSITIVE, LabelTable
from positively.tables.names import normalized

_SHORTEST_PLURAL = 3
_SHORTEST_SLIP = 5
# A single photo is a slip beside three of the other tag; from two photos on, the other has to have 20 times as many.
_ONCE_BESIDE, _TIMES_AS_MANY = 3, 20
_IGNORED = str.maketrans("", "", " -_./'’")


def find_lookalikes(table: LabelTable) -> dict[str, str]:
    """The rarer of two tags that look alike → the more frequent one."""
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
        enough = _ONCE_BESIDE if counts[rare] == 1 else _TIMES_AS_MANY * counts[rare]
        if counts[frequent] >= enough and not np.intersect1d(photos(rare), photos(frequent)).size:
            found[rare] = min(frequent, found.get(rare, frequent), key=rank)
    return found


def nearest_classes(names: Sequence[str], classes: Sequence[str]) -> dict[str, str]:
    """Class that each of these names is probably meant to be, where there is one, and no other is as near."""
    given, near = set(classes), defaultdict(set)
    for pairs in (_variants([*names, *classes]), _slips([*names, *classes])):
        for pair in pairs:
            for name, other in (pair, pair[::-1]):
                if name not in given and other in given:
                    near[name].add(other)
    return {name: others.pop() for name, others in near.items() if len(others) == 1}


def _squashed(name: str) -> str:
    return normalized(name).translate(_IGNORED) or normalized(name)


def _variants(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Pairs of names that are the same but for marks between the letters, or for a plural ending."""
    by_key = defaultdict(list)
    for name in names:
        by_key[_squashed(name)].append(name)
    for key, spelled in by_key.items():
        yield from ((spelled[0], other) for other in spelled[1:])
        if len(key) >= _SHORTEST_PLURAL:
            plurals = [f"{key}s", f"{key}es"] + ([f"{key[:-1]}ies"] if key.endswith("y") else [])
            yield from ((spelled[0], other) for plural in plurals for other in by_key.get(plural, ()))


def _slips(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Pairs of names that one slip of the pen tells apart.

    Two such names are equal once the right letter of each is left out, so that comparing names that share a shortened
    form is enough: thousands of classes take no time.
    """
    shortened = defaultdict(set)
    keys = {name: key for name in names if len(key := _squashed(name)) >= _SHORTEST_SLIP}
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
