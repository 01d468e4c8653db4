"""How tags are to be read. Light on purpose: the command line imports it to print its help."""

import os
from dataclasses import dataclass
from typing import Literal

from positively.errors import option
from positively.options import Index, check_value, kinds_of

READABLE = "CSV, TSV or Parquet file, a COCO json or folder, or a VOCdevkit"
"""What can be read, as the help of the command line says it."""


@dataclass(frozen=True)
class ReadOptions:
    """Reading the table of tags."""

    images: str | None = None
    """Folder in which the images lie; default: the folder of the table, or where COCO and VOC keep theirs."""
    zero: Literal["unknown", "negative"] = "unknown"
    """What 0 means where each class has a column of its own, or each line a state."""
    blank: Literal["unknown", "negative"] = "unknown"
    """What an absent tag or an empty cell means: 'negative' says that the tags are complete."""
    image_column: str | None = None
    """Name of the column that holds the image; default: found by its name or its contents."""
    tags_column: str | None = None
    """Name of the column that holds the tags; default: found by its name."""
    absent_column: str | None = None
    """Name of the column that lists tags verified to be absent; default: found by its name."""
    split_column: str | None = None
    """Name of the column that says train, val or test; default: found by its name."""
    separator: str | None = None
    """What stands between two tags in a cell; default: found among ; | , and line breaks."""
    aliases: str | None = None
    """CSV file of two columns, alias and name: tags to be merged under one name."""
    classes: str | None = None
    """Text file with one class a line: exactly these classes in this order; another tag in the table is an error."""
    unknown_tags: Literal["error", "ignore"] = "error"
    """What to do with a tag that is not among the given classes."""
    min_count: Index = 1
    """Leave out tags that fewer images than this carry."""
    skip_missing_images: bool = False
    """Leave out images that are not there, and count them, in place of stopping."""
    skip_broken: bool = False
    """Leave out images that cannot be decoded, and count them, in place of stopping."""
    verify: bool = True
    """Decode every image once (at reduced size) before anything starts."""
    find_images: bool = True
    """Look for the images; off where embeddings from a file take their place."""
    part: str | None = None
    """COCO and VOC: train, val, trainval or test; default: the training part (COCO train, VOC trainval)."""
    year: int | None = None
    """COCO and VOC: the year, where a folder holds several; default: the only one there."""
    empty_images: Literal["keep", "drop"] = "keep"
    """COCO and VOC: whether images without any object stay."""
    difficult: Literal["unknown", "negative", "positive"] = "unknown"
    """VOC: what a class is that an image shows only as 'difficult'; the official protocol does not score it."""

    def __post_init__(self) -> None:
        for name in ("images", "aliases", "classes"):
            value = getattr(self, name)
            if isinstance(value, os.PathLike):
                object.__setattr__(self, name, os.fspath(value))
        for name, kind in kinds_of(type(self)).items():
            check_value(option(name), getattr(self, name), kind)


DEFAULTS = ReadOptions()
