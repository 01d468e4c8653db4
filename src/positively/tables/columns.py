"""Find which column holds what, by the names of the columns and by their contents."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from positively.errors import TableError, option
from positively.images.decode import is_image_name
from positively.tables.cells import state_code
from positively.tables.dialect import RawTable
from positively.tables.headers import ABSENT, IMAGE, MISSING, REVIEWED, SPLIT, STATE, TAG, TAGS, header_word, split_name
from positively.tables.options import ReadOptions

_SAMPLED_ROWS = 1000


@dataclass(frozen=True)
class Layout:
    """Position of the columns; ``classes`` is filled where each class has a column of its own."""

    image: int
    tags: int | None = None
    absent: int | None = None
    split: int | None = None
    state: int | None = None
    reviewed: int | None = None
    classes: tuple[int, ...] = ()
    unread: tuple[int, ...] = ()

    @property
    def tag_columns(self) -> list[int]:
        """Columns that hold tags or absences."""
        return [column for column in (self.tags, self.absent) if column is not None]


@dataclass(frozen=True)
class _Column:
    name: str
    values: frozenset[str]

    @property
    def word(self) -> str:
        return header_word(self.name)

    @property
    def is_nameless(self) -> bool:  # the index of a pandas table
        return not self.name or self.name.startswith("Unnamed: ")

    @property
    def is_missing(self) -> bool:
        """Whether ``positively missing`` added it, perhaps with a number after the name."""
        return self.word.rstrip("0123456789").rstrip("_") == MISSING

    @property
    def is_images(self) -> bool:
        return sum(map(is_image_name, self.values)) * 2 > len(self.values)

    @property
    def names_a_split(self) -> bool:
        return any(split_name(value) for value in self.values)

    @property
    def is_splits(self) -> bool:
        return bool(self.values) and all(split_name(value) for value in self.values)

    @property
    def holds_states(self) -> bool:
        return any(state_code(value) is not None for value in self.values)

    @property
    def is_states(self) -> bool:
        return bool(self.values) and all(state_code(value) is not None for value in self.values)


def named_columns(options: ReadOptions, columns: Sequence[str], layout: Layout) -> ReadOptions:
    """Options that name the columns of a layout, so that another reading finds the same ones."""

    def name(place: int | None, asked: str | None) -> str | None:
        return asked if place is None else columns[place]

    return replace(
        options,
        image_column=columns[layout.image],
        tags_column=name(layout.tags, options.tags_column),
        absent_column=name(layout.absent, options.absent_column),
        split_column=name(layout.split, options.split_column),
    )


def find_layout(raw: RawTable, options: ReadOptions) -> Layout:
    """Find the columns, or say what was found and what is accepted."""
    return _Finder(raw).layout(options)


def find_image_column(raw: RawTable, options: ReadOptions) -> int:
    """Find the column that names the images, where nothing else of a table is asked for."""
    return _Finder(raw).image(options)


class _Finder:
    """Assigns each column to at most one role."""

    def __init__(self, raw: RawTable):
        self.raw = raw
        sample = [cells for _, cells in islice(raw.rows(), _SAMPLED_ROWS)]
        values = (frozenset(cell.strip() for cell in column) - {""} for column in zip(*sample, strict=True))
        self.sampled = len(sample)
        self.columns = [_Column(name, cells) for name, cells in zip(raw.columns, values, strict=True)]
        self.free = list(range(len(self.columns)))

    def layout(self, options: ReadOptions) -> Layout:
        # The columns that the user names are assigned first, so that no guess takes one of them.
        asked = {
            role: self._take(self._asked(getattr(options, f"{role}_column"), role))
            for role in ("image", "tags", "absent", "split")
        }
        image = asked["image"] if asked["image"] is not None else self._take(self._find_image())
        if image is None:
            raise self._not_understood()
        split = asked["split"] if asked["split"] is not None else self._take(self._find_split())
        absent = asked["absent"] if asked["absent"] is not None else self._take(self._find_absent())
        reviewed = self._take(next((i for i in self._named([REVIEWED]) if not self.columns[i].is_states), None))
        tags = asked["tags"] if asked["tags"] is not None else self._take(self._find_tags())
        if tags is None:
            classes = self._find_classes()
            if not classes:
                raise self._not_understood()
            # Absences have their own mark here, -1: a column that lists them is not read, and a note says so.
            unread = (*(i for i in self.free if i not in classes), *(i for i in (absent,) if i is not None))
            return Layout(image, split=split, reviewed=reviewed, classes=classes, unread=unread)
        state = self._take(self._find_state(image))
        return Layout(image, tags, absent, split, state, reviewed, (), tuple(self.free))

    def image(self, options: ReadOptions) -> int:
        asked = self._asked(options.image_column, "image")
        found = asked if asked is not None else self._find_image()
        if found is None:
            named = ", ".join(repr(column.name) for column in self.columns[:12])
            raise TableError(f"{self.raw.source}: none of the columns {named} has image names. Rename it to 'image'.")
        return found

    def _take(self, column: int | None) -> int | None:
        if column is not None:
            self.free.remove(column)
        return column

    def _asked(self, name: str | None, role: str) -> int | None:
        if name is None:
            return None
        for i in self.free:
            if self.columns[i].name == name.strip():
                return i
        raise TableError(
            f"{self.raw.source}: {option(f'{role}_column', name)} does not exist. "
            f"The columns are {', '.join(repr(column.name) for column in self.columns)}."
        )

    def _named(self, names: Iterable[str]) -> list[int]:
        return [i for name in names for i in self.free if self.columns[i].word == name]

    def _find_image(self) -> int | None:
        named = self._named(IMAGE)
        by_contents = [i for i in [*named, *self.free] if self.columns[i].is_images]
        return next(iter([*by_contents, *named]), None)

    def _find_split(self) -> int | None:
        if not self.raw.has_header:
            return next((i for i in self.free if self.columns[i].is_splits), None)
        # One "train" is enough: a typo in another cell is then an error, and no test row becomes a training row.
        return next((i for i in self._named(SPLIT) if self.columns[i].names_a_split), None)

    def _find_absent(self) -> int | None:
        return next((i for i in self._named(ABSENT) if not self.columns[i].is_states), None)

    def _find_tags(self) -> int | None:
        named = [i for i in self.free if not self.columns[i].is_nameless]
        states = [i for i in named if self.columns[i].is_states and self.columns[i].word not in STATE]
        # exiftool writes a column for Subject and one for Keywords, of which one may be empty.
        for i in sorted(self._named([*TAGS, *TAG]), key=lambda i: not self.columns[i].values):
            # A column 'label' of 1 and 0 among other such columns is a class of that name.
            if not (self.columns[i].is_states and len(states) > 1):
                return i
        left = [i for i in named if not self.columns[i].is_states and self.columns[i].word not in STATE]
        left = [i for i in left if not self.columns[i].is_missing] or left
        return left[0] if len(left) == 1 and not (states and self.raw.has_header) else None

    def _find_state(self, image: int) -> int | None:
        if self.raw.has_header:
            # In a table with a line per image, a column "Status" without a state is about something else.
            is_long = len(self.columns[image].values) < self.sampled
            return next((i for i in self._named(STATE) if is_long or self.columns[i].holds_states), None)
        return next((i for i in self.free if self.columns[i].is_states), None)

    def _find_classes(self) -> tuple[int, ...]:
        """Columns of states, and blank columns; text such as the name of the photographer is not read."""
        named = [i for i in self.free if not self.columns[i].is_nameless]
        if not any(self.columns[i].is_states for i in named):
            return ()
        return tuple(i for i in named if self.columns[i].holds_states or not self.columns[i].values)

    def _not_understood(self) -> TableError:
        header = ", ".join(repr(column.name) for column in self.columns[:12])
        more = f" and {len(self.columns) - 12} more" if len(self.columns) > 12 else ""
        found = (
            f"the columns {header}{more}" if self.raw.has_header else f"{len(self.columns)} columns without a header"
        )
        return TableError(
            f"{self.raw.source}: {found} cannot be understood. A table has (1) an image and a column of tags "
            "(image,tags), (2) an image and a column for each class with 1, 0, -1 or nothing (image,cat,dog), or "
            "(3) one image and one tag per line (image,tag). Rename the columns, or pass "
            f"{option('image_column')} and {option('tags_column')}."
        )
