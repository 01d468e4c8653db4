"""The one exception tree, and options named in messages as the caller would type them.

Every error a user can cause is a sentence that names the place and the fix. The command line prints the sentence and
exits with 2; a traceback is for our own bugs (or ``--debug``).

An option inside a message is written ``{option("blank", "negative")}``: Python callers read ``blank='negative'``, users
of the command line ``--blank negative``.
"""

import re
import shlex
import sys
from ast import literal_eval
from collections.abc import Sequence

# Two characters for private use mark an option inside a message, until it is known who reads it.
_BEGIN, _END = "\ue000", "\ue001"
_QUOTES = ("'", '"')
_MARKED = re.compile(f"{_BEGIN}(.*?)=(.*?){_END}", re.DOTALL)


def option(name: str, value: object = None) -> str:
    """An option (with a value) inside a message; ``True`` is a switch.

    >>> in_python(f"Pass {option('blank', 'negative')}."), in_shell(f"Pass {option('blank', 'negative')}.")
    ("Pass blank='negative'.", 'Pass --blank negative.')
    >>> in_python(option("skip_broken", True)), in_shell(option("skip_broken", True))
    ('skip_broken=True', '--skip-broken')
    """
    return f"{_BEGIN}{name}={'' if value is None else repr(value)}{_END}"


def in_python(text: str) -> str:
    """A message as a Python caller reads it."""
    return _MARKED.sub(lambda match: f"{match[1]}={match[2]}" if match[2] else match[1], text)


def in_shell(text: str) -> str:
    """A message as a user of the command line reads it."""

    def flag(match: re.Match[str]) -> str:
        name = f"--{match[1].replace('_', '-')}"
        if match[2] in ("", "True"):
            return name
        value = match[2]
        return f"{name} {quoted(str(literal_eval(value))) if value[0] in _QUOTES else value}"

    return _MARKED.sub(flag, text)


def quoted(*words: str) -> str:
    """Words of a command as the shell of this system takes them."""
    if sys.platform == "win32":  # where ' is a letter like any other
        from subprocess import list2cmdline

        return list2cmdline(words)
    return shlex.join(words)


class PositivelyError(Exception):
    """Base of every error that is about the user's input, not about a bug."""

    @property
    def message(self) -> str:
        """The sentence with its options still marked, to be used inside another one."""
        return str(self.args[0]) if self.args else ""

    def __str__(self) -> str:
        return in_python(self.message)


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


class InputError(ConfigError, ValueError):
    """An array or an argument of an estimator, where scikit-learn's contract asks for a ValueError."""


class FileError(PositivelyError):
    """A file that cannot be written: a full disk, a folder without permission."""


class RunError(PositivelyError):
    """A run folder that is missing, unfinished or not what was asked for."""


class DivergedError(RunError):
    """A training whose loss is no longer a number."""


class InterruptedRunError(RunError):
    """A run that was asked to stop, and left a checkpoint."""


class MetricError(PositivelyError):
    """Scores and labels from which a metric cannot be computed."""


_WINGS = frozenset({"torch", "torchvision", "timm", "lightning_fabric", "onnxscript"})


def explained(error: ImportError) -> Exception:
    """The sentence for a package that an extra brings; any other import error as it is."""
    package = (error.name or "").partition(".")[0]
    if package not in _WINGS:
        return error
    return ConfigError(
        f"This needs {package}, which the light installation leaves out: pip install 'positively[torch]'"
    )


def needs_extra(doing: str, package: str, extra: str) -> ConfigError:
    """The error for a package that comes with an extra and is not installed.

    >>> print(needs_extra("Reading Parquet", "pyarrow", "parquet"))
    Reading Parquet needs pyarrow: pip install 'positively[parquet]'
    """
    return ConfigError(f"{doing} needs {package}: pip install 'positively[{extra}]'")


def and_more(items: Sequence[object], shown: int = 5) -> str:
    """List the first few items and count the rest: ``a, b, c (12 more)``.

    >>> and_more(["a", "b", "c"], shown=2)
    'a, b (1 more)'
    """
    listed = ", ".join(_shortened(str(item)) for item in items[:shown])
    rest = len(items) - shown
    return f"{listed} ({rest} more)" if rest > 0 else listed


def plural(count: int, singular: str, plural: str | None = None) -> str:
    """A number with its noun.

    >>> plural(1, "class", "classes"), plural(2000, "photo")
    ('1 class', '2,000 photos')
    """
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def _shortened(text: str, longest: int = 160) -> str:
    """A text that does not flood a message: its beginning and its end."""
    return text if len(text) <= longest else f"{text[: longest // 2]} … {text[-longest // 4 :]}"


def short(reason: BaseException) -> str:
    """First line of an error, without the stop."""
    lines = str(reason).strip().splitlines()
    return lines[0].rstrip(".:") if lines else type(reason).__name__
