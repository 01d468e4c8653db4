"""Random numbers by the name of their purpose: every draw is a function of a seed, numbers and a name.

So a resumed run sees what an unbroken one would, two processes see together what one would alone, and two purposes
never share a draw.
"""

import numpy as np


def random_stream(purpose: str, seed: int, *numbers: int) -> np.random.Generator:
    """Generator for one purpose (``"order"``, ``"augment"``, ``"mix"``) at a place: epoch, step or row.

    >>> float(random_stream("order", 0, 1).random()) == float(random_stream("augment", 0, 1).random())
    False
    """
    return np.random.default_rng([seed, *numbers, int.from_bytes(purpose.encode(), "big")])
