"""Brings checkpoints to a place outside the log: in order, again and again until they are there, and never in the way of a call."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from toolgen.audit.checkpoint import Checkpoint
from toolgen.audit.config import Place
from toolgen.files import read_file

__all__ = ["Courier", "Deliveries"]

_logger = logging.getLogger(__name__)
_MAX_WAITING = 1000  # the newest say what the older ones said; all are beside the log
_FIRST_PAUSE_S = 1.0
_MAX_PAUSE_S = 300.0
_ENDING_S = 5.0
_FIRST_ATTEMPT_S = 5.0
_MAX_SIZE = 64 * 1024


class Deliveries:
    """What each place last got of a stream, by the place's name, in a file beside the log: a restart forgets nothing that is owed."""

    def __init__(self, directory: Path, stream: str) -> None:
        self._path = directory / f"{stream}.delivered"
        self._lock = threading.Lock()

    def size(self, place: str) -> int | None:
        """How many entries the newest checkpoint covers that arrived there; None where nothing is known."""
        return self._read().get(place)

    def note(self, place: str, size: int) -> None:
        """Remembers what arrived. Raises `OSError`."""
        with self._lock:
            part = self._path.with_name(self._path.name + ".part")
            part.write_bytes(msgspec.json.encode(self._read() | {place: size}))
            part.chmod(0o600)
            part.replace(self._path)

    def _read(self) -> dict[str, int]:
        try:
            return msgspec.json.decode(read_file(self._path, _MAX_SIZE), type=dict[str, int])
        except (OSError, msgspec.DecodeError):  # what is not known to have arrived is brought again
            return {}


class Courier:
    """One place, and the thread that serves it."""

    def __init__(self, place: Place, deliveries: Deliveries) -> None:
        self._place = place
        self._deliveries = deliveries
        self._waiting: deque[Checkpoint] = deque(maxlen=_MAX_WAITING)
        self._changed = threading.Condition()
        self._stopping = False
        self._started = self._owed_since = time.monotonic()
        self._tried = False
        self._failed = 0
        self.fault = ""
        self._thread = threading.Thread(target=self._run, name="audit-courier", daemon=True)
        self._thread.start()

    def go_on(self, signed: Sequence[Checkpoint], now: float) -> None:
        """Takes the newest of these along, if it is not there yet. What is owed is owed since the oldest was signed that is missing there.

        A place that nothing is known of is new: it is owed nothing but from now on.
        """
        delivered = self._deliveries.size(self._place.name)
        missing = [checkpoint for checkpoint in signed if delivered is None or checkpoint.size > delivered]
        if missing:
            owed_s = 0.0 if delivered is None else max(0.0, now - datetime.fromisoformat(missing[0].time).timestamp())
            self.bring(missing[-1], owed_s)

    def bring(self, checkpoint: Checkpoint, owed_s: float = 0.0) -> None:
        """Takes a checkpoint along, which has been owed for so long; returns at once."""
        with self._changed:
            if not self._waiting:
                self._owed_since = time.monotonic() - owed_s
            self._waiting.append(checkpoint)
            self._changed.notify()

    def owing_s(self) -> float:
        """For how long something has been waiting without anything having been delivered.

        What an earlier process left counts once this one has tried to bring it: until then nobody knows whether the place can be reached.
        """
        with self._changed:
            now = time.monotonic()
            known = self._tried or now - self._started > _FIRST_ATTEMPT_S
            since = self._owed_since if known else max(self._owed_since, self._started)
            return now - since if self._waiting else 0.0

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
            arrived = self._attempt(item)
            with self._changed:
                self._tried = True
                if arrived:
                    pause = 0.0
                    self._owed_since = time.monotonic()
                    if self._waiting and self._waiting[0] is item:
                        self._waiting.popleft()
            if not arrived and stopping:
                return
            if not arrived:
                pause = self._next_pause()

    def _next_pause(self) -> float:
        self._failed += 1
        return min(_MAX_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** (self._failed - 1))

    def _attempt(self, checkpoint: Checkpoint) -> bool:
        try:
            self._place.deliver(f"{checkpoint.stream}-{checkpoint.size:012d}.checkpoint", checkpoint.line + b"\n")
            self._deliveries.note(self._place.name, checkpoint.size)
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
