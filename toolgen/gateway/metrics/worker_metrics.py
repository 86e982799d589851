"""Metrics exchanged between the workers of a gateway: a scrape reaches only one worker, and stays there while its connection lasts."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from toolgen.core.descriptors import open_descriptor, replace_file
from toolgen.gateway.metrics.prometheus import DETAILS

__all__ = ["WorkerMetrics", "merged"]

_ASKED_S = 600.0  # seconds for which workers share their metrics after a request
_FRESH_S = 10.0  # metrics older than this are from a worker that stopped, or hangs
_HELP = b"# HELP "


class WorkerMetrics:
    """Folder in which each worker stores its metrics, once a second while they are requested. Its files contain names, and only their owner
    may read them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def asked(self, detail: Collection[str]) -> None:
        """Note a request for metrics: from now on all workers write theirs."""
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for name in ("asked", *(("asked-names",) if detail else ())):
                (self._folder / name).touch(mode=0o600)

    def wanted(self) -> Collection[str] | None:
        """Return the details to write besides the sums; None without a recent request."""
        if not self._is_recent("asked", _ASKED_S):
            return None
        return DETAILS if self._is_recent("asked-names", _ASKED_S) else ()

    def put(self, worker: str, text: bytes) -> None:
        """Store the current metrics of this worker. A failure has no effect on calls."""
        path = self._folder / f"{worker}.metrics"
        part = path.with_suffix(".part")
        with contextlib.suppress(OSError):
            fd = open_descriptor(part, "WRONLY", "CREAT", "TRUNC", "NOFOLLOW")
            with os.fdopen(fd, "wb") as file:
                file.write(text)
            replace_file(part, path)

    def others(self, worker: str) -> Iterator[bytes]:
        """Yield the latest metrics of the other workers, in order of their names."""
        for path in sorted(self._folder.glob("*.metrics")):
            if path.stem != worker and self._is_recent(path.name, _FRESH_S):
                with contextlib.suppress(OSError):
                    yield path.read_bytes()

    def _is_recent(self, name: str, seconds: float) -> bool:
        try:
            return time.time() - (self._folder / name).stat().st_mtime < seconds
        except OSError:
            return False


def merged(own: bytes, others: Iterable[bytes]) -> bytes:
    """Merge metrics texts: each family once, with all samples. Families that `own` does not have are left out, so that a scrape of sums
    gets no names."""
    families = dict(_families(own))
    for text in others:
        for name, lines in _families(text):
            if name in families:
                families[name] += lines[2:]
    return b"\n".join(line for lines in families.values() for line in lines) + b"\n"


def _families(text: bytes) -> Iterator[tuple[bytes, list[bytes]]]:
    """Return the families of a text in the format of `rendered`: HELP, TYPE and samples of each, by its name."""
    for part in text.split(b"\n" + _HELP) if text else ():
        lines = (_HELP + part.removeprefix(_HELP)).rstrip(b"\n").split(b"\n")
        yield lines[0].split(b" ", 3)[2], lines
