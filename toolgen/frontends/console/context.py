"""Prompts and resources in the console: getting and reading one as the person who is signed in, and values proposed for its arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from urllib.parse import quote, urlencode

from msgspec import Struct

from toolgen.frontends.console.http import ActionResult, Visit
from toolgen.frontends.console.rendering import download
from toolgen.frontends.console.text_format import pretty
from toolgen.frontends.http.request import Rejected, Response
from toolgen.frontends.mcp.context_methods import content_block
from toolgen.gateway.calls.content_blocks import text_block
from toolgen.gateway.calls.context_calls import ReadContent
from toolgen.gateway.calls.context_policy import Reader
from toolgen.model.context import Prompt, PromptArgument, Resource
from toolgen.model.excerpt import bounded
from toolgen.model.result import Error

__all__ = ["complete", "get", "prompt", "read", "resource"]

_CLIENT = "console"
_ARGUMENT = "argument."
_SHOWN_LENGTH = 200_000
_PATH = "/console/resources"


class ArgumentField(Struct, frozen=True, kw_only=True):
    """Field of a form for an argument: its value, and whether values are proposed for it."""

    argument: PromptArgument
    value: str
    proposes: bool


class AnswerPart(Struct, frozen=True, kw_only=True):
    """Part of an answer: its heading, its text ("" for bytes), and the number by which bytes are saved as a file."""

    heading: str
    text: str
    number: int = 0


async def prompt(visit: Visit) -> Response:
    """GET /console/prompts/NAME"""
    visit.request.parameters()
    return _page(visit, _prompt(visit))


async def get(visit: Visit) -> Response:
    """POST /console/prompts/NAME: the messages of a prompt."""
    visit.request.parameters()
    one = _prompt(visit)
    arguments = {name: text for name, text in _arguments(visit.form, one.arguments).items() if text}
    found = await visit.gateway.context.get(one.name, arguments, _reader(visit))
    if isinstance(found, Error):
        return _page(visit, one, fault=found)
    parts = []
    for message in found.messages:
        block = content_block(message.get("content"))
        text = text_block(block) if block.get("type") in {"text", "resource"} else pretty(_without_bytes(block))
        parts.append(AnswerPart(heading=str(message.get("role")), text=bounded(text, _SHOWN_LENGTH)))
    return _page(visit, one, parts=parts, call_id=found.call_id)


async def resource(visit: Visit) -> Response:
    """GET /console/resources?uri=URI: a resource, or a template."""
    return _page(visit, _resource(visit, visit.request.parameters("uri").get("uri", "")))


async def read(visit: Visit) -> Response:
    """POST /console/resources?uri=URI: the contents, or one of them as a file."""
    one = _resource(visit, visit.request.parameters("uri").get("uri", ""))
    uri = one.uri
    if one.is_template:
        values = _arguments(visit.form, one.variables)
        uri = "".join(
            part.text if not part.variable else quote(values[part.variable], safe="/" if part.spans else "")
            for part in one.template.parts
        )
    found = await visit.gateway.context.read(uri, _reader(visit))
    if isinstance(found, Error):
        return _page(visit, one, fault=found)
    saved = visit.form.get("save", "")
    if saved.isdecimal() and len(saved) < 4 and int(saved) < len(found):
        body = found[int(saved)].body
        return download(body, f"resource-{saved}.bin", b"application/octet-stream")
    return _page(visit, one, parts=[_content(number, content) for number, content in enumerate(found)])


async def complete(visit: Visit) -> Response:
    """POST /console/complete: values for an argument, as JSON for the script of the page."""
    visit.request.parameters()
    form = visit.form
    reference = {kind: form[kind] for kind in ("prompt", "resource") if kind in form}
    others = {name.removeprefix(_ARGUMENT): text for name, text in form.items() if name.startswith(_ARGUMENT) and text}
    name = form.get("name", "")
    others.pop(name, None)
    if len(reference) != 1:
        raise Rejected(400, "validation", "the form names neither a prompt nor a resource")
    found = await visit.gateway.context.complete(reference, name, form.get("value", ""), others, _reader(visit))
    return visit.json({"values": [] if isinstance(found, Error) else list(found.values)})


def _page(
    visit: Visit,
    one: Prompt | Resource,
    *,
    fault: Error | None = None,
    parts: Sequence[AnswerPart] | None = None,
    call_id: str = "",
) -> Response:
    is_prompt = isinstance(one, Prompt)
    arguments = one.arguments if isinstance(one, Prompt) else one.variables
    given = _arguments(visit.form, arguments)
    notice = None
    if fault is not None:
        said = f"{fault.message}. {fault.suggestion}" if fault.suggestion else fault.message
        notice = ActionResult("Nothing was read", said, kind="bad", field="try-form", label="Try it")
    return visit.page(
        "context.html",
        at="tools",
        status=200 if fault is None else 400,
        notice=notice,
        one=one,
        key=one.name if isinstance(one, Prompt) else one.uri,
        kind="prompt" if is_prompt else "resource",
        action=f"/console/prompts/{one.name}" if is_prompt else f"{_PATH}?{urlencode({'uri': one.uri})}",  # type: ignore[union-attr]
        fields=[
            ArgumentField(argument=item, value=given[item.name], proposes=bool(item.completer or item.values))
            for item in arguments
        ],
        parts=parts,
        call_id=call_id,
    )


def _content(number: int, content: ReadContent) -> AnswerPart:
    heading = f"{content.uri} · {content.media_type} · {len(content.body)} bytes"
    text = "" if content.text is None else bounded(content.text, _SHOWN_LENGTH)
    return AnswerPart(heading=heading, text=text, number=number)


def _without_bytes(block: Mapping[str, object]) -> dict[str, object]:
    """Return a block for a person to read, with the length of its base64 data in place of the data."""
    found = json.loads(json.dumps(block, default=str))
    for holder in (found, found.get("resource")):
        for name in ("data", "blob"):
            if isinstance(holder, dict) and isinstance(holder.get(name), str):
                holder[name] = f"[base64, {len(holder[name])} characters]"
    return dict(found)


def _arguments(form: Mapping[str, str], arguments: Sequence[PromptArgument]) -> dict[str, str]:
    return {one.name: form.get(_ARGUMENT + one.name, "").replace("\r\n", "\n") for one in arguments}


def _prompt(visit: Visit) -> Prompt:
    for one in visit.gateway.context.prompts(visit.person.principal):
        if one.name == visit.part:
            return one
    raise Rejected(404, "not_found", "there is no such prompt")


def _resource(visit: Visit, uri: str) -> Resource:
    context, principal = visit.gateway.context, visit.person.principal
    for one in (*context.resources(principal), *context.templates(principal)):
        if one.uri == uri:
            return one
    raise Rejected(404, "not_found", "there is no such resource")


def _reader(visit: Visit) -> Reader:
    return Reader(principal=visit.person.principal, client=_CLIENT, caller_connection=visit.request.caller_connection)
