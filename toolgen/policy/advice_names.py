"""Advice on bound arguments: where else a tool, or a GraphQL schema below it, has a name that says the same and that nobody binds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from toolgen.model.graph import Graph, named
from toolgen.model.manifest import Manifest
from toolgen.model.parameter_names import may_be_one
from toolgen.model.schema import Schema
from toolgen.model.tool import GraphQLBinding, GraphQLDocumentBinding, Tool
from toolgen.model.wire_names import members
from toolgen.policy.advice_arguments import Remark
from toolgen.policy.binding import bind_fault
from toolgen.policy.rules import Rule

__all__ = ["deeper_arguments", "names_alike"]

_DEEPEST = 6
_SHOWN = 3


def names_alike(rule: Rule, tools: Sequence[Tool]) -> Iterator[Remark]:
    """Arguments and members of arguments that are called as a bound one is, or nearly so, and that the caller chooses."""
    for bound, expression in rule.bind.items():
        last = bound.rpartition(".")[2]
        found: dict[str, Tool] = {}
        for tool in tools:
            for path in _paths(tool.input_schema, tool.input_schema, "", 0):
                if path not in rule.bind and may_be_one(last, path.rpartition(".")[2].removesuffix("[]")):
                    found.setdefault(path, tool)
        for path, tool in found.items():
            bindable = bind_fault(tool, path) is None
            yield Remark(
                code="name_alike",
                path=("bind", bound),
                message=f"rule {rule.id} binds '{bound}', and {tool.name} also has '{path}', which the caller chooses",
                suggestion=f"write {path}: {expression.source} under bind: as well"
                if bindable
                else f"narrow '{path}' under arguments:, or take it out of the description with an overlay",
            )


def deeper_arguments(rule: Rule, tools: Sequence[Tool], manifest: Manifest) -> Iterator[Remark]:
    """Arguments of fields below the root field, which callers reach by `fields` or by a document; `bind` sets those of the root alone."""
    for bound in rule.bind:
        last = bound.rpartition(".")[2]
        for source in sorted({tool.source for tool in tools if isinstance(tool.binding, GraphQLBinding)}):
            graph = manifest.sources[source].graph
            if graph is None or not _open(source, [tool for tool in tools if tool.source == source], manifest):
                continue
            found = [place for place, argument in _arguments(graph) if may_be_one(last, argument)]
            if found:
                more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
                yield Remark(
                    code="deeper_argument",
                    path=("bind", bound),
                    message=f"rule {rule.id} binds '{bound}' of root fields; deeper in the schema of {source}, callers choose "
                    f"{', '.join(found[:_SHOWN])}{more}",
                    suggestion="deny what can ask for it: documents, and the argument that chooses fields",
                )


def _open(source: str, tools: Sequence[Tool], manifest: Manifest) -> bool:
    """Whether callers say which fields are read: by an argument of a tool, or in documents of their own."""
    chosen = any(isinstance(tool.binding, GraphQLBinding) and tool.binding.fields for tool in tools)
    return chosen or any(
        tool.source == source and isinstance(tool.binding, GraphQLDocumentBinding) for tool in manifest.tools.values()
    )


def _arguments(graph: Graph) -> Iterator[tuple[str, str]]:
    """`Type.field(argument:)` and the argument's name, of every field that is no root field; members of input objects too."""
    for name, type_ in sorted(graph.types.items()):
        if name in graph.roots or name.startswith("__"):
            continue
        for field, described in sorted(type_.fields.items()):
            for argument, given in sorted(described.arguments.items()):
                yield f"{name}.{field}({argument}:)", argument
                for member in sorted(graph.types[named(given.type)].inputs) if named(given.type) in graph.types else ():
                    yield f"{name}.{field}({argument}: {{{member}}})", member


def _paths(schema: Schema, root: Schema, above: str, depth: int) -> Iterator[str]:
    """The paths of all properties, as `bind` writes them; within a list behind `[]`."""
    if depth > _DEEPEST:
        return
    for name, below in members(schema, root).items():
        path = f"{above}{name}"
        yield path
        yield from _paths(below, root, f"{path}.", depth + 1)
        items = below.get("items")
        if isinstance(items, Mapping):
            yield from _paths(items, root, f"{path}[].", depth + 1)
