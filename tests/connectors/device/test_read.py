"""A file of device tools: what becomes of it, and what is wrong with one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import toolgen
from tests.gateway.devices import PHONE
from toolgen.config.settings import load as load_settings
from toolgen.core.errors import ConfigError, DescriptionError
from toolgen.model.manifest import Manifest, Problem
from toolgen.model.tool import DeviceBinding, Effect

TOOL: dict[str, Any] = {
    "method": "a.b",
    "description": "Does it.",
    "effect": "write",
    "arguments": {"properties": {"text": {"type": "string"}, "count": {"type": "integer"}}},
    "result": {"type": "object", "properties": {"done": {"type": "boolean"}}, "required": ["done"]},
}


def built(root: Path, tool: dict[str, Any] | None = None, **source: Any) -> Manifest:
    content = PHONE if tool is None else yaml.safe_dump({"tools": {"do_it": tool}})
    (root / "phone.tools.yaml").write_text(content, encoding="utf-8")
    return toolgen.build({"phone": {"device": "phone.tools.yaml", **source}}, root=root)


def problem(root: Path, **changes: Any) -> Problem:
    """What is said of a tool that it costs."""
    manifest = built(root, {**TOOL, **changes})
    assert manifest.tools == {}
    (found,) = manifest.problems
    assert found.level == "error"
    return found


def test_a_file_becomes_tools_whose_bindings_say_what_a_device_is_asked(tmp_path: Path) -> None:
    manifest = built(tmp_path)
    assert list(manifest.tools) == ["phone__copy_text", "phone__get_location", "phone__ring"]
    source = manifest.sources["phone"]
    assert (source.kind, source.title, source.version) == ("device", "Phone", "1")
    location = manifest.tools["phone__get_location"]
    binding = location.binding
    assert isinstance(binding, DeviceBinding)
    assert (binding.method, binding.params, binding.timeout_s) == ("location.get", {"accuracy": "$.accuracy"}, 3600.0)
    assert location.output_schema == {
        "type": "object",
        "properties": {"latitude": {"type": "number"}, "longitude": {"type": "number"}, "owner": {"type": "string"}},
        "required": ["latitude", "longitude"],
    }
    assert (location.effect, location.idempotent) == (Effect.READ, True)
    copied = manifest.tools["phone__copy_text"]
    assert isinstance(copied.binding, DeviceBinding)
    assert (copied.binding.timeout_s, copied.output_schema) == (30.0, {"type": "null"})
    assert manifest.problems == ()


def test_a_build_is_the_same_again_and_its_manifest_reads_back(tmp_path: Path) -> None:
    manifest = built(tmp_path)
    assert built(tmp_path).digest == manifest.digest
    document = manifest.to_dict()
    bindings: Any = document["tools"]
    assert [one["binding"]["kind"] for one in bindings] == ["device"] * 3


FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"method": "rpc.discover"}, "method"),
    ({"method": "a b"}, "method"),
    ({"timeout": "0s"}, "timeout"),
    ({"timeout": "200h"}, "timeout"),
    ({"timeout": "soon"}, "timeout"),
    ({"arguments": {"type": "array"}}, "object"),
    ({"params": {"x": "$.txt"}}, "did you mean 'text'?"),
    ({"params": {"x": "$"}}, "name one"),
    ({"params": {"x": "$.te xt"}}, "is not a path"),
    ({"params": {"x": ["$[0]"]}}, "there is no argument"),
    ({"display": "Copy {txt}?"}, "did you mean 'text'?"),
    ({"display": "Copy {text}?"}, "write params: too"),
    ({"transform": {"x": "$.gone"}}, "does not have"),
    ({"transform": "$done"}, "is not a path"),
    ({"arguments": {"properties": {"a": {"$ref": "https://example.com/a.json"}}}}, "a reference leads to"),
    ({"result": {"$ref": "other.json#/a"}}, "a reference leads to"),
    ({"result": {"$dynamicRef": "#a"}}, "not supported"),
    ({"result": {"type": "text"}}, "could not be checked"),
    ({"arguments": {"properties": {"a": {"pattern": "("}}}}, "could not be checked"),
]


@pytest.mark.parametrize(("changes", "said"), FAULTS)
def test_what_is_wrong_with_one_tool_costs_that_tool(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    assert said in problem(tmp_path, **changes).message


def test_a_name_that_is_too_long_or_no_name_costs_its_tool(tmp_path: Path) -> None:
    for name in ("a" * 60, "DoIt", "do-it"):
        (tmp_path / "phone.tools.yaml").write_text(yaml.safe_dump({"tools": {name: TOOL}}), encoding="utf-8")
        manifest = toolgen.build({"phone": {"device": "phone.tools.yaml"}}, root=tmp_path)
        assert manifest.tools == {}
        assert manifest.problems[0].code == "bad_device_tool"


FILES = [
    ("tools: {a: {method: m, description: d}}", "effect"),
    ("tools: {a: {method: m, description: d, effect: maybe}}", "maybe"),
    ("tools: {a: {method: m, description: d, effect: read, parms: {}}}", "did you mean 'params'?"),
    ("tools: {a: {method: m, description: '', effect: read}}", "description"),
    ("tools: [a]", "tools"),
    ("title: x", "tools"),
    ("tools: {a: 7}", "must be a mapping"),
    ("timeout: never\ntools: {}", "timeout"),
    ("tools: {a: &x {}, b: *x}", "alias"),
    ("{", "YAML"),
]


@pytest.mark.parametrize(("text", "said"), FILES)
def test_a_file_that_is_none_fails_the_build_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "phone.tools.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(DescriptionError) as caught:
        toolgen.build({"phone": {"device": "phone.tools.yaml"}}, root=tmp_path)
    assert said in str(caught.value)
    assert "phone.tools.yaml:" in str(caught.value)


def test_a_file_that_is_missing_or_no_text_is_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(DescriptionError, match="cannot be read"):
        toolgen.build({"phone": {"device": "none.yaml"}}, root=tmp_path)
    (tmp_path / "none.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(DescriptionError, match="not UTF-8"):
        toolgen.build({"phone": {"device": "none.yaml"}}, root=tmp_path)


def test_a_person_is_told_of_what_is_not_used_and_of_results_that_nobody_checks(tmp_path: Path) -> None:
    told = {**TOOL, "params": {"x": "$.text"}}
    del told["result"]
    found = [(one.level, one.code) for one in built(tmp_path, told).problems]
    assert found == [("warning", "unchecked_result"), ("warning", "unused_argument")]


def test_filters_choose_by_name_and_by_effect(tmp_path: Path) -> None:
    assert list(built(tmp_path, include={"effects": ["read"]}).tools) == ["phone__get_location"]
    assert list(built(tmp_path, exclude={"operations": ["*_*"]}).tools) == ["phone__ring"]
    with pytest.raises(ConfigError, match="`tags`"):
        built(tmp_path, include={"tags": ["x"]})


KEYS = [
    ("{device: a.yaml, auth: {bearer: x}}", "auth: does not belong to device sources"),
    ("{device: 'https://example.com/a.yaml'}", "takes a file"),
    ("{device: ''}", "takes a file"),
    ("{device: a.yaml, timeouts: {total: 5s}}", "timeouts"),
    ("{device: a.yaml, server: 'https://example.com'}", "server: belongs to"),
    ("{device: a.yaml, python: b}", "exactly one of"),
]


@pytest.mark.parametrize(("source", "said"), KEYS)
def test_keys_that_mean_nothing_to_a_device_are_refused(tmp_path: Path, source: str, said: str) -> None:
    (tmp_path / "toolgen.yaml").write_text(f"sources:\n  phone: {source}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=said):
        load_settings(tmp_path / "toolgen.yaml")
