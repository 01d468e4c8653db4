"""A learning problem: images of a dataset, a seed, and decompositions that are independent of labels."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.study.data import Photos
from benchmarks.study.spaces import SPACES, Space
from positively.metrics import mean_average_precision
from positively.probe import LANDMARKS, ONE_STEP, Probe
from positively.probe.labels import ProbeLabels
from positively.randomness import random_stream


class Problem:
    """Images of one size and seed. The seed determines the sample of images, landmarks, folds and masks.

    Args:
        photos: The dataset.
        size: Number of training images; samples with the same seed are nested. None uses all.
        seed: Random seed.
        landmarks: Number of landmarks of the kernel.
        folder: Where simulated reviews are stored; None stores nothing.
    """

    def __init__(
        self,
        photos: Photos,
        size: int | None = None,
        seed: int = 0,
        landmarks: int = LANDMARKS,
        folder: Path | None = None,
    ) -> None:
        self.photos, self.seed, self.landmarks, self.folder = photos, seed, landmarks, folder
        count = len(photos.features)
        order = random_stream("study photos", seed).permutation(count)
        self.rows = np.sort(order[:size]) if size is not None and size < count else np.arange(count)
        self.features, self.truth = photos.features[self.rows], photos.truth[self.rows]
        self._spaces: dict[str, Space] = {}

    def space(self, name: str) -> Space:
        """One of ``SPACES``, computed once."""
        if name not in self._spaces:
            self._spaces[name] = SPACES[name](self.features, self.photos.test, self.landmarks, self.seed)
        return self._spaces[name]

    @cached_property
    def sureness(self) -> npt.NDArray[np.float32]:
        """Leave-one-out scores of a probe on complete labels, shape (N, C): how easily each tag is seen."""
        states = ProbeLabels((self.truth == 1).astype(np.int8))
        return Probe(states, self.space("kernel").ridge, step=ONE_STEP, seed=self.seed).loo_scores

    def quality(self, scores: npt.NDArray[np.floating]) -> float:
        """MAP of scores of the test images, shape (T, C)."""
        return mean_average_precision(scores, self.photos.test_truth)
