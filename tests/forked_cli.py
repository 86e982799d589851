"""`toolgen` in processes that are forked from one that has imported everything, for scripts of many commands.

    with forked_cli() as function: subprocess.run(["bash", "-c", function + script])

A command has the folder, environment, arguments, input and outputs that it is given, and its exit code; what it does not do is to import.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[1]
_ASK = """
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect(sys.argv[1])
    socket.send_fds(server, [json.dumps([os.getcwd(), dict(os.environ), sys.argv[2:]]).encode() + b"\\n"], [0, 1, 2])
    sys.exit(int(server.recv(16)))
"""


@contextlib.contextmanager
def forked_cli() -> Iterator[str]:
    """The source of a shell function that is called as the command is."""
    with tempfile.TemporaryDirectory() as folder:  # pytest's own may be too long for a socket
        place = Path(folder) / "cli"
        command = [sys.executable, "-m", "tests.forked_cli", place]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as server:
            try:
                assert server.stdout is not None
                assert server.stdout.readline() == b"ready\n"
                yield f'toolgen() {{ {sys.executable} -I -S -c {shlex.quote(_ASK)} {shlex.quote(str(place))} "$@"; }}\n'
            finally:
                server.kill()


def _run(request: bytes, descriptors: list[int]) -> int:
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    folder, environment, arguments = json.loads(request)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    code: object = 0
    try:
        import_module("toolgen.cli").main(arguments)
    except SystemExit as exit_:
        code = exit_.code
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code if isinstance(code, int) else int(code is not None)


def main(place: str) -> None:
    """Forks for each connection until it is killed."""
    for name in sorted(path.stem for path in (ROOT / "toolgen" / "cli").glob("*.py")):
        import_module(f"toolgen.cli.{name}")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place)
        listener.listen()
        print("ready", flush=True)
        while True:
            asking, _ = listener.accept()
            request, descriptors, _, _ = socket.recv_fds(asking, 1 << 20, 3)
            while not request.endswith(b"\n"):
                request += asking.recv(1 << 20)
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                listener.close()
                asking.sendall(str(_run(request, descriptors)).encode())
                os._exit(0)
            for descriptor in descriptors:
                os.close(descriptor)
            asking.close()


if __name__ == "__main__":
    main(sys.argv[1])
