"""Work for the background: done when the hand rests, so that it is never felt."""

from __future__ import annotations

import atexit
import time
from collections.abc import Callable
from threading import Condition, Thread

from positively.logs import logger

_ENOUGH, _PRESSING = 12, 120
"""Answers after which it is worth while, and after which it no longer waits for a pause."""
_PAUSE_SECONDS = 2.0


class Renewal:
    """Calls ``renew`` in a thread of its own after some answers, then ``done``."""

    def __init__(self, renew: Callable[[], None], done: Callable[[], None]) -> None:
        self._renew, self._done = renew, done
        self._condition, self._answers, self._last, self._stopped = Condition(), 0, 0.0, False
        self._thread = Thread(target=self._run, name="renewal", daemon=True)
        self._thread.start()

    def add(self, answers: int) -> None:
        """Tell that answers were given."""
        with self._condition:
            self._answers += answers
            self._last = time.monotonic()
            self._condition.notify()

    def stop(self) -> None:
        """End the thread; a renewal that has begun is waited for by nobody but the end of the process."""
        with self._condition:
            self._stopped = True
            self._condition.notify()
        self._thread.join(timeout=1.0)
        if self._thread.is_alive():
            atexit.register(self._thread.join)  # a thread that is cut off inside torch takes the process down with it

    def _is_due(self) -> bool:
        rests = time.monotonic() - self._last >= _PAUSE_SECONDS
        return self._answers >= (_ENOUGH if rests else _PRESSING)

    def _run(self) -> None:
        while True:
            with self._condition:
                while not (self._stopped or self._is_due()):
                    self._condition.wait(_PAUSE_SECONDS if self._answers >= _ENOUGH else None)
                if self._stopped:
                    return
                self._answers = 0
            try:
                self._renew()
            except Exception:  # the review goes on with what it knew
                logger.exception("The model could not be renewed; it goes on as it is.")
            self._done()
