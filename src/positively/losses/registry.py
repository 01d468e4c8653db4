"""Losses of one's own, by name. Ours are listed in :mod:`positively.registry`."""

from collections.abc import Callable
from typing import Any

from positively.errors import ConfigError
from positively.losses.base import LossModule
from positively.registry import LOSSES


def register_loss(name: str, *, uses_negatives: bool = False, needs_negatives: bool = False) -> Callable[[Any], Any]:
    """Decorator for a loss of one's own, a function (logits, states, *, options) or a :class:`LossModule`.

    It can then be trained by its name, as a method. A module says by its attributes whether it uses negatives.
    """

    def add(loss: Any) -> Any:
        module = loss
        if isinstance(loss, type):
            if uses_negatives or needs_negatives:
                raise ConfigError(f"{loss.__name__}: a module says by its own attributes whether it uses negatives.")
        else:
            members = {
                "function": staticmethod(loss),
                "uses_negatives": uses_negatives,
                "needs_negatives": needs_negatives,
                "__module__": loss.__module__,
                "__doc__": loss.__doc__,
            }
            module = type(loss.__name__, (LossModule,), members)
        LOSSES.register(name)(module)
        return loss

    return add
