"""Find images in files, folders, tables and lists of names."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from positively.errors import ImageError, PositivelyError, and_more, quoted
from positively.images.decode import content_hash, is_image_name
from positively.logs import logger
from positively.runs.folder import RunFolder
from positively.runs.tagging import Picture
from positively.tables.formats import find_format, table_suffixes
from positively.tables.options import ReadOptions

# Number of images that are compared with those the run learned from.
_SAMPLE = 16


def find_pictures(places: Sequence[str | Path], images: str | Path | None = None) -> list[Picture]:
    """Find every image once, in order.

    Args:
        places: Image files; folders, searched at any depth; tables, of which a column of image names is enough.
        images: Folder of the images of tables; default: the folder of the table.

    Returns:
        The images: those of a table under their name in the table, all others under their path.

    Raises:
        ImageError: If a place does not exist, or there is no image at all.
    """
    found: dict[str, Picture] = {}
    for place in map(Path, places):
        if not place.exists():
            raise ImageError(f"{place}: no such file or folder.")
        for picture in _pictures_at(place, None if images is None else str(images)):
            found.setdefault(str(picture.source), picture)
    if not found:
        raise ImageError(f"There are no images under {and_more(places)}.")
    return list(found.values())


def _pictures_at(place: Path, images: str | None) -> Iterable[Picture]:
    if place.is_dir():
        return (Picture(path.as_posix(), path) for path in sorted(_images_under(place)))
    if not place.is_file():
        raise ImageError(f"{place} is not a file.")
    form = find_format(place) if place.suffix.lower() in table_suffixes() else None
    if form is None:
        return [Picture(str(place), place)]
    root, names = form.images(place, ReadOptions(images=images))
    return (Picture(name, root / name) for name in names)


def _images_under(folder: Path) -> Iterator[Path]:
    """Files with the name of an image, and broken links; a folder that cannot be listed is logged."""

    def warn(error: OSError) -> None:
        logger.warning(f"{error.filename}: cannot be listed ({error.strerror}), so its images are left out.")

    for place, _, names in os.walk(folder, onerror=warn):
        for path in (Path(place, name) for name in names if is_image_name(name)):
            if path.is_file() or path.is_symlink():
                yield path


def note_learned(run: RunFolder, pictures: Sequence[Picture]) -> None:
    """Log a note if the run learned from some of the images, judged by a few of them."""
    if not run.images.exists():  # a run of the hub does not name its images
        return
    sample = [picture.source for picture in pictures[:: max(1, len(pictures) // _SAMPLE)][:_SAMPLE]]
    files = [Path(source) for source in sample if isinstance(source, str | Path) and Path(source).is_file()]
    count = 0
    with suppress(PositivelyError):  # what cannot be read is reported where it is used
        learned = {code for _, code in run.read_images()}
        count = sum(content_hash(file) in learned for file in files)
    if count:
        logger.info(
            f"Note: {count} of {len(files)} sampled images were in the training table. Their scores repeat the "
            f"tags of the table; to find missing tags, use `{quoted('positively', 'missing', str(run.path))}`."
        )


def read_list(text: str) -> list[Picture]:
    r"""Images of a list of paths: one per line, or separated by NUL as ``find -print0`` writes them.

    >>> [picture.name for picture in read_list("a b.jpg\n\nc.jpg\n")]
    ['a b.jpg', 'c.jpg']
    """
    names = text.split("\0") if "\0" in text else (line.removesuffix("\r") for line in text.split("\n"))
    return [Picture(name, Path(name)) for name in dict.fromkeys(names) if name.strip()]
