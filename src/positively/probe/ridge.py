"""Ridge regression of any targets on one basis, with exact leave-one-out scores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from positively.embedding.rows import FeatureRows
from positively.probe.basis import IN_MEMORY_BYTES, Basis, EmbeddedRows
from positively.probe.linalg import Double, Floats, Single, WholeImages, row_blocks, whole

Rows = npt.NDArray[np.int64]

_GROUP_ENTRIES = 2**25


class Ridge:
    """min_w Σ_i s_i (t_i − b − wᵀz_i)² + λ‖w‖² for any number of targets t, with weights s that sum to 1.

    In the basis, w_j = Σ_i s_i z_ij t_i / (e_j + λ) and b = Σ_i s_i t_i, so one product with the coordinates gives the
    solution for every λ.

    An image may come with parts (windows): N×(1+P)×D embeddings, the whole image first. Only whole images are fitted.
    The score of an image is then that of the whole plus that of its best part, f(x_i) + max_p f(x_ip), which helps
    with small objects that the mean over the image hides.

    Args:
        basis: From :func:`kernel_basis` or :func:`linear_basis`, with the same embeddings and weights.
        features: N×D embeddings, or N×(1+P)×D with parts.
        weights: (N,) sample weights that sum to 1.
        groups: (N,) group of each image, counted from 0; images of a group are left out together. If None, every image
            is its own group.
        embedded: Whole images after ``basis.embed``, if computed already.
    """

    def __init__(
        self,
        basis: Basis,
        features: FeatureRows,
        weights: Double,
        groups: Rows | None = None,
        embedded: EmbeddedRows | None = None,
    ) -> None:
        self.basis, self.features, self.weights = basis, features, weights
        self.groups, self._group_rows = groups, _group_rows(groups)
        self._leverages: dict[float, Single] = {}
        self._cached: Single | None = None
        shape = features[slice(0, 1)].shape[1:-1]
        self.has_parts = bool(shape)
        rank = len(basis.eigenvalues)
        if 4 * len(weights) * rank * math.prod(shape) <= IN_MEMORY_BYTES:
            self._cached = np.empty((len(weights), *shape, rank), dtype=np.float32)
            for part in row_blocks(len(weights)):
                if embedded is None or shape:
                    self._cached[part] = basis.coordinates(features[part])
                else:
                    self._cached[part] = basis.project(embedded[part])

    @property
    def is_small(self) -> bool:
        """Whether the coordinates of all images fit into memory, so that many passes over them are cheap."""
        return 4 * len(self.weights) * len(self.basis.eigenvalues) <= IN_MEMORY_BYTES

    def part(self, rows: Rows) -> Ridge:
        """The same regression, restricted to some rows of the table."""
        groups = None if self.groups is None else self.groups[rows]
        return Ridge(self.basis, self.features[rows], self.weights[rows], groups)

    def _blocks(self) -> Iterator[tuple[slice, Single]]:
        """Yield slices of rows with the coordinates B×R of whole images."""
        for part in row_blocks(len(self.weights)):
            yield part, self._whole(part) if self._cached is None else whole(self._cached[part])

    def _all_blocks(self) -> Iterator[tuple[slice, Single]]:
        """Yield slices of rows with all coordinates: B×R, or B×(1+P)×R with parts."""
        for part in row_blocks(len(self.weights)):
            yield part, self.basis.coordinates(self.features[part]) if self._cached is None else self._cached[part]

    def _whole(self, rows: Any) -> Single:
        """Coordinates of whole images that are not cached, without computing those of their parts."""
        return self.basis.coordinates(WholeImages(self.features)[rows])

    def moments(self, targets: Floats) -> Double:
        """Σ_i s_i z_i t_i and, in the last row, Σ_i s_i t_i: (R+1)×K for targets N×K, in double precision."""
        total = np.zeros((len(self.basis.eigenvalues) + 1, targets.shape[1]))
        for part, coordinates in self._blocks():
            weighted = targets[part].astype(np.float32) * self.weights[part, None].astype(np.float32)
            total[:-1] += coordinates.T @ weighted
            total[-1] += (targets[part].astype(np.float64) * self.weights[part, None]).sum(axis=0)
        return total

    def solution(self, moments: Double, penalty: float) -> Double:
        """Weights and, in the last row, intercepts: (R+1)×K."""
        solved = moments.copy()
        solved[:-1] /= (self.basis.eigenvalues + penalty)[:, None]
        return solved

    def scores(self, moments: Double, penalty: float) -> Single:
        """Fitted values of all whole images, N×K."""
        solved = self.solution(moments, penalty).astype(np.float32)
        result = np.empty((len(self.weights), solved.shape[1]), dtype=np.float32)
        for part, coordinates in self._blocks():
            result[part] = coordinates @ solved[:-1] + solved[-1]
        return result

    def held_out_scores(self, moments: Double, targets: Floats, penalty: float) -> Single:
        """Score of each image (N×K) by the fit to all others: exact, without fitting again."""
        alone = self.left_out(penalty)(self.scores(moments, penalty), targets)
        return alone + self._best_parts(moments, penalty, targets - alone) if self.has_parts else alone

    def _best_parts(self, moments: Double, penalty: float, residuals: Floats) -> Single:
        """Leave-one-out score of each image's best part, N×K.

        Without a group G of images, the fit at any x is f(x) − Σ_{i∈G} g_i(x) r_i, where r = t − f₋G are the residuals
        of the left-out images and g_i(x) = s_i (1 + Σ_j z_j(x) z_ij / (e_j + λ)) is the influence of label i on f(x).

        Args:
            moments: Moments of the targets.
            penalty: λ.
            residuals: N×K targets minus leave-one-out scores of the whole images.
        """
        solved = self.solution(moments, penalty).astype(np.float32)
        scale = (1 / (self.basis.eigenvalues + penalty)).astype(np.float32)
        weights, residuals = self.weights.astype(np.float32), residuals.astype(np.float32)
        result = np.empty((len(weights), solved.shape[1]), dtype=np.float32)
        for part, coordinates in self._all_blocks():
            image, pieces = coordinates[:, 0], coordinates[:, 1:]
            moved = (1 + np.einsum("bpr,br->bp", pieces, image * scale)) * weights[part, None]
            fits = pieces @ solved[:-1] + solved[-1]
            result[part] = (fits - moved[..., None] * residuals[part, None]).max(axis=1)
        for sized in self._group_rows:
            for members in self._split(sized):
                coordinates = self._all_coordinates(members.reshape(-1))
                coordinates = coordinates.reshape(*members.shape, *coordinates.shape[1:])
                image, pieces = coordinates[:, :, 0], coordinates[:, :, 1:]
                moved = 1 + np.einsum("gapr,gbr->gapb", pieces, image * scale, optimize=True)
                moved = moved * weights[members][:, None, None, :]
                fits = pieces @ solved[:-1] + solved[-1]
                shifts = np.einsum("gapb,gbk->gapk", moved, residuals[members], optimize=True)
                result[members] = (fits - shifts).max(axis=2)
        return result

    def left_out(self, penalty: float) -> LeftOut:
        """The map from fits to leave-one-out scores, which does not depend on classes or labels."""
        hats = (self._hat(members, penalty) for sized in self._group_rows for members in self._split(sized))
        return LeftOut(self.leverage(penalty), hats)

    def target_moments(self, rows: Rows, targets: Floats) -> Double:
        """:meth:`moments` (R+1,) of one class whose targets are 0 except in a few rows."""
        weighted = targets.astype(np.float32) * self.weights[rows].astype(np.float32)
        return np.append(self.coordinates(rows).T @ weighted, weighted.sum()).astype(np.float64)

    def leverage(self, penalty: float) -> Single:
        """Leverages h_i of all images, (N,)."""
        if penalty not in self._leverages:
            own = self._lengths(1 / (self.basis.eigenvalues + penalty))
            self._leverages[penalty] = (1 + own) * self.weights.astype(np.float32)
        return self._leverages[penalty]

    def influence(self, penalty: float) -> Single:
        """Influence of the target of each image on all fits, (N,): Σ_j s_j (∂f_j / ∂t_i)²."""
        moved = self._lengths(self.basis.eigenvalues / np.square(self.basis.eigenvalues + penalty))
        return (1 + moved) * np.square(self.weights.astype(np.float32))

    def _lengths(self, scale: Double) -> Single:
        """Σ_j scale_j z_ij² of all images, (N,)."""
        result = np.empty(len(self.weights), dtype=np.float32)
        for part, coordinates in self._blocks():
            result[part] = np.square(coordinates) @ scale.astype(np.float32)
        return result

    def coordinates(self, rows: Rows) -> Single:
        """Coordinates of some whole images of the table."""
        found: Single = self._whole(rows) if self._cached is None else whole(self._cached[rows])
        return found

    def _all_coordinates(self, rows: Rows) -> Single:
        return self.basis.coordinates(self.features[rows]) if self._cached is None else self._cached[rows]

    def _split(self, members: Rows) -> list[Rows]:
        """Split groups of one size so that the coordinates of each piece fit into memory."""
        entries = members.shape[1] * len(self.basis.eigenvalues) * math.prod(self.features[slice(0, 1)].shape[1:-1])
        size = max(_GROUP_ENTRIES // entries, 1)
        return [members[start : start + size] for start in range(0, len(members), size)]

    def _hat(self, members: Rows, penalty: float) -> tuple[Rows, Double]:
        """Groups of one size, members G×S, and their blocks of the hat matrix, G×S×S."""
        coordinates = self.coordinates(members.reshape(-1)).astype(np.float64).reshape(*members.shape, -1)
        hat = coordinates / (self.basis.eigenvalues + penalty) @ coordinates.swapaxes(1, 2) + 1
        return members, hat * self.weights[members][:, None, :]


class LeftOut:
    """Map fits and targets to leave-one-out scores.

    (f_i − h_i t_i) / (1 − h_i) with the leverage h_i = s_i (1 + Σ_j z_ij² / (e_j + λ)); for a group G that is left out
    together, (I − H_GG)⁻¹ (f_G − H_GG t_G).

    Args:
        leverage: (N,), from :meth:`Ridge.leverage`.
        hats: Groups of one size and their blocks of the hat matrix; iterated once unless it is a list.
    """

    def __init__(self, leverage: Single, hats: Iterable[tuple[Rows, Double]]) -> None:
        self._leverage, self._hats = leverage, hats

    def hold(self) -> LeftOut:
        """The same map with everything in memory, for repeated use."""
        return LeftOut(self._leverage, list(self._hats))

    def __call__(self, fits: Single, targets: Floats) -> Single:
        """Scores N×K of fits and targets N×K."""
        leverage = self._leverage[:, None]
        result = ((fits - leverage * targets) / np.maximum(1 - leverage, 1e-6)).astype(np.float32)
        for members, hat in self._hats:
            alone = fits[members] - hat @ targets[members].astype(np.float64)
            result[members] = np.linalg.solve(np.eye(hat.shape[1]) - hat, alone)
        return result


def _group_rows(groups: Rows | None) -> list[Rows]:
    """Rows of the groups with more than one member, one array G×S for each size S."""
    if groups is None:
        return []
    order = np.argsort(groups, kind="stable")
    _, starts, sizes = np.unique(groups[order], return_index=True, return_counts=True)
    return [order[starts[sizes == size][:, None] + np.arange(size)] for size in np.unique(sizes[sizes > 1])]
