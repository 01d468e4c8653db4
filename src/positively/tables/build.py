"""The last steps of every reader: from the records of a file to its label table."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import scipy

from positively.errors import ImageError, TableError, and_more, option, plural
from positively.images.decode import verify_images
from positively.labels import NEGATIVE, POSITIVE, LabelState, LabelTable
from positively.logs import counted_progress
from positively.tables.diagnostics import Report, stop
from positively.tables.gather import Gathered, Place, gather_images, like_this
from positively.tables.learnable import require_learnable
from positively.tables.names import Naming, read_classes
from positively.tables.options import ReadOptions
from positively.tables.records import Records

# Entries that are sorted at once.
_BLOCK = 4_000_000


@dataclass(frozen=True)
class Draft:
    """A table as its file describes it, before images are looked up and classes counted."""

    records: Records
    naming: Naming
    root: Path
    blank: LabelState
    source: str
    place: Place
    keeps_classes: bool
    """Whether a class that no image carries stays."""
    has_lines: bool = True
    """Whether records have line numbers that messages can name."""


def fixed_classes(options: ReadOptions, classes: Sequence[str] | None) -> tuple[str, ...] | None:
    """The classes that the caller or the options ask for, in this order; None to take those of the file."""
    if classes is None:
        return read_classes(Path(options.classes)) if options.classes is not None else None
    twice = [name for name, count in Counter(classes).items() if count > 1]
    if twice or not classes:
        what = f"hold {and_more([repr(name) for name in twice])} more than once" if twice else "are empty"
        raise TableError(f"The classes that were given {what}. Pass each class once.")
    return tuple(classes)


def image_folder(options: ReadOptions) -> Path | None:
    """The folder that the options name, which must exist; None if they name none."""
    if options.images is None:
        return None
    if not Path(options.images).is_dir():
        named = option("images", options.images)
        raise TableError(f"{named}: no such folder. Pass the folder that holds the images.")
    return Path(options.images)


def finish(draft: Draft, options: ReadOptions, report: Report = stop) -> tuple[LabelTable, list[str]]:
    """Find the images, put the table together, and leave out what the options ask to leave out.

    Images are decoded last, because it takes longest: every other problem is reported before.

    Returns:
        The table, and notes about what was joined, left out.

    Raises:
        TableError: The labels contradict each other, or there is nothing to learn from.
        ImageError: Images are missing or broken, and the options do not ask to leave them out.
    """
    gathered = gather_images(draft.records, draft.root, options, draft.place, report)
    table = LabelTable(
        gathered.images,
        draft.naming.classes,
        _build_matrix(draft.records, gathered, draft.naming, draft.blank, draft.place, report),
        draft.blank,
        draft.root,
        gathered.splits,
        gathered.lines if draft.has_lines else None,
        draft.source,
        reviewed=_reviewed(draft.records, gathered, draft.naming),
    )
    _lasting_classes(table, options.min_count, draft.keeps_classes)
    if options.to_learn:
        require_learnable(table)
    table, broken = _leave_out_broken(table, options, report)
    table, rare = _leave_out_rare(table, options.min_count, draft.keeps_classes)
    return table, [*draft.naming.notes, *gathered.notes, *broken, *rare, *_tell_parts(table)]


def tell_size(table: LabelTable) -> str:
    """The number of images, classes and tags."""
    tags = np.diff(table.positives().indptr)
    none = int((tags == 0).sum())
    without = f"; {none:,} without tags" if none else ""
    sizes = f"{plural(len(table), 'image')}, {plural(len(table.classes), 'class', 'classes')}"
    return f"{sizes}, {tags.mean():.1f} tags per image{without}."


def _leave_out_broken(table: LabelTable, options: ReadOptions, report: Report) -> tuple[LabelTable, list[str]]:
    if not (options.verify and options.find_images):
        return table, []
    with counted_progress("Checking images", len(table)) as progress:
        verified = verify_images(table.paths, lambda done: progress(done, len(table)))
    table, broken = replace(table, hashes=verified.hashes), verified.broken
    if not broken:
        return table, []
    listed = [f"'{table.images[row]}' ({table.place(row)}: {reason})" for row, reason in broken.items()]
    whole = np.setdiff1d(np.arange(len(table)), list(broken))
    if not len(whole):
        raise ImageError(f"{table.source}: none of the images can be read: {and_more(listed)}. Repair them.")
    skip = option("skip_broken", True)
    way_out = "" if options.skip_broken else f" Repair them, or pass {skip}."
    count = f"{len(broken):,} of {len(table):,} images"
    error = ImageError(f"{table.source}: {count} cannot be read: {and_more(listed)}.{way_out}")
    report("broken images", error, skipped=options.skip_broken)
    note = f"Images left out because they cannot be read ({skip}): {len(broken):,}, {and_more(listed, 3)}."
    return table.select(whole), [note] if options.skip_broken else []


def _lasting_classes(table: LabelTable, min_count: int, keeps_classes: bool) -> tuple[str, ...]:
    """The classes that stay; at least one image must carry one of them."""
    counts = table.counts(POSITIVE)
    lasting = [name for name, count in zip(table.classes, counts, strict=True) if count >= max(min_count, 1)]
    if not counts.any() or not (lasting or keeps_classes):
        raise TableError(
            f"{table.source}: no image carries any tag, so there is nothing to learn from. "
            f"Check the columns and the classes, and {option('min_count')}."
        )
    return table.classes if keeps_classes else tuple(lasting)


def _leave_out_rare(table: LabelTable, min_count: int, keeps_classes: bool) -> tuple[LabelTable, list[str]]:
    lasting = _lasting_classes(table, min_count, keeps_classes)
    counts = table.counts(POSITIVE)
    without = [f"'{name}'" for name, count in zip(table.classes, counts, strict=True) if not count]
    if keeps_classes:
        return table, [f"Classes that no image carries: {and_more(without)}."] if without else []
    notes = [f"Classes that no image carries were left out: {and_more(without)}."] if without else []
    rare = [f"'{name}' {count}" for name, count in zip(table.classes, counts, strict=True) if 0 < count < min_count]
    if rare:
        notes.append(f"Tags on fewer than {min_count} images were left out ({option('min_count')}): {and_more(rare)}.")
    return (table.with_classes(lasting) if len(lasting) < len(table.classes) else table), notes


def _tell_parts(table: LabelTable) -> list[str]:
    told = []
    if table.splits is not None:
        parts = Counter(table.splits)
        told.append(
            "Splits: " + ", ".join(f"{name} {parts[name]:,}" for name in ("train", "val", "test") if parts[name]) + "."
        )
    return told


def _build_matrix(
    records: Records, gathered: Gathered, naming: Naming, blank: LabelState, place: Place, report: Report
) -> scipy.sparse.csr_array:
    """Sparse *state − blank*; a tag that is both positive and negative in an image is a problem, else unknown."""
    record, spelling, state = records.entries
    width = np.int64(max(len(naming.classes), 1))
    columns, differences = [np.zeros(0, np.int32)], [np.zeros(0, np.int8)]
    filled = np.zeros(len(gathered.images), dtype=np.int64)
    clashes: list[_Clash] = []
    for block in _blocks(record, gathered.row_of):
        key = gathered.row_of[record[block]] * width + naming.class_of[spelling[block]]
        counted = (gathered.row_of[record[block]] >= 0) & (naming.class_of[spelling[block]] >= 0)
        members, key, said = record[block][counted], key[counted], state[block][counted]
        order = np.argsort(key, kind="stable")
        members, key, said = members[order], key[order], said[order]
        starts = np.flatnonzero(np.diff(key, prepend=-1))
        there = np.bitwise_or.reduceat(said == POSITIVE, starts) if len(key) else np.zeros(0, np.bool_)
        absent = np.bitwise_or.reduceat(said == NEGATIVE, starts) if len(key) else np.zeros(0, np.bool_)
        ends = np.append(starts, len(key))[1:]
        for start, end in zip(starts[there & absent], ends[there & absent], strict=True):
            name, run = naming.classes[int(key[start] % width)], slice(start, end)
            positive, negative = (int(members[run][said[run] == mark][0]) for mark in (POSITIVE, NEGATIVE))
            clashes.append(_Clash(name, records.images[positive], records.lines[positive], records.lines[negative]))
        difference = there.astype(np.int8) - absent.astype(np.int8) - np.int8(blank)
        key, difference = key[starts][difference != 0], difference[difference != 0]
        columns.append((key % width).astype(np.int32))
        differences.append(difference)
        filled += np.bincount(key // width, minlength=len(filled))
    if clashes:
        report("contradictions", _contradiction(clashes, place))
    column, begins = np.concatenate(columns), np.concatenate([[0], np.cumsum(filled)])
    # 32 bits are enough for the classes, and for the positions if there are fewer than 2³¹.
    index = np.int32 if len(column) < np.iinfo(np.int32).max else np.int64
    parts = (np.concatenate(differences), column.astype(index, copy=False), begins.astype(index))
    return scipy.sparse.csr_array(parts, shape=(len(gathered.images), len(naming.classes)))


def _reviewed(records: Records, gathered: Gathered, naming: Naming) -> scipy.sparse.csr_array | None:
    """Flags of the pairs that were decided because of their score; None if there are none."""
    number = {name: place for place, name in enumerate(records.spellings.names)}
    named = [(gathered.row_of[record], number[tag]) for record, tag in records.reviewed if tag in number]
    pairs = {(int(row), int(naming.class_of[place])) for row, place in named}
    there = np.array([pair for pair in pairs if min(pair) >= 0], dtype=np.int64).reshape(-1, 2)
    if not len(there):
        return None
    shape = (len(gathered.images), len(naming.classes))
    return scipy.sparse.csr_array((np.ones(len(there), np.int8), (there[:, 0], there[:, 1])), shape=shape)


def _blocks(record: npt.NDArray[np.int32], row_of: npt.NDArray[np.int64]) -> Iterator[slice]:
    """Cut the entries between two records, to sort a large table with little memory."""
    rows = row_of[row_of >= 0]
    begin = 0
    while begin < len(record):
        end = len(record)
        # If the lines of an image are not next to each other, everything is one block.
        if end - begin > _BLOCK and np.all(rows[1:] > rows[:-1]):
            end = int(np.searchsorted(record, record[begin + _BLOCK], side="right"))
        yield slice(begin, end)
        begin = end


@dataclass(frozen=True)
class _Clash:
    """A tag that is positive and negative in the same image."""

    tag: str
    image: str
    line_there: int
    line_absent: int


def _contradiction(clashes: Sequence[_Clash], place: Place) -> TableError:
    first, *others = clashes
    upper, lower = sorted((first.line_there, first.line_absent))
    lines = place(upper) if upper == lower else f"{place(upper)} and {lower}"
    more = like_this([f"'{clash.tag}' in '{clash.image}'" for clash in others])
    return TableError(
        f"{lines}: '{first.tag}' is both present and absent in image '{first.image}'{more}. Keep one of the two."
    )
