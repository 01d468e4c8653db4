"""Progress of a training: a bar in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from positively.logs import console, is_shown, logger

_LINE_SECONDS = 30.0
_BAR_SECONDS = 0.2
_EPOCH_SECONDS = 1.0


class TrainingProgress:
    """Progress over all steps of a training: epoch, loss, images per second and time left.

    Args:
        steps: Total number of steps.
        done: Steps done before, when a training is resumed.
        visible: Whether to show anything; False on all processes but the first.
    """

    def __init__(self, steps: int, done: int, visible: bool = True) -> None:
        self.visible, self.total, self.done = visible, steps, done
        self._first, self._began = done, time.perf_counter()
        self._last = self._began
        self._images = 0
        self._last_epoch: float | None = None
        self._bar: Progress | None = None
        if visible and is_shown() and console().is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[state]}"))
            self._bar = Progress(*columns, TimeRemainingColumn(), console=console(), transient=True)
            self._task = self._bar.add_task("training", total=steps, completed=done, state="")

    def __enter__(self) -> TrainingProgress:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    @property
    def images_per_second(self) -> float:
        """Mean number of images per second of this process."""
        return self._images / max(time.perf_counter() - self._began, 1e-9)

    def is_due(self) -> bool:
        """Whether to update the display. Not at every step, because reading the loss synchronises the GPU."""
        return self.visible and time.perf_counter() - self._last > (_BAR_SECONDS if self._bar else _LINE_SECONDS)

    def is_epoch_due(self) -> bool:
        """Whether to log the epoch that ended, at most once per second: short epochs take milliseconds."""
        now = time.perf_counter()
        if self._last_epoch is not None and now - self._last_epoch < _EPOCH_SECONDS:
            return False
        self._last_epoch = now
        return True

    def step(self, images: int) -> None:
        """Count one step."""
        self.done += 1
        self._images += images

    def pace(self) -> str:
        """Images per second and time left: ``120 img/s, 2:30 left``."""
        seconds = (time.perf_counter() - self._began) / max(self.done - self._first, 1) * (self.total - self.done)
        left = f", {int(seconds) // 60}:{int(seconds) % 60:02d} left" if self.done < self.total else ""
        return f"{self.images_per_second:.0f} img/s{left}"

    def show(self, where: str, parts: dict[str, float]) -> None:
        """Update the display.

        Args:
            where: Position in the training, such as ``epoch 2/20``.
            parts: Parts of the loss.
        """
        self._last = time.perf_counter()
        if self._bar:
            state = f"{describe(parts)}  {self.images_per_second:.0f} img/s"
            self._bar.update(self._task, completed=self.done, description=where, state=state)
        else:
            logger.info(f"{where}: {describe(parts)}  {self.pace()}")


def describe(parts: dict[str, float]) -> str:
    """Format the parts of a loss: ``variational -1.234  consistency 0.567``."""
    return "  ".join(f"{name} {value:.3f}" for name, value in parts.items())
