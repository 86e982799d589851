"""The MCP executor: a call goes to the tool that was pinned, and to no other that has its name now.

What a tool of an MCP server answered, as the data of a call: its content block by block, and structured content beside it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final

from msgspec.structs import replace

from toolgen.connectors.executor import Timeouts
from toolgen.connectors.mcp.conversation import Conversation, Parts
from toolgen.connectors.mcp.messages import SharedSession, Wire, failed, request
from toolgen.connectors.mcp.task_calls import call_as_task
from toolgen.core.clock import Clock, SystemClock
from toolgen.core.errors import ToolgenError
from toolgen.model.argument_names import own_arguments
from toolgen.model.call import Call, Principal
from toolgen.model.excerpt import bounded
from toolgen.model.mcp import ServerTools
from toolgen.model.prompt_injection import visible
from toolgen.model.result import Error, Failed, Refused, Shape, Success, file_bytes, text_in
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import McpBinding, McpContextBinding, McpResourceBinding, absent

__all__ = ["McpExecutor", "answered", "contents"]

_MAX_SAID_LENGTH = 800
_Check = Callable[[Json], bool]


def _is_text(value: Json) -> bool:
    return isinstance(value, str)


def _is_object(value: Json) -> bool:
    return isinstance(value, Mapping)


def _is_list(value: Json) -> bool:
    return isinstance(value, list)


def _is_size(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_resource(value: Json) -> bool:
    """A resource's contents: text or bytes, and where they are from."""
    if not isinstance(value, Mapping) or not isinstance(value.get("uri"), str):
        return False
    return isinstance(value.get("text"), str) != isinstance(value.get("blob"), str)


_EVERY: Final[Mapping[str, _Check]] = {"annotations": _is_object, "_meta": _is_object}
_NEEDED: Final[Mapping[str, Mapping[str, _Check]]] = {
    "text": {"text": _is_text},
    "image": {"data": _is_text, "mimeType": _is_text},
    "audio": {"data": _is_text, "mimeType": _is_text},
    "resource": {"resource": _is_resource},
    "resource_link": {"uri": _is_text, "name": _is_text},
}
_ALLOWED: Final[Mapping[str, Mapping[str, _Check]]] = {
    "resource_link": {
        "title": _is_text,
        "description": _is_text,
        "mimeType": _is_text,
        "size": _is_size,
        "icons": _is_list,
    },
}
"""The members of each kind of block (MCP 2025-11-25, schema, ContentBlock). A client may refuse a whole answer for one that is wrong."""


def answered(outcome: Success) -> Success | Failed:
    """`{"content": […]}` with the blocks in their order, and `structuredContent` where there is some.

    A result that wants something of its caller, or that is no result yet, is Failed: none of that was offered.
    """
    result, delivery = outcome.data, outcome.delivery
    assert isinstance(result, Mapping)  # noqa: S101 - as `result_of` gives it
    kind = result.get("resultType", "complete")
    if kind != "complete":
        message = "the server wants something of its caller before it answers, which is not passed on"
        return failed("upstream_error", message, "use a tool that answers at once", delivery)
    wrong = result.get("isError", False)
    if not isinstance(wrong, bool):
        message = "the server's answer does not say whether the call worked: its isError is neither true nor false"
        return failed(
            "upstream_error", message, "look at what the call may have changed before it is made again", delivery
        )
    content = result.get("content")
    blocks: list[Json] = [_block(block) for block in content] if isinstance(content, list) else []
    data: dict[str, Json] = {"content": blocks}
    if (structured := result.get("structuredContent")) is not None:
        data["structuredContent"] = structured
    if wrong:
        written = _text(blocks)
        said = " ".join(written.split())
        message = f"the tool failed: {bounded(said, _MAX_SAID_LENGTH) or 'it does not say why'}"
        error = failed("upstream_error", message, "change the arguments as the answer says", delivery).error
        whole = written == said and len(said) <= _MAX_SAID_LENGTH and all(map(_is_plain, blocks)) and structured is None
        return Failed(error=error, data=None if whole else data, delivery=delivery, shape=Shape.CONTENT)
    return Success(data=data, delivery=delivery, shape=Shape.CONTENT)


def contents(outcome: Success) -> Success | Failed:
    """Return the contents of a resource: a document, a file, or a list of them (MCP 2025-11-25, server/resources).

    A file that is text becomes a document, so that checks of answers read it.
    """
    result, delivery = outcome.data, outcome.delivery
    assert isinstance(result, Mapping)  # noqa: S101 - as `result_of` gives it
    found = result.get("contents")
    parts = [_content(one) for one in found] if isinstance(found, list) else []
    if not parts or any(part is None for part in parts):
        message = "the server's answer is no content of a resource as MCP has it"
        return failed("upstream_error", message, delivery=delivery)
    data: Json = parts[0] if len(parts) == 1 else parts
    return Success(data=data, delivery=delivery, shape=Shape.PARTS)


def _content(one: Json) -> Json:
    if not isinstance(one, Mapping) or not _is_resource(one):
        return None
    named = one.get("mimeType")
    if isinstance(text := one.get("text"), str):
        return {"uri": one["uri"], "media_type": named if isinstance(named, str) else "text/plain", "text": text}
    file: JsonObject = {
        "base64": one["blob"],
        "media_type": named if isinstance(named, str) else "application/octet-stream",
    }
    body = file_bytes(file)
    if body is None:
        return None
    if (decoded := text_in(body)) is None:
        return file
    return {"uri": one["uri"], "media_type": file["media_type"], "text": visible(decoded)}


def _block(block: Json) -> JsonObject:
    """A block as it came, with the members that its kind has; what is no block of MCP is text that says so."""
    kind = block.get("type") if isinstance(block, Mapping) else None
    if not isinstance(block, Mapping) or not isinstance(kind, str) or kind not in _NEEDED:
        return _unknown("a kind of content that is not passed on")
    if not all(check(block.get(name)) for name, check in _NEEDED[kind].items()):
        return _unknown(f"content of the kind {kind} that is not as MCP has it")
    members = {**_NEEDED[kind], **_ALLOWED.get(kind, {}), **_EVERY}
    kept = {name: item for name, item in block.items() if name in members and members[name](item)}
    return {"type": kind, **kept}


def _unknown(what: str) -> JsonObject:
    return {"type": "text", "text": f"[here the server sent {what}]"}


def _is_plain(block: Json) -> bool:
    return isinstance(block, Mapping) and block.keys() == {"type", "text"}


def _text(blocks: list[Json]) -> str:
    return "\n".join(
        text for block in blocks if isinstance(block, Mapping) and isinstance(text := block.get("text"), str)
    )


_MAX_CONVERSATIONS = 256
_MAX_SESSIONS = 2  # begun for one call
_TIMEOUTS = Timeouts()
_CLOCK = SystemClock()


def prompted(outcome: Success) -> Success | Failed:
    """Return the messages of a prompt, each with a content block (MCP 2025-11-25, server/prompts)."""
    result = outcome.data
    assert isinstance(result, Mapping)  # noqa: S101 - as `result_of` gives it
    messages = result.get("messages")
    if not isinstance(messages, list) or not all(isinstance(one, Mapping) for one in messages):
        return failed("upstream_error", "the server's answer is no prompt as MCP has it", delivery=outcome.delivery)
    made = [
        {"role": "assistant" if one.get("role") == "assistant" else "user", "content": _block(one.get("content"))}
        for one in messages
    ]
    return Success(data={"messages": made}, delivery=outcome.delivery)


def read_contents(outcome: Success) -> Success | Failed:
    """Return the contents of a resource as `contents` does. Text that the server sent as bytes says so by `form`, so that it is passed on
    as bytes."""
    made = contents(outcome)
    sent = outcome.data.get("contents") if isinstance(outcome.data, Mapping) else None
    if isinstance(made, Failed) or not isinstance(sent, list):
        return made
    parts = made.data if isinstance(made.data, list) else [made.data]
    formed = [
        {**part, "form": "blob"} if isinstance(part, Mapping) and "text" in part and "blob" in one else part
        for part, one in zip(parts, sent, strict=True)
    ]
    return replace(made, data=formed if isinstance(made.data, list) else formed[0])


def completed(outcome: Success) -> Success | Failed:
    """Return the values that a server proposes for an argument (MCP 2025-11-25, server/utilities/completion)."""
    found = outcome.data.get("completion") if isinstance(outcome.data, Mapping) else None
    values = found.get("values") if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping) or not isinstance(values, list):
        return failed(
            "upstream_error", "the server's answer proposes no values as MCP has it", delivery=outcome.delivery
        )
    texts = [bounded(visible(one), _MAX_SAID_LENGTH) for one in islice(values, _MAX_VALUES) if isinstance(one, str)]
    data: dict[str, Json] = {"values": texts, "has_more": found.get("hasMore") is True}
    if _is_size(total := found.get("total")):
        data["total"] = total
    return Success(data=data, delivery=outcome.delivery)


def context_params(binding: McpContextBinding, arguments: JsonObject) -> JsonObject:
    """The params of a request about a prompt or resource."""
    match binding.method:
        case "prompts/get":
            return {"name": binding.tool, "arguments": dict(arguments)}
        case "resources/read":
            return {"uri": arguments["uri"] if "{" in binding.tool else binding.tool}
        case _:
            named = {"name": binding.tool} if binding.about == "prompt" else {"uri": binding.tool}
            params: JsonObject = {
                "ref": {"type": f"ref/{binding.about}", **named},
                "argument": {"name": binding.argument, "value": arguments["value"]},
            }
            context = arguments.get("context")
            return {**params, "context": {"arguments": context}} if context else params


_MAX_VALUES = 100
_READ: Final[Mapping[str, Callable[[Success], Success | Failed]]] = {
    "tools/call": answered,
    "prompts/get": prompted,
    "resources/read": read_contents,
    "completion/complete": completed,
}


class McpExecutor:
    """Calls the tools of one server. `shared`: one conversation serves every caller, as it must with a command.

    Otherwise each caller has one: sessions, like credentials, are not shared. `sessions` has what other workers agreed on for the same
    callers.
    """

    def __init__(
        self,
        wire: Wire,
        *,
        shared: bool,
        timeouts: Timeouts = _TIMEOUTS,
        clock: Clock = _CLOCK,
        sessions: Callable[[str, str], SharedSession] | None = None,
    ) -> None:
        self._wire = wire
        self._shared = shared
        self._total_s = timeouts.total_s
        self._clock = clock
        self._sessions = sessions
        self._conversations: OrderedDict[tuple[str, str], Conversation] = OrderedDict()

    async def execute(self, call: Call) -> Success | Failed | Refused:
        """Asks the server for the call, once it was seen that the tool is as it was pinned; never raises for what the server does."""
        conversation, binding = self._with(call.principal), _binding(call)
        method, params = _request(call, binding)
        until = asyncio.get_running_loop().time() + self._total_s
        for _ in range(_MAX_SESSIONS):
            listed = await conversation.parts(_harmless(call), until, _list_of(binding))
            if isinstance(listed, Failed):
                return _unsent(listed)
            if refused := _changed(binding, listed):
                return refused
            if binding.task and method == "tools/call":
                outcome = await call_as_task(conversation, params, call, until)
            else:
                outcome = await conversation.call(method, params, call, until)
            if isinstance(outcome, Success):
                return _READ[method](outcome)
            if outcome is not None:
                return outcome
        message = "the server forgot the session that it had just begun; nothing was sent"
        return failed("upstream_unavailable", message, "try again later")

    async def listing(self) -> ServerTools | Failed:
        """Every tool the server has for nobody in particular: what a build pins."""
        nobody = Principal(id="build")
        call = Call(id="build", tool=absent("build"), arguments={}, principal=nobody)
        return await self._with(nobody).listing(_harmless(call))

    def preview(self, call: Call) -> JsonObject:
        """The message, and over HTTP the request around it with secrets masked. What a server gives a session or a number is not known."""
        return self._wire.preview(request(*_request(call, _binding(call)), 1), call)

    async def close(self) -> None:
        """Closes every connection, and ends a command."""
        for conversation in self._conversations.values():
            await conversation.close()
        await self._wire.close()

    def _with(self, principal: Principal) -> Conversation:
        user = principal.on_behalf_of
        key = ("", "") if self._shared else (principal.id, "" if user is None else user.id)
        found = self._conversations.get(key)
        if found is None:
            session = None if self._sessions is None else self._sessions(*key)
            found = self._conversations[key] = Conversation(self._wire, self._clock, self._total_s, session)
            if len(self._conversations) > _MAX_CONVERSATIONS:
                self._conversations.popitem(last=False)
        else:
            self._conversations.move_to_end(key)
        return found


def _binding(call: Call) -> McpBinding:
    binding = call.tool.binding
    if not isinstance(binding, McpBinding):
        raise ToolgenError(f"the tool {call.tool.name} is not bound to an MCP server")
    return binding


def _list_of(binding: McpBinding) -> str:
    """The method by which the server lists what is called."""
    if not isinstance(binding, McpContextBinding):
        return "tools/list"
    if binding.about == "prompt":
        return "prompts/list"
    return "resources/templates/list" if "{" in binding.tool else "resources/list"


def _changed(binding: McpBinding, listed: Parts) -> Refused | None:
    """Why a tool may not be called, or a prompt or resource read, that is not as it was pinned."""
    now, what = listed.get(binding.tool), binding.about if isinstance(binding, McpContextBinding) else "tool"
    if now is None:
        return _refused(f"the server does not offer this {what} any more, or offers two of that name")
    changed = sorted(part for part in now.keys() | binding.parts.keys() if now.get(part) != binding.parts.get(part))
    return _refused(f"the {what}'s {', '.join(changed)} changed since somebody accepted it") if changed else None


def _request(call: Call, binding: McpBinding) -> tuple[str, JsonObject]:
    """The method of a call, and its params."""
    if isinstance(binding, McpContextBinding):
        return binding.method, context_params(binding, call.arguments)
    if isinstance(binding, McpResourceBinding):
        return "resources/read", {"uri": call.arguments["uri"]}
    return "tools/call", {"name": binding.tool, "arguments": own_arguments(call.tool, call.arguments)}


def _harmless(call: Call) -> Call:
    """For questions that change nothing, whatever the call behind them does, and that bear neither its key nor its way back."""
    return replace(call, idempotency_key="", line=None)


def _unsent(outcome: Failed) -> Failed:
    """The call itself was never sent, however far its preparations came."""
    return replace(outcome, delivery=replace(outcome.delivery, broken=False, unsent=True), data=None)


def _refused(reason: str) -> Refused:
    return Refused(
        error=Error(
            code="forbidden",
            message=f"{reason}; nothing was sent",
            suggestion="tell the operator of the gateway: `toolgen build` shows what is different, `--update-pins` accepts it",
            rule="pin",
        )
    )
