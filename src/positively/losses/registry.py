"""Registration of user-defined losses. Built-in losses are listed in `positively.registry`."""

from collections.abc import Callable
from typing import Any

from positively.errors import ConfigError
from positively.losses.base import LossModule
from positively.registry import LOSSES


def register_loss(name: str, *, uses_negatives: bool = False, needs_negatives: bool = False) -> Callable[[Any], Any]:
    """Decorator that registers a loss under a name, so that it can be trained as a method.

    Args:
        name: Name of the loss and of its method.
        uses_negatives: Whether the loss function treats known negatives differently from unknown labels.
        needs_negatives: Whether the loss function cannot learn without known negatives.

    Returns:
        A decorator for a function ``(logits, states, *, options)`` or a `LossModule` class. A class sets
        ``uses_negatives`` and ``needs_negatives`` as class attributes instead.

    Raises:
        ConfigError: If the flags are passed together with a class.
    """

    def add(loss: Any) -> Any:
        module = loss
        if isinstance(loss, type):
            if uses_negatives or needs_negatives:
                raise ConfigError(f"{loss.__name__}: set uses_negatives and needs_negatives as class attributes.")
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
