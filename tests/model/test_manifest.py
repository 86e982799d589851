"""Reading a manifest: what its tools have in common is read once, and what was changed is found all the same."""

from __future__ import annotations

import gc
import json
from typing import Any

import pytest

from toolgen.core.errors import ManifestError
from toolgen.generator.build import build
from toolgen.generator.emit.writer import MANIFEST, render_all
from toolgen.model.manifest import load

ANSWER = {"type": "object", "properties": {"id": {"type": "integer", "maximum": 1e16}, "name": {"type": "string"}}}


def written() -> bytes:
    """A manifest of three operations, of which two answer alike."""
    return render_all(build({"pets": {"openapi": "pets.json"}}, root="."), ())[MANIFEST]


@pytest.fixture
def manifest(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> bytes:
    def operation(name: str, schema: dict[str, Any]) -> dict[str, Any]:
        content = {"application/json": {"schema": schema}}
        return {"operationId": name, "responses": {"200": {"description": "ok", "content": content}}}

    paths = {
        "/one": {"get": operation("one", ANSWER)},
        "/two": {"get": operation("two", ANSWER)},
        "/other": {"get": operation("other", {"type": "array"})},
    }
    info = {"title": "Pets", "version": "1"}
    document = {"openapi": "3.1.0", "info": info, "servers": [{"url": "https://pets.example"}], "paths": paths}
    (tmp_path / "pets.json").write_text(json.dumps(document), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return written()


def test_tools_that_answer_alike_share_what_describes_it(manifest: bytes) -> None:
    tools = load(manifest, where="manifest.json").tools
    assert tools["pets__one"].output_schema is tools["pets__two"].output_schema
    assert tools["pets__one"].input_schema is tools["pets__two"].input_schema
    assert tools["pets__other"].output_schema != tools["pets__one"].output_schema


def test_what_is_read_is_written_as_it_was(manifest: bytes) -> None:
    assert render_all(load(manifest, where="manifest.json"), ())[MANIFEST] == manifest


@pytest.mark.parametrize("name", ["input_schema", "output_schema"])
def test_a_schema_of_one_of_them_that_was_changed_is_found(manifest: bytes, name: str) -> None:
    document = json.loads(manifest)
    document["tools"][-1][name]["title"] = "changed"
    with pytest.raises(ManifestError, match="was changed after the build"):
        load(json.dumps(document).encode(), where="manifest.json")


@pytest.mark.parametrize(("name", "value"), [("input_schema", None), ("input_schema", []), ("output_schema", "x")])
def test_a_schema_that_is_none_makes_no_manifest(manifest: bytes, name: str, value: object) -> None:
    document = json.loads(manifest)
    document["tools"][0][name] = value
    with pytest.raises(ManifestError, match="is not a manifest"):
        load(json.dumps(document).encode(), where="manifest.json")


def test_the_garbage_collector_is_left_as_it_was(manifest: bytes) -> None:
    assert gc.isenabled()
    load(manifest, where="manifest.json")
    assert gc.isenabled()
    with pytest.raises(ManifestError):
        load(b"{", where="manifest.json")
    assert gc.isenabled()
