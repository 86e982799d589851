"""Descriptions and rules that tests of files share."""

from __future__ import annotations

import hashlib
from typing import Any

__all__ = ["BINARY", "EVERYTHING", "PRINCIPALS", "SEND_RAW"]

BINARY = {"type": "string", "format": "binary"}
SEND_RAW: dict[str, Any] = {
    "put": {
        "operationId": "send_raw",
        "requestBody": {"required": True, "content": {"application/octet-stream": {"schema": BINARY}}},
        "responses": {"200": {"description": "ok"}},
    }
}
"""Operation whose body is a file."""
PRINCIPALS: dict[str, Any] = {
    name: {"api_key": "sha256:" + hashlib.sha256(f"key-of-{name}".encode()).hexdigest(), "roles": ["all"]}
    for name in ("bot", "other")
}
EVERYTHING: dict[str, Any] = {
    "id": "all",
    "to": ["all"],
    "tools": ["*"],
    "effects": ["read", "write", "destructive"],
    "verdict": "allow",
}
"""Rule that allows each call to the role of both principals."""
