"""Write a table of tags with changes, in the format and shape of its source."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy

from positively.errors import PositivelyError, TableError
from positively.files import write_with
from positively.images.paths import locate, tidy
from positively.labels import NEGATIVE, POSITIVE, UNKNOWN, LabelState, LabelTable
from positively.tables.cells import EMPTY_IN_PANDAS, reviewed_tags, state_code
from positively.tables.columns import named_columns
from positively.tables.editable import Cell, EditableTable, Row, Tags, torn_tag
from positively.tables.formats import Writer, find_format, writers
from positively.tables.headers import ABSENT, REVIEWED
from positively.tables.names import clean, normalized, read_aliases
from positively.tables.options import ReadOptions
from positively.tables.rows import RowFormat

Changes = Mapping[tuple[str, str], int]
"""(image, tag) → +1 added, −1 verified to be absent, 0 set to unknown."""


def check_writable(out: Path, source: str | Path | None = None) -> Writer:
    """The format that writes a file; refuses to overwrite the source. Called before anything is computed."""
    known = writers()
    if out.suffix.lower() not in known:
        *others, last = known
        raise TableError(f"{out}: the suffix must be {', '.join(others)} or {last}.")
    if source is not None and out.exists() and Path(source).exists() and out.samefile(source):
        raise TableError(f"{out}: this is the table itself, which is never changed. Name another file.")
    return known[out.suffix.lower()]


def written_suffix(source: Path) -> str:
    """The suffix of the file that is written for a source: its own if that format can be written, else .csv."""
    return source.suffix if source.is_file() and source.suffix.lower() in writers() else ".csv"


def check_tag(name: str, source: Path | None, options: ReadOptions) -> str:
    """Clean the name of a new tag, and refuse one that could not be read back from the table.

    Args:
        name: As typed.
        source: The file the table was read from; None for COCO, VOC and folders, which have no syntax of tags.
        options: How it was read.
    """
    tag = clean(name)
    _check_letters(tag)
    _check_alias(tag, options)
    separator = options.separator
    form = None if source is None else row_format(source)
    if source is not None and form is not None:
        edited = EditableTable.read(source, form, options)
        separator = edited.separator
        if edited.layout.classes:
            _check_column(edited, tag)
    if separator is not None and separator in tag:
        raise TableError(torn_tag(tag, separator))
    return tag


def _check_letters(tag: str) -> None:
    if not tag:
        raise TableError("A tag needs a name: this one is empty.")
    if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in tag):
        raise TableError(f"The tag {tag!a} has a character that no table can store. Remove it.")
    if tag in EMPTY_IN_PANDAS:
        raise TableError(f"'{tag}' is what pandas writes for an empty cell, so it would be read as no tag. Rename it.")


def _check_alias(tag: str, options: ReadOptions) -> None:
    if options.aliases is not None:
        known = read_aliases(Path(options.aliases)).get(normalized(tag), tag)
        if normalized(known) != normalized(tag):
            raise TableError(f"'{tag}' is another name of '{known}' in {options.aliases}. Use '{known}'.")


def _check_column(edited: EditableTable, tag: str) -> None:
    others = {normalized(column) for place, column in enumerate(edited.columns) if place not in edited.layout.classes}
    if normalized(tag) in others or tag.startswith("Unnamed: "):
        raise TableError(f"A column '{tag}' would not be read as a tag in this table. Rename the tag.")


def row_format(source: Path) -> RowFormat | None:
    """The format of a file of rows, which can be written back in its own shape; None for COCO, VOC and folders."""
    found = find_format(source) if source.is_file() else None
    return found if isinstance(found, RowFormat) else None


def write_table(
    out: Path,
    table: LabelTable,
    changes: Changes,
    *,
    source: str | Path | None,
    options: ReadOptions,
    column: str | None = None,
    reviewed: bool = False,
) -> None:
    """Write the source of a table with changes; every other cell and column stays the same.

    The written file is read back and compared before it is moved into place, so no label is lost unnoticed.

    Args:
        out: A file of any format that can be written, but not the source itself.
        table: What was read from the source.
        changes: (image, tag) → state; tags may be new.
        source: The file the table was read from. COCO, VOC and bare folders are written as ``image,tags,absent``.
        options: How it was read.
        column: Name of a separate column for the added tags; by default they are added to the other tags.
        reviewed: Whether the changes were selected by their score. They are then listed in the column ``reviewed``, so
            that a model that learns from the table does not take them for labels that are known at random.

    Raises:
        TableError: The shape of the table cannot represent the changes; nothing is written.
    """
    writer = check_writable(out, source)
    path = None if source is None else Path(source)
    form = None if path is None else row_format(path)
    if path is not None and form is not None:
        edited = EditableTable.read(path, form, options)
    else:
        edited = EditableTable.of(table, options)
    known = set(map(edited.key, table.classes))
    for tag in {tag for _, tag in changes if edited.key(tag) not in known}:
        _check_letters(clean(tag))
    _change(edited, changes, table.root, column)
    if reviewed:
        _mark_reviewed(edited, changes, table.root)
    if form is None:
        options = ReadOptions(separator=options.separator, blank="negative" if table.blank == NEGATIVE else "unknown")
    said = {pair: state for pair, state in changes.items() if column is None or state != POSITIVE}

    def fill(temporary: Path) -> None:
        edited.settle_syntax()
        writer.write(edited, temporary)
        wrong = _misread(temporary, writer, edited, table, said, options)
        if wrong is not None:
            raise TableError(f"{out}: {wrong.replace(temporary.name, out.name)} Nothing was written.")

    write_with(out, fill)


def _change(edited: EditableTable, changes: Changes, root: Path, column: str | None) -> None:
    """Apply every change to the rows of its image."""
    by_image: dict[str, dict[str, LabelState]] = defaultdict(dict)
    for (image, tag), state in changes.items():
        by_image[image][tag] = LabelState(state)
    rows_of = _rows_of(edited, by_image, root)
    lost = next((image for image, rows in rows_of.items() if not rows), None)
    if lost is not None:
        raise TableError(f"The image '{lost}' has a new tag but no row in the table. Was the file changed meanwhile?")
    parts = [(rows_of[image], states) for image, states in by_image.items()]
    if column is not None:
        edited.own = edited.add_column(column)
    if edited.layout.classes:
        _change_classes(edited, parts)
    elif edited.is_long:
        _change_pairs(edited, parts)
    else:
        _change_tags(edited, parts)


def _rows_of(edited: EditableTable, images: Iterable[str], root: Path) -> dict[str, list[Row]]:
    """The rows of each of these images."""
    rows_of: dict[str, list[Row]] = {image: [] for image in images}
    names = [tidy(str(row.cells[edited.layout.image])) for row in edited.rows]
    for row, found, given in zip(edited.rows, locate(names, root), names, strict=True):
        name = given if found is None else found  # with embeddings there may be no file
        if name in rows_of:
            rows_of[name].append(row)
    return rows_of


def _mark_reviewed(edited: EditableTable, changes: Changes, root: Path) -> None:
    """Add the changed tags to the column of reviewed tags, in the first row of each image."""
    tags_of: dict[str, list[str]] = defaultdict(list)
    for (image, tag), state in changes.items():
        tags_of[image] += [clean(tag)] if state != UNKNOWN else []
    place = edited.layout.reviewed
    if place is None:
        place = edited.add_column(REVIEWED)
        edited.layout = replace(edited.layout, reviewed=place)
    for image, rows in _rows_of(edited, tags_of, root).items():
        if not rows:  # its last line was dropped
            continue
        before = rows[0].cells[place]
        listed = [*reviewed_tags(before if isinstance(before, str) else ""), *tags_of[image]]
        rows[0].cells[place] = Tags(dict.fromkeys(listed))


Parts = Sequence[tuple[list[Row], Mapping[str, LabelState]]]
"""The rows of an image, with its changes."""


def _add_own(edited: EditableTable, row: Row, states: Mapping[str, LabelState]) -> dict[str, LabelState]:
    """Put the added tags into their separate column, if there is one; returns the other changes."""
    if edited.own is None:
        return dict(states)
    row.cells[edited.own] = Tags(_of(states, POSITIVE))
    return {tag: state for tag, state in states.items() if state != POSITIVE}


def _change_tags(edited: EditableTable, parts: Parts) -> None:
    if edited.layout.absent is None and edited.options.blank == "unknown" and _says(parts, NEGATIVE):
        place = edited.add_column("absent", others=ABSENT)
        edited.layout = replace(edited.layout, absent=place)
    columns = {POSITIVE: edited.layout.tags, NEGATIVE: edited.layout.absent}
    for rows, all_states in parts:
        states = _add_own(edited, rows[0], all_states)
        changed = {edited.key(tag) for tag in states}
        for row in rows:
            for state, column in columns.items():
                if column is None:
                    continue
                old = edited.tags(row, column)
                new = Tags(tag for tag in old if edited.key(tag) not in changed)
                new += _of(states, state) if row is rows[0] else []  # new tags go into the first row of an image
                if new != old:
                    row.cells[column] = new


def _change_classes(edited: EditableTable, parts: Parts) -> None:
    layout, options = edited.layout, edited.options
    texts = (str(row.cells[column]) for row in edited.rows for column in layout.classes)
    edited.marks[POSITIVE] = next((text for text in texts if state_code(text) == "positive"), "1")
    parts = [(rows, _add_own(edited, rows[0], states)) for rows, states in parts]
    columns_of: dict[str, list[int]] = defaultdict(list)
    for column in layout.classes:
        columns_of[edited.key(edited.columns[column])].append(column)
    new = {tag: edited.key(tag) for _, states in parts for tag in states if edited.key(tag) not in columns_of}
    absent = _says(parts, NEGATIVE)
    if options.zero == options.blank == "unknown" and (
        absent or ("negative" in edited.codes and (new or _says(parts, UNKNOWN)))
    ):
        # In a column with −1, a 0 and a blank could have different meanings; both are unknown here.
        zeros = {text for row in edited.rows for c in layout.classes if state_code(text := str(row.cells[c])) == "zero"}
        for row in edited.rows:
            for column in layout.classes:
                row.cells[column] = UNKNOWN if row.cells[column] in zeros else row.cells[column]
    for tag, key in new.items():
        if key not in columns_of:
            _check_column(edited, tag)
            columns_of[key] = [edited.add_column(tag, UNKNOWN)]
    for rows, states in parts:
        for tag, state in states.items():
            for row in rows:
                for column in columns_of[edited.key(tag)]:
                    row.cells[column] = state


def _change_pairs(edited: EditableTable, parts: Parts) -> None:
    """One pair per line: change its state on its line, or add a line."""
    has_unknown = edited.options.zero == "unknown"  # a line with 0 keeps the image in the table
    edited.marks[UNKNOWN] = "0"
    if edited.layout.state is None and (_says(parts, NEGATIVE) or (_says(parts, UNKNOWN) and has_unknown)):
        edited.layout = replace(edited.layout, state=edited.add_column("state", POSITIVE))
    tags, column = edited.layout.tags, edited.layout.state
    assert tags is not None
    for rows, states in parts:
        for tag, state in states.items():
            own = edited.own is not None and state == POSITIVE
            found = False
            for row in () if own else rows:
                others = Tags(other for other in edited.tags(row, tags) if edited.key(other) != edited.key(tag))
                if others == edited.tags(row, tags):
                    continue
                if others or (state == UNKNOWN and not has_unknown):
                    row.cells[tags] = others
                else:
                    found = True
                    if column is not None:
                        row.cells[column] = state
            if not found and (state != UNKNOWN or has_unknown):
                shared = {edited.layout.image, edited.layout.split}
                cells: list[Cell] = [cell if place in shared else None for place, cell in enumerate(rows[0].cells)]
                cells[edited.own if own and edited.own is not None else tags] = Tags([tag])
                if column is not None:
                    cells[column] = state
                edited.rows.append(Row(cells, rows[0].origin))
    edited.rows = [row for row in edited.rows if row.cells[tags] != []]  # drop lines without a tag


def _misread(
    path: Path, writer: Writer, edited: EditableTable, table: LabelTable, said: Changes, options: ReadOptions
) -> str | None:
    """Read a file back; returns a sentence about the first difference, or None."""
    row_of = {image: row for row, image in enumerate(table.images)}
    column_of = {edited.key(name): column for column, name in enumerate(table.classes)}
    column_of |= {name: column for column, name in enumerate(table.classes)}
    classes = list(table.classes)
    for _, tag in said:
        if tag not in column_of and edited.key(tag) not in column_of:
            column_of[edited.key(tag)] = len(classes)
            classes.append(clean(tag))
    blank = int(table.blank)
    rows = np.array([row_of[image] for image, _ in said], dtype=np.int64)
    columns = np.array([column_of.get(tag, column_of.get(edited.key(tag))) for _, tag in said], dtype=np.int64)
    states = np.array(list(said.values()), dtype=np.int8)
    expected = table.with_classes(classes).offsets.astype(np.int8)
    if len(said):
        steps = states - np.int8(blank) - np.asarray(expected[rows, columns]).reshape(-1).astype(np.int8)
        expected = expected + scipy.sparse.csr_array((steps, (rows, columns)), shape=expected.shape)
    if not (expected.data == POSITIVE - blank).any():
        return None  # the reader refuses a table without tags
    # The columns of the source: the reader might choose others now that there are new ones.
    named = named_columns(options, edited.columns, edited.layout) if edited.has_header else options
    reading = replace(
        named,
        images=str(table.root),
        verify=False,
        skip_missing_images=True,
        unknown_tags="ignore",
        min_count=1,
        classes=None,
    )
    try:
        again, _ = writer.read(path, reading, classes)
    except PositivelyError as error:
        return f"the table could not be read back: {error.message}"
    if (lost := _lost_column(path, writer, edited)) is not None:
        return f"the column '{lost}' was not written as it is."
    place_of = {image: place for place, image in enumerate(again.images)}
    # An image without a line is the same as one with blank cells.
    nothing = scipy.sparse.csr_array((1, len(classes)), dtype=np.int8)
    padded = scipy.sparse.csr_array(scipy.sparse.vstack([again.offsets, nothing], format="csr"))
    found = padded[np.array([place_of.get(image, len(again)) for image in table.images], dtype=np.int64)]
    difference = scipy.sparse.coo_array(found - expected)
    difference.eliminate_zeros()
    pairs = set(zip(rows.tolist(), columns.tolist(), strict=True))
    for row, column in zip(difference.row.tolist(), difference.col.tolist(), strict=True):
        if column >= len(table.classes) and (row, column) not in pairs:
            continue  # a new tag in an image without a decision about it
        is_state, was_state = int(found[row, column]) + blank, int(expected[row, column]) + blank
        if edited.format is None and was_state == UNKNOWN and is_state == blank:
            continue  # image,tags,absent cannot represent it if tags are complete
        names = [LabelState(state).name.lower() for state in (is_state, was_state)]
        return (
            f"'{classes[column]}' of image '{table.images[row]}' would be read back as {names[0]}, not {names[1]}: "
            "this shape of table cannot represent it."
        )
    return None


def _lost_column(path: Path, writer: Writer, edited: EditableTable) -> str | None:
    """The first column that the written file lacks, or an added one that has not as many filled cells; else None."""
    if not isinstance(writer, RowFormat) or not edited.has_header:
        return None
    raw = writer.open(path)
    for place, name in enumerate(edited.columns):
        if name.strip() not in raw.columns:
            return name
        if place >= edited.width:
            there = raw.columns.index(name)
            written = sum(cells[there].strip() not in ("", "[]") for _, cells in raw.rows())
            if written != sum(edited.text(row.cells[place], place).strip() != "" for row in edited.rows):
                return name
    return None


def _of(states: Mapping[str, LabelState], wanted: LabelState) -> list[str]:
    return [tag for tag, state in states.items() if state == wanted]


def _says(parts: Parts, wanted: LabelState) -> bool:
    return any(wanted in states.values() for _, states in parts)
