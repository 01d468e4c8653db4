"""No image may be trained on and tested on: parts are compared by the content of their files."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from positively.errors import TableError, and_more
from positively.images.decode import content_hash
from positively.labels import LabelTable
from positively.tables.diagnostics import Report, stop


def image_hashes(table: LabelTable) -> list[str]:
    """Content hash of every image: those the table carries, or else read from the files."""
    if table.hashes is not None:
        return list(table.hashes)
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(content_hash, table.paths))


def with_hashes(table: LabelTable) -> LabelTable:
    """Same table with the content hash of every image; no work where it carries them already."""
    return table if table.hashes is not None else replace(table, hashes=image_hashes(table))


def refuse_overlap(parts: Mapping[str, LabelTable], report: Report = stop) -> None:
    """Raise (or ``report``) if a file's content stands in two of the parts; the sentence names the files."""
    seen: dict[str, tuple[str, str]] = {}
    for part, table in parts.items():
        names = dict(zip(image_hashes(table), table.images, strict=True))
        try:
            refuse_known(names, seen, part)
        except TableError as error:
            report("overlap", error)
        seen |= {code: (part, image) for code, image in names.items()}


def refuse_known(names: Mapping[str, str], seen: Mapping[str, tuple[str, str]], part: str) -> None:
    """Raise if any hash of ``names`` (hash → image) was seen before (hash → part and image)."""
    both = [f"{image} (in {seen[code][0]} as {seen[code][1]})" for code, image in names.items() if code in seen]
    if both:
        raise TableError(
            f"{len(both)} images of {part} have the same content as images elsewhere: {and_more(both, shown=3)}. "
            "Take them out of one of the two."
        )
