"""Names → classes: methods, losses and heads, ours and those of a user's own code."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Generic, TypeVar
from zlib import crc32

from positively.errors import ConfigError, option

T = TypeVar("T")
_GROUP = "positively.plugins"


class Registry(Mapping[str, T], Generic[T]):
    """What is registered under a kind ("method", "loss", "head").

    >>> shapes: Registry[type] = Registry("shape")
    >>> @shapes.register("round")
    ... class Round: ...
    >>> shapes["rond"]
    Traceback (most recent call last):
    positively.errors.ConfigError: There is no shape 'rond'; there are round. Did you mean 'round'?
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, T] = {}

    def register(self, name: str) -> Callable[[Any], Any]:
        """Decorator that puts a class under a name; a name that is taken is refused, unless by the same code."""

        def add(entry: Any) -> Any:
            known = self._entries.get(name)
            if known is not None and _origin(known) != _origin(entry):
                raise ConfigError(f"There is a {self.kind} '{name}' already ({_origin(known)}). Take another name.")
            self._entries[name] = entry
            return entry

        return add

    def __getitem__(self, name: str) -> T:
        if name not in self:
            near = difflib.get_close_matches(name, list(self), n=1)
            hint = f" Did you mean '{near[0]}'?" if near else f" One of your own comes with {option('plugin', 'FILE')}."
            raise ConfigError(f"There is no {self.kind} '{name}'; there are {', '.join(self)}.{hint}")
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        if name not in self._entries:
            load_entry_points()
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        load_entry_points()
        return iter(self._entries)

    def __len__(self) -> int:
        load_entry_points()
        return len(self._entries)


def _origin(entry: Any) -> str:
    return f"{getattr(entry, '__module__', '')}.{getattr(entry, '__qualname__', entry)}"


@cache
def load_entry_points() -> None:
    """Import what installed packages offer under the entry point ``positively.plugins``."""
    for entry_point in entry_points(group=_GROUP):
        entry_point.load()


@cache
def load_plugin(file: str) -> None:
    """Run a Python file that registers methods, losses or heads; once, however often it is named."""
    path = Path(file).expanduser()
    if path.suffix != ".py" or not path.is_file():
        raise ConfigError(f"{option('plugin', file)}: there is no such Python file.")
    place = path.resolve()
    name = f"positively_plugin_{path.stem}_{crc32(str(place).encode()):08x}"  # two files may have one name
    spec = spec_from_file_location(name, place)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses and help texts look for it
    try:
        spec.loader.exec_module(module)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"{option('plugin', file)} cannot be loaded: {type(error).__name__}: {error}") from error
