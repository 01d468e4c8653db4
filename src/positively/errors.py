"""The one exception tree.

Every error a user can cause is a sentence that names the place and the fix. The command line prints the sentence and
exits with 2; a traceback is for our own bugs (or ``--debug``).
"""

from collections.abc import Sequence


class PositivelyError(Exception):
    """Base of every error that is about the user's input, not about a bug."""


class LabelError(PositivelyError):
    """Label states or label tables that do not fit together."""


class TableError(PositivelyError):
    """A table of tags that cannot be read as meant."""


class ImageError(PositivelyError):
    """An image that is missing or cannot be decoded."""


class WeightsError(PositivelyError):
    """Pretrained weights that cannot be had or do not fit the backbone."""


class ConfigError(PositivelyError):
    """An option, or a combination of options, that cannot work."""


class RunError(PositivelyError):
    """A run folder that is missing, unfinished or not what was asked for."""


class MetricError(PositivelyError):
    """Scores and labels from which a metric cannot be computed."""


def and_more(items: Sequence[object], shown: int = 5) -> str:
    """List the first few items and count the rest: ``a, b, c (12 more)``.

    >>> and_more(["a", "b", "c"], shown=2)
    'a, b (1 more)'
    """
    listed = ", ".join(str(item) for item in items[:shown])
    rest = len(items) - shown
    return f"{listed} ({rest} more)" if rest > 0 else listed
