"""Protocols of the whole gateway, each with the part that its users need.

`Gateway` itself is in frontends/python, above the front ends and commands that take it, so that these cannot import it. Front ends take a
`Facade`, adapters of agent frameworks an `AgentGateway`. The console and the command line take a `Project`, which is what was loaded, or
an `Administration`, which acts on it.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from toolgen.config.settings import Settings
from toolgen.gateway.accounts.accounts import Accounts
from toolgen.gateway.approvals.role_grants import RoleGrants
from toolgen.gateway.calls.call_service import Callers, Calls
from toolgen.gateway.calls.context_calls import ContextCalls
from toolgen.gateway.metrics.monitoring import Monitoring
from toolgen.gateway.metrics.status import Status
from toolgen.gateway.operations.unknown_outcomes import UnknownOutcomes
from toolgen.gateway.policies.compiled_policy import CurrentPolicy
from toolgen.gateway.policies.pause_control import PauseControl
from toolgen.model.call import Principal
from toolgen.model.manifest import Manifest
from toolgen.model.result import Envelope
from toolgen.model.schema import JsonObject
from toolgen.policy.document.policy import Policy

if TYPE_CHECKING:
    from toolgen.gateway.sign_in.server import SignInServer

__all__ = ["Administration", "AgentGateway", "Facade", "Project"]


class Facade(Protocol):
    """Gateway as front ends use it: entered once, before the first call, and left when the calls in flight have ended.

    A protocol, because `Gateway` is in frontends/python, which imports the front ends.
    """

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> bool | None: ...

    @property
    def callers(self) -> Callers:
        """Return the lookup of callers."""

    @property
    def tool_calls(self) -> Calls:
        """Return the tools of the callers, and their calls."""

    @property
    def role_grants(self) -> RoleGrants:
        """Return the temporary roles."""

    @property
    def accounts(self) -> Accounts:
        """Return the accounts that people link at upstream systems."""

    @property
    def context(self) -> ContextCalls:
        """Return the prompts and resources of the callers, and reads of them."""

    @property
    def operations(self) -> Status:
        """Return the state of the process."""


class AgentGateway(Facade, Protocol):
    """Gateway in the process of an agent, as adapters use it: the program names the principal, and opens the gateway.

    A protocol, because `Gateway` is in frontends/python, which imports the front ends.
    """

    @property
    def entered(self) -> bool:
        """Return True if the program opened the gateway."""

    @property
    def current(self) -> CurrentPolicy:
        """Return the policy in force."""


class Project(Protocol):
    """Project as it was loaded, and the policy in force.

    A protocol, because `Gateway` is in frontends/python, which imports the front ends.
    """

    @property
    def settings(self) -> Settings: ...
    @property
    def manifest(self) -> Manifest: ...
    @property
    def policy(self) -> Policy: ...
    @property
    def current(self) -> CurrentPolicy: ...
    @property
    def callers(self) -> Callers: ...


class Administration(Facade, Project, Protocol):
    """Operations of the people who run a gateway. A command opens it with `short_session`.

    A protocol, because `Gateway` is in frontends/python, which imports the console.
    """

    def short_session(self) -> AbstractAsyncContextManager[object]:
        """Open the gateway for one command: calls are made and recorded; calls that others approved are left to a running gateway."""

    async def preview(self, name: str, arguments: JsonObject, *, principal: Principal | str) -> Envelope:
        """Return the request that a call would send, with secrets masked. Sends, counts and records nothing."""

    @property
    def sign_in(self) -> SignInServer | None:
        """Return the authorization server; None if people do not sign in through the gateway."""

    @property
    def pausing(self) -> PauseControl:
        """Return the pauses of tools, sources and principals."""

    @property
    def monitoring(self) -> Monitoring:
        """Return the monitoring data of the running gateway."""

    @property
    def unknown_outcomes(self) -> UnknownOutcomes:
        """Return the calls with an unknown outcome."""
