"""Base class of methods: options, training steps, epoch hooks, and the state that is saved in checkpoints."""

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
    """Options of a method that has none."""


class StepContext:
    """Position of a step in the training, with random numbers and gathering over processes.

    Random numbers are a function of seed, epoch and step, the same on every process.

    Args:
        seed: Random seed of the training.
        epoch: Current epoch, from 0.
        step: Current step of the epoch, from 0.
        rows: Row of the training table for each image of this process's part of the batch, shape (B,).
    """

    def __init__(self, seed: int, epoch: int, step: int, rows: Tensor) -> None:
        self.seed, self.epoch, self.step, self.rows = seed, epoch, step, rows

    def generator(self, stream: str) -> np.random.Generator:
        """NumPy generator of this step for one named purpose; different purposes have independent streams."""
        return random_stream(stream, self.seed, self.epoch, self.step)

    def gather(self, values: Tensor) -> Tensor:
        """Gather the values of the whole batch from all processes, one row per image, without gradient.

        State updated from gathered values is the same on every process, and the same as with a single process.
        """
        return gather_rows(values)


class TrainingContext(Protocol):
    """What a method can access of the training."""

    table: LabelTable
    """Training table; row i is the image that steps call row i."""
    trainable: Any
    """The network: ``trainable(inputs)`` returns logits; its halves are ``forward_features`` and ``forward_head``."""
    seed: int
    epoch: int
    """Number of finished epochs. In `Method.on_epoch_end` the epoch that just ended is not counted yet."""

    @property
    def epochs(self) -> int:
        """Number of epochs of the schedule; a refit may stop earlier."""

    @property
    def inputs(self) -> Any:
        """Stored embeddings of the training images (depths probe and tail); None if images are read from disk."""

    @property
    def device(self) -> torch.device:
        """Device of the network."""

    def embed(self) -> npt.NDArray[np.float32]:
        """Pooled embeddings of all training images with the current weights, shape (N, D), on every process."""

    def score(self) -> npt.NDArray[np.float32]:
        """Logits of all training images with the current (averaged) weights, shape (N, C), on every process."""


class Method(nn.Module):
    """Base class of all methods.

    A method is a module: its parameters are trained with the network, and its buffers (queues, prototypes, stored
    labels) are saved in checkpoints, so that resumed runs give the same result.

    Args:
        options: Instance of ``Options``; default: the default options.
    """

    Options: ClassVar[type] = NoOptions
    """Frozen dataclass of the options. Annotations define allowed values, docstrings of fields are the help texts."""
    depths: ClassVar[tuple[Depth, ...]] = ("probe", "tail", "finetune")
    """Supported depths."""
    head: ClassVar[str | None] = None
    """Name of the required head; None allows any head."""
    start: ClassVar[Start | None] = None
    """Required initialisation of the head; None uses the default of the depth."""

    def __init__(self, options: Any = None) -> None:
        super().__init__()
        self.options = type(self).Options() if options is None else options

    @property
    def uses_negatives(self) -> bool:
        """Whether the method learns from known negatives."""
        return False

    @property
    def needs_negatives(self) -> bool:
        """Whether the method cannot learn without known negatives."""
        return False

    @classmethod
    def defaults(cls, depth: Depth, given: Mapping[str, Any]) -> dict[str, Any]:
        """Default options at a depth, where they differ from the dataclass. ``given`` options take precedence."""
        return {}

    @classmethod
    def learning(cls, depth: Depth) -> Mapping[str, Any]:
        """Default epochs, learning rate and patience at a depth, where they differ from the general defaults."""
        return {}

    @classmethod
    def benchmark_options(cls, label_frequency: float, published: Mapping[str, Any]) -> dict[str, Any]:
        """Options that a benchmark sets because it knows which labels it hid; by default the label frequency.

        Args:
            label_frequency: Share of the positives that are known.
            published: Options of the paper's recipe at this known ratio.

        Returns:
            Options of the method.
        """
        has_it = any(entry.name == "label_frequency" for entry in fields(cls.Options))
        return {"label_frequency": label_frequency} if has_it else {}

    def setup(self, training: TrainingContext) -> None:
        """Prepare parameters and buffers from the table and the network, once, before the first step."""

    def training_step(self, network: Any, inputs: Tensor, states: Tensor, step: StepContext) -> dict[str, Tensor]:
        """Compute the loss of one step.

        Args:
            network: The network: ``network(inputs)``, or ``network.forward_head(network.forward_features(inputs))``.
            inputs: Images as uint8, shape (B, 3, H, W), or stored embeddings.
            states: Label states, shape (B, C).
            step: Position of the step.

        Returns:
            Parts of the loss by name; their sum is minimised.
        """
        raise NotImplementedError

    def on_epoch_end(self, training: TrainingContext) -> None:
        """Hook after each epoch, called on every process. ``training.score()`` returns the training logits."""

    def validation_metrics(self, logits: Tensor) -> dict[str, float]:
        """Additional metrics for the log, computed from the logits of the held-out images."""
        return {"spread": logits.std(dim=0, correction=0).mean().item()}
