"""A description in memory, read as from a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from toolgen.connectors.openapi.read import read_openapi
from toolgen.connectors.source import SourceConfig, SourceReading
from toolgen.model.tool import HttpBinding, Tool

OK = {"200": {"description": "ok"}}


def document(paths: dict[str, Any], version: str = "3.1.0", **more: Any) -> dict[str, Any]:
    head = {"swagger": "2.0", "host": "h.test"} if version == "2.0" else {"openapi": version}
    servers = {} if version == "2.0" else {"servers": [{"url": "http://h.test"}]}
    return {**head, "info": {"title": "t", "version": "1"}, **servers, "paths": paths, **more}


def operation(**more: Any) -> dict[str, Any]:
    return {"operationId": "doIt", "responses": OK, **more}


def read(folder: Path, written: dict[str, Any] | str, **config: Any) -> SourceReading:
    path = folder / ("doc.json" if isinstance(written, dict) else "doc.yaml")
    path.write_text(json.dumps(written) if isinstance(written, dict) else written, encoding="utf-8")
    return read_openapi(SourceConfig(name="t", kind="openapi", location=str(path), **config))


def only(reading: SourceReading) -> tuple[Tool, HttpBinding]:
    """The one tool of a reading that had no faults, and its binding."""
    assert [problem for problem in reading.problems if problem.level == "error"] == []
    (tool,) = reading.tools
    assert isinstance(tool.binding, HttpBinding)
    return tool, tool.binding
