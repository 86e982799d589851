"""Python without what only POSIX systems have, and a project that is used there: run as a program, by test_without_posix.py.

What is simulated: imports of POSIX-only modules fail, functions of `os` and `signal` and the signal handlers of loops are gone, and files
are locked through a `msvcrt` whose locks are those of this system. Paths, line ends and file sharing stay those of this system.
"""

from __future__ import annotations

import asyncio
import builtins
import fcntl
import os
import signal
import sys
import types
from pathlib import Path
from typing import Any

HIDDEN = frozenset({"fcntl", "termios", "resource", "pwd", "grp", "pty", "tty", "uvloop"})
_import = builtins.__import__


def _locking(descriptor: int, mode: int, count: int) -> None:
    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, count, os.lseek(descriptor, 0, os.SEEK_CUR))


class _Hidden:
    """Finder that has none of the hidden modules."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def hide() -> None:
    """Take away what only POSIX systems have."""
    for name in HIDDEN:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, _Hidden())  # type: ignore[arg-type]
    msvcrt: Any = types.ModuleType("msvcrt")
    msvcrt.locking, msvcrt.LK_NBLCK = _locking, 2
    sys.modules["msvcrt"] = msvcrt
    for name in ("fork", "setsid", "killpg", "fdatasync", "memfd_create", "getuid", "geteuid", "getegid"):
        vars(os).pop(name, None)
    for name in ("SIGHUP", "SIGKILL", "SIGSTOP", "SIGCONT", "SIGUSR1", "SIGUSR2"):
        vars(signal).pop(name, None)

    def nothing(*_: object, **__: object) -> None:
        raise NotImplementedError

    for loop in (asyncio.BaseEventLoop, asyncio.SelectorEventLoop):
        loop.add_signal_handler = loop.remove_signal_handler = nothing  # type: ignore[method-assign,attr-defined,assignment]


def add(left: int, right: int) -> int:
    """Add two numbers."""
    return left + right


def main(task: str) -> None:
    """Do one of the things that have to work on every system, in this folder."""
    if task == "functions":
        import toolgen  # noqa: PLC0415 - after POSIX is gone

        with toolgen.Gateway.from_functions(add, record="record") as calls:
            print(calls.call("add", {"left": 1, "right": 2}).unwrap())
    elif task == "imports":
        import importlib  # noqa: PLC0415

        root = Path(__file__).parents[2] / "toolgen"
        for path in sorted(root.rglob("*.py")):
            parts = path.relative_to(root.parent).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            # Packages of frameworks ask for the name of the system, and import what it has.
            if parts[-1] != "__main__" and "adapters" not in parts:
                importlib.import_module(name)
        print("all")
    else:
        from toolgen.cli import main as cli  # noqa: PLC0415

        cli(task.split())


if __name__ == "__main__":
    hide()
    main(sys.argv[1])
