"""Real descriptions: no tool says otherwise than they do, or fails its proof. bench/verify.py proves all; requests are samples here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolgen.connectors.openapi.proof.prover import prove_http_tools
from toolgen.connectors.openapi.read import read_openapi
from toolgen.connectors.source import SourceConfig
from toolgen.core.errors import DescriptionError
from toolgen.model.tool import HttpBinding
from toolgen.quality.verify import FailedTool, ProvenTool, verify_source

CORPUS = Path(__file__).parents[3].parent / "shared" / "corpus"
MAX_TOOLS = 40
FILES = sorted(path for path in (CORPUS / "openapi").rglob("*") if path.is_file()) if CORPUS.is_dir() else []
SCHEMAS = sorted(path for path in (CORPUS / "graphql").glob("*.graphql") if path.stat().st_size < 200_000)


def files(paths: list[Path], largest: int) -> list[Any]:
    """The default run leaves out what is larger than so many bytes and takes seconds each."""
    return [
        pytest.param(path, marks=pytest.mark.exhaustive) if path.stat().st_size > largest else path for path in paths
    ]


@pytest.mark.skipif(not FILES, reason="../shared/corpus/openapi is not here")
@pytest.mark.parametrize("path", files(FILES, 150_000), ids=lambda path: path.relative_to(CORPUS).as_posix())
def test_no_tool_of_a_real_description_fails(path: Path) -> None:
    config = SourceConfig(name="s", kind="openapi", location=str(path))
    try:
        reading = read_openapi(config)
    except DescriptionError:
        return  # a part of a description, which is none itself
    prove = prove_http_tools(config, reading.info.security_schemes, examples=4, seed="suite")
    step = max(1, len(reading.tools) // MAX_TOOLS)
    verdicts = {tool.name: prove(tool) for tool in reading.tools[::step]}
    assert {name: one for name, one in verdicts.items() if isinstance(one, FailedTool)} == {}
    # What needs no request is compared for every tool.
    differ = [
        tool.name
        for tool in reading.tools
        if isinstance(tool.binding, HttpBinding) and prove.disagreement(tool, tool.binding, prove.described(tool))
    ]
    assert differ == []


@pytest.mark.skipif(not SCHEMAS, reason="../shared/corpus/graphql is not here")
@pytest.mark.parametrize("path", files(SCHEMAS, 40_000), ids=lambda path: path.name)
def test_every_tool_of_a_real_schema_is_proven(path: Path) -> None:
    report = verify_source(SourceConfig(name="s", kind="graphql", location=str(path)), examples=6)
    unproven = [one for one in report.tools if not isinstance(one.verdict, ProvenTool)]
    # An agent's own documents have no proof before they are written.
    assert [one for one in unproven if one.origin != "schema"] == []
