"""What a root field is called as a tool: `country` is `get_country`, `countries` `list_countries`, `addReview` `add_review`."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping

from toolgen.model.names import LONGEST_NAME, join

__all__ = ["local_name", "title_of", "tool_names"]

# A query whose name begins with one of these says already what it does.
_VERBS = frozenset(
    {
        "aggregate",
        "calculate",
        "check",
        "compare",
        "count",
        "describe",
        "estimate",
        "evaluate",
        "export",
        "fetch",
        "filter",
        "find",
    }
    | {
        "get",
        "has",
        "is",
        "list",
        "load",
        "lookup",
        "match",
        "preview",
        "query",
        "read",
        "resolve",
        "retrieve",
        "search",
        "show",
    }
    | {"validate", "verify"}
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_HASH = 6  # characters


def local_name(field: str, *, read: bool, many: bool) -> str:
    """`verb_noun` of a root field. `read` is whether it is a query, `many` whether it returns a list or a connection."""
    words = [word.lower() for word in _WORD.findall(field)] or [field]
    if read and words[0] not in _VERBS:
        words.insert(0, "list" if many else "get")
    return "_".join(words)


def tool_names(source: str, locals_: Mapping[str, str]) -> dict[str, str]:
    """Coordinate (`Query.country`) -> tool name, for coordinate -> local name.

    Names are unique and depend on nothing but the set of coordinates. Of several fields that want one name the field that is spelt so
    already has it; the others get six characters of the hash of their coordinate, as does whatever is too long.
    """
    wanted = Counter(locals_.values())
    spelt = Counter(local for coordinate, local in locals_.items() if _is_spelt(coordinate, local))
    room = LONGEST_NAME - len(join(source, ""))
    names: dict[str, str] = {}
    for coordinate, local in locals_.items():
        alone = wanted[local] == 1 or (spelt[local] == 1 and _is_spelt(coordinate, local))
        if not alone or len(local) > room:
            suffix = hashlib.sha256(coordinate.encode()).hexdigest()[:_HASH]
            local = f"{local[: room - _HASH - 1].rstrip('_')}_{suffix}"  # noqa: PLW2901
        names[coordinate] = join(source, local)
    return names


def title_of(local: str) -> str:
    """`get_country` as a person reads it: `Get country`."""
    return local.replace("_", " ").strip().capitalize()


def _is_spelt(coordinate: str, local: str) -> bool:
    return "_".join(word.lower() for word in _WORD.findall(coordinate.partition(".")[2])) == local
