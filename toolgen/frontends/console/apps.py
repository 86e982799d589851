"""Apps in the console: the page that shows a result, the data of its frame, and calls that the page makes as the signed-in person."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from toolgen.frontends.console.app_pages import CLIENT, AppPages
from toolgen.frontends.console.http import Visit
from toolgen.frontends.console.text_format import pretty
from toolgen.frontends.http.request import Rejected, Response
from toolgen.frontends.mcp.messages import META_ENVELOPE
from toolgen.gateway.calls.content_blocks import content_blocks, own_data
from toolgen.gateway.calls.json_body import Malformed, decode, encode, unmade
from toolgen.model.apps import OWN_PAGE
from toolgen.model.mcp_content import meta_of
from toolgen.model.result import Envelope, Error
from toolgen.model.schema import JsonObject
from toolgen.model.tool import Effect, Tool
from toolgen.model.waiting import GET_CALL_RESULT
from toolgen.policy.access import UNKNOWN

__all__ = ["AppFrame", "call", "frame_of"]

_MAX_ARGUMENTS = 262_144
_UNKNOWN = Error(code="unknown_tool", message=UNKNOWN.reason, suggestion=UNKNOWN.suggestion, rule=UNKNOWN.rule)


class AppFrame(Struct, frozen=True, kw_only=True):
    """Frame of an app on a page: its address, its origin, the tool whose result it shows, and as JSON that tool, arguments and result."""

    address: str
    origin: str
    tool: str
    own: bool
    about: str
    given: str
    result: str


def frame_of(visit: Visit, tool: Tool, arguments: JsonObject, envelope: Envelope) -> AppFrame | None:
    """Return the frame for the result of a call: the app of its tool, or the gateway's own for a waiting call and for other tools. None
    if the console shows no apps, and for a call that was not made."""
    settings = visit.gateway.settings.console
    if not settings.apps or envelope.status not in {"ok", "pending"}:
        return None
    shown = tool.app is not None and bool(tool.app.uri) and envelope.status == "ok"
    uri = tool.app.uri if tool.app is not None and shown else OWN_PAGE
    if uri != OWN_PAGE and not visit.gateway.context.may_read(visit.person.principal, uri):
        uri = OWN_PAGE
    own = uri == OWN_PAGE
    pages = AppPages(visit.gateway, visit.context.clock)
    about = {"name": tool.name, "title": tool.title, "description": tool.description, "inputSchema": tool.input_schema}
    return AppFrame(
        address=pages.address(visit, uri, "" if own else tool.source),
        origin=settings.apps,
        tool=tool.name,
        own=own,
        about=_ascii(about),
        given=_ascii(arguments),
        result=_ascii(_result(envelope, own=own)),
    )


async def call(visit: Visit) -> Response:
    """POST /console/apps/call: a call that the app of a tool (`app`) makes, answered as JSON for the script of the page. A call that may
    change something is made once the person agreed to it."""
    visit.request.parameters()
    form = visit.form
    if not visit.gateway.settings.console.apps:
        raise Rejected(404, "not_found", "this console shows no apps")
    try:
        if len(form.get("arguments", "")) > _MAX_ARGUMENTS:
            raise Rejected(413, "validation", f"arguments of an app have at most {_MAX_ARGUMENTS} characters")
        arguments = decode(form.get("arguments", "").encode(), dict[str, Any])
    except Malformed as error:
        raise Rejected(400, "validation", f"the arguments are not a JSON object: {error.message}") from None
    name = form.get("name", "")
    if form.get("own") == "yes":
        return _answer(visit, await _ended(visit, name, arguments), own=True)
    meant = _meant(visit, form.get("app", ""), name)
    if meant is None:
        return _answer(visit, unmade(name, _UNKNOWN))
    if meant.effect is not Effect.READ and form.get("agreed") != "yes":
        asked = {"tool": meant.name, "effect": meant.effect.value, "arguments": pretty(arguments)}
        return visit.json({"confirm": asked})
    envelope = await visit.gateway.tool_calls.call(
        meant.name,
        arguments,
        principal=visit.person.principal,
        client=CLIENT,
        caller_connection=visit.request.caller_connection,
    )
    return _answer(visit, envelope)


def _answer(visit: Visit, envelope: Envelope, *, own: bool = False) -> Response:
    return visit.json({"result": json.loads(encode(_result(envelope, own=own)))})


def _ascii(value: object) -> str:
    """Return JSON in ASCII: pages escape invisible characters in another way than JSON."""
    return json.dumps(json.loads(encode(value)))


def _meant(visit: Visit, app: str, name: str) -> Tool | None:
    """Return the tool that an app means by the gateway's name or its server's name: one of the app's own source, which apps and this person
    may call. None for all other names."""
    gateway, principal = visit.gateway, visit.person.principal
    mine = (*gateway.tool_calls.catalog(principal), *gateway.context.app_tools(principal))
    shown = next((one for one in mine if one.name == app), None)
    if shown is None or shown.app is None:
        return None
    offered = [one for one in mine if one.source == shown.source and one.app is not None and "app" in one.app.audience]
    named = [one for one in offered if one.name == name] or [one for one in offered if one.origin == name]
    return named[0] if len(named) == 1 else None


async def _ended(visit: Visit, name: str, arguments: Mapping[str, Any]) -> Envelope:
    """Return the outcome of a waiting call of this person: the gateway's own app may request nothing else."""
    call_id = arguments.get("call_id")
    if name != GET_CALL_RESULT or not isinstance(call_id, str):
        return unmade(name, _UNKNOWN)
    found = await visit.gateway.tool_calls.approvals.calls.outcome(call_id, visit.person.principal)
    return found or unmade(name, Error(code="not_found", message="there is no such call of yours that had to wait"))


def _result(envelope: Envelope, *, own: bool) -> dict[str, object]:
    """Return MCP's CallToolResult for an app: the answer of its tool. The gateway's own app also gets the envelope."""
    result: dict[str, object] = {"content": content_blocks(envelope), "isError": envelope.status != "ok"}
    data = own_data(envelope)
    if envelope.status == "ok" and (own or isinstance(data, Mapping)) and data is not None:
        result["structuredContent"] = data
    if meta := meta_of(envelope.content):
        result["_meta"] = meta
    if own:
        result["_meta"] = {
            META_ENVELOPE: {"status": envelope.status, "tool": envelope.tool, "call_id": envelope.call_id}
        }
    return result
