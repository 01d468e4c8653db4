"""ONNX Runtime embeds images: one image a pass, as many passes at once as there are threads.

That is quicker than a batch whose every layer is divided over the threads, and what an image gives depends on no other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from positively.embedding.base import Pooling, Preprocessing, Vector
from positively.embedding.graph import EMBEDDING, IMAGES, assemble, embedding_graph, image_input
from positively.errors import RunError, short
from positively.files import file_digest
from positively.images.reading import read_ahead
from positively.images.transforms import resize
from positively.machine import thread_count

PIXELS_VERSION = 1
"""Version of decoding and resizing: raise it when either changes, so that stored embeddings are computed again."""


class OnnxEmbedder:
    """Images → what one output of an ONNX file gives of them.

    The file takes ``images`` B×3×H×W, RGB in [0, 1]: normalisation and pooling are inside.
    """

    def __init__(self, path: Path, preprocessing: Preprocessing, *, key: str, output: str = EMBEDDING) -> None:
        """Name a file; it is loaded when the first image comes.

        Args:
            path: The file.
            preprocessing: How images are resized.
            key: As of :class:`Embedder`.
            output: Name of the output.
        """
        self.path, self.preprocessing, self.key, self._output = path, preprocessing, key, output

    def __call__(self, images: Iterable[Image.Image], /) -> Iterator[Vector]:
        """What the file gives of each image, in order."""
        self._session  # noqa: B018 (loaded here, not by several threads at once)
        return read_ahead(self._run, images, threads=thread_count())

    @cached_property
    def _session(self) -> Any:
        return open_session(self._graph())

    def _graph(self) -> Path | bytes:
        return self.path

    def _run(self, image: Image.Image) -> Vector:
        (found,) = self._session.run([self._output], {IMAGES: pixels(image, self.preprocessing)[None]}, _needed_only())
        values: Vector = found[0]
        return values


class BackboneEmbedder(OnnxEmbedder):
    """A backbone in an ONNX file, with its normalisation and pooling."""

    def __init__(
        self,
        name: str,
        path: Path,
        preprocessing: Preprocessing,
        *,
        pooling: Pooling = "average",
        window: int = 0,
        digest: str = "",
    ) -> None:
        """Name a backbone; its graph is put together when the first image comes.

        Args:
            name: What the backbone is called in messages and configurations.
            path: ONNX file of the backbone, normalised images → map or vectors.
            preprocessing: What the backbone was trained with.
            pooling: How a map is pooled.
            window: Side of the parts that are pooled too.
            digest: Of the file, where it is known already.
        """
        self.name, self.pooling, self.window = name, pooling, window
        self.digest = digest or file_digest(path)
        settings = repr((preprocessing, pooling, window, PIXELS_VERSION))
        key = hashlib.blake2b(f"{self.digest} {settings}".encode(), digest_size=12).hexdigest()
        super().__init__(path, preprocessing, key=key)

    def _graph(self) -> bytes:
        model, builder = embedding_graph(self.path, self.preprocessing, self.pooling, self.window)
        inputs, ranks = [image_input(model, self.preprocessing.image_size)], {EMBEDDING: 3 if self.window else 2}
        made: bytes = assemble(model, builder, inputs, [(EMBEDDING, np.float32)], {}, ranks).SerializeToString()
        return made


def open_session(graph: Path | bytes, threads: int = 1) -> Any:
    """ONNX Runtime with a graph, on the CPU."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    source = graph if isinstance(graph, bytes) else str(graph)
    try:
        return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as reason:  # onnxruntime has a tree of exceptions that is not public
        name = "This network" if isinstance(graph, bytes) else str(graph)
        raise RunError(f"{name} cannot be run by ONNX Runtime: {short(reason)}.") from reason


def pixels(image: Image.Image, preprocessing: Preprocessing) -> Vector:
    """RGB 3×size×size in [0, 1]."""
    resized = resize(image, preprocessing.image_size, preprocessing.interpolation, preprocessing.resize)
    values: Vector = np.asarray(resized).transpose(2, 0, 1).astype(np.float32) / np.float32(255)
    return values


def example_pixels(batch: int, height: int, width: int) -> Vector:
    """Images in [0, 1] for comparing networks: large soft shapes beside noise, since a network answers to those."""
    generator = np.random.default_rng(0)
    rough = generator.random((batch, 3, height // 8, width // 8)).repeat(8, axis=2).repeat(8, axis=3)
    pixels = np.zeros((batch, 3, height, width), dtype=np.float32)
    pixels[:, :, : rough.shape[2], : rough.shape[3]] = rough
    return (0.8 * pixels + 0.2 * generator.random(pixels.shape)).astype(np.float32)


def _needed_only() -> Any:
    """Run options that skip nodes on which no output that was asked for depends."""
    import onnxruntime

    options = onnxruntime.RunOptions()
    options.only_execute_path_to_fetches = True
    return options
