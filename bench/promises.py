"""Invariants of reading any OpenAPI description, checked independently of the reader's code where possible."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec

from toolgen.connectors.openapi.documents import Documents
from toolgen.connectors.openapi.proof.known_differences import GOOGLES, SIGNATURE
from toolgen.connectors.openapi.proof.spec_operation import Descriptions, SpecOperation
from toolgen.connectors.openapi.proof.spec_schemas import answers
from toolgen.connectors.openapi.read import open_documents, read_openapi
from toolgen.connectors.source import SourceConfig, SourceReading
from toolgen.connectors.syntax import parse
from toolgen.core.errors import CanonicalError, DescriptionError
from toolgen.generator.build import usable
from toolgen.generator.callability import uncallable
from toolgen.generator.emit.schema_budget import listed
from toolgen.model.auth_schemes import sent
from toolgen.model.http import is_gateway_header
from toolgen.model.names import TOOL_NAME
from toolgen.model.tool import HttpBinding, HttpKey, Tool, seal
from toolgen.policy.arguments import check_schema

HTTP_ITSELF = frozenset({"accept", "accept-encoding", "content-length", "content-type", "host", "transfer-encoding"})
MAX_DESCRIPTION_LENGTH = 1024
DIALECT = "https://json-schema.org/draft/2020-12/schema"
# What holds no schema, and may hold anything that looks like one.
DATA = frozenset({"enum", "const", "default", "examples"})
NAMED = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs"})


def reading(path: Path) -> SourceReading:
    """Read a description like `toolgen build`. Raise `DescriptionError`."""
    return usable(read_openapi(_config(path)))


def _config(path: Path) -> SourceConfig:
    return SourceConfig(name="s", kind="openapi", location=str(path))


def broken(path: Path) -> list[str]:
    """Every promise about the description in a file that is not kept. Raises `DescriptionError`, and whatever is wrong with the code."""
    first = reading(path)
    faults = [*_counted(first), *_named(first)]
    for tool in first.tools:
        faults += [f"{tool.name}: {fault}" for fault in _of_tool(tool)]
    if _bytes(first) != _bytes(reading(path)):
        faults.append("two builds differ")
    faults += [*lost(path, first), *uncallable_tools(first)]
    faults += _shuffled(path, first)
    return faults


def lost(path: Path, found: SourceReading) -> Iterator[str]:
    """Return the parts of an operation that its tool lacks without a reported problem: parameters, a body, an answer.

    The description is read by the reader of `toolgen verify`, which shares nothing with the one that makes tools.
    """
    documents = open_documents(_config(path))
    described = Descriptions(documents)
    told: dict[str, str] = {}
    for problem in found.problems:
        told[problem.origin] = f"{told.get(problem.origin, '')} {problem.message}"
    for tool in found.tools:
        if isinstance(tool.binding, HttpBinding):
            for what in _silently(tool, tool.binding, described.operation(tool.origin), documents, found):
                if what not in told.get(tool.origin, ""):
                    yield f"{tool.name}: lost without a word: {what}"


def _silently(
    tool: Tool, binding: HttpBinding, described: SpecOperation, documents: Documents, found: SourceReading
) -> Iterator[str]:
    """Return the missing parts, named as in a problem."""
    bound = {(one.in_, one.name) for one in binding.parameters}
    if isinstance(binding.key, HttpKey):
        bound.add(("header", binding.key.header))
    schemes = found.info.security_schemes
    shown = {sent(schemes[name]) for option in binding.security for name in option if name in schemes}
    queried = {one["name"] for one in described.parameters if one["in"] == "query"}
    for one in described.parameters:
        place, name = one["in"], one["name"]
        filled = place == "header" and ("header", name.lower()) in shown
        own = place == "header" and is_gateway_header(name) and (filled or one.get("required") is not True)
        google = place == "query" and queried >= {"alt", "prettyPrint", "quotaUser"} and name in GOOGLES
        signed = name.lower() in SIGNATURE and ("header", "authorization") in shown
        if (place, name) not in bound and not signed and not own and not google and name.lower() not in HTTP_ITSELF:
            yield repr(name[:80])
    media = [one["schema"] for one in (described.body or {"content": {}})["content"].values()]
    if binding.body is None and any(_says_something(described.schema(schema)) for schema in media):
        yield "its body"
    if tool.output_schema is None and answers(described, documents):
        yield "the answer's schema"


def _says_something(schema: Any) -> bool:
    return schema.get("properties") != {} or schema.get("type", "object") != "object"


def uncallable_tools(found: SourceReading) -> list[str]:
    """The tools that no call could succeed for, whatever toolgen.yaml says: where the API is, and how an undescribed credential is shown,
    is a project's to say."""
    told = uncallable(found.tools, found.info.security_schemes, found.problems)
    return [problem.message for problem in told if "in toolgen.yaml" not in problem.message]


def _counted(found: SourceReading) -> Iterator[str]:
    skips = [problem for problem in found.problems if problem.level == "error"]
    if len(found.tools) + len(skips) != found.operations:
        yield f"{found.operations} operations, {len(found.tools)} tools, {len(skips)} skips"
    if len({problem.origin for problem in skips} | {tool.origin for tool in found.tools}) != found.operations:
        yield "two skips or tools are of one operation"
    for problem in found.problems:
        if not problem.message or not problem.code or "#" not in problem.origin:
            yield f"a problem says nothing: {problem}"


def _named(found: SourceReading) -> Iterator[str]:
    names = [tool.name for tool in found.tools]
    if len(set(names)) != len(names):
        yield "a name is taken twice"
    yield from (f"{name!r} is no name" for name in names if not TOOL_NAME.match(name))


def _of_tool(tool: Tool) -> Iterator[str]:
    if not tool.description.strip(" .…") or len(listed(tool).description) > MAX_DESCRIPTION_LENGTH:
        yield f"a description of {len(tool.description)} characters: {tool.description[:40]!r}"
    try:
        seal(tool)
    except CanonicalError as error:
        yield f"has no digest: {error}"
    for schema in (tool.input_schema, tool.output_schema):
        yield from schema_faults(schema)
    if fault := check_schema(tool.input_schema):
        yield f"no arguments could be checked: {fault}"


def schema_faults(schema: Mapping[str, Any] | None) -> Iterator[str]:
    """Why something is no self-contained JSON Schema 2020-12."""
    if schema is None:
        return
    if "$defs" in schema:
        schema = {**schema, "$defs": dict(schema["$defs"])}
    try:
        jsonschema_rs.meta.validate({"$schema": DIALECT, **schema})
    except (ValueError, jsonschema_rs.ValidationError) as error:
        yield str(error).splitlines()[0][:200]
    definitions = schema.get("$defs", {})
    wanted = set(_references(schema, is_schema=True))
    yield from (f"dangling $ref {ref}" for ref in wanted - {f"#/$defs/{name}" for name in definitions})
    if unreached := {f"#/$defs/{name}" for name in definitions} - wanted:
        yield f"carries {min(unreached)}, which nothing refers to"


def _references(node: Any, *, is_schema: bool) -> Iterator[str]:
    if isinstance(node, list):
        for item in node:
            yield from _references(item, is_schema=True)
    elif isinstance(node, Mapping):
        if is_schema and isinstance(ref := node.get("$ref"), str):
            yield ref
        for key, item in node.items():
            if not (is_schema and key in DATA):
                yield from _references(item, is_schema=not (is_schema and key in NAMED))


def _written(tool: Tool) -> bytes:
    return msgspec.json.encode(tool.to_dict())


def _bytes(found: SourceReading) -> bytes:
    return b"\n".join([*map(_written, found.tools), *(repr(problem).encode() for problem in found.problems)])


def _shuffled(path: Path, first: SourceReading) -> Iterator[str]:
    """Tools must be the same whatever the order of paths; the description's other files stay where they are."""
    document = parse(path.read_bytes(), where=path.name)
    paths = document.get("paths")
    if not isinstance(paths, dict) or len(paths) < 2:
        return
    listed = list(paths.items())
    random.Random(1).shuffle(listed)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "doc.json"
        copy.write_text(json.dumps({**document, "paths": dict(listed)}), encoding="utf-8", errors="surrogatepass")
        try:
            second = reading(copy)
        except DescriptionError as error:
            yield f"in another order of paths it cannot be read: {error}"
            return
    mine, other = ({tool.origin: _written(tool) for tool in one.tools} for one in (first, second))
    if different := sorted(origin for origin in mine.keys() | other.keys() if mine.get(origin) != other.get(origin)):
        yield f"the order of paths changes {len(different)} tools, {different[0]} first"
