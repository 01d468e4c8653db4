"""Fit a probe to arrays."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from positively.embedding.rows import FeatureRows
from positively.errors import ConfigError
from positively.probe.basis import EmbeddedRows, choose_kernel, kernel_basis, linear_basis
from positively.probe.choice import Criterion
from positively.probe.labels import ProbeLabels
from positively.probe.linalg import WholeImages, as_rows, whole
from positively.probe.probe import Probe
from positively.probe.ridge import Ridge
from positively.probe.soft import SelfTraining
from positively.randomness import random_stream

KernelName = Literal["gaussian", "linear"]

LANDMARKS = 2000
WIDTH = 0.6


def fit(
    features: FeatureRows,
    states: Any,
    *,
    groups: npt.ArrayLike | None = None,
    sample_weight: npt.ArrayLike | None = None,
    reviewed: npt.ArrayLike | None = None,
    kernel: KernelName = "gaussian",
    landmarks: int = LANDMARKS,
    width: float = WIDTH,
    penalty: float | None = None,
    criterion: Criterion = "pu_average_precision",
    step: SelfTraining | None = None,
    linear: bool = False,
    seed: int = 0,
) -> Probe:
    """Fit a classifier for every class to embeddings and label states, in closed form.

    There is no learning rate, no epochs and no held-out data. The fit is least-squares density-ratio estimation, the
    squared-loss counterpart of the paper's variational loss: a ridge regression of the indicator of the known
    positives on all images, with a Gaussian kernel. The penalty λ is chosen so that leave-one-out scores rank the known
    positives highest. If few positives are known, a second, soft step follows if it helps; its targets are the
    probabilities that unknown labels are positive. If negatives are known at random about as often as positives, the
    last step fits the known labels only.

    Args:
        features: N×D embeddings: an array, or an object that returns rows by index. With N×(1+P)×D, each image comes
            with P of its parts, and its score is the score of the image plus the score of its best part.
        states: N×C label states: +1 positive, 0 unknown, −1 negative. Array, tensor or scipy sparse matrix.
        groups: (N,) images with equal values (copies, series) are left out together in leave-one-out scores.
        sample_weight: (N,) weight of each image in the fit. In ranks and probabilities, every image with a weight
            above 0 counts once.
        reviewed: N×C flags of labels that were decided because of a score, which are therefore not known at random.
            Numbers between 0 and 1 are weights of rejected pairs.
        kernel: ``"gaussian"``, or ``"linear"`` for a linear model of the standardized embeddings, without landmarks.
        landmarks: Number of images that the kernel compares each image with; at most all of them.
        width: The kernel is exp(−width ‖a−b‖² / mean ‖a−b‖²).
        penalty: λ; None to choose it.
        criterion: Criterion that chooses λ.
        step: The last step; None to choose it.
        linear: Whether to fit a plain linear classifier too.
        seed: Seed of landmarks and folds.

    Returns:
        The fitted probe.

    Raises:
        ConfigError: if shapes do not fit, an embedding is not finite or an option is out of range.
        LabelError: if the states are not N×C numbers of +1, 0 and −1.

    >>> generator = np.random.default_rng(0)
    >>> truth = generator.random((400, 3)) < 0.3
    >>> features = generator.random((400, 16)) + truth @ generator.random((3, 16)) * 3
    >>> known = truth & (generator.random(truth.shape) < 0.5)
    >>> probe = fit(features, known.astype(np.int8))
    >>> probe.probabilities(features)[~known & truth].mean() > 2 * probe.probabilities(features)[~truth].mean()
    np.True_
    """
    labels = ProbeLabels(states, reviewed)
    if penalty is not None and not 0 < penalty < np.inf:
        raise ConfigError(f"penalty must be a number above 0, not {penalty}.")
    main, plain = decompose(
        features,
        labels.shape[0],
        groups=groups,
        sample_weight=sample_weight,
        kernel=kernel,
        landmarks=landmarks,
        width=width,
        linear=linear,
        seed=seed,
    )
    return Probe(labels, main, plain, step=step, penalty=penalty, criterion=criterion, seed=seed)


def decompose(
    features: FeatureRows,
    rows_of_states: int | None = None,
    *,
    groups: npt.ArrayLike | None = None,
    sample_weight: npt.ArrayLike | None = None,
    kernel: KernelName = "gaussian",
    landmarks: int = LANDMARKS,
    width: float = WIDTH,
    linear: bool = False,
    seed: int = 0,
) -> tuple[Ridge, Ridge | None]:
    """Everything of a fit that does not depend on labels, for the kernel and the linear classifier.

    The arguments are those of :func:`fit`; ``rows_of_states`` is the expected number of rows, if known.
    """
    features = as_rows(features)
    count = len(features)
    if rows_of_states not in (None, count):
        raise ConfigError(f"There are {count} rows of embeddings and {rows_of_states} rows of states.")
    if count < 2:
        raise ConfigError(f"A probe needs at least two images, not {count}.")
    weights = np.ones(count)
    if sample_weight is not None:
        weights = np.asarray(sample_weight, dtype=np.float64)
        if weights.shape != (count,) or not (weights >= 0).all() or not 0 < weights.sum() < np.inf:
            raise ConfigError(f"Sample weights must be {count} numbers of at least 0, with a sum above 0.")
    weights = weights / weights.sum()
    units = None if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1].reshape(-1)
    if units is not None and len(units) != count:
        raise ConfigError(f"There are {count} rows of embeddings and {len(units)} groups.")
    if landmarks < 1 or not width > 0:
        raise ConfigError(f"A kernel needs at least one landmark and a width above 0, not {landmarks} and {width}.")
    if units is not None and np.bincount(units, weights).max() > 1 - 1e-9:
        raise ConfigError(
            "All images are copies of each other or belong to one group, so leave-one-out scores are impossible."
        )
    order = random_stream("landmarks", seed).permutation(count)
    chosen = np.sort(order[(weights > 0)[order]][:landmarks])
    points = np.asarray(features[chosen], dtype=np.float32)
    if points.ndim not in (2, 3) or (points.ndim == 3 and points.shape[1] < 2):
        raise ConfigError(
            "A probe takes embeddings of shape N×D, or N×(1+P)×D with parts of images, not rows of shape "
            f"{tuple(points.shape[1:])}."
        )
    points = whole(points)
    if not np.isfinite(points).all():
        row = chosen[np.flatnonzero(~np.isfinite(points).all(axis=1))[0]]
        raise ConfigError(f"The embedding of row {row} is not finite (NaN or infinity).")
    images = WholeImages(features)
    plain = Ridge(linear_basis(images, weights), images, weights, units) if linear else None
    if kernel == "linear":
        return Ridge(linear_basis(features, weights), features, weights, units), plain
    chosen_kernel = choose_kernel(points, width)
    rows = EmbeddedRows(chosen_kernel, features)
    return Ridge(kernel_basis(chosen_kernel, rows, weights), features, weights, units, rows), plain
