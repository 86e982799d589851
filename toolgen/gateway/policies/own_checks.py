"""Checks of a project in one gateway: the stages that run them, and the catalogs that they narrow."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct, field

from toolgen.config.settings import Settings
from toolgen.connectors.executor import Permit
from toolgen.core.clock import Clock
from toolgen.model.call import Principal
from toolgen.model.tool import Tool
from toolgen.pipeline.call_views import step_view, tool_view
from toolgen.pipeline.stages.access import CallHistory
from toolgen.pipeline.stages.middleware import Hook, MiddlewareStage
from toolgen.pipeline.stages.record import AuditRedaction
from toolgen.pipeline.stages.results import ResultsStage
from toolgen.policy.detectors.inspector import Inspector
from toolgen.policy.detectors.tokens import Tokens
from toolgen.state.value_vault import ValueVault

__all__ = ["OwnChecks", "checks_of"]

_MAX_CATALOGS = 256


Apart = Callable[[str, str, Callable[[], Any]], Awaitable[Any]]


class OwnChecks(Struct, kw_only=True):
    """Checks of a project. `hooks` is the middleware, the first outermost; `apart` runs code that may hang in a separate thread."""

    hooks: tuple[Hook, ...]
    apart: Apart
    inspector: Inspector | None = None
    _catalogs: OrderedDict[tuple[int, frozenset[str]], tuple[tuple[Tool, ...], tuple[Tool, ...]]] = field(
        default_factory=OrderedDict
    )

    def middleware(self, earlier: CallHistory, redaction: AuditRedaction) -> MiddlewareStage | None:
        """Return the stage of the middleware under one policy; None if there is none."""
        if not self.hooks:
            return None
        return MiddlewareStage(
            hooks=self.hooks,
            shown=redaction.shown,
            recorded=redaction.arguments,
            label=earlier.label,
            apart=self.apart,
        )

    @property
    def tokens(self) -> Tokens | None:
        """Return the tokens for values in answers; None if there are none."""
        return None if self.inspector is None else self.inspector.tokens

    def results(self, earlier: CallHistory, vault: ValueVault, key: Callable[[], bytes]) -> ResultsStage | None:
        """Return the stage that inspects answers under one policy; None if nothing is inspected."""
        if self.inspector is None:
            return None
        return ResultsStage(inspector=self.inspector, label=earlier.label, vault=vault, key=key)

    def catalog(
        self, whole: tuple[Tool, ...], principal: Principal, session: str, earlier: CallHistory
    ) -> tuple[Tool, ...]:
        """Return the tools that middleware shows in this step. The object is the same for the same tools."""
        gates = [hook for hook in self.hooks if hook.shows is not None]
        if not gates:
            return whole
        labels: list[str] = []
        with suppress(LookupError):
            labels = earlier.histories.views(principal.id, session)[0].labels()
        step = step_view(principal, session, labels)
        asked = [(gate, gate.deadline()) for gate in gates]
        hidden = frozenset(
            tool.name for tool in whole if not all(gate.displays(step, tool_view(tool), until) for gate, until in asked)
        )
        if not hidden:
            return whole
        found = self._catalogs.get((id(whole), hidden))
        if found is None:  # it has the whole catalog, so its id is not reused
            left = tuple(tool for tool in whole if tool.name not in hidden)
            found = self._catalogs[id(whole), hidden] = (whole, left)
            if len(self._catalogs) > _MAX_CATALOGS:
                self._catalogs.popitem(last=False)
        return found[1]


def checks_of(
    settings: Settings, given: Sequence[object], permit: Permit, clock: Clock, apart: Apart
) -> OwnChecks | None:
    """Return the middleware of a project and of a program; None if there is none. Raises `ConfigError` if some cannot be loaded."""
    if not settings.middleware and not given and settings.inspection is None:
        return None
    from toolgen.gateway.policies.inspection import inspector_of  # noqa: PLC0415 - where there is any
    from toolgen.gateway.policies.middleware import hooks_of, objects_of  # noqa: PLC0415 - the same

    return OwnChecks(
        hooks=(*hooks_of(settings.middleware, permit, clock), *objects_of(given)),
        apart=apart,
        inspector=None if settings.inspection is None else inspector_of(settings.inspection),
    )
