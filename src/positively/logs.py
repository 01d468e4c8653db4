"""Messages go to the logger ``positively``; this shows them to a person who set up no logging of their own."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from positively.errors import in_python, in_shell

if TYPE_CHECKING:
    from rich.console import Console

_LINE_SECONDS = 30.0

logger = logging.getLogger("positively")
logger.addHandler(logging.NullHandler())


@cache
def console() -> Console:
    """The console of messages and progress bars (standard error): one, so that lines never break a bar."""
    from rich.console import Console

    return Console(stderr=True)


def is_first_process() -> bool:
    """Whether this is the process that speaks, among those that a launcher started."""
    return os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")) == "0"


class _ConsoleHandler(logging.Handler):
    """Plain lines; options are named as the shell or as Python writes them."""

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
        shell: This is the command line, whose process is its own: it shows them in any case, and names options as it
            takes them.
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


@contextmanager
def counted_progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar in a terminal, a line every half a minute elsewhere; call it with how many are done, and of how many."""
    if not is_shown():
        yield lambda done, total: None
        return
    from rich.progress import Progress

    began, last = time.monotonic(), time.monotonic()

    with Progress(console=console(), transient=True, disable=not console().is_terminal) as bar:
        task = bar.add_task(what, total=None)

        def show(done: int, total: int) -> None:
            nonlocal last
            bar.update(task, completed=done, total=total)
            now = time.monotonic()
            if not console().is_terminal and now - last >= _LINE_SECONDS:
                last, rate = now, done / (now - began)
                logger.info(f"{what}: {done:,} of {total:,}, {rate:.0f} a second, {(total - done) / rate:.0f} s left.")

        yield show
