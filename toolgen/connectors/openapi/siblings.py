"""Hints about another operation on the same resource: one short sentence in a description, made from the sibling paths.

A hint names an action and no tool: toolgen.yaml may rename the tool, and a principal may not be allowed to see it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from toolgen.connectors.naming import singular, words
from toolgen.connectors.openapi.operation import Operation

__all__ = ["hints"]

_MAX_LENGTH = 100
_PLAIN = re.compile(r"\{[A-Za-z0-9_.-]{1,40}\}")


def hints(operations: Mapping[str, Operation]) -> dict[str, str]:
    """Return the sentence about its siblings for each origin that has one."""
    there = {(one.method, one.path.rstrip("/")) for one in operations.values()}
    found: dict[str, str] = {}
    for origin, one in operations.items():
        for sentence in _sentences(one.method, one.path.rstrip("/"), there):
            if len(sentence) <= _MAX_LENGTH:
                found[origin] = sentence
            break
    return found


def _sentences(method: str, path: str, there: Iterable[tuple[str, str]]) -> Iterator[str]:
    above, _, last = path.rpartition("/")
    if last.startswith("{") and last.endswith("}") and "{" not in last[1:]:
        many = _noun(above)
        if not many:
            return
        one = " ".join((*many[:-1], singular(many[-1])))
        if method == "GET" and ("GET", above) in there and _PLAIN.fullmatch(last):
            yield f"To find the {last[1:-1]}, list the {' '.join(many)}."
        elif method == "PUT" and ("PATCH", path) in there:
            yield f"Replaces the whole {one}; to change some fields, patch it."
        elif method == "PATCH" and ("PUT", path) in there:
            yield f"Changes only the fields given; to replace the whole {one}, put it."
    elif method == "GET" and last in {"search", "find", "query"} and ("GET", above) in there and (many := _noun(above)):
        yield f"For all {' '.join(many)}, list them instead."
    elif method == "GET" and (many := _noun(path)) and many[-1] != singular(many[-1]):
        searches = {
            ("GET", f"{path}/search"),
            ("POST", f"{path}/search"),
            ("GET", f"/search/{last}"),
            ("POST", f"/search/{last}"),
        }
        if not searches.isdisjoint(there):
            yield f"To match a text, search the {' '.join(many)} instead."


def _noun(path: str) -> tuple[str, ...]:
    last = path.rpartition("/")[2]
    return () if "{" in last else words(last)
