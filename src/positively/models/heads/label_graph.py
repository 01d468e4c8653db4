"""What heads with a graph of the classes share: a vector for every class's name, and how often classes meet."""

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
_LEARNED_VECTOR_SPREAD = 0.38  # that of GloVe's vectors, whose norm is 6 to 7


class LabelGraphHead(Head):
    """A head that knows a word vector of every class, classes×d, and a graph of the classes, classes×classes."""

    adjacency: Tensor
    word_vectors: Tensor

    def __init__(self, classes: int, word_vectors: Tensor | str | None, word_vector_size: int | None) -> None:
        """Take the word vectors as they are, from a file or a tensor, or make vectors that learn.

        Args:
            classes: Number of classes.
            word_vectors: A .npy file of one row a class, a tensor, or None for vectors that learn.
            word_vector_size: Size of vectors that come with the weights of a saved run.
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
        """Refuse vectors that only a saved run could fill."""
        if not isinstance(self.word_vectors, nn.Parameter) and not self.word_vectors.any():
            raise ConfigError(
                f"{option('word_vector_size')} is for saved runs, whose weights bring the vectors. Pass "
                f"{option('word_vectors', 'FILE')}, or neither for vectors that learn."
            )

    def reset_parameters(self) -> None:
        """The own draw of every layer, and of the word vectors if they learn."""
        if isinstance(self.word_vectors, nn.Parameter):
            nn.init.normal_(self.word_vectors, std=_LEARNED_VECTOR_SPREAD)
        super().reset_parameters()


def check_word_vectors(file: str, classes: int) -> None:
    """Refuse a file that cannot serve this many classes."""
    _check_shape(read_word_vectors(file), classes, f"{file}: ")


def _check_shape(vectors: Tensor, classes: int, place: str = "") -> None:
    if vectors.ndim != 2 or len(vectors) != classes or not vectors.numel():
        raise ConfigError(
            f"{place}Word vectors stand one a row in the order of the classes: {classes} rows, not the shape "
            f"{'×'.join(map(str, vectors.shape))}."
        )


def shares_together(table: LabelTable) -> npt.NDArray[np.float64]:
    """P_ij = #(i and j) / #(i) of the known positives; the row of a class without any is zero, and never 0 / 0."""
    together = table.cooccurrence().toarray().astype(np.float64)
    shares: npt.NDArray[np.float64] = together / np.maximum(together.diagonal(), 1)[:, None]
    return shares


def read_word_vectors(file: str) -> Tensor:
    """Read a ``.npy`` file of one row of numbers a class; pickled objects are never read.

    Raises:
        ConfigError: If there is no such file, or it holds something else.
    """
    path = Path(file).expanduser()
    if not path.is_file():
        raise ConfigError(f"There is no file of word vectors {file}.")
    try:
        vectors = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError):
        vectors = None
    is_numbers = isinstance(vectors, np.ndarray) and vectors.dtype.kind in "fiu" and bool(np.isfinite(vectors).all())
    if vectors is None or not is_numbers:
        raise ConfigError(
            f"{file} is no .npy file of finite numbers. Write it with numpy.save, one row a class in the order of the "
            "classes."
        )
    return torch.from_numpy(vectors.astype(np.float32))
