"""Messages and progress. Messages go to the logger ``positively``; if no logging is set up, they are shown here."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from positively.errors import in_python, in_shell

if TYPE_CHECKING:
    import rich.progress
    from rich.console import Console

T = TypeVar("T")

_LINE_SECONDS = 30.0
_bars: list[rich.progress.Progress] = []

logger = logging.getLogger("positively")
logger.addHandler(logging.NullHandler())


@cache
def console() -> Console:
    """The console of messages and progress bars (standard error). There is one, so lines do not break a bar."""
    from rich.console import Console

    return Console(stderr=True)


def is_first_process() -> bool:
    """Whether this is the process that prints, among those that a launcher started."""
    return os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")) == "0"


class _ConsoleHandler(logging.Handler):
    """Prints plain lines. Options in them are written for the shell or for Python."""

    def __init__(self, shell: bool) -> None:
        super().__init__()
        self.render = in_shell if shell else in_python

    def emit(self, record: logging.LogRecord) -> None:
        """Print one message."""
        text = self.render(record.getMessage())
        console().print(text, markup=False, highlight=False, soft_wrap=True)


def is_shown() -> bool:
    """Whether messages go to our console, where a progress bar may stand too."""
    return any(isinstance(handler, _ConsoleHandler) for handler in logger.handlers)


@contextmanager
def shown(quiet: bool = False, shell: bool = False, verbose: bool = False) -> Iterator[None]:
    """Show our messages while the block runs, unless the program has a handler for them already.

    Args:
        quiet: Show nothing.
        shell: This is the command line: always show them, and write options as the shell takes them.
        verbose: Show details too.
    """
    has_own = any(not isinstance(handler, logging.NullHandler) for handler in logger.handlers)
    ours = [handler for handler in logger.handlers if isinstance(handler, _ConsoleHandler)]
    if quiet and ours:  # a quiet step inside one that is shown
        for handler in ours:
            logger.removeHandler(handler)
        try:
            yield
        finally:
            for handler in ours:
                logger.addHandler(handler)
        return
    is_set_up = not shell and (has_own or bool(logging.getLogger().handlers))
    if quiet or is_set_up or not is_first_process():
        yield
        return
    handler, level = _ConsoleHandler(shell), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


class Progress:
    """Counts what is done: a bar in a terminal, a line every half a minute elsewhere."""

    def __init__(self, what: str, total: int | None, bar: rich.progress.Progress | None) -> None:
        self.what, self.total, self.done = what, total, 0
        self._bar, self._began, self._last = bar, time.monotonic(), time.monotonic()
        self._task = bar.add_task(what, total=total, state="") if bar else None

    def advance(self, more: int = 1) -> None:
        """Count some more."""
        self(self.done + more, self.total)

    def __call__(self, done: int, total: int | None) -> None:
        """Show how many are done, and of how many."""
        self.done, self.total, now = done, total, time.monotonic()
        rate = done / max(now - self._began, 1e-9)
        if self._bar is not None and self._task is not None:
            state = f"{done:,} of {total:,}, {rate:,.0f}/s" if total is not None else ""
            self._bar.update(self._task, description=self.what, completed=done, total=total, state=state)
        elif now - self._last >= _LINE_SECONDS and total is not None:
            self._last = now
            left = (total - done) / max(rate, 1e-9)
            logger.info(f"{self.what}: {done:,} of {total:,}, {rate:,.0f} per second, {_duration(left)} left.")


@contextmanager
def counted_progress(what: str, total: int | None = None) -> Iterator[Progress]:
    """Show the progress of the block, if messages are shown; a block within another one is part of it.

    Args:
        what: A few words, such as "Reading photos".
        total: How many there are; None if that is not known, or nothing is counted.
    """
    if not is_shown() or not console().is_terminal or _bars:
        yield Progress(what, total, None)
        return
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    what_column, state_column = TextColumn("{task.description}"), TextColumn("{task.fields[state]}")
    with Bar(what_column, BarColumn(), state_column, TimeRemainingColumn(), console=console(), transient=True) as bar:
        _bars.append(bar)  # the console shows one at a time
        try:
            yield Progress(what, total, bar)
        finally:
            _bars.remove(bar)


def counted(items: Iterable[T], what: str, total: int) -> Iterator[T]:
    """The same items, with progress shown."""
    with counted_progress(what, total) as progress:
        for item in items:
            yield item
            progress.advance()


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
