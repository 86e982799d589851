"""Documents that agents write, held against the schema and then judged as the calls they are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import msgspec
from graphql import GraphQLSchema

from toolgen.model.call import Call, Document, Principal
from toolgen.model.graph import Graph
from toolgen.model.manifest import Manifest
from toolgen.model.schema import JsonObject
from toolgen.model.tool import GraphQLBinding, GraphQLDocumentBinding, GraphQLSchemaBinding, Tool
from toolgen.model.verdict import Deny, Verdict, strictest
from toolgen.policy.arguments import Validator
from toolgen.policy.graphql.guard import check_document
from toolgen.policy.graphql.schema import compile_schema
from toolgen.policy.rules import Note

__all__ = ["DocumentGuard", "GuardParts", "document_guards"]

Decide = Callable[[Call, Tool, JsonObject, list[Note]], Verdict]
"""The verdict on a root field as on a call of its tool. What the record should know besides is added to the list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentGuard:
    """Judges the documents of one source.

    A document may ask for a root field that the caller may call as a tool, with arguments that it may call it with, and for no other:
    one policy decides about both roads, and one schema about the arguments. `redacted` says whether the policy hides anything in a
    tool's answers: then an alias would show it under another name.
    """

    graph: Graph
    schema: GraphQLSchema
    tools: Mapping[tuple[str, str], Tool]  # by kind and root field
    decide: Decide
    visible: Callable[[Principal, Tool], bool]
    redacted: Callable[[Tool], bool]
    max_page: int | None
    validators: dict[str, Validator] = field(default_factory=dict)  # of those tools, compiled when first asked for

    def check(self, call: Call, notes: list[Note]) -> tuple[Call, Verdict] | Deny:
        """The call with the document that may be sent, and the strictest verdict on the calls in it; or a refusal. Adds to `notes`."""
        binding = call.tool.binding
        assert isinstance(binding, GraphQLDocumentBinding)  # noqa: S101 - the stage matched on it
        text, variables = call.arguments.get("query"), call.arguments.get("variables", {})
        if not isinstance(text, str) or not isinstance(variables, Mapping):
            return Deny(rule="graphql", code="validation", reason="query must be text and variables an object")
        checked = check_document(text, variables, schema=self.schema, limits=binding, max_page=self.max_page)
        if isinstance(checked, Deny):
            return checked
        tools: dict[str, Tool] = {}
        verdicts: list[Verdict] = []
        roots: list[tuple[Tool, JsonObject]] = []
        for root in checked.roots:
            tool = self.tools.get((binding.type, root.field))
            if tool is None or not self.visible(call.principal, tool):
                return Deny(rule="graphql", reason=f"there is no {binding.type} {root.field} that you may use")
            if faults := self._validator(tool).faults(root.arguments, 1):
                reason = f"the document cannot be run: {root.field}: {faults[0]}"
                return Deny(rule="graphql", code="validation", reason=reason, suggestion="change it and call again")
            tools[tool.name] = tool
            roots.append((tool, root.arguments))
            verdicts.append(self.decide(call, tool, root.arguments, notes))
        verdict = strictest(verdicts)
        if isinstance(verdict, Deny):
            return verdict
        if checked.aliased and any(self.redacted(tool) for tool in (call.tool, *tools.values())):
            reason = "the document cannot be run: it has aliases, and something in these answers is hidden by its name"
            return Deny(rule="graphql", reason=reason, suggestion="ask for every field by its own name")
        document = Document(
            query=checked.query,
            variables=dict(variables),
            operation_name=checked.operation_name,
            tools=tuple(tools.values()),
            cost=checked.cost,
            roots=tuple(roots),
        )
        return replace(call, document=document), verdict

    def _validator(self, tool: Tool) -> Validator:
        if tool.digest not in self.validators:
            self.validators[tool.digest] = Validator(tool.input_schema)
        return self.validators[tool.digest]

    def part(self, call: Call) -> Graph:
        """The schema with only those root fields that the caller may use."""
        types = dict(self.graph.types)
        for kind in ("query", "mutation", "subscription"):
            root = self.graph.root(kind)
            if root is None:
                continue
            fields = {
                name: one
                for name, one in root.fields.items()
                if (tool := self.tools.get((kind, name))) is not None and self.visible(call.principal, tool)
            }
            types[getattr(self.graph, kind)] = msgspec.structs.replace(root, fields=fields)
        return msgspec.structs.replace(self.graph, types=types)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardParts:
    """What the guards of all sources share."""

    decide: Decide
    visible: Callable[[Principal, Tool], bool]
    redacted: Callable[[Tool], bool]
    max_pages: Mapping[str, int | None] = field(default_factory=dict)


def document_guards(manifest: Manifest, parts: GuardParts) -> Mapping[str, DocumentGuard]:
    """A guard for each source that is open to documents; their schemas are compiled here, once, from their indexes."""
    open_ = {
        tool.source
        for tool in manifest.tools.values()
        if isinstance(tool.binding, GraphQLDocumentBinding | GraphQLSchemaBinding)
    }
    guards = {}
    for source in sorted(open_):
        graph = manifest.sources[source].graph
        if graph is None:
            continue
        tools = {
            (tool.binding.type, tool.binding.field): tool
            for tool in manifest.tools.values()
            if tool.source == source and isinstance(tool.binding, GraphQLBinding) and tool.binding.field
        }
        guards[source] = DocumentGuard(
            graph=graph,
            schema=compile_schema(graph),
            tools=tools,
            decide=parts.decide,
            visible=parts.visible,
            redacted=parts.redacted,
            max_page=parts.max_pages.get(source),
        )
    return guards
