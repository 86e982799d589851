"""What a media type is, for those who read one in a description and those who send one (RFC 9110, section 8.3.1)."""

from __future__ import annotations

import re

__all__ = ["JSON", "MEDIA_TYPE"]

MEDIA_TYPE = re.compile(
    r"[\w!#$&^.+-]+/[\w!#$&^.+-]+(?:\s*;\s*[\w!#$&^.+-]+=(?:[\w!#$&^.+/-]+|\"[^\"\\\x00-\x1f\x7f]*\"))*\Z", re.ASCII
)
"""One media type with its parameters; a range (`image/*`) is none."""

JSON = re.compile(r"[^;\s]+/(?:[^;\s]+\+)?json\s*(?:;.*)?\Z", re.IGNORECASE)
"""JSON itself or a type with the suffix `+json` (RFC 6839, section 3.1)."""
