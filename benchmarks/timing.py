"""Timing of alternatives, such that their ratio is reliable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter


def measure(tasks: Mapping[str, Callable[[], object]], repeats: int = 5) -> dict[str, float]:
    """Seconds of the fastest of ``repeats`` runs of each task.

    The tasks alternate, so that load on the machine affects all of them. Each task runs once before, without being
    measured, to exclude imports and caches.
    """
    for task in tasks.values():
        task()
    best = dict.fromkeys(tasks, float("inf"))
    for _ in range(repeats):
        for name, task in tasks.items():
            start = perf_counter()
            task()
            best[name] = min(best[name], perf_counter() - start)
    return best


def ratio_table(title: str, seconds: Mapping[str, float]) -> str:
    """Format a table of times, also relative to the first task."""
    ours = next(iter(seconds.values()))
    width = max(len(title), *(len(name) for name in seconds))
    rows = [f"{name:<{width}}  {1000 * time:10.1f} ms  {time / ours:7.2f} ×" for name, time in seconds.items()]
    return "\n".join([f"{title:<{width}}  {'best run':>13}  {'to first':>9}", *rows])
