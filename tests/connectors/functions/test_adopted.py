"""Tools of FastMCP servers and of LangChain, in this process: taken as they are, and called like any other."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tests.connectors.functions.projects import call, written
from toolgen.core.errors import ConfigError
from toolgen.frontends.python.gateway import Gateway

FASTMCP = '''
from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel

mcp = MCPServer("shop")
other = 3

class Order(BaseModel):
    number: int
    city: str = "Bonn"

@mcp.tool(annotations=ToolAnnotations(read_only_hint=True, title="Look"))
def look(number: int) -> Order:
    """Looks an order up."""
    return Order(number=number)

@mcp.tool(annotations=ToolAnnotations(destructive_hint=False))
async def note(text: str) -> str:
    """Writes a note."""
    return text.upper()

@mcp.tool()
def picture() -> Image:
    """Draws."""
    return Image(data=bytes.fromhex("89504e470d0a1a0a"), format="png")

@mcp.tool()
def told(text: str) -> str:
    """Fails on purpose."""
    raise ToolError("there is no " + text)

@mcp.tool()
def crash(text: str) -> str:
    """Crashes."""
    raise ValueError("password " + text)
'''
LANGCHAIN = '''
from langchain_core.tools import StructuredTool, ToolException, tool
from pydantic import BaseModel, Field

class Search(BaseModel):
    query: str = Field(description="what to look for", min_length=2)
    limit: int = Field(5, ge=1)

@tool(args_schema=Search)
def search(query: str, limit: int = 5) -> list:
    """Searches."""
    return [query] * limit

@tool
async def shout(text: str) -> str:
    """Shouts."""
    return text.upper()

@tool
def told(text: str) -> str:
    """Fails on purpose."""
    raise ToolException("there is no " + text)

@tool
def crash(text: str) -> str:
    """Crashes."""
    raise ValueError("password " + text)

ALL = [search, shout, told, crash]
TWICE = [search, search]

class Kit:
    def get_tools(self):
        return [search]

KIT = Kit()
'''


async def test_tools_of_a_fastmcp_server_keep_their_schemas_and_are_governed(tmp_path: Path) -> None:
    pytest.importorskip("mcp.server.mcpserver")
    path = written(tmp_path, FASTMCP, "{{python: {{fastmcp: '{module}:mcp'}}}}")
    manifest = Gateway.load(path).manifest
    assert [problem.message for problem in manifest.problems] == []
    look = manifest.tools["own__look"]
    assert (look.effect, look.title, look.description) == ("read", "Look", "Looks an order up.")
    assert look.input_schema["properties"]["number"]["type"] == "integer"
    assert look.output_schema is not None
    assert {name: str(tool.effect) for name, tool in manifest.tools.items()} == {
        "own__look": "read",
        "own__note": "write",
        "own__picture": "destructive",
        "own__told": "destructive",
        "own__crash": "destructive",
    }
    assert (await call(path, "own__look", {"number": 3}))["data"] == {"number": 3, "city": "Bonn"}
    assert (await call(path, "own__look", {"number": "x"}))["error"]["code"] == "validation"
    assert (await call(path, "own__note", {"text": "a"}))["data"] == {"result": "A"}
    assert (await call(path, "own__picture"))["data"] == {
        "base64": base64.b64encode(bytes.fromhex("89504e470d0a1a0a")).decode(),
        "media_type": "image/png",
    }
    assert (await call(path, "own__told", {"text": "such order"}))["error"]["message"] == "there is no such order"
    crashed = (await call(path, "own__crash", {"text": "canary"}))["error"]
    assert crashed["code"] == "handler_error"


async def test_tools_of_langchain_keep_their_schemas_and_are_governed(tmp_path: Path) -> None:
    pytest.importorskip("langchain_core.tools")
    path = written(tmp_path, LANGCHAIN, "{{python: {{langchain: '{module}:ALL'}}}}")
    manifest = Gateway.load(path).manifest
    assert [problem.message for problem in manifest.problems] == []
    search = manifest.tools["own__search"]
    assert search.input_schema["properties"]["query"]["description"] == "what to look for"
    assert (search.effect, search.description, search.input_schema["required"]) == ("write", "Searches.", ["query"])
    assert (await call(path, "own__search", {"query": "ab", "limit": 2}))["data"] == ["ab", "ab"]
    assert (await call(path, "own__search", {"query": "a"}))["error"]["code"] == "validation"
    assert (await call(path, "own__shout", {"text": "a"}))["data"] == "A"
    assert (await call(path, "own__told", {"text": "such order"}))["error"]["message"] == "there is no such order"
    crashed = (await call(path, "own__crash", {"text": "canary"}))["error"]
    assert crashed["code"] == "handler_error"


@pytest.mark.parametrize(("name", "tools"), [("search", 1), ("KIT", 1), ("TWICE", 0), ("Search", 0), ("nothing", 0)])
def test_one_tool_a_list_or_a_toolkit_are_taken_and_anything_else_is_a_problem(
    name: str, tools: int, tmp_path: Path
) -> None:
    pytest.importorskip("langchain_core.tools")
    manifest = Gateway.load(
        written(
            tmp_path,
            LANGCHAIN,
            f"{{{{python: {{{{langchain: '{{module}}:{name}'}}}}}}}}",
            policy="principals: {bot: {roles: [bot]}}",
        )
    ).manifest
    assert (len(manifest.tools), len(manifest.problems)) == (tools, 1 - tools)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("{{python: {{fastmcp: no_name}}}}", "not a module and name"),
        ("{{python: {{fastmcp: 'a:b', langchain: 'a:b'}}}}", "one of fastmcp and langchain"),
        ("{{python: {{}}}}", "one of fastmcp and langchain"),
        ("{{python: {{fastmpc: 'a:b'}}}}", "fastmcp"),
        ("{{python: {{fastmcp: 'a:b.c'}}}}", "not a module and name"),
    ],
)
def test_what_names_no_tools_is_an_error_with_its_line(source: str, says: str, tmp_path: Path) -> None:
    path = written(tmp_path, "", source)
    with pytest.raises(ConfigError, match=says) as raised:
        Gateway.load(path)
    assert raised.value.where.startswith("toolgen.yaml:1")
