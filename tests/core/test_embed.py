"""What an embedder of a user's own may give, and what is said if it gives something else."""

import numpy as np
import pytest

import positively as po
from positively.errors import ConfigError


class Embedder:
    """Gives what it is told to give, in place of looking at images."""

    def __init__(self, vectors):
        self.key, self.vectors = "0" * 24, vectors

    def __call__(self, images):
        yield from (vector for vector, _ in zip(self.vectors, images, strict=False))


def vectors(count, width=4):
    return list(np.random.default_rng(0).random((count, width), dtype=np.float32))


def test_embeddings_are_in_the_tables_order_and_kept(tables, tmp_path):
    table = tables[0].select(np.arange(20))
    given = vectors(20)
    found = po.embed(table, Embedder(given), cache=tmp_path)
    np.testing.assert_array_equal(found.X, given)
    np.testing.assert_array_equal(po.embed(table, Embedder([]), cache=tmp_path).X, given)


@pytest.mark.parametrize(
    "given",
    [vectors(7), [*vectors(10), np.ones(3)], [*vectors(10), np.full(4, np.nan)], [np.ones(())] * 20],
    ids=["too few", "another width", "no numbers", "no vectors"],
)
def test_an_embedder_that_gives_something_else_is_a_sentence(given, tables, tmp_path):
    with pytest.raises(ConfigError, match="embedding"):
        po.embed(tables[0].select(np.arange(20)), Embedder(given), cache=tmp_path)
