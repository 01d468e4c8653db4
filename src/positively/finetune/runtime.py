"""Devices, processes and precision, with Lightning Fabric."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

import torch
from timm.layers.norm_act import convert_sync_batchnorm
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from positively.config import TrainConfig
from positively.errors import ConfigError, option

if TYPE_CHECKING:
    from lightning_fabric import Fabric

_SET_BY_FABRIC = "PYTORCH_NVML_BASED_CUDA_CHECK"
"""Environment variable that importing Lightning sets."""

_FABRIC: dict[str, Any] = {"float32": "32-true", "float16": "16-mixed", "bfloat16": "bf16-mixed", "float64": "64-true"}
"""Number format in the naming of torch → naming of Fabric."""


def launch(options: TrainConfig) -> Fabric:
    """Launch the requested processes (or join those of torchrun) and return the Fabric instance."""
    with _unchanged(_SET_BY_FABRIC):
        from lightning_fabric import Fabric
        from lightning_fabric.strategies.ddp import DDPStrategy

    under_torchrun = "TORCHELASTIC_RUN_ID" in os.environ
    accelerator, devices = options.accelerator, options.devices
    if accelerator == "auto" and not torch.cuda.is_available() and not torch.backends.mps.is_available():
        accelerator = "cpu"
    if devices == "auto" and accelerator == "cpu":
        devices = int(os.environ["LOCAL_WORLD_SIZE"]) if under_torchrun else 1
    dtype = dtype_for(accelerator) if options.dtype == "auto" else options.dtype
    several = devices != 1 or options.nodes > 1
    try:
        fabric = Fabric(
            accelerator=accelerator,
            devices=devices,
            num_nodes=options.nodes,
            # Batch-norm statistics are not synchronised between steps, and nothing is broadcast inside a step.
            strategy=DDPStrategy(broadcast_buffers=False) if several and accelerator != "mps" else "auto",
            precision=_FABRIC[dtype],
        )
    except (RuntimeError, TypeError, ValueError) as error:
        names = ("accelerator", "devices", "dtype")
        asked = " ".join(option(name, getattr(options, name)) for name in names)
        raise ConfigError(f"{asked} is not available on this machine: {error}") from None
    fabric.launch()
    return fabric


@contextmanager
def _unchanged(variable: str) -> Iterator[None]:
    """Restore an environment variable afterwards."""
    before = os.environ.get(variable)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(variable, None)
        else:
            os.environ[variable] = before


def dtype_for(accelerator: str) -> str:
    """Default number format for an accelerator."""
    if accelerator not in ("cuda", "gpu", "auto") or not torch.cuda.is_available():
        return "float32"
    return "bfloat16" if torch.cuda.is_bf16_supported() else "float16"


def seed_torch(seed: int) -> None:
    """Seed the generators of torch.

    On a CPU-only machine this avoids ``torch.manual_seed``, which takes about a millisecond to look for other devices.
    """
    if torch.cuda.is_available() or torch.backends.mps.is_available():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


def preserved_random_state() -> AbstractContextManager[None]:
    """Restore the random state of torch afterwards, so that a training does not affect its caller."""
    return torch.random.fork_rng(devices=range(torch.cuda.device_count()))


def synchronize_batchnorm(module: nn.Module, device: torch.device, can_freeze: bool = True) -> None:
    """Convert batch-norm layers that update statistics to synchronised ones, in place."""
    module.train()
    is_live = any(isinstance(part, _BatchNorm) and part.training for part in module.modules())
    if not is_live:
        return
    if device.type == "cpu":
        raise ConfigError(
            "Batch-norm statistics cannot be synchronised between CPU processes. Pass "
            + (f"{option('freeze_batchnorm', True)} to freeze them, or " if can_freeze else "")
            + f"{option('devices', 1)}."
        )
    convert_sync_batchnorm(module)  # type: ignore[no-untyped-call]


@contextmanager
def double_outputs(wanted: bool) -> Iterator[None]:
    """Keep logits of a double-precision network in double; Fabric casts outputs to torch's default number format."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64 if wanted else before)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


class Interruption:
    """Handler of Ctrl-C and SIGTERM: the first one stops after the current step, the second one immediately."""

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
