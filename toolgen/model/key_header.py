"""Idempotency keys as the systems behind know them."""

from __future__ import annotations

import hashlib
import uuid

import msgspec

from toolgen.model.tool import Binding, HttpBinding, HttpKey

__all__ = ["written"]


def written(binding: Binding, text: str) -> str:
    """A key as the system of a tool knows it: the text itself, or a UUID that is made of it and always the same."""
    key = binding.key if isinstance(binding, HttpBinding) else msgspec.UNSET
    if isinstance(key, HttpKey) and key.form == "uuid":
        return str(uuid.UUID(bytes=hashlib.sha256(text.encode()).digest()[:16], version=4))
    return text
