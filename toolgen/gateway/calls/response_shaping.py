"""Shaping of long answers for agents: selected fields, more pages, pieces, and links to bytes.

It happens after the pipeline, so the answer is already redacted for this caller before it is cut, stored and read on. No request to an
upstream system is made here, except by another call through the whole pipeline.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec.structs import replace

from toolgen.core.errors import AuditError, StateError
from toolgen.core.json_codec import decode_json
from toolgen.gateway.calls.answer_files import AnswerFiles, HeldFile, KeptFile, Whose, bound_to, owner_of, uri_of
from toolgen.gateway.calls.file_links import MAX_LINKS, parse_uri
from toolgen.gateway.calls.json_body import encode, ended
from toolgen.gateway.calls.linked_resources import LINKED, held_in, links_in, resource_call, with_uris
from toolgen.gateway.policies.compiled_policy import CompiledPolicy
from toolgen.model.call import Call, Principal, parties
from toolgen.model.files import FileTooLargeError
from toolgen.model.mcp_content import plain_data
from toolgen.model.media import SHOWN
from toolgen.model.result import Envelope, Error, Failed, More, Refused, Result, Shape, Success
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import Effect, Tool
from toolgen.model.unavailable import fault_error, unavailable
from toolgen.pipeline.middleware import CallContext, CallerConnection, Next
from toolgen.pipeline.responses.answer_argument import WHOLE, AnswerOptions, may_offer, option_name
from toolgen.pipeline.responses.choice import ChoiceError, located, paths_in
from toolgen.pipeline.responses.more import has_cursor, joined_lists, more_behind, more_of_page
from toolgen.pipeline.responses.pagination import Paging, items_of, joined, next_link
from toolgen.pipeline.responses.pieces import Position, cut, path_text, size_of, size_within
from toolgen.state.pauses import UNREADABLE, Pauses, SharedPauses
from toolgen.state.stored_answers import KEY_BYTES, StoredAnswers

__all__ = ["ResponseShaper"]

_MAX_JOINED_SIZE = 4 * 1024 * 1024
_NONCE, _CIPHER_KEY, _POSITION = 12, slice(16, KEY_BYTES), b"position "
_Run = Callable[[Next, Call, CallContext], Awaitable[Result]]
_Note = Callable[[Mapping[str, Any]], Awaitable[object]]
_UNREAD = unavailable("pauses cannot be read now", rule="pause")
_NO_FILE = Error(
    code="expired",
    message="this file does not exist (any more): it is stored for some time, for the caller it was given to",
    suggestion="make the call again that answered with it",
)
_GONE = Error(
    code="expired",
    message="the rest of this answer does not exist (any more): it is stored for some time, for the same caller and the same call",
    suggestion="make the call again without the cursor",
)


class _KeptAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Stored answer: its JSON, or the URIs of the resources that an MCP server's answer links to."""

    call_id: str
    truncated: bool = False
    body: bytes = b""
    links: tuple[str, ...] = ()


class ResponseShaper:
    """Shaping of answers. `record` makes an entry durable and raises `AuditError`; `run` sends a call through the whole pipeline."""

    def __init__(
        self,
        *,
        store: StoredAnswers,
        files: AnswerFiles,
        pauses: Pauses | SharedPauses,
        record: _Note,
        run: _Run,
    ) -> None:
        self._store = store
        self.files = files
        self._pauses = pauses
        self._record = record
        self._run = run

    async def presented(
        self,
        compiled_policy: CompiledPolicy,
        call: Call,
        result: Success,
        reading: AnswerOptions,
        caller_connection: CallerConnection,
    ) -> Success | Failed:
        """Return the part of an answer that is shown now. More pages are read while the client of `caller_connection` waits."""
        if result.shape is Shape.STORED:
            return await self.files.referenced(compiled_policy, call, result)
        if reading is not WHOLE and result.shape is Shape.CONTENT:
            result = replace(result, data=_plain(result), shape=Shape.WHOLE)
        result = await self._paged(compiled_policy, call, result, reading.pages, caller_connection)
        try:
            result = chosen(call.tool, result, reading)
        except ChoiceError as error:
            suggestion = f"correct {option_name(call.tool)}, or leave it out"
            return Failed(error=Error(code="validation", message=str(error), suggestion=suggestion, rule="arguments"))
        if result.shape is not Shape.CONTENT and result.delivery.files:
            result = await self.files.referenced(compiled_policy, call, result)
        if not call.tool.sends_request:
            return result
        if size_within(result.data, SHOWN) <= SHOWN:
            return result
        kept = _KeptAnswer(call_id=call.id, truncated=result.truncated, body=encode(result.data))
        bound = bound_to(compiled_policy, call.principal, call.tool, call.arguments)
        try:
            key = await self._store.put(msgspec.msgpack.encode(kept), owner=owner_of(call.principal), bound=bound)
        except StateError:
            return _piece(result, result.data, (), b"", b"")
        return _piece(_read_on_with(call.tool, result), result.data, (), key, bound)

    async def read_on(self, compiled_policy: CompiledPolicy, call: Call, cursor: str) -> Envelope:
        """Return the next piece of an answer to the same call. It is recorded, and sends no request."""
        try:
            token = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        except (ValueError, binascii.Error):
            token = b""
        bound = bound_to(compiled_policy, call.principal, call.tool, call.arguments)
        refusal = await self._refusal(compiled_policy, call.principal, call.tool)
        try:
            kept = None if refusal else await self._opened(token[:KEY_BYTES], bound)
        except StateError as error:
            kept, refusal = None, fault_error(error)
        position = _opened_position(token, bound)
        if kept is None or position is None:
            return _ended(call, call.id, Refused(error=refusal or _GONE), CallContext())
        value: Json = decode_json(kept.body)
        try:
            more = _read_on_with(call.tool, Success(data=None, truncated=kept.truncated))
            result = _piece(more, value, position, token[:KEY_BYTES], bound)
        except ValueError:
            return _ended(call, call.id, Refused(error=_GONE), CallContext())
        if fault := await self._noted(call.principal, call.tool, kept.call_id, size_of(result.data)):
            return _ended(call, kept.call_id, Refused(error=fault), CallContext())
        return _ended(call, kept.call_id, result, CallContext())

    async def fetch(
        self, compiled_policy: CompiledPolicy, principal: Principal, name: str, token: str
    ) -> KeptFile | Error:
        """Return a file that this principal got a link to."""
        found = await self._file(compiled_policy, principal, name, token)
        if isinstance(found, Error):
            return found
        tool, kept = found
        if isinstance(kept, _KeptAnswer):
            return _NO_FILE
        if fault := await self._noted(principal, tool, kept.info.call_id, kept.info.size):
            return fault
        return kept

    async def read(
        self,
        compiled_policy: CompiledPolicy,
        principal: Principal,
        uri: str,
        *,
        session: str = "",
        caller_connection: CallerConnection | None = None,
    ) -> tuple[KeptFile | HeldFile, ...] | Error:
        """Read a URI from an answer to this principal: a file, or the current content of an MCP server's resource."""
        place = parse_uri(uri)
        if place is None:
            return Error(code="not_found", message="there is no such resource")
        if place.link is None:
            fetched = await self.fetch(compiled_policy, principal, place.tool, place.token)
            return fetched if isinstance(fetched, Error) else (fetched,)
        found = await self._file(compiled_policy, principal, place.tool, place.token)
        if isinstance(found, Error):
            return found
        tool, kept = found
        if not isinstance(kept, _KeptAnswer) or place.link >= len(kept.links):
            return _NO_FILE
        call = resource_call(tool, kept.links[place.link], principal, session, parent=kept.call_id)
        call_context = CallContext(
            caller_connection=caller_connection or CallerConnection(), verdict="allow", rule=LINKED
        )
        result = await self._run(compiled_policy.read_resource, call, call_context)
        if not isinstance(result, Success):
            return result.error
        read = [HeldFile(body, kind) for kind, body in held_in(result.data)]
        if len(read) == 1 and len(read[0].body) > SHOWN:
            with suppress(StateError, FileTooLargeError):
                whose = Whose(compiled_policy=compiled_policy, principal=principal, tool=tool, call_id=kept.call_id)
                place_ = await self.files.keep(whose, read[0].body, read[0].info.media_type)
                read[0].uri = str(place_["uri"])
        return tuple(read)

    async def with_links(
        self, compiled_policy: CompiledPolicy, call: Call, result: Success | Failed
    ) -> Success | Failed:
        """Return an answer of an MCP server with the URIs by which this gateway reads its links."""
        links = links_in(result.data)[:MAX_LINKS]
        if not links:
            return result
        try:
            uri = await self._keep(
                compiled_policy, call.principal, call.tool, _KeptAnswer(call_id=call.id, links=links)
            )
        except StateError:
            return result
        return replace(result, data=with_uris(result.data, [f"{uri}/{number}" for number in range(len(links))]))

    async def _file(
        self, compiled_policy: CompiledPolicy, principal: Principal, name: str, token: str
    ) -> tuple[Tool, _KeptAnswer | KeptFile] | Error:
        """Return the file or links stored under a URI given to this principal, and the tool that answered."""
        tool = compiled_policy.tool(name)
        if tool is None:
            return _NO_FILE
        if refusal := await self._refusal(compiled_policy, principal, tool):
            return _NO_FILE if refusal is _GONE else refusal
        try:
            key = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
            bound = bound_to(compiled_policy, principal, tool, None)
            kept = await self.files.open(key, bound) or await self._opened(key, bound)
        except (ValueError, binascii.Error):
            return _NO_FILE
        except StateError as error:
            return fault_error(error)
        return _NO_FILE if kept is None else (tool, kept)

    async def _keep(self, compiled_policy: CompiledPolicy, principal: Principal, tool: Tool, kept: _KeptAnswer) -> str:
        """Store something for a caller, and return its URI. Raises `StateError`."""
        bound = bound_to(compiled_policy, principal, tool, None)
        key = await self._store.put(msgspec.msgpack.encode(kept), owner=owner_of(principal), bound=bound)
        return uri_of(tool, key)

    async def close(self) -> None:
        """Close the stores."""
        await self._store.close()
        await self.files.store.close()

    async def _refusal(self, compiled_policy: CompiledPolicy, principal: Principal, tool: Tool) -> Error | None:
        """Return the reason why an earlier answer may not be read on now: the caller may not call the tool any more, or the tool is
        paused."""
        if not compiled_policy.access.visible(principal, tool):
            return _GONE
        if self._pauses.stale and not await self._pauses.refresh():  # unreadable pauses count as paused
            return _UNREAD
        pause = self._pauses.covering(parties(principal), tool.source, tool.name)
        if pause is UNREADABLE:
            return _UNREAD
        if pause is not None:
            return Error(
                code="paused", message="calls like this are paused", suggestion="try again later", rule="pause"
            )
        return None

    async def _opened(self, key: bytes, bound: bytes) -> _KeptAnswer | None:
        """Return the answer that is stored under a key. Raises `StateError`."""
        body = await self._store.get(key, bound=bound)
        return None if body is None else msgspec.msgpack.decode(body, type=_KeptAnswer)

    async def _noted(self, principal: Principal, tool: Tool, call_id: str, size: int) -> Error | None:
        user = principal.on_behalf_of
        entry = {
            "event": "fetch",
            "call_id": call_id,
            "principal": principal.id,
            "on_behalf_of": "" if user is None else user.id,
            "tool": tool.name,
            "status": "ok",
            "bytes": size,
        }
        try:
            await self._record(entry)
        except AuditError as error:
            return fault_error(error, "the rest is not returned, because this could not be recorded")
        return None

    async def _paged(
        self,
        compiled_policy: CompiledPolicy,
        call: Call,
        result: Success,
        most: int,
        caller_connection: CallerConnection,
    ) -> Success:
        """Return the answer with the requested number of pages, and the cursor after the last one.

        Each page after the first is a call of its own, with the first call as its parent: it is limited, judged and recorded.
        """
        tool = call.tool
        paging = compiled_policy.pagings.of(tool) if tool.effect is Effect.READ else None
        cursor = paging is None and _follows_cursor(call, result)
        if (paging is None and not cursor) or any("." in name for name in call.bound):
            return replace(result, more=more_behind(tool, result, call.arguments))
        arguments = {name: value for name, value in call.arguments.items() if name not in call.bound}
        pages, size = [_plain(result)], _bytes(result)
        page, broken_off = replace(result, data=pages[0]), False
        for _ in range(most - 1):
            changes = _changes(paging, tool, arguments, page)
            if not changes or size > _MAX_JOINED_SIZE or (page.truncated and not cursor):
                break
            broken_off = caller_connection.disconnected()
            if broken_off:
                break
            asked = {**arguments, **changes}
            further = compiled_policy.call(
                tool.name,
                asked,
                call.principal,
                call.session,
                call.client,
                call.id,
                caller_connection=caller_connection,
            )
            further = replace(further, restored=call.restored, ancestry=call.ancestry)
            outcome = await self._run(compiled_policy.run, further, CallContext(caller_connection=caller_connection))
            if not isinstance(outcome, Success) or not _continues(outcome, pages[0], cursor=cursor):
                broken_off = True
                break
            arguments = asked
            page = replace(outcome, data=_plain(outcome))
            size += _bytes(page)
            pages.append(page.data)
        before = sum(len(_items(paging, one)) for one in pages[:-1])
        if paging is None:
            more = more_behind(tool, page, call.arguments, before)
        else:
            more = more_of_page(paging, arguments, page, before + (paging.begin(call.arguments) or 0 if before else 0))
        if more is not None and not set(call.bound).isdisjoint(more.arguments or ()):
            more = None
        if more is not None and more.arguments is not None and may_offer(tool, compiled_policy.pagings):
            more = replace(more, option=option_name(tool))
        truncated = page.truncated or broken_off
        if len(pages) == 1:
            return replace(result, truncated=truncated, more=more)
        data = _joined(paging, pages)
        return replace(result, data=data, truncated=truncated, next_cursor=page.next_cursor, more=more)


def _follows_cursor(call: Call, result: Success) -> bool:
    """Return True for an answer of GraphQL or SQL with one list and a cursor that the caller may set."""
    if call.tool.effect is not Effect.READ or result.shape is not Shape.WHOLE or not has_cursor(call.tool):
        return False
    more = more_behind(call.tool, result)
    changes = {} if more is None else more.arguments or {}
    return bool(changes) and set(call.bound).isdisjoint(changes) and located(result.data) is not None


def _changes(paging: Paging | None, tool: Tool, arguments: JsonObject, page: Success) -> Mapping[str, Any] | None:
    """Return the changed arguments for the next page, or None if there is none."""
    if paging is not None:
        return paging.following(arguments, page.data, next_link(page.delivery.link))
    more = more_behind(tool, page)
    changes = None if more is None else more.arguments
    return None if changes is None or all(arguments.get(name) == value for name, value in changes.items()) else changes


def _continues(outcome: Success, first: Json, *, cursor: bool) -> bool:
    """Return True for a page whose items can be appended to those of the first page."""
    if cursor and (outcome.shape is not Shape.WHOLE or located(outcome.data) is None):
        return False
    return type(_plain(outcome)) is type(first)


def _joined(paging: Paging | None, pages: Sequence[Json]) -> Json:
    return joined(pages) if paging is not None else joined_lists(pages)


def _items(paging: Paging | None, page: Json) -> Sequence[Json]:
    found = items_of(page) if paging is not None else located(page)
    return () if found is None else found[1]


def chosen(tool: Tool, result: Success, reading: AnswerOptions) -> Success:
    """Return the chosen items and fields of an answer. Raises `ChoiceError` if it has none of them."""
    if reading is WHOLE:
        return result
    if result.shape is Shape.GRAPHQL and isinstance(result.data, Mapping):  # data with errors beside it
        inner = chosen(tool, replace(result, data=result.data.get("data"), shape=Shape.WHOLE), reading)
        return replace(result, data={**result.data, "data": inner.data}, more=inner.more)
    if reading.choice is not None:
        picked = reading.choice.apply(result.data)
        more = result.more or More()
        if picked.shown < picked.read:
            matching = picked.matching if picked.matching < picked.read else None
            more = replace(more, read=picked.read, matching=matching, shown=picked.shown)
        result = replace(result, data=picked.data, more=more if more != More() else None)
    mask = reading.mask
    if mask is None:
        return result
    if not mask.fits(result.data) and (told := paths_in(result.data)):
        raise ChoiceError(f"{option_name(tool)}.fields: the answer has none of these; it has: {', '.join(told)}")
    return replace(result, data=mask.apply(result.data))


def _plain(result: Success) -> Json:
    """Return the data of a page; for an MCP server's answer its content, decoded if it is JSON in a text."""
    if result.shape is not Shape.CONTENT:
        return result.data
    data = plain_data(result.data)
    if isinstance(data, str) and data.lstrip()[:1] in ("{", "[") and len(data) <= _MAX_JOINED_SIZE:
        with suppress(ValueError, RecursionError):
            parsed: Json = decode_json(data.encode("utf-8", "surrogatepass"))
            return parsed
    return data


def _read_on_with(tool: Tool, result: Success) -> Success:
    """Return the answer with the name of the argument that takes its cursor."""
    return replace(result, cursor_argument=option_name(tool))


def _piece(result: Success, value: Json, start: Position, key: bytes, bound: bytes) -> Success:
    """Return a piece of a value, with the cursor of the next one if it is stored."""
    part = cut(value, SHOWN, start, longer=not start)
    if part.after is None:
        return replace(result, data=part.value)
    cursor = ""
    if key:
        nonce = secrets.token_bytes(_NONCE)
        sealed = AESGCM(key[_CIPHER_KEY]).encrypt(nonce, msgspec.json.encode(part.after), _POSITION + bound)
        cursor = base64.urlsafe_b64encode(key + nonce + sealed).decode().rstrip("=")
    return replace(result, data=part.value, truncated=True, next_cursor=cursor, cut_at=path_text(part.after))


def _opened_position(token: bytes, bound: bytes) -> Position | None:
    """Return the position at which a cursor continues; None for one that was changed, or given for another call."""
    nonce, sealed = token[KEY_BYTES : KEY_BYTES + _NONCE], token[KEY_BYTES + _NONCE :]
    if len(nonce) != _NONCE or not sealed:
        return None
    try:
        written = AESGCM(token[_CIPHER_KEY]).decrypt(nonce, sealed, _POSITION + bound)
    except InvalidTag:
        return None
    return tuple(msgspec.json.decode(written))


def _bytes(result: Success) -> int:
    return size_of(result.data) if result.delivery.bytes is None else result.delivery.bytes


def _ended(call: Call, call_id: str, result: Result, call_context: CallContext) -> Envelope:
    return ended(call.tool.name, call_id, result, call_context, 0.0)
