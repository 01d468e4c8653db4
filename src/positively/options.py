"""Typed options: a dataclass (or keyword arguments) whose annotations define the allowed values.

The annotation holds the range, as in ``gamma: Annotated[float, Range(minimum=0)]``. The docstring below a field is its
help: ``--help`` shows the first sentence, ``--help-all`` all of it.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields, make_dataclass
from functools import cache
from pathlib import PurePath
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from positively.errors import ConfigError, shortened

T = TypeVar("T")


@dataclass(frozen=True)
class Range:
    """Numbers from ``minimum`` (or above ``above``) up to ``maximum`` (or below ``below``)."""

    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    below: float | None = None

    def __contains__(self, value: float) -> bool:
        return not (
            (self.minimum is not None and not value >= self.minimum)
            or (self.maximum is not None and not value <= self.maximum)
            or (self.above is not None and not value > self.above)
            or (self.below is not None and not value < self.below)
        )

    def __repr__(self) -> str:
        words = {"at least": self.minimum, "above": self.above, "at most": self.maximum, "below": self.below}
        return " and ".join(f"{word} {limit:g}" for word, limit in words.items() if limit is not None)


NonNegative = Annotated[float, Range(minimum=0)]
Positive = Annotated[float, Range(above=0)]
Share = Annotated[float, Range(minimum=0, maximum=1)]
Decay = Annotated[float, Range(minimum=0, below=1)]
Count = Annotated[int, Range(minimum=1)]
Index = Annotated[int, Range(minimum=0)]
Runtime = Literal["auto", "torch", "onnx"]
"""What runs a network: ONNX Runtime, or torch."""

# Text, with the word that the help of the command line shows for it.
File = Annotated[str, "FILE"]
Folder = Annotated[str, "DIR"]
Name = Annotated[str, "NAME"]


def check_value(what: str, value: Any, kind: Any) -> None:
    """Raise unless a value fits its annotation.

    >>> check_value("epochs", "ten", Count | None)
    Traceback (most recent call last):
    positively.errors.ConfigError: epochs must be a whole number at least 1 or None, not 'ten'.
    """
    if not any(_fits(value, part) for part in alternatives(kind)):
        raise ConfigError(f"{what} must be {describe_kind(kind)}, not {shown_value(value)}.")


def shown_value(value: Any) -> str:
    """A value in a message: plain values as they are written, and of others, such as arrays, the kind alone.

    >>> shown_value("ten"), shown_value({1, 2})
    ("'ten'", 'a set')
    """
    plain = (str, int, float, PurePath, type(None))
    parts = value if isinstance(value, list | tuple) else [value]
    if isinstance(value, dict) or all(isinstance(part, plain) for part in parts):
        return shortened(repr(value))
    if hasattr(value, "dtype") and value.ndim:
        return "an array"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def check_options(owner: str, given: Mapping[str, Any], kinds: Mapping[str, Any]) -> None:
    """Raise if an option is not in ``kinds`` (name → annotation), or its value does not fit."""
    for name, value in given.items():
        if name not in kinds:
            near = difflib.get_close_matches(name, kinds, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            has = f"it has {', '.join(kinds)}" if kinds else "it has none"
            raise ConfigError(f"{owner} has no option '{name}'; {has}.{hint}")
        check_value(f"{owner}: {name}", value, kinds[name])


def make_options(kind: type[T], owner: str, given: Mapping[str, Any]) -> T:
    """Make an instance of an options dataclass, with every name and value checked."""
    check_options(owner, given, kinds_of(kind))
    return kind(**given)


def kinds_of(kind: type) -> dict[str, Any]:
    """Name → annotation of the fields of a dataclass."""
    hints = get_type_hints(kind, include_extras=True)
    return {entry.name: hints[entry.name] for entry in fields(kind)}


def options_of(function: Callable[..., Any], base: type | None = None) -> type:
    """Make an options dataclass of the keyword-only arguments of a function, and of ``base``, whose fields win.

    >>> def scale(x, *, factor: NonNegative = 2.0): ...
    >>> options_of(scale)(factor=3.0).factor
    3.0
    """
    hints = get_type_hints(function, include_extras=True)
    own = {entry.name for entry in fields(base)} if base else set()
    entries: list[Any] = [
        (name, hints[name], field(default=parameter.default))
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and name not in own
    ]
    made = make_dataclass(f"{function.__name__}_options", entries, bases=(base,) if base else (), frozen=True)
    made.__doc__ = function.__doc__
    return made


def changed_options(options: Any) -> dict[str, Any]:
    """The values that differ from the defaults in an instance of an options dataclass."""
    values = {entry: getattr(options, entry.name) for entry in fields(options)}
    return {entry.name: value for entry, value in values.items() if value != default_of(entry)}


def default_of(entry: Any) -> Any:
    """Default of a dataclass field."""
    return entry.default_factory() if entry.default_factory is not MISSING else entry.default


def describe_options(kind: type) -> list[tuple[str, str, Any, str]]:
    """Name, allowed values, default and help of every field."""
    kinds, helps = kinds_of(kind), helps_of(kind)
    return [
        (entry.name, describe_kind(kinds[entry.name]), default_of(entry), helps.get(entry.name, ""))
        for entry in fields(kind)
    ]


@cache
def helps_of(kind: type) -> dict[str, str]:
    """Name → help of the fields of a dataclass."""
    from docstring_parser import parse, parse_from_object

    helps: dict[str, str] = {}
    for ancestor in reversed(kind.__mro__[:-1]):
        try:
            found = parse_from_object(ancestor).params
        except (OSError, TypeError):  # made from a function: it has no source of its own
            found = parse(ancestor.__doc__ or "").params
        helps |= {entry.arg_name: " ".join((entry.description or "").split()) for entry in found}
    return helps


def read_value(what: str, text: str, kind: Any) -> Any:
    """The value of an option as someone typed it.

    >>> read_value("devices", "2", Count | Literal["auto"]), read_value("epochs", "null", Count | None)
    (2, None)
    """
    parts = alternatives(kind)
    for value in _readings(text):
        if any(_fits(value, part) for part in parts):
            return value
    raise ConfigError(f"{what} takes {describe_kind(kind).removesuffix(' or None')}, not {text!r}.")


def _readings(text: str) -> Iterator[Any]:
    """What a text may mean: the most special meaning first."""
    if text in _CONSTANTS:
        yield _CONSTANTS[text]
    for read in (int, float):
        with suppress(ValueError):
            yield read(text)
    if text.startswith(("[", "{")):
        import yaml

        with suppress(yaml.YAMLError):
            yield yaml.safe_load(text)
    yield text


_CONSTANTS = {"true": True, "false": False, "null": None}
_WORDS = {float: "a number", int: "a whole number", bool: "True or False", str: "text", NoneType: "None"}


def describe_kind(kind: Any) -> str:
    """Words for an annotation: ``a number at least 0, or None``."""
    parts = []
    for part in alternatives(kind):
        if get_origin(part) is Annotated:
            plain, *more = get_args(part)
            limits = [repr(limit) for limit in more if isinstance(limit, Range)]
            parts.append(" ".join([_WORDS.get(plain, str(plain)), *limits]))
        elif get_origin(part) is Literal:
            parts += [repr(choice) for choice in get_args(part)]
        else:
            parts.append(_WORDS.get(part, getattr(part, "__name__", str(part))))
    return " or ".join(parts)


def alternatives(kind: Any) -> list[Any]:
    """The members of a union; any other annotation as it is."""
    if get_origin(kind) in (Union, UnionType):
        return [part for member in get_args(kind) for part in alternatives(member)]
    return [kind]


def _fits(value: Any, kind: Any) -> bool:
    if get_origin(kind) is Annotated:
        plain, *limits = get_args(kind)
        return _fits(value, plain) and all(value in limit for limit in limits if isinstance(limit, Range))
    if get_origin(kind) is Literal:
        return any(value == choice and type(value) is type(choice) for choice in get_args(kind))
    if kind is Any:
        return True
    plain = get_origin(kind) or kind
    if plain is float:  # a whole number is a number; a switch is not
        return isinstance(value, int | float) and not isinstance(value, bool)
    if plain is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, plain)
