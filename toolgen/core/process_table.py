"""Processes of this machine: parents, start times, environment variables, ending them, and memory and files of this process.

Linux has them in /proc (proc(5)). Other systems are queried through psutil, which is a dependency there.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from toolgen.core.system_modules import system_module

__all__ = ["ProcFiles", "ProcessId", "ProcessTable", "Psutil", "process_table"]


class ProcessId(NamedTuple):
    """Number and start time of a process, which together are unique, even if a number is reused."""

    number: int
    started: str


class ProcessTable(Protocol):
    """Processes as the system shows them. No method raises for a process that has ended or belongs to another account."""

    def parents(self) -> dict[ProcessId, int]:
        """Return the running processes, each with the number of its parent."""

    def started(self, number: int) -> str:
        """Return the start time of a process; "" if no process with this number runs."""

    def has_variable(self, number: int, name: str, value: str) -> bool:
        """Return True if a process began with this environment variable."""

    def kill(self, process: ProcessId) -> None:
        """End a process at once."""

    def memory(self) -> int:
        """Return the resident bytes of this process."""

    def open_files(self) -> int:
        """Return the number of open descriptors of this process, or handles on Windows."""


class ProcFiles:
    """Processes in the files of /proc."""

    def parents(self) -> dict[ProcessId, int]:
        try:
            numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        except OSError:
            return {}
        found = {}
        for number in numbers:
            if fields := _running(number):
                found[ProcessId(number, fields[19])] = int(fields[1])
        return found

    def started(self, number: int) -> str:
        fields = _running(number)
        return fields[19] if fields else ""

    def has_variable(self, number: int, name: str, value: str) -> bool:
        try:
            with open(f"/proc/{number}/environ", "rb") as file:
                return f"{name}={value}".encode() in file.read().split(b"\0")
        except OSError:
            return False

    def kill(self, process: ProcessId) -> None:
        if self.started(process.number) == process.started:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process.number, signal.SIGKILL)

    def memory(self) -> int:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def open_files(self) -> int:
        return len(os.listdir("/proc/self/fd"))


def _running(number: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on, if the process has not ended. The name before them may contain any
    characters.
    """
    try:
        with open(f"/proc/{number}/stat", encoding="latin-1") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return []
    return fields if fields and fields[0] not in "ZX" else []


class Psutil:
    """Processes by psutil. `library` is the package."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def parents(self) -> dict[ProcessId, int]:
        found: dict[ProcessId, int] = {}
        for one in self._library.process_iter(["ppid", "create_time", "status"]):
            about = one.info
            if about["create_time"] is not None and about["status"] != self._library.STATUS_ZOMBIE:
                found[ProcessId(one.pid, repr(about["create_time"]))] = about["ppid"] or 0
        return found

    def started(self, number: int) -> str:
        try:
            process = self._library.Process(number)
            ended = process.status() == self._library.STATUS_ZOMBIE
            return "" if ended else repr(process.create_time())
        except self._library.Error:
            return ""

    def has_variable(self, number: int, name: str, value: str) -> bool:
        try:
            return bool(self._library.Process(number).environ().get(name) == value)
        except (self._library.Error, OSError):
            return False

    def kill(self, process: ProcessId) -> None:
        with suppress(self._library.Error):
            found = self._library.Process(process.number)
            if repr(found.create_time()) == process.started:
                found.kill()

    def memory(self) -> int:
        return int(self._library.Process().memory_info().rss)

    def open_files(self) -> int:
        process = self._library.Process()
        return int(process.num_fds() if hasattr(process, "num_fds") else process.num_handles())


def process_table() -> ProcessTable | None:
    """Return the processes of this system; None if neither /proc nor psutil exists."""
    if os.path.exists("/proc/self/stat"):
        return ProcFiles()
    library = system_module("psutil")
    return None if library is None else Psutil(library)
