"""Ridge regression of any targets on one basis, with exact scores of what was left out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from positively import distributed
from positively.data.loading import FeatureRows
from positively.distributed import gather_rows, sum_over_processes
from positively.probe.basis import Basis, row_blocks

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

    Args:
        basis: From :func:`kernel_basis` or :func:`linear_basis`, of the same features and weights.
        features: N×D pooled features.
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
        rank = len(basis.eigenvalues)
        if 4 * len(self.rows) * rank <= _IN_MEMORY_BYTES:
            parts = [basis.coordinates(features[part]) for part in row_blocks(self.rows)]
            self._cached = torch.cat([*parts, torch.empty(0, rank, device=weights.device, dtype=torch.float32)])

    def part(self, rows: npt.NDArray[np.int64]) -> Ridge:
        """The same regression, to score some rows of the table with."""
        groups = None if self.groups is None else self.groups[rows]
        return Ridge(self.basis, self.features[rows], self.weights[torch.from_numpy(rows)], groups)

    def _blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """Rows of this process, with their coordinates."""
        for part in row_blocks(self.rows):
            if self._cached is None:
                yield part, self.basis.coordinates(self.features[part])
            else:
                yield part, self._cached[part.start - self.rows.start : part.stop - self.rows.start]

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
        """Fits of all images, N×K."""
        solved = self.solution(moments, penalty).float()
        parts = [coordinates @ solved[:-1] + solved[-1] for _, coordinates in self._blocks()]
        return gather_rows(torch.cat([*parts, solved.new_empty(0, solved.shape[1])]))

    def held_out_scores(self, moments: Tensor, targets: Tensor, penalty: float) -> Tensor:
        """Score of each image (N×K) by the fit to all others: exact, without fitting again.

        (f_i − h_i t_i) / (1 − h_i) with the leverage h_i = s_i (1 + Σ_j z_ij² / (e_j + λ)); for a group G that is left
        out together, (I − H_GG)⁻¹ (f_G − H_GG t_G).
        """
        fits, leverage = self.scores(moments, penalty), self.leverage(penalty)[:, None]
        result = (fits - leverage * targets) / (1 - leverage).clamp_min(1e-6)
        for members in self._group_rows:
            part = max(_GROUP_ENTRIES // (members.shape[1] * len(self.basis.eigenvalues)), 1)
            for some in torch.split(members, part):
                result[some] = self._group_scores(some, fits[some], targets[some], penalty)
        return result

    def leverage(self, penalty: float) -> Tensor:
        """h_i of all images, (N,)."""
        if penalty not in self._leverages:
            scale = (1 / (self.basis.eigenvalues + penalty)).float()
            parts = [coordinates.square() @ scale for _, coordinates in self._blocks()]
            own = torch.cat([*parts, scale.new_empty(0)])
            self._leverages[penalty] = (1 + gather_rows(own)) * self.weights.float()
        return self._leverages[penalty]

    def _group_scores(self, members: Tensor, fits: Tensor, targets: Tensor, penalty: float) -> Tensor:
        """Of groups of one size, members G×S: G×S×K."""
        rows = members.flatten()
        if self._cached is not None and len(self._cached) == len(self.weights):
            found = self._cached[rows]
        else:  # not held, or in part by other processes
            found = self.basis.coordinates(self.features[rows.numpy()])
        coordinates = found.double().reshape(*members.shape, -1)
        hat = coordinates / (self.basis.eigenvalues + penalty) @ coordinates.mT + 1
        hat = hat * self.weights[members][:, None, :]
        eye = torch.eye(members.shape[1], device=hat.device, dtype=hat.dtype)
        solved: Tensor = torch.linalg.solve(eye - hat, fits - hat @ targets.double())
        return solved.float()


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
