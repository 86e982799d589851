"""Idempotency keys in the form that systems behind tools accept."""

from __future__ import annotations

import hashlib
import uuid

from toolgen.model.tool import Binding

__all__ = ["NO_KEY_HEADER", "written"]

NO_KEY_HEADER = "never"
"""Value in toolgen.yaml in place of a header's name for a source without idempotency keys."""


def written(binding: Binding, text: str) -> str:
    """Return a key in the form for the system of a tool: the text itself, or a UUID derived from it."""
    if binding.key_form == "uuid":
        return str(uuid.UUID(bytes=hashlib.sha256(text.encode()).digest()[:16], version=4))
    return text
