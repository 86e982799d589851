"""Fast pre-check that asks in one pass and in linear time (Rust's regex) if a text could match any of many patterns. Most texts match none.

Lookaround conditions of Python's patterns are left out: a gate may open too often, never too seldom.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import jsonschema_rs

__all__ = ["Gate"]

_AROUND = re.compile(r"\(\?<?[!=](?:[^()\\\[]|\\.|\[(?:[^\]\\]|\\.)+\])*\)")
_MAX_SIZE = 64 * 1024 * 1024


class Gate:
    """Pre-check for a text that one of the patterns may match."""

    def __init__(self, patterns: Iterable[str], *, ignore_case: bool = False) -> None:
        # A word boundary for letters of all scripts would cost a hundred times more on such texts.
        plain = (_AROUND.sub("", pattern).replace(r"\b", r"(?-u:\b)") for pattern in patterns)
        joined = "|".join(f"(?:{pattern})" for pattern in plain)
        flags = "(?is)" if ignore_case else "(?s)"
        options: Any = jsonschema_rs.RegexOptions(size_limit=_MAX_SIZE, dfa_size_limit=_MAX_SIZE)
        self._validator = jsonschema_rs.Draft202012Validator({"pattern": flags + joined}, pattern_options=options)

    def opens(self, text: str) -> bool:
        """Return True if the text has to be searched with the exact patterns."""
        try:
            return self._validator.is_valid(text)
        except ValueError:  # a lone surrogate has no UTF-8 form, which Rust needs
            return True
