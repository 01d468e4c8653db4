"""Import the names that a package exports on first use, so that importing the package is fast."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy(room: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package.

    Args:
        room: The ``__name__`` of the package.
        homes: Names to export, by the module that defines them.

    >>> lazy("positively.metrics", {"logits": ["sigmoid"]})("sigmoid").__module__
    'positively.metrics.logits'
    """
    found = {name: module for module, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name not in found:
            raise AttributeError(f"module '{room}' has no attribute '{name}'")
        return getattr(import_module(f"{room}.{found[name]}"), name)

    return get
