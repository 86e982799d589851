"""Whether a tool could ever be called: a build says so of every tool, by name."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.connectors.openapi.readings import document, operation
from toolgen.config.settings import load
from toolgen.connectors.proof.examples import Examples
from toolgen.generator.build import build, build_sources
from toolgen.generator.callability import names_in_short, unpaid

JSON = "application/json"
KEY = {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}


def built(folder: Path, written: dict[str, Any], **more: Any) -> Any:
    (folder / "api.json").write_text(json.dumps(written))
    (folder / "toolgen.yaml").write_text(json.dumps({"sources": {"t": {"openapi": "api.json", **more}}}))
    return build_sources(load(str(folder / "toolgen.yaml")).sources).manifest


def body(schema: Any, **schemas: Any) -> dict[str, Any]:
    content = {JSON: {"schema": schema}}
    return document(
        {"/x": {"post": operation(requestBody={"required": True, "content": content})}}, components={"schemas": schemas}
    )


def secured(*options: Any, **schemes: Any) -> dict[str, Any]:
    return document({"/x": {"get": operation(security=list(options))}}, components={"securitySchemes": schemes})


def wanting(name: str) -> dict[str, Any]:
    one = {"name": name, "in": "header", "required": True, "schema": {"type": "string"}}
    return document({"/x": {"get": operation(parameters=[one])}})


NODE = {"type": "object", "required": ["next"], "properties": {"next": {"$ref": "#/components/schemas/Node"}}}
NEVER: dict[str, tuple[dict[str, Any], str]] = {
    "no server": ({**document({"/x": {"get": operation()}}), "servers": [{"url": "/v1"}]}, "has no usable server"),
    "a scheme that is not described": (secured({"gone": []}), "'gone', which is not described"),
    "each alternative with one": (secured({"gone": []}, {"key": [], "lost": []}, **KEY), "which is not described"),
    "a header that nobody sends": (wanting("Authorization"), "'Authorization' cannot be set by an argument"),
    "a required body that is nothing": (body({"not": {}}), "required argument 'body'"),
    "a required property that is nothing": (body({"type": "object", "required": ["a"], "properties": {"a": False}}), "'a'"),
    "an object that holds one of its kind": (body({"type": "object", "required": ["a"], "properties": {"a": NODE}}, Node=NODE), "'a'"),
    "a list of at least one of those": (
        body({"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/Node"}}, Node=NODE), "'body'"),
    "no branch of several": (body({"anyOf": [{"not": {}}, {"$ref": "#/components/schemas/Node"}]}, Node=NODE), "'body'"),
}  # fmt: skip
PERHAPS: dict[str, dict[str, Any]] = {
    "an alternative that is known": secured({"gone": []}, {"key": []}, **KEY),
    "none needed": secured({"gone": []}, {}),
    "a list that may be empty": body({"type": "array", "items": {"$ref": "#/components/schemas/Node"}}, Node=NODE),
    "a way out": body(
        {"$ref": "#/components/schemas/Tree"},
        Tree={
            "type": "object",
            "required": ["left"],
            "properties": {"left": {"anyOf": [{"$ref": "#/components/schemas/Tree"}, {"type": "null"}]}},
        },
    ),
    "an optional one": body({"type": "object", "required": ["b"], "properties": {"a": NODE, "b": {"type": "integer"}}}, Node=NODE),
}  # fmt: skip


@pytest.mark.parametrize("case", NEVER)
def test_a_tool_that_could_never_be_called_is_told_by_name(case: str, tmp_path: Path) -> None:
    written, said = NEVER[case]
    manifest = built(tmp_path, written)
    assert list(manifest.tools) == ["t__do_it"]
    (problem,) = [problem for problem in manifest.problems if problem.code == "uncallable"]
    assert (problem.level, problem.origin) == ("warning", manifest.tools["t__do_it"].origin)
    assert problem.message.startswith("t__do_it can never be called: ")
    assert said in problem.message


@pytest.mark.parametrize("case", PERHAPS)
def test_one_that_might_be_is_not(case: str, tmp_path: Path) -> None:
    manifest = built(tmp_path, PERHAPS[case])
    assert "uncallable" not in {problem.code for problem in manifest.problems}


def test_credentials_that_are_not_configured_are_told_by_what_is_needed(tmp_path: Path) -> None:
    manifest = built(tmp_path, secured({"key": []}, **KEY))
    assert unpaid(manifest.tools.values(), {}) == {"key": ["t__do_it"]}
    assert unpaid(manifest.tools.values(), {"key": ""}) == {}
    assert names_in_short([*"abcdefg"]) == "a, b, c, d, e and 2 more"


CORPUS = Path(__file__).parents[2].parent / "shared" / "corpus" / "openapi"
DESCRIPTIONS = sorted(path.name for path in CORPUS.iterdir() if path.is_file()) if CORPUS.is_dir() else []


@pytest.mark.parametrize(
    "name", DESCRIPTIONS or [pytest.param("", marks=pytest.mark.skip(reason="the corpus is not here"))]
)
def test_each_argument_of_a_real_tool_has_a_value_that_is_accepted_or_is_named(name: str) -> None:
    manifest = build({"s": {"openapi": str(CORPUS / name)}}, partial=True)
    told = [one.message for one in manifest.problems if one.code in {"uncallable", "unfulfillable"}]
    for tool in manifest.tools.values():
        accepted = jsonschema_rs.validator_for(dict(tool.input_schema), offline=True)
        examples = Examples(tool.input_schema, seed=tool.name)
        given: set[str] = set()
        for example in filter(accepted.is_valid, examples.take(12)):
            given |= example.keys()
        for argument in tool.input_schema.get("properties", {}).keys() - given:
            made = islice(examples.with_argument(argument), 12)
            named = any(one.startswith(tool.name) and repr(argument) in one for one in told)
            assert named or any(map(accepted.is_valid, made)), (tool.name, argument)
