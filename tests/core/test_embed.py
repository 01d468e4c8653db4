"""What an embedder of a user's own may give, and what is said if it gives something else."""

import numpy as np
import pytest

import positively as po
from positively.cli import main
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


def failing(images):
    raise OSError("no network")


@pytest.mark.parametrize(
    ("changes", "fact"),
    [({"key": None}, "'key'"), ({"key": ""}, "'key'"), ({"__call__": failing}, "no network")],
    ids=["no key", "an empty key", "an exception"],
)
def test_an_embedder_that_cannot_be_used_is_a_sentence(changes, fact, tables, tmp_path):
    embedder = type("Mine", (Embedder,), {"__call__": lambda self, images: changes["__call__"](images)})
    made = (embedder if "__call__" in changes else Embedder)(vectors(20))
    made.key = changes.get("key", made.key)
    with pytest.raises(ConfigError, match=fact):
        po.embed(tables[0].select(np.arange(20)), made, cache=tmp_path)


def test_embeddings_in_place_of_photos_serve_every_verb_though_no_photo_is_there(tables, tmp_path, capsys):
    table, other = (known.select(np.arange(80)) for known in tables)
    files = {}
    for name, part in (("train", table), ("test", other)):
        images = [f"{name}-{image}" for image in part.images]
        there = [np.array(part.classes)[row == 1] for row in part.states()]
        lines = [f"{image},{';'.join(tags)}" for image, tags in zip(images, there, strict=True)]
        files[name] = tmp_path / f"{name}.csv"
        files[name].write_text("\n".join(["image,tags", *lines]) + "\n")
        X = (part.states() == 1) + 0.3 * np.random.default_rng(0).random((80, len(part.classes)))
        np.savez(tmp_path / f"{name}.npz", embeddings=X.astype(np.float32), images=np.array(images))
    given = [files["train"], "--embeddings", tmp_path / "train.npz"]

    def call(*words):
        code = main([str(word) for word in words])
        return code, capsys.readouterr()

    assert call("check", *given)[0] == 0
    code, said = call("missing", *given, "--out", tmp_path / "missing", "--accept-above", 0.01)
    assert code == 0, said.err
    assert (tmp_path / "missing" / "train.csv").exists()
    run = tmp_path / "run"
    assert call("train", *given, "--out", run)[0] == 0
    complete = ["--blank", "negative"]
    code, said = call("evaluate", run, files["test"], "--embeddings", tmp_path / "test.npz", *complete)
    assert code == 0, said.err
    code, said = call("evaluate", run, files["train"], "--embeddings", tmp_path / "train.npz", *complete)
    assert code == 2 and "train-" in said.err  # it learned from images of these names


def test_python_takes_files_of_embeddings_and_says_what_to_do_with_an_array(tables, tmp_path):
    table = tables[0].select(np.arange(80))
    X = ((table.states() == 1) + 0.3 * np.random.default_rng(0).random((80, len(table.classes)))).astype(np.float32)
    known = table.with_known_ratio(0.6, 0).positives_only()
    file = tmp_path / "photos.npz"
    np.savez(file, embeddings=X, images=np.array(table.images))
    first, second = (po.find_missing(known, embeddings=given, quiet=True) for given in (file, [file]))
    assert first[:5] == second[:5]
    for call in (po.find_missing, po.fit):
        with pytest.raises(ConfigError, match="savez") as caught:
            call(known, embeddings=X)
        assert len(str(caught.value)) < 400
    run = po.fit(known, embeddings=str(file), out=tmp_path / "run", quiet=True)
    assert run.predict_embeddings(X[:2], ["a", "b"], top=1)[0].image == "a"
    with pytest.raises(ConfigError, match="2-D"):
        run.predict_embeddings(X[0], ["a"])
    with pytest.raises(ConfigError, match=r"read\("):
        run.evaluate("test.csv")
