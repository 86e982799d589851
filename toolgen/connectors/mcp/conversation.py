"""Conversation with an MCP server: negotiates a protocol revision, lists tools and calls them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from itertools import islice
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from toolgen.connectors.mcp.messages import (
    STATELESS,
    Agreed,
    SharedSession,
    Wire,
    cancel_notification,
    failed,
    harmless,
    initialize,
    modern,
    request,
    result_of,
    speaks,
)
from toolgen.connectors.mcp.server_requests import CallTime, ServerRequests, declared
from toolgen.core.background import cancel
from toolgen.core.clock import Clock
from toolgen.core.errors import CanonicalError
from toolgen.model.apps import AppPage, page_of
from toolgen.model.call import Call
from toolgen.model.caller_requests import ROOTS_CHANGED, SAMPLING_TOOLS, RequestKind, permitted
from toolgen.model.excerpt import bounded
from toolgen.model.icons import icons_in, is_web_address
from toolgen.model.mcp import ListedTool, ServerTools, parts_of
from toolgen.model.mcp_context import (
    ListedContext,
    ListedPrompt,
    ListedResource,
    ListedSkill,
    ListedTemplate,
    context_parts,
    key_of,
)
from toolgen.model.result import Delivery, Failed, Success
from toolgen.model.schema import Json, JsonObject
from toolgen.model.skills import SKILLS_EXTENSION
from toolgen.model.tool import Effect, McpBinding

__all__ = ["Conversation", "Parts"]

_MAX_PAGES = 100
_MAX_TOOLS = 2000
_MAX_LISTING_SIZE = 8 * 1024 * 1024
_LISTED_S = 60.0
_LISTING_S = 15.0  # for a build
_PARTING_S = 5.0
# The answers of the official SDKs of TypeScript and Python to a session that they do not know, beside 404.
_NO_SUCH_SESSION: Final = frozenset({-32000, -32001, -32600})
_DENIED: Final = frozenset({401, 403})
Parts: TypeAlias = dict[str, dict[str, str]]


_TOOLS: Final = "tools/list"
_ALL_OFFERS: Final = frozenset({"tools", "prompts", "resources", "completions", "unknown"})
"""Of a server whose capabilities were not read here: another worker shook hands with it."""
_CONTEXT: Final[Mapping[str, tuple[str, str, type[ListedContext]]]] = {
    "prompts/list": ("prompts", "prompts", ListedPrompt),
    "resources/list": ("resources", "resources", ListedResource),
    "resources/templates/list": ("resources", "templates", ListedTemplate),
}
"""By method: the capability, the member of a listing, and the form of each item."""
_MEMBERS: Final = {"prompts": "prompts", "resources": "resources", "templates": "resourceTemplates"}
_LISTS: Final = (_TOOLS, *_CONTEXT)
_NO_METHOD: Final = -32601
_META_SERVER: Final = "io.modelcontextprotocol/serverInfo"
_MAX_INSTRUCTIONS_LENGTH: Final = 8192


class _KnownList:
    """List of a server as it was last read, and the task that reads it again."""

    __slots__ = ("at", "listing", "parts")

    def __init__(self) -> None:
        self.parts: Parts | None = None
        self.at = 0.0
        self.listing: asyncio.Task[Parts | Failed] | None = None

    def refreshed(self, task: asyncio.Task[Parts | Failed]) -> None:
        self.listing = None


class Conversation:
    """Conversation with an MCP server for one caller: negotiated revision and session, and the server's tools. Requests run concurrently.

    `total_s` is the time limit of negotiating and listing. Both are done once for all callers that wait for them, each with its own time
    limit. `shared` is the session that several workers share, `allow` what the server is offered to request of callers; `apps`: it is told
    that apps are shown.
    """

    def __init__(
        self,
        wire: Wire,
        clock: Clock,
        total_s: float,
        shared: SharedSession | None = None,
        allow: frozenset[str] = frozenset(),
        *,
        apps: bool = False,
    ) -> None:
        self._wire = wire
        self._allow, self._apps = allow, apps
        self._shared = shared
        self._lost_epoch: int | None = None
        self._clock = clock
        self._total_s = total_s
        self._epoch: int | None = None
        self._agreed = Agreed()
        self._number = 0
        self._said = ServerTools(server="", version="", tools=())
        self._offers: frozenset[str] = frozenset(_ALL_OFFERS)
        self.subscribes = False
        """True if the server tells of changed resources to whom subscribes to them."""
        self._lists = {kind: _KnownList() for kind in _LISTS}
        self._telling: set[asyncio.Task[None]] = set()

    async def listing(self, call: Call) -> ServerTools | Failed:
        """Every tool the server shows this caller, over all pages; starting it and agreeing with it count as well."""
        longest_s, agreed = min(self._total_s, _LISTING_S), False
        try:
            async with asyncio.timeout(longest_s):
                if fault := await self._agree(call):
                    return fault
                agreed = True
                tools = await self._list(call)
                if isinstance(tools, Failed):
                    return tools
                return await self._with_context(await self._with_apps(tools, call), call)
        except TimeoutError:
            what = "its list of tools" if agreed else "its answer to the handshake (`initialize`)"
            return _late(f"{what} did not come in time: the limit for both is {longest_s:g} seconds")

    async def parts(self, call: Call, until: float, kind: str = "tools/list") -> Parts | Failed:
        """The digests of what the server says of its tools, by name, or of its prompts and resources (by the method that lists them): as
        it said a minute ago at the longest. One that is listed twice has none. `until` (the loop's time) is how long this caller waits."""
        known_list = self._lists[kind]
        while True:
            if (known := self._known(known_list)) is not None:
                return known
            task, joined = known_list.listing, known_list.listing is not None
            if task is None:
                task = known_list.listing = asyncio.create_task(self._refresh(call, kind))
                task.add_done_callback(known_list.refreshed)
            await asyncio.wait({task}, timeout=max(0.0, until - asyncio.get_running_loop().time()))
            if not task.done():
                return _late("the server did not say in time which tools it has")
            found = task.result()
            if not (joined and isinstance(found, Failed) and found.error.code == "upstream_timeout"):
                return found  # one whose time began before this caller's is begun again

    def _known(self, known: _KnownList) -> Parts | None:
        age = self._clock.monotonic() - known.at
        if known.parts is None or age > _LISTED_S or self._epoch is None or self._ready() != self._epoch:
            return None
        if self._wire.stale():
            self._forget_lists()
        return known.parts

    def _forget_lists(self) -> None:
        for known in self._lists.values():
            known.parts = None

    def _ready(self) -> int | None:
        return self._wire.ready() if self._shared is None else self._shared.epoch

    def _forget(self) -> None:
        """The server is to be met again."""
        self._lost_epoch, self._epoch = self._epoch or self._lost_epoch, None

    async def _refresh(self, call: Call, kind: str) -> Parts | Failed:
        """Agrees where that has to be, and lists. A session whose list cannot be had is forgotten."""
        try:
            async with asyncio.timeout(self._total_s):
                listing = await self._listed_again(call, kind)
        except TimeoutError:
            self._wire.doubt()
            listing = _late("the server did not say in time which tools it has")
        known = self._lists[kind]
        if isinstance(listing, Failed):
            if kind == _TOOLS:  # what is wrong with another list is no reason to begin again with the tools
                self._forget()
            return listing
        known.parts, known.at = listing, self._clock.monotonic()
        return listing

    async def _listed_again(self, call: Call, kind: str) -> Parts | Failed:
        known = self._epoch is not None
        if fault := await self._agree(call):
            return fault
        listing = await self._parts_of(call, kind)
        if (
            isinstance(listing, Failed) and known and self._epoch is None
        ):  # the session was there before, and is no more
            listing = await self._agree(call) or await self._parts_of(call, kind)
        return listing

    async def _parts_of(self, call: Call, kind: str) -> Parts | Failed:
        if kind == _TOOLS:
            tools = await self._list(call)
            return tools if isinstance(tools, Failed) else _parts((tool.name, tool) for tool in tools.tools)
        found = await self._pages(kind, call)
        return found if isinstance(found, Failed) else _parts((key_of(one), one) for one in found)

    async def _with_apps(self, tools: ServerTools, call: Call) -> ServerTools:
        """The listing with the pages of its tools' apps; where apps are not allowed, without anything about apps. A page that cannot be
        read is left out."""
        if not self._apps:
            return replace(tools, tools=tuple(replace(one, meta=None) for one in tools.tools))
        uris = {one.app.uri: None for one in tools.tools if one.app is not None and one.app.uri}
        pages: list[AppPage] = []
        size = 0
        for uri in islice(uris, _MAX_PAGES):
            found = await self._asked("resources/read", {"uri": uri}, call)
            size += found.delivery.bytes or 0
            if size > _MAX_LISTING_SIZE:
                break
            page = page_of(uri, found.data) if isinstance(found, Success) and isinstance(found.data, Mapping) else None
            pages += [] if page is None else [page]
        return replace(tools, apps=tuple(pages))

    async def _with_context(self, tools: ServerTools, call: Call) -> ServerTools | Failed:
        """The listing with the prompts and resources of a server that says that it has some."""
        found: dict[str, tuple[ListedContext, ...]] = {}
        for kind, (offer, member, _) in _CONTEXT.items():
            if offer in self._offers and self._offers != _ALL_OFFERS:
                listed = await self._pages(kind, call)
                if isinstance(listed, Failed):
                    return listed
                found[member] = listed
        skills = await self._skills(call) if SKILLS_EXTENSION in self._offers else ()
        if isinstance(skills, Failed):
            return skills
        completes = "completions" in self._offers and self._offers != _ALL_OFFERS
        return replace(tools, **found, completes=completes, skills=skills)

    async def _skills(self, call: Call) -> tuple[ListedSkill, ...] | Failed:
        """Every skill of the server, with the digests of its files."""
        found: list[ListedSkill] = []
        async for page in self._each_page("skills/list", call):
            if isinstance(page, Failed):
                return page
            try:
                found += msgspec.convert(page.get("skills"), tuple[ListedSkill, ...])
            except (msgspec.ValidationError, RecursionError):
                return failed("upstream_error", "the server's answer to skills/list is not as MCP has it")
            if len(found) > _MAX_TOOLS:
                return failed("response_too_large", f"the server lists more than {_MAX_TOOLS} skills")
        return tuple(found)

    async def _pages(self, kind: str, call: Call) -> tuple[ListedContext, ...] | Failed:
        """Every prompt, resource or template of the server. A server without that method has none."""
        _, member, model = _CONTEXT[kind]
        found: list[ListedContext] = []
        async for page in self._each_page(kind, call):
            if isinstance(page, Failed):
                unknown = isinstance(page.data, Mapping) and _code_of(page.data) == _NO_METHOD
                return () if unknown else page
            try:
                found += msgspec.convert(page.get(_MEMBERS[member]), tuple[model, ...])  # type: ignore[valid-type]
            except (msgspec.ValidationError, RecursionError):
                return failed("upstream_error", f"the server's answer to {kind} is not as MCP has it")
            if len(found) > _MAX_TOOLS:
                return failed("response_too_large", f"the server lists more than {_MAX_TOOLS} {member}")
        return tuple(found)

    async def _each_page(self, kind: str, call: Call) -> AsyncIterator[JsonObject | Failed]:
        cursors: set[str] = set()
        params: JsonObject = {}
        size = 0
        for _ in range(_MAX_PAGES):
            page = await self._asked(kind, params, call)
            if isinstance(page, Failed):
                yield page
                return
            result = page.data if isinstance(page.data, dict) else {}
            size += page.delivery.bytes or 0
            if size > _MAX_LISTING_SIZE:
                yield failed("response_too_large", f"the server's answers to {kind} are larger than may be")
                return
            yield result
            cursor = result.get("nextCursor")
            if not isinstance(cursor, str) or not cursor:
                return
            if cursor in cursors:
                break
            cursors.add(cursor)
            params = {"cursor": cursor}
        yield failed("upstream_error", f"the server's answer to {kind} has no end, or more than {_MAX_PAGES} pages")

    def asking(
        self, call: Call, time: CallTime, answered: Callable[[RequestKind | None], None], page_id: Callable[[str], str]
    ) -> Call:
        """Return the call with the channel over which the server may make requests of its caller. `answered` is called with their kinds,
        and `page_id` returns the id by which the caller knows a web page of the server."""
        if call.line is None or not (self._allow and call.line.capabilities):
            return call
        return replace(call, line=ServerRequests(call.line, self._allow, time, answered, page_id))

    async def tell_changed_roots(self, call: Call) -> None:
        """Tell the server that folders of its caller have changed, if the session is known in which it may have asked for them."""
        if self._epoch is not None and self._ready() == self._epoch and self._agreed.version != STATELESS:
            await self._wire.tell({"jsonrpc": "2.0", "method": ROOTS_CHANGED}, self._agreed, call)

    async def call(self, method: str, params: JsonObject, call: Call, time: CallTime) -> Success | Failed | None:
        """Send a caller's request and return the server's answer, within its `time`.

        Returns None if the server no longer knows the session: nothing was done, and `parts` begins a new one.

        If the caller disconnects, the server is sent a cancellation. A request that may change something is then awaited for a little
        longer, so that its outcome is known.
        """
        agreed, number = self._agreed, self._next()
        if meta := _meta_of(call, number):
            params = {**params, "_meta": meta}
        binding = call.tool.binding
        tasks = isinstance(binding, McpBinding) and binding.task
        kinds = permitted(call.line.capabilities, self._allow) if self._allow and call.line is not None else frozenset()
        message = self._request(method, params, number, tasks=tasks, kinds=kinds)
        asking = asyncio.create_task(self._wire.ask(message, agreed, call))
        try:
            await time.wait(asking)
            if asking.done():
                return None if self._lost(asking.result(), agreed) else result_of(asking.result(), call, method)
            self._call_off(number, agreed, call)
            self._wire.doubt()
            return _unanswered(call, method, "did not answer in time", broken=True)
        except asyncio.CancelledError:
            self._call_off(number, agreed, call)
            if (
                call.line is None
                or not call.line.disconnected()
                or call.tool.effect is Effect.READ
                or method != "tools/call"
            ):
                raise
            told = self._wire.hears_cancellation(agreed)  # otherwise it hears of it once the connection ends
            await asyncio.wait({asking}, timeout=min(_PARTING_S, time.left) if told else 0)
            if asking.done():
                return result_of(asking.result(), call, method)
            return _unanswered(
                call, method, "was told that its caller left, and did not say how the call ended", broken=False
            )
        finally:
            asking.cancel()

    @property
    def version(self) -> str:
        """The revision that was agreed on; "" before."""
        return self._agreed.version

    @property
    def agreed(self) -> Agreed:
        """Negotiated revision and session."""
        return self._agreed

    def numbered(self, method: str, params: JsonObject) -> JsonObject:
        """Return a request under the next number."""
        return self._request(method, params, self._next())

    def cancel_task(self, task_id: str, call: Call) -> None:
        """Tells the server that nobody waits for a task, without waiting for that."""
        time = CallTime(asyncio.get_running_loop().time() + _PARTING_S)
        telling = asyncio.create_task(self._told("tasks/cancel", {"taskId": task_id}, replace(call, line=None), time))
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)

    async def _told(self, method: str, params: JsonObject, call: Call, time: CallTime) -> None:
        await self.call(method, params, call, time)

    def _call_off(self, number: int, agreed: Agreed, call: Call) -> None:
        """Tells the server that nobody waits for an answer, without waiting for that."""
        if not self._wire.hears_cancellation(agreed):
            return
        telling = asyncio.create_task(self._wire.tell(cancel_notification(number), agreed, call))
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)

    async def close(self) -> None:
        """Ends what goes on without anybody waiting for it."""
        listing = (known.listing for known in self._lists.values() if known.listing is not None)
        await cancel(*self._telling, *listing)

    async def _asked(self, method: str, params: JsonObject, call: Call) -> Success | Failed:
        """The `result` of a request that changes nothing. One that the server does not have is Failed with the server's error as data."""
        agreed, number = self._agreed, self._next()
        try:
            outcome = await self._wire.ask(self._request(method, params, number), agreed, call)
        except asyncio.CancelledError:
            self._call_off(number, agreed, call)
            raise
        self._lost(outcome, agreed)
        found = result_of(outcome, call, method)
        if isinstance(found, Failed) and isinstance(outcome.data, Mapping) and _code_of(outcome.data) == _NO_METHOD:
            return replace(found, data=outcome.data)
        return found

    def _request(
        self,
        method: str,
        params: JsonObject,
        number: int,
        *,
        tasks: bool = False,
        kinds: frozenset[str] = frozenset(),
    ) -> JsonObject:
        stateless = self._agreed.version == STATELESS
        return request(
            method,
            modern(params, tasks=tasks, capabilities=declared(kinds, apps=self._apps)) if stateless else params,
            number,
        )

    def _lost(self, outcome: Success | Failed, agreed: Agreed) -> bool:
        """Return True if the server no longer knows the session of the request, and forget that session."""
        if not _is_lost(outcome, agreed):
            return False
        if self._agreed is agreed:
            self._forget()
        return True

    def _next(self) -> int:
        self._number += 1
        return self._number

    async def _agree(self, call: Call) -> Failed | None:
        """Meets the server, unless that was done."""
        epoch = await self._wire.begin()
        if isinstance(epoch, Failed):
            return epoch
        if self._shared is not None:
            return await self._agree_together(self._shared, call)
        if epoch == self._epoch:
            return None
        fault = await self._handshake(call)
        if fault is None:
            self._epoch = epoch
        return fault

    async def _agree_together(self, shared: SharedSession, call: Call) -> Failed | None:
        """Joins the session that another worker began, or begins it for all."""
        if self._epoch is not None and shared.epoch == self._epoch:
            return None
        met = await shared.meet(self._lost_epoch)
        if isinstance(met, Failed):
            return met
        self._number = met.above
        self._forget_lists()
        if met.agreed is not None:
            server, version = met.server
            self._said = ServerTools(server=server, version=version, tools=())
            self._agreed, self._epoch = met.agreed, met.epoch
            return None
        agreed = None
        try:
            if fault := await self._handshake(call):
                return fault
            agreed, self._epoch = self._agreed, met.epoch
        finally:
            shared.settle(agreed, (self._said.server, self._said.version))
        return None

    async def _handshake(self, call: Call) -> Failed | None:
        """Begins with the handshake, which every server but the newest knows; those answer it with an error."""
        self._forget_lists()
        answer = await self._wire.ask(
            initialize(self._next(), declared(self._allow | {SAMPLING_TOOLS}, apps=self._apps, stateful=True)),
            Agreed(),
            call,
        )
        outcome = result_of(answer, call, "initialize")
        if isinstance(outcome, Success) and isinstance(outcome.data, dict):
            return await self._shake(outcome, call)
        if _is_other_era(answer):
            return await self._discover(call, outcome)
        return outcome if isinstance(outcome, Failed) else None

    async def _shake(self, outcome: Success, call: Call) -> Failed | None:
        result = outcome.data
        assert isinstance(result, dict)  # noqa: S101 - as `_agree` saw
        version, session = speaks(result), outcome.delivery.session
        if not version:
            return failed("upstream_error", "the server speaks a revision of MCP that this gateway does not")
        self._agreed = Agreed(version=version, session=session)
        self._said, self._offers = _said_of(result, result.get("serverInfo")), _offers(result)
        self.subscribes = _takes_subscriptions(result)
        await self._wire.tell({"jsonrpc": "2.0", "method": "notifications/initialized"}, self._agreed, call)
        return None

    async def _discover(self, call: Call, refused: Success | Failed) -> Failed | None:
        agreed = Agreed(version=STATELESS)
        asked = request("server/discover", modern({}), self._next())
        found = result_of(await self._wire.ask(asked, agreed, call), call, "server/discover")
        if isinstance(found, Failed):
            return refused if isinstance(refused, Failed) else found
        self._agreed = agreed
        result = found.data if isinstance(found.data, dict) else {}
        self._said, self._offers = _said_of(result, _info_of(result)), _offers(result)
        return None

    async def _list(self, call: Call) -> ServerTools | Failed:
        tools: list[ListedTool] = []
        cursors: set[str] = set()
        params: JsonObject = {}
        size = 0
        for _ in range(_MAX_PAGES):
            page = await self._asked("tools/list", params, call)
            if isinstance(page, Failed):
                return page
            result = page.data if isinstance(page.data, dict) else {}
            try:
                tools += msgspec.convert(result.get("tools"), tuple[ListedTool, ...])
            except (msgspec.ValidationError, RecursionError):
                return failed("upstream_error", "the server's list of tools is not as MCP has it")
            size += page.delivery.bytes or 0
            if len(tools) > _MAX_TOOLS or size > _MAX_LISTING_SIZE:
                return failed("response_too_large", f"the server lists more than {_MAX_TOOLS} tools, or larger ones")
            cursor = result.get("nextCursor")
            if not isinstance(cursor, str) or not cursor:
                return replace(self._said, tools=tuple(tools))
            if cursor in cursors:
                break
            cursors.add(cursor)
            params = {"cursor": cursor}
        return failed("upstream_error", f"the server's list of tools has no end, or more than {_MAX_PAGES} pages")


def _meta_of(call: Call, number: int) -> dict[str, Json]:
    """The `_meta` of a caller's request: the token of its progress, and the trace that it belongs to (2026-07-28, basic, reserved keys)."""
    meta: dict[str, Json] = {"progressToken": number} if call.line is not None and call.line.listens else {}
    return meta if call.trace is None else {**meta, **dict(call.trace.headers)}


def _is_lost(outcome: Success | Failed, agreed: Agreed) -> bool:
    """Return True if a server does not know the session of a request (MCP 2025-11-25, basic/transports, Session Management).

    The server must answer 404; many answer 400 with a JSON-RPC error.
    """
    status = outcome.delivery.status
    if not agreed.session or status not in {400, 404}:
        return False
    error = outcome.data.get("error") if isinstance(outcome.data, Mapping) else None
    return status == 404 or (isinstance(error, Mapping) and error.get("code") in _NO_SUCH_SESSION)


def _late(message: str) -> Failed:
    return failed("upstream_timeout", message, "try again later", Delivery(attempts=1))


def _unanswered(call: Call, method: str, what: str, *, broken: bool) -> Failed:
    """A call was sent and its answer given up; `broken` where that was the server's fault."""
    delivery = Delivery(attempts=1, broken=broken)
    if harmless(call, method):
        return failed("upstream_timeout", f"the server {what}", "try again later", delivery)
    message = f"the server {what}; it may or may not have taken effect"
    return failed("outcome_unknown", message, "find out what happened before trying again", delivery)


def _is_other_era(answer: Success | Failed) -> bool:
    """Return True if the server rejected the handshake itself: with a JSON-RPC error, or with a 4xx status other than 401 and 403."""
    if isinstance(answer, Success):
        return isinstance(answer.data, dict) and "error" in answer.data
    status = answer.delivery.status
    return isinstance(status, int) and 400 <= status < 500 and status not in _DENIED


def _info_of(result: JsonObject) -> Json:
    """Name of a server of 2026-07-28: in the `_meta` of its answer, as every result says it, or in the answer."""
    meta = result.get("_meta")
    said = meta.get(_META_SERVER) if isinstance(meta, Mapping) else None
    return result.get("serverInfo") if said is None else said


def _said_of(result: JsonObject, info: Json) -> ServerTools:
    """Listing without tools, of what a server says of itself."""
    said = info if isinstance(info, dict) else {}
    name, version = said.get("title") or said.get("name"), said.get("version")
    instructions, website = result.get("instructions"), said.get("websiteUrl")
    return ServerTools(
        server=str(name or "")[:200],
        version=str(version or "")[:100],
        tools=(),
        instructions=bounded(instructions, _MAX_INSTRUCTIONS_LENGTH) if isinstance(instructions, str) else "",
        website_url=website if isinstance(website, str) and is_web_address(website) else "",
        icons=icons_in(said.get("icons")),
    )


def _offers(result: JsonObject) -> frozenset[str]:
    """The capabilities and extensions that a server declares."""
    declared = result.get("capabilities")
    if not isinstance(declared, Mapping):
        return frozenset()
    extensions = declared.get("extensions")
    known = {**declared, **(extensions if isinstance(extensions, Mapping) else {})}
    return frozenset(name for name, said in known.items() if isinstance(said, Mapping))


def _takes_subscriptions(result: JsonObject) -> bool:
    capabilities = result.get("capabilities")
    resources = capabilities.get("resources") if isinstance(capabilities, Mapping) else None
    return isinstance(resources, Mapping) and resources.get("subscribe") is True


def _code_of(data: Mapping[str, Json]) -> Json:
    error = data.get("error")
    return error.get("code") if isinstance(error, Mapping) else None


def _parts(listing: Iterable[tuple[str, ListedTool | ListedContext]]) -> Parts:
    found: Parts = {}
    twice: set[str] = set()
    for name, listed in listing:
        if name in found:
            twice.add(name)
        try:
            found[name] = parts_of(listed) if isinstance(listed, ListedTool) else context_parts(listed)
        except CanonicalError:
            twice.add(name)
    return {name: parts for name, parts in found.items() if name not in twice}
