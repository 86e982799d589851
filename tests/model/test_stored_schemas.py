"""A manifest of a very large source says once what its tools have in common, and is read back as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.connectors.openapi.readings import document, operation
from toolgen.config.settings import from_specs
from toolgen.core.errors import ManifestError
from toolgen.generator.build import build, build_sources
from toolgen.generator.emit.diff import compare
from toolgen.generator.emit.writer import render_all
from toolgen.model.manifest import Manifest, load
from toolgen.model.shared_definitions import MAX_OWN_DEFINITIONS, Closure
from toolgen.policy.arguments import Validator

COUNT = MAX_OWN_DEFINITIONS + 44
WORDS = "What it is for. "


def linked(tools: int = 3, count: int = COUNT, **more: Any) -> dict[str, Any]:
    """A description whose schemas are one circle; each tool sends one of them and answers with another."""
    schemas: dict[str, Any] = {
        f"S{n}": {
            "type": "object",
            "description": WORDS,
            "properties": {
                "next": {"$ref": f"#/components/schemas/S{(n + 1) % count}"},
                "size": {"type": "integer", "maximum": n},
            },
        }
        for n in range(count)
    } | more
    return document({f"/s{n}": {"put": _put(n)} for n in range(tools)}, components={"schemas": schemas})


def _put(number: int) -> dict[str, Any]:
    body = {"schema": {"type": "array", "items": {"$ref": f"#/components/schemas/S{number}"}}}
    answer = {"description": "ok", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/S0"}}}}
    return operation(
        operationId=f"putS{number}",
        requestBody={"required": True, "content": {"application/json": body}},
        responses={"200": answer},
    )


def built(folder: Path, written: dict[str, Any]) -> Manifest:
    (folder / "t.json").write_text(json.dumps(written), encoding="utf-8")
    return build_sources(from_specs(("t.json",), folder)).manifest


def stored(manifest: Manifest) -> bytes:
    return render_all(manifest)["manifest.json"]


def whole(manifest: Manifest) -> list[Any]:
    """All that a manifest says, without anything that is shared."""
    return [
        [
            tool.name,
            tool.digest,
            json.loads(msgspec.json.encode([tool.input_schema, tool.output_schema], enc_hook=dict)),
        ]
        for tool in manifest.tools.values()
    ]


@pytest.mark.parametrize("most", [1 << 40, 0], ids=["in each tool", "in parts"])
@pytest.mark.parametrize("count", [3, COUNT], ids=["few", "many"])
def test_what_is_stored_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, count: int) -> None:
    monkeypatch.setattr("toolgen.model.manifest.MAX_REPEATED", most)
    manifest = built(tmp_path, linked(count=count))
    data = stored(manifest)
    again = load(data, where="here")
    assert (again.digest, whole(again)) == (manifest.digest, whole(manifest))
    assert stored(again) == data
    assert not compare(manifest, again).tools


def test_how_it_is_stored_is_no_part_of_a_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = whole(built(tmp_path, linked(count=3)))
    monkeypatch.setattr("toolgen.model.manifest.MAX_REPEATED", 0)
    assert whole(built(tmp_path, linked(count=3))) == plain


def test_what_a_tool_takes_is_all_that_its_description_says(tmp_path: Path) -> None:
    (tool, *_) = built(tmp_path, linked()).tools.values()
    assert isinstance(tool.input_schema["$defs"], Closure)
    assert len(tool.input_schema["$defs"]) == COUNT
    validator = Validator(load(stored(built(tmp_path, linked())), where="").tools[tool.name].input_schema)
    deep: Any = {"size": COUNT}
    for _ in range(40):
        deep = {"next": deep}
    assert not validator.faults({"body": [{"size": 0, "next": {"size": 1}}]})
    assert "body" in validator.faults({"body": [deep]})[0]


def test_each_definition_is_stored_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolgen.model.manifest.MAX_REPEATED", 0)
    few, many = (stored(built(tmp_path, linked(tools=tools))) for tools in (2, 20))
    assert few.count(WORDS.strip().encode()) == many.count(WORDS.strip().encode()) <= 2 * COUNT
    assert len(many) - len(few) < 18 * 2_000


@pytest.mark.parametrize("most", [1 << 40, 0], ids=["in each tool", "in parts"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"maximum": 1}', b'"maximum": 2}'),
        (b'"S7"', b'"S8"'),
        (b'"#/$defs/S1"', b'"#/$defs/T1"'),
        (b"definitions", b"d"),
    ],
)
def test_what_was_changed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, old: bytes, new: bytes
) -> None:
    monkeypatch.setattr("toolgen.model.manifest.MAX_REPEATED", most)
    data = msgspec.json.encode(msgspec.json.decode(stored(built(tmp_path, linked()))))
    old, new = old.replace(b": ", b":"), new.replace(b": ", b":")
    assert old in data
    with pytest.raises(ManifestError):
        load(data.replace(old, new, 1), where="here")


def test_a_changed_definition_changes_the_tools_that_lead_to_it(tmp_path: Path) -> None:
    alone = {"Alone": {"type": "string"}}
    one = built(tmp_path, linked(**alone))
    other = built(tmp_path, linked(S7={"type": "string"}, **alone))
    assert all(one.tools[name].digest != other.tools[name].digest for name in one.tools)
    assert len(compare(one, other).tools) == len(one.tools)


def test_a_definition_that_cannot_be_checked_costs_those_that_lead_to_it(tmp_path: Path) -> None:
    """Alternatives that multiply: two ways at each of many levels."""
    ways = {f"W{n}": {"anyOf": [{"$ref": f"#/components/schemas/W{n + 1}"}] * 2} for n in range(40)}
    written = linked(**ways, W40={"type": "string"})
    written["components"]["schemas"]["S5"]["properties"]["ways"] = {"$ref": "#/components/schemas/W0"}
    written["paths"]["/free"] = {"get": operation(operationId="free")}
    manifest = built(tmp_path, written)
    assert [*manifest.tools] == ["t__free"]
    assert {one.code for one in manifest.problems if one.level == "error"} == {"bad_schema"}


def test_the_public_build_has_the_same_tools(tmp_path: Path) -> None:
    manifest = built(tmp_path, linked())
    assert whole(build(tmp_path / "t.json")) == whole(manifest)
