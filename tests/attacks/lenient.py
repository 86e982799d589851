"""How services read names of queries, forms and cookies: as PHP, Rack, qs, Express, Django, ASP.NET and others do, in a few lines each.

Every reader takes the pairs of a request, still encoded, and tells what a service of its kind finds under a name.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias
from urllib.parse import unquote, unquote_plus

Pairs: TypeAlias = list[tuple[str, str]]
Reader: TypeAlias = Callable[[Pairs, str], Any]

_BRACKETED = re.compile(r"\[([^\[\]]*)\]")
_RACK = re.compile(r"\A[\[\]]*([^\[\]]+)\]*")


def _keys(name: str) -> tuple[str, ...]:
    """`filter[owner]`, as its description writes it, as the keys that a service looks it up by."""
    first, _, _ = name.partition("[")
    return (first, *_BRACKETED.findall(name[len(first) :]))


def _dig(tree: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        tree = tree.get(key) if isinstance(tree, Mapping) else None
    return tree


def _put(tree: dict[str, Any], keys: list[str], value: str) -> None:
    """As PHP's arrays take it: what stands in the way is replaced."""
    for given in keys[:-1]:
        key = given if given != "" else str(len(tree))
        if not isinstance(tree.get(key), dict):
            tree[key] = {}
        tree = tree[key]
    tree[keys[-1] if keys[-1] != "" else str(len(tree))] = value


def php(pairs: Pairs, wanted: str) -> Any:
    """`php_register_variable_ex` of main/php_variables.c."""
    tree: dict[str, Any] = {}
    for key, value in pairs:
        name = unquote_plus(key).lstrip(" ").partition("\0")[0]
        start = name.find("[")
        base = re.sub("[ .]", "_", name if start < 0 else name[:start])
        keys, rest = [base], "" if start < 0 else name[start:]
        while rest.startswith("["):
            inner = rest[1:].lstrip(" \t\r\n") if rest[1:2].isspace() else rest[1:]
            end = inner.find("]")
            if end < 0:
                keys[-1] = f"{keys[-1]}_{rest[1:]}" if len(keys) == 1 else keys[-1]
                break
            keys.append(inner[:end])
            rest = inner[end + 1 :]
        if base:
            _put(tree, keys, unquote_plus(value))
    first, *below = _keys(wanted)
    return _dig(tree, (re.sub("[ .]", "_", first), *below))


def rack(pairs: Pairs, wanted: str) -> Any:
    """`normalize_params` of Rack before 3, the most generous one."""
    tree: dict[str, Any] = {}
    for key, value in pairs:
        for piece in re.split("[&;]", unquote_plus(key)):
            _rack(tree, piece, unquote_plus(value))
    return _dig(tree, _keys(wanted))


def _rack(tree: dict[str, Any], name: str, value: str) -> None:
    found = _RACK.match(name)
    if found is None:
        return
    key, after = found[1], name[found.end() :]
    if after in {"", "["}:
        tree[key if after == "" else name] = value
    elif after == "[]":
        tree[key] = [*tree[key], value] if isinstance(tree.get(key), list) else [value]
    elif after.startswith("[]"):
        inner: dict[str, Any] = {}
        _rack(inner, after[2:], value)
        tree[key] = [*tree[key], inner] if isinstance(tree.get(key), list) else [inner]
    else:
        if not isinstance(tree.get(key), dict):
            tree[key] = {}
        _rack(tree[key], after, value)


def qs(pairs: Pairs, wanted: str) -> Any:
    """qs, with `allowDots` as many set it: two values of a name are a list, and a value beside keys is one of them."""
    tree: dict[str, Any] = {}
    for key, value in pairs:
        name = re.sub(r"\.([^.\[]+)", r"[\1]", unquote_plus(key))
        first, _, _ = name.partition("[")
        keys = [first, *_BRACKETED.findall(name)] if first else _BRACKETED.findall(name)
        node = tree
        for step in keys[:-1]:
            if not isinstance(node.get(step), dict):
                node[step] = {} if step not in node else {"": node[step]}
            node = node[step]
        if keys:
            last, text = keys[-1], unquote_plus(value)
            node[last] = text if last not in node else [node[last], text]
    return _dig(tree, tuple(key for name in _keys(wanted) for key in name.split(".")))


def _flat(fold: Callable[[str], str], *, first: bool = False, joined: bool = False) -> Reader:
    """A reader that has one map of folded names."""

    def read(pairs: Pairs, wanted: str) -> Any:
        found = [unquote_plus(value) for key, value in pairs if fold(unquote_plus(key)) == fold(wanted)]
        if not found or joined:
            return ",".join(found) if found else None
        return found[0] if first else found[-1]

    return read


def _aspnet(name: str) -> str:
    return re.sub(r"\[([^\[\]]+)\]", r".\1", name).removesuffix("[]").casefold()


def _grpc(name: str) -> str:
    """JSON of Protocol Buffers: `tenantId` and `tenant_id` are one field."""
    return name.replace("_", "").casefold()


def _cgi(name: str) -> str:
    return re.sub("[^A-Z0-9]", "_", name.upper())


def _zope(name: str) -> str:
    return name.partition(":")[0]


def _c_string(name: str) -> str:
    return name.partition("\0")[0].strip()


def _twice(name: str) -> str:
    return unquote(unquote(name)).partition("=")[0]


def _best_fit(name: str) -> str:
    """As Windows brings what a code page lacks into it."""

    return "".join(c for c in unicodedata.normalize("NFKD", name) if c.isascii())


READERS: Mapping[str, Reader] = {
    "php": php,
    "rack": rack,
    "qs": qs,
    "express": _flat(str.lower),
    "django": _flat(str),
    "servlet": _flat(str, first=True),
    "asp.net": _flat(_aspnet, joined=True),
    "grpc": _flat(_grpc),
    "cgi": _flat(_cgi),
    "zope": _flat(_zope),
    "c": _flat(_c_string),
    "twice": _flat(_twice),
    "best fit": _flat(_best_fit),
}
