"""DualCoOp (Sun et al., NeurIPS 2022): CLIP is frozen, and a positive and a negative prompt per class are trained.

The head (`positively.models.heads.dual_coop`) compares positions of the image with both prompts. The loss is the
asymmetric loss over the known labels with γ₋ = 2, γ₊ = 1 and margin 0.05. With the difference Δ of the two sums of a
class and p = σ(Δ), which equals the authors' softmax over the pair:

    positive: (1 − p) · −log p        negative: p_m² · −log(1 − p_m),  p_m = max(p − 0.05, 0)

The authors sum it over the batch with a weight that is published for one known ratio only (0.03 at 50 %). Here it is
divided by the number of known labels; Adam does not depend on such a factor. Cutout and RandAugment are omitted,
because embeddings of the frozen tower are stored.
"""

from __future__ import annotations

from dataclasses import dataclass

from positively.finetune import LossMethod
from positively.losses import asl
from positively.options import NonNegative, options_of


@dataclass(frozen=True)
class DualCoOpOptions:
    """Options with other defaults than ASL."""

    gamma_negative: NonNegative = 2.0
    """γ₋, how strongly easy negatives are down-weighted."""


class DualCoOp(LossMethod):
    """DualCoOp: asymmetric loss on CLIP's similarity of image positions to two learned prompts per class."""

    loss_name = "asl"
    Options = options_of(asl, DualCoOpOptions)
    head = "dual-coop"
    depths = ("probe",)  # both towers are frozen, so projected positions can be stored
