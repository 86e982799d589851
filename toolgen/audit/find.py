"""Looks a known sensitive value up in a log that holds only keyed digests of such values."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from toolgen.audit.entry import Entry, keyed_digest
from toolgen.audit.read import entries
from toolgen.errors import AuditError
from toolgen.key_file import read_key as kept

__all__ = ["find_value", "read_key"]


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

    A part of a recorded value (a word of a text, a field of an object that was concealed whole) has another digest, and is not found.
    """
    key = read_key(directory)
    digests = {keyed_digest(key, value)}
    with contextlib.suppress(msgspec.DecodeError, RecursionError):
        digests.add(keyed_digest(key, msgspec.json.decode(value)))
    for entry in entries(directory):
        text = msgspec.json.encode(entry).decode()
        if any(digest in text for digest in digests):
            yield entry
