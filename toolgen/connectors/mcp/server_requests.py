"""Requests of MCP servers to the caller of a tool: parsing of requests and answers, time limits, and JSON-RPC responses.

A request is rebuilt from the members that the protocol has for it (MCP 2025-11-25 and 2026-07-28, client/sampling, client/elicitation,
client/roots). One that holds anything not understood where that matters, or too much, is refused.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final
from urllib.parse import urlsplit

import jsonschema_rs

from toolgen.connectors.http.scrubber import Scrubber
from toolgen.connectors.mcp.request_texts import BadRequestError, bounds_in, is_name, is_number, is_shown, request_text
from toolgen.connectors.mcp.sampling_requests import sampling_answer, sampling_request
from toolgen.core.json_codec import TooDeepError, encode_json
from toolgen.model.apps import APP_TYPE, APPS_EXTENSION
from toolgen.model.caller_requests import SAMPLING_TOOLS, SERVER_REQUESTS, RequestKind, permitted, request_kind
from toolgen.model.client_channel import ClientChannel, ForwardingChannel, Unasked
from toolgen.model.excerpt import bounded
from toolgen.model.prompt_injection import visible
from toolgen.model.schema import Json, JsonObject

__all__ = ["NO_ANSWER", "CallTime", "ServerRequests", "declared", "refusal_of", "response_to"]

_MAX_AT_ONCE: Final = 16
_MAX_OF_CALL: Final = 64
_MAX_REQUEST_SIZE: Final = 65_536
_MAX_ANSWER_SIZE: Final = 1024 * 1024
_MAX_MESSAGE_LENGTH: Final = 4000
_MAX_TITLE_LENGTH: Final = 500
_MAX_URL_LENGTH: Final = 2048
_MAX_FIELDS: Final = 64
_MAX_VALUES: Final = 500
_MAX_ROOTS: Final = 100
_FORMATS: Final = frozenset({"email", "uri", "date", "date-time"})
_NOT_OFFERED: Final = -32601
_INVALID: Final = -32602
_NOT_ANSWERED: Final = -1  # as the specification has it for a request that the user rejected
_POLL_S: Final = 0.25
NO_ANSWER: Final = "the caller of the tool cannot be asked, or gave no answer"


class CallTime:
    """Time limit of a call, which does not run while its caller is asked."""

    def __init__(self, until: float) -> None:
        self._until = until
        self._asking = 0
        self._since = 0.0

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return max(0.0, self._until - asyncio.get_running_loop().time())

    def shortened(self, most: float) -> CallTime:
        """Return a limit of at most `most` seconds from now on."""
        return CallTime(asyncio.get_running_loop().time() + min(most, self.left))

    def hold(self) -> None:
        """Stop the clock."""
        self._asking += 1
        if self._asking == 1:
            self._since = asyncio.get_running_loop().time()

    def go_on(self) -> None:
        """Start the clock again once no request waits for an answer."""
        self._asking -= 1
        if not self._asking:
            self._until += asyncio.get_running_loop().time() - self._since

    async def wait(self, work: asyncio.Future[Any]) -> None:
        """Wait until the work is done, or the time is over."""
        loop = asyncio.get_running_loop()
        while not work.done():
            left = _POLL_S if self._asking else self._until - loop.time()
            if left <= 0:
                return
            await asyncio.wait({work}, timeout=left)


class ServerRequests(ForwardingChannel):
    """Client channel that checks a server's requests to the caller, and the caller's answers. `offered` are the kinds of requests that
    the source allows, and `answered` is called with the kind of each request that has an answer. `page_id` returns the id by which the
    caller knows a web page."""

    def __init__(
        self,
        line: ClientChannel,
        offered: frozenset[str],
        time: CallTime,
        answered: Callable[[RequestKind | None], None] = lambda _: None,
        page_id: Callable[[str], str] = lambda page: page,
    ) -> None:
        super().__init__(line, permitted(line.capabilities, offered))
        self._answered, self._page_id = answered, page_id
        self._time = time
        self._count = self._open = 0

    async def ask(self, key: str, method: str, params: JsonObject) -> Json:
        """The caller's answer. Raises `BadRequestError` for a request that cannot be passed on, and `Unasked`."""
        checked = _checked_request(method, params, with_tools=SAMPLING_TOOLS in self.capabilities)
        if self._open >= _MAX_AT_ONCE or self._count >= _MAX_OF_CALL:
            raise Unasked("the call has made too many requests")
        if isinstance(page := checked.get("elicitationId"), str):
            checked = {**checked, "elicitationId": self._page_id(page)}
        self._count += 1
        self._open += 1
        self._time.hold()
        try:
            answer = await self._line.ask(key, method, checked)
        finally:
            self._open -= 1
            self._time.go_on()
        self._answered(request_kind(method, checked))
        return _checked_answer(method, checked, answer)


def declared(kinds: frozenset[str], *, apps: bool = False, stateful: bool = False) -> JsonObject:
    """Return the client capabilities of these kinds of requests, and of a client that shows apps. `stateful`: changed roots are told, which
    2026-07-28 has no notification for."""
    found: dict[str, Json] = {"roots": {"listChanged": True} if stateful else {}} if "roots" in kinds else {}
    if "sampling" in kinds:
        found["sampling"] = {"tools": {}} if SAMPLING_TOOLS in kinds else {}
    modes: dict[str, Json] = {
        mode: {} for mode, kind in (("form", "elicitation"), ("url", "elicitation_url")) if kind in kinds
    }
    found |= {"elicitation": modes} if modes else {}
    return {**found, "extensions": {APPS_EXTENSION: {"mimeTypes": [APP_TYPE]}}} if apps else found


async def response_to(
    line: ClientChannel, number: str | int, method: str, params: Json, scrubber: Scrubber
) -> JsonObject:
    """Return the JSON-RPC response to a request of a server, in which `scrubber` hides the secrets that the server was given."""
    reply: JsonObject = {"jsonrpc": "2.0", "id": number}
    try:
        given = _scrubbed(params, scrubber) if isinstance(params, Mapping) else {}
        return {**reply, "result": await line.ask(SERVER_REQUESTS[method], method, given)}
    except BadRequestError as error:
        return {**reply, "error": {"code": _INVALID, "message": str(error)}}
    except Unasked as error:
        message = str(error) or NO_ANSWER
        return {**reply, "error": {"code": _NOT_ANSWERED, "message": message}}


def _scrubbed(value: Json, scrubber: Scrubber) -> Any:
    match value:
        case str():
            return scrubber.text(value)
        case list():
            return [_scrubbed(one, scrubber) for one in value]
        case Mapping():
            return {scrubber.text(name): _scrubbed(one, scrubber) for name, one in value.items()}
        case _:
            return value


def refusal_of(method: object, number: str | int) -> JsonObject:
    """Return the response to a request that is passed on to nobody; a ping is answered."""
    if method == "ping":
        return {"jsonrpc": "2.0", "id": number, "result": {}}
    error: JsonObject = {"code": _NOT_OFFERED, "message": "this client does not offer that to the server"}
    return {"jsonrpc": "2.0", "id": number, "error": error}


def _checked_request(method: str, params: JsonObject, *, with_tools: bool) -> JsonObject:
    try:
        size = len(encode_json(params))
    except TooDeepError:
        raise BadRequestError("the request is nested too deep") from None
    if size > _MAX_REQUEST_SIZE:
        raise BadRequestError("the request is too large")
    match request_kind(method, params):
        case "sampling":
            return sampling_request(params, with_tools=with_tools)
        case "elicitation":
            return _form(params)
        case "elicitation_url":
            return _page(params)
        case "roots":
            return {}
        case None:
            raise BadRequestError("there is no such request")


def _page(params: JsonObject) -> JsonObject:
    url, number = params.get("url"), params.get("elicitationId")
    if not isinstance(url, str) or not _is_page(url):
        raise BadRequestError("url must be an https URL without credentials")
    known = isinstance(number, str) and is_name(number)
    return {
        "mode": "url",
        "message": request_text(params, "message", _MAX_MESSAGE_LENGTH),
        "url": url,
        "elicitationId": number if known else secrets.token_hex(8),  # which 2026-07-28 has no more
    }


def _is_page(url: str) -> bool:
    """Return True for an https URL that a person can read, or an http URL of this machine."""
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url or len(url) > _MAX_URL_LENGTH:
        return False
    try:
        parts = urlsplit(url)
        local = parts.scheme == "http" and parts.hostname in {"127.0.0.1", "localhost", "::1"}
        return bool(parts.hostname) and "@" not in parts.netloc and (parts.scheme == "https" or local)
    except ValueError:
        return False


def _form(params: JsonObject) -> JsonObject:
    schema = params.get("requestedSchema")
    if params.get("mode", "form") != "form" or not isinstance(schema, Mapping) or schema.get("type") != "object":
        raise BadRequestError("requestedSchema must describe an object")
    properties, required = schema.get("properties"), schema.get("required", [])
    if not isinstance(properties, Mapping) or len(properties) > _MAX_FIELDS or not isinstance(required, list):
        raise BadRequestError("requestedSchema has no properties, or too many")
    fields: dict[str, Json] = {}
    for name, field in properties.items():
        if not is_name(name) or not isinstance(field, Mapping):
            raise BadRequestError("requestedSchema has a property that cannot be shown")
        fields[name] = _field(field)
    needed: list[Json] = [name for name in required if isinstance(name, str) and name in fields]
    if len(needed) != len(required):
        raise BadRequestError("requestedSchema requires a property that it does not have")
    wanted: JsonObject = {"type": "object", "properties": fields, **({"required": needed} if needed else {})}
    return {"mode": "form", "message": request_text(params, "message", _MAX_MESSAGE_LENGTH), "requestedSchema": wanted}


def _field(field: JsonObject) -> JsonObject:
    """A field of a form (2025-11-25, schema, PrimitiveSchemaDefinition)."""
    made: dict[str, Json] = {
        name: request_text(field, name, _MAX_TITLE_LENGTH) for name in ("title", "description") if name in field
    }
    kind = field.get("type")
    made["type"] = kind
    match kind:
        case "string":
            made |= _choices(field) or bounds_in(field, ("minLength", "maxLength"), _is_count)
            if field.get("format") in _FORMATS:
                made["format"] = field["format"]
            made |= _default(field, is_shown)
        case "number" | "integer":
            made |= bounds_in(field, ("minimum", "maximum"), is_number) | _default(field, is_number)
        case "boolean":
            made |= _default(field, lambda value: isinstance(value, bool))
        case "array":
            items = field.get("items")
            choices = _choices(items) if isinstance(items, Mapping) else {}
            if not choices:
                raise BadRequestError("a list of a form must be one of choices")
            made["items"] = choices if "anyOf" in choices else {"type": "string", **choices}
            made |= bounds_in(field, ("minItems", "maxItems"), _is_count)
            made |= _default(field, lambda value: isinstance(value, list) and all(map(is_shown, value)))
        case _:
            raise BadRequestError("a field of a form must be a text, a number, a boolean or a choice")
    return made


def _choices(field: JsonObject) -> dict[str, Json]:
    """The values that a text may have, each with its title where it has one."""
    for name in ("oneOf", "anyOf"):
        titled = field.get(name)
        if isinstance(titled, list):
            return {name: [_choice(one) for one in _few(titled)]}
    values, titles = field.get("enum"), field.get("enumNames")
    if not isinstance(values, list):
        return {}
    if not all(map(is_shown, _few(values))):
        raise BadRequestError("a choice of a form must be a text without hidden characters")
    made: dict[str, Json] = {"enum": list(values)}
    if isinstance(titles, list) and len(titles) == len(values) and all(map(is_shown, titles)):
        made["enumNames"] = list(titles)
    return made


def _choice(one: Json) -> JsonObject:
    value, title = (one.get("const"), one.get("title")) if isinstance(one, Mapping) else (None, None)
    if not is_shown(value):
        raise BadRequestError("a choice of a form must be a text without hidden characters")
    return {"const": value, "title": bounded(visible(title), _MAX_TITLE_LENGTH) if isinstance(title, str) else value}


def _few(values: list[Json]) -> list[Json]:
    if not 0 < len(values) <= _MAX_VALUES:
        raise BadRequestError("a field of a form has no choices, or too many")
    return values


def _default(field: JsonObject, fits: Callable[[Json], bool]) -> dict[str, Json]:
    if "default" not in field or field["default"] is None:
        return {}
    if not fits(field["default"]):
        raise BadRequestError("a default of a form does not fit its field")
    return {"default": field["default"]}


def _checked_answer(method: str, params: JsonObject, answer: Json) -> JsonObject:
    """The members of an answer that the protocol has for it. Raises `Unasked` for anything else."""
    kind: RequestKind | None = request_kind(method, params)
    if not isinstance(answer, Mapping) or len(encode_json(answer)) > _MAX_ANSWER_SIZE:
        raise Unasked
    if kind == "roots":
        roots = answer.get("roots")
        found = [_root(one) for one in islice(roots if isinstance(roots, list) else [], _MAX_ROOTS)]
        return {"roots": [one for one in found if one is not None]}
    if kind == "sampling":
        try:
            return sampling_answer(params, answer)
        except BadRequestError:
            raise Unasked from None
    action = answer.get("action")
    if action != "accept":
        return {"action": action if action in {"decline", "cancel"} else "cancel"}
    if kind == "elicitation_url":
        return {"action": "accept"}
    content = answer.get("content")
    if not isinstance(content, Mapping) or not _fits(params["requestedSchema"], content):
        raise Unasked
    return {"action": "accept", "content": dict(content)}


def _root(one: Json) -> JsonObject | None:
    uri, name = (one.get("uri"), one.get("name")) if isinstance(one, Mapping) else (None, None)
    if not isinstance(uri, str) or not uri.startswith("file://") or len(uri) > _MAX_URL_LENGTH:
        return None
    return {"uri": uri, "name": name} if isinstance(name, str) else {"uri": uri}


def _fits(schema: Json, content: Mapping[str, Json]) -> bool:
    try:
        return jsonschema_rs.validator_for(dict(schema) if isinstance(schema, Mapping) else {}, offline=True).is_valid(
            dict(content)
        )
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError):
        return False


def _is_count(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
