"""A description tried without its system: the mock runs for real, and every reading tool is called through the gateway."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jsonschema_rs
import pytest

from tests import patient
from tests.projects import POLICY, make_project
from toolgen.frontends.python.gateway import Gateway
from toolgen.generator.samples.json_schema import sample
from toolgen.model.result import Envelope
from toolgen.model.tool import Effect

ROOT = Path(__file__).parents[4]
CORPUS = ROOT.parent / "shared" / "corpus" / "openapi"
SPECS = {
    "the sample shop's": (ROOT / "specs" / "orders.yaml", 3),
    "a train operator's": (CORPUS / "bump-sh-examples-train-travel-api__.microcks-openapi.yaml", 4),
    "Spotify's": (CORPUS / "sonallux-spotify-web-api__fixed-spotify-open-api.yml", 50),
}


@contextmanager
def mocking(spec: Path | str, folder: Path = ROOT) -> Iterator[str]:
    """The mock as its users start it; yields its address."""
    command = [sys.executable, "-m", "toolgen", "mock", str(spec), "--port", "0"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            yield process.stderr.readline().rsplit(" ", 1)[-1].strip()
        finally:
            process.terminate()
            assert process.wait() == 0


@pytest.mark.parametrize(("spec", "least"), SPECS.values(), ids=SPECS)
async def test_every_reading_tool_gets_the_answer_it_promises(spec: Path, least: int, tmp_path: Path) -> None:
    if not spec.is_file():
        pytest.skip("the shared corpus of descriptions is not here")
    config = make_project(tmp_path / "project", policy={**POLICY, "rules": POLICY["rules"][:1], "sql": {}})
    with mocking(spec) as server:
        sources = {"api": {"openapi": str(spec), "server": server, "auth": "none"}}
        config.write_text(json.dumps({"sources": sources}), encoding="utf-8")
        subprocess.run([sys.executable, "-m", "toolgen", "build"], cwd=config.parent, check=True, capture_output=True)
        gateway = Gateway.load(config)
        answers = await _call_all(gateway)
    assert len(answers) >= least
    for name, answer in answers.items():
        assert answer.status == "ok", (name, answer.to_dict())
        promised = gateway.manifest.tools[name].output_schema
        if promised is not None:
            assert jsonschema_rs.Draft202012Validator(dict(promised)).is_valid(answer.data), name


async def _call_all(gateway: Gateway) -> dict[str, Envelope]:
    tools = [tool for tool in gateway.manifest.tools.values() if tool.effect is Effect.READ]
    async with gateway:
        return {
            tool.name: await gateway.call(tool.name, sample(tool.input_schema), principal="bot")  # type: ignore[arg-type]
            for tool in tools
        }


def test_a_source_is_served_as_its_overlay_makes_it(tmp_path: Path) -> None:
    config = make_project(tmp_path / "project")
    overlay = {
        "overlay": "1.0.0",
        "info": {"title": "Told by name", "version": "1"},
        "actions": [
            {
                "target": "$.paths['/pets/{petId}'].get.responses['200']",
                "update": {"content": {"application/json": {"example": {"name": "Rex"}}}},
            }
        ],
    }
    (config.parent / "specs" / "overlay.json").write_text(json.dumps(overlay), encoding="utf-8")
    sources = {"pets": {"openapi": "specs/pets.json", "overlay": "specs/overlay.json"}}
    config.write_text(json.dumps({"sources": sources}), encoding="utf-8")
    with mocking("pets", config.parent) as server:
        answer = patient.get(f"{server}/pets/5", headers={"X-Key": "any"})
    assert answer.json() == {"name": "Rex"}


@pytest.mark.parametrize(
    ("name", "complaint"),
    [("pet", "'pet' is neither a file nor a source"), ("shop", "only OpenAPI descriptions can be served")],
)
def test_what_cannot_be_served_is_said(tmp_path: Path, name: str, complaint: str) -> None:
    config = make_project(tmp_path / "project")
    command = [sys.executable, "-m", "toolgen", "mock", name]
    tried = subprocess.run(command, cwd=config.parent, capture_output=True, text=True, check=False)
    assert tried.returncode == 1
    assert complaint in tried.stderr
    assert "Traceback" not in tried.stderr
