"""Brings checkpoints to a place outside the log: in order, again and again until they are there, and never in the way of a call."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque

from toolgen.audit.plan import Place

__all__ = ["Courier"]

_logger = logging.getLogger(__name__)
_MOST_WAITING = 1000  # the newest say what the older ones said; all are beside the log
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 300.0
_ENDING_S = 5.0


class Courier:
    """One place, and the thread that serves it."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._waiting: deque[tuple[str, bytes]] = deque(maxlen=_MOST_WAITING)
        self._changed = threading.Condition()
        self._stopping = False
        self._delivered = time.monotonic()
        self._failed = 0
        self.fault = ""
        self._thread = threading.Thread(target=self._run, name="audit-courier", daemon=True)
        self._thread.start()

    def bring(self, name: str, data: bytes) -> None:
        """Takes a checkpoint along; returns at once."""
        with self._changed:
            if not self._waiting:
                self._delivered = time.monotonic()  # nothing was owed until now
            self._waiting.append((name, data))
            self._changed.notify()

    def owing_s(self) -> float:
        """For how long something has been waiting without anything having been delivered."""
        with self._changed:
            return time.monotonic() - self._delivered if self._waiting else 0.0

    def stop(self) -> None:
        """Ends once what waits is delivered, or could not be after one more attempt."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join(_ENDING_S)

    def _run(self) -> None:
        pause = 0.0
        while True:
            with self._changed:
                if pause:
                    self._changed.wait_for(lambda: self._stopping, pause)
                else:
                    self._changed.wait_for(lambda: self._stopping or bool(self._waiting))
                if not self._waiting:
                    return
                item, stopping = self._waiting[0], self._stopping
            if self._attempt(*item):
                pause = 0.0
                with self._changed:
                    self._delivered = time.monotonic()
                    if self._waiting and self._waiting[0] is item:
                        self._waiting.popleft()
            elif stopping:
                return
            else:
                pause = self._next_pause()

    def _next_pause(self) -> float:
        self._failed += 1
        return min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** (self._failed - 1))

    def _attempt(self, name: str, data: bytes) -> bool:
        try:
            self._place.deliver(name, data)
        except Exception as error:  # noqa: BLE001 - whatever it is, the checkpoint has to be brought again
            known = error.strerror or str(error) if isinstance(error, OSError) else type(error).__name__
            fault = f"checkpoints do not reach {self._place.name}: {known}"
            if fault != self.fault:
                _logger.error("%s", fault)  # noqa: TRY400 - it says all there is to say
            self.fault = fault
            return False
        if self.fault:
            _logger.warning("checkpoints reach %s again", self._place.name)
        self.fault, self._failed = "", 0
        return True
