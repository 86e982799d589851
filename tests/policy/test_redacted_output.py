"""Output schemas of tools whose answers are redacted: every redacted answer fits, and nothing else of the schema changes."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.frontends.mcp.test_answers import STATEFUL, STATELESS, tried
from tests.gateway import answering
from tests.generator.emit.test_listed_output import rooted, tool
from toolgen.generator.emit.listed_output import listed_output
from toolgen.policy.redact import Redaction, replace_at
from toolgen.policy.redacted_output import with_redactions

HIDDEN = "[hidden]"
PATHS = ("$..a", "$.b", "$..below[*].name", "$['c']", "$..d[0]", "$.a.*", "$..k", "$[?@.a]", "$..*")


def redaction(*fields: str, tools: str = "*") -> Redaction:
    return Redaction(tools=(tools,), fields=fields, replacement=HIDDEN)


def widened(schema: Any, *fields: str) -> Any:
    made = with_redactions(tool(schema, "strict"), [redaction(*fields)])
    return made.output_schema


@given(st.randoms(use_true_random=False), st.lists(st.sampled_from(PATHS), min_size=1, max_size=3, unique=True))
def test_every_redacted_answer_fits(chance: random.Random, paths: list[str]) -> None:
    schema, value = rooted(chance, 3, any_root=False)
    whole = jsonschema_rs.validator_for(widened(schema, *paths), offline=True)
    assert whole.is_valid(value)
    assert whole.is_valid(replace_at(value, paths, lambda _: HIDDEN))


NUMBER: dict[str, Any] = {"type": "integer", "minimum": 1}
EITHER = {"anyOf": [NUMBER, {"type": "string"}]}


@pytest.mark.parametrize(
    ("fields", "schema", "expected"),
    [
        (["$..id"], {"properties": {"id": NUMBER, "n": NUMBER}}, {"properties": {"id": EITHER, "n": NUMBER}}),
        (["$..id"], {"items": NUMBER, "properties": {"n": NUMBER}}, {"items": NUMBER, "properties": {"n": NUMBER}}),
        (["$.id[*]"], {"properties": {"id": {"items": NUMBER}}}, None),
        (["$..id"], {"additionalProperties": NUMBER}, {"additionalProperties": EITHER}),
        (["$..id"], {"additionalProperties": False}, {"additionalProperties": False}),
        (["$..id"], {"properties": {"id": {"type": "string"}}}, {"properties": {"id": {"type": "string"}}}),
        (["$..id"], {"$defs": {"id": {"properties": {"id": NUMBER}}}}, {"$defs": {"id": {"properties": {"id": EITHER}}}}),
        (["$..id"], {"oneOf": [{"properties": {"id": NUMBER}}]}, {"anyOf": [{"properties": {"id": EITHER}}]}),
        (["$..id"], {"oneOf": [{"properties": {"n": NUMBER}}]}, {"oneOf": [{"properties": {"n": NUMBER}}]}),
        (["$..id"], {"required": ["id"], "title": "id"}, {"required": ["id"], "title": "id"}),
    ],
)  # fmt: skip
def test_only_what_is_redacted_may_be_text(fields: list[str], schema: Any, expected: Any) -> None:
    found = widened(schema, *fields)
    if expected is None:  # a path that leads below a name may meet any member
        assert found == {"properties": {"id": {"anyOf": [{"items": EITHER}, {"type": "string"}]}}}
    else:
        assert found == expected


def test_a_tool_that_is_not_redacted_is_the_same_object() -> None:
    one = tool({"properties": {"id": NUMBER}}, "strict")
    assert with_redactions(one, ()) is one
    assert with_redactions(one, [redaction("$..id", tools="other__*")]) is one
    without = tool(None, "strict")
    assert with_redactions(without, [redaction("$..id")]) is without


@pytest.mark.parametrize("version", [STATEFUL, STATELESS])
@pytest.mark.parametrize("form", ["lenient", "strict"])
async def test_a_redacted_answer_keeps_its_structured_content_over_mcp(tmp_path: Path, form: str, version: str) -> None:
    with answering.upstream() as url:
        path = answering.write_project(tmp_path, url, form)
        policy = {
            **answering.POLICY,
            "redact": [{"tools": ["*"], "fields": ["$..id", "$.kind", "$.x"], "with": HIDDEN}],
        }
        (tmp_path / "policies" / "p.yaml").write_text(json.dumps(policy), encoding="utf-8")
        async with tried(path, version) as (_, peer):
            listed = {
                one["name"]: one["outputSchema"]
                for one in (await peer.ask("tools/list"))["tools"]
                if "outputSchema" in one
            }
            for name, arguments, expected in (
                ("api__get_pet", {}, {"id": HIDDEN, "name": "Rex", "kind": HIDDEN}),
                ("fn__point", {"x": 3}, {"x": HIDDEN, "y": -3, "label": None}),
            ):
                result = await peer.ask("tools/call", name=name, arguments=arguments)
                assert result["structuredContent"] == expected
                assert json.loads(result["content"][0]["text"]) == expected
                jsonschema_rs.validator_for(listed[name]).validate(expected)


def test_what_is_listed_of_it_fits_its_notes_too() -> None:
    out = listed_output(
        with_redactions(tool({"type": "object", "properties": {"id": NUMBER}}, "strict"), [redaction("$..id")])
    )
    assert out is not None
    assert out.structured({"id": HIDDEN}, "It was cut.", str) == {"id": HIDDEN, "gateway_note": "It was cut."}
