"""Problems of a table: raised when the table is used, or collected when it is checked."""

from dataclasses import dataclass, field
from typing import Protocol

from positively.errors import ImageError, PositivelyError


@dataclass(frozen=True)
class Problem:
    """Something in a table that is wrong, or may be."""

    kind: str
    """A few words, such as "missing images"."""
    sentence: str
    """The problem with its place and fix; options in it are marked, as in the message of an error."""
    stops_training: bool


class Report(Protocol):
    """What a reader does with a problem after which it can continue without the images or labels concerned.

    ``skipped`` means that the options ask to leave them out, so the problem does not stop anything.
    """

    def __call__(self, kind: str, error: PositivelyError, skipped: bool = False) -> None:
        """Raise the error, or remember it and return."""


def stop(kind: str, error: PositivelyError, skipped: bool = False) -> None:
    """Raise the problem, for callers that need the table."""
    if not skipped:
        if isinstance(error, ImageError):  # a further problem would come up only after this one is fixed
            error.args = (f"{error.message} `positively check TABLE` lists every problem.",)
        raise error


@dataclass
class Collected:
    """Collect every problem, and let the reader continue."""

    problems: list[Problem] = field(default_factory=list)
    errors: list[PositivelyError] = field(default_factory=list)
    """The same problems as exceptions."""

    def __call__(self, kind: str, error: PositivelyError, skipped: bool = False) -> None:
        """Collect a problem."""
        self.problems.append(Problem(kind, error.message, stops_training=not skipped))
        self.errors.append(error)
