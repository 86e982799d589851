"""A gateway for the front ends' tests: fixed tools, fixed answers, and a list of the calls that reached it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any, Self, cast

from toolgen.audit.index.index import Cursor, EntryPage, FoundEntry
from toolgen.audit.index.row import RecordFilter
from toolgen.audit.log import AuditLog
from toolgen.core.background import Background
from toolgen.core.clock import SystemClock
from toolgen.core.errors import AuditError
from toolgen.gateway.accounts.accounts import AccountDependencies, Accounts
from toolgen.gateway.approvals.decisions import Approvals
from toolgen.gateway.approvals.grants import ApprovalGrants
from toolgen.gateway.approvals.role_grants import RoleGrants
from toolgen.gateway.audit.reader import Review
from toolgen.gateway.calls.answer_files import AnswerFiles, HeldFile, KeptFile
from toolgen.gateway.calls.context_calls import NO_PROMPT, NO_RESOURCE, ContextCalls
from toolgen.gateway.calls.context_policy import Reader
from toolgen.gateway.calls.context_updates import ResourceUpdates
from toolgen.gateway.calls.departed_clients import DepartedClients
from toolgen.gateway.calls.file_uploads import Uploaded
from toolgen.gateway.calls.followed_resources import Following
from toolgen.gateway.catalog.mcp_servers import McpServers
from toolgen.gateway.catalog.search.bm25 import ToolIndex
from toolgen.gateway.identity import TokenRejected
from toolgen.gateway.metrics.metrics import Metrics
from toolgen.gateway.metrics.prometheus import Snapshot, rendered
from toolgen.gateway.metrics.tracing import Spans
from toolgen.gateway.operations.background_calls import BackgroundCalls
from toolgen.gateway.operations.device_calls import DeviceCalls
from toolgen.gateway.operations.waiting_calls import WaitingCalls
from toolgen.model.call import Principal
from toolgen.model.files import FileInfo
from toolgen.model.result import Envelope, Error, Meta
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import Effect, NoBinding, Tool, seal
from toolgen.pipeline.middleware import CallerConnection
from toolgen.policy.credentials import TokenRule
from toolgen.policy.document.approvals import NOBODY
from toolgen.state.accounts import AccountStore
from toolgen.state.accounts_sqlite import SqliteAccountRows
from toolgen.state.departures import SqliteDepartures
from toolgen.state.encryption import Seal
from toolgen.state.grants import CallGrant, RoleGrant, SqliteGrants
from toolgen.state.invocations_sqlite import SqliteInvocations
from toolgen.state.key_encryption import GivenKeys

KEY = "bot-key-1"
OTHER_KEY = "other-key-2"
REVIEWER_KEY = "reviewer-key-3"
BOT = Principal(id="bot", roles=frozenset({"support"}))
OTHER = Principal(id="other", roles=frozenset({"support"}))
REVIEWER = Principal(id="reviewer", roles=frozenset({"ops"}))
NO_APPROVERS: Any = SimpleNamespace(
    compiled_policy=SimpleNamespace(policy=SimpleNamespace(approval=NOBODY, rules=(), given={}, role_grants=()))
)
PEOPLE = {KEY: BOT, OTHER_KEY: OTHER, REVIEWER_KEY: REVIEWER}


def tool(name: str, *, effect: Effect = Effect.READ, output: Mapping[str, Any] | None = None) -> Tool:
    """A tool that takes a text. Its output schema, where it has one, is listed to clients of MCP."""
    return seal(
        Tool(
            name=name,
            title=name,
            description=f"What {name} does.",
            input_schema={"type": "object", "properties": {"text": {"type": "string"}}},
            output_schema=output,
            effect=effect,
            idempotent=True,
            source="test",
            origin="#/test",
            binding=NoBinding(),
            listed_output="" if output is None else "strict",
        )
    )


PET: Mapping[str, Any] = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}

TOOLS = (
    tool("test__broken_promise", output=PET),
    tool("test__echo"),
    tool("test__fail"),
    tool("test__fail_typed", output=PET),
    tool("test__list", output={"type": "array"}),
    tool("test__pet", output=PET),
    tool("test__slow", effect=Effect.WRITE),
)


def envelope(
    name: str, status: str, data: Json = None, error: Error | None = None, *, truncated: bool = False, cursor: str = ""
) -> Envelope:
    """An envelope with a fixed call id."""
    meta = Meta(duration_ms=1.5, truncated=truncated, next_cursor=cursor, audit_seq=7)
    return Envelope(status=status, tool=name, call_id="call-1", data=data, error=error, meta=meta)


class NothingFollowed:
    """Resources of other systems, of which none is followed."""

    @contextlib.contextmanager
    def following(self, principal: Principal) -> Iterator[Following]:
        yield Following(lambda _: iter(()), lambda _key, _call: None, lambda _key: None)


class NoSkills:
    """Skills of a project that has none."""

    offered = False

    def list(self, principal: Principal) -> tuple[()]:
        return ()


class NoContext:
    """Prompts and resources of a project that has none."""

    offered = (False, False)

    def __init__(self) -> None:
        self.updates = ResourceUpdates()
        self.followed = NothingFollowed()
        self.servers = McpServers()
        self.skills = NoSkills()

    def source_changes(self, principal: Principal) -> tuple[tuple[()], tuple[()]]:
        return (), ()

    def prompts(self, principal: Principal) -> tuple[()]:
        return ()

    resources = templates = app_tools = prompts

    def may_read(self, principal: Principal, uri: str) -> bool:
        return False

    def converses(self, *, prompt: object = None, resource: object = None) -> bool:
        return False

    def server_asks(self, *, prompt: object = None, resource: object = None) -> bool:
        return False

    async def read(self, uri: str, reader: Reader) -> Error:
        return NO_RESOURCE

    async def get(self, name: str, arguments: Mapping[str, Json], reader: Reader) -> Error:
        return NO_PROMPT


@dataclass
class FakeRecords:
    """The entries it was given, in their order; None for a log that cannot be read."""

    held: list[dict[str, Any]] | None
    filler: Any = None

    def entries(self, wanted: RecordFilter, limit: int, after: Cursor | None = None) -> Review:
        if self.held is None:
            raise AuditError("a segment is missing")
        found = [entry for entry in self.held if wanted.before is None or entry["seq"] < wanted.before]
        return Review(page=EntryPage(rows=found[:limit], next=(limit, 1) if len(found) > limit else None))

    def calls(self, wanted: RecordFilter, limit: int, after: Cursor | None = None) -> Review:
        return self.entries(wanted, limit, after)

    def find(self, seq: int, stream: str = "") -> list[FoundEntry]:
        if self.held is None:
            raise AuditError("a segment is missing")
        return [FoundEntry(entry=entry, log="here", checked=True) for entry in self.held if entry["seq"] == seq]

    def story(self, call_id: str) -> list[dict[str, Any]]:
        return []


async def _unrecorded(fields: Mapping[str, Any]) -> int:
    return 0


@dataclass
class FakeGateway:
    """Answers by tool name. `calls` is what reached it, `ended` the tools whose calls ran to their end."""

    tools: tuple[Tool, ...] = TOOLS
    answer: Callable[[str, JsonObject], Envelope] | None = None
    has_credentials: bool = True
    providers: tuple[TokenRule, ...] = ()
    reasons: tuple[str, ...] = ()
    warned: tuple[str, ...] = ()
    gone: set[str] = field(default_factory=set)
    refusal: Error | None = None
    entries: list[dict[str, Any]] | None = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    refusals: list[tuple[str, str]] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    entered: asyncio.Event = field(default_factory=asyncio.Event)
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    running: set[asyncio.Task[Envelope]] = field(default_factory=set)
    open: bool = False
    metrics: Metrics = field(default_factory=Metrics)
    drain_s: float = 30.0
    spans: Spans | None = None
    without_context: ContextCalls = field(default_factory=lambda: cast("ContextCalls", NoContext()))

    async def __aenter__(self) -> Self:
        self.open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.running:
            await asyncio.wait(self.running)
        self.open = False

    def leave(self) -> Callable[[], None]:
        """It has no functions, and leaves its calls alone."""
        return lambda: None

    @property
    def callers(self) -> Self:
        return self

    @property
    def tool_calls(self) -> Self:
        return self

    @property
    def context(self) -> ContextCalls:
        """It has neither prompts nor resources."""
        return self.without_context

    @property
    def operations(self) -> Self:
        return self

    def acting_for(self, principal: Principal, user: Principal | str) -> Principal | None:
        return Principal(id=principal.id, on_behalf_of=Principal(id="ann")) if user == "ann" else None

    def narrowed(self, principal: Principal, toolset: str) -> Principal | None:
        return principal if toolset == "all" else None

    def recognised(self, credential: str) -> Principal | None:
        return PEOPLE.get(credential)

    async def authenticate(self, credential: str) -> Principal | TokenRejected:
        return PEOPLE.get(credential) or TokenRejected("no principal has this key")

    def certified(self, value: str) -> Principal | TokenRejected:
        return TokenRejected("no principal has this certificate")

    async def note_refusal(self, code: str, client: str) -> None:
        self.refusals.append((code, client))

    def catalog(self, principal: Principal, session: str | None = None) -> tuple[Tool, ...]:
        return self.tools if principal.id != "other" else ()

    def offered(self, principal: Principal, session: str | None = None) -> tuple[Tool, ...]:
        return self.catalog(principal)

    async def fetch(self, principal: Principal, name: str, token: str) -> KeptFile | Error:
        return Error(code="expired", message="nothing is kept here")

    async def read(
        self, principal: Principal, uri: str, *, session: str = "", caller_connection: CallerConnection | None = None
    ) -> tuple[KeptFile | HeldFile, ...] | Error:
        return Error(code="expired", message="nothing is kept here")

    async def with_media(self, principal: Principal, envelope: Envelope) -> Envelope:
        return envelope

    @property
    def files(self) -> Self:
        return self

    @property
    def resource_links(self) -> bool:
        return False

    @property
    def uploads(self) -> Self:
        return self

    @property
    def largest(self) -> int:
        return 1_000_000

    async def take(
        self, principal: Principal, pieces: AsyncIterator[bytes], *, media_type: str = "", filename: str = ""
    ) -> Uploaded | Error:
        size = sum([len(piece) async for piece in pieces])
        info = FileInfo(size=size, media_type=media_type or "text/plain", sha256="0" * 64, filename=filename)
        return Uploaded(uri="toolgen://files/" + "A" * 64, info=info, expires_s=60.0)

    def plan(self, principal: Principal, name: str) -> None:
        return None

    def pending_after(
        self, principal: Principal, name: str, arguments: JsonObject, session: str | None = None
    ) -> float | None:
        return None

    async def search(
        self, principal: Principal, query: str, limit: int, session: str | None = None
    ) -> tuple[Tool, ...] | Error:
        if self.refusal is not None:
            return self.refusal
        found = ToolIndex(self.catalog(principal)).search(query, limit)
        return tuple(item for hit in found for item in self.tools if item.name == hit.id)

    async def call(
        self,
        name: str,
        arguments: JsonObject,
        *,
        principal: Principal | str,
        caller_connection: CallerConnection | None = None,
        **origin: str,
    ) -> Envelope:
        self.calls.append({"name": name, "arguments": arguments, "principal": principal, **origin})
        task = asyncio.create_task(self.run(name, arguments))
        self.running.add(task)
        task.add_done_callback(self.running.discard)
        return await asyncio.shield(task)

    async def run(self, name: str, arguments: JsonObject) -> Envelope:
        """The call itself, which nobody cancels."""
        if name == "test__slow":
            self.entered.set()
            await self.gate.wait()
        result = self.answer(name, arguments) if self.answer else self._answer(name, arguments)
        self.ended.append(name)
        self.answered.set()
        return result

    def _answer(self, name: str, arguments: JsonObject) -> Envelope:
        match name:
            case "test__pet":
                return envelope(name, "ok", {"id": 5, "name": "Rex"})
            case "test__broken_promise":
                return envelope(name, "ok", {"id": "five"})
            case "test__list":
                return envelope(name, "ok", [1, 2], truncated=True, cursor="c2")
            case "test__echo" | "test__slow":
                return envelope(name, "ok", dict(arguments))
            case "test__fail" | "test__fail_typed":
                error = Error(
                    code="rate_limited", message="too many calls", suggestion="wait a little", retry_after_s=1.2
                )
                return envelope(name, "refused", error=error)
            case _:
                return envelope(name, "refused", error=Error(code="unknown_tool", message="there is no such tool"))

    @property
    def seal(self) -> Seal:
        return Seal(b"test")

    @property
    def elicits(self) -> bool:
        return False

    async def changed(self) -> None:
        await asyncio.Event().wait()

    @property
    def approvals(self) -> Approvals:
        """A queue in which nothing ever waits."""
        clock = SystemClock()
        store, log = SqliteInvocations(Path("/nonexistent/calls.db"), clock), AuditLog(Path("/nonexistent"), clock)
        notes = SqliteDepartures(Path("/nonexistent/departures.db"))
        departed = DepartedClients(notes, secret=lambda: b"test", clock=clock, alone=True)
        calls = WaitingCalls(store=store, log=log, approval_text=str)
        grants = SqliteGrants(Path("/nonexistent/grants.db"), clock, CallGrant)
        return Approvals(
            calls=calls,
            current=NO_APPROVERS,
            grants=ApprovalGrants(store=grants, log=log, current=NO_APPROVERS),
            background=BackgroundCalls(calls),
            departed=departed,
        )

    @property
    def role_grants(self) -> RoleGrants:
        """Roles that nobody is given."""
        clock, log = SystemClock(), AuditLog(Path("/nonexistent"), SystemClock())
        store = SqliteGrants(Path("/nonexistent/roles.db"), clock, RoleGrant)
        return RoleGrants(store, log, NO_APPROVERS, clock, lambda _: None, Background())

    @property
    def accounts(self) -> Accounts:
        """Accounts of a project without sources that need them."""
        rows = SqliteAccountRows(Path("/nonexistent/accounts.db"), SystemClock())
        return Accounts(
            AccountDependencies(
                store=AccountStore(rows, GivenKeys(list)),
                clients={},
                record=_unrecorded,
                identity=lambda name: None,
                clock=SystemClock(),
                url="",
            )
        )

    @property
    def devices(self) -> DeviceCalls:
        """Devices that nobody asks anything, and of which nothing is on record."""
        clock, log = SystemClock(), cast("AuditLog", SimpleNamespace(append=_unrecorded))
        files = cast("AnswerFiles", SimpleNamespace())
        calls = self.approvals.calls
        return DeviceCalls(
            calls=calls, current=NO_APPROVERS, log=log, clock=clock, background=Background(), files=files
        )

    def ready(self) -> tuple[str, ...]:
        return self.reasons

    async def measured(self, detail: Collection[str] = ()) -> bytes:
        return rendered(self.metrics, Snapshot(ready=not self.reasons), labels={"worker": "test"}, detail=detail)

    def warnings(self) -> tuple[str, ...]:
        return self.warned

    async def reload(self) -> bool:
        return True

    def current(self, principal: Principal) -> Principal | None:
        return None if principal.id in self.gone else principal

    def may_review(self, principal: Principal) -> bool:
        return "ops" in principal.roles

    @property
    def records(self) -> FakeRecords:
        return FakeRecords(self.entries)
