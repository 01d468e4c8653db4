"""Networks as ONNX graphs, and ONNX Runtime to run them: on a CPU about twice as fast as torch."""

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
from positively.models.folding import fold_lgconv
from positively.options import Runtime

_FEWEST_IMAGES = 1000
"""Images from which on a graph is worth the seconds in which it is made."""
_COMPARED = 4
"""Images by which a graph is compared with torch."""
_TOLERANCE = 1e-4
"""Largest difference to torch, relative to the largest number given, with which a graph is the same network."""

Module = TypeVar("Module", bound=nn.Module)


def import_runtime() -> Any:
    """ONNX Runtime, and what torch needs to write for it."""
    try:
        import onnx  # noqa: F401
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ConfigError(f"ONNX needs {error.name}. Run: pip install 'positively[onnx]'") from None
    return onnxruntime


def for_use(network: Module) -> Module:
    """A copy for a graph: on the CPU, in single precision, LgConv folded, in eval mode; the network stays as it is."""
    made = copy.deepcopy(network).cpu().float().to(memory_format=torch.contiguous_format)
    fold_lgconv(made)
    return made.requires_grad_(False).eval()


def to_onnx(network: nn.Module, images: Tensor, outputs: list[str], shapes: dict[int, Any] | None = None) -> Any:
    """The network as torch's ONNX program; its input is ``images``.

    Args:
        network: What `for_use` gave.
        images: An example.
        outputs: Names of what it gives.
        shapes: Which sides of the example may vary; none by default.
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
    except Exception as reason:  # torch has a tree of exceptions for this, and not all of them are public
        first = str(reason).strip().splitlines()[0] if str(reason).strip() else type(reason).__name__
        raise RunError(f"torch cannot make an ONNX graph of this network: {first}") from reason


class OnnxNetwork:
    """A frozen network, run by ONNX Runtime: one image a pass, as many passes at once as torch has threads.

    That is quicker than a batch whose every layer is divided over the threads, the graph is made in half the time, and
    what an image gives depends on no other image.

    Shapes: input B×3×size×size bytes, output what the network gives of them.
    """

    def __init__(self, network: nn.Module, image_size: int, path: Path | None = None) -> None:
        """Make the graph, or take the one that was made before.

        Args:
            network: Images, as bytes, to one tensor.
            image_size: Side of the images.
            path: Where the graph is stored; its name has to tell this network from all others.
        """
        runtime = import_runtime()
        options = runtime.SessionOptions()
        options.intra_op_num_threads = 1
        is_stored = path is not None and path.exists()
        graph = path.read_bytes() if path is not None and is_stored else self._graph(network, image_size)
        self._session = runtime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        self._pool = ThreadPoolExecutor(torch.get_num_threads())
        if path is not None and not is_stored:
            with suppress(FileError):  # a cache that is full or read only: the next one makes it again
                write_with(path, lambda temporary: temporary.write_bytes(graph))

    @staticmethod
    def _graph(network: nn.Module, image_size: int) -> bytes:
        images = torch.zeros(1, 3, image_size, image_size, dtype=torch.uint8)
        program = to_onnx(for_use(network), images, ["outputs"])
        graph: bytes = program.model_proto.SerializeToString()
        return graph

    def __call__(self, images: Tensor) -> Tensor:
        """What the network gives, on the CPU."""
        return torch.from_numpy(np.concatenate(list(self._pool.map(self._run, images.numpy()))))

    def _run(self, image: npt.NDArray[np.uint8]) -> npt.NDArray[np.generic]:
        (outputs,) = self._session.run(None, {"images": np.ascontiguousarray(image[None])})
        given: npt.NDArray[np.generic] = outputs
        return given

    def difference_to(self, other: Callable[[Tensor], Tensor], image_size: int) -> float:
        """Largest difference to what another gives of the same images, relative to the largest number in it."""
        images = torch.from_numpy((255 * example_pixels(_COMPARED, image_size, image_size)).astype(np.uint8))
        with torch.inference_mode():
            expected = other(images)
            return float((self(images) - expected).abs().max() / expected.abs().max())


def run_frozen(
    network: nn.Module, image_size: int, images: int, *, runtime: Runtime = "auto", path: Path | None = None
) -> Callable[[Tensor], Tensor]:
    """How a network that no longer learns is run on bytes B×3×size×size: by ONNX Runtime, or by torch.

    'auto' takes ONNX Runtime for a network on the CPU, where it is installed, many images are to come, and it gives
    what torch gives. Which one it is depends on nothing that a second call would find changed.

    Args:
        network: Images, as bytes, to one tensor; in eval mode.
        image_size: Side of the images.
        images: How many there are in all.
        runtime: What the user asks for.
        path: Where the graph is stored; its name has to tell this network from all others.

    Returns:
        A function whose result lies on the CPU.
    """
    example = next(network.parameters())

    def by_torch(batch: Tensor) -> Tensor:
        outputs: Tensor = network(batch.to(example.device))
        return outputs.cpu()

    is_asked = runtime == "onnx"
    can = example.device.type == "cpu" and example.dtype == torch.float32
    if is_asked and not can:
        raise ConfigError(f"{option('runtime', 'onnx')} runs networks in single precision on a CPU, not this one.")
    if runtime == "torch" or not can or (images < _FEWEST_IMAGES and not is_asked):
        return by_torch
    try:
        return _checked(network, by_torch, image_size, path)
    except Exception as reason:  # whatever a network of one's own, torch's exporter or the runtime may raise
        if not is_asked:
            logger.debug(f"torch runs the network, not ONNX Runtime: {reason}")
            return by_torch
        if isinstance(reason, PositivelyError):
            raise
        raise RunError(f"ONNX Runtime cannot run this network: {reason}") from reason


def _checked(
    network: nn.Module, by_torch: Callable[[Tensor], Tensor], image_size: int, path: Path | None
) -> OnnxNetwork:
    """The network by ONNX Runtime, if it gives what torch gives; a stored graph that does not is made anew."""
    import_runtime()  # without it, a stored graph is not to blame
    was_stored = path is not None and path.exists()
    try:
        by_onnx = OnnxNetwork(network, image_size, path)
        difference = by_onnx.difference_to(by_torch, image_size)
        if not difference <= _TOLERANCE:  # also where it is no number
            raise RunError(f"ONNX Runtime gives numbers that differ by {difference:.1g} of the largest.")
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
    """The exporter speaks of its own insides, as warnings and in its log."""
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
