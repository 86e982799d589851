"""`toolgen workflow draw`: what it prints, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.gateway.workflows import built, project
from toolgen.cli.main import cli
from toolgen.generator.emit.mermaid import flowchart

FLOWS: dict[str, Any] = {
    "fix": {
        "inputs": {"q": {"type": "string"}},
        "steps": [
            {"id": "find", "call": "notes__search_issues", "with": {"q": "$inputs.q"}},
            {
                "parallel": [
                    {"id": "a", "call": "notes__get_issue", "with": {"id": 1}, "when": "$steps.find.data.total > 1"},
                    {"id": "b", "call": "notes__get_issue", "with": {"id": 2}},
                ]
            },
            {
                "id": "each",
                "for_each": "$steps.find.data.items",
                "call": "notes__create_note",
                "with": {"text": "x"},
                "undo": {"call": "notes__delete_note", "with": {"id": "$data.id"}},
            },
        ],
        "outputs": {"notes": "$steps.each.data"},
    }
}
DRAWN = """flowchart TD
  start(["flows__fix<br/>q"])
  s0_0["find<br/>notes__search_issues (read)"]
  start --> s0_0
  s1_0["a<br/>notes__get_issue (read)"]
  s0_0 -->|"$steps.find.data.total #gt; 1"| s1_0
  s1_1["b<br/>notes__get_issue (read)"]
  s0_0 --> s1_1
  s2_0[["each<br/>notes__create_note (write)<br/>for each, at most 20"]]
  s1_0 --> s2_0
  s1_1 --> s2_0
  s2_0_u["notes__delete_note"]
  s2_0 -. undo .-> s2_0_u
  end_(["notes"])
  s2_0 --> end_
"""


def test_draw_prints_mermaid(tmp_path: Path) -> None:
    path = project(tmp_path, "http://127.0.0.1:9", FLOWS)
    for arguments in ([], ["flows__fix"]):
        result = CliRunner().invoke(cli, ["workflow", "draw", *arguments, "--config", str(path)])
        assert (result.exit_code, result.output) == (0, DRAWN)


def test_a_name_that_is_no_workflow_is_told_with_the_nearest(tmp_path: Path) -> None:
    path = project(tmp_path, "http://127.0.0.1:9", FLOWS)
    result = CliRunner().invoke(cli, ["workflow", "draw", "flows__fxi", "--config", str(path)])
    assert "did you mean 'flows__fix'" in str(result.exception)


def test_texts_are_shown_and_not_read(tmp_path: Path) -> None:
    hostile = '"]; click start "javascript:alert(1)" <script>'
    flows = {
        "fix": {
            "steps": [{"id": "a", "call": "notes__search_issues", "when": f"$inputs.q == '{hostile}'"}],
            "inputs": {"q": {}},
        }
    }
    manifest = built(tmp_path, flows)
    drawn = flowchart(manifest.tools["flows__fix"], manifest.tools)
    assert "<script>" not in drawn
    assert '"]; click' not in drawn


def test_a_tool_that_is_no_workflow_has_no_picture(tmp_path: Path) -> None:
    manifest = built(tmp_path, FLOWS)
    with pytest.raises(ValueError, match="notes__get_issue"):
        flowchart(manifest.tools["notes__get_issue"], manifest.tools)
