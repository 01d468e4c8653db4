"""Devices, processes and precision: Lightning Fabric, set up from the run's options."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

import torch

from positively.errors import ConfigError
from positively.training.config import TrainConfig

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def launch(options: TrainConfig) -> Fabric:
    """Start the processes asked for (or join those torchrun started) and return the engine."""
    from lightning_fabric import Fabric
    from lightning_fabric.strategies.ddp import DDPStrategy

    under_torchrun = "TORCHELASTIC_RUN_ID" in os.environ
    accelerator, devices = options.accelerator, options.devices
    if accelerator == "auto" and not torch.cuda.is_available() and not torch.backends.mps.is_available():
        accelerator = "cpu"
    if accelerator == "cpu":
        keep_freed_memory()
    if devices == "auto" and accelerator == "cpu":
        devices = int(os.environ["LOCAL_WORLD_SIZE"]) if under_torchrun else 1
    precision: Any = precision_for(accelerator) if options.precision == "auto" else options.precision
    several = devices != 1 or options.nodes > 1
    try:
        fabric = Fabric(
            accelerator=accelerator,
            devices=devices,
            num_nodes=options.nodes,
            # Batch-norm statistics stay each process's own between steps; nothing is broadcast inside a step.
            strategy=DDPStrategy(broadcast_buffers=False) if several and accelerator != "mps" else "auto",
            precision=precision,
        )
    except (RuntimeError, TypeError, ValueError) as error:
        asked = f"--accelerator {options.accelerator} --devices {options.devices} --precision {options.precision}"
        raise ConfigError(f"{asked} cannot be had here: {error}") from None
    fabric.launch()
    return fabric


def keep_freed_memory() -> None:
    """Let a CPU process keep the memory it frees, where the C library is glibc.

    By default every large tensor is mapped anew from the kernel and given back, page by page: at 224 px that costs as
    much time as the network itself. Kept, the same memory serves the next layer.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        tune = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return
    trim_threshold, mmap_max = -1, -4
    tune(mmap_max, 0)
    tune(trim_threshold, 2**31 - 1)


def precision_for(accelerator: str) -> str:
    """Number format that suits a kind of device."""
    if accelerator not in ("cuda", "gpu", "auto") or not torch.cuda.is_available():
        return "32-true"
    return "bf16-mixed" if torch.cuda.is_bf16_supported() else "16-mixed"


def seed_torch(seed: int) -> None:
    """Seed torch's generators.

    ``torch.manual_seed`` also writes a traceback for each kind of device that is not there, which takes a millisecond.
    """
    if torch.cuda.is_available() or torch.backends.mps.is_available():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


@contextmanager
def double_outputs(wanted: bool) -> Iterator[None]:
    """Keep a double-precision network's logits in double: Fabric casts outputs to torch's default number format."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64 if wanted else before)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


class Interruption:
    """Ctrl-C (or a polite kill) asks to stop after the step under way; a second one stops at once."""

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

    def agreed(self, fabric: Fabric) -> bool:
        """Whether any process was asked to stop: all of them stop after the same step."""
        if fabric.world_size == 1:
            return self.asked
        flag = torch.tensor(float(self.asked), device=fabric.device)
        asked = fabric.all_reduce(flag, reduce_op="sum")
        return isinstance(asked, torch.Tensor) and bool(asked > 0)
