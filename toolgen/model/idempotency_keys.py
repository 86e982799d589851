"""Idempotency keys as the systems behind tools know them."""

from __future__ import annotations

import hashlib
import uuid

from toolgen.model.tool import Binding

__all__ = ["NO_KEY_HEADER", "written"]

NO_KEY_HEADER = "never"
"""What toolgen.yaml says in place of a header's name where a source is given no idempotency keys."""


def written(binding: Binding, text: str) -> str:
    """A key as the system of a tool knows it: the text itself, or a UUID that is made of it and always the same."""
    if binding.key_form == "uuid":
        return str(uuid.UUID(bytes=hashlib.sha256(text.encode()).digest()[:16], version=4))
    return text
