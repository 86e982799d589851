"""How a gateway stands, of all its parts: what is wrong with what gateways share, and why no call is taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from toolgen.connectors.executor import SystemHealth
from toolgen.core.background import FaultLog
from toolgen.gateway.approval_runner import Runner
from toolgen.gateway.compiled_policy import CurrentPolicy
from toolgen.gateway.device_calls import DeviceCalls
from toolgen.gateway.monitoring import Monitoring
from toolgen.gateway.prometheus import Snapshot
from toolgen.gateway.role_grants import RoleGrants
from toolgen.gateway.runtime_tools import RuntimeTools
from toolgen.gateway.shared_state import Shared
from toolgen.gateway.synchronous import closed

__all__ = ["Standing"]


class Standing:
    """A gateway that has these parts."""

    current: CurrentPolicy
    _role_grants: RoleGrants
    monitoring: Monitoring
    _runner: Runner
    _devices: DeviceCalls
    _shared: Shared
    _systems: Callable[[], Mapping[str, tuple[SystemHealth, ...]]]
    tools: RuntimeTools
    _is_closed = False

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise closed()

    def _troubles(self) -> tuple[FaultLog, ...]:
        """Return the possible faults of state shared by gateways."""
        own = (self._runner.trouble, self._devices.trouble, self._role_grants.trouble, self.tools.trouble)
        return (*own, *self._shared.troubles, *self.monitoring.troubles)

    def _refusing(self, counted: bool) -> tuple[str, ...]:
        """Why every call would be refused now by what is shared."""
        compiled_policy = self.current.compiled_policy
        return self._shared.refusing(
            tolerant=compiled_policy.tolerant,
            counted=counted or not compiled_policy.policy.limits,
            asks_history=compiled_policy.earlier.histories is self._shared.histories,
        )

    def _standing(self) -> Snapshot:
        """Return the measurements besides those of the process itself."""
        systems, waiting = self._systems(), self._shared.buckets.waiting
        told, digest = self.monitoring.notifications, self.current.compiled_policy.policy.digest
        return Snapshot(policy_digest=digest, systems=systems, limit_waiting=waiting, notifications=told)
