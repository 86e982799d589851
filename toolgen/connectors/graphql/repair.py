"""Repair of faults in published SDL, so that a schema can be built: valid parts are kept, all others are reported."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import TypeAlias, TypeVar, cast

from graphql import ASTValidationRule, DocumentNode, GraphQLError, Node
from graphql.language import (
    DefinitionNode,
    DirectiveDefinitionNode,
    EnumTypeDefinitionNode,
    EnumTypeExtensionNode,
    FieldDefinitionNode,
    InputObjectTypeDefinitionNode,
    InputObjectTypeExtensionNode,
    InputValueDefinitionNode,
    InterfaceTypeDefinitionNode,
    InterfaceTypeExtensionNode,
    ListTypeNode,
    NamedTypeNode,
    NonNullTypeNode,
    ObjectTypeDefinitionNode,
    ObjectTypeExtensionNode,
    ScalarTypeDefinitionNode,
    ScalarTypeExtensionNode,
    SchemaDefinitionNode,
    SchemaExtensionNode,
    TypeDefinitionNode,
    TypeExtensionNode,
    TypeNode,
    TypeSystemDefinitionNode,
    TypeSystemExtensionNode,
    UnionTypeDefinitionNode,
    UnionTypeExtensionNode,
)
from graphql.validation import (
    KnownDirectivesRule,
    KnownTypeNamesRule,
    PossibleTypeExtensionsRule,
    UniqueFieldDefinitionNamesRule,
)
from graphql.validation.specified_rules import specified_sdl_rules
from graphql.validation.validate import validate_sdl
from msgspec import Struct

from toolgen.connectors.graphql.prose import prose

__all__ = ["DescriptionFault", "DroppedField", "RepairedDocument", "repair"]


_MAX_FAULTS = 100
_MAX_MESSAGE_LENGTH = 300
_CODES: Mapping[type[ASTValidationRule], str] = MappingProxyType(
    {
        KnownDirectivesRule: "unknown_directive",
        UniqueFieldDefinitionNamesRule: "duplicate_field",
        PossibleTypeExtensionsRule: "orphan_extension",
    }
)
_DEFINITION_OF: Mapping[type[TypeExtensionNode], type[TypeDefinitionNode]] = MappingProxyType(
    {
        ObjectTypeExtensionNode: ObjectTypeDefinitionNode,
        InterfaceTypeExtensionNode: InterfaceTypeDefinitionNode,
        InputObjectTypeExtensionNode: InputObjectTypeDefinitionNode,
        EnumTypeExtensionNode: EnumTypeDefinitionNode,
        UnionTypeExtensionNode: UnionTypeDefinitionNode,
        ScalarTypeExtensionNode: ScalarTypeDefinitionNode,
    }
)
_BUILT_IN = frozenset({"Int", "Float", "String", "Boolean", "ID"})
_Fielded: TypeAlias = (
    ObjectTypeDefinitionNode | ObjectTypeExtensionNode | InterfaceTypeDefinitionNode | InterfaceTypeExtensionNode
)
_AnyNode = TypeVar("_AnyNode", bound=Node)


class DescriptionFault(Struct, frozen=True, kw_only=True):
    """Fault of a description that was ignored, although a strict reader would refuse the description."""

    code: str
    origin: str
    message: str


class DroppedField(Struct, frozen=True, kw_only=True):
    """Field that was left out, because it uses an undefined type."""

    type: str
    field: str
    reason: str


class RepairedDocument(Struct, frozen=True, kw_only=True):
    """Document that graphql-core can build a schema from."""

    document: DocumentNode
    faults: tuple[DescriptionFault, ...]
    dropped: tuple[DroppedField, ...]


def repair(document: DocumentNode) -> RepairedDocument:
    """Keep the last of several definitions of one field, as graphql-js does; convert an `extend` of an unknown type to a definition;
    remove references to undefined types, with the fields that need them.
    """
    faults = _faults(document)
    definitions = _promote(document)
    pruner = _Pruner(definitions)
    kept = [node for node in map(pruner.definition, definitions) if node is not None]
    # In graphql-core's types `extend schema` is not a definition, although documents list it among their definitions.
    repaired = DocumentNode(definitions=cast("tuple[DefinitionNode, ...]", tuple(kept)))
    return RepairedDocument(document=repaired, faults=faults, dropped=tuple(pruner.dropped))


def _faults(document: DocumentNode) -> tuple[DescriptionFault, ...]:
    """Collect graphql-core's own faults of the SDL, one per distinct message: a directive may be used a thousand times."""
    # The pruner handles unknown types and reports the consequences.
    rules = [rule for rule in specified_sdl_rules if rule is not KnownTypeNamesRule]
    if not validate_sdl(document, rules=rules):
        return ()
    found: dict[str, DescriptionFault] = {}
    for rule, code in _CODES.items():
        _collect(validate_sdl(document, rules=[rule]), code, found)
    _collect(validate_sdl(document, rules=[rule for rule in rules if rule not in _CODES]), "invalid_sdl", found)
    faults = list(found.values())
    if len(faults) > _MAX_FAULTS:
        rest = DescriptionFault(
            code="invalid_sdl", origin="schema", message=f"and {len(faults) - _MAX_FAULTS} more faults"
        )
        faults = [*faults[:_MAX_FAULTS], rest]
    return tuple(faults)


def _collect(errors: Iterable[GraphQLError], code: str, found: dict[str, DescriptionFault]) -> None:
    for error in errors:
        line = error.locations[0].line if error.locations else 0
        message = prose(error.message, limit=_MAX_MESSAGE_LENGTH)
        found.setdefault(message, DescriptionFault(code=code, origin="schema", message=f"line {line}: {message}"))


def _promote(document: DocumentNode) -> list[TypeSystemDefinitionNode | TypeSystemExtensionNode]:
    """Convert the first `extend type X` without an X to a definition. Federation subgraphs have such documents."""
    defined = {node.name.value for node in document.definitions if isinstance(node, TypeDefinitionNode)}
    promoted: list[TypeSystemDefinitionNode | TypeSystemExtensionNode] = []
    for node in document.definitions:
        if isinstance(node, TypeExtensionNode) and node.name.value not in defined:
            defined.add(node.name.value)
            made = _DEFINITION_OF[type(node)]
            promoted.append(made(**{key: getattr(node, key) for key in node.keys if hasattr(node, key)}))
        elif isinstance(node, (TypeSystemDefinitionNode, TypeSystemExtensionNode)):
            promoted.append(node)  # an executable definition in a schema file is not part of the schema
    return promoted


class _Pruner:
    """Pruner of references to undefined types and to types of the wrong kind."""

    def __init__(self, definitions: Iterable[TypeSystemDefinitionNode | TypeSystemExtensionNode]) -> None:
        named = [node for node in definitions if isinstance(node, TypeDefinitionNode)]
        leaves = _names(named, (ScalarTypeDefinitionNode, EnumTypeDefinitionNode)) | _BUILT_IN
        self._objects = _names(named, (ObjectTypeDefinitionNode,))
        self._interfaces = _names(named, (InterfaceTypeDefinitionNode,))
        self._inputs = leaves | _names(named, (InputObjectTypeDefinitionNode,))
        self._outputs = leaves | self._objects | self._interfaces | _names(named, (UnionTypeDefinitionNode,))
        self.dropped: list[DroppedField] = []

    def definition(
        self, node: TypeSystemDefinitionNode | TypeSystemExtensionNode
    ) -> TypeSystemDefinitionNode | TypeSystemExtensionNode | None:
        """Return the valid part of the node, or None if it has none."""
        match node:
            case (
                ObjectTypeDefinitionNode()
                | ObjectTypeExtensionNode()
                | InterfaceTypeDefinitionNode()
                | InterfaceTypeExtensionNode()
            ):
                return self._fielded(node)
            case InputObjectTypeDefinitionNode() | InputObjectTypeExtensionNode():
                return self._input(node)
            case UnionTypeDefinitionNode() | UnionTypeExtensionNode():
                return _with(node, types=self._known(node.name.value, node.types, self._objects))
            case SchemaDefinitionNode() | SchemaExtensionNode():
                return self._schema(node)
            case DirectiveDefinitionNode():
                # No tool depends on a directive, so a directive with an argument of unknown type is not reported.
                known = all(_named(argument.type) in self._inputs for argument in node.arguments or ())
                return node if known else None
            case _:
                return node

    def _schema(self, node: SchemaDefinitionNode | SchemaExtensionNode) -> SchemaDefinitionNode | SchemaExtensionNode:
        kept = []
        for root in node.operation_types or ():
            if (name := root.type.name.value) in self._objects:
                kept.append(root)
            else:
                self._drop("schema", root.operation.value, f"its type {name} is not an object type of the schema")
        return _with(node, operation_types=tuple(kept))

    def _fielded(self, node: _Fielded) -> _Fielded:
        owner = node.name.value
        fields = tuple(field for one in node.fields or () if (field := self._field(owner, one)) is not None)
        return _with(node, fields=fields, interfaces=self._known(owner, node.interfaces, self._interfaces))

    def _field(self, owner: str, field: FieldDefinitionNode) -> FieldDefinitionNode | None:
        if (returned := _named(field.type)) not in self._outputs:
            self._drop(owner, field.name.value, f"it returns {returned}, which is not an output type of the schema")
            return None
        arguments = tuple(field.arguments or ())
        for argument in arguments:
            if (taken := _named(argument.type)) not in self._inputs and _is_required(argument):
                reason = f"its argument {argument.name.value} takes {taken}, which is not an input type of the schema"
                self._drop(owner, field.name.value, reason)
                return None
        kept = tuple(argument for argument in arguments if _named(argument.type) in self._inputs)
        return field if len(kept) == len(arguments) else _with(field, arguments=kept)

    def _input(
        self, node: InputObjectTypeDefinitionNode | InputObjectTypeExtensionNode
    ) -> InputObjectTypeDefinitionNode | InputObjectTypeExtensionNode:
        fields = []
        for field in node.fields or ():
            if _named(field.type) in self._inputs:
                fields.append(field)
            else:
                reason = f"it takes {_named(field.type)}, which is not an input type of the schema"
                self._drop(node.name.value, field.name.value, reason)
        return _with(node, fields=tuple(fields))

    def _drop(self, owner: str, field: str, reason: str) -> None:
        self.dropped.append(DroppedField(type=owner, field=field, reason=reason))

    def _known(
        self, owner: str, nodes: Iterable[NamedTypeNode] | None, names: Collection[str]
    ) -> tuple[NamedTypeNode, ...]:
        """Return the defined members of a union, or interfaces of a type, that have the right kind."""
        kept = []
        for node in nodes or ():
            if node.name.value in names:
                kept.append(node)
            else:
                self._drop(owner, node.name.value, "it is not defined, or has another kind")
        return tuple(kept)


def _with(node: _AnyNode, **changes: object) -> _AnyNode:
    """Return a copy of a node with some of its parts replaced."""
    return type(node)(**{**{key: getattr(node, key) for key in node.keys if hasattr(node, key)}, **changes})


def _names(nodes: Iterable[TypeDefinitionNode], kinds: tuple[type[TypeDefinitionNode], ...]) -> frozenset[str]:
    return frozenset(node.name.value for node in nodes if isinstance(node, kinds))


def _named(node: TypeNode) -> str:
    match node:
        case ListTypeNode() | NonNullTypeNode():
            return _named(node.type)
        case NamedTypeNode():
            return node.name.value
        case _:
            raise TypeError(f"{node.kind} is no type")


def _is_required(argument: InputValueDefinitionNode) -> bool:
    return isinstance(argument.type, NonNullTypeNode) and argument.default_value is None
