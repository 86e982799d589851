"""Descendants of an MCP server's command: all processes that it started are found and ended.

On Linux a command starts as the subreaper of its descendants (prctl(2), PR_SET_CHILD_SUBREAPER), so that a process that forked twice or
has a session of its own is still below it. Processes that outlive the command are found by a mark in their environment.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from toolgen.core.process_table import ProcessId, ProcessTable, process_table

__all__ = ["MARK", "Descendants", "begun_as_subreaper"]

MARK: Final = "TOOLGEN_COMMAND"
"""The environment variable that every process of a command is begun with."""
_MAX_ROUNDS = 20
# Becomes the command, so that nothing of it stays in memory. 36 is PR_SET_CHILD_SUBREAPER (linux/prctl.h).
_LAUNCHER = "import ctypes,os,sys;ctypes.CDLL(None).prctl(36,1,0,0,0);os.execvp(sys.argv[1],sys.argv[1:])"


def begun_as_subreaper(command: tuple[str, ...]) -> tuple[str, ...]:
    """The command line that makes a process the subreaper of what it starts, and then becomes the command."""
    return (sys.executable, "-I", "-S", "-c", _LAUNCHER, *command) if sys.platform == "linux" else command


class Descendants:
    """Processes that one command started. `mark` belongs into its environment."""

    def __init__(self, table: ProcessTable | None = None) -> None:
        self.mark = secrets.token_hex(16)
        self._table = table or process_table()
        self._seen: frozenset[ProcessId] = frozenset()

    def look(self, command: int) -> None:
        """Remember the processes below the command now: after it has ended, their parent is another."""
        self._seen = frozenset(self._below(command))

    def end(self, command: int) -> None:
        """End the command's process group and all processes that are below it, or were at the last look."""
        _signal_group(command, "SIGSTOP")  # so that it starts nothing more meanwhile
        if (table := self._table) is not None:
            started = table.started(command)
            for _ in range(_MAX_ROUNDS):
                alive = {one for one in self._below(command) if one.number != command}
                alive |= {
                    one for one in self._seen if one.number != command and table.started(one.number) == one.started
                }
                if not alive:
                    break
                for one in alive:
                    table.kill(one)
            if started and not hasattr(os, "killpg"):
                table.kill(ProcessId(command, started))
        _signal_group(command, "SIGKILL")

    def _below(self, command: int) -> Iterator[ProcessId]:
        """Every process that runs below the command, or has its mark."""
        if self._table is None:
            return
        found = self._table.parents()
        parents = {one.number: parent for one, parent in found.items()}
        for one in found:
            if _is_below(one.number, command, parents) or self._table.has_variable(one.number, MARK, self.mark):
                yield one


def _signal_group(command: int, name: str) -> None:
    """Signal the process group of the command, where the system has process groups."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(command, signal.Signals[name])


def _is_below(number: int, command: int, parents: dict[int, int]) -> bool:
    seen: set[int] = set()
    while (parent := parents.get(number)) and parent not in seen:
        if parent == command:
            return True
        seen.add(parent)
        number = parent
    return False
