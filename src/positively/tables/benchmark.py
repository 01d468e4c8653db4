"""Label tables of the published benchmarks (COCO, PASCAL VOC), whose labels are complete unless said otherwise."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import scipy

from positively.errors import TableError, and_more, option
from positively.labels import NEGATIVE, UNKNOWN, LabelState, LabelTable
from positively.tables.build import Draft, finish, fixed_classes, tell_size
from positively.tables.diagnostics import Report, stop
from positively.tables.names import name_classes, normalized, read_aliases
from positively.tables.options import ReadOptions
from positively.tables.records import Records

_PUBLISHED = {
    **{"COCO 2014 train": 82_783, "COCO 2014 val": 40_504, "COCO 2017 train": 118_287, "COCO 2017 val": 5_000},
    **{"VOC 2007 train": 2_501, "VOC 2007 val": 2_510, "VOC 2007 trainval": 5_011, "VOC 2007 test": 4_952},
    **{"VOC 2012 train": 5_717, "VOC 2012 val": 5_823, "VOC 2012 trainval": 11_540},
}


@dataclass(frozen=True)
class Benchmark:
    """A benchmark as published: its classes in the official order, and the images in that of their list."""

    name: str
    """Such as "COCO 2014 train"."""
    source: str
    """Name of the file that lists the images."""
    unit: str
    """What the numbers of the images count in that file: "line" or "image"."""
    root: Path
    classes: Sequence[str]
    images: Sequence[str]
    numbers: Sequence[int]
    labels: Sequence[dict[int, LabelState]]
    """Position of the class → state, image by image; a class that is not there is negative."""
    notes: list[str] = field(default_factory=list)

    def place(self, number: int) -> str:
        """Name a place in the file, such as ``trainval.txt line 14``; 0 is the file as a whole."""
        return f"{self.source} {self.unit} {number}" if number else self.source


def benchmark_table(
    found: Benchmark, options: ReadOptions, classes: Sequence[str] | None, report: Report = stop
) -> tuple[LabelTable, list[str]]:
    """Make the table of a benchmark, with notes about its contents.

    Args:
        found: The benchmark as published.
        options: How to read it.
        classes: Exactly these classes in this order. Overrides ``options.classes``. A class that the benchmark does not
            annotate is unknown in every image.
        report: Called with each problem after which reading can continue; by default it raises.
    """
    fixed = fixed_classes(options, classes)
    aliases = read_aliases(Path(options.aliases)) if options.aliases is not None else {}
    official = tuple(dict.fromkeys(aliases.get(normalized(name), name) for name in found.classes))
    records, empty = _records(found, options)
    asked = official if fixed is None else fixed
    naming = name_classes(records.spellings, aliases, asked, options.unknown_tags == "ignore", found.place, report)
    # The official classes stay even if a small part shows none of them: masks and heads rely on their number.
    keeps_classes = fixed is not None or options.min_count <= 1
    draft = Draft(records, naming, found.root, NEGATIVE, found.source, found.place, keeps_classes, found.unit == "line")
    table, notes = finish(draft, options, report)
    lacking = np.setdiff1d(np.arange(len(naming.classes)), naming.class_of)
    if len(lacking):
        table = _with_unknown_columns(table, lacking)
        listed = and_more([f"'{naming.classes[i]}'" for i in lacking])
        notes.append(f"Classes that {found.name} does not annotate, unknown in every image: {listed}.")
    if empty and options.empty_images == "drop":
        notes.insert(0, f"Images without objects, left out ({option('empty_images', 'drop')}): {empty:,}.")
    complete = f"The labels are complete: what is not annotated is negative ({option('blank')} is ignored)."
    unknown = table.total(UNKNOWN)
    told = [f"{found.source}: {found.name}.", *found.notes, *_tell_published(found), tell_size(table)]
    return table, [*told, f"{complete} Unknown labels: {unknown:,}." if unknown else complete, *notes]


def _tell_published(found: Benchmark) -> list[str]:
    """A shorter list is not an error, but published masks of known labels do not fit it."""
    published = _PUBLISHED.get(found.name, len(found.images))
    if published == len(found.images):
        return []
    return [
        f"The list has {len(found.images):,} images and the published one {published:,}, so published masks do not fit."
    ]


def _records(found: Benchmark, options: ReadOptions) -> tuple[Records, int]:
    """One record for each image, and the number of images without objects."""
    records = Records(found.name)
    spellings = [records.spelling(name, 0) for name in found.classes]
    empty = 0
    for image, number, labels in zip(found.images, found.numbers, found.labels, strict=True):
        empty += not labels
        if not labels and options.empty_images == "drop":
            continue
        records.images.append(image)
        records.lines.append(number)
        for position, state in labels.items():
            spelling = spellings[position]
            if spelling is not None:
                records.add_number(spelling, state)
    return records, empty


def _with_unknown_columns(table: LabelTable, columns: npt.NDArray[np.signedinteger]) -> LabelTable:
    row = np.zeros((1, len(table.classes)), dtype=np.int8)
    row[0, columns] = UNKNOWN - NEGATIVE
    every = scipy.sparse.csr_array(np.ones((len(table), 1), dtype=np.int8)) @ scipy.sparse.csr_array(row)
    return replace(table, offsets=scipy.sparse.csr_array(table.offsets + every))


def read_file(file: Path, fix: str) -> str:
    """The text of a file; an error message ends with ``fix``."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise TableError(f"{file}: not found. Check the path.") from None
    except OSError as error:
        raise TableError(f"{file}: cannot be read ({error.strerror}). {fix}.") from None
    except UnicodeDecodeError:
        text = "\0"
    # An XML parser takes text with NULs for UTF-16, and then a search finds nothing.
    if "\0" in text:
        raise TableError(f"{file}: this is not UTF-8 text. {fix}.")
    return text


def choose_year(years: Collection[int], asked: int | None, where: str) -> tuple[int, list[str]]:
    """The requested year, or the only one in the folder, with a note about it.

    >>> choose_year([2007], None, "VOCdevkit")
    (2007, ['Year: 2007, the only one in VOCdevkit.'])
    """
    there = " and ".join(map(str, sorted(years)))
    if asked is None and len(years) > 1:
        raise TableError(f"{where} has the years {there}. Choose one with {option('year', max(years))}.")
    if asked is None:
        (only,) = years
        return only, [f"Year: {only}, the only one in {where}."]
    if asked not in years:
        raise TableError(
            f"{where} has no year {asked}, only {there}. Pass {option('year', max(years))}, or download the other one."
        )
    return asked, []
