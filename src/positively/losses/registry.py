"""Every loss by its name. A new loss is one file and one line; the contract tests pick it up."""

from collections.abc import Callable
from typing import Any

from positively.losses.base import LossModule
from positively.losses.bce import BCE, AssumeNegative
from positively.losses.risk import NNPU, UPU
from positively.losses.variational import PUMLC, VPU
from positively.registry import Registry

LOSSES: Registry[type[LossModule]] = Registry("loss")

LOSSES.register("pu-mlc")(PUMLC)
LOSSES.register("vpu")(VPU)
LOSSES.register("upu")(UPU)
LOSSES.register("nnpu")(NNPU)
LOSSES.register("bce")(BCE)
LOSSES.register("assume-negative")(AssumeNegative)


def register_loss(name: str, *, uses_negatives: bool = False, needs_negatives: bool = False) -> Callable[[Any], Any]:
    """Decorator for a loss of one's own, a function (logits, states, *, options) or a :class:`LossModule`.

    It can then be trained by its name, as a method.
    """

    def add(loss: Any) -> Any:
        module = loss
        if not isinstance(loss, type):
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
