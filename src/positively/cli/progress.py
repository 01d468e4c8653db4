"""A bar that counts, in a terminal; nothing elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import Progress

from positively.logs import console


@contextmanager
def counting(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar while the block runs; call the function with how many more are done."""
    with Progress(console=console(), transient=True, disable=not console().is_terminal) as progress:
        task = progress.add_task(what, total=total)
        yield lambda more: progress.advance(task, more)
