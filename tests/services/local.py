"""HTTP servers of a test's own: on a port of the system's choice, in a thread, and able to take many callers at once."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from typing import Any


class LocalServer(ThreadingHTTPServer):
    """http.server's own backlog is 5: of callers that come together the kernel drops the others, and they try again after 1 s, 3 s and
    7 s, which is later than most clients wait."""

    request_queue_size = 512

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has left is no news; anything else is printed with its stack."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def running(server: ThreadingHTTPServer) -> Iterator[None]:
    """Serves until the block ends."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
