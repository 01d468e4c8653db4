"""Problems of a table: raised one by one where it is to be used, or collected where all of them are asked for."""

from dataclasses import dataclass, field
from typing import Protocol

from positively.errors import PositivelyError


@dataclass(frozen=True)
class Problem:
    """Something that is wrong with a table, or worth a look."""

    kind: str
    """A few words, such as "missing images"."""
    sentence: str
    """With the place and the fix; options in it are marked, as in the message of an error."""
    stops_training: bool


class Report(Protocol):
    """What a reader does with a problem after which it could go on, leaving out whatever is concerned.

    ``skipped`` says that the options ask for just that, so that nobody needs to be stopped.
    """

    def __call__(self, kind: str, error: PositivelyError, skipped: bool = False) -> None:
        """Raise the error, or remember it and return."""


def stop(kind: str, error: PositivelyError, skipped: bool = False) -> None:
    """Raise the problem, as for whoever wants to work with the table."""
    if not skipped:
        raise error


@dataclass
class Collected:
    """Remember every problem, and let the reader go on."""

    problems: list[Problem] = field(default_factory=list)
    errors: list[PositivelyError] = field(default_factory=list)
    """The same as the reader made them."""

    def __call__(self, kind: str, error: PositivelyError, skipped: bool = False) -> None:
        """Remember this one."""
        self.problems.append(Problem(kind, error.message, stops_training=not skipped))
        self.errors.append(error)
