"""Advice for the author of a policy: statements that are probably mistakes, each with its line and a suggestion. Advice never rejects a
policy. Advice on bound arguments lists similar arguments of the tool, or of the GraphQL schema below it, that no rule binds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from toolgen.core.yaml_file import YamlDocument
from toolgen.model.graphql_schema import Graph, named
from toolgen.model.manifest import Manifest
from toolgen.model.parameter_names import may_be_one
from toolgen.model.schema import Schema
from toolgen.model.tool import Tool
from toolgen.model.wire_names import members
from toolgen.policy.advice_arguments import (
    Remark,
    contradicted,
    numbers_excluded,
    optional_narrowings,
    texts_as_numbers,
)
from toolgen.policy.advice_names import NameRemark, principal_names
from toolgen.policy.binding import bind_fault
from toolgen.policy.document.policy import Policy
from toolgen.policy.redact import Redaction, column_of
from toolgen.policy.rules import Rule

__all__ = ["Advice", "advise"]

_MAX_DEPTH = 6
_SHOWN = 3


def names_alike(rule: Rule, tools: Sequence[Tool]) -> Iterator[Remark]:
    """Yield advice on arguments, and members of arguments, that have the name of a bound argument or a similar one, and that the caller
    chooses."""
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
    """Yield advice on arguments of fields below the root field, which callers reach by `fields` or by a document; `bind` sets only
    arguments of the root field."""
    for bound in rule.bind:
        last = bound.rpartition(".")[2]
        for source in sorted({tool.source for tool in tools if tool.selects_fields}):
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
                    suggestion="deny documents and the argument that selects fields, because both can reach it",
                )


def _open(source: str, tools: Sequence[Tool], manifest: Manifest) -> bool:
    """Return True if callers can select which fields are read: by an argument of a tool, or in their own documents."""
    chosen = any(tool.selects_fields and tool.binding.code_argument for tool in tools)
    return chosen or any(tool.source == source and tool.takes_documents for tool in manifest.tools.values())


def _arguments(graph: Graph) -> Iterator[tuple[str, str]]:
    """Yield `Type.field(argument:)` and the name of the argument for every field that is no root field; also for members of input
    objects."""
    for name, type_ in sorted(graph.types.items()):
        if name in graph.roots or name.startswith("__"):
            continue
        for field, described in sorted(type_.fields.items()):
            for argument, given in sorted(described.arguments.items()):
                yield f"{name}.{field}({argument}:)", argument
                for member in sorted(graph.types[named(given.type)].inputs) if named(given.type) in graph.types else ():
                    yield f"{name}.{field}({argument}: {{{member}}})", member


def _paths(schema: Schema, root: Schema, above: str, depth: int) -> Iterator[str]:
    """Yield the paths of all properties in the notation of `bind`; items of a list are written `[]`."""
    if depth > _MAX_DEPTH:
        return
    for name, below in members(schema, root).items():
        path = f"{above}{name}"
        yield path
        yield from _paths(below, root, f"{path}.", depth + 1)
        items = below.get("items")
        if isinstance(items, Mapping):
            yield from _paths(items, root, f"{path}[].", depth + 1)


_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_-]*)|\['([^'\\]+)'\]|\[(?:\*|\d+)\]")
_BRANCHES = ("anyOf", "oneOf")
_Place = Callable[..., str]


class Advice(Struct, frozen=True, kw_only=True):
    """A piece of advice. `where` is file:line, `suggestion` the text to write."""

    code: str
    where: str
    message: str
    suggestion: str

    def to_dict(self) -> dict[str, object]:
        """Return the JSON form, for `toolgen policy check --json`."""
        return asdict(self)


def advise(policy: Policy, documents: Iterable[YamlDocument], manifest: Manifest) -> Iterator[Advice]:
    """Return advice on a valid policy, file by file. `documents` are its files."""
    rules = {rule.id: rule for rule in policy.rules}
    remarks: dict[str, list[NameRemark]] = {}
    for name, about in principal_names(policy.principals):
        remarks.setdefault(name, []).append(about)
    for document in documents:
        data: Mapping[str, Any] = document.data or {}
        for name in data.get("principals") or ():
            for about in remarks.pop(name, ()):
                where = document.where("principals", name)
                yield Advice(code=about.code, where=where, message=about.message, suggestion=about.suggestion)
        for index, entry in enumerate(data.get("rules") or ()):
            rule = rules.get(entry["id"])
            if rule is None:  # it is about prompts and resources, or about tools that are added later
                continue
            tools = [tool for tool in manifest.tools.values() if rule.covers(tool)]
            for remark in _about_rule(rule, tools, policy, manifest):
                where = document.where("rules", index, *remark.path)
                yield Advice(code=remark.code, where=where, message=remark.message, suggestion=remark.suggestion)
        for index, entry in enumerate(data.get("redact") or ()):
            for number, field in enumerate(entry["fields"]):
                redaction = Redaction(tools=tuple(entry["tools"]), fields=(field,), replacement="")
                where = document.where("redact", index, "fields", number)
                yield from _about_redaction(field, redaction, manifest, where)


def _about_rule(rule: Rule, tools: list[Tool], policy: Policy, manifest: Manifest) -> Iterator[Remark]:
    yield from _never(rule, tools, policy)
    if rule.arguments is not None:
        if rule.verdict == "allow" and not rule.shadow:
            yield from optional_narrowings(rule, tools)
        yield from texts_as_numbers(rule, tools)
    if rule.verdict == "allow" and not rule.shadow:
        yield from numbers_excluded(rule, tools)
    if rule.bind:
        yield from names_alike(rule, tools)
        yield from deeper_arguments(rule, tools, manifest)


def _never(rule: Rule, tools: list[Tool], policy: Policy) -> Iterator[Remark]:
    """Return the reason why a rule can never apply, or why it has no effect."""
    if rule.when is not None and rule.when.source.strip() == "false":
        yield Remark(
            code="never_speaks",
            path=("when",),
            message=f"rule {rule.id} never applies: its condition is always false",
            suggestion="remove the rule, or correct its condition",
        )
    if rule.arguments is not None:
        yield from contradicted(rule, tools)
    if rule.verdict == "deny" or rule.shadow:
        return
    for other in policy.rules:
        always = other.verdict == "deny" and not other.shadow and other.arguments is None and other.when is None
        if always and rule.roles <= other.roles and all(map(other.covers, tools)):
            yield Remark(
                code="never_speaks",
                path=("verdict",),
                message=f"rule {rule.id} can never {rule.verdict} anything: {other.id} ({other.where}) denies all of it to the same roles",
                suggestion=f"remove rule {rule.id}, or narrow the tools, the roles or the arguments of {other.id}",
            )
            return


def _about_redaction(field: str, redaction: Redaction, manifest: Manifest, where: str) -> Iterator[Advice]:
    """Yield advice on a path from the root that passes through a union: it finds a field in one variant of an answer and misses it in
    another."""
    if ".." in field:
        return
    found = [
        tool.name
        for tool in manifest.tools.values()
        if redaction.covers(tool) and tool.output_schema is not None and _through_union(field, tool.output_schema)
    ]
    if found:
        last = column_of(field)
        yield Advice(
            code="anchored_redaction",
            where=where,
            message=f"'{field}' starts at the root, and answers of {_listed(found)} have several shapes along this path",
            suggestion=f"write $..{last}, which finds it at any depth"
            if last
            else "write $..NAME, which finds it at any depth",
        )


def _through_union(field: str, schema: Schema) -> bool:
    """Return True if a path passes through a value for which the schema has several shapes."""
    root, here = schema, schema
    if _is_union(here, root):
        return True
    for step in _STEP.finditer(field):
        name = step[1] or step[2]
        here = members(here, root).get(name, {}) if name else _items(here, root)
        if step.end() < len(field) and _is_union(here, root):
            return True
    return False


def _items(schema: Schema, root: Schema) -> Schema:
    below = schema.get("items")
    for branch in _branches(schema):
        below = below or branch.get("items")
    return below if isinstance(below, Mapping) else {}


def _is_union(schema: Schema, root: Schema, depth: int = 0) -> bool:
    reference = schema.get("$ref")
    if isinstance(reference, str) and depth < 10:
        target = root.get("$defs", {}).get(reference.removeprefix("#/$defs/"), {})
        if isinstance(target, Mapping) and _is_union(target, root, depth + 1):
            return True
    return len([branch for branch in _branches(schema) if branch.get("type") != "null"]) > 1


def _branches(schema: Schema) -> Iterator[Schema]:
    for keyword in _BRANCHES:
        yield from (branch for branch in schema.get(keyword, ()) if isinstance(branch, Mapping))


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
