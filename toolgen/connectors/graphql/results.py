"""Output schemas and pagination of trusted operations, read from their syntax tree and the schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLArgument,
    GraphQLEnumType,
    GraphQLField,
    GraphQLInputField,
    GraphQLInputObjectType,
    GraphQLInterfaceType,
    GraphQLList,
    GraphQLNamedType,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLOutputType,
    GraphQLScalarType,
    GraphQLSchema,
    GraphQLUnionType,
    InlineFragmentNode,
    ListValueNode,
    ObjectValueNode,
    OperationDefinitionNode,
    OperationType,
    SelectionSetNode,
    ValueNode,
    VariableNode,
    get_named_type,
    get_nullable_type,
)
from msgspec import Struct

from toolgen.connectors.graphql.paging import is_size, page_arguments, sizing_inputs
from toolgen.connectors.graphql.scalars import output_scalar
from toolgen.model.graphql_schema import rejects
from toolgen.model.schema import Schema

__all__ = ["connections_of", "holds_file", "output_of", "rejections_of", "sizes_of"]


def holds_file(schema: Any) -> bool:
    """Return True if an argument in a schema is a file."""
    if isinstance(schema, Mapping):
        return schema.get("contentEncoding") == "base64" or any(map(holds_file, schema.values()))
    return isinstance(schema, list) and any(map(holds_file, schema))


_MAX_DEPTH = 30
_PAGE_INFO = "pageInfo"


class _ResponseField(Struct):
    """Response name of an object: its type, the selection below it, and True for `always` if it is always present."""

    definition: GraphQLField | None  # None for __typename
    name: str = ""
    entity: bool = False  # True if the object of the field has an id
    nodes: list[FieldNode] = []
    always: bool = False


class _ResultReader:
    def __init__(self, schema: GraphQLSchema, document: DocumentNode) -> None:
        self.schema = schema
        self.fragments = {
            node.name.value: node for node in document.definitions if isinstance(node, FragmentDefinitionNode)
        }
        [self.operation] = [node for node in document.definitions if isinstance(node, OperationDefinitionNode)]
        root = schema.get_root_type(self.operation.operation)
        assert root is not None  # noqa: S101 - the operation is valid
        self.root: GraphQLObjectType = root

    def collect(
        self,
        type_: GraphQLNamedType,
        sets: list[SelectionSetNode],
        found: dict[str, _ResponseField],
        *,
        always: bool = True,
    ) -> dict[str, _ResponseField]:
        """Return the response names of an object with their fields (spec, section 6.3.2, without values)."""
        for selections in sets:
            for node in selections.selections:
                sure = always and not node.directives
                match node:
                    case FieldNode():
                        key = node.alias.value if node.alias is not None else node.name.value
                        entity = self.definition(type_, "id") is not None
                        made = _ResponseField(
                            self.definition(type_, node.name.value), name=node.name.value, entity=entity
                        )
                        place = found.setdefault(key, made)
                        place.nodes.append(node)
                        place.always = place.always or sure
                    case InlineFragmentNode():
                        on = node.type_condition.name.value if node.type_condition is not None else type_.name
                        inner = self.schema.type_map[on]
                        self.collect(inner, [node.selection_set], found, always=sure and self._fits(type_, inner))
                    case FragmentSpreadNode():
                        fragment = self.fragments[node.name.value]
                        inner = self.schema.type_map[fragment.type_condition.name.value]
                        self.collect(inner, [fragment.selection_set], found, always=sure and self._fits(type_, inner))
        return found

    def definition(self, type_: GraphQLNamedType, name: str) -> GraphQLField | None:
        fields = type_.fields if isinstance(type_, GraphQLObjectType | GraphQLInterfaceType) else {}
        return fields.get(name)

    def _fits(self, outer: GraphQLNamedType, inner: GraphQLNamedType) -> bool:
        """Return True if every value of the outer type is a value of the inner one."""
        if outer is inner:
            return True
        if not isinstance(inner, GraphQLInterfaceType | GraphQLUnionType):
            return False
        return isinstance(outer, GraphQLObjectType | GraphQLInterfaceType) and self.schema.is_sub_type(inner, outer)

    def object(self, type_: GraphQLNamedType, sets: list[SelectionSetNode], depth: int) -> Schema:
        if depth > _MAX_DEPTH:
            return {"type": "object"}
        found = self.collect(type_, sets, {})
        properties = {key: self._of(place, depth) for key, place in found.items()}
        required = [key for key, place in found.items() if place.always]
        return {"type": "object", "properties": properties, **({"required": required} if required else {})}

    def _of(self, place: _ResponseField, depth: int) -> Schema:
        if place.definition is None:
            return {"type": "string"}
        sets = [node.selection_set for node in place.nodes if node.selection_set is not None]
        return self._type(place.definition.type, sets, depth)

    def _type(self, type_: GraphQLOutputType, sets: list[SelectionSetNode], depth: int) -> Schema:
        if isinstance(type_, GraphQLNonNull):
            return self._present(type_.of_type, sets, depth)
        schema: dict[str, Any] = dict(self._present(type_, sets, depth))
        if "type" in schema:
            schema["type"] = [schema["type"], "null"]
        return schema

    def _present(self, type_: GraphQLOutputType, sets: list[SelectionSetNode], depth: int) -> Schema:
        match type_:
            case GraphQLList():
                return {"type": "array", "items": self._type(type_.of_type, sets, depth)}
            case GraphQLEnumType():
                return {"type": "string"}
            case GraphQLScalarType():
                return output_scalar(type_.name)
            case _:
                return self.object(get_named_type(type_), sets, depth + 1)

    def nodes(
        self, type_: GraphQLNamedType, selections: SelectionSetNode, above: frozenset[str]
    ) -> Iterator[tuple[GraphQLField, FieldNode]]:
        """Yield every field of the operation with its definition."""
        for node in selections.selections:
            match node:
                case FieldNode():
                    definition = self.definition(type_, node.name.value)
                    if definition is not None:
                        yield definition, node
                        if node.selection_set is not None:
                            yield from self.nodes(get_named_type(definition.type), node.selection_set, above)
                case InlineFragmentNode():
                    on = node.type_condition.name.value if node.type_condition is not None else type_.name
                    yield from self.nodes(self.schema.type_map[on], node.selection_set, above)
                case FragmentSpreadNode(name=name) if name.value not in above:
                    fragment = self.fragments[name.value]
                    inner = self.schema.type_map[fragment.type_condition.name.value]
                    yield from self.nodes(inner, fragment.selection_set, above | {name.value})

    def places(
        self, type_: GraphQLNamedType, sets: list[SelectionSetNode], path: tuple[str, ...] = ()
    ) -> Iterator[tuple[tuple[str, ...], _ResponseField]]:
        """Yield every selected field with the response names that lead to it; fields inside lists are omitted, because they have several
        places.
        """
        if len(path) > _MAX_DEPTH:
            return
        for key, place in self.collect(type_, sets, {}).items():
            yield (*path, key), place
            below = [node.selection_set for node in place.nodes if node.selection_set is not None]
            if place.definition is None or isinstance(get_nullable_type(place.definition.type), GraphQLList):
                continue
            if below:
                yield from self.places(get_named_type(place.definition.type), below, (*path, key))


def rejections_of(schema: GraphQLSchema, document: DocumentNode) -> tuple[tuple[str, ...], ...]:
    """Return the paths of response names to the fields in which a mutation explains a rejection."""
    reader = _ResultReader(schema, document)
    if reader.operation.operation is not OperationType.MUTATION:
        return ()
    return tuple(_rejections(reader, reader.root, [reader.operation.selection_set], ()))


def _rejections(
    reader: _ResultReader, type_: GraphQLNamedType, sets: list[SelectionSetNode], path: tuple[str, ...]
) -> Iterator[tuple[str, ...]]:
    for key, place in reader.collect(type_, sets, {}).items() if len(path) < _MAX_DEPTH else ():
        if place.definition is None:
            continue
        if path and rejects(place.name, str(place.definition.type), entity=place.entity, depth=len(path)):
            yield (*path, key)
        elif below := [node.selection_set for node in place.nodes if node.selection_set is not None]:
            yield from _rejections(reader, get_named_type(place.definition.type), below, (*path, key))


def output_of(schema: GraphQLSchema, document: DocumentNode) -> Schema:
    """Return the schema of an operation's `data`. Fields that depend on `@include` or a type are optional."""
    reader = _ResultReader(schema, document)
    return reader.object(reader.root, [reader.operation.selection_set], 0)


def sizes_of(schema: GraphQLSchema, document: DocumentNode) -> tuple[str, ...]:
    """Return the variables that set the number of items of a field."""
    reader = _ResultReader(schema, document)
    sizing = sizing_inputs(schema)
    changes = schema.mutation_type.fields.values() if schema.mutation_type is not None else ()
    found: dict[str, None] = {}
    for definition, node in reader.nodes(reader.root, reader.operation.selection_set, frozenset()):
        pages = page_arguments(definition, "mutation", sizing) if definition in changes else definition.args
        for argument in node.arguments or ():
            name = argument.name.value
            if name in pages and name in definition.args:
                found |= dict.fromkeys(_sizes(name, definition.args[name], argument.value, sizing))
    return tuple(found)


def _sizes(
    name: str, declared: GraphQLArgument | GraphQLInputField, value: ValueNode, sizing: frozenset[str]
) -> Iterator[str]:
    """Yield the variables in a value that set a page size, or are input objects that may contain one."""
    inner = get_named_type(declared.type)
    match value:
        case VariableNode() if is_size(name, declared) or inner.name in sizing:
            yield value.name.value
        case ObjectValueNode() if isinstance(inner, GraphQLInputObjectType):
            for member in value.fields:
                key = member.name.value
                yield from _sizes(key, inner.fields[key], member.value, sizing)
        case ListValueNode():
            for one in value.values:
                yield from _sizes(name, declared, one, sizing)


def connections_of(schema: GraphQLSchema, document: DocumentNode) -> Iterator[tuple[str, ...]]:
    """Yield the variable of the next page and the path of response names, for each connection with such a variable."""
    reader = _ResultReader(schema, document)
    found = dict(reader.places(reader.root, [reader.operation.selection_set]))
    for path, place in found.items():
        info = found.get((*path, _PAGE_INFO))
        if info is None or not {(*path, _PAGE_INFO, key) for key in ("hasNextPage", "endCursor")} <= found.keys():
            continue
        for node in place.nodes:
            for argument in node.arguments or ():
                if argument.name.value == "after" and isinstance(argument.value, VariableNode):
                    yield (argument.value.name.value, *path)
