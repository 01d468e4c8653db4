"""Every method by its name. A new method is one file and one line here; the contract tests pick it up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from positively.errors import ConfigError
from positively.losses import LOSSES
from positively.methods.base import Method
from positively.methods.cadm import CADMMethod
from positively.methods.closed_form import ClosedForm
from positively.methods.cop import CoProjectionMethod
from positively.methods.curriculum import CurriculumLabelling
from positively.methods.distill import Distill
from positively.methods.dual_coop import DualCoOp
from positively.methods.em_apl import EMAPL, EMMethod
from positively.methods.expected_positives import EPRMethod
from positively.methods.interactive import InteractiveMethod
from positively.methods.label_graphs import MLGCNMethod, SSGRLMethod
from positively.methods.large_loss import LargeLossPermanent, LargeLossRejection, LargeLossTemporary
from positively.methods.loss_method import method_of_loss
from positively.methods.prototype import PrototypeMethod
from positively.methods.pu_mlc import PUMLCMethod, VPUMethod
from positively.methods.risk import NNPUMethod, UPUMethod
from positively.methods.role import RoleMethod
from positively.methods.sarb import SARBMethod
from positively.methods.scheduled import GRMethod, SPLCMethod
from positively.methods.sst import SSTMethod
from positively.models import Depth
from positively.options import changed_options, check_options, kinds_of, make_options
from positively.registry import Registry


class MethodRegistry(Registry[type[Method]]):
    """Methods by name; a loss without a method of its own is one that minimises it."""

    def __getitem__(self, name: str) -> type[Method]:
        return method_of_loss(name) if not super().__contains__(name) and name in LOSSES else super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in LOSSES

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*super().__iter__(), *LOSSES]))

    def __len__(self) -> int:
        return len(list(iter(self)))


METHODS = MethodRegistry("method")
METHODS.register("closed-form")(ClosedForm)
METHODS.register("distill")(Distill)
METHODS.register("pu-mlc")(PUMLCMethod)
METHODS.register("vpu")(VPUMethod)
METHODS.register("upu")(UPUMethod)
METHODS.register("nnpu")(NNPUMethod)
METHODS.register("splc")(SPLCMethod)
METHODS.register("gr")(GRMethod)
METHODS.register("em")(EMMethod)
METHODS.register("em-apl")(EMAPL)
METHODS.register("ll-r")(LargeLossRejection)
METHODS.register("ll-ct")(LargeLossTemporary)
METHODS.register("ll-cp")(LargeLossPermanent)
METHODS.register("prototype")(PrototypeMethod)
METHODS.register("sst")(SSTMethod)
METHODS.register("sarb")(SARBMethod)
METHODS.register("ml-gcn")(MLGCNMethod)
METHODS.register("ssgrl")(SSGRLMethod)
METHODS.register("cadm")(CADMMethod)
METHODS.register("cop")(CoProjectionMethod)
METHODS.register("dual-coop")(DualCoOp)
METHODS.register("cl")(CurriculumLabelling)
METHODS.register("imcl")(InteractiveMethod)
METHODS.register("epr")(EPRMethod)
METHODS.register("role")(RoleMethod)


def register_method(name: str) -> Callable[[type[Method]], type[Method]]:
    """Decorator for a method of one's own; the name of a loss is a method already."""
    if name in LOSSES:
        raise ConfigError(f"There is a loss '{name}', which is a method already. Take another name.")
    return METHODS.register(name)


def resolve_options(name: str, depth: Depth, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a method at this depth that differ from its dataclass: what suits the depth, under what is given."""
    kind = METHODS[name]
    check_options(f"Method '{name}'", given, kinds_of(kind.Options))
    return changed_options(make_options(kind.Options, f"Method '{name}'", {**kind.defaults(depth, given), **given}))


def create_method(name: str, **options: Any) -> Method:
    """Make a method by its name; an option it does not have is an error that lists those it has."""
    kind = METHODS[name]
    return kind(make_options(kind.Options, f"Method '{name}'", options))
