"""Recognition of operation names that frameworks generate: FastAPI turns `read_item` into `read_item_items__item_id__get`.

Each convention is matched exactly, with method and path if they are part of the name. Any other name is the author's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from toolgen.connectors.naming import PARAMETER, VERBS, VERSION, from_route, singular, verbs_before, words

__all__ = ["framework_names"]

_READING, _WRITING = frozenset({"get", "head"}), frozenset({"put", "patch", "post"})

_HANDLERS: Mapping[str, tuple[str, frozenset[str]]] = MappingProxyType(
    {
        **dict.fromkeys(
            ("find all", "find many", "get all", "get list", "get many", "index", "list", "list all"),
            ("list", _READING),
        ),
        **dict.fromkeys(
            ("find one", "find by id", "get one", "get by id", "get", "show", "retrieve", "read", "fetch"),
            ("get", _READING),
        ),
        **dict.fromkeys(
            ("create", "create one", "store", "save", "add", "insert", "post"), ("create", frozenset({"post", "put"}))
        ),
        **dict.fromkeys(
            ("update", "update one", "replace", "modify", "edit", "partial update", "patch"),
            ("update", _WRITING),
        ),
        "put": ("replace", frozenset({"put"})),
        **dict.fromkeys(
            ("delete", "delete one", "delete by id", "remove", "remove by id", "destroy"),
            ("delete", frozenset({"delete", "post"})),
        ),
    }
)
"""Meaning of a generic handler name, and the HTTP methods it fits."""
_BARE = frozenset(
    (
        "findAll",
        "findOne",
        "findById",
        "getAll",
        "getById",
        "list",
        "get",
        "create",
        "save",
        "update",
        "delete",
        "deleteById",
    )
)
_DJANGO = ("partial update", "list", "create", "retrieve", "read", "update", "destroy", "delete")
_SPRING = re.compile(r"(\w+?)Using(GET|POST|PUT|DELETE|PATCH|HEAD|OPTIONS)(?:_[0-9]+)?")
_NUMBERED = re.compile(r"([A-Za-z]+)_[0-9]+")
_NEST = re.compile(r"([A-Z]\w*?)Controller_(\w+?)(?:_v[0-9]+)?(?:\[[0-9]+\])?")
_METHOD_BEHIND = re.compile(r"([A-Z][A-Za-z0-9]*?)(GET|POST|PUT|DELETE|PATCH|HEAD)[0-9]*")
_METHOD_BEFORE = re.compile(r"(GET|POST|PUT|DELETE|PATCH|HEAD)_([A-Z][A-Za-z0-9]*)")
_GROUPED = re.compile(r"([A-Z][A-Za-z0-9]*)_([A-Z][A-Za-z0-9]*)")
_DOTTED = re.compile(r"[A-Za-z][\w-]*(?:\.[A-Za-z][\w-]*)+")
_SNAKE = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+")
_DATED = re.compile(r"([A-Z][A-Za-z0-9]*?)_?(?:19|20)[0-9]{2}(_?)(?:0[1-9]|1[0-2])\2(?:0[1-9]|[12][0-9]|3[01])")
_KUBERNETES = re.compile(r"([a-z]+)([A-Z]\w*?)(V[0-9]+(?:(?:alpha|beta)[0-9]+)?)([A-Z]\w*)")
_LINKING = frozenset({"by", "for", "from", "in", "of", "on", "to", "with", "as", "at"})
_JOINING = frozenset({"or", "and"})


class _NamedRoute(NamedTuple):
    """Route of an operation: method, path, tags, and the path segments that are not parameters."""

    method: str
    path: str
    fixed: tuple[tuple[str, ...], ...]
    tags: tuple[str, ...]


def framework_names(identifier: str, method: str, path: str, tags: Iterable[str] = ()) -> tuple[tuple[str, ...], ...]:
    """Return the names behind an identifier that a framework generated, best first; none for any other identifier.

    The later names add further words of the path, from right to left. They are used if another operation has the first name.
    """
    fixed = tuple(found for segment in path.split("/") if not PARAMETER.search(segment) and (found := words(segment)))
    route = _NamedRoute(method=method.lower(), path=path, fixed=fixed, tags=tuple(tags))
    for read in _CONVENTIONS:
        if found := read(identifier, route):
            names = [found, *_other_words(identifier, found)]
            for segment in _telling(route):
                more = [word for word in segment if word not in names[-1] and singular(word) not in names[-1]]
                names += [(*names[-1], *more)] if more else []
            return tuple(names)
    return ()


def _other_words(identifier: str, found: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield longer names from an identifier, to tell equal names apart: Kubernetes' group and version, Azure's word order."""
    if (said := _KUBERNETES.fullmatch(identifier)) and found == (said[1], *words(said[4])):
        yield (*found, *words(said[2]))
        yield (*found, *words(said[2]), said[3].lower())
    elif (said := _GROUPED.fullmatch(identifier)) and found == _of_group(words(said[2]), words(said[1])):
        yield words(identifier)


def _telling(route: _NamedRoute) -> Iterator[tuple[str, ...]]:
    """Yield the segments that distinguish an operation, with the segments that all paths of a provider share at the end."""
    plain = _plain(route.fixed)
    provider = {words(segment) for segment in route.path.split("/") if "." in segment} | {("providers",)}
    yield from (segment for segment in reversed(plain) if segment not in provider)
    yield from (segment for segment in reversed(plain) if segment in provider)


def _fastapi(identifier: str, route: _NamedRoute) -> tuple[str, ...]:
    """Read `{function}{path}_{method}`, in which other characters than letters and digits are underscores (fastapi.routing,
    generate_unique_id).
    """
    made = f"{re.sub(r'[^A-Za-z0-9_]', '_', route.path)}_{route.method}"
    return words(identifier.removesuffix(made)) if identifier.endswith(made) else ()


def _spring(identifier: str, route: _NamedRoute) -> tuple[str, ...]:
    """Read `getUserUsingGET_1` of springfox, and `findAll_1` of springdoc, which numbers handlers with equal names."""
    if (found := _SPRING.fullmatch(identifier)) and found[2].lower() == route.method:
        return _of_handler(words(found[1]), _thing(route), route) or _of_verb(words(found[1]), route) or words(found[1])
    if found := _NUMBERED.fullmatch(identifier):
        return _of_handler(words(found[1]), _thing(route), route) or _of_verb(words(found[1]), route)
    return ()


def _of_verb(does: tuple[str, ...], route: _NamedRoute) -> tuple[str, ...]:
    """Read a handler name that is only another verb: `search` of /orders/search is `search_orders`."""
    if len(does) != 1 or does[0] not in VERBS:
        return ()
    plain = _plain(route.fixed)
    things = plain[:-1] if plain and plain[-1] == does else plain
    several = len(plain) > len(things) and not PARAMETER.search(route.path.rstrip("/").split("/")[-2])
    return (*does, *(things[-1] if several else _one(things[-1]))) if things else ()


def _bare_handler(identifier: str, route: _NamedRoute) -> tuple[str, ...]:
    """Read `findAll` of springdoc without a number. A verb alone is not a name for a tool."""
    return _of_handler(words(identifier), _thing(route), route) if identifier in _BARE else ()


def _nest(identifier: str, route: _NamedRoute) -> tuple[str, ...]:
    """Read `UsersController_findAll`."""
    found = _NEST.fullmatch(identifier)
    if found is None:
        return ()
    does = words(found[2])
    if len(does) == 1 and does[0] not in VERBS and route.method == "get" and route.fixed[-1:] == (does,):
        return ("get", *does)  # a noun: /users/me
    return _of_handler(does, words(found[1]), route) or _verb_noun(does, words(found[1]))


def _grouped(identifier: str, route: _NamedRoute) -> tuple[str, ...]:
    """Read `Users_GetAll` of NSwag, `VirtualMachines_CreateOrUpdate` of Azure."""
    found = _GROUPED.fullmatch(identifier)
    if found is None or _METHOD_BEFORE.fullmatch(identifier):
        return ()
    group, does = words(found[1]), words(found[2])
    if not group or not does or does[0] not in VERBS:
        return ()
    if handled := _of_handler(does, group, route):
        return handled
    own = {singular(word) for word in does if word not in VERBS and word not in _JOINING}
    if not own <= {*map(singular, group)} and _LINKING.isdisjoint(does):
        # The noun is incomplete without the group, which is searched in the tags first.
        return () if group in map(words, route.tags) else _of_group(does, group)
    return _verb_noun(does, group)


def _of_group(does: tuple[str, ...], group: tuple[str, ...]) -> tuple[str, ...]:
    """Read `Users_GetRoles` as `get_user_roles`, `ActionTypes_CreateEntity` as `create_action_type_entity`."""
    end = verbs_before(does)
    if end == len(does):
        return ()
    noun, one = does[end:], _one(group)
    if {*map(singular, group)} <= {*map(singular, noun)}:
        return does
    return (*does[:end], *(one[:-1] if noun[0] == one[-1] else one), *noun)


def _method_behind(identifier: str, route: _NamedRoute) -> tuple[str, ...]:
    """Read `OrdersGET2` of NSwag, `ApiOrdersByIdGet` of Swashbuckle: the path, and the method."""
    plain = _plain(route.fixed)
    found = _METHOD_BEHIND.fullmatch(identifier)
    if found and plain and found[2].lower() == route.method and words(found[1]) == plain[-1]:
        return from_route(route.method, route.path)[0]
    if not identifier[:1].isupper() or not identifier.lower().endswith(route.method):
        return ()
    made = "".join(re.sub(r"[^A-Za-z0-9]", "", PARAMETER.sub(r"By\1", one)) for one in route.path.split("/"))
    whole = made and identifier.lower() == f"{made}{route.method}".lower()
    return from_route(route.method, route.path)[0] if whole else ()


def _method_before(identifier: str, route: _NamedRoute) -> tuple[str, ...]:
    """Read `GET_DescribeVpcs` of services whose actions accept several methods."""
    found = _METHOD_BEFORE.fullmatch(identifier)
    return words(found[2]) if found and found[1].lower() == route.method else ()


def _django(identifier: str, route: _NamedRoute) -> tuple[str, ...]:
    """Read `api_v1_users_partial_update` of Django REST framework: the path without its parameters, and the action."""
    if not _SNAKE.fullmatch(identifier):
        return ()
    parts = words(identifier)
    if parts[-1].isdigit():  # drf-spectacular numbers operations with equal names
        parts = parts[:-1]
    for action in _DJANGO:
        does = tuple(action.split())
        path = parts[: -len(does)]
        if not path or parts[-len(does) :] != does or not route.fixed:
            continue
        flat = tuple(word for segment in route.fixed for word in segment)
        if flat[-len(path) :] != path or len(path) < len(route.fixed[-1]):
            continue
        last = route.fixed[-1]
        if last[0] in VERBS and len(route.fixed) > 1 and not _ends_with_parameter(route):
            return _verb_noun(last, route.fixed[-2])  # a custom action: /users/{id}/set_password/
        if action == "update" and route.method == "put":  # `partial_update` is the update, so this operation replaces
            return ("replace", *_one(last))
        return _of_handler(does, last, route)
    return ()


def _dotted(identifier: str, route: _NamedRoute) -> tuple[str, ...]:
    """Read `users.index` of Laravel, `youtube.videos.list` of Google."""
    if not _DOTTED.fullmatch(identifier):
        return ()
    *groups, last = identifier.split(".")
    group, does = words(groups[-1]), words(last)
    if not group or not does:
        return ()
    if found := _of_handler(does, group, route):
        return found
    if does[0] not in VERBS and (len(groups) < 2 or route.fixed[-1:] != (does,) or route.method != "post"):
        return ()
    if does[0] in VERBS:
        return _verb_noun(does, group)
    return (*does, *(group if does[0] == "batch" else _one(group)))  # a custom method: /messages/batchDelete


def _dated(identifier: str, _: _NamedRoute) -> tuple[str, ...]:
    """Read `RunInstances_2016_11_15` and `ListFunctions20150331` of AWS."""
    found = _DATED.fullmatch(identifier)
    return words(found[1]) if found else ()


def _kubernetes(identifier: str, route: _NamedRoute) -> tuple[str, ...]:
    """Read `readCoreV1NamespacedPod`: verb, group, version and kind, the version as in the path."""
    found = _KUBERNETES.fullmatch(identifier)
    if found is None or found[1] not in VERBS or f"/{found[3].lower()}/" not in f"{route.path.lower()}/":
        return ()
    return (found[1], *words(found[4]))


_CONVENTIONS: Sequence[Callable[[str, _NamedRoute], tuple[str, ...]]] = (
    _fastapi,
    _nest,
    _spring,
    _dated,
    _method_before,
    _method_behind,
    _grouped,
    _kubernetes,
    _dotted,
    _django,
    _bare_handler,
)


def _of_handler(does: tuple[str, ...], thing: tuple[str, ...], route: _NamedRoute) -> tuple[str, ...]:
    """Return verb and noun for a handler name that is only a generic verb, if the verb fits the method."""
    verb, methods = _HANDLERS.get(" ".join(does), ("", frozenset[str]()))
    if not thing or route.method not in methods:
        return ()
    if does == ("post",) and route.fixed and _one(route.fixed[-1]) == route.fixed[-1]:
        return ()  # the path has no collection: /graphql
    several = verb == "list" or (verb == "get" and not _ends_with_parameter(route))
    return (verb, *(thing if several else _one(thing)))


def _verb_noun(does: tuple[str, ...], thing: tuple[str, ...]) -> tuple[str, ...]:
    """Return a name of verb and noun: the noun is added after the verbs if none follows them."""
    end = 0
    while end < len(does) and (does[end] in VERBS or (end and does[end] in _JOINING)):
        end += 1
    if end < len(does) and (end == 0 or does[end] not in _LINKING):
        return does
    plural = does[0] in {"list", "search", "query"}
    return (*does[:end], *(thing if plural else _one(thing)), *does[end:])


def _thing(route: _NamedRoute) -> tuple[str, ...]:
    """Return the subject of a route: the last segment of its path that is not a parameter, or its tag."""
    plain = _plain(route.fixed)
    if plain:
        return plain[-1]
    return words(route.tags[0].removesuffix("-controller")) if route.tags else ()


def _plain(fixed: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the segments without versions, `api` and `rest`."""
    return [segment for segment in fixed if not VERSION.fullmatch("".join(segment))]


def _ends_with_parameter(route: _NamedRoute) -> bool:
    return bool(PARAMETER.search(route.path.rstrip("/").rpartition("/")[2]))


def _one(thing: tuple[str, ...]) -> tuple[str, ...]:
    return (*thing[:-1], singular(thing[-1]))
