"""Default selection of a tool: the fields near the root, within a budget of leaves and depth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import TypeAlias

from graphql import (
    GraphQLField,
    GraphQLInterfaceType,
    GraphQLNamedType,
    GraphQLObjectType,
    GraphQLOutputType,
    GraphQLSchema,
    GraphQLUnionType,
    get_named_type,
    is_leaf_type,
)
from msgspec import Struct
from msgspec.structs import replace

from toolgen.connectors.graphql.inputs import is_required
from toolgen.model.graphql_schema import identifies

__all__ = ["Fragment", "Selected", "Selector", "is_connection"]

_MAX_LEAVES = 60  # in a complete selection
_MAX_OBJECTS = 60  # objects selected into for it
_MAX_OWN = 40  # leaves on the object of a tool
_MAX_NESTED = 8  # leaves on an object below it
_MAX_FRAGMENTS = 12  # types of a union or interface
_MAX_DEPTH = 6  # enclosing types of a selection, even those without leaves
_LEVELS = 1  # nested objects below the object of an operation
_MAX_IDS = 2  # identifying leaves of an object in a mutation's answer, if none of them is called id
_IDS = frozenset({"id", "_id", "uuid", "guid", "databaseId"})
_MAX_TELLING = 5  # other leaves of such an object
_CHANGING = frozenset(
    {"code", "number", "key", "slug", "email", "url", "enabled", "active", "archived", "closed", "locked"}
)
_TYPENAME = "__typename"
_PAGE = frozenset({"edges", "nodes", "pageInfo"})
_WRAPPERS = _PAGE | {"node"}
_ERRORS = frozenset({"errors", "userErrors", "user_errors"})
_INCIDENTAL = frozenset({"clientMutationId", "ok", "success"})  # leaves of a payload, which is about another object
# Leaves that identify an object come first; many schemas list their fields in alphabetical order.
_FIRST = {
    name: rank
    for rank, name in enumerate(
        (
            "id",
            "name",
            "title",
            "login",
            "slug",
            "handle",
            "code",
            "key",
            "number",
            "message",
            "field",
            "state",
            "status",
            "url",
        )
    )
}

_Fielded: TypeAlias = GraphQLObjectType | GraphQLInterfaceType
_Member: TypeAlias = tuple[str, GraphQLField]
_Members: TypeAlias = tuple[list[_Member], list[_Member]]


class Selected(Struct, frozen=True, kw_only=True):
    """Selected field. `alias` is "" if the response uses the field's own name; `type` is None for `__typename`.
    `arguments` are GraphQL text."""

    name: str
    type: GraphQLOutputType | None
    alias: str = ""
    arguments: str = ""
    below: tuple[Selection, ...] = ()

    @property
    def key(self) -> str:
        """Response name (spec, section 2.7)."""
        return self.alias or self.name


class Fragment(Struct, frozen=True, kw_only=True):
    """Fields of one possible type of a union or interface."""

    on: str
    below: tuple[Selected, ...]


Selection: TypeAlias = Selected | Fragment


class Selector:
    """Default selections for the root fields of one schema."""

    def __init__(self, schema: GraphQLSchema, leave_out: tuple[str, ...] = ()) -> None:
        self._schema = schema
        self._leave_out = leave_out
        roots = (schema.query_type, schema.mutation_type, schema.subscription_type)
        self._roots = frozenset(root.name for root in roots if root is not None)
        self._fronts = self._roots | {one.name for root in roots if root is not None for one in root.interfaces}
        self._members: dict[str, _Members] = {}
        self._possible: dict[str, list[GraphQLObjectType]] = {}

    def below(self, field: GraphQLField, kind: str = "query") -> tuple[Selection, ...]:
        """Select fields below a root field of this kind: none for a leaf, `__typename` for a root type that a mutation returns.

        Few fields of a mutation are selected: a failure below its root field cannot undo it, and makes its answer harder to understand.
        """
        named = get_named_type(field.type)
        if is_leaf_type(named):
            return ()
        if kind == "mutation" and named.name in self._roots:
            return (_typename(),)
        part = "payload" if kind == "mutation" else ""
        place = _SelectionPosition(levels=_LEVELS, share=_MAX_OWN, path=(), connection=True, part=part)
        return self._composite(named, place, _LeafBudget())

    def is_root(self, type_: GraphQLNamedType) -> bool:
        """Return True for a root type: query, mutation or subscription."""
        return type_.name in self._roots

    def is_withheld(self, field: GraphQLField, below: tuple[Selection, ...]) -> bool:
        """Return True if the fields below a root field are not selected because its type is, or may be, a root type."""
        named = get_named_type(field.type)
        members = named.types if isinstance(named, GraphQLUnionType) else (named,)
        fronted = any(one.name in self._fronts for one in members)
        return fronted and all(isinstance(one, Selected) and one.type is None for one in below)

    def _composite(
        self, type_: GraphQLNamedType, place: _SelectionPosition, budget: _LeafBudget
    ) -> tuple[Selection, ...]:
        match type_:
            case GraphQLObjectType() if is_connection(type_) and place.connection:
                return self._connection(type_, place, budget)
            case GraphQLObjectType():
                return self._fields(type_, place, budget) or (_typename(),)
            case GraphQLInterfaceType():
                own = self._fields(type_, place, budget)
                if own and place.part:
                    return (_typename(), *own)
                return (_typename(), *own, *self._fragments(type_, own, place, budget))
            case GraphQLUnionType():
                return (_typename(), *self._fragments(type_, (), place, budget))
            case _:
                return (_typename(),)

    def _connection(
        self, type_: GraphQLObjectType, place: _SelectionPosition, budget: _LeafBudget
    ) -> tuple[Selection, ...]:
        """Select a Relay connection (GraphQL Cursor Connections Specification): its own leaves, `pageInfo`, and the nodes once."""
        inner = place.inside(type_)
        chosen = [one for one in self._leaves(type_, place.share, budget) if one.name not in _PAGE]
        if (page_info := _usable(type_, "pageInfo")) is not None:
            chosen += self._child("pageInfo", page_info, inner, budget)
        if (nodes := _usable(type_, "nodes")) is not None:
            chosen += self._child("nodes", nodes, inner, budget)
        elif (edges := _usable(type_, "edges")) is not None:
            edge = get_named_type(edges.type)
            if isinstance(edge, (GraphQLObjectType, GraphQLInterfaceType)):
                chosen.append(Selected(name="edges", type=edges.type, below=self._edge(edge, inner, budget)))
        return tuple(chosen) or (_typename(),)

    def _edge(self, type_: _Fielded, place: _SelectionPosition, budget: _LeafBudget) -> tuple[Selection, ...]:
        chosen = [one for one in self._leaves(type_, _MAX_NESTED, budget) if one.name != "node"]
        if (node := _usable(type_, "node")) is not None:
            chosen += self._child("node", node, place, budget)
        return tuple(chosen) or (_typename(),)

    def _leaves(self, type_: _Fielded, share: int, budget: _LeafBudget) -> list[Selected]:
        leaves, _ = self._members_of(type_)
        return [_leaf(name, field) for name, field in leaves[: budget.take(min(share, len(leaves)))]]

    def _child(self, name: str, field: GraphQLField, place: _SelectionPosition, budget: _LeafBudget) -> list[Selected]:
        named = get_named_type(field.type)
        if is_leaf_type(named):
            return [_leaf(name, field)] * budget.take(1)
        return [Selected(name=name, type=field.type, below=self._composite(named, place, budget))]

    def _fields(self, type_: _Fielded, place: _SelectionPosition, budget: _LeafBudget) -> tuple[Selected, ...]:
        """Select the leaves first, so that the budget is spent near the root."""
        if place.part:
            return tuple(self._changed(type_, place, budget))
        leaves, objects = self._members_of(type_)
        chosen = self._leaves(type_, place.share, budget)
        empty = all(name in _INCIDENTAL for name, _ in leaves)
        below = place.below(type_, empty=empty)
        for name, field in objects:
            if self._is_wanted(name, field, place, empty=empty) and budget.open():
                chosen += [one for one in self._child(name, field, below, budget) if _is_informative(one)]
        return tuple(chosen)

    def _changed(self, type_: _Fielded, place: _SelectionPosition, budget: _LeafBudget) -> Iterator[Selected]:
        """Select fields of a mutation's answer: scalars of the payload, complete errors, and the identity, name and state of each other
        object.
        """
        leaves, objects = self._members_of(type_)
        entity = "id" in type_.fields
        if place.part == "object":
            ids = [one for one in leaves if one[0] in _IDS] or [
                one for one in leaves if get_named_type(one[1].type).name == "ID"
            ][:_MAX_IDS]
            ids = (ids or leaves[:1])[:_MAX_IDS]
            telling = [one for one in leaves if one not in ids and _shows_change(one[0])][:_MAX_TELLING]
            wanted = [*ids, *telling]
            yield from (_leaf(*one) for one in wanted[: budget.take(len(wanted))])
        elif entity:
            wanted = sorted(leaves, key=lambda one: one[0] not in _FIRST and not _shows_change(one[0]))
            yield from (_leaf(*one) for one in wanted[: budget.take(min(_MAX_NESTED, place.share, len(wanted)))])
        else:
            share = 2 * _MAX_NESTED if place.part == "payload" else _MAX_NESTED
            yield from self._leaves(type_, min(share, place.share), budget)
        for name, field in objects:
            named = get_named_type(field.type)
            seen = named.name in place.path or named.name in self._roots or len(place.path) >= _MAX_DEPTH
            errors = _is_error(name)
            page = is_connection(named) and len(objects) > 1
            wrapped = (not leaves and not page) or name in _WRAPPERS
            payload = place.part == "payload" and not entity and not page
            if not seen and (errors or wrapped or payload) and budget.open():
                part = "errors" if errors or place.part == "errors" else "object"
                inner = replace(place.below(type_, empty=True), part=part)
                yield from (one for one in self._child(name, field, inner, budget) if _is_informative(one))

    def _members_of(self, type_: _Fielded) -> _Members:
        """Return the usable leaves and objects of a type in order of preference; sorted once per type."""
        if (known := self._members.get(type_.name)) is None:
            leaves: list[_Member] = []
            objects: list[_Member] = []
            # Only the identity of a (possible) root is selected, because its fields have their own tools.
            front = type_.name in self._fronts
            for name, field in type_.fields.items():
                if any(fnmatchcase(f"{type_.name}.{name}", one) for one in self._leave_out):
                    continue
                if _is_usable(field) and (not front or identifies(str(field.type))):
                    (leaves if is_leaf_type(get_named_type(field.type)) else objects).append((name, field))
            leaves.sort(key=lambda one: _FIRST.get(one[0], len(_FIRST)))
            objects.sort(key=lambda one: one[0] not in _ERRORS)
            known = self._members[type_.name] = (leaves, objects)
        return known

    def _possible_types(self, type_: GraphQLInterfaceType | GraphQLUnionType) -> list[GraphQLObjectType]:
        """Return the types with the most fields if there are too many: `Node` of GitHub has 300, many of them rarely used."""
        if (known := self._possible.get(type_.name)) is None:
            found = [one for one in self._schema.get_possible_types(type_) if one.name not in self._roots]
            members = sorted(found, key=lambda one: (-len(one.fields), one.name))
            known = self._possible[type_.name] = members[:_MAX_FRAGMENTS]
        return known

    def _is_wanted(self, name: str, field: GraphQLField, place: _SelectionPosition, *, empty: bool) -> bool:
        named = get_named_type(field.type)
        if named.name in place.path or named.name in self._roots or len(place.path) >= _MAX_DEPTH:
            return False
        if isinstance(named, GraphQLObjectType) and is_connection(named):
            # A page inside a page multiplies the size; and many services refuse a connection without `first`.
            return empty and place.connection
        return place.levels > 0 or empty or name in _ERRORS

    def _fragments(
        self,
        type_: GraphQLInterfaceType | GraphQLUnionType,
        own: Iterable[Selected],
        place: _SelectionPosition,
        budget: _LeafBudget,
    ) -> Iterator[Fragment]:
        members = self._possible_types(type_)
        taken = {one.key: one for one in own}
        inherited = frozenset(taken)
        for index, member in enumerate(members):
            share = max(2, min(place.share, budget.left // (len(members) - index)))
            inner = place.inside(type_).flat(share)
            found = [one for one in self._fields(member, inner, budget) if one.name not in inherited]
            below = tuple(_unambiguous(one, member.name, taken) for one in found)
            if below:
                yield Fragment(on=member.name, below=below)


class _LeafBudget(Struct):
    left: int = _MAX_LEAVES
    objects: int = _MAX_OBJECTS

    def take(self, wanted: int) -> int:
        """Return how many of the `wanted` leaves the budget still allows."""
        given = min(wanted, self.left)
        self.left -= given
        return given

    def open(self) -> bool:
        """Return True if one more object may be selected. Objects are counted because those without leaves would otherwise be free."""
        self.objects -= 1
        return self.left > 0 and self.objects >= 0


class _SelectionPosition(Struct, frozen=True, kw_only=True):
    """Position in a selection: the remaining depth, the number of leaves per object, and the enclosing types."""

    levels: int
    share: int
    path: tuple[str, ...]
    connection: bool  # True if another connection is allowed
    part: str = ""  # kind of a mutation's object: payload, object or errors

    def inside(self, type_: GraphQLNamedType) -> _SelectionPosition:
        """Return the position inside a wrapper, which costs no level."""
        return replace(self, path=(*self.path, type_.name), connection=False)

    def below(self, type_: GraphQLNamedType, *, empty: bool) -> _SelectionPosition:
        """Return the position one object deeper. An object without leaves of its own costs no level."""
        levels = self.levels if empty else self.levels - 1
        share = self.share if empty else _MAX_NESTED
        return replace(self, levels=levels, share=share, path=(*self.path, type_.name))

    def flat(self, share: int) -> _SelectionPosition:
        """Return the position in one of several fragments, which share the budget: leaves only."""
        return replace(self, levels=0, share=share, connection=False)


def is_connection(type_: object) -> bool:
    """Return True for a Relay connection: `pageInfo`, and `edges` or `nodes`."""
    return (
        isinstance(type_, GraphQLObjectType)
        and "pageInfo" in type_.fields
        and not type_.fields.keys().isdisjoint({"edges", "nodes"})
    )


def _is_usable(field: GraphQLField) -> bool:
    """Return True if a field needs no arguments and is not deprecated."""
    return field.deprecation_reason is None and not any(map(is_required, field.args.values()))


def _usable(type_: _Fielded, name: str) -> GraphQLField | None:
    field = type_.fields.get(name)
    return field if field is not None and _is_usable(field) else None


def _is_informative(one: Selected) -> bool:
    """Return True if a selection reads more than `__typename`, or is of a union, for which the type name is information."""
    nothing = one.below == (_typename(),) and one.type is not None
    return not (nothing and isinstance(get_named_type(one.type), GraphQLObjectType))


def _shows_change(name: str) -> bool:
    """Return True if a leaf holds an object's name or state."""
    return name in _CHANGING or name.lower().endswith(("name", "title", "state", "status"))


def _is_error(name: str) -> bool:
    """Return True if a field of a payload explains why a change was not made."""
    return name.lower().endswith(("error", "errors"))


def _leaf(name: str, field: GraphQLField) -> Selected:
    return Selected(name=name, type=field.type)


def _typename() -> Selected:
    return Selected(name=_TYPENAME, type=None)


def _unambiguous(one: Selected, member: str, taken: dict[str, Selected]) -> Selected:
    """Return the field under an alias if its response name has another shape elsewhere, because the shapes must be equal (spec, section
    5.3.2).

    A field of an equal type gets the same selection as elsewhere, so the shapes are equal at all levels.
    """
    alias = ""
    while (other := taken.get(alias or one.name)) is not None:
        if other.name == one.name and str(other.type) == str(one.type):
            return other
        alias = f"{alias or one.name}_{'' if alias else member}"
    chosen = Selected(name=one.name, type=one.type, alias=alias, below=one.below)
    taken[chosen.key] = chosen
    return chosen
