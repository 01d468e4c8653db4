"""What a table might know of its labels: complete states N×C and a seed in, states with labels hidden out.

Every mask is a pure function, and nested where it has a share: with one seed, what is known at a smaller share is known
at a larger one. A mask about positives leaves every negative unknown. Labels that are unknown in the complete states
stay so.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from positively.labels import NEGATIVE, POSITIVE, UNKNOWN, LabelTable, States
from positively.randomness import random_stream

OTHER_TAGS = 0.2
"""How likely a tag is written down that is not the most frequent one of its photo, of one that is."""


def uniform(truth: States, seed: int, ratio: float, spread: float = 0.0) -> States:
    """Known at random, positives and negatives alike, as in the published benchmarks.

    Args:
        truth: N×C complete states.
        seed: Seed of the draws.
        ratio: Share of the labels that is known.
        spread: How far it differs from class to class: σ(logit(ratio) + spread · z), z standard normal.
    """
    return _table(truth).with_known_ratio(ratio, seed, spread).states()


def single_positive(truth: States, seed: int) -> States:
    """One positive of each photo, drawn at random; nothing else is known."""
    return _table(truth).with_single_positive(seed).states()


def flipped(truth: States, seed: int, share: float, ratio: float) -> States:
    """A share of the positives is called negative; then labels are hidden uniformly."""
    return _table(truth).with_flipped_positives(share, seed).with_known_ratio(ratio, seed).states()


def crowded(truth: States, seed: int, ratio: float) -> States:
    """The more tags a photo carries, the less likely each is written down: P(known) = min(1, a / tags of the photo).

    So every photo has about a tags on record, however many it carries; a is such that the share of the tags that is
    known is ``ratio``. Negatives are unknown.
    """
    tags = (truth == POSITIVE).sum(axis=1, keepdims=True)
    return _positives(truth, 1 / np.maximum(tags, 1) * np.ones(truth.shape), ratio, "crowded", seed)


def salient(truth: States, seed: int, ratio: float) -> States:
    """People write down the salient thing: of a photo's tags, the one that is most frequent in the table, above all.

    P(known) = a for that tag and a / 5 for every other tag of the photo; a is such that the share of the tags that is
    known is ``ratio``. Negatives are unknown.
    """
    positive = truth == POSITIVE
    frequency = np.where(positive, positive.sum(axis=0), 0)
    is_first = positive & (np.arange(truth.shape[1]) == frequency.argmax(axis=1)[:, None])
    return _positives(truth, np.where(is_first, 1.0, OTHER_TAGS), ratio, "salient", seed)


def sure(truth: States, seed: int, ratio: float, sureness: npt.NDArray[np.floating]) -> States:
    """What is easy to see is written down: P(known) = min(1, a u²), u the rank of a tag among the tags of its class.

    A stand-in for the bias towards large things, which features without boxes cannot measure: tags that a model gives
    high scores are large, central and typical. u runs from 0 (least sure) to 1, so that every class has the same share
    of known tags, ``ratio`` of them. Negatives are unknown.

    Args:
        truth: N×C complete states.
        seed: Seed of the draws.
        ratio: Share of the tags that is known.
        sureness: N×C scores by a model that learned complete labels, each photo's by a fit to others.
    """
    weights = np.zeros(truth.shape)
    for column in range(truth.shape[1]):
        rows = np.flatnonzero(truth[:, column] == POSITIVE)
        order = np.argsort(np.argsort(sureness[rows, column], kind="stable"), kind="stable")
        weights[rows, column] = ((order + 0.5) / max(len(rows), 1)) ** 2
    return _positives(truth, weights, ratio, "sure", seed)


def known_positives(states: States) -> States:
    """The same labels without the negatives."""
    return np.where(states == POSITIVE, POSITIVE, UNKNOWN).astype(np.int8)


def _table(truth: States) -> LabelTable:
    images, classes = ([str(number) for number in range(count)] for count in truth.shape)
    return LabelTable.from_states(images, classes, truth, NEGATIVE)


def _positives(truth: States, weights: npt.NDArray[np.floating], ratio: float, purpose: str, seed: int) -> States:
    """Positives known with probability min(1, a · weight), a such that a share ``ratio`` of them is expected."""
    positive = truth == POSITIVE
    chance = np.minimum(_scale(weights[positive], ratio) * weights, 1.0)
    return (positive & (random_stream(purpose, seed).random(truth.shape) < chance)).astype(np.int8)


def _scale(weights: npt.NDArray[np.floating], share: float) -> float:
    """The factor a with mean(min(1, a · weight)) = share, by halving."""
    low, high = 0.0, 1.0
    while np.minimum(high * weights, 1).mean() < share and high < 1e6:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if np.minimum(middle * weights, 1).mean() < share else (low, middle)
    return high
