"""Methods by their names, with their options. Ours are listed in `positively.registry`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from positively.errors import ConfigError
from positively.finetune.methods.base import Method
from positively.models import Depth
from positively.options import changed_options, check_options, kinds_of, make_options
from positively.registry import LOSSES, METHODS


def register_method(name: str) -> Callable[[type[Method]], type[Method]]:
    """Decorator for a method of one's own; the name of a loss is a method already."""
    if name in LOSSES:
        raise ConfigError(f"There is a loss '{name}', which is a method already. Take another name.")
    return METHODS.register(name)


def resolve_options(name: str, depth: Depth, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a method at this depth that differ from its dataclass: what suits the depth, under what is given."""
    kind = METHODS[name]
    check_options(f"Method '{name}'", given, kinds_of(kind.Options))
    return changed_options(make_options(kind.Options, f"Method '{name}'", {**kind.defaults(depth, given), **given}))


def create_method(name: str, **options: Any) -> Method:
    """Make a method by its name; an option it does not have is an error that lists those it has."""
    kind = METHODS[name]
    return kind(make_options(kind.Options, f"Method '{name}'", options))
