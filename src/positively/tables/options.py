"""Options of reading a table. This module imports little, so that help is quick."""

import os
from dataclasses import dataclass
from typing import Literal

from positively.errors import option
from positively.options import File, Folder, Index, Name, check_value, kinds_of

READABLE = "CSV, TSV, Excel, Parquet or JSON lines file, a COCO json or folder, or a VOCdevkit."
"""The tables that can be read, for the help of the command line."""


@dataclass(frozen=True)
class ReadOptions:
    """Table.

    How :func:`positively.read` understands a table: the folder of its images, the columns, what 0 and a missing tag
    mean, and which images and tags are left out. ``positively check --help-all`` and docs/reference/cli.md explain
    every field.
    """

    images: Folder | None = None
    """Folder of the images; default: the folder of the table, or where COCO and VOC keep them."""
    zero: Literal["unknown", "negative"] = "unknown"
    """Meaning of 0 in a table with one column per class, or one state per line."""
    blank: Literal["unknown", "negative"] = "unknown"
    """Meaning of a tag that is not listed; 'negative' if the tags are complete."""
    image_column: Name | None = None
    """Column with the image names; default: found by its name or contents."""
    tags_column: Name | None = None
    """Column with the tags; default: found by its name."""
    absent_column: Name | None = None
    """Column with tags that are verified to be absent; default: found by its name."""
    split_column: Name | None = None
    """Column that says train, val or test; default: found by its name."""
    separator: str | None = None
    """Separator of tags in a cell; default: found among ; | , and line breaks."""
    aliases: File | None = None
    """CSV file with the columns alias and name, to merge tags under one name."""
    classes: File | None = None
    """Text file with one class per line, to use these classes in this order. Other tags in the table are an error."""
    unknown_tags: Literal["error", "ignore"] = "error"
    """What to do with tags that are not among the given classes."""
    min_count: Index = 1
    """Ignore tags that fewer images than this have."""
    skip_missing_images: bool = False
    """Leave out images that do not exist; by default they are an error."""
    skip_broken: bool = False
    """Leave out images that cannot be read; by default they are an error."""
    verify: bool = True
    """Decode every image once, at reduced size, before the work starts."""
    find_images: bool = True
    """Look for the images; off if embeddings from a file replace them."""
    to_learn: bool = False
    """Refuse a table from which nothing can be learned, before its images are decoded."""
    part: Name | None = None
    """COCO and VOC: train, val, trainval or test; default: train of COCO, trainval of VOC."""
    year: int | None = None
    """COCO and VOC: the year; default: the only one in the folder."""
    empty_images: Literal["keep", "drop"] = "keep"
    """COCO and VOC: what to do with images without any object."""
    difficult: Literal["unknown", "negative", "positive"] = "unknown"
    """VOC: state of a class whose only objects in an image are 'difficult'. The official protocol does not score it."""

    def __post_init__(self) -> None:
        for name in ("images", "aliases", "classes"):
            value = getattr(self, name)
            if isinstance(value, os.PathLike):
                object.__setattr__(self, name, os.fspath(value))
        for name, kind in kinds_of(type(self)).items():
            check_value(option(name), getattr(self, name), kind)


DEFAULTS = ReadOptions()
CHOSEN_BY_VERBS = {"find_images", "to_learn"}
"""Fields that follow from the verb and are no options of the command line."""
