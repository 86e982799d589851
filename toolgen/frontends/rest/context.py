"""REST for prompts, resources and skills: /v1/prompts, /v1/resources and /v1/skills."""

from __future__ import annotations

import base64
import bisect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

import msgspec

from toolgen.frontends.http.request import Rejected, Request, Response, json_response, read_json_body
from toolgen.frontends.rest.tools import (
    DEFAULT_PAGE,
    MAX_PAGE,
    STATUS_OF_CODE,
    client_of,
    conversation_of,
    decoded,
    whole,
)
from toolgen.gateway.calls.context_calls import ContextCalls, ReadContent
from toolgen.gateway.calls.context_policy import Reader
from toolgen.gateway.calls.skills import Skill
from toolgen.model.call import Principal
from toolgen.model.context import Prompt, Resource
from toolgen.model.result import Error
from toolgen.model.schema import Json
from toolgen.model.uri_template import MAX_URI_LENGTH

__all__ = ["PROMPTS", "READ", "RESOURCES", "SKILLS", "TEMPLATES", "RestContext"]

PROMPTS, RESOURCES, SKILLS = "/v1/prompts", "/v1/resources", "/v1/skills"
TEMPLATES, READ = "/v1/resources/templates", "/v1/resources/read"
_PROMPT = re.compile(r"/v1/prompts/([^/]{1,128})\Z")
_MAX_CURSOR_LENGTH = 4096
_T = TypeVar("_T")


class _PromptBody(msgspec.Struct, forbid_unknown_fields=True):
    arguments: dict[str, str] = {}


class _ReadBody(msgspec.Struct, forbid_unknown_fields=True):
    uri: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_URI_LENGTH)]


class RestContext:
    """Routes below /v1/prompts, /v1/resources and /v1/skills, with the policy and the audit log as over MCP."""

    def __init__(self, context: ContextCalls) -> None:
        self._context = context

    async def answer(self, request: Request, principal: Principal) -> Response | None:
        """Return the answer to a request for one of these routes; None for any other path."""
        context = self._context
        match request.path:
            case "/v1/prompts":
                return _page(request, "prompts", context.prompts(principal), _name, _prompt)
            case "/v1/resources":
                return _page(request, "resources", context.resources(principal), _uri, _resource)
            case "/v1/resources/templates":
                return _page(request, "templates", context.templates(principal), _uri, _resource)
            case "/v1/skills":
                return _page(request, "skills", context.skills.list(principal), _uri, _skill)
            case "/v1/resources/read":
                return await self._read(request, principal)
        found = _PROMPT.match(request.path)
        return None if found is None else await self._get(request, principal, found[1])

    async def _get(self, request: Request, principal: Principal, name: str) -> Response:
        """Answer POST /v1/prompts/{name}: the messages of a prompt."""
        request.take("POST")
        request.parameters()
        body: _PromptBody = decoded(await read_json_body(request), _PromptBody)
        found = await self._context.get(name, body.arguments, _reader(request, principal))
        if isinstance(found, Error):
            raise _rejected(found)
        said = {"description": found.description} if found.description else {}
        messages = [{"role": one.get("role", "user"), "content": one.get("content")} for one in found.messages]
        return json_response({"call_id": found.call_id, **said, "messages": messages})

    async def _read(self, request: Request, principal: Principal) -> Response:
        """Answer POST /v1/resources/read: the contents of a resource."""
        request.take("POST")
        request.parameters()
        body: _ReadBody = decoded(await read_json_body(request), _ReadBody)
        found = await self._context.read(body.uri, _reader(request, principal))
        if isinstance(found, Error):
            raise _rejected(found)
        return json_response({"contents": [_content(one) for one in found]})


def _reader(request: Request, principal: Principal) -> Reader:
    session = conversation_of(request)
    return Reader(
        principal=principal,
        caller_connection=request.caller_connection,
        session=session,
        client=client_of(request),
        conversation=session,
    )


def _rejected(error: Error) -> Rejected:
    """Return the refusal of a read. Nobody can be asked over REST, so a read with a question to its caller is refused."""
    status = 403 if error.code == "input_required" else STATUS_OF_CODE.get(error.code, 500)
    return Rejected.of(403 if status == 202 else status, error)


def _page(
    request: Request,
    member: str,
    found: Sequence[_T],
    key: Callable[[_T], str],
    write: Callable[[_T], Mapping[str, Any]],
) -> Response:
    """Return a page of a list. A cursor is the key of the last item, so that an item that is added meanwhile neither repeats nor hides
    another."""
    request.take("GET")
    query = request.parameters("limit", "cursor")
    limit, cursor = whole(query, "limit", default=DEFAULT_PAGE, most=MAX_PAGE), query.get("cursor", "")
    try:
        padded = f"{cursor}{'=' * (-len(cursor) % 4)}" if len(cursor) <= _MAX_CURSOR_LENGTH else "!"
        after = base64.b64decode(padded, altchars=b"-_", validate=True).decode("utf-8")
    except ValueError:
        raise Rejected(
            404,
            "not_found",
            "the query parameter cursor is not a cursor this gateway gave out",
            suggestion="list from the beginning, without a cursor",
        ) from None
    start = bisect.bisect_right(found, after, key=key) if after else 0
    page = found[start : start + limit]
    result: dict[str, object] = {member: [write(one) for one in page]}
    if start + limit < len(found):
        result["next_cursor"] = base64.urlsafe_b64encode(key(page[-1]).encode()).decode("ascii").rstrip("=")
    return json_response(result)


def _name(prompt: Prompt) -> str:
    return prompt.name


def _uri(one: Resource | Skill) -> str:
    return one.uri


def _said(one: object, *names: str) -> dict[str, Any]:
    return {name: value for name in names if (value := getattr(one, name)) not in ("", (), None)}


def _prompt(prompt: Prompt) -> Mapping[str, Any]:
    arguments = [
        _said(one, "name", "title", "description", "values") | {"required": one.required} for one in prompt.arguments
    ]
    return _said(prompt, "name", "title", "description", "icons", "digest") | {"arguments": arguments}


def _resource(resource: Resource) -> Mapping[str, Any]:
    shown = _said(resource, "uri", "name", "title", "description", "media_type", "size", "icons", "digest")
    if resource.is_template:
        shown["uri_template"] = shown.pop("uri")
        shown["variables"] = [_said(one, "name", "title", "description", "values") for one in resource.variables]
    return shown


def _skill(skill: Skill) -> Mapping[str, Any]:
    shown = {"uri": skill.uri, "front_matter": skill.entry.front_matter}
    if skill.entry.dynamic:
        return {**shown, "dynamic": True}
    return {**shown, "files": msgspec.to_builtins(skill.entry.files)}


def _content(one: ReadContent) -> Mapping[str, Json]:
    held: dict[str, Json] = {"uri": one.uri, "media_type": one.media_type}
    return held | ({"base64": base64.b64encode(one.body).decode()} if one.text is None else {"text": one.text})
