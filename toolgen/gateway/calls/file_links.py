"""Links to files in answers: their URIs, and the text for an agent whose client does not accept links."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from toolgen.model.result import Envelope
from toolgen.model.schema import Json

__all__ = [
    "MAX_LINKS",
    "OWN_SCHEME",
    "READ_FILE",
    "SCHEME",
    "UPLOADS",
    "LinkTarget",
    "is_reference",
    "linked_file",
    "parse_uri",
    "reading_hint",
    "reference_text",
]

READ_FILE = "read_file"
OWN_SCHEME = "toolgen:"
SCHEME = "toolgen://answers/"
UPLOADS = "toolgen://files/"
MAX_LINKS = 100
"""Maximum number of links of one answer that can be read here."""
_URI = re.compile(re.escape(SCHEME) + r"([^/]{1,128})/([A-Za-z0-9_-]{64})(?:/([0-9]{1,2}))?\Z")


class LinkTarget(Struct, frozen=True, kw_only=True):
    """Target of a URI: the tool that answered, the key of the stored answer, and the index of the link in it; None for a file."""

    tool: str
    token: str
    link: int | None


def parse_uri(uri: str) -> LinkTarget | None:
    """Parse a URI; None for one that does not lead to a file here."""
    found = _URI.match(uri)
    return (
        None
        if found is None
        else LinkTarget(tool=found[1], token=found[2], link=None if found[3] is None else int(found[3]))
    )


def linked_file(envelope: Envelope) -> dict[str, Any] | None:
    """Return the `resource_link` of an answer that is a link to a file; None for any other.

    A forged link from an upstream system can only lead to this gateway, and there to nothing.
    """
    data: Json = envelope.data
    link = data.get("resource") if isinstance(data, Mapping) and data.keys() == {"resource"} else None
    uri = link.get("uri") if isinstance(link, Mapping) else None
    place = parse_uri(uri) if isinstance(uri, str) else None
    if not isinstance(link, Mapping) or place is None or place.tool != envelope.tool:
        return None
    return {
        "type": "resource_link",
        "uri": uri,
        "name": f"the answer of {envelope.tool}",
        "mimeType": str(link.get("media_type", "")),
        "size": link.get("size"),
    }


def is_reference(value: Json) -> bool:
    """Return True if a value is a reference to a file that was removed from an answer, not a file with its content."""
    return isinstance(value, Mapping) and value.keys() >= {"media_type", "size"} and not value.keys() & {"text", "blob"}


def reference_text(reference: Mapping[str, Json]) -> str:
    """Return the text for a file that was removed from an answer, with how an agent reads it."""
    name = reference.get("name") or reference.get("filename")
    about = f"{reference['media_type']}, {reference['size']} bytes"
    said = f"File {name} ({about})" if name else f"File ({about})"
    note = reference.get("note")
    if note or "uri" not in reference:
        return f"[{said}: {note or 'it is not kept'}]"
    return f"[{said}: {reference.get('uri')} ({READ_FILE} reads it, and tools that take a file take this uri)]"


def reading_hint(uri: str) -> str:
    """Advice on reading a file."""
    return f"{READ_FILE} reads it, with this uri: {uri}"
