"""Arrays in, a probe out."""

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
    """Learn every class from its known positives, in closed form: no start, no rate, no epochs, nothing held out.

    Least-squares density-ratio estimation, the squared-loss sibling of the paper's variational loss: with U ⊇ P it is
    ridge regression of the indicator of the known positives over all images, in a Gaussian kernel with ``landmarks``.
    λ is the one whose leave-one-out scores rank the known positives highest. Where few positives are known, a soft step
    follows if it helps: unknown labels then carry the probability that they are missing. Where negatives are known at
    random about as often as positives, the known labels alone are fitted in the end.

    Args:
        features: N×D pooled features as they come from a backbone: an array, or something that gives rows asked for.
            N×(1+P)×D: of each image and of P parts of it; its score is then that of the image plus that of its best
            part.
        states: N×C of +1 positive, 0 unknown, −1 negative: array, tensor or scipy sparse matrix.
        groups: (N,) images of equal value (copies, a series) never vouch for one another.
        sample_weight: (N,) weight of each image in the fit. Ranks and probabilities count every image of weight above 0
            once.
        reviewed: N×C flags of labels that a person gave because of a score: they are not known at random. Numbers
            between 0 and 1 say how much each rejected pair counts.
        kernel: ``"linear"`` fits the standardised features themselves, without landmarks.
        landmarks: How many images the kernel compares with; more than there are means all.
        width: The kernel is exp(−width ‖a−b‖² / mean ‖a−b‖²).
        penalty: λ, if it is not to be chosen.
        criterion: What λ is chosen by.
        step: The last step, if it is not to be chosen.
        linear: Whether to solve for a plain linear classifier beside the kernel's.
        seed: Seed of landmarks and folds.

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
        raise ConfigError(f"A penalty is a number above 0, not {penalty}.")
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
    """What a fit needs before a label is seen, the kernel's and the plain one's; it serves any number of fits.

    The arguments are those of :func:`fit`; ``rows_of_states`` is what the features must number, if that is known.
    """
    features = as_rows(features)
    count = len(features)
    if rows_of_states not in (None, count):
        raise ConfigError(f"There are {count} rows of features and {rows_of_states} of states.")
    if count < 2:
        raise ConfigError(f"The closed form needs at least two images, not {count}.")
    weights = np.ones(count)
    if sample_weight is not None:
        weights = np.asarray(sample_weight, dtype=np.float64)
        if weights.shape != (count,) or not (weights >= 0).all() or not 0 < weights.sum() < np.inf:
            raise ConfigError(f"Sample weights are {count} numbers, none below 0 and not all 0.")
    weights = weights / weights.sum()
    units = None if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1].reshape(-1)
    if units is not None and len(units) != count:
        raise ConfigError(f"There are {count} rows of features and {len(units)} groups.")
    if landmarks < 1 or not width > 0:
        raise ConfigError(f"A kernel has a landmark at least and a width above 0, not {landmarks} and {width}.")
    if units is not None and np.bincount(units, weights).max() > 1 - 1e-9:
        raise ConfigError(
            "All images are copies of one another, or of one group, so that none can be judged by the others."
        )
    order = random_stream("landmarks", seed).permutation(count)
    chosen = np.sort(order[(weights > 0)[order]][:landmarks])
    points = np.asarray(features[chosen], dtype=np.float32)
    if points.ndim not in (2, 3) or (points.ndim == 3 and points.shape[1] < 2):
        raise ConfigError(
            "The closed form takes pooled features N×D, or N×(1+P)×D with those of parts, not rows of shape "
            f"{tuple(points.shape[1:])}."
        )
    points = whole(points)
    if not np.isfinite(points).all():
        row = chosen[np.flatnonzero(~np.isfinite(points).all(axis=1))[0]]
        raise ConfigError(f"The features of row {row} are not finite numbers.")
    images = WholeImages(features)
    plain = Ridge(linear_basis(images, weights), images, weights, units) if linear else None
    if kernel == "linear":
        return Ridge(linear_basis(features, weights), features, weights, units), plain
    chosen_kernel = choose_kernel(points, width)
    rows = EmbeddedRows(chosen_kernel, features)
    return Ridge(kernel_basis(chosen_kernel, rows, weights), features, weights, units, rows), plain
