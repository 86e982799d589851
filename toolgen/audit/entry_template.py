"""Entry templates: the canonical text of audit entries that differ in few fields, with the rest of it written once.

A filled template is the entry itself, a mapping of its fields, and the text that `audit.entry.seal` would write of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec

from toolgen.core.canonical import written

__all__ = ["EntryTemplate", "WrittenEntry", "written_number", "written_text"]

written_text = msgspec.json.Encoder().encode
"""Return the JSON text of a string, or a list of strings, as RFC 8785 writes it. Raises `UnicodeEncodeError` for half a surrogate pair."""


def written_number(value: float) -> bytes:
    """Return a number of at most three decimals, from 0 to 10**15, as RFC 8785 writes it: 25 and not 25.0."""
    return b"%d" % value if value == int(value) else repr(value).encode()


class WrittenEntry(dict[str, Any]):
    """Fields of an entry, and their canonical text: `before` the field `hash`, `between` `hash` and `prev`, and three parts after `prev`:
    `first` before `seq`, `middle` before `stream` and `time`, and `behind` after them."""

    __slots__ = ("before", "behind", "between", "first", "middle")

    before: bytes
    between: bytes
    first: bytes
    middle: bytes
    behind: bytes

    def seal(self, seq: int, stream: str, time: str, prev: str) -> tuple[str, bytes]:
        """Return the hash of the whole entry and its line, as `audit.entry.seal` does."""
        chained = prev.encode("ascii")
        place = b'"stream":"%b","time":"%b",' % (stream.encode(), time.encode())
        end = b'%b"seq":%d,%b%b%b' % (self.first, seq, self.middle, place, self.behind)
        digest = sha256(b"%b{%b%b%b}" % (chained, self.before, self.between, end)).hexdigest()
        line = b'{%b"hash":"%b",%b"prev":"%b",%b}\n' % (self.before, digest.encode(), self.between, chained, end)
        return digest, line


class EntryTemplate:
    """Entries of one event. `fixed` are fields with the same value in each of them, and `varying` the names of the others.

    A fixed field without a value (None, "" or an empty list) is in the entry, and not in its text. The last field of the text is fixed.
    """

    __slots__ = ("_before", "_behind", "_between", "_first", "_fixed", "_middle")

    def __init__(self, fixed: Mapping[str, Any], varying: tuple[str, ...]) -> None:
        self._fixed = dict(fixed)
        formats: list[list[bytes]] = [[], [], [], [], []]
        for name in sorted({*fixed, *varying}):
            part = formats[sum(name > other for other in ("hash", "prev", "seq", "time"))]
            if name in varying:
                part.append(b"%b")
            elif fixed[name] not in (None, "", (), []):
                part.append(b'"%b":%b,' % (name.encode(), written(fixed[name]).replace(b"%", b"%%")))
        self._before, self._between, self._first, self._middle, behind = map(b"".join, formats)
        self._behind = behind.removesuffix(b",").replace(b"%%", b"%")

    def filled(
        self,
        fields: Mapping[str, Any],
        before: tuple[bytes, ...],
        first: tuple[bytes, ...] = (),
        middle: tuple[bytes, ...] = (),
        between: tuple[bytes, ...] = (),
    ) -> WrittenEntry:
        """Return the entry with the varying `fields`.

        The others are the members of these fields in the order of their names, each as `"name":value,` or b"" if it has no value: those
        before `hash`, those between `prev` and `seq`, those between `seq` and `stream`, and those between `hash` and `prev`.
        """
        entry = WrittenEntry(self._fixed)
        entry.update(fields)
        entry.before = self._before % before
        entry.between = self._between % between
        entry.first = self._first % first
        entry.middle = self._middle % middle
        entry.behind = self._behind
        return entry
