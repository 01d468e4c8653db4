"""What a method is: options, what it does before training, in a step and after an epoch, and the state it keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from positively.distributed import gather_rows
from positively.labels import LabelTable
from positively.models import Depth, Start
from positively.randomness import random_stream


@dataclass(frozen=True)
class NoOptions:
    """A method without options."""


class StepContext:
    """Where a step stands: its random numbers are a function of seed, epoch and step, the same on every process.

    ``rows`` are those of the training table, one for each image of this process's part of the batch.
    """

    def __init__(self, seed: int, epoch: int, step: int, rows: Tensor) -> None:
        self.seed, self.epoch, self.step, self.rows = seed, epoch, step, rows

    def generator(self, stream: str) -> np.random.Generator:
        """Numpy generator of this step for one purpose, its name: two purposes never share a draw."""
        return random_stream(stream, self.seed, self.epoch, self.step)

    def gather(self, values: Tensor) -> Tensor:
        """Values of the whole batch, one row an image, without gradient: this process's alone if there is no other.

        State that is updated from gathered values is the same on every process, and that of a single one.
        """
        return gather_rows(values)


class TrainingContext(Protocol):
    """What a method sees of the training around it."""

    table: LabelTable
    """Labels of the training images: row i is the image that steps call row i."""
    trainable: Any
    """The network: ``trainable(inputs)`` gives logits, ``forward_features`` and ``forward_head`` its two halves."""
    seed: int
    epoch: int
    """Epochs that have ended; in `Method.on_epoch_end`, those before the one that just did."""

    @property
    def epochs(self) -> int:
        """Epochs of the schedule; a refit may stop before its end."""

    @property
    def inputs(self) -> Any:
        """Stored features of the training images (probe, tail), one row each; None where images are read."""

    @property
    def device(self) -> torch.device:
        """Where the network is."""

    def embed(self) -> npt.NDArray[np.float32]:
        """Pooled features N×D of all training images by the weights as they are, on every process."""

    def score(self) -> npt.NDArray[np.float32]:
        """Logits of all training images by the weights as they are (averaged, if they are), on every process."""


class Method(nn.Module):
    """Base of every method.

    It is a module: its parameters are trained with the network's, its buffers (queues, prototypes, labels it keeps for
    each image) are in the checkpoint, so that a resumed run is the unbroken one.
    """

    Options: ClassVar[type] = NoOptions
    """A frozen dataclass: annotations say what is allowed (`positively.options`), docstrings are the help."""
    depths: ClassVar[tuple[Depth, ...]] = ("probe", "tail", "finetune")
    """Depths at which the method works."""
    head: ClassVar[str | None] = None
    """Name of the head the method needs; None takes the one that is asked for."""
    start: ClassVar[Start | None] = None
    """Start its head needs; None takes what suits the depth."""

    def __init__(self, options: Any = None) -> None:
        super().__init__()
        self.options = type(self).Options() if options is None else options

    @property
    def uses_negatives(self) -> bool:
        """Whether known negatives teach this method anything."""
        return False

    @property
    def needs_negatives(self) -> bool:
        """Whether it learns nothing without known negatives."""
        return False

    @classmethod
    def defaults(cls, depth: Depth, given: Mapping[str, Any]) -> dict[str, Any]:
        """Options that suit a depth better than those of the dataclass; what is ``given`` wins over them."""
        return {}

    @classmethod
    def learning(cls, depth: Depth) -> Mapping[str, Any]:
        """Epochs, learning rate and patience that suit a method better than those of the depth; what is given wins."""
        return {}

    @classmethod
    def benchmark_options(cls, label_frequency: float, published: Mapping[str, Any]) -> dict[str, Any]:
        """Options that a benchmark can give because it knows what it hid; by default, the share of the positives left.

        Args:
            label_frequency: Share of the positives that are known.
            published: Options of the paper's recipe at this ratio.
        """
        has_it = any(entry.name == "label_frequency" for entry in fields(cls.Options))
        return {"label_frequency": label_frequency} if has_it else {}

    def setup(self, training: TrainingContext) -> None:
        """Look at the table and the network, and make parameters and buffers, once, before the first step."""

    def training_step(self, network: Any, inputs: Tensor, states: Tensor, step: StepContext) -> dict[str, Tensor]:
        """Parts of the loss of one step, by name; their sum is minimised.

        Args:
            network: Inputs to logits, or in two halves: ``forward_head(forward_features(inputs))``.
            inputs: Images B×3×H×W as bytes, or stored features.
            states: Label states B×C.
            step: Rows of the table, random numbers, and what the other processes have.
        """
        raise NotImplementedError

    def on_epoch_end(self, training: TrainingContext) -> None:
        """Act after an epoch, on every process alike; ``training.score()`` gives the logits of the training set."""

    def validation_metrics(self, logits: Tensor) -> dict[str, float]:
        """What is worth writing down after an epoch, read off the logits of the images held out."""
        return {"spread": logits.std(dim=0, correction=0).mean().item()}
