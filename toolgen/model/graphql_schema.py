"""Index of a GraphQL schema without descriptions: enough to check a selection or a document without the original schema."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from toolgen.model.result import SUCCESS_FLAGS

__all__ = [
    "MAX_INT",
    "PAGE_SIZES",
    "UPLOAD",
    "Graph",
    "GraphArgument",
    "GraphField",
    "GraphType",
    "identifies",
    "longest_list",
    "named",
    "page_sizes",
    "reachable",
    "rejects",
    "size_fault",
]

# Arguments that set the number of items, by common names.
PAGE_SIZES = frozenset(
    """
    first last limit pageSize page_size perPage per_page take maxResults max_results itemsPerPage items_per_page
    """.split()  # noqa: SIM905 - a list of words is read more easily as a text
)

_WHOLE = re.compile(r"-?[0-9]{1,30}\Z")

UPLOAD = "Upload"
"""Scalar of files: its name in the multipart request specification and in all servers."""

MAX_INT = 2**31 - 1
"""Maximum of GraphQL's Int (spec, section 3.5.1)."""


class GraphArgument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Argument or field of an input object. `type` is written as in SDL: `[ID!]!`.

    `default` is its default if that is a page size, or an input object, which may contain one.
    """

    type: str
    has_default: bool = False
    default: Any = None

    @property
    def required(self) -> bool:
        """True if it is non-null and without a default (spec, sections 3.6.1 and 3.10)."""
        return self.type.endswith("!") and not self.has_default


class GraphField(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Field of an object or interface."""

    type: str
    arguments: dict[str, GraphArgument] = {}


class GraphType(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Named type. `members` are the interfaces of an object or interface, the types of a union or the values of an enum."""

    kind: str  # object | interface | union | enum | scalar | input
    fields: dict[str, GraphField] = {}
    inputs: dict[str, GraphArgument] = {}
    members: tuple[str, ...] = ()
    one_of: bool = False

    @property
    def is_leaf(self) -> bool:
        return self.kind in {"enum", "scalar"}


class Graph(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Complete schema; `query`, `mutation` and `subscription` name its root types, "" for none. Built-in scalars are among `types`.

    `secrets` are the names of the arguments and input fields whose scalar is configured as secret.
    """

    types: dict[str, GraphType]
    query: str = ""
    mutation: str = ""
    subscription: str = ""
    secrets: tuple[str, ...] = ()

    @property
    def roots(self) -> frozenset[str]:
        """Return the names of the root types."""
        return frozenset(name for name in (self.query, self.mutation, self.subscription) if name)

    @property
    def fronts(self) -> frozenset[str]:
        """Return the types that may resolve to a root: the roots, their interfaces and the unions that include them."""
        interfaces = {member for root in self.roots if root in self.types for member in self.types[root].members}
        unions = {
            name for name, one in self.types.items() if one.kind == "union" and not self.roots.isdisjoint(one.members)
        }
        return self.roots | interfaces | unions

    def root(self, kind: str) -> GraphType | None:
        """Return the root type of query, mutation or subscription."""
        name = {"query": self.query, "mutation": self.mutation, "subscription": self.subscription}.get(kind, "")
        return self.types.get(name)


def identifies(type_: str) -> bool:
    """Return True if a field of this type only identifies its object: of a root below another field only such fields are read."""
    return type_.strip("!") == "ID"


_FAILURES = frozenset({"error", "usererror", "mutationerror", "failure"})
_NUMBERS = frozenset({"Int", "Float", "ID"})


def rejects(name: str, type_: str, *, entity: bool, depth: int) -> bool:
    """Return True if a field of a mutation's answer says that the service did not do the change, or why: a list called `userErrors`; of a
    payload that is not itself the changed object, `errors` and the like; a single `error`, as in union members for a
    failure; and directly below the root field a Boolean `success`.

    `type_` is written as in SDL. An `entity` has an id, and its errors may be old ones. `depth` is the number of fields above.
    """
    plain = name.replace("_", "").lower()
    if type_.rstrip("!") == "Boolean":
        return depth == 1 and not entity and plain in SUCCESS_FLAGS
    if type_.startswith("["):
        return plain.endswith("usererrors") or (plain.endswith("errors") and not entity)
    return plain in _FAILURES and not entity and type_.rstrip("!") not in _NUMBERS


def named(type_: str) -> str:
    """Return the type inside lists and non-nulls: `[ID!]!` gives `ID`."""
    return type_.strip("[]!")


def reachable(graph: Graph) -> Graph:
    """Return a graph with only the types that its roots lead to; for a union or an interface, every type that may be in its place."""
    types = graph.types
    behind: dict[str, list[str]] = {}
    for name, one in types.items():  # possible types of an interface
        if one.kind in {"object", "interface"}:
            for member in one.members:
                behind.setdefault(member, []).append(name)
    met, waiting = set(graph.roots), [*graph.roots]
    while waiting:
        name = waiting.pop()
        if name not in types:
            continue
        one = types[name]
        found = {named(field.type) for field in one.fields.values()}
        found.update(named(argument.type) for field in one.fields.values() for argument in field.arguments.values())
        found.update(named(argument.type) for argument in one.inputs.values())
        found.update(() if one.kind == "enum" else one.members, behind.get(name, ()))
        waiting += found - met
        met |= found
    return msgspec.structs.replace(graph, types={name: one for name, one in types.items() if name in met})


def page_sizes(value: object, where: str, *, sized: bool) -> Iterator[tuple[str, float]]:
    """Yield every page size in the value of an argument, with its place: `filter.per_page`.

    `sized`: a number, the value itself or in a list, is a page size; in objects, members with a name in `PAGE_SIZES` are.
    """
    match value:
        case bool() | None:
            return
        case int() | float():
            if sized:
                yield where, value
        case str():
            if sized and _WHOLE.match(value):  # scalars of large numbers are written as texts by services
                yield where, int(value)
        case Mapping():
            for name, one in value.items():
                yield from page_sizes(one, f"{where}.{name}", sized=name in PAGE_SIZES)
        case list() | tuple():
            for one in value:
                yield from page_sizes(one, where, sized=sized)


def longest_list(value: object) -> int:
    """Return the length of the longest list in the value of an argument, at any depth. Lists in a list count with all of their items
    together.
    """
    match value:
        case list() | tuple() as items:
            return sum(max(1, longest_list(item)) for item in items)
        case Mapping() as members:
            return max(map(longest_list, members.values()), default=0)
    return 0


def size_fault(size: float, most: int | None) -> str:
    """Return the error in the size of a page; "" if there is none. A negative size means all items to some services, so a cap refuses it
    too.

    A cap of the largest Int caps nothing.
    """
    if most is None or most == MAX_INT or 0 <= size <= most:
        return ""
    return f"may be at least 0 and at most {most}"
