"""Every loss by its name. A new loss is one file and one line; the contract tests pick it up."""

from collections.abc import Callable
from typing import Any

from positively.errors import ConfigError
from positively.losses.base import LossModule
from positively.losses.bce import BCE, AssumeNegative
from positively.losses.expected_positives import EPR
from positively.losses.focusing import ASL, ASLAssumeNegative, Focal, FocalAssumeNegative
from positively.losses.generalized_robust import GR
from positively.losses.partial_bce import PartialBCE
from positively.losses.risk import NNPU, UPU
from positively.losses.robust import SPLC, Hill
from positively.losses.single_positive import ANLS, EM
from positively.losses.two_way import TwoWay
from positively.losses.variational import PUMLC, VPU
from positively.registry import Registry

LOSSES: Registry[type[LossModule]] = Registry("loss")

LOSSES.register("pu-mlc")(PUMLC)
LOSSES.register("vpu")(VPU)
LOSSES.register("upu")(UPU)
LOSSES.register("nnpu")(NNPU)
LOSSES.register("bce")(BCE)
LOSSES.register("assume-negative")(AssumeNegative)
LOSSES.register("partial-bce")(PartialBCE)
LOSSES.register("asl")(ASL)
LOSSES.register("asl-an")(ASLAssumeNegative)
LOSSES.register("focal")(Focal)
LOSSES.register("focal-an")(FocalAssumeNegative)
LOSSES.register("an-ls")(ANLS)
LOSSES.register("em")(EM)
LOSSES.register("hill")(Hill)
LOSSES.register("splc")(SPLC)
LOSSES.register("gr")(GR)
LOSSES.register("two-way")(TwoWay)
LOSSES.register("epr")(EPR)


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
