"""Reasons why a database server opens no session, in our own words: texts of drivers and servers quote the location, in any language."""

from __future__ import annotations

import socket
from pathlib import Path

from toolgen.core.errors import DescriptionError, connection_failure
from toolgen.model.database_url import ServerLocation

__all__ = ["no_session"]


def no_session(location: ServerLocation, code: str = "", socket_file: str = "") -> DescriptionError:
    """Return the error for a session that could not be opened. `code` is the server's own code for its refusal.

    `socket_file` is the name of a Unix socket, if the location has its folder.

    Connects to the location once more, to distinguish an unreachable server from one that refuses the user.
    """
    place = location.socket or f"{location.host}:{location.port}"
    try:
        _dial(location, socket_file)
    except OSError as error:
        return DescriptionError(
            f"no database server answers at {place}: {connection_failure(error)[0]}",
            suggestion="check that it runs, and the host and port of its location",
        )
    return DescriptionError(
        f"the database server at {place} refuses user {location.user or '(none)'} for database {location.database}"
        + (f" ({code})" if code else ""),
        suggestion="check user, password, database and sslmode; its own client, with the same location, reports the details",
    )


def _dial(location: ServerLocation, socket_file: str) -> None:
    """Open and close a connection without sending data. Raises `OSError`."""
    if not location.socket:
        socket.create_connection((location.host, location.port), location.connect_timeout_s).close()
        return
    path = Path(location.socket)
    with socket.socket(socket.AF_UNIX) as dialled:
        dialled.settimeout(location.connect_timeout_s)
        dialled.connect(str(path / socket_file if socket_file else path))
