"""MCP resources: the files that calls answered with a link, and nothing else (2025-06-18: Resources; Tools, section Resource Links)."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping

from toolgen.gateway.answering import SCHEME
from toolgen.gateway.facade import Facade
from toolgen.model.call import Principal
from toolgen.model.result import Envelope, Error
from toolgen.model.schema import Json

__all__ = ["link_of", "read_resource"]

_URI = re.compile(re.escape(SCHEME) + r"([^/]{1,128})/([A-Za-z0-9_-]{64})\Z")


async def read_resource(gateway: Facade, principal: Principal, uri: str) -> dict[str, object] | Error:
    """The result of `resources/read`, or why there is nothing for this principal."""
    found = _URI.match(uri)
    if found is None:
        return Error(code="not_found", message="there is no such resource")
    fetched = await gateway.fetch(principal, found[1], found[2])
    if isinstance(fetched, Error):
        return fetched
    blob = base64.b64encode(fetched.body).decode()
    return {"contents": [{"uri": uri, "mimeType": fetched.media_type, "blob": blob}]}


def link_of(envelope: Envelope) -> dict[str, object] | None:
    """The link of an answer that is one. What an upstream wrote to look like one can lead nowhere but here, and there to nothing."""
    data: Json = envelope.data
    link = data.get("resource") if isinstance(data, Mapping) and data.keys() == {"resource"} else None
    uri = link.get("uri") if isinstance(link, Mapping) else None
    if not isinstance(link, Mapping) or not isinstance(uri, str) or not uri.startswith(f"{SCHEME}{envelope.tool}/"):
        return None
    if _URI.match(uri) is None:
        return None
    return {
        "type": "resource_link",
        "uri": uri,
        "name": f"the answer of {envelope.tool}",
        "mimeType": str(link.get("media_type", "")),
        "size": link.get("size"),
    }
