"""One request to the console: who makes it, what they may do there, and what the pages are made from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from toolgen.clock import Clock
from toolgen.console.answers import Header, page
from toolgen.console.records import Records
from toolgen.console.verification import Verification
from toolgen.gateway.http import Request, Response
from toolgen.gateway.service import Gateway
from toolgen.model.call import Principal
from toolgen.settings_console import ConsoleSettings
from toolgen.state.sessions_sqlite import Session

__all__ = ["Backstage", "Person", "Visit", "person_of"]

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
