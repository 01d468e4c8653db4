"""Creation of methods by name. Built-in methods are listed in `positively.registry`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from positively.errors import ConfigError
from positively.finetune.methods.base import Method
from positively.models import Depth
from positively.options import changed_options, check_options, kinds_of, make_options
from positively.registry import LOSSES, METHODS


def register_method(name: str) -> Callable[[type[Method]], type[Method]]:
    """Decorator that registers a `Method` class under a name.

    Args:
        name: Name of the method. Names of losses are taken, as every loss is also a method.

    Returns:
        The decorator.

    Raises:
        ConfigError: If there is a loss with this name.
    """
    if name in LOSSES:
        raise ConfigError(f"'{name}' is the name of a loss, and every loss is also a method. Choose another name.")
    return METHODS.register(name)


def resolve_options(name: str, depth: Depth, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a method at a depth that differ from its dataclass: defaults of the depth, updated by ``given``."""
    kind = METHODS[name]
    check_options(f"Method '{name}'", given, kinds_of(kind.Options))
    return changed_options(make_options(kind.Options, f"Method '{name}'", {**kind.defaults(depth, given), **given}))


def create_method(name: str, **options: Any) -> Method:
    """Create a method.

    Args:
        name: Name of the method.
        **options: Options of the method.

    Returns:
        The method.

    Raises:
        ConfigError: If the method or an option is unknown, or a value is out of range.

    Example:
        >>> from positively.finetune import create_method
        >>> create_method("pu-mlc", gamma=0.4).options.gamma
        0.4
    """
    kind = METHODS[name]
    return kind(make_options(kind.Options, f"Method '{name}'", options))
