"""A loss as a method."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, ClassVar

from torch import Tensor

from positively.finetune.methods.base import Method, StepContext
from positively.losses import LOSSES, LossModule
from positively.options import kinds_of, options_of


class LossMethod(Method):
    """Minimises one registered loss. Its options are those of the loss, plus the fields of ``Options``."""

    loss_name: ClassVar[str]

    def __init__(self, options: Any = None) -> None:
        super().__init__(options)
        self.loss = self.make_loss()

    def make_loss(self, **changes: Any) -> LossModule:
        """Build the loss with the options of the method, updated by ``changes``."""
        kind = LOSSES[self.loss_name]
        names = kinds_of(options_of(kind.function))
        values = {entry.name: getattr(self.options, entry.name) for entry in fields(self.options)}
        return kind(**{name: value for name, value in {**values, **changes}.items() if name in names})

    @property
    def uses_negatives(self) -> bool:
        """Whether the loss distinguishes known negatives from unknown labels."""
        return LOSSES[self.loss_name].uses_negatives

    @property
    def needs_negatives(self) -> bool:
        """Whether the loss cannot learn without known negatives."""
        return LOSSES[self.loss_name].needs_negatives

    def training_step(self, network: Any, inputs: Tensor, states: Tensor, step: StepContext) -> dict[str, Tensor]:
        """Loss of one step."""
        return {"loss": self.loss(network(inputs), states)}


def method_of_loss(name: str) -> type[LossMethod]:
    """Create the method that minimises a registered loss."""
    loss = LOSSES[name]
    members = {"loss_name": name, "Options": options_of(loss.function), "__module__": loss.__module__}
    return type(f"{loss.__name__}Method", (LossMethod,), {**members, "__doc__": loss.function.__doc__})
