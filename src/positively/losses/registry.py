"""Every loss by its name. A new loss is one file and one line here; the contract tests pick it up."""

from positively.losses.base import LossModule
from positively.losses.bce import BCE, AssumeNegative
from positively.losses.risk import NNPU, UPU
from positively.losses.variational import PUMLC, VPU

LOSSES: dict[str, type[LossModule]] = {
    "pu-mlc": PUMLC,
    "vpu": VPU,
    "upu": UPU,
    "nnpu": NNPU,
    "bce": BCE,
    "assume-negative": AssumeNegative,
}
