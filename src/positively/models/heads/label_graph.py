"""Base of heads with a graph of the classes: word vectors and co-occurrence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from positively.errors import ConfigError, option
from positively.labels import LabelTable
from positively.models.heads.base import Head

LEARNED_VECTOR_SIZE = 300
_LEARNED_VECTOR_SPREAD = 0.38  # as in GloVe, whose vectors have norms of 6 to 7


class LabelGraphHead(Head):
    """A head with word vectors of the classes, shape (classes, d), and a class graph, shape (classes, classes)."""

    adjacency: Tensor
    word_vectors: Tensor

    def __init__(self, classes: int, word_vectors: Tensor | str | None, word_vector_size: int | None) -> None:
        """Set the word vectors from a file or a tensor, or create trainable ones.

        Args:
            classes: Number of classes.
            word_vectors: A .npy file or a tensor with one row per class; None creates trainable vectors.
            word_vector_size: Size of the vectors of a saved run.
        """
        super().__init__()
        given = read_word_vectors(word_vectors) if isinstance(word_vectors, str) else word_vectors
        if given is None and word_vector_size is not None:
            given = torch.zeros(classes, word_vector_size)
        if given is None:
            self.word_vectors = nn.Parameter(torch.empty(classes, LEARNED_VECTOR_SIZE))
        else:
            _check_shape(given, classes)
            self.register_buffer("word_vectors", given.detach().clone().float())
            self.saved_options = {"word_vectors": None, "word_vector_size": given.shape[1]}
        self.register_buffer("adjacency", torch.eye(classes))

    def setup(self, table: LabelTable) -> None:
        """Raise ConfigError if the vectors of a saved run are missing."""
        if not isinstance(self.word_vectors, nn.Parameter) and not self.word_vectors.any():
            raise ConfigError(
                f"{option('word_vector_size')} is for saved runs only. Pass {option('word_vectors', 'FILE')}, or "
                "neither for trainable vectors."
            )

    def reset_parameters(self) -> None:
        """Draw all weights, including trainable word vectors."""
        if isinstance(self.word_vectors, nn.Parameter):
            nn.init.normal_(self.word_vectors, std=_LEARNED_VECTOR_SPREAD)
        super().reset_parameters()


def check_word_vectors(file: str, classes: int) -> None:
    """Raise ConfigError unless a file holds one vector per class."""
    _check_shape(read_word_vectors(file), classes, f"{file}: ")


def _check_shape(vectors: Tensor, classes: int, place: str = "") -> None:
    if vectors.ndim != 2 or len(vectors) != classes or not vectors.numel():
        raise ConfigError(
            f"{place}Word vectors need one row per class, in the order of the classes: {classes} rows, not the shape "
            f"{'×'.join(map(str, vectors.shape))}."
        )


def shares_together(table: LabelTable) -> npt.NDArray[np.float64]:
    """P_ij = #(i and j) / #(i) over known positives, shape (C, C). Rows of classes without positives are zero."""
    together = table.cooccurrence().toarray().astype(np.float64)
    shares: npt.NDArray[np.float64] = together / np.maximum(together.diagonal(), 1)[:, None]
    return shares


def read_word_vectors(file: str) -> Tensor:
    """Read word vectors from a ``.npy`` file. Pickled objects are never loaded.

    Args:
        file: The file, one row per class.

    Returns:
        The vectors, shape (classes, d).

    Raises:
        ConfigError: If the file is missing or does not hold finite numbers.
    """
    path = Path(file).expanduser()
    if not path.is_file():
        raise ConfigError(f"Word vector file {file} not found.")
    try:
        vectors = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError):
        vectors = None
    is_numbers = isinstance(vectors, np.ndarray) and vectors.dtype.kind in "fiu" and bool(np.isfinite(vectors).all())
    if vectors is None or not is_numbers:
        raise ConfigError(
            f"{file} is not a .npy file of finite numbers. Write it with numpy.save, one row per class in the order of "
            "the classes."
        )
    return torch.from_numpy(vectors.astype(np.float32))
