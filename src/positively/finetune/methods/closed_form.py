"""The closed form as a method: what ``auto`` is where the backbone is frozen."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from positively.calibration import CalibratedScores, Calibration, OutOfSample, pooled_log_rank
from positively.distributed import broadcast
from positively.embedding.rows import FeatureRows
from positively.finetune.methods.base import Method, TrainingContext
from positively.labels import UNKNOWN, LabelTable
from positively.models.heads import KernelHead, LinearHead
from positively.options import Positive, Range
from positively.probe import LANDMARKS, ONE_STEP, WIDTH, Probe, Step, find_series, fit
from positively.probe.basis import Kernel, WholeImages
from positively.probe.probe import MOST_SCORES


@dataclass(frozen=True)
class ClosedFormOptions:
    """What can be fixed in place of being found."""

    width: Positive = WIDTH
    """The kernel is exp(−width · squared distance / mean squared distance)."""
    negatives: bool = True
    """Use known negatives, where there are any; positives alone do without."""
    soft: Annotated[float, Range(minimum=0, maximum=1)] | None = None
    """Share of their probability that unknown labels carry in the second step; 0 is one step, none is chosen."""


class ClosedForm(Method):
    """Least-squares density ratio of every class in closed form (:func:`positively.probe.fit`), then probabilities."""

    Options = ClosedFormOptions
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
        self.probe = solve_table(
            training.table,
            training.inputs,
            self.options,
            seed=training.seed,
            device=training.device,
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


def solve_table(
    table: LabelTable,
    features: FeatureRows,
    options: ClosedFormOptions,
    *,
    seed: int,
    device: torch.device,
    landmarks: int = LANDMARKS,
    linear: bool = False,
) -> Probe:
    """Solve for the labels of a table with content hashes; copies and series do not vouch for one another.

    Args:
        table: Photos and what is known of them.
        features: N×D pooled features, or N×(1+P)×D with those of parts.
        options: What is not to be found.
        seed: Seed of landmarks and label folds.
        device: Where to compute, if it has double precision.
        landmarks: Photos the kernel compares with.
        linear: Solve for a plain linear head as well.
    """
    soft = options.soft
    table = table if options.negatives else table.positives_only()
    return fit(
        features,
        label_states(table),
        groups=broadcast(find_series(WholeImages(features), copies(table), seed)),
        landmarks=landmarks,
        width=options.width,
        step=None if soft is None else (Step(soft) if soft else ONE_STEP),
        linear=linear,
        seed=seed,
        device=double_device(device),
    )


def start_solved(training: TrainingContext, negatives: bool) -> Probe:
    """Solve the closed form on the network as it is, and set its head, if it is a plain linear one, to what was found.

    Args:
        training: The training that begins.
        negatives: Whether known negatives are learned from.
    """
    head, options = training.trainable.head, ClosedFormOptions(negatives=negatives)
    plain = is_plain(head)
    probe = solve_table(
        training.table, training.embed(), options, seed=training.seed, device=training.device, linear=plain
    )
    if plain:
        assert probe.linear is not None
        fill_linear(head.linear, *probe.linear.weights(probe.step.factor), probe.linear.calibration)
    return probe


def is_plain(head: nn.Module) -> bool:
    """Whether a head is a linear layer over pooled features as they are: the closed form can set it."""
    return isinstance(head, LinearHead) and not head.normalize


def calibrated_heads(probe: Probe) -> dict[str, CalibratedScores]:
    """What the scores of the kernel's head and of the plain one mean."""
    parts = {"kernel": probe.kernel} | ({} if probe.linear is None else {"linear": probe.linear})
    return {name: CalibratedScores(part.calibration, part.summary) for name, part in parts.items()}


def first_out_of_sample(probe: Probe) -> OutOfSample | None:
    """Leave-one-out scores of the first step; of too large a table, none."""
    if np.prod(probe.labels.shape) > MOST_SCORES:
        return None
    scores = probe.first_scores(np.arange(probe.labels.shape[1]))
    return OutOfSample(scores, CalibratedScores(probe.first, probe.first_summary))


def fill_head(head: KernelHead, probe: Probe) -> None:
    """Give a head all that was solved for: the kernel's weights, and the plain ones beside them."""
    fill_kernel(head, probe)
    if probe.linear is not None:
        fill_linear(head.linear, *probe.linear.weights(probe.step.factor), probe.linear.calibration)


@torch.no_grad()
def fill_kernel(head: KernelHead, probe: Probe) -> None:
    """Give a head what was solved for: its outputs are logits of P(tag | image)."""
    kernel, calibration = probe.kernel.ridge.basis.embed, probe.kernel.calibration
    assert isinstance(kernel, Kernel)
    head.landmarks.copy_(kernel.landmarks)
    head.precision.fill_(kernel.precision)
    weight, bias = probe.kernel.weights(probe.step.factor)
    parts = (calibration.center, calibration.width, calibration.slope, calibration.offset)
    center, width, slope, offset = (torch.from_numpy(part).to(weight) for part in parts)
    head.kernel_linear.weight.copy_((weight / width).T.float())
    # With parts, the score is a sum of two: of the whole image and of its best part.
    head.kernel_linear.bias.copy_(((bias - center / (2 if head.window else 1)) / width).float())
    head.gain.copy_((slope * width).float())
    head.offset.copy_(offset.float())


@torch.no_grad()
def fill_linear(layer: nn.Linear, weight: Tensor, bias: Tensor, calibration: Calibration) -> None:
    """Give a layer weights M×C and biases of scores, with their meaning folded in."""
    slope, offset = (torch.from_numpy(part).to(weight) for part in (calibration.slope, calibration.offset))
    layer.weight.copy_((weight * slope).T.float())
    layer.bias.copy_((bias * slope + offset).float())


def double_device(device: torch.device) -> torch.device:
    """Where double precision is to be had: Apple's GPUs have none."""
    return device if device.type == "cuda" else torch.device("cpu")


def label_states(table: LabelTable) -> Any:
    """States of a table: sparse, as the table holds them, where most are unknown."""
    return table.offsets if table.blank == UNKNOWN else table.states()


def copies(table: LabelTable) -> npt.NDArray[np.int64] | None:
    """Group of each image, by content, if any is there twice: copies must not vouch for one another."""
    contents = table.contents()
    return contents if contents.max(initial=0) < len(contents) - 1 else None
