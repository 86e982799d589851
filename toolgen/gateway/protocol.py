"""Narrow protocols of the gateway for other packages. Only code that starts or tests a gateway uses the whole `Gateway`.

Front ends take a `Facade`: who calls, what they may call, how the process is doing. Adapters of agent frameworks take an `AgentGateway`.
The console and the command line take a `Project`, which is what was loaded, or an `Administration`, which acts on it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Protocol, Self

from toolgen.config.settings import Settings
from toolgen.gateway.approvals.decisions import Approvals
from toolgen.gateway.approvals.role_grants import RoleGrants
from toolgen.gateway.audit.reader import AuditRecords
from toolgen.gateway.calls.answer_files import HeldFile, KeptFile
from toolgen.gateway.calls.context_calls import ContextCalls
from toolgen.gateway.calls.file_uploads import Uploaded
from toolgen.gateway.calls.tool_plan import ToolPlan
from toolgen.gateway.identity import NO_CLAIMS, Claims, TokenRejected
from toolgen.gateway.metrics.metrics import Metrics
from toolgen.gateway.metrics.monitoring import Monitoring
from toolgen.gateway.metrics.tracing import Spans
from toolgen.gateway.operations.device_calls import DeviceCalls
from toolgen.gateway.operations.unknown_outcomes import UnknownOutcomes
from toolgen.gateway.policies.compiled_policy import CurrentPolicy
from toolgen.gateway.policies.pause_control import PauseControl
from toolgen.model.call import Principal
from toolgen.model.manifest import Manifest
from toolgen.model.result import Envelope, Error
from toolgen.model.schema import JsonObject
from toolgen.model.tool import Tool
from toolgen.pipeline.middleware import CallerConnection
from toolgen.policy.credentials import TokenRule
from toolgen.policy.document.policy import Policy
from toolgen.state.encryption import Seal

__all__ = [
    "Administration",
    "AgentGateway",
    "CallerLookup",
    "Facade",
    "Operations",
    "People",
    "Project",
    "SupportsFiles",
    "SupportsToolCalls",
]


class CallerLookup(Protocol):
    """Lookup of callers: `callers` of the gateway."""

    @property
    def has_credentials(self) -> bool:
        """True if any principal could authenticate."""

    @property
    def providers(self) -> tuple[TokenRule, ...]:
        """Token rules of each identity provider whose users are principals."""

    def recognised(self, credential: str) -> Principal | None:
        """The principal behind a bearer credential that was accepted before and still is; None for any other."""

    async def authenticate(self, credential: str) -> Principal | TokenRejected:
        """The principal behind a bearer credential, or why there is none."""

    def certified(self, value: str) -> Principal | TokenRejected:
        """The principal behind a client certificate, given as the header of a proxy that is trusted to have verified it."""

    def current(self, principal: Principal) -> Principal | None:
        """Return the principal as defined by the policy in force, or None if it is gone. For code that keeps a principal for long."""

    def acting_for(self, principal: Principal, user: Principal | str) -> Principal | None:
        """The principal as it acts for a user, by name or as a token of its own proved it; None when the policy does not say it may."""

    def narrowed(self, principal: Principal, toolset: str) -> Principal | None:
        """The principal with nothing in sight but what is in this toolset too, or None when there is no such toolset."""

    def may_review(self, principal: Principal) -> bool:
        """True if this principal may read the audit log."""

    async def note_refusal(self, code: str, client: str) -> None:
        """Records a request that was refused before anybody was known. `client` is an address."""


class SupportsUploads(Protocol):
    """Receiver of callers' files."""

    @property
    def largest(self) -> int:
        """The most bytes of one file."""

    async def take(
        self, principal: Principal, pieces: AsyncIterator[bytes], *, media_type: str = "", filename: str = ""
    ) -> Uploaded | Error:
        """Keeps a file that arrives in pieces, or says why not. What `pieces` raises goes through; then nothing is kept."""


class SupportsFiles(Protocol):
    """Files that calls of callers answered with links to: `files` of the tool calls."""

    @property
    def resource_links(self) -> bool:
        """True if MCP clients also get resource link blocks."""

    @property
    def uploads(self) -> SupportsUploads:
        """Receiver of callers' files."""

    async def fetch(self, principal: Principal, name: str, token: str) -> KeptFile | Error:
        """A file that the tool `name` that this principal was given a link to, or why it has none."""

    async def read(
        self, principal: Principal, uri: str, *, session: str = "", caller_connection: CallerConnection | None = None
    ) -> tuple[KeptFile | HeldFile, ...] | Error:
        """Read a URI from an answer to this principal: a file, or the current content of an MCP server's resource."""

    async def with_media(self, principal: Principal, envelope: Envelope) -> Envelope:
        """The envelope of a call that ended before, with the pictures and recordings that its data names."""


class SupportsToolCalls(Protocol):
    """The tools of a caller, and calls to them: `tool_calls` of the gateway."""

    def catalog(self, principal: Principal, session: str | None = None) -> tuple[Tool, ...]:
        """The tools this principal may call, in name order, with the schemas it is given; with a session, those that a middleware shows in
        this step. The same object until the catalog changes."""

    def offered(self, principal: Principal, session: str | None = None) -> tuple[Tool, ...]:
        """Return the tools listed to this principal: its catalog, or the search tools in place of a long one. The object is the same until
        the catalog changes."""

    def plan(self, principal: Principal, name: str) -> ToolPlan | None:
        """Return the plan for a principal's calls of a tool; None if each of them is prepared in the general way.

        The object is the same until the policy or the catalog changes.
        """

    async def search(
        self, principal: Principal, query: str, limit: int, session: str | None = None
    ) -> tuple[Tool, ...] | Error:
        """The tools this principal may call that fit a request in words, best first, or why it may not search now."""

    async def call(
        self,
        name: str,
        arguments: JsonObject,
        *,
        principal: Principal | str,
        session: str = "",
        connection: str = "",
        client: str = "",
        parent: str = "",
        idempotency_key: str = "",
        caller_connection: CallerConnection | None = None,
    ) -> Envelope:
        """Run a call through all pipeline stages. Never raises.

        `session` is the conversation that the caller named; `connection` is the transport's own id, used if the caller named none. If the
        awaiting task is cancelled or the client disconnects (`caller_connection`), a write runs to its end. A read is ended, at the
        service or database too, and recorded as `cancelled`.
        """

    def pending_after(
        self, principal: Principal, name: str, arguments: JsonObject, session: str | None = None
    ) -> float | None:
        """Seconds that a caller waits for a call before it is answered as pending: as the rules about the tool say, the one inside
        a `run_tool`, or as the gateway does. Infinity for as long as the call takes, if it may change something: then it is kept if its
        caller leaves it. None for any other call, which is simply made."""

    @property
    def files(self) -> SupportsFiles:
        """Files that calls answered with links to."""

    @property
    def seal(self) -> Seal:
        """Seal for state that clients store and send back; equal in every worker. Raises `StateError`."""

    @property
    def elicits(self) -> bool:
        """True if a person at a caller's own client may approve its calls."""

    def changed(self) -> Coroutine[Any, Any, object]:
        """Return a wait until the lists of principals may have changed, counted from this call."""

    @property
    def approvals(self) -> Approvals:
        """The queue of calls that wait for a person, and the `background` calls that go on without their callers."""

    @property
    def devices(self) -> DeviceCalls:
        """Requests to callers' devices and their answers."""


class Operations(Protocol):
    """The process, and how it is doing: `operations` of the gateway."""

    @property
    def drain_s(self) -> float:
        """Seconds that calls in flight have to end, once it leaves."""

    def leave(self) -> Callable[[], None]:
        """Prepare the shutdown: the process is no longer ready, and the drain time starts, after which functions that hang are ended.

        Return a function that ends the calls still running when the time is over; each is recorded.
        """

    def ready(self) -> tuple[str, ...]:
        """Why the gateway does not take calls; empty when it does."""

    @property
    def metrics(self) -> Metrics:
        """Counters of a front end's answers."""

    @property
    def spans(self) -> Spans | None:
        """Receiver of spans of requests; None where nothing is traced."""

    async def measured(self, detail: Collection[str] = ()) -> bytes:
        """Return the metrics of this process in Prometheus's text format, without names, for anybody. `detail` has members of `DETAILS`
        that are added by name, for principals that may review."""

    def warnings(self) -> tuple[str, ...]:
        """Warnings for the operator while calls are still accepted."""

    async def reload(self, *, complete: bool = True) -> bool:
        """Reads the policy again and puts it in force: whole where its files are `complete`, otherwise as a change that was just noticed.
        False when it cannot be used: then what was in force stays so."""

    @property
    def records(self) -> AuditRecords:
        """The record, for those who may review it."""


class Facade(Protocol):
    """The gateway as front ends see it: entered once, before the first call, and left when the calls in flight have ended."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> object: ...

    @property
    def callers(self) -> CallerLookup:
        """Lookup of callers."""

    @property
    def tool_calls(self) -> SupportsToolCalls:
        """Tools of the callers, and their calls."""

    @property
    def role_grants(self) -> RoleGrants:
        """Roles that people give for some time."""

    @property
    def context(self) -> ContextCalls:
        """Prompts and resources of the callers, and reads of them."""

    @property
    def operations(self) -> Operations:
        """State of the process."""


class People(CallerLookup, Protocol):
    """Lookup and list of callers: what the console and the command line ask of `callers`."""

    @property
    def principals(self) -> tuple[str, ...]:
        """The ids of the policy's principals."""

    @property
    def issuers(self) -> tuple[str, ...]:
        """The names of the issuers whose users the policy knows."""

    def named(
        self, name: str, on_behalf_of: str | None = None, *, claims: Claims = NO_CLAIMS, user_claims: Claims = NO_CLAIMS
    ) -> Principal:
        """A principal by its id, for those who run the gateway. Raises `ConfigError` when there is none."""

    async def signed_in(self, token: str) -> Principal | TokenRejected:
        """The person that an id token of the console's client signs in to the console, or why nobody."""

    async def note_session(self, code: str, principal: str, client: str) -> None:
        """Records that somebody signed in to the console, or out of it, from an address."""


class AgentGateway(Facade, Protocol):
    """The gateway in the process of an agent, as an adapter sees it: the program names the principal, and opens the gateway."""

    @property
    def entered(self) -> bool:
        """True if the program opened the gateway."""

    @property
    def current(self) -> CurrentPolicy:
        """The policy in force."""

    @property
    def callers(self) -> People:
        """Lookup of callers."""


class Project(Protocol):
    """A project as it was loaded, and the policy that holds by now."""

    @property
    def settings(self) -> Settings: ...
    @property
    def manifest(self) -> Manifest: ...
    @property
    def policy(self) -> Policy: ...
    @property
    def current(self) -> CurrentPolicy: ...
    @property
    def callers(self) -> People: ...


class Administration(Facade, Project, Protocol):
    """Operations of the people who run a gateway. A command opens it with `short_session`."""

    def short_session(self) -> AbstractAsyncContextManager[object]:
        """Opens the gateway for one command: calls are made and recorded; what others approved is left to a gateway that stays."""

    async def preview(self, name: str, arguments: JsonObject, *, principal: Principal | str) -> Envelope:
        """Return the request that a call would send, with secrets masked. Sends, counts and records nothing."""

    @property
    def callers(self) -> People:
        """Lookup and list of callers."""

    @property
    def pausing(self) -> PauseControl:
        """Pauses of tools, sources and principals."""

    @property
    def monitoring(self) -> Monitoring:
        """Monitoring data of the running gateway."""

    @property
    def unknown_outcomes(self) -> UnknownOutcomes:
        """Calls of which nobody knows whether they took effect."""
