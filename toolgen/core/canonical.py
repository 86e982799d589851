"""Canonical JSON bytes (RFC 8785, JCS) of every digest and every audit entry."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from toolgen.core.errors import CanonicalError

__all__ = [
    "Canonical",
    "Recorded",
    "as_it_is",
    "canonical",
    "decoded",
    "digest",
    "encodable",
    "encoded",
    "flat_form",
    "is_digest",
    "schema_digest",
    "texts",
    "written",
    "written_each",
]

# msgspec with sorted keys already produces RFC 8785, except for numbers that it writes differently and for keys outside the BMP, which RFC
# 8785 sorts by UTF-16 unit. A search for those is faster than the conversion in Python.
_OUTSIDE_BMP = (b"\xf0", b"\xf1", b"\xf2", b"\xf3", b"\xf4")  # first bytes of such a character in UTF-8
_MAX_SIZE = 2**53 - 1
_ABSURD = 10**300  # integers of more than 300 digits, which validators and other programs cannot read
_MAX_DEPTH = 200
_DIGEST = "hmac-sha256:"
_OWN_NAME = re.compile(r"\$+(?:integer|float|text)\Z")
_OWN_FORM, _KEYED = b'{"$', b'"hmac-sha256:'  # a form without these bytes has nothing to escape


class Recorded(str):
    """Replacement text for a value in a record. Equal text that was sent is escaped."""

    __slots__ = ()


class Canonical:
    """Nested schema with a known canonical form: parts that many values share are written once.

    A `wide` one has integers without a form in RFC 8785, and is allowed only in `schema_digest`.
    """

    __slots__ = ("raw", "value", "wide")

    def __init__(self, value: object) -> None:
        self.value = value
        try:
            self.raw, self.wide = canonical(value), False
        except CanonicalError:
            self.raw, self.wide = canonical(_with_integers(value)), True


def canonical(value: object) -> bytes:
    """Return the RFC 8785 bytes of a JSON value (mappings, lists, tuples, strings, numbers, booleans, None).

    Raises `CanonicalError` for values without a form in RFC 8785: NaN and infinities, keys that are not strings, lone surrogates and
    integers beyond ±(2**53 - 1), which two different numbers could share. `encodable` converts the last to a value with a form.
    """
    if type(value) is str:
        return _string(value).encode("utf-8")
    if raw := _fast(value):
        return raw
    parts: list[str] = []
    _write(value, parts, 0)
    return "".join(parts).encode("utf-8")


def encoded(value: object) -> bytes:
    """Return the canonical form of `encodable(value)`, which for most values is that of the value itself."""
    return as_it_is(value) or canonical(_encodable(value))


def written(value: object) -> bytes:
    """Return the canonical form of a recorded value: its wide numbers are spelled out, and nothing is escaped a second time."""
    return _fast(value) or canonical(_spelled(value))


def written_each(values: Sequence[dict[str, object]], others: Sequence[object]) -> list[bytes]:
    """Return `written` of each value, checked together: every audit entry passes through this function. `others` are the values besides
    text.
    """
    found: list[bytes] = []
    if _same_in_msgspec(others):
        for value in values:
            try:
                raw = _sorted(value)
            except (TypeError, ValueError, RecursionError):
                raw = b""
            found.append(raw if raw and raw.isascii() else written(value))
        return found
    return [written(value) for value in values]


def digest(value: object) -> str:
    """Return `sha256:` and the hex SHA-256 of the canonical form."""
    return "sha256:" + hashlib.sha256(canonical(value)).hexdigest()


def schema_digest(value: object) -> str:
    """Return the digest of a schema, or of a value with schemas; integers of up to 300 digits are allowed in it, as bounds and values.

    A schema with an integer beyond ±(2**53 - 1) is digested in another form, whose bytes begin unlike any JSON. Raises `CanonicalError` for
    any other value without a form in RFC 8785.
    """
    try:
        return digest(value)
    except CanonicalError:
        return "sha256:" + hashlib.sha256(b"integers " + canonical(_with_integers(value))).hexdigest()


def _with_integers(value: object) -> object:
    """Return the value with `{"$integer": "…"}` for an integer without a form, and an escape for an object that looks like one."""
    match value:
        case bool():
            return value
        case int():
            if abs(value) >= _ABSURD:
                raise CanonicalError("a schema contains an integer of more than 300 digits")
            return value if -_MAX_SIZE <= value <= _MAX_SIZE else {"$integer": str(value)}
        case Canonical():
            return _with_integers(value.value)
        case Mapping():
            return {f"${name}" if _is_own(name) else name: _with_integers(item) for name, item in value.items()}
        case list() | tuple():
            return [_with_integers(item) for item in value]
        case _:
            return value


def _is_own(name: object) -> bool:
    return isinstance(name, str) and _OWN_NAME.match(name) is not None


def encodable(value: object) -> Any:
    """Convert a value so that every value has a form of its own: no two calls share a digest.

    A whole number beyond ±(2**53 - 1) becomes `{"$integer": "…"}` or, if it was a float, `{"$float": "…"}`: RFC 8785 writes 1e16 without an
    exponent, and its reader gets an integer that has no form. Text that could be taken for a keyed digest becomes `{"$text": "…"}`, and an
    object that could be taken for one of these gets one more `$` in its name. `decoded` is the inverse.
    """
    raw = _fast(value)
    return value if raw and _OWN_FORM not in raw and _KEYED not in raw else _encodable(value)


def _encodable(value: object) -> object:
    match value:
        case Recorded():
            return str(value)
        case str():
            return {"$text": value} if value.startswith(_DIGEST) else value
        case Mapping() if len(value) == 1:
            [(name, item)] = value.items()
            own = isinstance(name, str) and _OWN_NAME.match(name)
            return {f"${name}" if own else name: _encodable(item)}
        case Mapping():
            return {name: _encodable(item) for name, item in value.items()}
        case list() | tuple():
            return [_encodable(item) for item in value]
        case _:
            return _number_spelled(value)


def decoded(value: Any, digest: Callable[[str], str] = str) -> Any:
    """Return the value from which `encodable` made a recorded value.

    A keyed digest is replaced by `digest` of it. Values that `encodable` cannot have written are unchanged.
    """
    match value:
        case str():
            return digest(value) if value.startswith(_DIGEST) else value
        case {"$integer": str(digits)} if len(value) == 1 and _is_number(int, digits):
            return int(digits)
        case {"$float": str(digits)} if len(value) == 1 and _is_number(float, digits):
            return float(digits)
        case {"$text": str(text)} if len(value) == 1:
            return text
        case Mapping() if len(value) == 1:
            [(name, item)] = value.items()
            own = name.startswith("$$") and _OWN_NAME.match(name)
            return {name[1:] if own else name: decoded(item, digest)}
        case Mapping():
            return {name: decoded(item, digest) for name, item in value.items()}
        case list() | tuple():
            return [decoded(item, digest) for item in value]
        case _:
            return value


def is_digest(recorded: object) -> bool:
    """Return True if a recorded value is a keyed digest. Text that was sent and looks like one is recorded as `{"$text": "…"}`."""
    return isinstance(recorded, str) and recorded.startswith(_DIGEST)


def texts(recorded: Any) -> Iterator[str]:
    """Return the texts of a recorded value that may contain digests; sent texts that look like digests are not among them."""
    todo = [recorded]
    while todo:
        match todo.pop():
            case str(text):
                yield text
            case {"$text": str()} as sent if len(sent) == 1:
                pass
            case Mapping() as found:
                todo += found.values()
            case list() | tuple() as items:
                todo += items


def _is_number(kind: type[int | float], digits: str) -> bool:
    """Return True if `encodable` writes a number as this text. Logs from before numbers were escaped hold what agents sent."""
    try:
        number = kind(digits)
    except ValueError:
        return False
    return _number_spelled(number) in ({"$integer": digits}, {"$float": digits})


def _spelled(value: object) -> object:
    match value:
        case Mapping():
            return {name: _spelled(item) for name, item in value.items()}
        case list() | tuple():
            return [_spelled(item) for item in value]
        case _:
            return _number_spelled(value)


def _number_spelled(value: object) -> object:
    match value:
        case bool():
            return value
        case float() if abs(value) > _MAX_SIZE and value.is_integer():
            return {"$float": repr(value)}
        case int() if not -_MAX_SIZE <= value <= _MAX_SIZE:
            return {"$integer": str(value)}
        case _:
            return value


def as_it_is(value: object) -> bytes:
    """Return the canonical form of a value that equals its own `encodable`, if that is quickly determined; else b""."""
    raw = _fast(value)
    return b"" if _OWN_FORM in raw or _KEYED in raw else raw


def flat_form(value: Mapping[str, Any]) -> bytes:
    """Return the result of `as_it_is` for an object of texts, booleans and small integers in ASCII; b"" for any other value."""
    if type(value) is not dict:
        return b""
    for name, item in value.items():
        kind = type(item)
        plain = kind is str or kind is bool or (kind is int and -_MAX_SIZE <= item <= _MAX_SIZE)
        if not plain or type(name) is not str:
            return b""
    try:
        raw = _sorted(value)
    except ValueError:  # an unpaired surrogate
        return b""
    return raw if raw.isascii() and _OWN_FORM not in raw and _KEYED not in raw else b""


def _fast(value: object) -> bytes:
    """Return the canonical form as msgspec writes it; b"" if the two could differ."""
    if not _same_in_msgspec(value):
        return b""
    try:
        raw = _sorted(value)
    except (TypeError, ValueError, RecursionError):
        return b""  # a key that is not a string, or a lone surrogate: the slow path reports which
    return raw if raw.isascii() or not any(lead in raw for lead in _OUTSIDE_BMP) else b""


def _known(value: object) -> object:
    if isinstance(value, Canonical) and not value.wide:
        return msgspec.Raw(value.raw)
    if isinstance(value, Recorded):
        return str(value)
    raise TypeError


_sorted = msgspec.json.Encoder(enc_hook=_known, order="sorted").encode


def _same_in_msgspec(value: object) -> bool:
    """Return True if msgspec writes a value as RFC 8785 requires: fractions of an ordinary size, exact integers, names that are text.

    The values are checked level by level without a call for each, because every sealed or recorded value passes through this function.
    """
    level: list[Any] = [value]
    for _ in range(_MAX_DEPTH + 1):
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is str or kind is bool or item is None or kind is Canonical:
                continue
            if kind is dict:
                try:
                    "".join(item)  # raises for a name that is not text, which msgspec would write as text
                except TypeError:
                    return False
                below.extend(item.values())
            elif kind is list or kind is tuple:
                below.extend(item)
            elif kind is int:
                if not -_MAX_SIZE <= item <= _MAX_SIZE:
                    return False
            elif kind is not float or not 1e-4 <= abs(item) < 1e15 or item.is_integer():
                return False
        if not below:
            return True
        level = below
    return False


def _write(value: object, parts: list[str], depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise CanonicalError(f"the value is nested more than {_MAX_DEPTH} levels deep")
    match value:
        case None:
            parts.append("null")
        case bool():
            parts.append("true" if value else "false")
        case str():
            parts.append(_string(value))
        case int():
            if not -_MAX_SIZE <= value <= _MAX_SIZE:
                raise CanonicalError("an integer beyond 2**53 - 1 has no RFC 8785 form")
            parts.append(str(int(value)))
        case float():
            parts.append(_number(value))
        case Mapping():
            _write_object(value, parts, depth)
        case Canonical():
            if value.wide:
                raise CanonicalError("a schema holds an integer beyond 2**53 - 1, which has no RFC 8785 form")
            parts.append(value.raw.decode("utf-8"))
        case Sequence() if not isinstance(value, (bytes, bytearray)):
            parts.append("[")
            for index, item in enumerate(value):
                if index:
                    parts.append(",")
                _write(item, parts, depth + 1)
            parts.append("]")
        case _:
            raise CanonicalError(f"a {type(value).__name__} is not a JSON value")


def _write_object(value: Mapping[object, object], parts: list[str], depth: int) -> None:
    keys: list[str] = []
    for key in value:
        if not isinstance(key, str):
            raise CanonicalError(f"an object key is a {type(key).__name__}, not a string")
        keys.append(key)
    parts.append("{")
    for index, key in enumerate(sorted(keys, key=_utf16)):
        if index:
            parts.append(",")
        parts.append(_string(key))
        parts.append(":")
        _write(value[key], parts, depth + 1)
    parts.append("}")


def _utf16(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")


def _string(text: str) -> str:
    try:
        return msgspec.json.encode(str(text)).decode("utf-8")
    except UnicodeEncodeError as error:
        raise CanonicalError("a string holds a lone surrogate, which is not Unicode text") from error


def _number(value: float) -> str:
    """Return ECMAScript's Number::toString, required by RFC 8785 section 3.2.2.3."""
    if not math.isfinite(value):
        raise CanonicalError(f"{value} is not a JSON number")
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = f"{abs(value)!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    count = len(digits)
    if count <= point <= 21:
        return sign + digits + "0" * (point - count)
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    tail = f"e{'+' if point > 0 else '-'}{abs(point - 1)}"
    return f"{sign}{digits[0]}{'.' + digits[1:] if count > 1 else ''}{tail}"
