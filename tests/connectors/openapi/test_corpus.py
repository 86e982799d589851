"""Real descriptions, some broken on purpose: none crashes the reader and none of their operations disappears."""

from __future__ import annotations

from pathlib import Path

import jsonschema_rs
import pytest

from tests.exhaustive import spread
from toolgen.connectors.openapi.read import read_openapi
from toolgen.connectors.source import SourceConfig
from toolgen.core.errors import DescriptionError
from toolgen.generator.emit.schema_budget import listed
from toolgen.model.names import TOOL_NAME

CORPUS = Path(__file__).parents[3].parent / "shared" / "corpus" / "openapi"
FILES = sorted(path for path in CORPUS.rglob("*") if path.is_file()) if CORPUS.is_dir() else []
DIALECT = "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.skipif(not FILES, reason="the shared corpus of descriptions is not here")
@pytest.mark.parametrize("path", spread(FILES, 3), ids=lambda path: path.relative_to(CORPUS).as_posix())
def test_every_operation_is_a_tool_or_a_reported_skip(path: Path) -> None:
    try:
        reading = read_openapi(SourceConfig(name="s", kind="openapi", location=str(path)))
    except DescriptionError:
        if path.parent == CORPUS:
            raise  # parts of a description, which are none themselves, are all in folders
        return
    skips = {problem.origin for problem in reading.problems if problem.level == "error"}
    assert len(reading.tools) + len(skips) == reading.operations
    assert len({tool.name for tool in reading.tools}) == len(reading.tools)
    for tool in reading.tools:
        assert TOOL_NAME.match(tool.name)
        assert 0 < len(listed(tool).description) <= 1024
        jsonschema_rs.meta.validate({"$schema": DIALECT, **tool.input_schema})
