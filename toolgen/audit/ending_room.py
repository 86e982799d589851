"""Room on the disk for how calls end, kept from when they begin: a full disk refuses calls, and never loses what became of one."""

from __future__ import annotations

from toolgen.audit.entry import Entry, keyed_digest

__all__ = ["ENDING_BYTES", "EndingRoom", "shortened"]

ENDING_BYTES = 8 * 1024
"""What is kept for a call, and twice the size of its intent besides, in which the statement is that the ending tells again."""
_DIGEST_LENGTH = 76


class EndingRoom:
    """What is kept for each call that was begun. An entry may use what was kept for its own call, and nothing else of it."""

    def __init__(self) -> None:
        self._kept: dict[str, int] = {}
        self.total = 0
        """Bytes kept for all of them."""

    def add(self, entry: Entry, size: int) -> int:
        """Counts an entry of so many bytes, which is written next; returns how many had been kept for it and are its own now."""
        call, event = entry.get("call_id", ""), entry.get("event")
        taken = self._kept.get(call, 0)
        if event == "intent":
            self.release(entry)
            self.restore(entry, ENDING_BYTES + 2 * size)
            return 0
        if event != "outcome":  # an attempt, or the like: the ending is still to come
            taken = min(size, taken)
            self.restore(entry, -taken)
            return taken
        self.release(entry)
        return taken

    def restore(self, entry: Entry, size: int) -> None:
        """Keeps so many bytes more for an entry's call."""
        if size:
            call = entry.get("call_id", "")
            self._kept[call] = self._kept.get(call, 0) + size
            self.total += size

    def release(self, entry: Entry) -> None:
        """Keeps no more room for the ending of a call."""
        self.total -= self._kept.pop(entry.get("call_id", ""), 0)


def shortened(entry: Entry, key: bytes) -> Entry | None:
    """An ending with a keyed digest in place of its statement, as a sensitive one has; None where that is not shorter."""
    statement = entry.get("sql")
    if (
        entry.get("event") != "outcome"
        or not statement
        or (isinstance(statement, str) and len(statement) <= _DIGEST_LENGTH)
    ):
        return None
    return {**entry, "sql": keyed_digest(key, statement)}
