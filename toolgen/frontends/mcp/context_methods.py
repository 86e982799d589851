"""MCP's prompts/*, resources/* and completion/complete (2025-11-25 and 2026-07-28, server/prompts, server/resources,
server/utilities/completion)."""

from __future__ import annotations

import base64
import bisect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from toolgen.frontends.mcp.bridged_reads import BridgedRead, BridgedReads
from toolgen.frontends.mcp.client_channel import PendingReplies, StatefulChannel, StatelessChannel, capabilities_of
from toolgen.frontends.mcp.log_levels import META_LOG_LEVEL, LogLevels
from toolgen.frontends.mcp.messages import (
    INVALID_PARAMS,
    META_CAPABILITIES,
    META_PROGRESS,
    METHOD_NOT_FOUND,
    RESOURCE_NOT_FOUND,
    Caller,
    ProtocolStyle,
    RpcFault,
)
from toolgen.frontends.mcp.request_state import MAX_STATE_LENGTH, RequestState, States
from toolgen.gateway.calls.context_calls import NO_PROMPT, NO_RESOURCE, ContextCalls, PromptMessages, ReadContent
from toolgen.gateway.calls.context_policy import Reader
from toolgen.model.apps import APPS, accepts_apps
from toolgen.model.call import parties
from toolgen.model.context import PROMPT, RESOURCE, Prompt, PromptArgument, Resource
from toolgen.model.result import Error, file_bytes
from toolgen.model.schema import Json
from toolgen.pipeline.middleware import CallerConnection

__all__ = [
    "CONTEXT_LISTS",
    "CONTEXT_METHODS",
    "ContextMethods",
    "content_block",
    "listed_resource",
    "page",
    "resource_fault",
]

CONTEXT_LISTS = frozenset({"prompts/list", "resources/list", "resources/templates/list"})
CONTEXT_METHODS = CONTEXT_LISTS | {"prompts/get", "completion/complete"}

_OF_PROMPTS = "prompts/"
_PER_PAGE = 1000
_MAX_URI_LENGTH = 2048
_MAX_ARGUMENTS = 200
_MAX_ANSWERS = 32
ASKS = "input_required"
_KINDS = {"image": "image", "audio": "audio"}
_T = TypeVar("_T")


class _Round(Struct, frozen=True):
    """Request of a read: what is read, with which arguments, what a client of 2026-07-28 answers with it, and if an MCP server may request
    something of the caller."""

    about: str
    arguments: Mapping[str, Json]
    params: Mapping[str, Any]
    meta: Mapping[str, Any]
    server_asks: bool


class _Answers(Struct, frozen=True):
    """Answers that a client of 2026-07-28 gave so far, and the state of the round before."""

    answers: Mapping[str, Any]
    state: RequestState | None


class ContextMethods:
    """Methods about prompts and resources over one gateway."""

    def __init__(
        self,
        context: ContextCalls,
        states: States,
        mailbox: PendingReplies,
        bridged: BridgedReads,
        levels: LogLevels,
    ) -> None:
        self._context, self._states, self._mailbox, self._bridged = context, states, mailbox, bridged
        self._levels = levels

    @property
    def capabilities(self) -> dict[str, object]:
        """Capabilities that `initialize` and `server/discover` declare for them."""
        prompts, resources = self._context.offered
        declared: dict[str, object] = {"prompts": {"listChanged": True}} if prompts else {}
        if resources:
            declared["resources"] = {"subscribe": True, "listChanged": True}
        return declared | ({"completions": {}} if prompts or resources else {})

    def converses(self, method: object, params: Mapping[str, Any], meta: Mapping[str, Any], caller: Caller) -> bool:
        """Return True if messages may be sent to the caller of a read before its answer: questions, progress, and log messages."""
        match method:
            case "prompts/get":
                named = {"prompt": params.get("name")}
            case "resources/read":
                named = {"resource": params.get("uri")}
            case "completion/complete" if isinstance(reference := params.get("ref"), dict):
                told = META_PROGRESS in meta or self._level(meta, caller) is not None
                return told and self._context.reports_progress(
                    prompt=reference.get("name"), resource=reference.get("uri")
                )
            case _:
                return False
        if META_PROGRESS in meta or self._level(meta, caller) is not None:
            return self._context.converses(**named) or self._context.reports_progress(**named)
        return bool(caller.capabilities) and self._context.converses(**named)

    def _level(self, meta: Mapping[str, Any], caller: Caller) -> int | None:
        if not self._levels.asked and META_LOG_LEVEL not in meta:
            return None
        return self._levels.of((parties(caller.principal), caller.connection), meta)

    async def answer(
        self, method: str, params: Mapping[str, Any], meta: Mapping[str, Any], style: ProtocolStyle, caller: Caller
    ) -> dict[str, object] | RpcFault:
        """The result of one of `CONTEXT_METHODS`. A project without prompts has none of their methods."""
        if method.startswith(_OF_PROMPTS) and not self._context.offered[0]:
            return RpcFault(code=METHOD_NOT_FOUND, message="this server has no prompts")
        context, principal = self._context, caller.principal
        match method:
            case "prompts/list":
                return page(params, "prompts", context.prompts(principal), _name, _prompt)
            case "resources/list":
                shown = context.resources(principal)
                if not self._shows_apps(meta, style, caller):
                    shown = tuple(one for one in shown if one.app is None)
                return page(params, "resources", shown, _uri, listed_resource)
            case "resources/templates/list":
                return page(params, "resourceTemplates", context.templates(principal), _uri, _template)
            case "prompts/get":
                return await self.get(params, meta, style, caller)
            case _:
                return await self.complete(params, meta, style, caller)

    @staticmethod
    def _shows_apps(meta: Mapping[str, Any], style: ProtocolStyle, caller: Caller) -> bool:
        if style is ProtocolStyle.STATELESS:
            return accepts_apps(meta.get(META_CAPABILITIES))
        return APPS in caller.capabilities

    async def get(
        self, params: Mapping[str, Any], meta: Mapping[str, Any], style: ProtocolStyle, caller: Caller
    ) -> dict[str, object] | RpcFault:
        """prompts/get."""
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str):
            return _wrong("params.name must be a string")
        given = {} if arguments is None else arguments
        if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
            return _wrong("params.arguments must be an object of strings")
        if len(given) > _MAX_ARGUMENTS:
            return _wrong(f"params.arguments has more than {_MAX_ARGUMENTS} members")

        async def get(connection: CallerConnection) -> dict[str, object] | Error:
            found = await self._context.get(name, given, _reader(caller, connection))
            return found if isinstance(found, Error) else _messages(found)

        asked = _Round(f"{PROMPT}{name}", given, params, meta, self._context.server_asks(prompt=name))
        found = await self._answer(asked, get, style, caller)
        return _prompt_fault(found) if isinstance(found, Error) else found

    async def read(
        self, uri: str, params: Mapping[str, Any], meta: Mapping[str, Any], style: ProtocolStyle, caller: Caller
    ) -> dict[str, object] | RpcFault:
        """resources/read, of a URI that is not one of an answer."""

        async def read(connection: CallerConnection) -> dict[str, object] | Error:
            found = await self._context.read(uri, _reader(caller, connection))
            return found if isinstance(found, Error) else {"contents": [_read_content(one) for one in found]}

        asked = _Round(f"{RESOURCE}{uri}", {}, params, meta, self._context.server_asks(resource=uri))
        found = await self._answer(asked, read, style, caller)
        return resource_fault(found, uri, style) if isinstance(found, Error) else found

    async def _answer(
        self,
        asked: _Round,
        read: Callable[[CallerConnection], Awaitable[dict[str, object] | Error]],
        style: ProtocolStyle,
        caller: Caller,
    ) -> dict[str, object] | Error | RpcFault:
        """The result of a read, which may ask its caller first (2026-07-28, basic/utilities/mrtr)."""
        token = asked.meta.get(META_PROGRESS)
        if isinstance(token, bool) or not isinstance(token, int | str | None):
            return _wrong(f"params._meta.{META_PROGRESS} must be a string or an integer")
        given = _Answers({}, None) if style is ProtocolStyle.STATEFUL else self._answers(asked, caller)
        if isinstance(given, RpcFault):
            return given
        line = self._line(asked, given, style, caller)
        if asked.server_asks and line.capabilities:
            bridged = BridgedRead(
                about=asked.about,
                arguments=asked.arguments,
                style=style,
                state=given.state,
                answers=given.answers,
                read=read,
            )
            return await self._bridged.answer(bridged, line, caller)
        caller.caller_connection.line = line
        found = await read(caller.caller_connection)
        if isinstance(found, Error) and found.code == ASKS:
            return self._asking(line, asked.about, asked.arguments, caller) or found
        return found

    def _line(
        self, asked: _Round, given: _Answers, style: ProtocolStyle, caller: Caller
    ) -> StatefulChannel | StatelessChannel:
        """The channel to the caller of a read, with the answers that a client of 2026-07-28 gave so far."""
        token, level = asked.meta.get(META_PROGRESS), self._level(asked.meta, caller)
        if style is ProtocolStyle.STATEFUL:
            return StatefulChannel(
                caller_connection=caller.caller_connection,
                capabilities=caller.capabilities if caller.send is not None else frozenset(),
                token=token,
                send=caller.send,
                mailbox=self._mailbox,
                parties=parties(caller.principal),
                level=level,
            )
        return StatelessChannel(
            caller_connection=caller.caller_connection,
            capabilities=capabilities_of(asked.meta.get(META_CAPABILITIES)),
            token=token,
            send=caller.send,
            answers=given.answers,
            level=level,
        )

    def _answers(self, asked: _Round, caller: Caller) -> _Answers | RpcFault:
        given = asked.params.get("inputResponses", {})
        if not isinstance(given, dict) or not all(isinstance(answer, dict) for answer in given.values()):
            return _wrong("params.inputResponses must hold the results of the requests it answers, each an object")
        if len(given) > _MAX_ANSWERS:
            return _wrong(f"params.inputResponses has more than {_MAX_ANSWERS} members")
        if "requestState" not in asked.params:
            return _Answers(given, None)
        text = asked.params["requestState"]
        fits = isinstance(text, str) and len(text) <= MAX_STATE_LENGTH
        state = self._states.open(text, caller.principal, asked.about, asked.arguments) if fits else None
        if state is None:
            return _wrong("params.requestState is none that this gateway gave for this request, or its time is over")
        return _Answers({**state.answers, **given}, state)

    def _asking(
        self, line: StatefulChannel | StatelessChannel, about: str, arguments: Mapping[str, Json], caller: Caller
    ) -> dict[str, object] | None:
        """The result that asks a client of 2026-07-28; None where there is nothing to ask."""
        if not isinstance(line, StatelessChannel) or not line.wanted:
            return None
        answers = {key: answer for key, answer in line.answers.items() if key not in line.wanted}
        state = self._states.close(caller.principal, about, arguments, answers=answers)
        return {"resultType": "input_required", "inputRequests": dict(line.wanted), "requestState": state}

    async def complete(
        self, params: Mapping[str, Any], meta: Mapping[str, Any], style: ProtocolStyle, caller: Caller
    ) -> dict[str, object] | RpcFault:
        """completion/complete. Its caller is asked nothing."""
        token = meta.get(META_PROGRESS)
        if isinstance(token, bool) or not isinstance(token, int | str | None):
            return _wrong(f"params._meta.{META_PROGRESS} must be a string or an integer")
        reference, argument = params.get("ref"), params.get("argument")
        context = params.get("context")
        others = context.get("arguments", {}) if isinstance(context, dict) else {}
        match reference:
            case {"type": "ref/prompt", "name": str(name)}:
                about: dict[str, Json] = {"prompt": name}
            case {"type": "ref/resource", "uri": str(uri)}:
                about = {"resource": uri}
            case _:
                return _wrong("params.ref must be a reference to a prompt or to a resource template")
        match argument:
            case {"name": str(argument_name), "value": str(value)}:
                pass
            case _:
                return _wrong("params.argument must have a name and a value")
        if not isinstance(others, dict) or not all(isinstance(one, str) for one in others.values()):
            return _wrong("params.context.arguments must be an object of strings")
        asked = _Round("", {}, params, meta, server_asks=False)
        line = self._line(asked, _Answers({}, None), style, caller)
        caller.caller_connection.line = replace(line, capabilities=frozenset())
        found = await self._context.complete(about, argument_name, value, others, _reader(caller))
        if isinstance(found, Error):
            known = found.code in {"validation", NO_PROMPT.code}
            return _wrong(found.message) if known else RpcFault.of(found)
        completion: dict[str, object] = {"values": list(found.values), "hasMore": found.has_more}
        return {"completion": completion | ({} if found.total is None else {"total": found.total})}


def resource_fault(error: Error, uri: str, style: ProtocolStyle) -> RpcFault:
    """The fault of a read. 2026-07-28 (server/resources, error handling) has no code of its own for a resource that does not exist."""
    if error.code != NO_RESOURCE.code and (error.retry_after_s is not None or error.code not in _UNREADABLE):
        return RpcFault.of(error)
    code = INVALID_PARAMS if style is ProtocolStyle.STATELESS else RESOURCE_NOT_FOUND
    return RpcFault(code=code, message=error.message, data={"uri": uri[:_MAX_URI_LENGTH]})


_UNREADABLE = frozenset({"expired", "validation", "response_too_large", "forbidden"})


def content_block(content: Json) -> dict[str, object]:
    """A part of a prompt as a content block of MCP."""
    match content:
        case str():
            return {"type": "text", "text": content}
        case Mapping() if isinstance(content.get("type"), str):
            return dict(content)
        case {"uri": str(uri), "media_type": str(kind), "text": str(text)}:
            return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": text}}
        case {"base64": str(data), "media_type": str(kind)} if file_bytes(content) is not None:
            family = _KINDS.get(kind.partition("/")[0], "")
            if family:
                return {"type": family, "data": data, "mimeType": kind}
            return {"type": "resource", "resource": {"uri": "data:", "mimeType": kind, "blob": data}}
        case _:
            return {"type": "text", "text": "[this part of the prompt is withheld]"}


def _read_content(one: ReadContent) -> dict[str, object]:
    said: dict[str, object] = {"uri": one.uri, "mimeType": one.media_type}
    said |= {"text": one.text} if one.text is not None else {"blob": base64.b64encode(one.body).decode()}
    return said | ({"_meta": one.meta} if one.meta else {})


def _role(role: Json) -> str:
    return "assistant" if role == "assistant" else "user"


def _messages(found: PromptMessages) -> dict[str, object]:
    messages = [
        {"role": _role(one.get("role")), "content": content_block(one.get("content"))} for one in found.messages
    ]
    return {"messages": messages} | ({"description": found.description} if found.description else {})


def _reader(caller: Caller, connection: CallerConnection | None = None) -> Reader:
    return Reader(
        principal=caller.principal,
        caller_connection=connection or caller.caller_connection,
        session=caller.session or caller.connection,
        client=caller.client,
        conversation=caller.session,
    )


def _prompt_fault(error: Error) -> RpcFault:
    if error.code in {NO_PROMPT.code, "validation", "forbidden"}:
        return _wrong(error.message)
    return RpcFault.of(error)


def page(
    params: Mapping[str, Any],
    member: str,
    found: Sequence[_T],
    key: Callable[[_T], str],
    write: Callable[[_T], dict[str, object]],
    limit: int = _PER_PAGE,
) -> dict[str, object] | RpcFault:
    """A page of a list. A cursor is the key of the last item, so that one added meanwhile neither repeats nor hides another."""
    cursor = params.get("cursor")
    if cursor is not None and not isinstance(cursor, str):
        return _wrong("params.cursor must be a string")
    try:
        # Strict: other decoders leave out what is not base64, and would begin again at the first page.
        after = base64.b64decode(cursor.encode("ascii"), b"-_", validate=True).decode("utf-8") if cursor else ""
    except ValueError:
        return _wrong("params.cursor is not a cursor this gateway gave out")
    start = bisect.bisect_right(found, after, key=key) if after else 0
    shown = found[start : start + limit]
    result: dict[str, object] = {member: [write(one) for one in shown]}
    if start + limit < len(found):
        result["nextCursor"] = base64.urlsafe_b64encode(key(shown[-1]).encode()).decode("ascii")
    return result


def _name(prompt: Prompt) -> str:
    return prompt.name


def _uri(resource: Resource) -> str:
    return resource.uri


def _described(one: Prompt | Resource | PromptArgument) -> dict[str, object]:
    said: dict[str, object] = {"name": one.name}
    return said | {name: text for name in ("title", "description") if (text := getattr(one, name))}


def _prompt(prompt: Prompt) -> dict[str, object]:
    arguments = [_described(one) | {"required": one.required} for one in prompt.arguments]
    return (
        _described(prompt)
        | ({"arguments": arguments} if arguments else {})
        | ({"icons": list(prompt.icons)} if prompt.icons else {})
    )


def listed_resource(resource: Resource) -> dict[str, object]:
    """A resource as lists have it."""
    return {"uri": resource.uri, **_about(resource)} | ({} if resource.size is None else {"size": resource.size})


def _template(resource: Resource) -> dict[str, object]:
    return {"uriTemplate": resource.uri, **_about(resource)}


def _about(resource: Resource) -> dict[str, object]:
    said = _described(resource)
    said |= {"mimeType": resource.media_type} if resource.media_type else {}
    said |= {"annotations": resource.annotations} if resource.annotations else {}
    said |= {"_meta": resource.app.meta} if resource.app is not None and resource.app.meta else {}
    return said | ({"icons": list(resource.icons)} if resource.icons else {})


def _wrong(message: str) -> RpcFault:
    return RpcFault(code=INVALID_PARAMS, message=message)
