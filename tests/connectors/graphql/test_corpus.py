"""Schemas that real services publish: none may crash, and every query and mutation is a tool or a reported loss."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from jsonschema import Draft202012Validator

from tests.connectors.graphql.reading import SKIPS, binding, read
from toolgen.model.manifest import assemble, load
from toolgen.model.names import TOOL_NAME
from toolgen.model.tool import GraphQLBinding

CORPUS = Path(__file__).parents[4] / "shared" / "corpus" / "graphql"
FILES = [
    # Seconds each: of the larger ones, the default run reads the one that a service gave as JSON.
    pytest.param(path, marks=pytest.mark.exhaustive)
    if path.suffix == ".graphql" and path.stat().st_size > 100_000
    else path
    for path in sorted([*CORPUS.glob("*.graphql"), *CORPUS.glob("*.json")])
]


@pytest.mark.skipif(not FILES, reason="../shared/corpus/graphql is not here")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_root_field_of_a_published_schema_is_a_tool_or_a_problem(path: Path) -> None:
    reading = read(path)
    lost = [one for one in reading.problems if one.level == "error" or one.code in SKIPS]
    tools = [tool for tool in reading.tools if isinstance(tool.binding, GraphQLBinding)]
    assert len(reading.tools) + len(lost) == reading.operations
    assert [one for one in lost if one.level == "error"] == []
    assert len({tool.name for tool in reading.tools}) == len(reading.tools) > 0
    for tool in tools:
        assert TOOL_NAME.match(tool.name)
        assert binding(tool).operation.startswith(f"{binding(tool).type} {tool.name}")
        Draft202012Validator.check_schema(tool.output_schema)
    manifest = assemble({"s": reading.info}, reading.tools, reading.problems)
    assert load(msgspec.json.encode(manifest.to_dict(), enc_hook=dict), where="manifest") == manifest
