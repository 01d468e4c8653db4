"""Parts shared by all losses: input checks, the reduction over classes, and the module around a loss function."""

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
    """Check shapes and label states, and convert half-precision logits to float32.

    Label states are checked on the CPU only. On a GPU the check would synchronise host and device in every step.

    Args:
        logits: Raw outputs of the network, shape (N, C).
        states: Label states, shape (N, C).

    Returns:
        The logits in float32 or float64, and the states.

    Raises:
        LabelError: If an input is not a tensor, the shapes differ, or a state is not +1, 0 or -1.
    """
    check_shapes(logits, states)
    if states.device.type == "cpu" and not torch.compiler.is_compiling():
        is_state = states.abs() <= 1  # False for NaN
        if states.is_floating_point():
            is_state &= states == states.round()
        if not is_state.all():
            found = states[~is_state][0].item()
            raise LabelError(f"A loss needs label states +1, 0 (unknown) or -1 (negative); found {found}.")
    return (logits if logits.dtype == torch.float64 else logits.float()), states


def check_shapes(logits: Tensor, states: Tensor) -> None:
    """Raise LabelError unless both are tensors of the same shape (N, C)."""
    if not isinstance(logits, Tensor) or not isinstance(states, Tensor):
        kinds = f"{type(logits).__name__} and {type(states).__name__}"
        raise LabelError(f"A loss needs tensors of logits and label states, not {kinds}.")
    if states.dtype == torch.bool:
        raise LabelError("Label states must be the numbers +1, 0 (unknown) and -1 (negative), not booleans.")
    if logits.ndim != 2 or logits.shape != states.shape:
        raise LabelError(
            f"A loss needs logits and label states of the same shape (images × classes); "
            f"got {tuple(logits.shape)} and {tuple(states.shape)}."
        )


def reduce_classes(per_class: Tensor, class_reduction: ClassReduction) -> Tensor:
    """Sum over the classes, as in the paper, or mean."""
    total = per_class.sum()
    return total if class_reduction == "sum" else total / max(len(per_class), 1)


def power(base: Tensor, exponent: float) -> Tensor:
    """Compute ``base**exponent`` with a finite gradient at 0, also for exponents below 1."""
    return base.clamp_min(1e-8) ** exponent if 0 < exponent < 1 else base**exponent


def assuming_negative(name: str, loss: Callable[..., Tensor], summary: str) -> Callable[..., Tensor]:
    """Variant of a loss that treats every unknown label as negative; the options stay the same.

    Args:
        name: Name of the new function.
        loss: Loss function that uses negatives.
        summary: First line of the new docstring.

    Returns:
        A loss function that reads only +1 from the label states.
    """

    @wraps(loss)
    def assumed(logits: Tensor, states: Tensor, **options: Any) -> Tensor:
        logits, states = check_inputs(logits, states)
        return loss(logits, (states == 1).to(states.dtype) * 2 - 1, **options)

    assumed.__name__ = assumed.__qualname__ = name
    arguments = (loss.__doc__ or "").partition("    Args:")[2].partition("    Returns:")[0]
    assumed.__doc__ = (
        f"{summary}\n\n    The options are those of `{loss.__name__}`.\n\n    Args:{arguments}"
        "    Returns:\n        The loss, a scalar.\n    "
    )
    return assumed


class LossModule(nn.Module):
    """Module form of a loss function: same options, same value.

    Tensor options, such as a prior per class, are stored as buffers so that they move with the module.

    Args:
        **options: Keyword options of the loss function.

    Raises:
        ConfigError: If an option is unknown or out of range.

    Example:
        >>> import torch
        >>> from positively.losses import BCE
        >>> loss = BCE(class_reduction="mean")
        >>> round(loss(torch.zeros(2, 3), torch.ones(2, 3)).item(), 4)
        0.6931
    """

    function: ClassVar[Callable[..., Tensor]]
    uses_negatives: ClassVar[bool] = False
    """Whether known negatives are treated differently from unknown labels."""
    needs_negatives: ClassVar[bool] = False
    """Whether the loss cannot learn without known negatives."""

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
        """Compute the loss.

        Args:
            logits: Raw outputs of the network, shape (N, C).
            states: Label states, shape (N, C): +1 positive, 0 unknown, -1 negative.

        Returns:
            The loss, a scalar.
        """
        return type(self).function(logits, states, **{name: getattr(self, name) for name in self._names})

    def extra_repr(self) -> str:
        """Options that were given, for `repr`."""
        return ", ".join(f"{name}={getattr(self, name)}" for name in self._given)
