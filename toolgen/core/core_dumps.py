"""Protection of the memory of a process: no core dump when it crashes, and no access by other processes of its account."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys

__all__ = ["ALLOWED", "forbid_core_dumps"]

ALLOWED = "TOOLGEN_CORE_DUMPS"
"""Environment variable that disables the protection if it is 1, for the debugging of crashes."""

_PR_SET_DUMPABLE = 4  # linux/prctl.h


def forbid_core_dumps() -> None:
    """Disable core dumps of this process, which has the secrets of other systems.

    The limit is inherited by the processes it starts. On Linux the process is not dumpable either, which is not inherited, so each of
    toolgen's processes calls this: then a kernel that pipes cores to a collector writes none, and only root may use `/proc/PID/mem`,
    `environ` and ptrace (prctl(2), proc(5), ptrace(2)).
    """
    if os.environ.get(ALLOWED) == "1":
        return
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource  # noqa: PLC0415 - not on every system

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
