"""Fields that a caller selects: a selection set, checked against the schema's index and inserted in the stored operation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from graphql import (
    ArgumentNode,
    DocumentNode,
    FieldNode,
    GraphQLError,
    InlineFragmentNode,
    NamedTypeNode,
    NameNode,
    Node,
    OperationDefinitionNode,
    SelectionNode,
    SelectionSetNode,
    VariableDefinitionNode,
    VariableNode,
    parse,
    parse_type,
    print_ast,
    value_from_ast_untyped,
)
from graphql.language import ValueNode
from msgspec import Struct

from toolgen.connectors.graphql.default_sizes import ASSUMED, indexed_items
from toolgen.connectors.graphql.rejection_fields import with_rejections
from toolgen.connectors.graphql.unknown_fields import unknown_field, unknown_fields
from toolgen.connectors.graphql.value_check import fault_of
from toolgen.connectors.http.parameter_styles import UnbindableError
from toolgen.core.spelling import nearest
from toolgen.model.excerpt import bounded
from toolgen.model.graphql_schema import (
    PAGE_SIZES,
    Graph,
    GraphField,
    GraphType,
    identifies,
    named,
    page_sizes,
    size_fault,
)
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import GraphQLBinding

__all__ = ["choose_fields"]


_MAX_LENGTH, _TOKENS = 4000, 1000
_MAX_DEPTH, _MAX_FIELDS, _MAX_COST = 8, 200, 10_000
_PAGE = 20  # page size if none is given
_TYPENAME = "__typename"
_FEWER = "ask for fewer, or for smaller pages"
_LISTED = re.compile(r"\[")
_AnyNode = TypeVar("_AnyNode", bound=Node)


def choose_fields(
    graph: Graph,
    binding: GraphQLBinding,
    stored: DocumentNode,
    fields: str,
    max_page: int | None,
    given: JsonObject | None = None,
) -> tuple[str, JsonObject]:
    """Return the stored operation with another selection below its root field, and the variables that the selection adds.

    `given` are the variables of the stored operation, which may contain its page size.

    The text is parsed and rendered from its tree; arguments in it become variables. Raises `UnbindableError`, with the field's name, for an
    unknown field, an alias, a directive, a way back to a root type, or too much.
    """
    root = graph.root(binding.type)
    definition = root.fields.get(binding.field) if root is not None else None
    if definition is None:
        raise UnbindableError(f"the schema's index has no {binding.type} {binding.field}")
    written = _parsed(fields)
    if (asked := _count_fields(written)) > _MAX_FIELDS:
        raise UnbindableError(
            f"the fields are too many ({asked}, and at most {_MAX_FIELDS} are read)", suggestion=_FEWER
        )
    chooser = _Chooser(graph, binding.fields, max_page)
    inner = graph.types[named(definition.type)]
    operation = stored.definitions[0]
    if not isinstance(operation, OperationDefinitionNode) or len(stored.definitions) != 1:
        raise UnbindableError("the stored operation has no fields to choose")
    [field_] = operation.selection_set.selections
    several = _root_items(graph, definition, inner, _given(field_, given or {}), changes=binding.type == "mutation")
    chosen = chooser.below(named(definition.type), written, binding.field, 1, several)
    if chooser.cost > _MAX_COST:
        raise UnbindableError(
            f"the fields are too many for lists ({chooser.cost} reads with each item, and at most {_MAX_COST} are made)",
            suggestion=_FEWER,
        )
    if isinstance(field_, FieldNode) and field_.selection_set is not None:
        chosen = with_rejections(chosen, field_.selection_set, [path[1:] for path in binding.rejections])
    replaced = SelectionSetNode(selections=(_with(field_, selection_set=chosen),))
    variables = (*(operation.variable_definitions or ()), *chooser.definitions)
    made = _with(operation, selection_set=replaced, variable_definitions=variables)
    return print_ast(made), chooser.variables


def _count_fields(selection: SelectionSetNode) -> int:
    """Return the number of fields of a selection, at every level."""
    below = (node.selection_set for node in selection.selections if isinstance(node, FieldNode | InlineFragmentNode))
    own = sum(isinstance(node, FieldNode) for node in selection.selections)
    return own + sum(_count_fields(inner) for inner in below if inner is not None)


def _parsed(fields: str) -> SelectionSetNode:
    suggestion = "write a GraphQL selection: id name owner { login }"
    if len(fields) > _MAX_LENGTH:
        raise UnbindableError(
            f"the fields take {len(fields)} characters, and at most {_MAX_LENGTH} are read", suggestion="ask for less"
        )
    try:
        document = parse(fields, no_location=True, max_lexical_tokens=_TOKENS)
    except (GraphQLError, RecursionError) as error:
        reason = error.message if isinstance(error, GraphQLError) else "nested too deeply"
        raise UnbindableError(
            f"the fields are not a selection set: {bounded(reason, 200)}", suggestion=suggestion
        ) from error
    [first, *others] = document.definitions
    if others or not isinstance(first, OperationDefinitionNode) or first.name is not None:
        raise UnbindableError("the fields are more than one selection set", suggestion=suggestion)
    if not fields.lstrip("\ufeff \t\r\n,").startswith("{"):
        raise UnbindableError("the fields are not a selection set", suggestion=suggestion)
    return first.selection_set


class _Chooser(Struct):
    """Visitor of one selection that counts its cost and collects its variables."""

    graph: Graph
    argument: str
    max_page: int | None
    cost: int = 0
    variables: dict[str, Json] = {}
    definitions: list[VariableDefinitionNode] = []
    fronts: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.fronts = self.graph.fronts

    def below(self, type_: str, written: SelectionSetNode, where: str, depth: int, several: int) -> SelectionSetNode:
        """Return the selection below a field of this type, which may occur `several` times."""
        if depth > _MAX_DEPTH:
            raise UnbindableError(f"{where} is more than {_MAX_DEPTH} levels deep", suggestion="ask for less")
        found = self.graph.types[type_]
        if found.is_leaf:
            raise UnbindableError(f"{where} is a {type_}, which has no fields")
        asked = [one.name.value for one in written.selections if isinstance(one, FieldNode) and one.alias is None]
        if fault := unknown_fields(self.graph, type_, asked, self._possible(type_)):
            raise UnbindableError(f"{fault} (at {where})")
        seen: dict[str, str] = {}
        selections = [one for node in written.selections for one in self._one(type_, node, where, depth, several, seen)]
        if not selections:
            raise UnbindableError(f"nothing is chosen below {where}")
        if "pageInfo" in found.fields and found.fields.keys() & {"edges", "nodes"}:
            selections += self._page_info(found, selections)
        return SelectionSetNode(selections=tuple(selections))

    def _page_info(self, type_: GraphType, chosen: list[SelectionNode]) -> Iterable[SelectionNode]:
        """Yield the selection of the next cursor, which is added to every page. A second `pageInfo` is merged with it (spec, section
        5.3.2).
        """
        info = self.graph.types[named(type_.fields["pageInfo"].type)]
        wanted = [
            name for name in ("hasNextPage", "endCursor") if name in info.fields and not info.fields[name].arguments
        ]
        asked = [one.selection_set for one in chosen if isinstance(one, FieldNode) and one.name.value == "pageInfo"]
        there = {node.name.value for one in asked if one for node in one.selections if isinstance(node, FieldNode)}
        missing = [_leaf(name) for name in wanted if name not in there]
        if missing and not type_.fields["pageInfo"].arguments:
            below = SelectionSetNode(selections=tuple(missing))
            yield FieldNode(name=NameNode(value="pageInfo"), arguments=(), directives=(), selection_set=below)

    def _one(
        self, type_: str, node: SelectionNode, where: str, depth: int, several: int, seen: dict[str, str]
    ) -> Iterable[SelectionNode]:
        if node.directives:
            raise UnbindableError(f"a directive below {where} is not taken")
        match node:
            case FieldNode(alias=None):
                yield self._field(type_, node, where, depth, several, seen)
            case FieldNode():
                raise UnbindableError(
                    f"an alias below {where} is not taken", suggestion="ask for fields by their names"
                )
            case InlineFragmentNode():
                on = node.type_condition.name.value if node.type_condition is not None else type_
                possible = self._possible(type_)
                if possible.isdisjoint(self._possible(on)):
                    raise UnbindableError(f"{where} is never a {bounded(on, 60)}{nearest(bounded(on, 60), possible)}")
                inner = [
                    one
                    for below in node.selection_set.selections
                    for one in self._one(on, below, where, depth, several, seen)
                ]
                yield InlineFragmentNode(
                    type_condition=NamedTypeNode(name=NameNode(value=on)),
                    directives=(),
                    selection_set=SelectionSetNode(selections=tuple(inner)),
                )
            case _:
                raise UnbindableError(f"a named fragment below {where} is not taken", suggestion="write `... on Type`")

    def _field(
        self, type_: str, node: FieldNode, where: str, depth: int, several: int, seen: dict[str, str]
    ) -> FieldNode:
        name = node.name.value
        place = f"{where}.{name}"
        self.cost += several
        if name == _TYPENAME:
            return _leaf(name)
        known = self.graph.types[type_]
        definition = known.fields.get(name)
        if definition is None:
            raise UnbindableError(f"{unknown_field(self.graph, type_, name, self._possible(type_))} (at {place})")
        inner = self.graph.types[named(definition.type)]
        if named(definition.type) in self.graph.roots:
            raise UnbindableError(f"{place} leads back to a root type, whose fields have their own tools")
        if type_ in self.fronts and not identifies(definition.type):
            raise UnbindableError(
                f"{place} may be a field of a root type, whose fields have their own tools",
                suggestion="select it with its type: { ... on Type { name } }",
            )
        if seen.setdefault(name, definition.type) != definition.type:
            raise UnbindableError(f"{place} has another type elsewhere in the selection; select only one of them")
        arguments, size = self._arguments(type_, node, definition, inner, place)
        below = None
        if not inner.is_leaf:
            if node.selection_set is None:
                raise UnbindableError(
                    f"{place} is a {named(definition.type)}, of which fields must be chosen, as {{ id }}"
                )
            many = several * _items(known, name, definition, inner, size)
            below = self.below(named(definition.type), node.selection_set, place, depth + 1, many)
        elif node.selection_set is not None:
            raise UnbindableError(f"{place} is a {named(definition.type)}, which has no fields")
        return FieldNode(name=NameNode(value=name), arguments=arguments, directives=(), selection_set=below)

    def _arguments(
        self, type_: str, node: FieldNode, definition: GraphField, inner: GraphType, place: str
    ) -> tuple[tuple[ArgumentNode, ...], int | None]:
        """Return the arguments with variables for values, and the number of items. A page without a given size gets a small one."""
        values: dict[str, Any] = {}
        for argument in node.arguments or ():
            name = argument.name.value
            if name not in definition.arguments:
                known = nearest(bounded(name, 60), definition.arguments)
                raise UnbindableError(f"{place} has no argument {bounded(name, 60)!r}{known}")
            if name in values:
                raise UnbindableError(f"{place} is given {name} twice")
            values[name] = _value(argument.value, place)
            if fault := fault_of(self.graph, definition.arguments[name].type, values[name]):
                raise UnbindableError(f"the argument {name} of {place} {fault}")
        for name, declared in definition.arguments.items():
            if declared.required and name not in values:
                raise UnbindableError(f"{place} needs the argument {name}")
        for name, value in values.items():
            for path, size in page_sizes(value, name, sized=name in PAGE_SIZES):
                if fault := size_fault(size, self.max_page):
                    raise UnbindableError(f"the argument {path} of {place} {fault}")
        if values.keys().isdisjoint(PAGE_SIZES) and "pageInfo" in inner.fields and "first" in definition.arguments:
            values["first"] = _PAGE
        made = tuple(
            ArgumentNode(name=NameNode(value=name), value=self._variable(definition.arguments[name].type, value))
            for name, value in values.items()
        )
        if inner.is_leaf:
            return made, None
        # An object may have a default for an argument that an interface declares without one.
        own = [self.graph.types[one].fields.get(node.name.value) for one in self._possible(type_)]
        fields = [definition, *(one for one in own if one is not None)]
        found = [indexed_items(self.graph, one.arguments, values) for one in fields]
        return made, max((items for items in found if items is not None), default=None)

    def _variable(self, type_: str, value: Json) -> VariableNode:
        name = f"{self.argument}_{len(self.definitions) + 1}"
        node = VariableNode(name=NameNode(value=name))
        self.definitions.append(VariableDefinitionNode(variable=node, type=parse_type(type_, no_location=True)))
        self.variables[name] = value
        return node

    def _possible(self, type_: str) -> frozenset[str]:
        """Return the possible objects of a value of this type; none for an unknown type or a type without fields."""
        known = self.graph.types.get(type_)
        match known.kind if known is not None else "":
            case "object":
                return frozenset({type_})
            case "union" if known is not None:
                return frozenset(known.members)
            case "interface":
                types = self.graph.types.items()
                return frozenset(name for name, one in types if one.kind == "object" and type_ in one.members)
            case _:
                return frozenset()


def _leaf(name: str) -> FieldNode:
    return FieldNode(name=NameNode(value=name), arguments=(), directives=())


def _items(type_: GraphType, name: str, definition: GraphField, inner: GraphType, size: int | None) -> int:
    """Return the number of objects below a field. A connection counts its items once, and not again as its nodes or edges."""
    if size is not None:
        return max(size, 1)
    if "pageInfo" in inner.fields:
        return ASSUMED
    listed = bool(_LISTED.search(definition.type)) and not ("pageInfo" in type_.fields and name in {"edges", "nodes"})
    return ASSUMED if listed else 1


def _given(field_: SelectionNode, variables: JsonObject) -> dict[str, Any]:
    """Return the arguments with values of the stored root field, whose arguments are all variables."""
    arguments = (field_.arguments or ()) if isinstance(field_, FieldNode) else ()
    return {
        one.name.value: variables[one.value.name.value]
        for one in arguments
        if isinstance(one.value, VariableNode) and one.value.name.value in variables
    }


def _root_items(
    graph: Graph, definition: GraphField, inner: GraphType, values: Mapping[str, Any], *, changes: bool
) -> int:
    """Return the number of objects below the root field. Arguments of a mutation without a list in its answer are ignored."""
    many = bool(_LISTED.search(definition.type)) or "pageInfo" in inner.fields
    if changes and not many:
        return 1
    declared = definition.arguments
    if changes:
        declared = {name: declared[name] for name in declared.keys() & PAGE_SIZES}
    items = indexed_items(graph, declared, values)
    return max(items, 1) if items is not None else (ASSUMED if many else 1)


def _value(node: ValueNode, place: str) -> Any:
    try:
        return value_from_ast_untyped(node, {})
    except (ValueError, TypeError) as error:
        raise UnbindableError(f"an argument of {place} is no value") from error


def _with(node: _AnyNode, **changes: object) -> _AnyNode:
    return type(node)(**{**{key: getattr(node, key) for key in node.keys if hasattr(node, key)}, **changes})
