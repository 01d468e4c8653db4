"""Background work that runs while the user pauses."""

from __future__ import annotations

import atexit
import time
from collections.abc import Callable
from threading import Condition, Thread

from positively.logs import logger

_ENOUGH, _PRESSING = 12, 120
"""Number of answers after which to renew in a pause, and after which to renew at once."""
_PAUSE_SECONDS = 2.0


class Renewal:
    """Calls ``renew`` in a background thread after some answers, then ``done``."""

    def __init__(self, renew: Callable[[], None], done: Callable[[], None]) -> None:
        self._renew, self._done = renew, done
        self._condition, self._answers, self._last, self._stopped = Condition(), 0, 0.0, False
        self._thread = Thread(target=self._run, name="renewal", daemon=True)
        self._thread.start()

    def add(self, answers: int) -> None:
        """Report new answers."""
        with self._condition:
            self._answers += answers
            self._last = time.monotonic()
            self._condition.notify()

    def stop(self) -> None:
        """Stop the thread. A running renewal is only waited for at the end of the process."""
        with self._condition:
            self._stopped = True
            self._condition.notify()
        self._thread.join(timeout=1.0)
        if self._thread.is_alive():
            atexit.register(self._thread.join)  # a thread that is killed inside torch would crash the process

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
            except Exception:  # the review continues with the old model
                logger.exception("The model could not be renewed; the review continues with the old one.")
            self._done()
