"""What the probe on the network as it begins knows: a head to start with, and targets to learn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from torch import nn

from positively.distributed import on_first_process
from positively.finetune.methods.base import TrainingContext
from positively.models.heads import LinearHead
from positively.models.heads.fitted import fill_linear
from positively.probe import LinearClassifier, ProbeOptions, fit_table


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
