"""Windows, simulated: a program that hides what only POSIX systems have, and then runs one task in its folder (test_without_posix.py).

Simulated are: imports of POSIX-only modules fail; POSIX-only functions, flags and constants of `os`, `signal`, `select` and
`socket` are gone; event loops wait for no pipes and hear no signals; paths have backslashes and drive letters (ntpath,
WindowsPath), and names that Windows does not take are refused; files that are open can be neither renamed nor removed; text files
that are written without `newline` get CRLF; files that are opened without `encoding` are errors (cp1252 would be used); standard
output is cp1252; `os.kill` ends a process at once; locks are those of a `msvcrt` made of this system's. `sys.platform` is "win32"
for what is imported afterwards.

Not simulated are: the event loop of Windows itself, its sharing modes between processes, its console, and the packages built for it.
"""

from __future__ import annotations

import builtins
import errno
import importlib
import importlib.util
import io
import ntpath
import os
import posixpath
import sys
import types
from collections.abc import Callable
from typing import Any

HIDDEN_MODULES = frozenset(
    {"fcntl", "termios", "resource", "pwd", "grp", "pty", "tty", "syslog", "readline", "curses", "uvloop"}
)
HIDDEN = {
    "os": (
        "fork setsid killpg fdatasync memfd_create getuid geteuid getgid getegid getpgid setpgid fchmod fchown chown lchown pread pwrite"
        " preadv pwritev sysconf statvfs fstatvfs mkfifo wait wait3 wait4 WNOHANG register_at_fork posix_spawn sched_getaffinity nice"
        " set_blocking get_blocking getpgrp getsid getloadavg uname sync pipe2 sendfile splice copy_file_range posix_fadvise"
        " posix_fallocate eventfd pidfd_open waitid getrandom getpriority initgroups chroot fchdir openpty forkpty ttyname ctermid"
        " getxattr setxattr confstr pathconf fpathconf mknod lockf sched_yield"
        " O_NOATIME O_PATH O_DIRECT O_ASYNC O_RSYNC"
        " O_NOFOLLOW O_DIRECTORY O_NONBLOCK O_NOCTTY O_CLOEXEC O_SYNC O_DSYNC O_TMPFILE MFD_CLOEXEC"
    ),
    "signal": (
        "SIGHUP SIGKILL SIGSTOP SIGCONT SIGUSR1 SIGUSR2 SIGALRM SIGPIPE SIGCHLD SIGTSTP setitimer getitimer alarm pthread_sigmask"
        " sigwait pthread_kill siginterrupt ITIMER_REAL SIG_BLOCK SIGQUIT SIGTTIN SIGTTOU SIGWINCH SIGURG SIGPOLL SIGIO SIGPROF"
        " SIGVTALRM SIGXCPU SIGXFSZ SIGSYS SIGTRAP SIGBUS sigpending sigwaitinfo sigtimedwait pause"
    ),
    "select": "poll epoll POLLIN POLLOUT POLLHUP",
    "socket": (
        "AF_UNIX SO_REUSEPORT SO_PEERCRED SCM_RIGHTS MSG_NOSIGNAL MSG_DONTWAIT send_fds recv_fds SOCK_NONBLOCK SOCK_CLOEXEC"
        " TCP_USER_TIMEOUT TCP_DEFER_ACCEPT TCP_CORK CMSG_LEN CMSG_SPACE"
    ),
    "time": "tzset clock_gettime clock_gettime_ns clock_settime clock_getres pthread_getcpuclockid CLOCK_MONOTONIC CLOCK_REALTIME",
}
PACKAGES = """
    asyncio ctypes getpass importlib.metadata importlib.resources multiprocessing select selectors shutil signal socket sqlite3 ssl
    subprocess tempfile webbrowser zipfile zoneinfo concurrent.futures concurrent.futures.thread logging.handlers http.server anyascii
    anyio anyio._backends._asyncio click cryptography.hazmat.primitives.serialization cryptography.x509 graphql hpack httpcore
    httptools httpx idna jinja2 jsonpath jsonschema_rs jwt msgspec psutil rich.console rich.progress rich.table snowballstemmer
    sqlglot sqlglot.optimizer starlette.applications starlette.testclient uvicorn.server uvicorn.config yaml click._termui_impl
    uvicorn.loops.auto uvicorn.protocols.http.auto duckdb keyring redis.asyncio psycopg pymysql aiomysql
"""
_ONE_PATH = tuple(
    "open stat lstat listdir mkdir rmdir unlink remove chmod utime access truncate chdir readlink".split()  # noqa: SIM905
)
_TWO_PATHS = ("rename", "replace", "link")
_REFUSED = frozenset('<>:"|?*')
_REAL: dict[str, Any] = {name: getattr(os, name) for name in (*_ONE_PATH, *_TWO_PATHS, "scandir", "getcwd")}


def real(path: Any) -> Any:
    """The path on this system of one that Windows would have."""
    if isinstance(path, int) or isinstance(path := os.fspath(path), bytes):
        return path
    path = path.removeprefix("\\\\?\\")
    if path[1:2] == ":" and path[0].isalpha():
        path = path[2:] or "."
    path = path.replace("\\", "/")
    if not path.startswith(("/proc/", "/dev/")) and _REFUSED & set(path):
        raise OSError(errno.EINVAL, "The filename, directory name, or volume label syntax is incorrect", path)
    return "/dev/null" if path.lower() == "nul" else path


def shown(path: str) -> str:
    """The path that Windows would have for one of this system."""
    return "C:" + path.replace("/", "\\")


def _not_open(path: Any) -> None:
    """Raise `PermissionError` if this process has a file open."""
    try:
        name = os.path.basename(real(path)) and _REAL["readlink"]("/proc/self/cwd")
        whole = os.fspath(real(path))
        whole = whole if whole.startswith("/") else f"{name}/{whole}"
    except OSError:
        return
    for number in _REAL["listdir"]("/proc/self/fd"):
        try:
            found = _REAL["readlink"](f"/proc/self/fd/{number}")
        except OSError:
            continue
        if found == whole and not whole.endswith((".db", "-wal", "-shm")):
            raise PermissionError(errno.EACCES, "The process cannot access the file because it is being used", path)


class _Entry:
    """Entry of a folder, whose path has the separators of Windows."""

    def __init__(self, entry: os.DirEntry[str], folder: str) -> None:
        self._entry = entry
        self.name = entry.name
        self.path = ntpath.join(folder, entry.name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._entry, name)

    def __fspath__(self) -> str:
        return self.path


class _Entries:
    def __init__(self, path: Any) -> None:
        folder = os.fspath(path)
        self._found = _REAL["scandir"](real(path))
        self._entries = (_Entry(one, folder) for one in self._found)

    def __iter__(self) -> Any:
        return self._entries

    def __next__(self) -> _Entry:
        return next(self._entries)

    def __enter__(self) -> _Entries:
        return self

    def __exit__(self, *_: object) -> None:
        self._found.close()

    def close(self) -> None:
        self._found.close()


def realpath(path: Any, *, strict: bool = False) -> str:
    """Path without links, with the drive letter."""
    return shown(posixpath.realpath(posixpath.join(_REAL["getcwd"](), real(path)), strict=strict))


def _paths_of_windows() -> None:
    def one(given: Callable[..., Any], *, removes: bool) -> Callable[..., Any]:
        def call(path: Any = ".", *more: Any, **named: Any) -> Any:
            if removes:
                _not_open(path)
            return given(real(path), *more, **named)

        return call

    def two(given: Callable[..., Any], *, moves: bool) -> Callable[..., Any]:
        def call(source: Any, target: Any, *more: Any, **named: Any) -> Any:
            if moves:
                _not_open(source)
                _not_open(target)
            return given(real(source), real(target), *more, **named)

        return call

    for name in _ONE_PATH:
        setattr(os, name, one(_REAL[name], removes=name in {"unlink", "remove"}))
    for name in _TWO_PATHS:
        setattr(os, name, two(_REAL[name], moves=name != "link"))

    def rename(source: Any, target: Any) -> None:
        if os.path.exists(target):
            raise FileExistsError(errno.EEXIST, "Cannot create a file when that file already exists", target)
        move(source, target)

    move = os.rename

    def kill(number: int, _: int) -> None:
        end(number, 9)  # TerminateProcess, whatever the signal: no handler of the process is called

    end = os.kill
    vars(os).update(rename=rename, kill=kill, scandir=_Entries, getcwd=lambda: shown(_REAL["getcwd"]()))
    os.supports_dir_fd = os.supports_fd = os.supports_follow_symlinks = set()
    vars(os).update(name="nt", path=ntpath, sep="\\", altsep="/", pathsep=";", linesep="\r\n", devnull="nul")
    vars(ntpath)["realpath"] = realpath
    sys.modules["os.path"] = ntpath
    shutil: Any = sys.modules["shutil"]
    shutil._use_fd_functions = shutil._USE_CP_SENDFILE = False
    _path_classes_of_windows()


def _path_classes_of_windows() -> None:
    """Import pathlib again, and give the new classes to the modules that have imported the old ones."""
    old = sys.modules["pathlib"]
    for name in [name for name in sys.modules if name.partition(".")[0] == "pathlib"]:
        del sys.modules[name]
    new = importlib.import_module("pathlib")
    replaced = {id(old): new} | {id(getattr(old, name)): getattr(new, name) for name in old.__all__}
    for module in [*sys.modules.values()]:
        for name, value in [*vars(module).items()]:
            if id(value) in replaced and not name.startswith("__"):
                setattr(module, name, replaced[id(value)])


def _text_of_windows() -> None:
    given = io.open

    def opened(file: Any, mode: str = "r", buffering: int = -1, encoding: Any = None, *more: Any, **named: Any) -> Any:
        if "b" not in mode and encoding is None and "toolgen" in sys._getframe(1).f_globals.get("__name__", ""):
            raise AssertionError(f"{file} is opened in the encoding of the system")
        if "b" not in mode and set(mode) & set("wax+") and len(more) < 2 and named.get("newline") is None:
            named["newline"] = "\r\n"
        return given(real(file), mode, buffering, encoding, *more, **named)

    vars(io)["open"] = vars(builtins)["open"] = opened
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="cp1252", newline="\r\n")  # type: ignore[union-attr]


def _events_of_windows() -> None:
    import asyncio  # noqa: PLC0415 - imported before anything is hidden

    def nothing(*_: object, **__: object) -> None:
        raise NotImplementedError

    socket: Any = sys.modules["socket"]
    pair, unix = socket.socketpair, socket.AF_UNIX
    socket.socketpair = lambda *_: pair(unix)
    names = "add_signal_handler remove_signal_handler add_reader add_writer connect_read_pipe connect_write_pipe"
    for loop in (asyncio.BaseEventLoop, asyncio.SelectorEventLoop):
        for name in f"{names} create_unix_server create_unix_connection".split():
            setattr(loop, name, nothing)


def _programs_of_windows() -> None:
    import subprocess  # noqa: PLC0415 - imported before anything is hidden

    vars(subprocess)["signal"] = types.SimpleNamespace(**vars(sys.modules["signal"]))

    class Popen(subprocess.Popen[Any]):
        def __init__(self, args: Any, *more: Any, **named: Any) -> None:
            if named.get("pass_fds") or named.get("preexec_fn"):
                raise ValueError("not supported on Windows platforms")
            if isinstance(args, list | tuple):
                args = [real(args[0]), *args[1:]]
                if args[0] == sys.executable and args[1:3] == ["-I", "-c"]:  # a process of ours: on Windows too
                    args[3] = f"import runpy; runpy.run_path({__file__!r})['hide'](); {args[3]}"
            if named.get("cwd") is not None:
                named["cwd"] = real(named["cwd"])
            super().__init__(args, *more, **named)

    vars(subprocess)["Popen"] = Popen
    vars(sys.modules["ssl"])["enum_certificates"] = lambda _: []  # the system's own store


def _databases_of_windows() -> None:
    sqlite3: Any = sys.modules["sqlite3"]
    given = sqlite3.connect

    def connect(database: Any, *more: Any, **named: Any) -> Any:
        if str(database).startswith("file:"):
            return given(str(database).replace("file:///C:/", "file:///"), *more, **named)
        return given(database if database == ":memory:" else real(database), *more, **named)

    sqlite3.connect = connect


def _locks_of_windows() -> None:
    import fcntl  # noqa: PLC0415 - hidden afterwards

    def locking(descriptor: int, mode: int, count: int) -> None:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, count, os.lseek(descriptor, 0, os.SEEK_CUR))

    msvcrt: Any = types.ModuleType("msvcrt")
    msvcrt.locking, msvcrt.LK_NBLCK = locking, 2
    sys.modules["msvcrt"] = msvcrt


class _Finder:
    """Finder that has none of the hidden modules."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] in HIDDEN_MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _on_a_drive(folder: str) -> Any:
    """Path hook for folders of modules whose path has backslashes."""
    if "\\" not in folder:
        raise ImportError
    return sys.path_hooks[-1](real(folder))


def hide() -> None:
    """Make this process look like one on Windows, to what is imported afterwards."""
    _import_packages()
    _locks_of_windows()
    _programs_of_windows()
    _databases_of_windows()
    _events_of_windows()
    for module, names in HIDDEN.items():
        for name in names.split():
            vars(sys.modules[module]).pop(name, None)
    os.environ["PATH"] = ";".join(shown(folder) for folder in os.environ.get("PATH", os.defpath).split(":"))
    os.environ["USERPROFILE"] = shown(os.environ.pop("HOME", "/root"))
    _paths_of_windows()
    _text_of_windows()
    for name in HIDDEN_MODULES:
        sys.modules.pop(name, None)
    sys.path_hooks.insert(0, _on_a_drive)
    sys.meta_path.insert(0, _Finder())  # type: ignore[arg-type]
    sys.platform = "win32"


CLICKHOUSE = ("toolgen.connectors.sql.execution.clickhouse", "toolgen.connectors.sql.reading.clickhouse")
"""Modules that need chdb, which `make dev` does not install."""
SQL_SERVER = tuple(
    f"toolgen.connectors.sql.{name}"
    for name in ("execution.tds_connection", "execution.tsql", "reading.tsql", "reading.tsql_rights")
)
"""Modules that need python-tds, which `make dev` does not install."""


def _import_packages() -> None:
    """Import packages of others, which ask for the system while they are imported and would load what only Windows has."""
    for name in PACKAGES.split():
        try:
            importlib.import_module(name)
        except ImportError:  # an extra that is not installed
            continue
    sys.modules["certifi"].where()


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
        from pathlib import Path  # noqa: PLC0415

        root = Path(__file__).parents[2] / "toolgen"
        for path in sorted(root.rglob("*.py")):
            parts = path.relative_to(root.parent).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            # Packages of frameworks ask for the name of the system, and import what it has.
            left_out = (name in CLICKHOUSE and importlib.util.find_spec("chdb") is None) or (
                name in SQL_SERVER and importlib.util.find_spec("pytds") is None
            )
            if parts[-1] != "__main__" and "adapters" not in parts and not left_out:
                importlib.import_module(name)
        print("all")
    else:
        from toolgen.cli import main as cli  # noqa: PLC0415

        sys.argv = ["toolgen", *task.split()]
        cli()


if __name__ == "__main__":
    hide()
    main(sys.argv[1])
