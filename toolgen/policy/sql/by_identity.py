"""What was worked out for a database and a scope lately. Both are compared by identity, and kept, so that no id is ever reused."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Generic, TypeVar

from toolgen.model.database import Database
from toolgen.policy.sql.grants import SqlScope

__all__ = ["ByIdentity"]

_Value = TypeVar("_Value")


class ByIdentity(Generic[_Value]):
    """At most `size` values, by database, scope and a text; the one asked for the longest time ago goes first."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = Lock()
        self._entries: OrderedDict[tuple[int, int, str], tuple[Database, SqlScope, _Value]] = OrderedDict()

    def get(self, database: Database, scope: SqlScope, text: str = "") -> _Value | None:
        """The value, unless there is none."""
        key = (id(database), id(scope), text)
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                return None
            self._entries.move_to_end(key)
        return found[2]

    def put(self, database: Database, scope: SqlScope, value: _Value, text: str = "") -> None:
        """Keeps the value."""
        with self._lock:
            self._entries[id(database), id(scope), text] = (database, scope, value)
            while len(self._entries) > self._size:
                self._entries.popitem(last=False)
