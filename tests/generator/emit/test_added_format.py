"""An output format is a function and a line of `FORMATS`: OpenAI's Responses API, added to a copy of the package."""

from __future__ import annotations

import json
from pathlib import Path

from tests.edited_package import Edit, EditedPackage

EDITS = (
    Edit(
        "generator/emit/formats.py",
        "def openai_strict_tool(",
        "def openai_responses_tool(tool: Tool) -> JsonObject:\n"
        '    return {"type": "function", "name": tool.name, "parameters": listed(tool).input_schema}\n\n\n',
    ),
    Edit(
        "generator/emit/formats.py",
        '        "openai-strict": openai_strict_tool,\n',
        '        "openai-responses": openai_responses_tool,\n',
    ),
)
TOOLS = """
from toolgen import tool

@tool(effect="read")
def add(a: int, b: int) -> int:
    '''Add numbers.'''
    return a + b
"""


def test_a_format_is_an_edit_of_one_file(tmp_path: Path) -> None:
    edited = EditedPackage(tmp_path, EDITS)
    edited.write({"toolgen.yaml": "sources: {sums: {python: sums}}\n", "sums.py": TOOLS})

    edited.toolgen("build", "--format", "openai-responses")
    written = json.loads((edited.project / "generated" / "openai-responses.json").read_text(encoding="utf-8"))
    shown = json.loads(edited.toolgen("tools", "--format", "openai-responses").stdout)

    assert [(tool["type"], tool["name"]) for tool in written] == [("function", "sums__add")]
    assert written[0]["parameters"]["required"] == ["a", "b"]
    assert shown == written
