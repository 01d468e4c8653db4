"""What a person sees while it trains: a bar in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from positively.logs import console, is_shown, logger

_LINE_SECONDS = 30.0
_BAR_SECONDS = 0.2
_EPOCH_SECONDS = 1.0


class TrainingProgress:
    """Loss parts, images a second and time left, over all steps of a run; silent on all processes but the first."""

    def __init__(self, steps: int, done: int, visible: bool = True) -> None:
        self.visible, self.total, self.done = visible, steps, done
        self._began = self._last = time.perf_counter()
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
        """Mean speed of this process's run so far."""
        return self._images / max(time.perf_counter() - self._began, 1e-9)

    def is_due(self) -> bool:
        """Whether it is time to show something: reading a loss off a GPU makes it wait, so not at every step."""
        return self.visible and time.perf_counter() - self._last > (_BAR_SECONDS if self._bar else _LINE_SECONDS)

    def is_epoch_due(self) -> bool:
        """Whether an epoch that ended is worth a line: on a small table there are hundreds, of milliseconds each."""
        now = time.perf_counter()
        if self._last_epoch is not None and now - self._last_epoch < _EPOCH_SECONDS:
            return False
        self._last_epoch = now
        return True

    def step(self, images: int) -> None:
        """Count one step."""
        self.done += 1
        self._images += images

    def show(self, where: str, parts: dict[str, float]) -> None:
        """Show where the run is."""
        self._last = time.perf_counter()
        state = f"{describe(parts)}  {self.images_per_second:.0f} img/s"
        if self._bar:
            self._bar.update(self._task, completed=self.done, description=where, state=state)
        else:
            left = (self._last - self._began) / max(self.done, 1) * (self.total - self.done)
            logger.info(f"{where}: {state}  {left / 60:.1f} min left")


def describe(parts: dict[str, float]) -> str:
    """``variational -1.234  consistency 0.567``."""
    return "  ".join(f"{name} {value:.3f}" for name, value in parts.items())
