"""A method of MCP is a case, and a name for spans and metrics: `tools/get`, added to a copy of the package."""

from __future__ import annotations

import json
from pathlib import Path

from tests.edited_package import Edit, EditedPackage

EDITS = (
    Edit(
        "frontends/mcp/server.py",
        '            case "tools/list", _:\n',
        '            case "tools/get", _:\n                return self._definition(params, caller)\n',
    ),
    Edit(
        "frontends/mcp/server.py",
        "    def _list(\n",
        "    def _definition(self, params, caller):\n"
        '        name = params.get("name")\n'
        "        listing = self._listings.of(caller.principal, caller.session or caller.connection)\n"
        "        tool = listing.tool(name) if isinstance(name, str) else None\n"
        "        if tool is None:\n"
        '            return RpcFault(code=INVALID_PARAMS, message="params.name must be the name of a tool")\n'
        '        return {"tool": listing.found(WITH_TASKS, (tool,), cursor="", limit=1).tools[0]}\n\n',
    ),
    Edit("gateway/metrics/tracing.py", '        "tools/list",\n', '        "tools/get",\n'),
)
TOOLS = """
from toolgen import tool

@tool(effect="read")
def add(a: int, b: int) -> int:
    '''Add numbers.'''
    return a + b

@tool(effect="write")
def clear() -> None:
    '''Clear the sum.'''
"""
POLICY = "principals:\n  agent: {roles: [r]}\nrules:\n  - {id: reads, to: [r], tools: [sums__add], verdict: allow}\n"
INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def test_a_method_is_an_edit_of_two_files(tmp_path: Path) -> None:
    edited = EditedPackage(tmp_path, EDITS)
    edited.write(
        {"toolgen.yaml": "sources: {sums: {python: sums}}\n", "sums.py": TOOLS, "policies/policy.yaml": POLICY}
    )
    edited.toolgen("build")

    requests = [("initialize", INITIALIZE)]
    requests += [("tools/get", {"name": name}) for name in ("sums__add", "sums__clear", "sums__gone")]
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        for number, (method, params) in enumerate(requests)
    ]
    done = edited.toolgen("serve", "--stdio", "--as", "agent", stdin="\n".join([*lines, ""]))
    replies = {reply["id"]: reply for reply in map(json.loads, done.stdout.splitlines())}

    assert replies[1]["result"]["tool"]["name"] == "sums__add"
    assert replies[2]["error"] == replies[3]["error"], "a hidden tool is refused as an unknown one"
