"""Networks as ONNX graphs, run by ONNX Runtime: about twice as fast as torch on a CPU."""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from positively.embedding.onnx import example_pixels
from positively.errors import ConfigError, FileError, PositivelyError, RunError, option
from positively.files import write_with
from positively.logs import logger
from positively.machine import import_onnxruntime
from positively.models.folding import fold_lgconv
from positively.options import Runtime

_FEWEST_IMAGES = 1000
"""Number of images from which it pays to build a graph, which takes seconds."""
_COMPARED = 4
"""Number of images on which a graph is compared with torch."""
_TOLERANCE = 1e-4
"""Largest accepted difference to torch, relative to the largest output."""

Module = TypeVar("Module", bound=nn.Module)


def import_runtime() -> Any:
    """Import ONNX Runtime and what torch needs for the export. Raises ConfigError if a package is missing."""
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401

        return import_onnxruntime()
    except ImportError as error:
        raise ConfigError(f"ONNX needs {error.name}. Run: pip install 'positively[onnx]'") from None


def for_use(network: Module) -> Module:
    """A copy of a network for export: on the CPU, in single precision, LgConv folded, in eval mode."""
    made = copy.deepcopy(network).cpu().float().to(memory_format=torch.contiguous_format)
    fold_lgconv(made)
    return made.requires_grad_(False).eval()


def to_onnx(network: nn.Module, images: Tensor, outputs: list[str], shapes: dict[int, Any] | None = None) -> Any:
    """Export a network as an ONNX program with the input ``images``.

    Args:
        network: Output of `for_use`.
        images: Example input.
        outputs: Names of the outputs.
        shapes: Dimensions of the input that may vary; default: none.

    Returns:
        The ONNX program of torch.

    Raises:
        RunError: If torch cannot export the network.
    """
    try:
        with _quiet(), torch.inference_mode():
            return torch.onnx.export(
                network,
                (images,),
                dynamo=True,
                dynamic_shapes=None if shapes is None else (shapes,),
                input_names=["images"],
                output_names=outputs,
                verbose=False,
            )
    except Exception as reason:  # torch has many exceptions for this, and not all of them are public
        first = str(reason).strip().splitlines()[0] if str(reason).strip() else type(reason).__name__
        raise RunError(f"torch cannot export this network to ONNX: {first}") from reason


class OnnxNetwork:
    """A frozen network run by ONNX Runtime: one image per pass, with as many passes in parallel as torch has threads.

    This is faster than a batch whose layers are split over threads, and the result for an image does not depend on
    other images. Takes uint8 images of shape (B, 3, size, size).
    """

    def __init__(self, network: nn.Module, image_size: int, path: Path | None = None) -> None:
        """Build the graph, or load a stored one.

        Args:
            network: Module from uint8 images to one tensor.
            image_size: Side of the images.
            path: Where the graph is stored; the name must identify the network.
        """
        runtime = import_runtime()
        options = runtime.SessionOptions()
        options.intra_op_num_threads = 1
        is_stored = path is not None and path.exists()
        graph = path.read_bytes() if path is not None and is_stored else self._graph(network, image_size)
        self._session = runtime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        self._pool = ThreadPoolExecutor(torch.get_num_threads())
        if path is not None and not is_stored:
            with suppress(FileError):  # the cache is full or read-only: build the graph again next time
                write_with(path, lambda temporary: temporary.write_bytes(graph))

    @staticmethod
    def _graph(network: nn.Module, image_size: int) -> bytes:
        images = torch.zeros(1, 3, image_size, image_size, dtype=torch.uint8)
        program = to_onnx(for_use(network), images, ["outputs"])
        graph: bytes = program.model_proto.SerializeToString()
        return graph

    def __call__(self, images: Tensor) -> Tensor:
        """Run the network; the result is on the CPU."""
        return torch.from_numpy(np.concatenate(list(self._pool.map(self._run, images.numpy()))))

    def _run(self, image: npt.NDArray[np.uint8]) -> npt.NDArray[np.generic]:
        (outputs,) = self._session.run(None, {"images": np.ascontiguousarray(image[None])})
        given: npt.NDArray[np.generic] = outputs
        return given

    def difference_to(self, other: Callable[[Tensor], Tensor], image_size: int) -> float:
        """Largest difference to another network on the same images, relative to the largest output."""
        images = torch.from_numpy((255 * example_pixels(_COMPARED, image_size, image_size)).astype(np.uint8))
        with torch.inference_mode():
            expected = other(images)
            return float((self(images) - expected).abs().max() / expected.abs().max())


def run_frozen(
    network: nn.Module, image_size: int, images: int, *, runtime: Runtime = "auto", path: Path | None = None
) -> Callable[[Tensor], Tensor]:
    """Choose how a frozen network is run: by ONNX Runtime or by torch.

    'auto' uses ONNX Runtime if it is installed, the network is on the CPU, there are many images, and the outputs equal
    those of torch. The choice is the same in repeated calls.

    Args:
        network: Module from uint8 images (B, 3, size, size) to one tensor, in eval mode.
        image_size: Side of the images.
        images: Total number of images.
        runtime: Requested runtime.
        path: Where the graph is stored; the name must identify the network.

    Returns:
        A function from images to outputs on the CPU.

    Raises:
        ConfigError: If ONNX Runtime is requested but cannot run this network.
        RunError: If ONNX Runtime is requested but fails.
    """
    example = next(network.parameters())

    def by_torch(batch: Tensor) -> Tensor:
        outputs: Tensor = network(batch.to(example.device))
        return outputs.cpu()

    is_asked = runtime == "onnx"
    can = example.device.type == "cpu" and example.dtype == torch.float32
    if is_asked and not can:
        raise ConfigError(f"{option('runtime', 'onnx')} needs a network in single precision on the CPU.")
    if runtime == "torch" or not can or (images < _FEWEST_IMAGES and not is_asked):
        return by_torch
    try:
        return _checked(network, by_torch, image_size, path)
    except Exception as reason:  # from a user-defined network, the exporter of torch, or the runtime
        if not is_asked:
            logger.debug(f"Using torch instead of ONNX Runtime: {reason}")
            return by_torch
        if isinstance(reason, PositivelyError):
            raise
        raise RunError(f"ONNX Runtime cannot run this network: {reason}") from reason


def _checked(
    network: nn.Module, by_torch: Callable[[Tensor], Tensor], image_size: int, path: Path | None
) -> OnnxNetwork:
    """The network in ONNX Runtime, if its outputs equal those of torch. A stored graph that differs is rebuilt."""
    import_runtime()  # first: if the package is missing, a stored graph must not be deleted
    was_stored = path is not None and path.exists()
    try:
        by_onnx = OnnxNetwork(network, image_size, path)
        difference = by_onnx.difference_to(by_torch, image_size)
        if not difference <= _TOLERANCE:  # true for NaN as well
            raise RunError(f"The outputs of ONNX Runtime differ by {difference:.1g} of the largest value.")
        return by_onnx
    except Exception:
        if path is not None:
            with suppress(OSError):
                path.unlink(missing_ok=True)
        if not was_stored or (path is not None and path.exists()):
            raise
    return _checked(network, by_torch, image_size, path)


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress warnings and log messages of the exporter."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "onnxscript", "onnx_ir")]
    levels = [one.level for one in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for one in loggers:
            one.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for one, level in zip(loggers, levels, strict=True):
                one.setLevel(level)
