"""Number literals of CEL expressions that the runtime would compare inexactly.

Its integers have 64 bits, and it compares an integer with a double as two doubles. Beyond 2**53, a double stands for several integers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from toolgen.model.excerpt import bounded

__all__ = ["comparable", "literal_fault"]

_INT64, _UINT64 = 2**63, 2**64
_EXACT = 2**53
_TOKEN = re.compile(
    r"""(?:[rR][bB]?|[bB][rR])(?:'{3}.*?'{3}|"{3}.*?"{3}|'[^']*'|"[^"]*")"""
    r"""|[bB]?(?:'{3}(?:[^\\]|\\.)*?'{3}|"{3}(?:[^\\]|\\.)*?"{3}|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
    r"|//[^\n]*|[A-Za-z_]\w*"
    r"|(?P<number>(?:(?P<sign>-)\s*)?(?P<digits>0[xX][0-9a-fA-F]+|[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)(?P<unsigned>[uU]?))",
    re.DOTALL,
)


def comparable(value: float) -> int | float:
    """Convert a double of a call so that the runtime compares it exactly: to an integer if it is one of 64 bits."""
    return int(value) if _EXACT <= abs(value) < _INT64 or _EXACT <= value < _UINT64 else value


def literal_fault(source: str) -> str | None:
    """Return the error in a number of an expression with its correction, or None."""
    return next(_faults(source), None)


def _faults(source: str) -> Iterator[str]:
    for found in _TOKEN.finditer(source):
        if found["number"] is None:
            continue
        written, digits = bounded(found["number"], 40), found["digits"]
        hexadecimal = digits[:2] in {"0x", "0X"}
        if not hexadecimal and not digits.isdecimal():
            value = float(digits)
            if math.isinf(value):
                yield f"{written} is larger than any number of CEL"
            elif value >= _EXACT:
                yield f"{written} is compared inexactly with whole numbers: {_advice(int(value), negative=bool(found['sign']))}"
            continue
        whole = int(digits, 16 if hexadecimal else 10)
        most = _UINT64 - 1 if found["unsigned"] else _INT64 if found["sign"] else _INT64 - 1
        if whole > most:
            yield f"{written} is beyond {most}: {_advice(whole, negative=bool(found['sign']))}"


def _advice(whole: int, *, negative: bool) -> str:
    if whole < _INT64 or (negative and whole == _INT64):
        return f"write {'-' if negative else ''}{whole}"
    if whole < _UINT64 and not negative:
        return f"write {whole}u"
    return "compare it under `arguments:` (minimum, maximum, enum), which is exact for any number"
