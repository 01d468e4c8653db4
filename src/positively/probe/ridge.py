"""Ridge regression of any targets on one basis, with exact scores of what was left out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from positively import distributed
from positively.distributed import gather_rows, sum_over_processes
from positively.embedding.rows import FeatureRows
from positively.probe.basis import Basis, WholeImages, row_blocks, whole

# Coordinates up to this size stay in memory; larger ones are computed again, block by block, at every pass.
_IN_MEMORY_BYTES = 2**30
_GROUP_ENTRIES = 2**25


def own_rows(count: int) -> range:
    """The rows this process computes; those of all processes, one after the other, are all rows."""
    rank, world = distributed.rank(), distributed.world_size()
    return range(count * rank // world, count * (rank + 1) // world)


class Ridge:
    """min_w Σ_i s_i (t_i − b − wᵀz_i)² + λ‖w‖² for any number of targets t, with weights s that sum to 1.

    In the basis, w_j = Σ_i s_i z_ij t_i / (e_j + λ) and b = Σ_i s_i t_i: one product with the coordinates serves every
    λ.

    An image may come with parts (windows of it): N×(1+P)×D features, the whole image first. What is fitted is the whole
    alone; an image's score is then that of the whole plus that of its best part, f(x_i) + max_p f(x_ip), so that a
    small thing counts that the mean over the image hides.

    Args:
        basis: From :func:`kernel_basis` or :func:`linear_basis`, of the same features and weights.
        features: N×D pooled features, or N×(1+P)×D with parts.
        weights: (N,) sample weights that sum to 1.
        groups: (N,) group of each image, counted from 0; images of a group never vouch for one another. None: every
            image is a group of its own.
    """

    def __init__(
        self, basis: Basis, features: FeatureRows, weights: Tensor, groups: npt.NDArray[np.int64] | None = None
    ) -> None:
        self.basis, self.features, self.weights = basis, features, weights
        self.rows = own_rows(len(weights))
        self.groups, self._group_rows = groups, _group_rows(groups)
        self._leverages: dict[float, Tensor] = {}
        self._cached: Tensor | None = None
        shape = features[slice(0, 1)].shape[1:-1]
        self.has_parts = bool(shape)
        rank = len(basis.eigenvalues)
        if 4 * len(self.rows) * rank * math.prod(shape) <= _IN_MEMORY_BYTES:
            parts = [basis.coordinates(features[part]) for part in row_blocks(self.rows)]
            self._cached = torch.cat([*parts, torch.empty(0, *shape, rank, device=weights.device, dtype=torch.float32)])

    @property
    def is_small(self) -> bool:
        """Whether the coordinates of all images would fit into memory, so that many passes over them cost little."""
        return 4 * len(self.weights) * len(self.basis.eigenvalues) <= _IN_MEMORY_BYTES

    def part(self, rows: npt.NDArray[np.int64]) -> Ridge:
        """The same regression, to score some rows of the table with."""
        groups = None if self.groups is None else self.groups[rows]
        return Ridge(self.basis, self.features[rows], self.weights[torch.from_numpy(rows)], groups)

    def _blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """Rows of this process, with the coordinates of the whole images B×R."""
        for part in row_blocks(self.rows):
            yield part, self._whole(part) if self._cached is None else whole(self._own(part))

    def _all_blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """Rows of this process, with all their coordinates: B×R, or B×(1+P)×R with parts."""
        for part in row_blocks(self.rows):
            yield part, self.basis.coordinates(self.features[part]) if self._cached is None else self._own(part)

    def _own(self, part: slice) -> Tensor:
        """Coordinates that are held, of some rows of this process."""
        assert self._cached is not None
        return self._cached[part.start - self.rows.start : part.stop - self.rows.start]

    def _whole(self, rows: Any) -> Tensor:
        """Coordinates of whole images that are not held; nothing is computed for their parts."""
        return self.basis.coordinates(WholeImages(self.features)[rows])

    def moments(self, targets: Tensor) -> Tensor:
        """Σ_i s_i z_i t_i and, in the last row, Σ_i s_i t_i: (R+1)×K of targets N×K, double precision."""
        total = self.weights.new_zeros(len(self.basis.eigenvalues) + 1, targets.shape[1])
        for part, coordinates in self._blocks():
            weighted = targets[part].float() * self.weights[part, None].float()
            total[:-1] += coordinates.T @ weighted
            total[-1] += (targets[part].double() * self.weights[part, None]).sum(0)
        return sum_over_processes(total)

    def solution(self, moments: Tensor, penalty: float) -> Tensor:
        """Weights and, in the last row, intercepts: (R+1)×K."""
        solved = moments.clone()
        solved[:-1] /= (self.basis.eigenvalues + penalty)[:, None]
        return solved

    def scores(self, moments: Tensor, penalty: float) -> Tensor:
        """Fits of all (whole) images, N×K."""
        solved = self.solution(moments, penalty).float()
        parts = [coordinates @ solved[:-1] + solved[-1] for _, coordinates in self._blocks()]
        return gather_rows(torch.cat([*parts, solved.new_empty(0, solved.shape[1])]))

    def held_out_scores(self, moments: Tensor, targets: Tensor, penalty: float) -> Tensor:
        """Score of each image (N×K) by the fit to all others: exact, without fitting again."""
        alone = self.left_out(penalty)(self.scores(moments, penalty), targets)
        return alone + self._best_parts(moments, penalty, targets - alone) if self.has_parts else alone

    def _best_parts(self, moments: Tensor, penalty: float, residuals: Tensor) -> Tensor:
        """Score of each image's best part (N×K) by the fit to all others.

        Without a group G of images, the fit at any place x is f(x) − Σ_{i∈G} g_i(x) r_i, where r are the residuals
        t − f₋G of the images left out and g_i(x) = s_i (1 + Σ_j z_j(x) z_ij / (e_j + λ)) is how the label of i moves
        f(x).

        Args:
            moments: Of the targets.
            penalty: λ.
            residuals: N×K, targets minus scores of the whole images by the fit to all others.
        """
        solved = self.solution(moments, penalty).float()
        scale = (1 / (self.basis.eigenvalues + penalty)).float()
        best = []
        for part, coordinates in self._all_blocks():
            whole, pieces = coordinates[:, 0], coordinates[:, 1:]
            moved = (1 + torch.einsum("bpr,br->bp", pieces, whole * scale)) * self.weights[part, None].float()
            fits = pieces @ solved[:-1] + solved[-1]
            best.append((fits - moved[..., None] * residuals[part, None].float()).amax(1))
        result = gather_rows(torch.cat([*best, solved.new_empty(0, solved.shape[1])]))
        for sized in self._group_rows:
            for members in self._split(sized):
                coordinates = self._all_coordinates(members.flatten())
                coordinates = coordinates.reshape(*members.shape, *coordinates.shape[1:])
                whole, pieces = coordinates[:, :, 0], coordinates[:, :, 1:]
                moved = 1 + torch.einsum("gapr,gbr->gapb", pieces, whole * scale)
                moved = moved * self.weights[members].float()[:, None, None, :]
                fits = pieces @ solved[:-1] + solved[-1]
                result[members] = (fits - torch.einsum("gapb,gbk->gapk", moved, residuals[members].float())).amax(2)
        return result

    def left_out(self, penalty: float) -> LeftOut:
        """What turns fits into scores of images left out: the same for every class and every change of labels."""
        hats = (self._hat(members, penalty) for sized in self._group_rows for members in self._split(sized))
        return LeftOut(self.leverage(penalty), hats)

    def target_moments(self, rows: npt.NDArray[np.int64], targets: Tensor) -> Tensor:
        """:meth:`moments` (R+1) of one class whose targets are 0 everywhere but in a few rows."""
        chosen = torch.from_numpy(rows).to(self.weights.device)
        weighted = targets * self.weights[chosen].float()
        return torch.cat([self.coordinates(chosen).T @ weighted, weighted.sum(dim=0, keepdim=True)]).double()

    def leverage(self, penalty: float) -> Tensor:
        """h_i of all images, (N,)."""
        if penalty not in self._leverages:
            own = self._lengths(1 / (self.basis.eigenvalues + penalty))
            self._leverages[penalty] = (1 + own) * self.weights.float()
        return self._leverages[penalty]

    def influence(self, penalty: float) -> Tensor:
        """How far the target of each image moves the fits of all, (N,): Σ_j s_j (∂f_j / ∂t_i)²."""
        moved = self._lengths(self.basis.eigenvalues / (self.basis.eigenvalues + penalty).square())
        return (1 + moved) * self.weights.float().square()

    def _lengths(self, scale: Tensor) -> Tensor:
        """Σ_j scale_j z_ij² of all images, (N,)."""
        parts = [coordinates.square() @ scale.float() for _, coordinates in self._blocks()]
        return gather_rows(torch.cat([*parts, scale.new_empty(0).float()]))

    def coordinates(self, rows: Tensor) -> Tensor:
        """Coordinates of any (whole) images of the table."""
        held = self._held_by_one()
        return self._whole(rows.cpu().numpy()) if held is None else whole(held[rows])

    def _all_coordinates(self, rows: Tensor) -> Tensor:
        held = self._held_by_one()
        return self.basis.coordinates(self.features[rows.cpu().numpy()]) if held is None else held[rows]

    def _held_by_one(self) -> Tensor | None:
        """Coordinates of all rows, if they are held, and not in part by other processes."""
        return self._cached if self._cached is not None and len(self._cached) == len(self.weights) else None

    def _split(self, members: Tensor) -> tuple[Tensor, ...]:
        """Groups of one size, as many at a time as their coordinates fit into memory."""
        entries = members.shape[1] * len(self.basis.eigenvalues) * math.prod(self.features[slice(0, 1)].shape[1:-1])
        return torch.split(members, max(_GROUP_ENTRIES // entries, 1))

    def _hat(self, members: Tensor, penalty: float) -> tuple[Tensor, Tensor]:
        """Groups of one size, members G×S, and how each image's label moves the fits of its group, G×S×S."""
        coordinates = self.coordinates(members.flatten()).double().reshape(*members.shape, -1)
        hat = coordinates / (self.basis.eigenvalues + penalty) @ coordinates.mT + 1
        return members, hat * self.weights[members][:, None, :]


class LeftOut:
    """Fits and targets → score of each image by the fit to all others.

    (f_i − h_i t_i) / (1 − h_i) with the leverage h_i = s_i (1 + Σ_j z_ij² / (e_j + λ)); for a group G that is left out
    together, (I − H_GG)⁻¹ (f_G − H_GG t_G).

    Args:
        leverage: (N,), from :meth:`Ridge.leverage`.
        hats: Groups of one size and their part of the hat matrix. They are gone through once, unless it is a list.
    """

    def __init__(self, leverage: Tensor, hats: Iterable[tuple[Tensor, Tensor]]) -> None:
        self._leverage, self._hats = leverage, hats

    def hold(self) -> LeftOut:
        """The same with everything in memory, to be used more than once."""
        return LeftOut(self._leverage, list(self._hats))

    def __call__(self, fits: Tensor, targets: Tensor) -> Tensor:
        """Scores N×K of fits and targets N×K."""
        leverage = self._leverage[:, None]
        result = (fits - leverage * targets) / (1 - leverage).clamp_min(1e-6)
        for members, hat in self._hats:
            eye = torch.eye(hat.shape[1], device=hat.device, dtype=hat.dtype)
            alone = fits[members] - hat @ targets[members].double()
            result[members] = torch.linalg.solve(eye - hat, alone).float()
        return result


def _group_rows(groups: npt.NDArray[np.int64] | None) -> list[Tensor]:
    """Rows of the groups with more than one member, one tensor G×S for each size S."""
    if groups is None:
        return []
    order = np.argsort(groups, kind="stable")
    _, starts, sizes = np.unique(groups[order], return_index=True, return_counts=True)
    return [
        torch.from_numpy(order[starts[sizes == size][:, None] + np.arange(size)])
        for size in np.unique(sizes[sizes > 1])
    ]
