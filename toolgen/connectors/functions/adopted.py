"""Tools of a FastMCP server or of LangChain in this process, with their own schemas and descriptions, governed like `@tool` functions."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import inspect
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any, Literal, TypeVar

from toolgen.connectors.functions.decorator import Audio, EmbeddedResource, Image, ToolError, ToolMark
from toolgen.connectors.functions.pydantic_types import faults_of
from toolgen.connectors.functions.signature import Broken, FunctionTool, imported
from toolgen.core.canonical import canonical
from toolgen.core.errors import CanonicalError, DescriptionError
from toolgen.model.excerpt import bounded

__all__ = ["adopted_tool", "load_adopted"]

T = TypeVar("T")
_MAX_TOOLS = 2_000


def load_adopted(
    framework: Literal["fastmcp", "langchain"], place: str, root: str
) -> Mapping[str, FunctionTool | Broken]:
    """Return the tools of `module:name`: a server, a tool, a list of tools or a toolkit. Imports the module. Raises `DescriptionError`."""
    module, _, name = place.partition(":")
    found = getattr(imported(module, root), name, None)
    if found is None:
        raise DescriptionError(f"the module has no object {name}", where=place)
    try:
        offers = _of_fastmcp(found) if framework == "fastmcp" else _of_langchain(found)
    except DescriptionError:
        raise
    except Exception as error:
        raise DescriptionError(f"its tools cannot be listed: {type(error).__name__}", where=place) from error
    if offers is None:
        wanted = "a FastMCP server" if framework == "fastmcp" else "a tool of LangChain, a list of them or a toolkit"
        raise DescriptionError(f"{name} is not {wanted}, but a {type(found).__name__}", where=place)
    return offers


def adopted_tool(thing: object) -> FunctionTool | Broken | None:
    """Convert an existing tool of FastMCP or LangChain; None for anything else. Imports no new modules."""
    name = str(getattr(thing, "name", type(thing).__name__))
    try:
        if (langchain := sys.modules.get("langchain_core.tools")) and isinstance(thing, langchain.BaseTool):
            return _adopted(name, partial(_langchain_offer, thing))
        package = sys.modules.get(type(thing).__module__.partition(".")[0])
        if getattr(package, "__name__", "") not in {"mcp", "fastmcp"} or not hasattr(thing, "parameters"):
            return None
        return (_of_fastmcp(_served(thing)) or {})[name]
    except Exception as error:  # noqa: BLE001 - whatever a framework may raise
        return Broken(name=name, reason=f"it cannot be used as a tool: {type(error).__name__}", line=0)


def _served(tool: Any) -> Any:
    """Return a FastMCP server with only this tool, because a call also needs objects of a server."""
    if type(tool).__module__.startswith("fastmcp"):
        server = sys.modules["fastmcp"].FastMCP("added")
        server.add_tool(tool)
        return server
    known = (("mcp.server.mcpserver", "MCPServer"), ("mcp.server.fastmcp", "FastMCP"))  # mcp 2, mcp 1
    kind = next(getattr(sys.modules[module], name) for module, name in known if module in sys.modules)
    return kind("added", tools=[tool])


def _of_fastmcp(server: Any) -> Mapping[str, FunctionTool | Broken] | None:
    if not all(inspect.iscoroutinefunction(getattr(server, name, None)) for name in ("list_tools", "call_tool")):
        return None
    tools = list(_run(server.list_tools()))[:_MAX_TOOLS]
    return {tool.name: _adopted(tool.name, partial(_fastmcp_offer, server, tool)) for tool in tools}


def _fastmcp_offer(server: Any, tool: Any) -> FunctionTool:
    output = _first(tool, "output_schema", "outputSchema")
    annotations = getattr(tool, "annotations", None)
    function = getattr(tool, "fn", None) or _registered(server, tool.name)

    async def call(**arguments: Any) -> Any:
        try:
            return _answer(await server.call_tool(tool.name, arguments), output is not None)
        except Exception as error:  # noqa: BLE001 - whatever somebody's function may raise
            raise _of_fastmcp_error(error) from None

    def call_in_thread(**arguments: Any) -> Any:
        return asyncio.run(call(**arguments))

    return _offer(
        tool.name,
        # The plain function would block the function event loop: only some versions of the framework move it to a thread.
        call_in_thread if function is not None and not inspect.iscoroutinefunction(function) else call,
        function,
        description=tool.description or "",
        title=getattr(tool, "title", None) or getattr(annotations, "title", None) or "",
        effect=_effect(annotations),
        idempotent=_first(annotations, "idempotent_hint", "idempotentHint"),
        input_schema=_first(tool, "input_schema", "inputSchema", "parameters"),
        output_schema=output,
        content=output is None,
    )


def _effect(annotations: Any) -> str:
    """Return the effect by the server's annotations; a tool without annotations may destroy (MCP 2025-06-18, ToolAnnotations)."""
    if _first(annotations, "read_only_hint", "readOnlyHint") is True:
        return "read"
    return "write" if _first(annotations, "destructive_hint", "destructiveHint") is False else "destructive"


def _registered(server: Any, name: str) -> Any:
    """Return the function of a tool, in servers whose list does not have it."""
    get_tool = getattr(getattr(server, "_tool_manager", None), "get_tool", None)
    return None if get_tool is None else getattr(get_tool(name), "fn", None)


def _answer(result: Any, structured: bool) -> Any:
    """Return the result of a call: the structured answer if the tool has a schema for one, else texts, files and documents."""
    if isinstance(result, tuple):  # mcp 1
        blocks, data = result
    elif isinstance(result, list):
        blocks, data = result, None
    else:
        blocks, data = result.content, _first(result, "structured_content", "structuredContent")
    parts = [_part(block) for block in blocks or ()]
    if _first(result, "is_error", "isError") is True:
        raise ToolError(" ".join(part for part in parts if isinstance(part, str)) or "the tool reported a failure")
    if structured:
        return data
    return parts[0] if len(parts) == 1 else parts


def _part(block: Any) -> Any:
    media_type = _first(block, "mime_type", "mimeType") or "application/octet-stream"
    match block.type:
        case "text":
            return block.text
        case "image":
            return Image(base64.b64decode(block.data), media_type)
        case "audio":
            return Audio(base64.b64decode(block.data), media_type)
        case "resource" if hasattr(block.resource, "text"):
            kind = _first(block.resource, "mime_type", "mimeType") or "text/plain"
            return EmbeddedResource(str(block.resource.uri), block.resource.text, kind)
    raise TypeError(f"a block of the type {block.type}")


def _of_fastmcp_error(error: Exception) -> Exception:
    """Return the error to raise for a failed call.

    A message that the tool meant for the agent becomes a `ToolError`. For any other failure this is the exception that the tool raised; its
    text is only logged.
    """
    cause = error.__cause__
    if _named(error, "ValidationError"):
        return ToolError(faults_of(error))
    if not _named(error, "ToolError"):
        return error
    if cause is None or _named(cause, "ToolError"):
        return ToolError(str(cause or error))
    if _named(cause, "ValidationError"):
        return ToolError(faults_of(cause))
    return cause if isinstance(cause, Exception) else error


def _of_langchain(found: Any) -> Mapping[str, FunctionTool | Broken] | None:
    from langchain_core.tools import BaseTool  # noqa: PLC0415 - the project's own, where its module imported it

    listed = found.get_tools() if hasattr(found, "get_tools") else found
    tools = [listed] if isinstance(listed, BaseTool) else list(listed) if isinstance(listed, Iterable) else []
    if not tools or not all(isinstance(one, BaseTool) for one in tools):
        return None
    offers: dict[str, FunctionTool | Broken] = {}
    for tool in tools[:_MAX_TOOLS]:
        clash = Broken(name=tool.name, reason=f"two of these tools are called {tool.name}", line=0)
        offers[tool.name] = clash if tool.name in offers else _adopted(tool.name, partial(_langchain_offer, tool))
    return offers


def _langchain_offer(tool: Any) -> FunctionTool:
    from langchain_core.tools import BaseTool, ToolException  # noqa: PLC0415 - as above

    def meant(error: Exception) -> Exception:
        if isinstance(error, ToolException):
            return ToolError(str(error))
        return ToolError(faults_of(error)) if _named(error, "ValidationError") else error

    async def call(**arguments: Any) -> Any:
        try:
            return await tool.ainvoke(arguments)
        except Exception as error:  # noqa: BLE001 - whatever somebody's function may raise
            raise meant(error) from None

    def call_in_thread(**arguments: Any) -> Any:
        try:
            return tool.invoke(arguments)
        except Exception as error:  # noqa: BLE001 - whatever somebody's function may raise
            raise meant(error) from None

    schema = tool.tool_call_schema
    shown = dict(schema) if isinstance(schema, Mapping) else schema.model_json_schema()
    shown.pop("description", None)
    own = getattr(tool, "coroutine", None)
    is_async = own is not None or (not hasattr(tool, "coroutine") and type(tool)._arun is not BaseTool._arun)
    return _offer(
        tool.name,
        call if is_async else call_in_thread,
        own or getattr(tool, "func", None) or type(tool),
        description=tool.description or "",
        title="",
        effect="write",
        idempotent=None,
        input_schema=shown,
        output_schema=None,
        content=False,
    )


def _offer(  # noqa: PLR0913 - what a tool has
    name: str,
    function: Callable[..., Any],
    source: Any,
    *,
    description: str,
    title: str,
    effect: str,
    idempotent: bool | None,
    input_schema: Any,
    output_schema: Any,
    content: bool,
) -> FunctionTool:
    schema = {key: value for key, value in dict(input_schema or {"type": "object"}).items() if key != "title"}
    try:
        text, line = "".join(inspect.getsourcelines(source)[0]), inspect.getsourcelines(source)[1]
    except (OSError, TypeError):
        text, line = f"{getattr(source, '__module__', '')}.{getattr(source, '__qualname__', name)}", 0
    try:
        said = canonical(schema)
    except CanonicalError as error:
        raise TypeError(f"its schema is not JSON: {error.message}") from error
    return FunctionTool(
        name=name,
        function=function,
        mark=ToolMark(effect=effect, name=name, title=title, idempotent=idempotent, input_schema=schema),
        summary=description.strip(),
        input_schema=schema,
        output_schema=output_schema,
        struct=None,
        context="",
        content=content,
        code=hashlib.sha256(text.encode() + said).hexdigest(),
        line=line,
    )


def _adopted(name: str, make: Callable[[], FunctionTool]) -> FunctionTool | Broken:
    try:
        return make()
    except (AttributeError, TypeError, ValueError) as error:
        return Broken(
            name=name, reason=bounded(f"it cannot be used as a tool: {type(error).__name__}: {error}", 300), line=0
        )


def _first(thing: Any, *names: str) -> Any:
    """Return the first attribute that exists. Versions of the SDK use different names, and access to an old one may raise a warning."""
    return next((getattr(thing, name) for name in names if hasattr(thing, name)), None)


def _named(error: BaseException, name: str) -> bool:
    return any(kind.__name__ == name for kind in type(error).__mro__)


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine, even if an event loop is running."""
    found: list[T] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            found.append(asyncio.run(work))
        except BaseException as error:  # noqa: BLE001 - raised again where it was asked for
            raised.append(error)

    thread = threading.Thread(target=run, name="toolgen-listing", daemon=True)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return found[0]
