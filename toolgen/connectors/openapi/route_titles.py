"""English titles of operations without a summary and without an identifier that adds words to their path."""

from __future__ import annotations

import re
from typing import Final

from toolgen.connectors.naming import DEEDS, PARAMETER, VERBS, VERSION, singular, without_own_method, words

__all__ = ["is_of_route", "route_title"]

_ON_ITEMS: Final = {
    "get": "Get",
    "head": "Check",
    "delete": "Delete",
    "post": "Update",
    "put": "Replace",
    "patch": "Update",
}
_VOWELS: Final = re.compile(r"[aeio]|u(?!ni|se|sa|ti|r[lin])")
_MAX_OWNERS: Final = 2
_MAX_LENGTH: Final = 100
_BESIDE: Final = frozenset({"by", "id", "json", "api", "rest", *_ON_ITEMS})


def is_of_route(identifier: str, method: str, path: str) -> bool:
    """Return True if an identifier has only words of its method and path: `GetCustomersCustomerSubscriptions`."""
    own = {singular(word) for word in words(identifier)}
    return own <= {*_BESIDE, method.lower(), *(singular(word) for word in words(path))}


def route_title(method: str, path: str) -> str:
    """Return a title such as `List subscriptions of a customer` or `Cancel a quote`; "" for a path without words."""
    method = method.lower()
    bare, own = without_own_method(path.partition("?")[0])
    groups = _groups(bare)
    if not groups:
        return ""
    *above, (segments, is_item) = groups
    if own:
        said = f"{_text(words(own))} {_one(segments) if is_item else _text(*segments)}"
    elif method == "post" and not above and len(segments) == 1 and "".join(segments[0]) in DEEDS:
        said = _text(segments[0])
    elif is_item:
        said = f"{_verb(method)} {_one(segments)}"
    elif (action := segments[-1]) and _is_action(method, action, bool(above), len(segments)):
        if len(segments) > 1:
            said = f"{_text(action)} {_text(*segments[:-1])}"
        else:
            segments, _ = above.pop()
            said = f"{_text(action)}{' of' if len(action) > 1 else ''} {_one(segments)}"
    elif method in {"get", "head", "query"}:
        several = segments[-1][-1] != singular(segments[-1][-1])
        said = f"List {_text(*segments)}" if several and method != "head" else f"{_verb(method)} the {_text(*segments)}"
    elif method == "post":
        said = f"Create {_one(segments)}"
    else:
        said = f"{_verb(method)} the {_text(*segments)}"
    for owner, _ in reversed(above[-_MAX_OWNERS:]):
        if len(longer := f"{said} of {_one(owner)}") <= _MAX_LENGTH:
            said = longer
    return said[0].upper() + said[1:]


def _groups(path: str) -> list[tuple[list[tuple[str, ...]], bool]]:
    """Return the segments of a path as words, up to each parameter, and True if a parameter follows them."""
    groups: list[tuple[list[tuple[str, ...]], bool]] = []
    pending: list[tuple[str, ...]] = []
    for segment in path.removesuffix(".json").split("/"):
        found = words(PARAMETER.sub("", segment).removesuffix(".json"))
        if found and not VERSION.fullmatch("".join(found)):
            pending.append(found)
        if PARAMETER.search(segment) and pending:
            groups.append((pending, True))
            pending = []
    return [*groups, (pending, False)] if pending else groups


def _is_action(method: str, action: tuple[str, ...], follows_item: bool, segments: int) -> bool:
    if method not in {"post", "put", "patch"} or (not follows_item and segments < 2):
        return False
    if action[0] in VERBS:
        return True
    return method == "post" and follows_item and segments == 1 and action[-1] == singular(action[-1])


def _verb(method: str) -> str:
    return _ON_ITEMS.get(method, method.capitalize())


def _text(*segments: tuple[str, ...]) -> str:
    *before, last = segments
    return " ".join([*(" ".join((*one[:-1], singular(one[-1]))) for one in before), " ".join(last)])


def _one(segments: list[tuple[str, ...]]) -> str:
    text = _text(*segments[:-1], (*segments[-1][:-1], singular(segments[-1][-1])))
    return f"{'an' if _VOWELS.match(text) else 'a'} {text}"
