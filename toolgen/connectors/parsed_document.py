"""Parsed description: its value, the keys that stand twice in it, and the limits of its depth and size."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from toolgen.core.errors import DescriptionError

__all__ = ["MAX_DEPTH", "MAX_REPEATED", "ParsedDocument", "Repeated", "escape", "measure"]

MAX_DEPTH = 200
MAX_REPEATED = 50
_MAX_EXPANSION = 5_000_000


class Repeated(Struct, frozen=True, kw_only=True):
    """A key that stands twice in the object at `pointer` (`#/info`), the second time on `line`; the last one counts."""

    pointer: str
    key: str
    line: int

    @property
    def message(self) -> str:
        """Message for a person."""
        what = f"the key {self.key[:80]!r} stands" if self.key else "a key stands"
        return f"{what} twice in it (line {self.line}); the last one counts"


class ParsedDocument(Struct, frozen=True, kw_only=True):
    """A document's value, and the keys of which it has more than one; at most the first 50 of them."""

    value: Any
    repeated: tuple[Repeated, ...] = field(default=())


def measure(value: Any, where: str) -> None:
    """Aliases share what they repeat, so a small file can stand for billions of nodes; counted here without expanding them."""
    sizes: dict[int, int] = {}
    open_: set[int] = set()
    stack: list[tuple[Any, bool]] = [(value, False)]
    while stack:
        node, done = stack.pop()
        children = list(node.values()) if isinstance(node, dict) else node
        nested = [child for child in children if isinstance(child, (dict, list))]
        if done:
            open_.discard(id(node))
            sizes[id(node)] = 1 + len(children) + sum(sizes[id(child)] for child in nested)
            if sizes[id(node)] > _MAX_EXPANSION:
                raise DescriptionError("repeats itself through aliases without bound", where=where)
            continue
        if id(node) in sizes:
            continue
        if id(node) in open_:
            raise DescriptionError("holds an alias that contains itself", where=where)
        open_.add(id(node))
        if len(open_) > MAX_DEPTH:
            raise DescriptionError(f"is nested more than {MAX_DEPTH} levels deep", where=where)
        stack.append((node, True))
        stack.extend((child, False) for child in nested)


def escape(token: str) -> str:
    """Escape one token of a JSON pointer (RFC 6901, section 3)."""
    return token.replace("~", "~0").replace("/", "~1")
