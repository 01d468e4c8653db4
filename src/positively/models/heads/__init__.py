"""Heads: feature map → logits. A new head is one file here and one line in the registry."""

from typing import Any

from positively.errors import ConfigError, and_more
from positively.models.heads.base import Head, Pooling, Start
from positively.models.heads.linear import LinearHead
from positively.models.heads.semantic_graph import SemanticGraphHead, read_word_vectors

HEADS: dict[str, type[Head]] = {"linear": LinearHead, "semantic-graph": SemanticGraphHead}


def create_head(name: str, channels: int, classes: int, **options: Any) -> Head:
    """Build the head of this name for B×``channels``×H×W maps; ``options`` are the head's own.

    >>> create_head("linear", channels=8, classes=3, pooling="mix").pooling
    'mix'
    """
    if name not in HEADS:
        raise ConfigError(f"There is no head {name!r}; there are {and_more(list(HEADS))}.")
    if classes < 1:
        raise ConfigError(f"A classifier needs at least one class, not {classes}.")
    return HEADS[name](channels, classes, **options)


__all__ = [
    "HEADS",
    "Head",
    "LinearHead",
    "Pooling",
    "SemanticGraphHead",
    "Start",
    "create_head",
    "read_word_vectors",
]
