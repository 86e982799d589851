"""Guard of documents: parsed, counted, validated and priced. A valid document is rendered from its tree. Pure and bounded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec
from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLArgument,
    GraphQLError,
    GraphQLField,
    GraphQLInputObjectType,
    GraphQLInputType,
    GraphQLInterfaceType,
    GraphQLList,
    GraphQLNamedType,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLSchema,
    GraphQLUnionType,
    InlineFragmentNode,
    ListValueNode,
    Node,
    ObjectValueNode,
    OperationDefinitionNode,
    SelectionSetNode,
    Undefined,
    ValueNode,
    VariableNode,
    Visitor,
    get_named_type,
    get_nullable_type,
    parse,
    print_ast,
    validate,
    value_from_ast_untyped,
    visit,
)
from graphql.execution.values import get_variable_values
from msgspec import Struct

from toolgen.connectors.graphql.default_sizes import ASSUMED, compiled_items
from toolgen.core.error_codes import ErrorCode
from toolgen.core.json_codec import with_integers
from toolgen.model.excerpt import bounded
from toolgen.model.graphql_schema import (
    PAGE_SIZES,
    UPLOAD,
    identifies,
    page_sizes,
    rejects,
    size_fault,
)
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import GraphQLDocumentBinding
from toolgen.model.verdict import Deny

__all__ = ["CheckedDocument", "RootCall", "check_document", "is_small", "listed"]


def listed(type_: GraphQLInputType, value: Any) -> Any:
    """Return a value of a document with single items as lists (spec, section 3.11), and without members of absent variables (section
    3.10).
    """
    inner = type_.of_type if isinstance(type_, GraphQLNonNull) else type_
    match inner:
        case GraphQLList():
            if value is None:
                return None
            items = value if isinstance(value, list) else [value]
            return [None if item is Undefined else listed(inner.of_type, item) for item in items]
        case GraphQLInputObjectType() if isinstance(value, Mapping):
            known = inner.fields
            given = {key: one for key, one in value.items() if one is not Undefined}
            return {key: listed(known[key].type, one) if key in known else one for key, one in given.items()}
        case _:
            return value


_TOKENS = 4000
_MAX_LENGTH = 100_000  # characters: comments and commas are not tokens
_MAX_VALUES = 10_000  # values in the variables
_MAX_READ = 50_000  # values of variables, counted once per use in an argument
_MAX_VISITS = 5000  # fields visited with all fragments followed
_MAX_PAIRS = 1000  # pairs of fields with one response name in one place: validation compares each with each
_SMALL_LENGTH = 400  # characters of a document that can be checked in a millisecond
_SMALL_VALUES = 50  # values in its variables
_DIRECTIVES = frozenset({"include", "skip"})
_RULE = "graphql"


class RootCall(Struct, frozen=True, kw_only=True):
    """Root field of a document with its arguments, equal to a call of the field's own tool."""

    field: str
    arguments: JsonObject


class CheckedDocument(Struct, frozen=True, kw_only=True):
    """GraphQL document that passed the checks of the document itself. `rejections` are paths of fields in which a mutation explains a
    rejection.
    """

    query: str
    variables: JsonObject
    operation_name: str | None
    roots: tuple[RootCall, ...]
    aliased: bool
    cost: int
    rejections: tuple[tuple[str, ...], ...]


class _TooMuch(Exception):  # noqa: N818 - a verdict on its way out
    """Exceeded limit, or a forbidden part of the document."""

    def __init__(self, reason: str, code: ErrorCode = "validation") -> None:
        super().__init__(reason)
        self.code = code


def is_small(text: str, variables: JsonObject) -> bool:
    """Return True if a document is so short, and its variables so few, that the check takes almost no time."""
    return len(text) <= _SMALL_LENGTH and _count_values(variables, _SMALL_VALUES) <= _SMALL_VALUES


def check_document(
    text: str, variables: JsonObject, *, schema: GraphQLSchema, limits: GraphQLDocumentBinding, max_page: int | None
) -> CheckedDocument | Deny:
    """Check one document. A `Deny` tells the agent the necessary change."""
    if len(text) > _MAX_LENGTH:
        return _deny(f"it is longer than {_MAX_LENGTH} characters")
    sizes = {name: _count_values(value) for name, value in islice(variables.items(), _MAX_VALUES + 1)}
    if sum(sizes.values()) > _MAX_VALUES:
        return _deny(f"its variables hold more than {_MAX_VALUES} values: ask for fewer at once")
    try:
        document = parse(text, no_location=True, max_lexical_tokens=_TOKENS)
    except (GraphQLError, RecursionError) as error:
        reason = error.message if isinstance(error, GraphQLError) else "nested too deeply"
        return _deny(f"it is not GraphQL: {bounded(reason, 300)}")
    try:
        operation, fragments = _parts(document, limits)
        _refuse_foreign(document, limits)
        counter = _Counter(limits, fragments)
        counter.count(operation.selection_set, 1, (), ())
        counter.check()
        counter.check_values(sizes)
        if errors := validate(schema, document, max_errors=1):
            return _deny(f"it is not valid for the schema: {bounded(errors[0].message, 400)}")
        coerced = get_variable_values(schema, operation.variable_definitions or (), dict(variables), max_errors=1)
        if isinstance(coerced, list):
            return _deny(f"its variables do not fit: {bounded(coerced[0].message, 400)}")
        known = {one.variable.name.value for one in operation.variable_definitions or ()}
        if stray := sorted(set(variables) - known):
            return _deny(f"it has no variable ${bounded(stray[0], 60)}")
        values = _values(operation, variables)
        pricer = _Pricer(schema, fragments, values, limits, max_page, _fronts(schema))
        root = schema.get_root_type(operation.operation)
        assert root is not None  # noqa: S101 - the document is valid
        cost = pricer.price(root, operation.selection_set, 1, top=True)
    except _TooMuch as much:
        return _deny(str(much), much.code)
    except RecursionError:
        return _deny(f"it is more than {limits.max_depth} levels deep")
    if cost > limits.max_cost:
        return _deny(f"it costs {cost}, more than {limits.max_cost}: ask for smaller pages or fewer fields")
    return CheckedDocument(
        query=print_ast(document),
        variables=dict(variables),
        operation_name=operation.name.value if operation.name is not None else None,
        roots=tuple(_roots(root, operation.selection_set, fragments, values)),
        aliased=_count_aliases(document) > 0,
        cost=cost,
        rejections=tuple(pricer.rejections) if limits.type == "mutation" else (),
    )


def _parts(
    document: DocumentNode, limits: GraphQLDocumentBinding
) -> tuple[OperationDefinitionNode, dict[str, FragmentDefinitionNode]]:
    operations = [node for node in document.definitions if isinstance(node, OperationDefinitionNode)]
    fragments = {node.name.value: node for node in document.definitions if isinstance(node, FragmentDefinitionNode)}
    if len(operations) != 1 or len(operations) + len(fragments) != len(document.definitions):
        raise _TooMuch("it must hold exactly one operation, and besides it only fragments of different names")
    kind = operations[0].operation.value
    if kind != limits.type:
        raise _TooMuch(f"it is a {kind}, and this tool runs a {limits.type}", "forbidden")
    return operations[0], fragments


def _refuse_foreign(document: DocumentNode, limits: GraphQLDocumentBinding) -> None:
    """Refuse directives other than those of the spec, introspection, and too many aliases or fragments."""
    fragments = 0

    class ForeignParts(Visitor):
        def enter(self, node: Node, *_: object) -> None:
            nonlocal fragments
            fragments += isinstance(node, FragmentDefinitionNode | InlineFragmentNode)
            if isinstance(node, FieldNode) and node.name.value.startswith("__") and node.name.value != "__typename":
                raise _TooMuch("introspection is off; use the tool that describes types", "forbidden")
            for directive in getattr(node, "directives", None) or ():
                if directive.name.value not in _DIRECTIVES:
                    raise _TooMuch(f"the directive @{bounded(directive.name.value, 60)} is not taken")

    visit(document, ForeignParts())
    if (aliases := _count_aliases(document)) > limits.max_aliases:
        raise _TooMuch(f"it has {aliases} aliases, more than {limits.max_aliases}")
    if fragments > limits.max_fragments:
        raise _TooMuch(f"it has {fragments} fragments, more than {limits.max_fragments}")


def _count_aliases(document: DocumentNode) -> int:
    count = 0

    class AliasCounter(Visitor):
        def enter_field(self, node: FieldNode, *_: object) -> None:
            nonlocal count
            count += node.alias is not None

    visit(document, AliasCounter())
    return count


class _Counter(Struct):
    """Depth, root fields and size of a document with all fragments followed, computed before slower checks."""

    limits: GraphQLDocumentBinding
    fragments: Mapping[str, FragmentDefinitionNode]
    visits: int = 0
    roots: int = 0
    deepest: int = 0
    pairs: int = 0
    places: dict[tuple[str, ...], int] = {}
    read: Counter[str] = msgspec.field(default_factory=Counter)  # number of uses in arguments, by variable

    def count(self, selections: SelectionSetNode, depth: int, above: tuple[str, ...], place: tuple[str, ...]) -> None:
        """Count a selection at a `place` of the answer, inside of the fragments `above`."""
        for node in selections.selections:
            self.visits += 1
            if self.visits > _MAX_VISITS:
                raise _TooMuch(f"it reads more than {_MAX_VISITS} fields when its fragments are followed")
            match node:
                case FieldNode():
                    self.roots += depth == 1
                    self.deepest = max(self.deepest, depth)
                    here = (*place, (node.alias or node.name).value)
                    earlier = self.places.get(here, 0)
                    self.places[here] = earlier + 1
                    self.pairs += earlier
                    if self.pairs > _MAX_PAIRS:
                        name = bounded(here[-1], 60)
                        raise _TooMuch(f"it selects {name} and other fields many times at one place: select each once")
                    for argument in node.arguments or ():
                        self.read.update(_variables_in(argument.value))
                    if node.selection_set is not None:
                        self.count(node.selection_set, depth + 1, above, here)
                case InlineFragmentNode():
                    self.count(node.selection_set, depth, above, place)
                case FragmentSpreadNode():
                    name = node.name.value
                    if name in above:
                        raise _TooMuch(f"its fragment {bounded(name, 60)} leads back to itself")
                    if name in self.fragments:
                        self.count(self.fragments[name].selection_set, depth, (*above, name), place)

    def check(self) -> None:
        """Raise `_TooMuch` if the counted document exceeds the limits."""
        if self.roots > self.limits.max_root_fields:
            raise _TooMuch(f"it has {self.roots} root fields, more than {self.limits.max_root_fields}")
        if self.deepest > self.limits.max_depth:
            raise _TooMuch(f"it is {self.deepest} levels deep, more than {self.limits.max_depth}")

    def check_values(self, sizes: Mapping[str, int]) -> None:
        """Raise `_TooMuch` if the document uses large variables too often. `sizes` are the numbers of values in each variable."""
        if sum(sizes.get(name, 0) * times for name, times in self.read.items()) > _MAX_READ:
            raise _TooMuch(f"it uses more than {_MAX_READ} values of its variables: use each large variable once")


def _variables_in(value: ValueNode) -> Iterator[str]:
    """Names of the variables in the value of an argument."""
    match value:
        case VariableNode():
            yield value.name.value
        case ListValueNode():
            for item in value.values:
                yield from _variables_in(item)
        case ObjectValueNode():
            for member in value.fields:
                yield from _variables_in(member.value)


def _count_values(value: Json, most: int = _MAX_VALUES) -> int:
    """Return the number of values in a JSON value, itself included. Counting stops above `most`."""
    count, stack = 0, [value]
    while stack and count <= most:
        count += 1
        match stack.pop():
            case list() as items:
                stack += islice(items, most + 1)
            case Mapping() as members:
                stack += islice(members.values(), most + 1)
    return count


class _Pricer(Struct):
    """Computation of the cost of a document: a field costs 1, multiplied by the number of items of the lists above it."""

    schema: GraphQLSchema
    fragments: Mapping[str, FragmentDefinitionNode]
    values: JsonObject
    limits: GraphQLDocumentBinding
    max_page: int | None
    fronts: frozenset[str]  # types that may resolve to a root type
    cost: int = 0
    rejections: dict[tuple[str, ...], None] = {}
    path: tuple[str, ...] = ()
    declared: dict[tuple[str, str], Sequence[Mapping[str, GraphQLArgument]]] = {}

    def price(self, type_: GraphQLNamedType, selections: SelectionSetNode, several: int, *, top: bool = False) -> int:
        """Add the cost of a selection. With `top` it is the selection of the operation, whose fields are judged as calls of their tools."""
        for node in selections.selections:
            match node:
                case FieldNode():
                    self._field(type_, node, several, top=top)
                case InlineFragmentNode():
                    on = node.type_condition.name.value if node.type_condition is not None else type_.name
                    self.price(self.schema.type_map[on], node.selection_set, several, top=top)
                case FragmentSpreadNode():
                    fragment = self.fragments[node.name.value]
                    on = fragment.type_condition.name.value
                    self.price(self.schema.type_map[on], fragment.selection_set, several, top=top)
        return self.cost

    def _field(self, type_: GraphQLNamedType, node: FieldNode, several: int, *, top: bool) -> None:
        self.cost += several
        fields = type_.fields if isinstance(type_, GraphQLObjectType | GraphQLInterfaceType) else {}
        definition = fields.get(node.name.value)
        if definition is None:
            return
        inner = get_named_type(definition.type)
        if inner.name in self.fronts and isinstance(inner, GraphQLObjectType) and not (top and _names_its_type(node)):
            raise _TooMuch(f"{node.name.value} leads back to a root type", "forbidden")
        if not top and type_.name in self.fronts and not identifies(str(definition.type)):
            raise _TooMuch(
                f"{node.name.value} may be a field of a root type: select it with its type (... on Type)", "forbidden"
            )
        self._refuse_files(definition, node)
        size = self._size(type_, definition, node)
        path, self.path = self.path, (*self.path, (node.alias or node.name).value)
        if path and rejects(node.name.value, str(definition.type), entity="id" in fields, depth=len(path)):
            self.rejections[self.path] = None
        if node.selection_set is not None:
            self.price(inner, node.selection_set, several * _items(type_, node.name.value, definition, inner, size))
        self.path = path

    def _refuse_files(self, definition: GraphQLField, node: FieldNode) -> None:
        """Refuse a file, because a document cannot contain one and services do not accept it as JSON. A text may be a reference."""
        for argument in node.arguments or ():
            value = value_from_ast_untyped(argument.value, dict(self.values))
            if _holds_file(definition.args[argument.name.value].type, value):
                raise _TooMuch(
                    f"{node.name.value} takes a file, which a document cannot contain: call the tool of that field"
                )

    def _size(self, type_: GraphQLNamedType, definition: GraphQLField, node: FieldNode) -> int | None:
        """Return the number of items of a field: by its page size, given or by default, or by a long list among its arguments.

        An argument of a mutation may have the name of a page size without being one, as for the mutation's own tool.
        """
        changes = type_ is self.schema.mutation_type
        if changes and not (_is_list(definition) or _is_connection(get_named_type(definition.type))):
            return None
        values: dict[str, Any] = {}
        for argument in node.arguments or ():
            name = argument.name.value
            value = value_from_ast_untyped(argument.value, dict(self.values))
            if changes and isinstance(value, Mapping):
                continue
            values[name] = value
            for where, size in page_sizes(value, name, sized=name in PAGE_SIZES):
                if fault := size_fault(size, self.max_page):
                    raise _TooMuch(f"the argument {where} of {node.name.value} {fault}")
        if changes:
            declared = {name: definition.args[name] for name in definition.args.keys() & (PAGE_SIZES | values.keys())}
            return compiled_items(declared, values)
        found = [compiled_items(one, values) for one in self._declared(type_, definition, node.name.value)]
        return max((items for items in found if items is not None), default=None)

    def _declared(
        self, type_: GraphQLNamedType, definition: GraphQLField, name: str
    ) -> Sequence[Mapping[str, GraphQLArgument]]:
        """Return the arguments of a field. For a field of an interface, return the arguments of its objects too, because their defaults
        may differ.
        """
        if not isinstance(type_, GraphQLInterfaceType):
            return (definition.args,)
        known = self.declared.get((type_.name, name))
        if known is None:
            fields = [one.fields.get(name) for one in self.schema.get_possible_types(type_)]
            arguments = [definition.args, *(one.args for one in fields if one is not None)]
            by_sizes = {repr([(key, one.extensions) for key, one in listed.items()]): listed for listed in arguments}
            known = self.declared[type_.name, name] = tuple(by_sizes.values())
        return known


def _names_its_type(node: FieldNode) -> bool:
    """Return True if `__typename` is the only selected field: a mutation that leads back to a root answers with it."""
    below = node.selection_set.selections if node.selection_set is not None else ()
    return all(isinstance(one, FieldNode) and one.name.value == "__typename" for one in below)


def _fronts(schema: GraphQLSchema) -> frozenset[str]:
    """Return the types that may resolve to a root: the root itself, its interfaces and the unions that include it."""
    roots = [one for one in (schema.query_type, schema.mutation_type, schema.subscription_type) if one is not None]
    found = {one.name for root in roots for one in (root, *root.interfaces)}
    unions = [one for one in schema.type_map.values() if isinstance(one, GraphQLUnionType)]
    return frozenset(found | {one.name for one in unions if any(root in one.types for root in roots)})


def _items(
    type_: GraphQLNamedType, name: str, definition: GraphQLField, inner: GraphQLNamedType, size: int | None
) -> int:
    """Return the number of objects below a field. A connection counts its items once, and not again as its nodes or edges."""
    if size is not None:
        return max(size, 1)
    if _is_connection(inner):
        return ASSUMED
    return ASSUMED if _is_list(definition) and not (_is_connection(type_) and name in {"edges", "nodes"}) else 1


def _holds_file(type_: GraphQLInputType | GraphQLNamedType, value: object) -> bool:
    inner = get_named_type(type_)
    match value:
        case list():
            return any(_holds_file(inner, one) for one in value)
        case Mapping() if isinstance(inner, GraphQLInputObjectType):
            return any(_holds_file(inner.fields[key].type, one) for key, one in value.items() if key in inner.fields)
        case Mapping():
            return inner.name == UPLOAD
        case _:
            return False


def _is_list(definition: GraphQLField) -> bool:
    return isinstance(get_nullable_type(definition.type), GraphQLList)


def _is_connection(type_: GraphQLNamedType) -> bool:
    return isinstance(type_, GraphQLObjectType) and "pageInfo" in type_.fields


def _values(operation: OperationDefinitionNode, variables: JsonObject) -> JsonObject:
    """Return the variables with the defaults of the document."""
    values: dict[str, Json] = {}
    for one in operation.variable_definitions or ():
        name = one.variable.name.value
        if name in variables:
            values[name] = variables[name]
        elif one.default_value is not None:
            values[name] = value_from_ast_untyped(one.default_value)
    return values


def _roots(
    root: GraphQLObjectType,
    selections: SelectionSetNode,
    fragments: Mapping[str, FragmentDefinitionNode],
    values: JsonObject,
) -> Iterator[RootCall]:
    for node in selections.selections:
        match node:
            case FieldNode():
                if node.name.value != "__typename":
                    definition = root.fields[node.name.value]
                    yield RootCall(field=node.name.value, arguments=_arguments(node, definition, values))
            case InlineFragmentNode():
                yield from _roots(root, node.selection_set, fragments, values)
            case FragmentSpreadNode():
                yield from _roots(root, fragments[node.name.value].selection_set, fragments, values)


def _arguments(node: FieldNode, definition: GraphQLField, values: JsonObject) -> JsonObject:
    found: dict[str, Json] = {}
    for argument in node.arguments or ():
        value = value_from_ast_untyped(argument.value, dict(values))
        if value is not Undefined:
            found[argument.name.value] = with_integers(listed(definition.args[argument.name.value].type, value))
    return found


def _deny(reason: str, code: ErrorCode = "validation") -> Deny:
    return Deny(
        rule=_RULE, code=code, reason=f"the document cannot be run: {reason}", suggestion="change it and call again"
    )
