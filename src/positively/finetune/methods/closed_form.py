"""The closed form as a method: what ``auto`` is where the backbone is frozen."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from positively.calibration import CalibratedScores, OutOfSample, pooled_log_rank
from positively.distributed import on_first_process
from positively.finetune.methods.base import Method, TrainingContext
from positively.models.heads import KernelHead, LinearHead
from positively.models.heads.fitted import fill_kernel, fill_linear
from positively.probe import KernelClassifier, LinearClassifier, Probe, ProbeOptions, fit_table
from positively.probe.tables import calibrated_heads, first_out_of_sample


class ClosedForm(Method):
    """Least-squares density ratio of every class in closed form (:func:`positively.probe.fit`), then probabilities."""

    Options = ProbeOptions
    depths = ("probe",)
    head = "kernel"
    is_solver = True
    holds_out = False
    probe: Probe | None = None

    @property
    def uses_negatives(self) -> bool:
        """They are fitted where they are known about as often as positives, and show how many labels are known."""
        return bool(self.options.negatives)

    def solve(self, training: TrainingContext) -> dict[str, float]:
        """Solve for the head, and for the plain linear one beside it."""
        head: KernelHead = training.trainable.head
        self.probe = fit_table(
            training.table,
            training.inputs,
            self.options,
            seed=training.seed,
            landmarks=len(head.landmarks),
            linear=True,
        )
        assert self.probe.linear is not None
        fill_head(head, self.probe)
        calibration = self.probe.calibration
        ranks = {"log_rank": self.probe.kernel.summary, "log_rank_linear": self.probe.linear.summary}
        found = {name: pooled_log_rank(summary) for name, summary in ranks.items()}
        return {
            **{name: value for name, value in found.items() if math.isfinite(value)},
            "soft": self.probe.step.strength,
            "filled": float(self.probe.step.fills),
            "label_frequency": calibration.common_label_frequency,
            "classes_learned": float(calibration.learned.sum()),
        }

    def calibrated(self) -> dict[str, CalibratedScores]:
        """What the scores of both heads mean, by labels they did not see."""
        return {} if self.probe is None else calibrated_heads(self.probe)

    def out_of_sample(self) -> OutOfSample | None:
        """Leave-one-out scores of the first step, which order what is missing best; of too large a table, none."""
        return None if self.probe is None else first_out_of_sample(self.probe)


@dataclass(frozen=True)
class Teacher:
    """What the probe on the network as it is knows of the training images."""

    targets: npt.NDArray[np.float32]
    """N×C: 1 known, 0 known to be absent, else the probability that the tag is missing."""
    linear: LinearClassifier | None
    """Where the head is a plain linear one."""


def find_teacher(training: TrainingContext, negatives: bool) -> Teacher:
    """Fit the probe on the network as it is, on the first process, and tell all of them what it found.

    Args:
        training: The training that begins.
        negatives: Whether known negatives are learned from.
    """
    features, plain = training.embed(), is_plain(training.trainable.head)

    def solve() -> Teacher:
        options = ProbeOptions(negatives=negatives)
        probe = fit_table(training.table, features, options, seed=training.seed, linear=plain)
        table = training.table if negatives else training.table.positives_only()
        targets = probe.calibration.soft_targets(probe.loo_scores, table.states()).astype(np.float32)
        return Teacher(targets, LinearClassifier.of(probe) if plain else None)

    teacher: Teacher = on_first_process(solve)
    return teacher


def start_solved(training: TrainingContext, negatives: bool) -> None:
    """Set a plain linear head to what the probe finds on the network as it is; the arguments are those of above."""
    solved = find_teacher(training, negatives).linear
    if solved is not None:
        fill_linear(training.trainable.head.linear, solved)


def is_plain(head: nn.Module) -> bool:
    """Whether a head is a linear layer over pooled features as they are: the closed form can set it."""
    return isinstance(head, LinearHead) and not head.normalize


@torch.no_grad()
def fill_head(head: KernelHead, probe: Probe) -> None:
    """Give a head all that was solved for: the kernel classifier, and the linear one beside it."""
    fill_kernel(head, KernelClassifier.of(probe))
    if probe.linear is not None:
        fill_linear(head.linear, LinearClassifier.of(probe))
