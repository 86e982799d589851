"""Icons of servers, tools, prompts and resources (MCP 2025-11-25, schema, Icon), as far as clients may be given them."""

from __future__ import annotations

import re
from itertools import islice
from typing import Any, Final
from urllib.parse import urlsplit

from toolgen.model.schema import JsonObject

__all__ = ["MAX_ICON_LENGTH", "icons_in", "is_icon_source", "is_web_address"]

MAX_ICON_LENGTH: Final = 65_536
_MAX_ICONS: Final = 8
_MAX_TEXT_LENGTH: Final = 100
_MAX_URL_LENGTH: Final = 2048
# Pictures that a client draws without running code: SVG may contain scripts.
_PICTURE = re.compile(r"data:image/(?:png|jpeg|webp|gif);base64,[A-Za-z0-9+/]+={0,2}\Z")
_PRINTED = re.compile(r"[\x21-\x7e]+\Z")
_THEMES: Final = frozenset({"light", "dark"})


def is_web_address(text: str) -> bool:
    """Return True if a text is an https URL, or one of http at this machine, without a user in it."""
    if len(text) > _MAX_URL_LENGTH or not _PRINTED.match(text):
        return False
    try:
        parts = urlsplit(text)
        local = parts.scheme == "http" and parts.hostname in {"127.0.0.1", "localhost"}
    except ValueError:
        return False
    return bool(parts.hostname) and "@" not in parts.netloc and (parts.scheme == "https" or local)


def is_icon_source(text: str) -> bool:
    """Return True if a text is a valid source of an icon: an https URL, or a `data:` URL of a PNG, JPEG, WebP or GIF."""
    return len(text) <= MAX_ICON_LENGTH and (is_web_address(text) or _PICTURE.match(text) is not None)


def icons_in(listed: object) -> tuple[dict[str, Any], ...]:
    """Return the icons of a list that can be passed on, each with MCP's members; none if it is not a list."""
    if not isinstance(listed, list | tuple):
        return ()
    found = (_icon(one) for one in islice(listed, _MAX_ICONS) if isinstance(one, dict))
    return tuple(one for one in found if one is not None)


def _icon(icon: JsonObject) -> dict[str, Any] | None:
    source = icon.get("src")
    if not isinstance(source, str) or not is_icon_source(source):
        return None
    made: dict[str, Any] = {"src": source}
    if isinstance(kind := icon.get("mimeType"), str) and _is_word(kind):
        made["mimeType"] = kind
    sizes = icon.get("sizes")
    if isinstance(sizes, list) and (known := [one for one in sizes if isinstance(one, str) and _is_word(one)]):
        made["sizes"] = list(islice(known, _MAX_ICONS))
    if icon.get("theme") in _THEMES:
        made["theme"] = icon["theme"]
    return made


def _is_word(text: str) -> bool:
    return len(text) <= _MAX_TEXT_LENGTH and _PRINTED.match(text) is not None
