"""Guard of documents that agents write: each is checked against the schema, and judged as the calls of its root fields."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

import msgspec
from graphql import GraphQLSchema
from msgspec import Struct, field
from msgspec.structs import replace

from toolgen.connectors.document_guard import ArgumentValidator, DocumentGuard, DocumentRules
from toolgen.connectors.graphql.compiled_schema import compile_schema
from toolgen.connectors.graphql.guard import CheckedDocument, check_document, is_small
from toolgen.connectors.graphql.options import DEFAULT_MAX_PAGE
from toolgen.connectors.source import SourceConfig
from toolgen.model.argument_names import listed_arguments
from toolgen.model.call import Call, GraphQLDocument, Principal
from toolgen.model.graphql_schema import Graph, identifies, reachable
from toolgen.model.manifest import Manifest
from toolgen.model.schema import JsonObject
from toolgen.model.tool import GraphQLBinding, GraphQLDocumentBinding, Tool
from toolgen.model.verdict import Deny, Verdict

__all__ = ["GraphQLDocumentGuard", "guard_of"]

_MAX_PARTS = 16  # compiled schemas kept: one per visible set of root fields, some 5 MB for a very large schema
# Few threads, because they share the interpreter with the event loop, and more than one, because one slow document must not block all
# others.
_READERS: Final = ThreadPoolExecutor(max_workers=2, thread_name_prefix="graphql-guard")
_WORD = re.compile(r"[_A-Za-z][_0-9A-Za-z]*")


class _Part(Struct, frozen=True):
    """Visible part of a schema: its index, and the compiled schema."""

    graph: Graph
    schema: GraphQLSchema


class GraphQLDocumentGuard(Struct, frozen=True, kw_only=True):
    """Guard of the documents of one source.

    A document may use only root fields that the caller may call as tools, with arguments that the policy allows: one policy decides about
    both ways, and one schema about the arguments. The document is validated against the part of the schema that the caller may see, so that
    hidden names get the same answer as unknown names, also when a misspelt name is similar to a hidden one.
    """

    graph: Graph
    tools: Mapping[tuple[str, str], Tool]  # tool by kind and root field
    rules: DocumentRules
    max_page: int | None
    validators: dict[str, ArgumentValidator] = {}  # validators of those tools, compiled at first use
    usable: dict[tuple[frozenset[str], ...], frozenset[str]] = {}  # usable tools by toolsets and roles
    # visible parts by the tools of their root fields
    parts: OrderedDict[frozenset[str], _Part] = field(default_factory=OrderedDict)

    def check(self, call: Call, notes: list[Any]) -> tuple[Call, Verdict] | Deny:
        """Return the call with the document that may be sent and the strictest verdict on its calls, or a refusal. Adds to `notes`."""
        return self.judge(call, self._read(call, self._part(call.principal).schema), notes)

    async def read(self, call: Call) -> CheckedDocument | Deny:
        """Check a document against the schema. A large document, or a schema that must be compiled, is handled in a thread so that other
        calls continue.
        """
        part = await self._compiled(call.principal)
        text, variables = call.arguments.get("query"), call.arguments.get("variables", {})
        if isinstance(text, str) and isinstance(variables, Mapping) and not is_small(text, variables):
            return await _in_thread(partial(self._read, call, part.schema))
        return self._read(call, part.schema)

    def _read(self, call: Call, schema: GraphQLSchema) -> CheckedDocument | Deny:
        binding = call.tool.binding
        assert isinstance(binding, GraphQLDocumentBinding)  # noqa: S101 - the stage matched on it
        text, variables = call.arguments.get("query"), call.arguments.get("variables", {})
        if not isinstance(text, str) or not isinstance(variables, Mapping):
            return Deny(rule="graphql", code="validation", reason="query must be text and variables an object")
        return check_document(text, variables, schema=schema, limits=binding, max_page=self.max_page)

    def judge(self, call: Call, checked: CheckedDocument | Deny, notes: list[Any]) -> tuple[Call, Verdict] | Deny:
        """Return the call with the checked document and the strictest verdict on its calls, or a refusal. Adds to `notes`."""
        binding = call.tool.binding
        assert isinstance(binding, GraphQLDocumentBinding)  # noqa: S101 - the stage matched on it
        if isinstance(checked, Deny):
            return self._refusal_with_tool(checked, str(call.arguments.get("query")), call.principal)
        tools: dict[str, Tool] = {}
        verdicts: list[Verdict] = []
        roots: list[tuple[Tool, JsonObject]] = []
        for root in checked.roots:
            tool = self.tools.get((binding.type, root.field))
            if tool is None or not self.rules.visible(call.principal, tool):
                return Deny(rule="graphql", reason=f"there is no {binding.type} {root.field} that you may use")
            arguments, _ = listed_arguments(tool, root.arguments)
            if faults := self._validator(tool).faults(arguments, 1):
                reason = f"the document cannot be run: {root.field}: {faults[0]}"
                return Deny(rule="graphql", code="validation", reason=reason, suggestion="change it and call again")
            tools[tool.name] = tool
            roots.append((tool, arguments))
            verdicts.append(self.rules.decide(call, tool, arguments, notes))
        verdict = self.rules.strictest(verdicts)
        if isinstance(verdict, Deny):
            return verdict
        if checked.aliased and any(self.rules.redacted(tool) for tool in (call.tool, *tools.values())):
            reason = "the document cannot be run: it has aliases, and something in these answers is hidden by its name"
            return Deny(rule="graphql", reason=reason, suggestion="ask for every field by its own name")
        document = GraphQLDocument(
            query=checked.query,
            variables=checked.variables,
            operation_name=checked.operation_name,
            tools=tuple(tools.values()),
            cost=checked.cost,
            roots=tuple(roots),
            rejections=checked.rejections,
        )
        return msgspec.structs.replace(call, document=document), verdict

    def _validator(self, tool: Tool) -> ArgumentValidator:
        if tool.digest not in self.validators:
            self.validators[tool.digest] = self.rules.validator(tool)
        return self.validators[tool.digest]

    def part(self, call: Call) -> Graph:
        """Return the schema with only the root fields that the caller may use in a document, and their types."""
        return self._part(call.principal).graph

    async def visible_graph(self, call: Call) -> Graph:
        """Return the schema of `part`, built in a thread."""
        return (await self._compiled(call.principal)).graph

    async def _compiled(self, principal: Principal) -> _Part:
        names = self._usable(principal)
        if names not in self.parts:
            self._keep(names, await _in_thread(partial(self._compile, names)))
        return self._part(principal)

    def _part(self, principal: Principal) -> _Part:
        names = self._usable(principal)
        if names not in self.parts:
            self._keep(names, self._compile(names))
        self.parts.move_to_end(names)
        return self.parts[names]

    def _compile(self, names: frozenset[str]) -> _Part:
        graph = _narrowed(self.graph, {key for key, tool in self.tools.items() if tool.name in names})
        return _Part(graph, compile_schema(graph))

    def _keep(self, names: frozenset[str], part: _Part) -> None:
        self.parts[names] = part
        if len(self.parts) > _MAX_PARTS:
            self.parts.popitem(last=False)

    def _usable(self, principal: Principal) -> frozenset[str]:
        user = principal.on_behalf_of
        roles = (principal.toolsets, principal.roles, *(() if user is None else (user.roles,)))
        names = self.usable.get(roles)
        if names is None:
            names = self.usable[roles] = frozenset(
                tool.name
                for tool in self.tools.values()
                if self.rules.visible(principal, tool) and not self.rules.bound(principal, tool)
            )
        return names

    def _refusal_with_tool(self, denied: Deny, text: str, principal: Principal) -> Deny:
        """Return the refusal of a document, with a suggestion to call the tool if the gateway sets arguments of a field."""
        words = set(_WORD.findall(text))
        for (_, name), tool in self.tools.items():
            if name in words and self.rules.visible(principal, tool) and self.rules.bound(principal, tool):
                suggestion = f"the gateway sets arguments of {name}, which no document can ask for: call {tool.name}"
                return replace(denied, suggestion=suggestion)
        return denied


_Answer = TypeVar("_Answer")


async def _in_thread(work: Callable[[], _Answer]) -> _Answer:
    return await asyncio.get_running_loop().run_in_executor(_READERS, work)


def _narrowed(graph: Graph, usable: Set[tuple[str, str]]) -> Graph:
    """Return the schema with only these root fields, also for roots behind an interface, and the types they refer to.

    The identifying field (`id: ID!` of Relay's Node) stays in the root and in the interface: it is the only field that may be read behind
    such an interface.
    """
    types = dict(graph.types)
    for kind in ("query", "mutation", "subscription"):
        root = graph.root(kind)
        if root is None:
            continue
        behind = [name for name in root.members if name in graph.types]
        identity = {key for name in behind for key, one in graph.types[name].fields.items() if identifies(one.type)}
        hidden = {key for key in root.fields if (kind, key) not in usable} - identity
        for name in (getattr(graph, kind), *behind):
            fields = {key: one for key, one in types[name].fields.items() if key not in hidden}
            types[name] = msgspec.structs.replace(types[name], fields=fields)
    return reachable(msgspec.structs.replace(graph, types=types))


def guard_of(
    config: SourceConfig | None, source: str, manifest: Manifest, rules: DocumentRules
) -> DocumentGuard | None:
    """Return the guard of a source with a built schema. Without a configuration pages may have any size, for previews."""
    graph = manifest.sources[source].graph
    if graph is None:
        return None
    tools = {
        (tool.binding.type, tool.binding.field): tool
        for tool in manifest.tools.values()
        if tool.source == source and isinstance(tool.binding, GraphQLBinding) and tool.binding.field
    }
    max_page = None if config is None else config.graph.max_page or DEFAULT_MAX_PAGE
    return GraphQLDocumentGuard(graph=graph, tools=tools, rules=rules, max_page=max_page)
