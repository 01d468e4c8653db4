"""Pair network of SST: which classes occur together in an image, predicted from its class features."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

# Pairs computed at once, to limit memory: each needs B·D numbers, and there are C(C − 1)/2 pairs.
_PAIRS_AT_ONCE = 256


class CoOccurrence(nn.Module):
    """Predicts a logit for every pair of classes i < j: whether both are in the image.

    Takes features (B, C, D) and returns logits (B, C(C−1)/2), in the order of `first` and `second`.

    Published as u = reduce(v), z = mix(relu(join([u_i, u_j]))), logit = w_ij · z + b_ij. Computed equivalently but
    faster: ``join`` is the sum of a map of u_i and a map of u_j, each computed once per class; ``mix`` and the dot
    product with w_ij are both linear and merged into one vector per pair. The D numbers per pair and image are computed
    for a few pairs at a time, and recomputed in the backward pass.
    """

    first: Tensor
    second: Tensor

    def __init__(self, classes: int, width: int, generator: np.random.Generator) -> None:
        super().__init__()
        self.classes = classes
        first, second = torch.triu_indices(classes, classes, 1)
        self.register_buffer("first", first, persistent=False)
        self.register_buffer("second", second, persistent=False)
        narrow = max(width // 2, 1)
        self.reduce = nn.Linear(width, narrow)
        self.join = nn.Linear(2 * narrow, width)
        self.mix = nn.Linear(width, width)
        self.weight = nn.Parameter(torch.empty(len(first), width))
        self.bias = nn.Parameter(torch.empty(len(first)))
        # The initialisation of torch's linear layer, as a function of the seed.
        draw = torch.Generator().manual_seed(int(generator.integers(2**31)))
        for layer in (self.reduce, self.join, self.mix, self):
            bound = layer.weight.shape[1] ** -0.5
            nn.init.uniform_(layer.weight, -bound, bound, generator=draw)
            nn.init.uniform_(layer.bias, -bound, bound, generator=draw)

    def forward(self, features: Tensor) -> Tensor:
        """Compute the logits of all pairs."""
        of_first, of_second = self.join.weight.chunk(2, dim=1)
        reduced = self.reduce(features.transpose(0, 1))  # classes first, so that pairs select contiguous blocks
        left, right = F.linear(reduced, of_first, self.join.bias), F.linear(reduced, of_second)
        direction = self.weight @ self.mix.weight
        parts = list(zip(*(torch.split(p, _PAIRS_AT_ONCE) for p in (self.first, self.second, direction)), strict=True))
        again = partial(checkpoint, _pair_logits, use_reentrant=False, preserve_rng_state=False)
        logits = again if torch.is_grad_enabled() and len(parts) > 1 else _pair_logits
        shift = self.weight @ self.mix.bias + self.bias
        scored: Tensor = torch.cat([logits(left, right, *part) for part in parts]).T + shift
        return scored

    def states(self, states: Tensor) -> Tensor:
        """Label states of the pairs: +1 if both classes are known positives, else −1."""
        positive = states == 1
        return (positive[:, self.first] & positive[:, self.second]).to(states.dtype) * 2 - 1

    @torch.no_grad()
    def transfer(self, logits: Tensor, states: Tensor) -> Tensor:
        """Mean probability of each class with the known positives of its image, shape (B, C).

        Zero for images without known positives. Meaningless for classes that are known positives themselves.
        """
        positive = (states == 1).to(torch.promote_types(logits.dtype, torch.float32))
        probability = torch.sigmoid(logits.to(positive.dtype))
        together = positive.new_zeros(len(states), self.classes, self.classes)
        together[:, self.first, self.second] = probability
        together[:, self.second, self.first] = probability
        with torch.autocast(logits.device.type, enabled=False):
            total = (together @ positive[..., None])[..., 0]
        return total / positive.sum(1, keepdim=True).clamp_min(1)


def _pair_logits(left: Tensor, right: Tensor, first: Tensor, second: Tensor, direction: Tensor) -> Tensor:
    """Logits (P, B) of features (C, B, D) of both sides and directions (P, D)."""
    hidden = torch.relu(left.index_select(0, first) + right.index_select(0, second))
    return torch.bmm(hidden, direction[..., None])[..., 0]
