"""Tools that may ask their caller: functions that converse, tools of MCP servers that make requests, and the tools that call those."""

from __future__ import annotations

from toolgen.frontends.mcp.messages import TASKS, RpcFault, missing_capability
from toolgen.gateway.catalog.search_tools import CALLING
from toolgen.gateway.catalog.tool_lists import ToolListing
from toolgen.model.tool import Tool

__all__ = ["incapable", "may_request", "speaks"]


def speaks(tool: Tool) -> bool:
    """Return True if a call of the tool can ask its caller: a conversing function, or `run_tool`, which can call one."""
    return tool.converses or tool.name in CALLING


def may_request(tool: Tool, listing: ToolListing) -> bool:
    """Return True if the MCP server of a tool, or of one that it can call, may request something of the caller."""
    return bool(tool.caller_requests) or (tool.name in CALLING and any(one.caller_requests for one in listing.catalog))


def incapable(tool: Tool, capabilities: frozenset[str]) -> RpcFault | None:
    """Return the fault of a client that does not declare what a tool requires; None for any other."""
    missing = set(tool.required_capabilities) - capabilities - {TASKS}
    if not missing:
        return None
    told = f"this tool asks its caller for {', '.join(sorted(missing))}, which this client does not declare"
    return missing_capability(told, missing)
