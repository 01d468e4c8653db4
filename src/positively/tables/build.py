"""What a file says → the finished label table: the same last steps for every reader."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from positively.errors import ImageError, TableError, and_more, option
from positively.images.decode import verify_images
from positively.labels import POSITIVE, LabelState, LabelTable
from positively.tables.assemble import Place, build_matrix, gather_images
from positively.tables.diagnostics import Report, stop
from positively.tables.names import Naming, read_classes
from positively.tables.options import ReadOptions
from positively.tables.records import Records


@dataclass(frozen=True)
class Draft:
    """A table as its file says it, before anybody looked at the images and counted the classes."""

    records: Records
    naming: Naming
    root: Path
    blank: LabelState
    source: str
    place: Place
    keeps_classes: bool
    """Whether a class that no image carries stays."""
    has_lines: bool = True
    """Whether the records stand on lines of a text, which messages can name."""


def fixed_classes(options: ReadOptions, classes: Sequence[str] | None) -> tuple[str, ...] | None:
    """Classes that code or the options ask for, in this order; None to take those of the file."""
    if classes is None:
        return read_classes(Path(options.classes)) if options.classes is not None else None
    twice = [name for name, count in Counter(classes).items() if count > 1]
    if twice or not classes:
        what = f"hold {and_more([repr(name) for name in twice])} more than once" if twice else "are empty"
        raise TableError(f"The classes that were given {what}. Pass each class once.")
    return tuple(classes)


def image_folder(options: ReadOptions) -> Path | None:
    """Folder that the options name, which has to be there; None where it is not given."""
    if options.images is None:
        return None
    if not Path(options.images).is_dir():
        named = option("images", options.images)
        raise TableError(f"{named}: there is no such folder. Pass the folder that holds the images.")
    return Path(options.images)


def finish(draft: Draft, options: ReadOptions, report: Report = stop) -> tuple[LabelTable, list[str]]:
    """Look for the images, put the table together, and leave out what the options say.

    Images are decoded last: whatever else can be wrong is told without the wait.

    Returns:
        The table, and the lines that tell what was united, left out and rare.

    Raises:
        TableError: The labels contradict one another, or nothing is left to learn from.
        ImageError: Images are missing or broken, and the options do not say to leave them out.
    """
    gathered = gather_images(draft.records, draft.root, options, draft.place, report)
    table = LabelTable(
        gathered.images,
        draft.naming.classes,
        build_matrix(draft.records, gathered, draft.naming, draft.blank, draft.place, report),
        draft.blank,
        draft.root,
        gathered.splits,
        gathered.lines if draft.has_lines else None,
        draft.source,
    )
    _lasting_classes(table, options.min_count, draft.keeps_classes)
    table, broken = _leave_out_broken(table, options, report)
    table, rare = _leave_out_rare(table, options.min_count, draft.keeps_classes)
    return table, [*draft.naming.notes, *gathered.notes, *broken, *rare, *_tell_parts(table)]


def tell_size(table: LabelTable) -> str:
    """Say how many images, classes and tags there are."""
    tags = np.diff(table.positives().indptr)
    none = int((tags == 0).sum())
    without = f"; images without any: {none:,}" if none else ""
    return f"{len(table):,} images, {len(table.classes):,} classes, {tags.mean():.1f} tags an image{without}."


def _leave_out_broken(table: LabelTable, options: ReadOptions, report: Report) -> tuple[LabelTable, list[str]]:
    if not (options.verify and options.find_images):
        return table, []
    verified = verify_images(table.paths)
    table, broken = replace(table, hashes=verified.hashes), verified.broken
    if not broken:
        return table, []
    listed = [f"'{table.images[row]}' ({table.place(row)}: {reason})" for row, reason in broken.items()]
    whole = np.setdiff1d(np.arange(len(table)), list(broken))
    if not len(whole):
        raise ImageError(f"{table.source}: none of the images can be decoded: {and_more(listed)}. Repair them.")
    skip = option("skip_broken", True)
    way_out = "" if options.skip_broken else f" Repair them, or pass {skip}."
    count = f"{len(broken):,} of {len(table):,} images"
    error = ImageError(f"{table.source}: {count} cannot be decoded: {and_more(listed)}.{way_out}")
    report("broken images", error, skipped=options.skip_broken)
    note = f"Images left out because they cannot be decoded ({skip}): {len(broken):,}, {and_more(listed, 3)}."
    return table.select(whole), [note] if options.skip_broken else []


def _lasting_classes(table: LabelTable, min_count: int, keeps_classes: bool) -> tuple[str, ...]:
    """Classes that stay; some image has to carry one of them."""
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
    counts = table.counts(POSITIVE)
    rarest = [f"'{table.classes[i]}' {counts[i]:,}" for i in np.argsort(counts, kind="stable") if counts[i]][:5]
    return [*told, f"Rarest classes: {and_more(rarest)}."]
