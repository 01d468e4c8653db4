"""What every head offers: a start, and the part of the feature map it needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

from torch import Tensor, nn

from positively.labels import LabelTable

Pooling = Literal["average", "max", "mix"]
Start = Literal["usual", "prior"]


class Head(nn.Module, ABC):
    """Feature map B×C×H×W → logits B×classes; what :meth:`pool` gives is taken in place of a map."""

    @property
    @abstractmethod
    def keeps(self) -> str:
        """Short name of what :meth:`pool` does: kept features are told apart by it."""

    @abstractmethod
    def pool(self, feature_map: Tensor) -> Tensor:
        """What the head needs of a map, before anything in it learns: this is kept on disk where the backbone rests."""

    @abstractmethod
    def start(self, kind: Start, frequencies: Tensor | None = None) -> None:
        """Set the weights to where training begins: at random ("usual") or at the class frequencies ("prior")."""

    def prepare(self, table: LabelTable) -> None:
        """Look at the training table once, before the first step (a label graph is made of it)."""
