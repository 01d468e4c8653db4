"""Exceptions, and the spelling of options in messages.

The message of every error that a user can cause names the place and the fix. The command line prints it and exits with
code 2. Tracebacks are for bugs (or ``--debug``).

Options in messages are written ``{option("blank", "negative")}``. Python callers see ``blank='negative'``, users of the
command line ``--blank negative``.
"""

import re
import shlex
import sys
from ast import literal_eval
from collections.abc import Sequence

# Two private-use characters mark an option inside a message until it is shown in Python or in a shell.
_BEGIN, _END = "\ue000", "\ue001"
_QUOTES = ("'", '"')
_MARKED = re.compile(f"{_BEGIN}(.*?)=(.*?){_END}", re.DOTALL)


def option(name: str, value: object = None) -> str:
    """An option in a message, with or without a value; with ``True`` it is a switch.

    >>> in_python(f"Pass {option('blank', 'negative')}."), in_shell(f"Pass {option('blank', 'negative')}.")
    ("Pass blank='negative'.", 'Pass --blank negative.')
    >>> in_python(option("skip_broken", True)), in_shell(option("skip_broken", True))
    ('skip_broken=True', '--skip-broken')
    """
    return f"{_BEGIN}{name}={'' if value is None else repr(value)}{_END}"


def in_python(text: str) -> str:
    """A message with options as in Python."""
    return _MARKED.sub(lambda match: f"{match[1]}={match[2]}" if match[2] else match[1], text)


def in_shell(text: str) -> str:
    """A message with options as on the command line."""

    def flag(match: re.Match[str]) -> str:
        name = f"--{match[1].replace('_', '-')}"
        if match[2] in ("", "True"):
            return name
        value = match[2]
        return f"{name} {quoted(str(literal_eval(value))) if value[0] in _QUOTES else value}"

    return _MARKED.sub(flag, text)


def quoted(*words: str) -> str:
    """Words of a command, quoted for the shell of this system."""
    if sys.platform == "win32":  # the Windows shell does not quote with '
        from subprocess import list2cmdline

        return list2cmdline(words)
    return shlex.join(words)


class PositivelyError(Exception):
    """Base class of all errors that are caused by input, not by a bug."""

    @property
    def message(self) -> str:
        """The message with its options still marked, to include it in another message."""
        return str(self.args[0]) if self.args else ""

    def __str__(self) -> str:
        return in_python(self.message)


class LabelError(PositivelyError, ValueError):
    """Label states or label tables are invalid or do not fit together."""


class TableError(PositivelyError):
    """A table of tags cannot be read."""


class ImageError(PositivelyError):
    """An image is missing or cannot be decoded."""


class WeightsError(PositivelyError):
    """Pretrained weights cannot be loaded or do not fit the backbone."""


class ConfigError(PositivelyError):
    """An option or a combination of options is invalid."""


class InputError(ConfigError, ValueError):
    """An argument of an estimator is invalid; a ValueError, as scikit-learn's contract requires."""


class MissingExtraError(ConfigError, AttributeError):
    """A part of the package needs an extra that is not installed; an AttributeError, so that ``hasattr`` is False."""


class FileError(PositivelyError):
    """A file cannot be written, for example because the disk is full."""


class RunError(PositivelyError):
    """A run folder is missing, unfinished, damaged or in use."""


class DivergedError(RunError):
    """The training loss is no longer a finite number."""


class InterruptedRunError(RunError):
    """A training was interrupted and left a checkpoint."""


class MetricError(PositivelyError, ValueError):
    """A metric cannot be computed from these scores and labels."""


_WINGS = frozenset({"torch", "torchvision", "timm", "lightning_fabric", "onnxscript"})


def explained(error: ImportError) -> Exception:
    """Turn an import error about a package of an extra into a message; return other errors unchanged."""
    package = (error.name or "").partition(".")[0]
    if package not in _WINGS:
        return error
    return MissingExtraError(
        f"This needs {package}, which is not part of the light installation: pip install 'positively[torch]'"
    )


def needs_extra(doing: str, package: str, extra: str) -> ConfigError:
    """The error for a package of an extra that is not installed.

    >>> print(needs_extra("Reading Parquet", "pyarrow", "parquet"))
    Reading Parquet needs pyarrow: pip install 'positively[parquet]'
    """
    return ConfigError(f"{doing} needs {package}: pip install 'positively[{extra}]'")


def and_more(items: Sequence[object], shown: int = 5) -> str:
    """The first few items and the number of the others: ``a, b, c (12 more)``.

    >>> and_more(["a", "b", "c"], shown=2)
    'a, b (1 more)'
    """
    listed = ", ".join(shortened(str(item)) for item in items[:shown])
    rest = len(items) - shown
    return f"{listed} ({rest} more)" if rest > 0 else listed


def plural(count: int, singular: str, plural: str | None = None) -> str:
    """A number with its noun.

    >>> plural(1, "class", "classes"), plural(2000, "photo")
    ('1 class', '2,000 photos')
    """
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def shortened(text: str, longest: int = 160) -> str:
    """The beginning and the end of a long text."""
    return text if len(text) <= longest else f"{text[: longest // 2]} … {text[-longest // 4 :]}"


def short(reason: BaseException) -> str:
    """First line of an error message, without the full stop."""
    lines = str(reason).strip().splitlines()
    return lines[0].rstrip(".:") if lines else type(reason).__name__
