"""Tools for root fields, one for each: a static operation, an input schema and an output schema."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice

import msgspec
from graphql import GraphQLField, GraphQLSchema, get_named_type, get_nullable_type, is_leaf_type, is_list_type, parse
from msgspec import Struct

from toolgen.connectors.graphql.default_selection import Selection, Selector, is_connection
from toolgen.connectors.graphql.inputs import Inputs, InputTooLargeError, Wording
from toolgen.connectors.graphql.operation import faults_of, render_operation, subscription_of, written_selection
from toolgen.connectors.graphql.output_schema import events_of, output_schema
from toolgen.connectors.graphql.paging import (
    cursor_of,
    default_page,
    is_size,
    largest_page,
    page_arguments,
    sizing_inputs,
    with_maximum,
)
from toolgen.connectors.graphql.prose import MAX_DESCRIPTION_LENGTH, gist, prose
from toolgen.connectors.graphql.results import holds_file, rejections_of
from toolgen.connectors.graphql.tool_names import candidates, title_of
from toolgen.connectors.source import SourceConfig
from toolgen.core.canonical import digest
from toolgen.core.errors import CanonicalError, ConfigError
from toolgen.core.spelling import nearest
from toolgen.model.argument_names import with_listed_arguments
from toolgen.model.manifest import Level, Problem
from toolgen.model.schema import Schema
from toolgen.model.shown_schema import MAX_SHOWN, is_large
from toolgen.model.tool import (
    Effect,
    GraphQLBinding,
    GraphQLSubscription,
    Tool,
    seal,
)

__all__ = [
    "RootField",
    "make_root_tools",
    "mutation_effect",
    "root_fields",
    "sha256",
]

_MAX_SCHEMA_SIZE = 4 * 1024 * 1024  # bytes of one tool's arguments; the largest known schema has 330 KiB
_MAX_TOTAL = 128 * 1024 * 1024  # bytes of all tools of one source; shared definitions count once
_BRIEF_ABOVE = 120 * 1024  # bytes of all tools' arguments and descriptions; about 30,000 tokens
_MAX_BRIEF_LENGTH = 100
_VALIDATED_AT_ONCE = 64  # operations validated together; some rules visit the complete document for each operation
_FIELDS: Schema = {
    "type": "string",
    "contentMediaType": "application/graphql",
    "pattern": "^\\{",
    "description": "What to read instead of the default, as a GraphQL selection set: { id name owner { login } }",
}
_BRIEF_FIELDS: Schema = {
    "type": "string",
    "contentMediaType": "application/graphql",
    "pattern": "^\\{",
    "description": "Selection set to read instead",
}


_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
_ADDING = frozenset({"add", "create", "insert", "update"})
_DESTROYING = frozenset(
    {
        *(
            "delete",
            "remove",
            "revoke",
            "archive",
            "destroy",
            "purge",
            "erase",
            "clear",
            "drop",
            "reset",
            "cancel",
            "close",
        ),
        *("replace", "overwrite", "disable", "terminate", "merge", "transfer", "void", "wipe", "truncate", "unpublish"),
    }
)
_MAX_FIELD = 200


class RootField(Struct, frozen=True, kw_only=True):
    """Root field that may become a tool."""

    kind: str  # query | mutation | subscription
    coordinate: str
    field: str
    definition: GraphQLField
    names: tuple[tuple[str, ...], ...]  # as words, best first

    @property
    def effect(self) -> Effect:
        """Effect of a call. A mutation whose name begins or ends with a verb of adding or changing is a write; any other is destructive."""
        return mutation_effect(self.field) if self.kind == "mutation" else Effect.READ


def mutation_effect(field: str) -> Effect:
    """Return the effect of a mutation by the verb in its name (`createOrder`, `order_update`); destructive if the name is not clear."""
    words = [word.lower() for word in _WORD.findall(field[:_MAX_FIELD])]
    if not words or not _DESTROYING.isdisjoint(words):
        return Effect.DESTRUCTIVE
    return Effect.WRITE if words[0] in _ADDING or words[-1] in _ADDING else Effect.DESTRUCTIVE


def root_fields(schema: GraphQLSchema) -> Iterator[RootField]:
    """Yield all queries, mutations and subscriptions of a schema, whatever its root types are called."""
    roots = (
        ("query", schema.query_type),
        ("mutation", schema.mutation_type),
        ("subscription", schema.subscription_type),
    )
    seen: set[str] = set()
    for kind, root in roots:
        if root is None:
            continue
        shared = f"#{kind}" if root.name in seen else ""  # some services use one type for several roots
        seen.add(root.name)
        for field, definition in root.fields.items():
            named = get_named_type(definition.type)
            many = is_list_type(get_nullable_type(definition.type)) or is_connection(named)
            yield RootField(
                kind=kind,
                coordinate=f"{root.name}.{field}{shared}",
                field=field,
                definition=definition,
                names=candidates(field, kind=kind, many=many),
            )


def make_root_tools(
    config: SourceConfig, endpoint: str, schema: GraphQLSchema, fields: list[RootField], names: Mapping[str, str]
) -> list[Tool | Problem]:
    """Return a tool for each of these root fields, or the error that prevents it. If they are long in total, short descriptions are used.

    `names` are by coordinate. Raises `ConfigError`, with its line, for a selection of toolgen.yaml that the schema does not know.
    """
    maker = _RootFieldTools(config, endpoint, schema, brief=is_long(config, fields))
    maker.chosen = _chosen(config, schema, fields, names)
    maker.prepare(fields, names)
    return [maker.make(one, names[one.coordinate]) for one in fields]


def _chosen(
    config: SourceConfig, schema: GraphQLSchema, fields: list[RootField], names: Mapping[str, str]
) -> dict[str, tuple[Selection, ...]]:
    """Return the selections of toolgen.yaml by coordinate. Raises `ConfigError`."""
    short = len(config.name) + 2
    known: dict[str, RootField] = {}
    for one in fields:
        name = names[one.coordinate]
        known |= dict.fromkeys((name, name[short:], one.coordinate), one)
    found: dict[str, tuple[Selection, ...]] = {}
    for tool, given in config.graph.selections.items():
        if (field := known.get(tool)) is None:
            raise ConfigError(
                f"tools: there is no root field's tool '{tool[:80]}'{nearest(tool, known)}", where=given.where
            )
        try:
            below = written_selection(schema, field.definition, given.text)
        except ValueError as error:
            raise ConfigError(f"selection: {prose(str(error), limit=300)}", where=given.where) from None
        operation = render_operation(field.kind, "chosen", field.field, field.definition, below)
        if faults := faults_of(schema, operation):
            raise ConfigError(f"selection: {prose(faults[0], limit=300)}", where=given.where)
        found[field.coordinate] = below
    return found


def is_long(config: SourceConfig, fields: list[RootField]) -> bool:
    inputs = Inputs(Wording(scalars=config.graph.scalars))
    total = 0
    for one in fields:
        with suppress(InputTooLargeError):
            total += len(msgspec.json.encode(inputs.arguments(one.definition.args), enc_hook=dict))
        total += len(one.definition.description or "")
        if total > _BRIEF_ABOVE:
            return True
    return False


def sha256(text: str) -> str:
    """Return `sha256:…` of an operation's text."""
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


class _RootFieldTools:
    """Builder of tools from the root fields of one schema."""

    def __init__(self, config: SourceConfig, endpoint: str, schema: GraphQLSchema, *, brief: bool) -> None:
        self._config = config
        self._endpoint = endpoint
        self._schema = schema
        self._brief = brief
        self._inputs = Inputs(Wording(scalars=config.graph.scalars, brief=brief))
        self._selector = Selector(schema, config.graph.leave_out)
        self._sizing = sizing_inputs(schema)
        self.chosen: Mapping[str, tuple[Selection, ...]] = {}
        self._room = _MAX_TOTAL
        self._digests: dict[str, str] = {}
        self._known: dict[str, tuple[int, bool]] = {}  # length of each definition, and True if it contains a file
        self._selected: dict[str, tuple[Selection, ...]] = {}  # selections by coordinate
        self._operations: dict[str, str] = {}  # rendered operations by coordinate
        self._valid: set[str] = set()  # coordinates

    def prepare(self, fields: list[RootField], names: Mapping[str, str]) -> None:
        """Render the operations of all these fields, and validate many together: one at a time takes three times as long."""
        for one in fields:
            below = self.chosen.get(one.coordinate) or self._selector.below(one.definition, one.kind)
            self._selected[one.coordinate] = below
            if one.kind == "mutation" or not self._selector.is_withheld(one.definition, below):
                rendered = render_operation(one.kind, names[one.coordinate], one.field, one.definition, below)
                self._operations[one.coordinate] = rendered
        rest = iter(self._operations.items())
        while some := dict(islice(rest, _VALIDATED_AT_ONCE)):
            if not faults_of(self._schema, "\n".join(some.values())):
                self._valid |= some.keys()

    def make(self, one: RootField, name: str) -> Tool | Problem:
        """Return the tool of a prepared field, or the error that prevents it."""
        try:
            arguments = self._inputs.arguments(one.definition.args)
        except InputTooLargeError:
            return self._problem(one, "schema_too_large", "its arguments lead to more types than a tool can carry")
        size = self._size(arguments)
        if size > _MAX_SCHEMA_SIZE or size > self._room:
            return self._problem(
                one, "schema_too_large", f"its arguments take {size} bytes, more than a tool can carry"
            )
        self._room -= size if "$defs" not in arguments else min(size, MAX_SHOWN)
        below, operation = self._selected[one.coordinate], self._operations.get(one.coordinate)
        if operation is None:
            message = "it only leads back to the root fields, which have their own tools"
            return self._problem(one, "leads_to_root", message, level="info")
        if one.coordinate not in self._valid and (faults := faults_of(self._schema, operation)):
            reason = prose(faults[0], limit=300)
            return self._problem(one, "invalid_operation", f"no valid operation could be made for it: {reason}")
        pages = page_arguments(one.definition, one.kind, self._sizing)
        selectable = "" if self._brief and one.kind == "mutation" else self._selectable(one)
        answer = output_schema(one.field, one.definition, below, open_=bool(selectable))
        takes = self._with_options(one, arguments, pages, selectable)
        made = Tool(
            name=name,
            title=title_of(one.names[0]),
            description=self._describe(one),
            input_schema=takes,
            output_schema=events_of(answer) if one.kind == "subscription" else answer,
            effect=one.effect,
            idempotent=one.kind == "query",
            source=self._config.name,
            origin=one.coordinate,
            binding=GraphQLBinding(
                type=one.kind,
                field=one.field,
                operation=operation,
                operation_name=name,
                variables={argument: argument for argument in one.definition.args},
                endpoint=self._endpoint,
                hash=sha256(operation),
                fields=selectable,
                pages=pages,
                cursor=cursor_of(one.field, one.definition, below),
                uploads=("Upload",) if self._holds_file(arguments) else (),
                rejections=rejections_of(self._schema, parse(operation)) if one.kind == "mutation" else (),
                page=default_page(one.definition, self._config.graph.max_page),
                max_page=largest_page(self._config.graph.max_page) if pages else 0,
                subscription=self._listened(one),
            ),
        )
        try:
            return seal(self._stored(with_listed_arguments(made)))
        except CanonicalError as error:
            return self._problem(one, "no_canonical_form", f"its schema cannot be stored: {error.message}")

    def _with_options(self, one: RootField, arguments: Schema, pages: tuple[str, ...], selectable: str) -> Schema:
        """Return the arguments with a maximum page size, and with the argument that selects other fields."""
        properties = dict(arguments["properties"])
        for name in pages:
            if is_size(name, one.definition.args[name]):
                properties[name] = with_maximum(properties[name], self._config.graph.max_page)
        if selectable:
            properties[selectable] = _BRIEF_FIELDS if self._brief else _FIELDS
        schema = {**arguments, "properties": properties}
        if self._brief:
            # Arguments that an operation does not use are dropped from the call, which needs fewer words than a refusal.
            del schema["additionalProperties"]
        return schema

    def _stored(self, tool: Tool) -> Tool:
        """Return the tool with the digest of its schema if that is stored in parts."""
        whole = self._digest(tool.input_schema)
        if not whole:
            return tool
        return msgspec.structs.replace(tool, binding=msgspec.structs.replace(tool.binding, whole=whole))

    def _size(self, schema: Schema) -> int:
        """Return the bytes of a schema; each definition is measured once for all tools."""
        definitions = schema.get("$defs", {})
        for name, one in definitions.items():
            if name not in self._known:
                self._known[name] = (len(msgspec.json.encode(one, enc_hook=dict)), holds_file(one))
        own = len(msgspec.json.encode({key: one for key, one in schema.items() if key != "$defs"}, enc_hook=dict))
        return own + sum(self._known[name][0] for name in definitions)

    def _holds_file(self, schema: Schema) -> bool:
        definitions = schema.get("$defs", {})
        own = {key: one for key, one in schema.items() if key != "$defs"}
        return holds_file(own) or any(self._known[name][1] for name in definitions)

    def _digest(self, schema: Schema) -> str:
        """Return the digest of a schema that is stored in parts; each definition is read once for all tools."""
        if not is_large(schema):
            return ""
        for name, one in schema["$defs"].items():
            if name not in self._digests:
                self._digests[name] = digest(one)
        top = digest({key: one for key, one in schema.items() if key != "$defs"})
        return sha256("\n".join([top, *(f"{name} {self._digests[name]}" for name in sorted(schema["$defs"]))]))

    def _listened(self, one: RootField) -> GraphQLSubscription | None:
        return subscription_of(self._config, self._endpoint) if one.kind == "subscription" else None

    def _describe(self, one: RootField) -> str:
        told = prose(one.definition.description) or f"{title_of(one.names[0])}. The GraphQL {one.kind} `{one.field}`."
        if self._brief:
            told = gist(told, "", limit=_MAX_BRIEF_LENGTH)
        lines = [told]
        if one.kind != "mutation" or not self._brief:
            lines.append(f"Returns {one.definition.type}.")
        if (subscription := self._listened(one)) is not None:
            lines.append(f"Answers with up to {subscription.events} events of {subscription.seconds:g} seconds.")
        if one.definition.deprecation_reason is not None:
            lines.append(f"Deprecated: {prose(one.definition.deprecation_reason, limit=200)}")
        return prose("\n".join(lines), limit=MAX_DESCRIPTION_LENGTH)

    def _selectable(self, one: RootField) -> str:
        """Return the name of the argument that selects fields; "" if there are no fields to select."""
        named = get_named_type(one.definition.type)
        if is_leaf_type(named) or self._selector.is_root(named):
            return ""
        return next((name for name in ("fields", "select") if name not in one.definition.args), "")

    def _problem(self, one: RootField, code: str, message: str, level: Level = "error") -> Problem:
        return Problem(level=level, source=self._config.name, origin=one.coordinate, code=code, message=message)
