"""Tools with their schemas, and trying one: through the same stages as every call, as the person who is signed in."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

from msgspec import Struct

from toolgen.frontends.console.apps import AppFrame, frame_of
from toolgen.frontends.console.forms import FormError, arguments_of, fields_of
from toolgen.frontends.console.http import ActionResult, Visit
from toolgen.frontends.http.request import Rejected, Response
from toolgen.model.context import Prompt, Resource
from toolgen.model.result import Envelope
from toolgen.model.tool import Tool

__all__ = ["call", "listed", "one"]

_PAGE = 100


class ContextRow(Struct, frozen=True, kw_only=True):
    """Prompt, resource or template in the table; `readable` if the person may get or read it."""

    kind: str
    key: str
    text: str
    source: str
    readable: bool


_CLIENT = "console"


async def listed(visit: Visit) -> Response:
    """GET /console/tools: viewers see every tool, prompt and resource; other people those that they may call and read."""
    given = visit.request.parameters("find", "source", "from")
    callable_ = {tool.name for tool in visit.gateway.tool_calls.catalog(visit.person.principal)}
    tools = _seen(visit)
    words = given.get("find", "").lower().split()
    found = [
        tool
        for tool in sorted(tools.values(), key=lambda tool: tool.name)
        if given.get("source", "") in {"", tool.source}
        and all(word in f"{tool.name} {tool.title} {tool.description}".lower() for word in words)
    ]
    context = _context(visit, words, given.get("source", ""))
    start = int(given["from"]) if given.get("from", "").isdecimal() and len(given["from"]) < 8 else 0
    pauses = visit.gateway.pausing.all()
    return visit.page(
        "tools.html",
        paused={tool.name for tool in found if any(one.covers((), tool.source, tool.name) for one in pauses)},
        at="tools",
        tools=found[start : start + _PAGE],
        start=start,
        page_size=_PAGE,
        found=len(found),
        callable=callable_,
        given=given,
        sources=sorted({tool.source for tool in tools.values()} | {one.source for one in context}),
        context=context[:_PAGE] if not start else (),
        more_context=max(0, len(context) - _PAGE),
    )


def _context(visit: Visit, words: Sequence[str], source: str) -> list[ContextRow]:
    """Return the prompts and resources with these words, of this source; "" for all sources."""
    gateway, principal = visit.gateway, visit.person.principal
    readable: dict[tuple[str, str], ContextRow] = {}
    offered = gateway.context
    for kind, found in (
        ("prompt", offered.prompts(principal)),
        ("resource", (*offered.resources(principal), *offered.templates(principal))),
    ):
        for one in found:
            readable[kind, _key(one)] = _row(kind, one, readable=True)
    rows = dict(readable)
    if visit.person.viewer:
        manifest = gateway.manifest
        for kind, known in (("prompt", manifest.prompts), ("resource", manifest.resources)):
            for key, one in known.items():
                rows.setdefault((kind, key), _row(kind, one, readable=False))
    return [
        row
        for _, row in sorted(rows.items(), key=lambda item: item[0])
        if source in {"", row.source} and all(word in f"{row.key} {row.text}".lower() for word in words)
    ]


def _key(one: Prompt | Resource) -> str:
    return one.name if isinstance(one, Prompt) else one.uri


def _row(kind: str, one: Prompt | Resource, *, readable: bool) -> ContextRow:
    shown = "template" if isinstance(one, Resource) and one.is_template else kind
    text = one.description or one.title or one.name
    return ContextRow(kind=shown, key=_key(one), text=text, source=one.source, readable=readable)


async def one(visit: Visit) -> Response:
    """GET /console/tools/NAME"""
    visit.request.parameters()
    return _shown(visit, _tool(visit))


async def call(visit: Visit) -> Response:
    """POST /console/tools/NAME: the call. A form that a browser sends twice makes one call."""
    visit.request.parameters()
    tool = _tool(visit)
    offered = _offered(visit, tool.name)
    if offered is None:
        raise Rejected(403, "forbidden", "the policy does not let you call this tool")
    try:
        arguments = arguments_of(offered.input_schema, visit.form)
    except FormError as error:
        return _shown(visit, tool, fault=str(error))
    envelope = await visit.gateway.tool_calls.call(
        tool.name,
        arguments,
        principal=visit.person.principal,
        client=_CLIENT,
        idempotency_key=visit.form.get("once", "")[:128],
        caller_connection=visit.request.caller_connection,
    )
    return _shown(visit, tool, envelope=envelope, frame=frame_of(visit, offered, arguments, envelope))


def _seen(visit: Visit) -> Mapping[str, Tool]:
    if visit.person.viewer:
        return visit.gateway.manifest.tools
    return {tool.name: tool for tool in visit.gateway.tool_calls.catalog(visit.person.principal)}


def _tool(visit: Visit) -> Tool:
    tool = _seen(visit).get(visit.part)
    if tool is None:
        raise Rejected(404, "not_found", "there is no such tool")
    return tool


def _offered(visit: Visit, name: str) -> Tool | None:
    """Return the tool as this principal sees it, without bound arguments; None if the principal may not call it."""
    return next((tool for tool in visit.gateway.tool_calls.catalog(visit.person.principal) if tool.name == name), None)


def _shown(
    visit: Visit, tool: Tool, *, fault: str = "", envelope: Envelope | None = None, frame: AppFrame | None = None
) -> Response:
    offered = _offered(visit, tool.name)
    return visit.page(
        "tool.html",
        at="tools",
        status=400 if fault else 200,
        notice=ActionResult("Not called", fault, kind="bad", field="try-form", label="Try it") if fault else None,
        tool=tool,
        pauses=[
            one
            for one in visit.gateway.pausing.all()
            if one.covers((visit.person.principal.id,), tool.source, tool.name)
        ],
        binding=tool.to_dict()["binding"],
        fields=() if offered is None else fields_of(offered.input_schema, visit.form),
        offered=offered,
        typed=visit.form.get("json", ""),
        once=secrets.token_urlsafe(18),
        envelope=envelope,
        answer=None if envelope is None else envelope.to_dict(),
        frame=frame,
        frames="" if frame is None else frame.origin,
    )
