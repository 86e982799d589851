"""The MCP executor: a call goes to the tool that was pinned, and to no other that has its name now."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final

from msgspec.structs import replace

from toolgen.connectors.executor import PageListener, no_listener
from toolgen.connectors.failure_settings import Timeouts
from toolgen.connectors.mcp.answers import MAX_SAID_LENGTH, answered, content_block, contents, is_size
from toolgen.connectors.mcp.conversation import Conversation, Parts
from toolgen.connectors.mcp.messages import SharedSession, Wire, failed, request
from toolgen.connectors.mcp.notices import NoticeListener, ServerNotice, Subscribed, page_id
from toolgen.connectors.mcp.rounds import call_in_rounds
from toolgen.connectors.mcp.server_requests import CallTime
from toolgen.connectors.mcp.server_subscriptions import PagedWire, ServerSubscriptions, StreamingWire, WatchedWire
from toolgen.connectors.mcp.skills import changed_file
from toolgen.connectors.mcp.task_calls import call_as_task
from toolgen.core.clock import Clock, SystemClock
from toolgen.core.errors import ToolgenError
from toolgen.model.apps import page_of
from toolgen.model.argument_names import own_arguments
from toolgen.model.call import Call, Principal, parties
from toolgen.model.caller_requests import RequestKind
from toolgen.model.excerpt import bounded
from toolgen.model.mcp import APP_PART, ServerTools
from toolgen.model.prompt_injection import visible
from toolgen.model.result import PIN_RULE, Error, Failed, Refused, Success
from toolgen.model.schema import Json, JsonObject
from toolgen.model.secret import Secret
from toolgen.model.tool import McpBinding, McpContextBinding, McpResourceBinding, absent

__all__ = ["McpExecutor"]


_MAX_CONVERSATIONS = 256
_MAX_ROOTED = 1024
_MAX_SESSIONS = 2  # begun for one call
_TIMEOUTS = Timeouts()
_CLOCK = SystemClock()
_NOBODY = Principal(id="build")


def prompted(outcome: Success) -> Success | Failed:
    """Return the messages of a prompt, each with a content block, and the description of this answer, "" without one (MCP 2025-11-25,
    server/prompts)."""
    result = outcome.data
    assert isinstance(result, Mapping)  # noqa: S101 - as `result_of` gives it
    messages = result.get("messages")
    if not isinstance(messages, list) or not all(isinstance(one, Mapping) for one in messages):
        return failed("upstream_error", "the server's answer is no prompt as MCP has it", delivery=outcome.delivery)
    made = [
        {
            "role": "assistant" if one.get("role") == "assistant" else "user",
            "content": content_block(one.get("content")),
        }
        for one in messages
    ]
    said = result.get("description")
    description = bounded(visible(said), MAX_SAID_LENGTH) if isinstance(said, str) else ""
    return Success(data={"description": description, "messages": made}, delivery=outcome.delivery)


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
    texts = [bounded(visible(one), MAX_SAID_LENGTH) for one in islice(values, _MAX_VALUES) if isinstance(one, str)]
    data: dict[str, Json] = {"values": texts, "has_more": found.get("hasMore") is True}
    if is_size(total := found.get("total")):
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
    callers. `allow` is what the server may request of callers, as far as their channels let it. `apps`: the server is told that apps are
    shown. `traces`: it is told which trace a call belongs to. `page_done` hears of the web pages of `source` that are done.
    """

    def __init__(  # noqa: PLR0913 - what a source may say
        self,
        wire: Wire,
        *,
        shared: bool,
        timeouts: Timeouts = _TIMEOUTS,
        clock: Clock = _CLOCK,
        sessions: Callable[[str, str], SharedSession] | None = None,
        allow: frozenset[str] = frozenset(),
        apps: bool = False,
        traces: bool = False,
        source: str = "",
        page_done: PageListener = no_listener,
    ) -> None:
        self._allow, self._apps, self._traces = allow, apps, traces
        self._source, self._page_done, self._pages = source, page_done, Subscribed(clock)
        self._wire = wire
        self._shared = shared
        self._total_s = timeouts.total_s
        self._clock = clock
        self._sessions = sessions
        self._conversations: OrderedDict[tuple[str, str], Conversation] = OrderedDict()
        self._followed: dict[tuple[str, str], ServerSubscriptions] = {}
        self._rooted: OrderedDict[tuple[str, ...], Call] = OrderedDict()
        if isinstance(wire, WatchedWire):
            wire.watch(self._noticed)
        elif isinstance(wire, PagedWire):
            wire.watch_pages(self._paged)

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
            time = CallTime(until)
            asking = conversation.asking(
                call if self._traces else replace(call, trace=None),
                time,
                partial(self._answered, call),
                partial(page_id, self._source, self._key(call.principal)),
            )
            if binding.task and method == "tools/call":
                outcome = await call_as_task(conversation, params, asking, time)
            else:
                outcome = await call_in_rounds(conversation, method, params, asking, time)
            if isinstance(outcome, Success):
                return _other_content(binding, outcome) or _READ[method](outcome)
            if outcome is not None:
                return outcome
        message = "the server forgot the session that it had just begun; nothing was sent"
        return failed("upstream_unavailable", message, "try again later")

    def _answered(self, call: Call, kind: RequestKind | None) -> None:
        """Note the call of a caller whose folders the server got, and hear when a web page is done that a caller was shown."""
        if kind == "elicitation_url" and isinstance(self._wire, PagedWire):
            self._wire.keep_stream(self._with(call.principal).agreed, _harmless(call))
        elif kind == "roots":
            self._rooted[parties(call.principal)] = replace(call, line=None)
            self._rooted.move_to_end(parties(call.principal))
            if len(self._rooted) > _MAX_ROOTED:
                self._rooted.popitem(last=False)

    def _noticed(self, notice: ServerNotice) -> None:
        """Take a notice of a command, which every worker hears."""
        if notice.kind == "done":
            self._page_done(page_id(self._source, self._key(_NOBODY), notice.uri), False)

    def _paged(self, principal: Principal, page: str) -> None:
        """Take a notice that a web page is done, which this worker alone has heard; a flood is not passed on."""
        if self._pages.admits():
            self._page_done(page_id(self._source, self._key(principal), page), True)

    def roots_asked(self) -> Sequence[Call]:
        """Return the last call of each caller that the server got the folders of."""
        return tuple(self._rooted.values())

    async def roots_changed(self, call: Call) -> None:
        """Tell the server that the folders of a caller have changed. The server may ask for them again in the caller's next call."""
        await self._with(call.principal).tell_changed_roots(_harmless(call))

    async def follow(self, read: Call, listener: NoticeListener) -> None:
        """Have a listener told of changes of the resource of a read, until this is cancelled. Returns if the server has no way to tell."""
        binding, wire = read.tool.binding, self._wire
        if not isinstance(binding, McpContextBinding) or not isinstance(wire, StreamingWire | WatchedWire):
            return
        key = self._key(read.principal)
        followed = self._followed.get(key)
        if followed is None:
            for other in [one for one, resources in self._followed.items() if resources.idle]:
                await self._followed.pop(other).close()
            if len(self._followed) >= _MAX_CONVERSATIONS:
                return
            # Over HTTP a session of its own, whose stream takes nothing from callers' calls.
            shared = isinstance(wire, WatchedWire)
            conversation = self._with(read.principal) if shared else Conversation(wire, self._clock, self._total_s)
            followed = ServerSubscriptions(conversation, wire, self._fits, self._total_s)
            followed = self._followed.setdefault(key, followed)
        uri = context_params(binding, read.arguments)["uri"]
        await followed.follow(str(uri), _harmless(read), listener)

    async def _fits(self, conversation: Conversation, read: Call) -> bool:
        """Return True if a resource is as it was pinned."""
        binding = _binding(read)
        until = asyncio.get_running_loop().time() + self._total_s
        listed = await conversation.parts(read, until, _list_of(binding))
        return not isinstance(listed, Failed) and _changed(binding, listed) is None

    async def listing(self, token: Secret | None = None) -> ServerTools | Failed:
        """Return every tool that the server has for nobody in particular: what a build pins. `token` is exchanged if the source exchanges
        tokens of callers."""
        principal = _NOBODY if token is None else replace(_NOBODY, token=token)
        call = Call(id="build", tool=absent("build"), arguments={}, principal=principal)
        return await self._with(principal).listing(_harmless(call))

    def preview(self, call: Call) -> JsonObject:
        """The message, and over HTTP the request around it with secrets masked. What a server gives a session or a number is not known."""
        return self._wire.preview(request(*_request(call, _binding(call)), 1), call)

    async def close(self) -> None:
        """Closes every connection, and ends a command."""
        for followed in self._followed.values():
            await followed.close()
        for conversation in self._conversations.values():
            await conversation.close()
        await self._wire.close()

    def _key(self, principal: Principal) -> tuple[str, str]:
        user = principal.on_behalf_of
        return ("", "") if self._shared else (principal.id, "" if user is None else user.id)

    def _with(self, principal: Principal) -> Conversation:
        key = self._key(principal)
        found = self._conversations.get(key)
        if found is None:
            session = None if self._sessions is None else self._sessions(*key)
            found = self._conversations[key] = Conversation(
                self._wire, self._clock, self._total_s, session, self._allow, apps=self._apps
            )
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
    if not isinstance(binding, McpContextBinding) or binding.page or binding.content:
        return "tools/list"
    if binding.about == "prompt":
        return "prompts/list"
    return "resources/templates/list" if "{" in binding.tool else "resources/list"


def _changed(binding: McpBinding, listed: Parts) -> Refused | None:
    """Why a tool may not be called, or a prompt or resource read, that is not as it was pinned. Of the page of an app, and of a file of a
    skill, the content is pinned (`_other_content`)."""
    if isinstance(binding, McpContextBinding) and (binding.page or binding.content):
        return None
    now, what = listed.get(binding.tool), binding.about if isinstance(binding, McpContextBinding) else "tool"
    if now is None:
        return _refused(f"the server does not offer this {what} any more, or offers two of that name")
    parts = (now.keys() | binding.parts.keys()) - (frozenset() if binding.apps else {APP_PART})
    changed = sorted(part for part in parts if now.get(part) != binding.parts.get(part))
    return _refused(f"the {what}'s {', '.join(changed)} changed since somebody accepted it") if changed else None


def _other_content(binding: McpBinding, outcome: Success) -> Refused | None:
    """Why the page of an app or a file of a skill is not passed on that is not as it was pinned."""
    if not isinstance(binding, McpContextBinding) or binding.method != "resources/read":
        return None
    result = outcome.data if isinstance(outcome.data, Mapping) else {}
    reason = ""
    if binding.content or binding.front_matter:
        reason = changed_file(binding, result)
    elif binding.page:
        reason = _changed_page(binding, result)
    return _not_passed_on(reason) if reason else None


def _changed_page(binding: McpContextBinding, result: JsonObject) -> str:
    page = page_of(binding.tool, result)
    if page is None:
        return "the server's answer is no page of an app"
    return "" if page.digest == binding.page else "the page of this app changed since somebody accepted it"


def _not_passed_on(reason: str) -> Refused:
    return Refused(
        error=Error(
            code="forbidden",
            message=f"{reason}; it was not passed on",
            suggestion="tell the operator of the gateway: `toolgen build` shows what is different, `--update-pins` accepts it",
            rule=PIN_RULE,
        )
    )


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
            rule=PIN_RULE,
        )
    )
