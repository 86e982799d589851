"""Protection of the memory of a process: no core dump when it crashes, and no access by other processes of its account."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys

__all__ = ["ALLOWED", "forbid_core_dumps"]

ALLOWED = "TOOLGEN_CORE_DUMPS"
"""The environment variable that leaves everything as it is where it is 1, for those who debug a crash."""

_PR_SET_DUMPABLE = 4  # linux/prctl.h


def forbid_core_dumps() -> None:
    """Forbids them to this process, which holds the secrets of the systems behind it.

    The limit is inherited by the processes it starts. On Linux the process is not dumpable either, which no program inherits, so each of
    ours asks for it: then a kernel that pipes cores to a collector writes none, and `/proc/PID/mem`, `environ` and ptrace are root's
    alone (prctl(2), proc(5), ptrace(2)).
    """
    if os.environ.get(ALLOWED) == "1":
        return
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource  # noqa: PLC0415 - not on every system

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
