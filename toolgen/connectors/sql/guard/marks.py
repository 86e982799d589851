"""Prefixes of the names under which calls and placeholders pass through the parser."""

from __future__ import annotations

from typing import Final

__all__ = ["CALL", "RESERVED", "SLOT"]

RESERVED: Final = "_toolgen_"
CALL: Final = "_toolgen_f_"
SLOT: Final = "_toolgen_p_"
