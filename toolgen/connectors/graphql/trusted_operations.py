"""Trusted operation files: one tool for each operation, checked against the schema and stored as written."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from graphql import (
    DocumentNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLArgument,
    GraphQLDefaultInput,
    GraphQLError,
    GraphQLNonNull,
    GraphQLSchema,
    Node,
    OperationDefinitionNode,
    Source,
    VariableDefinitionNode,
    Visitor,
    get_location,
    get_named_type,
    is_input_type,
    is_leaf_type,
    parse,
    print_ast,
    type_from_ast,
    validate,
    visit,
)
from msgspec import Struct

from toolgen.connectors.graphql.directives import (
    OWN,
    DirectiveError,
    OperationNotes,
    VariableNotes,
    operation_notes,
    variable_notes,
)
from toolgen.connectors.graphql.inputs import Inputs, InputTooLargeError, Wording
from toolgen.connectors.graphql.operation import subscription_of
from toolgen.connectors.graphql.output_schema import events_of
from toolgen.connectors.graphql.paging import largest_page, with_maximum
from toolgen.connectors.graphql.prose import MAX_DESCRIPTION_LENGTH, prose
from toolgen.connectors.graphql.results import connections_of, holds_file, output_of, rejections_of, sizes_of
from toolgen.connectors.graphql.tool_names import title_of
from toolgen.connectors.naming import words
from toolgen.connectors.source import SourceConfig
from toolgen.core.errors import CanonicalError
from toolgen.core.files import read_file
from toolgen.model.argument_names import with_listed_arguments
from toolgen.model.manifest import Problem
from toolgen.model.tool import Effect, GraphQLBinding, GraphQLSubscription, Tool, seal

__all__ = ["Collected", "collect_trusted", "make_trusted"]

_MAX_FILE_SIZE = 1024 * 1024
_TOKENS = 50_000
_MAX_OPERATIONS = 2000
_Kept = TypeVar("_Kept", OperationDefinitionNode, FragmentDefinitionNode)


class _Operation(Struct, frozen=True, kw_only=True):
    node: OperationDefinitionNode
    notes: OperationNotes
    variables: Mapping[str, VariableNotes]
    origin: str
    name: str


class Collected(Struct):
    """Operations and fragments in the files of a source, before the check against the schema. `files` are path -> `sha256:…`."""

    operations: list[_Operation] = []
    fragments: dict[str, FragmentDefinitionNode] = {}
    problems: list[Problem] = []
    files: dict[str, str] = {}

    def names(self) -> dict[str, tuple[tuple[str, ...], ...]]:
        """Return the candidate names of each operation's tool, best first, by origin."""
        return {one.origin: _names(one) for one in self.operations}

    def identifiers(self) -> dict[str, str]:
        """Return the operations' own names, by origin."""
        return {one.origin: one.name for one in self.operations}


class _FaultError(Exception):
    """Fault that keeps an operation from becoming a tool, and its node."""

    def __init__(self, code: str, message: str, node: Node | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.node = node


def collect_trusted(config: SourceConfig) -> Collected:
    """Read `config.graph.operations`. Each fault of a file or an operation is an error with its file and line."""
    found = Collected()
    for path in config.graph.operations:
        _read(config.name, path, found)
    return found


def make_trusted(
    config: SourceConfig, endpoint: str, schema: GraphQLSchema, found: Collected, names: Mapping[str, str]
) -> tuple[list[Tool], list[Problem]]:
    """Return the tools of the collected operations, by their assigned names."""
    maker = _OperationTools(config, endpoint, schema, found.fragments)
    tools: list[Tool] = []
    problems = list(found.problems)
    for one in found.operations:
        try:
            tools.append(maker.make(one, names[one.origin]))
        except _FaultError as fault:
            problems.append(_problem(config.name, fault.code, str(fault), fault.node or one.node))
    return tools, problems


def _names(one: _Operation) -> tuple[tuple[str, ...], ...]:
    best = words(one.notes.name) if one.notes.name else words(one.name)
    best = best or ("run",)
    return (best, (*best, one.node.operation.value))


def _read(source: str, path: str, found: Collected) -> None:
    name = Path(path).name
    try:
        raw = read_file(path, _MAX_FILE_SIZE)
    except OSError as error:
        found.problems.append(_at(source, "unreadable_file", f"cannot be read: {error.strerror}", name))
        return
    found.files[path] = "sha256:" + hashlib.sha256(raw).hexdigest()
    if len(raw) > _MAX_FILE_SIZE:
        found.problems.append(_at(source, "invalid_file", f"is larger than {_MAX_FILE_SIZE >> 20} MiB", name))
        return
    try:
        document = parse(Source(raw.decode("utf-8-sig"), name), max_lexical_tokens=_TOKENS)
    except UnicodeDecodeError:
        found.problems.append(_at(source, "invalid_file", "is not UTF-8 text", name))
        return
    except (GraphQLError, RecursionError) as error:
        line = error.locations[0].line if isinstance(error, GraphQLError) and error.locations else 1
        message = error.message if isinstance(error, GraphQLError) else "nested too deeply"
        reason = f"is not GraphQL: {prose(message, limit=300)}"
        found.problems.append(_at(source, "invalid_file", reason, f"{name}:{line}"))
        return
    for node in document.definitions:
        fault = _sort(name, node, found)
        if fault is not None:
            found.problems.append(_problem(source, fault.code, str(fault), fault.node or node))


def _sort(file: str, node: Node, found: Collected) -> _FaultError | None:
    """Add a definition to its list. Names are unique over all files of a source."""
    match node:
        case FragmentDefinitionNode(name=name):
            if name.value in found.fragments:
                return _FaultError("duplicate_fragment", f"a fragment {name.value} already exists")
            found.fragments[name.value] = node
            return None
        case OperationDefinitionNode():
            try:
                one = _operation(file, node)
            except _FaultError as fault:
                return fault
            if one.name in {other.name for other in found.operations}:
                return _FaultError("duplicate_operation", f"an operation {one.name} already exists")
            if len(found.operations) >= _MAX_OPERATIONS:
                return _FaultError("too_many_operations", f"exceeds the limit of {_MAX_OPERATIONS} operations")
            found.operations.append(one)
            return None
        case _:
            return _FaultError("no_operation", "is neither an operation nor a fragment")


def _operation(file: str, node: OperationDefinitionNode) -> _Operation:
    if node.name is None:
        raise _FaultError("unnamed_operation", "the operation has no name", node)
    try:
        notes = operation_notes(node)
        variables = {one.variable.name.value: variable_notes(one) for one in node.variable_definitions or ()}
    except DirectiveError as error:
        raise _FaultError("invalid_directive", str(error), error.node) from error
    name = node.name.value
    return _Operation(node=node, notes=notes, variables=variables, origin=f"{file}#{name}", name=name)


class _OperationTools:
    """Builder of tools from the operations of one source."""

    def __init__(
        self,
        config: SourceConfig,
        endpoint: str,
        schema: GraphQLSchema,
        fragments: Mapping[str, FragmentDefinitionNode],
    ) -> None:
        self._config = config
        self._endpoint = endpoint
        self._schema = schema
        self._fragments = fragments
        self._inputs = Inputs(Wording(scalars=config.graph.scalars))

    def make(self, one: _Operation, name: str) -> Tool:
        """Return the tool. Raises `_FaultError`."""
        kind = one.node.operation.value
        subscription = self._subscription(one)
        document = self._document(one)
        for error in validate(self._schema, document):
            node = next((node for node in error.nodes or () if node.loc is not None), None)
            raise _FaultError("invalid_operation", prose(error.message, limit=300), node)
        arguments, schema = self._arguments(one)
        pages = tuple(key for key in sizes_of(self._schema, document) if key in arguments)
        limit = self._config.graph.max_page
        properties = {
            key: with_maximum(inner, limit)
            if key in pages and is_leaf_type(get_named_type(arguments[key].type))
            else inner
            for key, inner in schema["properties"].items()
        }
        answer = output_of(self._schema, document)
        tool = Tool(
            name=name,
            title=prose(one.notes.title, limit=200) or title_of(words(one.notes.name or one.name)),
            description=_describe(one),
            input_schema={**schema, "properties": properties},
            output_schema=answer if subscription is None else events_of(answer),
            effect=one.notes.effect or (Effect.DESTRUCTIVE if kind == "mutation" else Effect.READ),
            idempotent=kind == "query" if one.notes.idempotent is None else one.notes.idempotent,
            source=self._config.name,
            origin=one.origin,
            binding=self._binding(
                one, document, [*arguments], pages, uploads=holds_file(schema), subscription=subscription
            ),
        )
        try:
            return seal(with_listed_arguments(tool))
        except CanonicalError as error:
            raise _FaultError("no_canonical_form", f"cannot be stored: {error.message}") from error

    def _arguments(self, one: _Operation) -> tuple[dict[str, GraphQLArgument], dict[str, Any]]:
        """Return the arguments by name, and their schema. Raises `_FaultError` if one is invalid or they are too large for a tool."""
        arguments = {
            key: argument
            for variable in one.node.variable_definitions or ()
            for key, argument in self._argument(one, variable)
        }
        try:
            return arguments, dict(self._inputs.arguments(arguments))
        except InputTooLargeError:
            raise _FaultError("schema_too_large", "its variables lead to more types than a tool can carry") from None

    def _binding(
        self,
        one: _Operation,
        document: DocumentNode,
        arguments: Collection[str],
        pages: tuple[str, ...],
        *,
        uploads: bool,
        subscription: GraphQLSubscription | None,
    ) -> GraphQLBinding:
        operation = print_ast(document)
        return GraphQLBinding(
            type=one.node.operation.value,
            field="",
            operation=operation,
            operation_name=one.name,
            variables={key: key for key in arguments},
            endpoint=self._endpoint,
            hash="sha256:" + hashlib.sha256(operation.encode()).hexdigest(),
            bound={key: notes.bound for key, notes in one.variables.items() if notes.bound},
            pages=pages,
            cursor=next((path for path in connections_of(self._schema, document) if path[0] in arguments), ()),
            uploads=("Upload",) if uploads else (),
            rejections=rejections_of(self._schema, document),
            max_page=largest_page(self._config.graph.max_page) if pages else 0,
            subscription=subscription,
        )

    def _document(self, one: _Operation) -> DocumentNode:
        """Return the sent document: the operation and the fragments it uses, without toolgen's directives."""
        used: dict[str, FragmentDefinitionNode] = {}
        waiting: list[Node] = [one.node]
        while waiting:
            for name in _spreads(waiting.pop()):
                fragment = self._fragments.get(name)
                if fragment is not None and name not in used:
                    used[name] = fragment
                    waiting.append(fragment)
        definitions = (one.node, *(used[name] for name in sorted(used)))
        stripped: DocumentNode = visit(DocumentNode(definitions=definitions), _Strip())
        return stripped

    def _argument(self, one: _Operation, node: VariableDefinitionNode) -> Iterator[tuple[str, GraphQLArgument]]:
        """Yield the name and the argument of a variable; nothing if the caller does not set the variable. Raises `_FaultError`."""
        key = node.variable.name.value
        notes = one.variables[key]
        type_ = type_from_ast(self._schema, node.type)
        if not is_input_type(type_):
            raise _FaultError("invalid_operation", f"${key} does not have an input type", node)
        if notes.bound:
            return
        if notes.hidden:
            if isinstance(type_, GraphQLNonNull) and node.default_value is None:
                raise _FaultError("invalid_directive", f"${key} is hidden, but required and without a default", node)
            return
        spoken = notes.description or (node.description.value if node.description is not None else "")
        default = GraphQLDefaultInput(literal=node.default_value) if node.default_value is not None else None
        yield key, GraphQLArgument(type_, default=default, description=spoken or None)

    def _subscription(self, one: _Operation) -> GraphQLSubscription | None:
        if one.node.operation.value != "subscription":
            return None
        found = subscription_of(self._config, self._endpoint)
        if found is None:
            raise _FaultError("unsupported_subscription", "set `subscriptions:` of the source to listen to it")
        return found


class _Strip(Visitor):
    """Remover of toolgen's directives and all descriptions, which are not for the service."""

    def enter_directive(self, node: Node, *_: object) -> object:
        name = getattr(node, "name", None)
        return self.REMOVE if name is not None and name.value in OWN else self.IDLE

    def leave(self, node: Node, *_: object) -> object:
        if isinstance(node, OperationDefinitionNode | FragmentDefinitionNode | VariableDefinitionNode) and (
            node.description is not None
        ):
            kept = {key: getattr(node, key) for key in node.keys if key != "description"}
            return type(node)(**kept)
        return self.IDLE


def _spreads(node: Node) -> list[str]:
    found: list[str] = []

    class Spreads(Visitor):
        def enter_fragment_spread(self, spread: FragmentSpreadNode, *_: object) -> None:
            found.append(spread.name.value)

    visit(node, Spreads())
    return found


def _describe(one: _Operation) -> str:
    """Return `@tool(description:)`, or the description before the operation, or the comment above it."""
    node = one.node
    if said := prose(one.notes.description, limit=MAX_DESCRIPTION_LENGTH):
        return said
    if node.description is not None:
        return prose(node.description.value, limit=MAX_DESCRIPTION_LENGTH)
    lines: list[str] = []
    token = node.loc.start_token.prev if node.loc is not None else None
    while token is not None and token.kind.name == "COMMENT":
        lines.insert(0, (token.value or "").strip())
        token = token.prev
    text = prose("\n".join(lines), limit=MAX_DESCRIPTION_LENGTH)
    return text or f"The GraphQL {node.operation.value} `{one.name}`."


def _problem(source: str, code: str, message: str, node: Node) -> Problem:
    loc = node.loc
    place = f"{loc.source.name}:{get_location(loc.source, loc.start).line}" if loc is not None else "operations"
    return _at(source, code, message, place)


def _at(source: str, code: str, message: str, place: str) -> Problem:
    return Problem(level="error", source=source, origin=place, code=code, message=message)
