"""One request to the console: who makes it, what they may do there, and what the pages are made from.

Whether the log is what was written: verified again now and then when somebody looks, and never twice at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from toolgen.audit.verify import Report, verify
from toolgen.clock import Clock
from toolgen.config.console import ConsoleSettings
from toolgen.console.records import Records
from toolgen.console.responses import Header, page
from toolgen.errors import AuditError, place_of
from toolgen.gateway.asgi.request import Request, Response
from toolgen.gateway.service import Gateway
from toolgen.model.call import Principal
from toolgen.state.sessions import Session

__all__ = ["Backstage", "Person", "Verification", "Verified", "Visit", "person_of"]

_logger = logging.getLogger("toolgen.console")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What verifying came to: a report, or why there is none; when it began, and how many seconds it took."""

    report: Report | None
    fault: str
    began: float
    took_s: float


class Verification:
    """Verifies in a thread when asked to. `done` and `total` are how many bytes of how many are behind it while it runs."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self._stop = False
        self.last: Verified | None = None
        self.done = self.total = 0

    @property
    def running(self) -> bool:
        """Whether it is under way."""
        return self._task is not None and not self._task.done()

    def begin(self) -> bool:
        """Begins; False where it is under way already."""
        if self.running:
            return False
        self.done = self.total = 0
        self._task = asyncio.create_task(self._run())
        return True

    async def close(self) -> None:
        """Breaks off what is under way."""
        self._stop = True
        if self._task is not None:
            await asyncio.wait((self._task,))

    async def _run(self) -> None:
        began, started = self._clock.now(), self._clock.monotonic()
        report, fault = None, ""
        try:
            report = await asyncio.to_thread(verify, self._directory, progress=self._step)
        except AuditError as error:
            fault = str(error)
        except _Stopped:
            return
        except Exception as error:  # noqa: BLE001 - the last report must not go on standing there as if nothing were
            _logger.error("the log could not be verified: %s", place_of(error))  # noqa: TRY400 - its text may quote it
            fault = f"verifying it failed ({type(error).__name__})"
        self.last = Verified(report=report, fault=fault, began=began, took_s=self._clock.monotonic() - started)

    def _step(self, done: int, total: int) -> None:
        if self._stop:
            raise _Stopped
        self.done, self.total = done, total


class _Stopped(Exception):  # noqa: N818 - no error: the gateway is being left
    pass


_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Somebody in the console. A viewer reads everything, an approver answers for calls, an admin verifies the record besides."""

    principal: Principal
    viewer: bool
    approver: bool
    admin: bool

    @property
    def welcome(self) -> bool:
        """Whether there is anything for them here."""
        return self.viewer or self.approver or self.admin

    @property
    def words(self) -> str:
        """What they are, in words."""
        named = (("viewer", self.viewer), ("approver", self.approver), ("admin", self.admin))
        return ", ".join(name for name, holds in named if holds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backstage:
    """What pages are made from."""

    gateway: Gateway
    records: Records
    verification: Verification
    clock: Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A request of somebody who is signed in. `part` is what the path names, `form` what was posted; `again` looks anew who that is, None
    once the session has ended."""

    request: Request
    person: Person
    session: Session
    backstage: Backstage
    again: Callable[[], Awaitable[Person | None]]
    part: str = ""
    form: Mapping[str, str] = field(default_factory=lambda: _NOTHING)

    @property
    def gateway(self) -> Gateway:
        return self.backstage.gateway

    @property
    def now(self) -> float:
        return self.backstage.clock.now()

    def page(
        self, name: str, *, at: str, status: int = 200, headers: tuple[Header, ...] = (), **values: object
    ) -> Response:
        """A page below the console's head, where `at` is the section it belongs to."""
        return page(
            name,
            status=status,
            headers=headers,
            at=at,
            person=self.person,
            form_token=self.session.form_token,
            ready=self.gateway.ready(),
            warnings=(*self.gateway.warnings(), *(self.backstage.records.warnings() if self.person.viewer else ())),
            now=self.now,
            **values,
        )


def person_of(gateway: Gateway, settings: ConsoleSettings, principal: Principal) -> Person:
    """What a principal may do in the console: nothing, unless one of its roles says so. Whoever acts for another does it elsewhere."""
    alone = principal.on_behalf_of is None
    admin = alone and not settings.admins.isdisjoint(principal.roles)
    return Person(
        principal=principal,
        viewer=admin or (alone and not settings.viewers.isdisjoint(principal.roles)),
        approver=gateway.approvals.may_answer(principal),
        admin=admin,
    )
