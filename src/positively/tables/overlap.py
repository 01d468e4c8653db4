"""Refuse images that are both trained and tested on, by the content of their files or else by name."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from positively.errors import TableError, and_more
from positively.images.decode import content_hash
from positively.labels import LabelTable
from positively.logs import counted
from positively.tables.diagnostics import Report, stop


def image_hashes(table: LabelTable) -> list[str]:
    """The content hash of every image, from the table or else from the files."""
    if table.hashes is not None:
        return list(table.hashes)
    with ThreadPoolExecutor(4) as pool:
        return list(counted(pool.map(content_hash, table.paths), "Reading images", len(table)))


def can_hash(table: LabelTable) -> bool:
    """Whether the content hash of every image is known or can be computed: with embeddings there may be no files."""
    return table.hashes is not None or all(path.is_file() for path in table.paths)


def with_hashes(table: LabelTable) -> LabelTable:
    """The same table with the content hash of every image."""
    return table if table.hashes is not None else replace(table, hashes=image_hashes(table))


def refuse_overlap(parts: Mapping[str, LabelTable], report: Report = stop) -> None:
    """Raise (or ``report``) if an image is in two of the parts; the message names the files."""
    seen: dict[str, tuple[str, str]] = {}
    by_content = all(can_hash(table) for table in parts.values())
    for part, table in parts.items():
        names = dict(zip(image_hashes(table) if by_content else table.images, table.images, strict=True))
        try:
            refuse_known(names, seen, part, by_content)
        except TableError as error:
            report("overlap", error)
        seen |= {code: (part, image) for code, image in names.items()}


def refuse_learned(table: LabelTable, learned: Sequence[tuple[str, str]]) -> None:
    """Raise if a table has images that a run learned from, given by name and content hash (empty if unknown)."""
    by_content = can_hash(table) and all(code for _, code in learned)
    seen = {code if by_content else image: ("the training table", image) for image, code in learned}
    keys = image_hashes(table) if by_content else table.images
    refuse_known(dict(zip(keys, table.images, strict=True)), seen, table.source, by_content)


def refuse_known(
    names: Mapping[str, str], seen: Mapping[str, tuple[str, str]], part: str, by_content: bool = True
) -> None:
    """Raise if any key of ``names`` (content hash, or name → image) was seen before (key → part and image)."""
    both = [f"{image} (in {seen[code][0]} as {seen[code][1]})" for code, image in names.items() if code in seen]
    if both:
        raise TableError(
            f"{len(both)} images of {part} have the same {'content' if by_content else 'name'} as images elsewhere: "
            f"{and_more(both, shown=3)}. Remove them from one of the two."
        )
