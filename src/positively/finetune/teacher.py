"""The probe as a teacher: it initialises the head and provides soft targets."""

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
    """What the probe on the original network knows about the training images."""

    targets: npt.NDArray[np.float32]
    """Soft targets, shape (N, C): 1 known positive, 0 known negative, else the probability of a missing tag."""
    linear: LinearClassifier | None
    """Linear classifier, if the head is a plain linear layer."""


def find_teacher(training: TrainingContext, negatives: bool) -> Teacher:
    """Fit the probe on the original network, on the first process, and broadcast the result.

    Args:
        training: The training before its first step.
        negatives: Whether to learn from known negatives.

    Returns:
        Soft targets and linear classifier.
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
    """Initialise a plain linear head with the solution of the probe on the original network."""
    solved = find_teacher(training, negatives).linear
    if solved is not None:
        fill_linear(training.trainable.head.linear, solved)


def is_plain(head: nn.Module) -> bool:
    """Whether the head is a linear layer over pooled embeddings without normalisation, which the probe can set."""
    return isinstance(head, LinearHead) and not head.normalize
