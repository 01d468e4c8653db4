"""Embed images with ONNX Runtime, one image per pass, in parallel threads.

This is faster than batches in which each layer is divided between threads, and the embedding of an image does not
depend on the other images.
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
from positively.machine import import_onnxruntime, thread_count

PIXELS_VERSION = 1
"""Version of decoding and resizing; increment it when either changes, so that cached embeddings are not used."""


class OnnxEmbedder:
    """Embed images with one output of an ONNX file.

    The input of the file is ``images`` B×3×H×W, RGB in [0, 1]; it contains normalization and pooling.
    """

    def __init__(self, path: Path, preprocessing: Preprocessing, *, key: str, output: str = EMBEDDING) -> None:
        """The file is loaded with the first image.

        Args:
            path: The file.
            preprocessing: How images are resized.
            key: See :class:`Embedder`.
            output: Name of the output.
        """
        self.path, self.preprocessing, self.key, self._output = path, preprocessing, key, output

    def __call__(self, images: Iterable[Image.Image], /) -> Iterator[Vector]:
        """Yield the output for each image, in order."""
        self._session  # noqa: B018 (load it here, not in several threads at once)
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
    """Embed images with a backbone in an ONNX file."""

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
        """The graph is built with the first image.

        Args:
            name: Name of the backbone, for messages and configurations.
            path: ONNX file of the backbone: normalized images → feature map or vectors.
            preprocessing: The preprocessing that the backbone was trained with.
            pooling: How a feature map is pooled.
            window: Side of the parts that are pooled too.
            digest: Digest of the file, if known.
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
    """An ONNX Runtime session for a graph, on the CPU."""
    onnxruntime = import_onnxruntime()
    onnxruntime.set_default_logger_severity(3)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    source = graph if isinstance(graph, bytes) else str(graph)
    try:
        return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as reason:  # the exceptions of onnxruntime are not public
        name = "this network" if isinstance(graph, bytes) else str(graph)
        raise RunError(f"ONNX Runtime cannot run {name}: {short(reason)}.") from reason


def pixels(image: Image.Image, preprocessing: Preprocessing) -> Vector:
    """RGB 3×size×size in [0, 1]."""
    resized = resize(image, preprocessing.image_size, preprocessing.interpolation, preprocessing.resize)
    values: Vector = np.asarray(resized).transpose(2, 0, 1).astype(np.float32) / np.float32(255)
    return values


def example_pixels(batch: int, height: int, width: int) -> Vector:
    """Images in [0, 1] to compare networks: large shapes with noise, because networks respond weakly to pure noise."""
    generator = np.random.default_rng(0)
    rough = generator.random((batch, 3, height // 8, width // 8)).repeat(8, axis=2).repeat(8, axis=3)
    pixels = np.zeros((batch, 3, height, width), dtype=np.float32)
    pixels[:, :, : rough.shape[2], : rough.shape[3]] = rough
    return (0.8 * pixels + 0.2 * generator.random(pixels.shape)).astype(np.float32)


def _needed_only() -> Any:
    """Run options that skip nodes which the requested outputs do not need."""
    options = import_onnxruntime().RunOptions()
    options.only_execute_path_to_fetches = True
    return options
