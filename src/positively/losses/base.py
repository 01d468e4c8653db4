"""What every loss shares: the check of its inputs, the reduction over classes, the module over a function."""

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from positively.errors import LabelError
from positively.options import check_options, kinds_of, options_of

ClassReduction = Literal["sum", "mean"]


def check_inputs(logits: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
    """Check shapes and label values, and bring half-precision logits to float32: a loss is computed in that or better.

    Values are looked at where that is cheap: on a GPU it would make the host wait in every step, and labels that come
    from a table were checked there.
    """
    check_shapes(logits, states)
    if states.device.type == "cpu" and not torch.compiler.is_compiling():
        is_state = states.abs() <= 1  # false for nan
        if states.is_floating_point():
            is_state &= states == states.round()
        if not is_state.all():
            found = states[~is_state][0].item()
            raise LabelError(f"A loss takes the label states +1, 0 (unknown) and -1 (negative); found {found}.")
    return (logits if logits.dtype == torch.float64 else logits.float()), states


def check_shapes(logits: Tensor, states: Tensor) -> None:
    """Raise unless both are tensors N×C."""
    if not isinstance(logits, Tensor) or not isinstance(states, Tensor):
        kinds = f"{type(logits).__name__} and {type(states).__name__}"
        raise LabelError(f"A loss takes tensors of logits and label states, not {kinds}.")
    if states.dtype == torch.bool:
        raise LabelError("Label states are the numbers +1, 0 (unknown) and -1 (negative), not True and False.")
    if logits.ndim != 2 or logits.shape != states.shape:
        raise LabelError(
            f"A loss takes logits and label states of one shape, images × classes; "
            f"got {tuple(logits.shape)} and {tuple(states.shape)}."
        )


def reduce_classes(per_class: Tensor, class_reduction: ClassReduction) -> Tensor:
    """Sum over the classes, as the paper writes it, or their mean."""
    total = per_class.sum()
    return total if class_reduction == "sum" else total / max(len(per_class), 1)


def power(base: Tensor, exponent: float) -> Tensor:
    """Base to a power; of 0 the slope of a power below 1 is infinite, and nothing is lost just above it."""
    return base.clamp_min(1e-8) ** exponent if 0 < exponent < 1 else base**exponent


def assuming_negative(name: str, loss: Callable[..., Tensor], summary: str) -> Callable[..., Tensor]:
    """The same loss of labels whose unknown ones are called negative; only +1 is read of them, and options stay."""

    @wraps(loss)
    def assumed(logits: Tensor, states: Tensor, **options: Any) -> Tensor:
        logits, states = check_inputs(logits, states)
        return loss(logits, (states == 1).to(states.dtype) * 2 - 1, **options)

    assumed.__name__ = assumed.__qualname__ = name
    arguments = (loss.__doc__ or "").partition("    Args:")[2]
    assumed.__doc__ = f"{summary}\n\n    Options as in :func:`{loss.__name__}`.\n\n    Args:{arguments}"
    return assumed


class LossModule(nn.Module):
    """Thin module over a loss function: same options, same value.

    Tensor options (a prior per class) become buffers, so that they follow the module to its device.
    """

    function: ClassVar[Callable[..., Tensor]]
    uses_negatives: ClassVar[bool] = False
    """Whether a known negative is treated otherwise than an unknown label."""
    needs_negatives: ClassVar[bool] = False
    """Whether there is nothing to learn without known negatives."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        kind = options_of(type(self).function)
        check_options(type(self).__name__, options, kinds_of(kind))
        for entry in fields(kind):
            value = options.get(entry.name, entry.default)
            if isinstance(value, Tensor):
                self.register_buffer(entry.name, value, persistent=False)
            else:
                setattr(self, entry.name, value)
        self._given, self._names = tuple(options), tuple(entry.name for entry in fields(kind))

    def forward(self, logits: Tensor, states: Tensor) -> Tensor:
        """Loss of ``logits`` (N×C) given ``states`` (N×C of +1, 0, −1): a scalar."""
        return type(self).function(logits, states, **{name: getattr(self, name) for name in self._names})

    def extra_repr(self) -> str:
        """Options that were given, for ``print``."""
        return ", ".join(f"{name}={getattr(self, name)}" for name in self._given)
