"""Progress of a training."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Self

from positively.logs import Progress, counted_progress

_EPOCH_SECONDS = 1.0


class TrainingProgress(ExitStack):
    """Progress over all steps of a training, with speed and time left.

    Args:
        steps: Total number of steps.
        done: Number of steps done before, when a training is resumed.
        visible: Whether to show anything; False on all processes but the first.
    """

    def __init__(self, steps: int, done: int, visible: bool = True) -> None:
        super().__init__()
        self.visible, self.total, self.done = visible, steps, done
        self._first, self._began = done, time.perf_counter()
        self._images = 0
        self._last_epoch: float | None = None
        self._shown: Progress | None = None

    def __enter__(self) -> Self:
        if self.visible:
            self._shown = self.enter_context(counted_progress("Training", self.total - self._first))
        return self

    @property
    def images_per_second(self) -> float:
        """Mean number of images per second of this process."""
        return self._images / max(time.perf_counter() - self._began, 1e-9)

    def is_epoch_due(self) -> bool:
        """Whether to log the epoch that ended, at most once per second: short epochs take milliseconds."""
        now = time.perf_counter()
        if self._last_epoch is not None and now - self._last_epoch < _EPOCH_SECONDS:
            return False
        self._last_epoch = now
        return True

    def step(self, images: int, epoch: str) -> None:
        """Count one step.

        Args:
            images: Number of images in the step.
            epoch: Epoch to show, such as ``2/20``.
        """
        self.done += 1
        self._images += images
        if self._shown is not None:
            self._shown.what = f"Epoch {epoch}"
            self._shown.advance()

    def pace(self) -> str:
        """Images per second and time left: ``120 img/s, 2:30 left``."""
        seconds = (time.perf_counter() - self._began) / max(self.done - self._first, 1) * (self.total - self.done)
        left = f", {int(seconds) // 60}:{int(seconds) % 60:02d} left" if self.done < self.total else ""
        return f"{self.images_per_second:.0f} img/s{left}"


def describe(parts: dict[str, float]) -> str:
    """Format the parts of a loss: ``variational -1.234  consistency 0.567``."""
    return "  ".join(f"{name} {value:.3f}" for name, value in parts.items())
