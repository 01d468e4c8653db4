"""What every loss shares: the check at the door, the reduction over classes, the module over a function."""

import inspect
from collections.abc import Callable
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor, nn

from positively.errors import ConfigError, LabelError

ClassReduction = Literal["sum", "mean"]


def check_inputs(logits: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
    """Check shapes, and bring half-precision logits to float32: every loss is computed in float32 or better."""
    if logits.ndim != 2 or logits.shape != states.shape:
        raise LabelError(
            f"A loss takes logits and label states of one shape, images × classes; "
            f"got {tuple(logits.shape)} and {tuple(states.shape)}."
        )
    return (logits if logits.dtype == torch.float64 else logits.float()), states


def reduce_classes(per_class: Tensor, class_reduction: ClassReduction) -> Tensor:
    """Sum over the classes, as the paper writes it, or their mean."""
    return per_class.sum() if class_reduction == "sum" else per_class.mean()


def options_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Keyword options of a function, by name."""
    parameters = inspect.signature(function).parameters
    return {name: p for name, p in parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY}


def check_option(owner: str, name: str, value: Any, kind: Any) -> None:
    """Raise unless an option's value fits its annotation (numbers, switches, one of several words, or None)."""
    choices = [choice for part in get_args(kind) or (kind,) for choice in get_args(part) or (part,)]
    words = [choice for choice in choices if isinstance(choice, str)]
    kinds = tuple(choice for choice in choices if isinstance(choice, type))
    kinds += (int,) if float in kinds else ()
    is_switch = isinstance(value, bool)
    if isinstance(value, str) and value in words:
        return
    if isinstance(value, kinds) and (not is_switch or bool in kinds):
        return
    expected = " or ".join([repr(word) for word in words] or [kind.__name__ for kind in kinds if kind is not int])
    raise ConfigError(f"{owner}: option '{name}' takes {expected.replace('NoneType', 'None')}, not {value!r}.")


class LossModule(nn.Module):
    """Thin module over a loss function: same options, same value.

    Tensor options (a prior per class) become buffers, so that they follow the module to its device.
    """

    function: ClassVar[Callable[..., Tensor]]
    uses_negatives: ClassVar[bool] = False
    """Whether a known negative is treated otherwise than an unknown label."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        allowed = options_of(type(self).function)
        for name, value in options.items():
            if name not in allowed:
                raise ConfigError(f"{type(self).__name__} has no option '{name}'; it has {', '.join(allowed)}.")
            check_option(type(self).__name__, name, value, allowed[name].annotation)
            if isinstance(value, Tensor):
                self.register_buffer(name, value, persistent=False)
            else:
                setattr(self, name, value)
        self._given = tuple(options)

    def forward(self, logits: Tensor, states: Tensor) -> Tensor:
        """Loss of ``logits`` (N×C) given ``states`` (N×C of +1, 0, −1): a scalar."""
        return type(self).function(logits, states, **self.given())

    def given(self) -> dict[str, Any]:
        """Options that were given, with their values."""
        return {name: getattr(self, name) for name in self._given}

    def extra_repr(self) -> str:
        """Options that were given, for ``print``."""
        return ", ".join(f"{name}={value}" for name, value in self.given().items())
