"""Masks: functions from complete label states (N, C) and a seed to states with hidden labels.

Masks are pure functions and nested in the share: with the same seed, labels known at a smaller share are also known at
a larger one. Masks of positives set all negatives to unknown. Labels that are unknown in the complete states stay
unknown.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from positively.labels import NEGATIVE, POSITIVE, UNKNOWN, LabelTable, States
from positively.randomness import random_stream

OTHER_TAGS = 0.2
"""Relative probability of tags other than the most frequent one of their image."""


def uniform(truth: States, seed: int, ratio: float, spread: float = 0.0) -> States:
    """Hide random labels, positives and negatives alike, as in the published benchmarks.

    Args:
        truth: Complete label states, shape (N, C).
        seed: Random seed.
        ratio: Share of known labels.
        spread: Variation of the share over classes: σ(logit(ratio) + spread · z) with z standard normal.

    Returns:
        Label states, shape (N, C).
    """
    return _table(truth).with_known_ratio(ratio, seed, spread).states()


def single_positive(truth: States, seed: int) -> States:
    """Keep one random positive per image; nothing else is known."""
    return _table(truth).with_single_positive(seed).states()


def flipped(truth: States, seed: int, share: float, ratio: float) -> States:
    """Label a share of the positives as negative, then hide labels uniformly."""
    return _table(truth).with_flipped_positives(share, seed).with_known_ratio(ratio, seed).states()


def crowded(truth: States, seed: int, ratio: float) -> States:
    """Keep fewer tags of images with many tags: P(known) = min(1, a / number of tags).

    Every image has about a known tags, whatever their true number; a is such that the share of known tags is ``ratio``.
    Negatives are unknown.
    """
    tags = (truth == POSITIVE).sum(axis=1, keepdims=True)
    return _positives(truth, 1 / np.maximum(tags, 1) * np.ones(truth.shape), ratio, "crowded", seed)


def salient(truth: States, seed: int, ratio: float) -> States:
    """Prefer the most frequent tag of each image, as people tag the salient object.

    P(known) = a for the tag of the image that is most frequent in the table, and a / 5 for its other tags; a is such
    that the share of known tags is ``ratio``. Negatives are unknown.
    """
    positive = truth == POSITIVE
    frequency = np.where(positive, positive.sum(axis=0), 0)
    is_first = positive & (np.arange(truth.shape[1]) == frequency.argmax(axis=1)[:, None])
    return _positives(truth, np.where(is_first, 1.0, OTHER_TAGS), ratio, "salient", seed)


def sure(truth: States, seed: int, ratio: float, sureness: npt.NDArray[np.floating]) -> States:
    """Prefer tags that are easy to see: P(known) = min(1, a u²), where u is the rank of a tag within its class.

    This stands in for the bias towards large objects, which cannot be measured without boxes: objects with high scores
    are large, central and typical. u runs from 0 (least sure) to 1, so that every class has the same share of known
    tags. Negatives are unknown.

    Args:
        truth: Complete label states, shape (N, C).
        seed: Random seed.
        ratio: Share of known tags.
        sureness: Out-of-sample scores of a model trained on complete labels, shape (N, C).

    Returns:
        Label states, shape (N, C).
    """
    weights = np.zeros(truth.shape)
    for column in range(truth.shape[1]):
        rows = np.flatnonzero(truth[:, column] == POSITIVE)
        order = np.argsort(np.argsort(sureness[rows, column], kind="stable"), kind="stable")
        weights[rows, column] = ((order + 0.5) / max(len(rows), 1)) ** 2
    return _positives(truth, weights, ratio, "sure", seed)


def known_positives(states: States) -> States:
    """Label states without negatives."""
    return np.where(states == POSITIVE, POSITIVE, UNKNOWN).astype(np.int8)


def _table(truth: States) -> LabelTable:
    images, classes = ([str(number) for number in range(count)] for count in truth.shape)
    return LabelTable.from_states(images, classes, truth, NEGATIVE)


def _positives(truth: States, weights: npt.NDArray[np.floating], ratio: float, purpose: str, seed: int) -> States:
    """Keep positives with probability min(1, a · weight), with an expected share of ``ratio``."""
    positive = truth == POSITIVE
    chance = np.minimum(_scale(weights[positive], ratio) * weights, 1.0)
    return (positive & (random_stream(purpose, seed).random(truth.shape) < chance)).astype(np.int8)


def _scale(weights: npt.NDArray[np.floating], share: float) -> float:
    """Factor a with mean(min(1, a · weight)) = share, by bisection."""
    low, high = 0.0, 1.0
    while np.minimum(high * weights, 1).mean() < share and high < 1e6:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if np.minimum(middle * weights, 1).mean() < share else (low, middle)
    return high
