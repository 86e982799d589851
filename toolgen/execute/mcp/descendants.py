"""What a command started, however it tried to get away: found and ended on Linux; elsewhere its process group is all that is known.

A command is begun as the subreaper of whatever it starts (prctl(2), PR_SET_CHILD_SUBREAPER), so that a process that forked twice or has a
session of its own is still below it. What outlives the command itself is found by a mark in its environment.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

__all__ = ["MARK", "Descendants", "begun_as_subreaper"]

MARK: Final = "TOOLGEN_COMMAND"
"""The environment variable that every process of a command is begun with."""
_MOST_ROUNDS = 20
# Becomes the command, so that nothing of it stays in memory. 36 is PR_SET_CHILD_SUBREAPER (linux/prctl.h).
_LAUNCHER = "import ctypes,os,sys;ctypes.CDLL(None).prctl(36,1,0,0,0);os.execvp(sys.argv[1],sys.argv[1:])"


class _Process(NamedTuple):
    """A process by what no other has, however often its number is given out."""

    number: int
    started: str


def begun_as_subreaper(command: tuple[str, ...]) -> tuple[str, ...]:
    """The command line that makes a process the subreaper of what it starts, and then becomes the command."""
    return (sys.executable, "-I", "-S", "-c", _LAUNCHER, *command) if sys.platform == "linux" else command


class Descendants:
    """What one command started. `mark` belongs into its environment."""

    def __init__(self) -> None:
        self.mark = secrets.token_hex(16)
        self._seen: frozenset[_Process] = frozenset()

    def look(self, command: int) -> None:
        """Remembers what runs below the command now: once it is gone, nobody could tell."""
        self._seen = frozenset(_below(command, self.mark))

    def end(self, command: int) -> None:
        """Ends the command's process group and all that is below it, or was when somebody last looked."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(command, signal.SIGSTOP)  # so that it starts nothing more meanwhile
        for _ in range(_MOST_ROUNDS):
            alive = {one for one in _below(command, self.mark) if one.number != command}
            alive |= {one for one in self._seen if one.number != command and _started(one.number) == one.started}
            if not alive:
                break
            _kill(alive)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(command, signal.SIGKILL)


def _kill(processes: Iterable[_Process]) -> None:
    for one in processes:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(one.number, signal.SIGKILL)


def _below(command: int, mark: str) -> Iterator[_Process]:
    """Every process that runs below the command, or has its mark."""
    parents: dict[int, int] = {}
    found: dict[int, _Process] = {}
    for number in _numbers():
        if (fields := _stat(number)) and fields[0] not in "ZX":
            parents[number], found[number] = int(fields[1]), _Process(number, fields[19])
    for number, one in found.items():
        if _is_below(number, command, parents) or _is_marked(number, mark):
            yield one


def _is_below(number: int, command: int, parents: dict[int, int]) -> bool:
    seen: set[int] = set()
    while (parent := parents.get(number)) and parent not in seen:
        if parent == command:
            return True
        seen.add(parent)
        number = parent
    return False


def _is_marked(number: int, mark: str) -> bool:
    try:
        with open(f"/proc/{number}/environ", "rb") as file:
            return f"{MARK}={mark}".encode() in file.read().split(b"\0")
    except OSError:  # gone meanwhile, or another account's
        return False


def _started(number: int) -> str:
    """When the process with this number began; "" where there is none, or one that has ended."""
    fields = _stat(number)
    return fields[19] if fields and fields[0] not in "ZX" else ""


def _stat(number: int) -> list[str]:
    """The fields of /proc/PID/stat (proc(5)) from its state on; the name before them may hold anything."""
    try:
        with open(f"/proc/{number}/stat", encoding="latin-1") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def _numbers() -> Iterator[int]:
    try:
        return (int(name) for name in os.listdir("/proc") if name.isdigit())
    except OSError:
        return iter(())
