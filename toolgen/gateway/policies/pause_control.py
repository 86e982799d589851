"""Pauses by the operator of the gateway: checked against the project, in effect everywhere, and recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from fnmatch import fnmatchcase
from typing import Any, Protocol

from toolgen.core.clock import Clock
from toolgen.core.errors import AuditError, ConfigError, StateError
from toolgen.core.spelling import nearest
from toolgen.model.manifest import Manifest
from toolgen.model.reason import reason_in
from toolgen.state.pauses import Pause, Pauses, SharedPauses

__all__ = ["MAX_REASON_LENGTH", "PauseControl", "check", "entry_of", "with_one", "without"]

MAX_REASON_LENGTH = 500
Edit = Callable[[tuple[Pause, ...]], tuple[Pause, ...]]


class KnownCallers(Protocol):
    """Names that can be paused."""

    @property
    def principals(self) -> Collection[str]: ...
    @property
    def issuers(self) -> Collection[str]: ...


def check(given: Pause, callers: KnownCallers, manifest: Manifest) -> None:
    """Check that the paused thing exists, to catch typing errors. Raises `ConfigError`."""
    issuer, colon, subject = given.principal.partition(":")
    of_issuer = bool(colon and subject) and issuer in callers.issuers
    if given.principal and given.principal not in callers.principals and not of_issuer:
        raise ConfigError(
            f"the policy has no principal '{given.principal}'{nearest(given.principal, callers.principals)}"
        )
    if given.source and given.source not in manifest.sources:
        raise ConfigError(f"there is no source '{given.source}'{nearest(given.source, manifest.sources)}")
    if given.tool and not any(fnmatchcase(name, given.tool) for name in manifest.tools):
        raise ConfigError(f"'{given.tool}' matches no tool{nearest(given.tool, manifest.tools)}")


def entry_of(event: str, pause: Pause, *, by: str, client: str) -> dict[str, Any]:
    """Return the audit entry of a pause that began (`pause`) or ended (`resume`), with the person who did it."""
    about = {"principal": pause.principal, "source": pause.source, "tool": pause.tool, "reason": pause.reason}
    arguments = {name: value for name, value in about.items() if value} | {"by": by}
    return {"event": event, "client": client, "arguments": arguments, "status": "ok"}


def with_one(given: Pause) -> Edit:
    """Return the edit that adds a pause."""
    return lambda known: (*(item for item in known if item.target != given.target), given)


def without(ended: Collection[Pause]) -> Edit:
    """Return the edit that ends these pauses."""
    gone = {item.target for item in ended}
    return lambda known: tuple(item for item in known if item.target not in gone)


class PauseControl:
    """Control of pauses in a running gateway. `pauses` are shared by all gateways, `local` is this machine's file, and `manifest` returns
    the catalog in force."""

    def __init__(
        self,
        pauses: Pauses | SharedPauses,
        local: Pauses,
        record: Callable[[Mapping[str, Any]], Awaitable[object]],
        clock: Clock,
        callers: KnownCallers,
        manifest: Callable[[], Manifest],
    ) -> None:
        self._shared = pauses if isinstance(pauses, SharedPauses) else None
        self._pauses = pauses
        self.local = local
        self._record = record
        self._clock = clock
        self._callers, self._manifest = callers, manifest

    def all(self) -> tuple[Pause, ...]:
        """Return all pauses, of this project and of shared state, each once."""
        return tuple({item.target: item for item in self._pauses.all()}.values())

    async def pause(self, *, principal: str, source: str, tool: str, reason: str, by: str) -> str:
        """Pause a principal, a source or tools. It takes effect even if it cannot be recorded, or not be shared.

        Returns the problem in that case, in words. Raises `ConfigError` for an unknown name, and `StateError` if nothing could be paused.
        """
        given = Pause(principal=principal, source=source, tool=tool, reason=reason_in(reason), since=self._clock.now())
        if sum(map(bool, given.target)) != 1:
            raise ConfigError("name a principal, a source or tools to pause")
        if len(reason) > MAX_REASON_LENGTH:
            raise ConfigError(f"the reason has more than {MAX_REASON_LENGTH} characters")
        check(given, self._callers, self._manifest())
        wrong = await self._begin(with_one(given))
        try:
            await self._record(entry_of("pause", given, by=by, client="console"))
        except AuditError:
            return "It is paused, but this is not recorded: the audit log cannot be written."
        return wrong

    async def resume(self, target: tuple[str, str, str], *, by: str) -> None:
        """End a pause after that was recorded. Raises `ConfigError` if there is none, `AuditError` and `StateError`."""
        ended = [item for item in self.all() if item.target == target]
        if not ended:
            raise ConfigError("that is not paused any more")
        await self._record(entry_of("resume", ended[0], by=by, client="console"))
        if self._shared is not None:
            await self._shared.change(without(ended))
        if await asyncio.to_thread(self.local.read):
            await asyncio.to_thread(self.local.change, without(ended))

    async def _begin(self, edit: Edit) -> str:
        if self._shared is None:
            await asyncio.to_thread(self.local.change, edit)
            return ""
        try:
            await self._shared.change(edit)
        except StateError as error:
            await asyncio.to_thread(self.local.change, edit)
            return f"It is paused on this machine only: {error.message}."
        return ""
