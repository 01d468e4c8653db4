"""Random number generators that depend on a seed, a purpose and a position only.

A resumed run therefore draws the same numbers as an uninterrupted one, several processes draw the same numbers as one,
and two purposes never share a draw.
"""

import numpy as np


def random_stream(purpose: str, seed: int, *numbers: int) -> np.random.Generator:
    """Generator for one purpose (such as ``"order"`` or ``"augment"``) at a position: epoch, step or row.

    >>> float(random_stream("order", 0, 1).random()) == float(random_stream("augment", 0, 1).random())
    False
    """
    return np.random.default_rng([seed, *numbers, int.from_bytes(purpose.encode(), "big")])
