"""DualCoOp (Sun et al., NeurIPS 2022): CLIP stays as it is, and a positive and a negative prompt a class learn.

The head (`positively.models.heads.dual_coop`) compares positions of the picture with both prompts; the loss is the
asymmetric one over the known labels, with γ₋ = 2, γ₊ = 1 and margin 0.05. With Δ the difference of a class's two sums
and p = σ(Δ), which is the authors' softmax over the pair:

    positive: (1 − p) · −log p        negative: p_m² · −log(1 − p_m),  p_m = max(p − 0.05, 0)

The authors sum it over the batch, times a weight they published for one ratio of known labels alone (0.03 at 50 %);
here it is divided by the number of known labels, and Adam's steps do not depend on such a factor. Their cutout and
RandAugment are left out: features of the frozen tower are stored.
"""

from __future__ import annotations

from dataclasses import dataclass

from positively.finetune import LossMethod
from positively.losses import asl
from positively.options import NonNegative, options_of


@dataclass(frozen=True)
class DualCoOpOptions:
    """Where DualCoOp differs from ASL's own choice."""

    gamma_negative: NonNegative = 2.0
    """γ₋, how far the loss turns away from negatives that are easy."""


class DualCoOp(LossMethod):
    """Asymmetric loss on CLIP's closeness to two prompts a class."""

    loss_name = "asl"
    Options = options_of(asl, DualCoOpOptions)
    head = "dual-coop"
    depths = ("probe",)  # both towers are frozen, so that projected positions of a picture are stored
