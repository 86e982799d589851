"""Result of `resources/read` for the files that calls answered with a link (MCP 2025-06-18: Resources; Tools, section Resource Links)."""

from __future__ import annotations

import base64

from toolgen.core.errors import StateError
from toolgen.frontends.mcp.messages import Caller
from toolgen.gateway.protocol import Facade
from toolgen.model.result import Error
from toolgen.model.unavailable import fault_error

__all__ = ["read_resource"]

_MAX_RESOURCE_SIZE = 8 * 1024 * 1024


async def read_resource(gateway: Facade, caller: Caller, uri: str) -> dict[str, object] | Error:
    """The result of `resources/read`, or why there is nothing for this caller."""
    fetched = await gateway.tool_calls.files.read(
        caller.principal, uri, session=caller.session or caller.connection, caller_connection=caller.caller_connection
    )
    if isinstance(fetched, Error):
        return fetched
    if sum(one.info.size for one in fetched) > _MAX_RESOURCE_SIZE:
        return Error(
            code="validation",
            message=f"the file is longer than the {_MAX_RESOURCE_SIZE} bytes that one message holds",
            suggestion="read it in parts with read_file, or over REST at /v1/answers",
        )
    try:
        bodies = [await one.read() for one in fetched]
    except StateError as error:
        return fault_error(error)
    contents = [
        {"uri": uri, "mimeType": one.info.media_type, "blob": base64.b64encode(body).decode()}
        for one, body in zip(fetched, bodies, strict=True)
    ]
    return {"contents": contents}
