"""Heads: feature map → logits. A new head is one file here and one line in the registry."""

from collections.abc import Callable
from typing import Any, cast

from positively.errors import ConfigError
from positively.models.heads.base import Head, Pooling, Start
from positively.models.heads.cadm import DisentangledHead
from positively.models.heads.cop import CoProjectionHead
from positively.models.heads.dual_coop import DualCoOpHead
from positively.models.heads.kernel import KernelHead, gaussian_kernel
from positively.models.heads.label_graph import check_word_vectors, read_word_vectors
from positively.models.heads.linear import LinearHead, pool_positions, pool_windows
from positively.models.heads.ml_gcn import MLGCNHead
from positively.models.heads.normalization import root_normalize, unit_length
from positively.models.heads.semantic_graph import SemanticGraphHead
from positively.options import check_options, kinds_of, options_of
from positively.registry import HEADS


def register_head(name: str) -> Callable[[type[Head]], type[Head]]:
    """Decorator for a head of one's own, a `Head` made with (channels, classes, *, options)."""
    return HEADS.register(name)


def head_options(name: str) -> type:
    """The options of a head, as a dataclass."""
    return options_of(HEADS[name].__init__)


def create_head(name: str, channels: int, classes: int, **options: Any) -> Head:
    """Build the head of this name for B×``channels``×H×W maps; ``options`` are the head's own.

    >>> create_head("linear", channels=8, classes=3, pooling="mix").pooling
    'mix'
    """
    check_options(f"Head '{name}'", options, kinds_of(head_options(name)))
    if classes < 1:
        raise ConfigError(f"A classifier needs at least one class, not {classes}.")
    head = cast(Callable[..., Head], HEADS[name])(channels, classes, **options)
    head.saved_options = {**options, **head.saved_options}
    return head


__all__ = [
    "HEADS",
    "CoProjectionHead",
    "DisentangledHead",
    "DualCoOpHead",
    "Head",
    "KernelHead",
    "LinearHead",
    "MLGCNHead",
    "Pooling",
    "SemanticGraphHead",
    "Start",
    "check_word_vectors",
    "create_head",
    "gaussian_kernel",
    "head_options",
    "pool_positions",
    "pool_windows",
    "read_word_vectors",
    "register_head",
    "root_normalize",
    "unit_length",
]
