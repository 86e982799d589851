"""Looks a known sensitive value up in a log that holds only keyed digests of such values."""

from __future__ import annotations

import contextlib
import hmac
import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import chain, combinations, islice
from pathlib import Path
from typing import Any

from toolgen.audit.entry import Entry, keyed_digest
from toolgen.audit.reader import entries
from toolgen.canonical import texts, written
from toolgen.errors import AuditError, CanonicalError
from toolgen.json_codec import decode_json, encode_json
from toolgen.key_file import read_key as kept

__all__ = ["digests_of", "find_value", "holds", "read_key"]

_DIGEST = re.compile("hmac-sha256:[0-9a-f]{64}")
_MAX_TIMES = 4  # a value was sensitive by its path, as a variable, in a document and by its schema
_MAX_FORMS = 2000
_Place = tuple[str | None, ...]


def read_key(directory: Path) -> bytes:
    """The key of a log's digests. Raises `AuditError` when it cannot be read: then nobody can look anything up."""
    path = directory / "hmac.key"
    try:
        return kept(path)
    except OSError as error:
        raise AuditError(f"cannot be read: {error.strerror}", where=str(path)) from error
    except ValueError:
        raise AuditError("holds no key of 64 hex digits", where=str(path)) from None


def find_value(directory: Path, value: str) -> Iterator[Entry]:
    """Every entry with the digest of a value: of its text, or of the number, list or object that the text is in JSON.

    A part of a recorded value (a word of a text, a field of an object that was concealed whole) has another digest, and is found only
    where it is sensitive by itself. In logs from before values were concealed once, what was concealed twice is found too.
    """
    wanted = digests_of(read_key(directory), value)
    return (entry for entry in entries(directory) if holds(entry, wanted))


def digests_of(key: bytes, value: str) -> frozenset[str]:
    """All that a log with this key may hold for a value."""
    forms: list[Any] = [value]
    with contextlib.suppress(ValueError):
        forms.append(decode_json(value.encode(errors="surrogatepass")))
    found: set[str] = set()
    for form in forms:
        with contextlib.suppress(CanonicalError, RecursionError):  # then no call could be recorded with it
            found.update(_digests(key, form))
    return frozenset(found)


def holds(entry: Entry, digests: frozenset[str]) -> bool:
    """Whether one of the digests stands in an entry, and not only in text that an agent sent."""
    return any(not digests.isdisjoint(_DIGEST.findall(text)) for text in texts(entry))


def _digests(key: bytes, value: Any) -> Iterator[str]:
    """What the record may hold for a value: its digest, and in older logs also the digest of a digest, or of what held digests."""
    yield keyed_digest(key, value)
    for form in (value, *_with_digests_inside(key, value)):
        digest = _unescaped(key, form)
        for _ in range(_MAX_TIMES):
            yield digest
            digest = _unescaped(key, digest)


def _unescaped(key: bytes, value: Any) -> str:
    """A digest as it was before forms of the record's own were escaped in what is sent."""
    return "hmac-sha256:" + hmac.new(key, written(value), sha256).hexdigest()


def _with_digests_inside(key: bytes, value: Any) -> Iterator[Any]:
    """The value with digests in the places that other paths may have named: every choice of places, the fewest first."""
    inner = value
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            inner = decode_json(value.encode())
    places = sorted(set(_places(inner, ())), key=repr)
    choices = chain.from_iterable(combinations(places, count) for count in range(1, len(places) + 1))
    for chosen in islice(choices, _MAX_FORMS):
        form = _with_digests_at(key, inner, (), frozenset(chosen))
        yield form if inner is value else encode_json(form).decode()


def _places(value: Any, above: _Place) -> Iterator[_Place]:
    """Every place in a value, those of all items of a list as one: the names that lead there."""
    items: Iterable[tuple[str | None, Any]] = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = ((None, item) for item in value)
    for name, item in items:
        yield (*above, name)
        yield from _places(item, (*above, name))


def _with_digests_at(key: bytes, value: Any, place: _Place, chosen: frozenset[_Place]) -> Any:
    if isinstance(value, dict):
        value = {name: _with_digests_at(key, item, (*place, name), chosen) for name, item in value.items()}
    elif isinstance(value, list):
        value = [_with_digests_at(key, item, (*place, None), chosen) for item in value]
    return _unescaped(key, value) if place in chosen else value
