"""Reader of names with brackets, `a[b][0][c]` and `a[]`, by the rules of PHP, Rails, qs and Stripe."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from toolgen.connectors.openapi.proof.received import UnreadableError

__all__ = ["nested"]

_KEY = re.compile(r"\[([^\[\]]*)\]")


def nested(name: str, pairs: Sequence[tuple[str, str]]) -> Any:
    """Return objects, lists and texts below one name; None if no pair has it. Raises `UnreadableError` for pairs that no server can
    read.
    """
    root: dict[str, Any] = {}
    for key, value in pairs:
        if key != name and not key.startswith(f"{name}["):
            continue
        path = _KEY.findall(key[len(name) :])
        if "".join(f"[{part}]" for part in path) != key[len(name) :]:
            raise UnreadableError(f"has the name {key!r}, whose brackets do not match")
        node, last = root, "value"
        for part in path:
            node = node.setdefault(last, {})
            if not isinstance(node, dict):
                raise UnreadableError(f"is both a value and an object at {key!r}")
            last = part or str(len(node))  # an empty bracket appends
        if last in node:
            raise UnreadableError(f"has {key!r} twice, of which most servers keep one")
        node[last] = value
    return _lists(root.get("value"))


def _lists(node: Any) -> Any:
    """Return the value with objects whose names count from 0 turned into lists."""
    if not isinstance(node, dict):
        return node
    if list(node) == [str(index) for index in range(len(node))]:
        return [_lists(one) for one in node.values()]
    return {key: _lists(one) for key, one in node.items()}
