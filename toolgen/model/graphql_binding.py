"""Bindings of GraphQL: stored operations, documents of callers, and the description of the schema."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from toolgen.model.binding_properties import BindingProperties
from toolgen.model.graphql_schema import Graph, named
from toolgen.model.schema import Schema

__all__ = ["GraphQLBinding", "GraphQLDocumentBinding", "GraphQLSchemaBinding", "GraphQLSubscription"]


class GraphQLSubscription(msgspec.Struct, frozen=True, kw_only=True):
    """Duration and transport of a subscription: `websocket` (graphql-transport-ws) or `sse` (graphql-sse)."""

    transport: str
    url: str
    events: int
    seconds: float


class GraphQLBinding(BindingProperties, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="graphql"):
    """Stored operation, and the SHA-256 of its text. `variables` maps argument -> variable; `type` is query, mutation or subscription.

    `field` is the root field, or "" for an operation from a file. `bound` are variables hidden from the caller, each with its source in the
    principal (`principal.id`). `fields` is the argument that selects other fields than the stored ones. `pages` are the arguments that set
    a page size; `cursor` is the argument for the next page, and the path of its connection in the answer. `uploads` are the scalars whose
    values are files. `rejections` are the response paths to the service's reasons for a refused change (`userErrors`). `page` is the
    default number of items, 0 for the service's default, and `max_page` the maximum, 0 for none. `whole` is the digest of an input schema
    that is stored in parts, with definitions that the tools of a source share.
    """

    type: str
    field: str
    operation: str
    operation_name: str
    variables: dict[str, str]
    endpoint: str
    hash: str = ""
    bound: dict[str, str] = msgspec.field(default_factory=dict)
    fields: str = ""
    pages: tuple[str, ...] = ()
    cursor: tuple[str, ...] = ()
    uploads: tuple[str, ...] = ()
    rejections: tuple[tuple[str, ...], ...] = ()
    page: int = 0
    max_page: int = 0
    whole: str = ""
    subscription: GraphQLSubscription | None = None
    arguments: dict[str, str] = msgspec.field(default_factory=dict)

    @property
    def kind(self) -> str:
        return "graphql"

    @property
    def addresses(self) -> tuple[str, ...]:
        """URLs of the endpoint and of the subscription."""
        return (self.endpoint, *((self.subscription.url,) if self.subscription is not None else ()))

    @property
    def request_line(self) -> str:
        """Method and URL of every operation."""
        return f"POST {self.endpoint}"

    @property
    def own_operation(self) -> str:
        """Root field."""
        return self.field

    @property
    def code_argument(self) -> str:
        """Argument that selects other fields."""
        return self.fields

    @property
    def cursor_argument(self) -> str:
        """Argument of the connection's cursor."""
        return self.cursor[0] if self.cursor else ""

    @property
    def stored_document(self) -> str:
        """Stored operation."""
        return self.operation

    @property
    def answers_lists(self) -> bool:
        """True for queries."""
        return self.type == "query"

    @property
    def destination(self) -> str:
        """URL of the endpoint, or of the request that a subscription begins with (RFC 6455, section 1.3)."""
        return self.endpoint if self.subscription is None else re.sub("^ws", "http", self.subscription.url)

    def answer_type(self, graph: Graph) -> str:
        """Return the type of the root field."""
        root = graph.root(self.type)
        field = None if root is None else root.fields.get(self.field)
        return "" if field is None else named(field.type)

    def listed_schema(self, schema: Schema) -> Schema:
        """Return the schema with the largest and the default size of a page."""
        properties = schema.get("properties", {})
        changed: dict[str, Any] = {}
        for name in self.pages if self.max_page else ():
            one = properties.get(name)
            if isinstance(one, Mapping) and "integer" in one.get("type", ()):
                changed[name] = {
                    **one,
                    "maximum": min(one.get("maximum", self.max_page), self.max_page),
                    "minimum": 0,
                }
        if self.page and "first" in properties:
            changed["first"] = {**changed.get("first", properties["first"]), "default": self.page}
        if self.fields in properties:  # its braces are optional
            asked = properties[self.fields]
            changed[self.fields] = {
                key: one for key, one in asked.items() if key not in {"pattern", "contentMediaType"}
            }
        return {**schema, "properties": {**properties, **changed}} if changed else schema

    def with_other_schema(self) -> GraphQLBinding:
        """Return the binding without the digest of the stored schema."""
        return msgspec.structs.replace(self, whole="") if self.whole else self

    @property
    def sends_files(self) -> bool:
        """True if a scalar of the operation is a file."""
        return bool(self.uploads)

    @property
    def is_query(self) -> bool:
        """True for queries and subscriptions."""
        return self.type != "mutation"

    def _renamed_parts(self, names: Mapping[str, str]) -> dict[str, Any]:
        """Return variables, and the arguments of pages."""
        cursor = self.cursor
        return {
            "variables": {names.get(argument, argument): name for argument, name in self.variables.items()},
            "pages": tuple(names.get(name, name) for name in self.pages),
            "cursor": (names.get(cursor[0], cursor[0]), *cursor[1:]) if cursor else (),
        }


class GraphQLDocumentBinding(BindingProperties, frozen=True, kw_only=True, tag_field="kind", tag="graphql_document"):
    """Documents that the caller writes: only of one `type` (query or mutation), and within these limits."""

    type: str
    endpoint: str
    max_depth: int
    max_aliases: int
    max_root_fields: int
    max_fragments: int
    max_cost: int

    inspected_as: ClassVar = "document"

    @property
    def kind(self) -> str:
        return "graphql_document"

    @property
    def addresses(self) -> tuple[str, ...]:
        """URL of the endpoint."""
        return (self.endpoint,)

    @property
    def request_line(self) -> str:
        """Method and URL of every document."""
        return f"POST {self.endpoint}"

    @property
    def code_argument(self) -> str:
        """Argument that holds the document."""
        return "query"


class GraphQLSchemaBinding(BindingProperties, frozen=True, kw_only=True, tag_field="kind", tag="graphql_schema"):
    """Types of the source's own schema, as SDL. Nothing is sent."""

    inspected_as: ClassVar = "schema"

    @property
    def kind(self) -> str:
        return "graphql_schema"
