"""Heads: modules from feature maps to logits. To add one, write one file and one line in the registry."""

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
    """Decorator that registers a `Head` class with the signature (channels, classes, *, options).

    Args:
        name: Name of the head.

    Returns:
        The decorator.
    """
    return HEADS.register(name)


def head_options(name: str) -> type:
    """Options of a head, as a dataclass."""
    return options_of(HEADS[name].__init__)


def create_head(name: str, channels: int, classes: int, **options: Any) -> Head:
    """Create a head.

    Args:
        name: Name of the head.
        channels: Number of channels of the feature map.
        classes: Number of classes.
        **options: Options of the head.

    Returns:
        The head.

    Raises:
        ConfigError: If the head or an option is unknown, or a value is out of range.

    Example:
        >>> from positively.models.heads import create_head
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
