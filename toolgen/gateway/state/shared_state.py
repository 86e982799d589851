"""State that outlives a call: in the project's files and in this process or its parent, or in Redis, by `state:`."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from functools import cache, partial
from pathlib import Path

from msgspec import Struct

from toolgen.config.gateway import StateSettings
from toolgen.config.settings import Settings
from toolgen.connectors.secrets import SecretResolver
from toolgen.core.background import Background, FaultLog, cancel, each
from toolgen.core.clock import Clock
from toolgen.gateway.policies.policy_acceptance import Acceptance
from toolgen.state.accounts import AccountRows
from toolgen.state.accounts_redis import RedisAccountRows
from toolgen.state.accounts_sqlite import SqliteAccountRows
from toolgen.state.call_journal import CallJournal
from toolgen.state.count_connection import Link
from toolgen.state.departures import Departures, RedisDepartures, SqliteDepartures
from toolgen.state.encryption import Seal, seal_of
from toolgen.state.equal_calls import EqualCalls, RedisEqualCalls, SqliteEqualCalls
from toolgen.state.grants import CallGrant, Grants, RedisGrants, RoleGrant, SqliteGrants
from toolgen.state.idempotency import IdempotencyStore, RedisLedger, SqliteLedger
from toolgen.state.invocations import Invocations
from toolgen.state.invocations_redis import RedisInvocations
from toolgen.state.invocations_sqlite import SqliteInvocations
from toolgen.state.outbox import Outbox
from toolgen.state.outbox_redis import RedisOutbox
from toolgen.state.outbox_sqlite import SqliteOutbox
from toolgen.state.pauses import UNREADABLE, Pauses, SharedPauses
from toolgen.state.rate_limits import MemoryBuckets, WaitingBuckets
from toolgen.state.redis_connection import RedisClock, RedisLink
from toolgen.state.shared_buckets import SharedBuckets
from toolgen.state.shared_counts import CountClient
from toolgen.state.shared_histories import SharedHistories
from toolgen.state.sign_in import SignInRows
from toolgen.state.sign_in_redis import RedisSignInRows
from toolgen.state.sign_in_sqlite import SqliteSignInRows
from toolgen.state.store_watch import StoreWatch
from toolgen.state.tool_changes import FileChanges, RedisChanges, ToolChangesStore
from toolgen.state.turn_counter import MemoryTurns, SharedTurns, TurnCounter
from toolgen.state.value_vault import RedisVault, SqliteVault, ValueVault
from toolgen.state.versioned_box import VersionedBox

__all__ = [
    "UNCOUNTED",
    "Shared",
    "WorkerSockets",
    "account_rows",
    "outbox_of",
    "pauses_of",
    "seal_file",
    "share",
    "shared_acceptance",
    "shared_pauses",
    "sign_in_rows",
    "tool_changes_of",
]

UNCOUNTED = "the counter of limits (Redis, or the supervisor process) cannot be reached"


class WorkerSockets(Struct, frozen=True, kw_only=True):
    """Sockets of one of several workers to the supervisor, as descriptors: for commands of MCP servers, and for counts of all workers. None
    if these are in Redis."""

    commands: int
    counts: int | None = None


class Shared(Struct, frozen=True, kw_only=True):
    """Shared state of one gateway. Counts have a connection of their own, so that no large request delays them.

    `ledger_key` seals outcomes in the ledger; None if that is the key of this machine's log.
    """

    buckets: WaitingBuckets
    invocations: Invocations
    departures: Departures
    grants: Grants[CallGrant]
    roles: Grants[RoleGrant]
    pauses: Pauses | SharedPauses
    histories: SharedHistories | None
    turns: TurnCounter | None
    ledger: IdempotencyStore
    equal_calls: EqualCalls
    vault: ValueVault
    tools: ToolChangesStore
    ledger_key: Callable[[], bytes] | None
    background: Background
    watch: StoreWatch
    journal: CallJournal | None = None
    clock: RedisClock | None = None
    counts: CountClient | None = None
    accepted: VersionedBox[Acceptance | None] | None = None
    _tasks: list[asyncio.Task[None]] = []

    @property
    def troubles(self) -> tuple[FaultLog, ...]:
        """Return possible faults of the shared state."""
        return (self.pauses.trouble,) if isinstance(self.pauses, SharedPauses) else ()

    async def start(self, first: Callable[[], Awaitable[None]] | None = None) -> None:
        """Read the state that is needed before the first call. Pauses are known once `first` has returned."""
        if self.journal is not None:
            self.watch.epoch = await self.journal.epoch()
        await self.pauses.start(first)
        if self.clock is not None:
            await self.clock.set()
            self._tasks.append(self.background.start("setting the clock by Redis", self.clock.run))

    def refusing(self, *, tolerant: bool, counted: bool, asks_history: bool) -> tuple[str, ...]:
        """Return the reason why every call would be refused now: pauses or limits cannot be read; a `tolerant` policy ignores that.
        `counted`: limits can be counted, or there are none. `asks_history`: a rule uses earlier calls, without which no call is decided,
        even under a tolerant policy."""
        pauses, unknown = self.pauses, ""
        if isinstance(pauses, SharedPauses) and pauses.stale and not (tolerant and pauses.known):
            unknown = pauses.trouble.fault or "pauses are not known yet"
        return (
            unknown,
            "" if counted or tolerant else UNCOUNTED,
            self.histories.fault() if asks_history and self.histories is not None else "",
            UNREADABLE.reason if UNREADABLE in pauses.all() else "",
        )

    async def close(self) -> None:
        """Close all connections and files."""
        counted = (self.histories, self.turns, self.buckets, self.invocations, self.departures, self.grants, self.roles)
        others = (self.ledger, self.equal_calls, self.vault, self.tools, self.accepted, self.journal)
        places = (self.clock, self.pauses, *counted, *others)
        try:
            await each(lambda: cancel(*self._tasks), *(one.close for one in places if one is not None))
        finally:
            if self.counts is not None:
                self.counts.end()


def share(
    settings: Settings,
    clock: Clock,
    changed: Callable[[bool], None],
    local: Pauses,
    background: Background,
    counts: int | None = None,
) -> Shared:
    """Make the shared state that `state:` names; nothing is opened yet. `changed` is called when counts are lost, and found again.
    `counts` is `WorkerSockets.counts`: all other state that workers of one host share is in files."""
    state = settings.state
    if state is None:
        client = None if counts is None else CountClient(counts)
        return Shared(
            buckets=WaitingBuckets(
                MemoryBuckets(clock) if client is None else SharedBuckets(client, clock, changed, background=background)
            ),
            invocations=SqliteInvocations(settings.state_dir / "calls.db", clock),
            departures=SqliteDepartures(settings.state_dir / "departures.db"),
            grants=SqliteGrants(settings.state_dir / "grants.db", clock, CallGrant),
            roles=SqliteGrants(settings.state_dir / "roles.db", clock, RoleGrant),
            pauses=local,
            histories=None if client is None else SharedHistories(client, _sealing(settings), clock),
            turns=_turns(settings, clock, background, client),
            counts=client,
            ledger=SqliteLedger(settings.state_dir / "keys.db", clock),
            equal_calls=SqliteEqualCalls(settings.state_dir / "equal.db", clock),
            vault=SqliteVault(settings.state_dir / "values.db", clock, _sealing(settings)),
            tools=tool_changes_of(settings),
            ledger_key=None,
            background=background,
            watch=StoreWatch(clock=clock),
        )
    journal, watch = partial(CallJournal, settings.state_dir / "begun.db"), StoreWatch(clock=clock)
    sealing, shared_clock = cache(_sealing(settings)), RedisClock(_link(state), clock)
    invocations = RedisInvocations(_link(state), _sealing(settings), journal(), watch)
    return Shared(
        buckets=WaitingBuckets(SharedBuckets(_link(state), clock, changed, background=background, watch=watch)),
        invocations=invocations,
        departures=RedisDepartures(_link(state), sealing, lambda: invocations.departures),
        grants=RedisGrants(_link(state), _sealing(settings), journal(), "grants", CallGrant),
        roles=RedisGrants(_link(state), _sealing(settings), journal(), "roles", RoleGrant),
        pauses=SharedPauses(_link(state), _sealing(settings), clock, local, background),
        histories=SharedHistories(_link(state), _sealing(settings), shared_clock, watch),
        turns=_turns(settings, clock, background, _link(state)),
        ledger=RedisLedger(_link(state), sealing, journal(), watch),
        equal_calls=RedisEqualCalls(_link(state), sealing),
        vault=RedisVault(_link(state), sealing),
        tools=tool_changes_of(settings),
        ledger_key=lambda: sealing().ledger,
        background=background,
        watch=watch,
        journal=journal(),
        clock=shared_clock,
        accepted=shared_acceptance(settings),
    )


def _turns(settings: Settings, clock: Clock, background: Background, link: Link | None) -> TurnCounter | None:
    """Return the counter of the turns of conversations; None if there is no turn limit."""
    if settings.turn_limit == math.inf:
        return None
    limit = int(settings.turn_limit)
    return MemoryTurns(limit, clock) if link is None else SharedTurns(limit, link, clock, background=background)


def pauses_of(settings: Settings) -> Pauses:
    """Return the pauses of a project on this machine."""
    return Pauses(settings.state_dir / "pauses.json")


def shared_pauses(settings: Settings, clock: Clock) -> SharedPauses | None:
    """Return the pauses of all gateways that share a project's Redis; None without Redis."""
    if settings.state is None:
        return None
    return SharedPauses(_link(settings.state), _sealing(settings), clock, pauses_of(settings))


def shared_acceptance(settings: Settings) -> VersionedBox[Acceptance | None] | None:
    """Return the policy files that an operator accepted last, for all gateways that share a project's Redis; None without Redis."""
    if settings.state is None:
        return None
    kind, what = Acceptance | None, "which policy files were accepted"
    return VersionedBox(_link(settings.state), _sealing(settings), "policy", kind, None, what)


def tool_changes_of(settings: Settings) -> ToolChangesStore:
    """Return the store of tools that were added and removed at run time; nothing is opened yet."""
    if settings.state is None:
        return FileChanges(settings.state_dir / "tools.json")
    return RedisChanges(_link(settings.state), _sealing(settings))


def outbox_of(settings: Settings, clock: Clock) -> Outbox:
    """Return the store of messages to webhooks until they are delivered; nothing is opened yet."""
    if settings.state is None:
        return SqliteOutbox(settings.state_dir / "notify.db", clock)
    return RedisOutbox(_link(settings.state), cache(_sealing(settings)), tuple(settings.notify.webhooks))


def account_rows(settings: Settings, clock: Clock) -> AccountRows:
    """Return the storage of the accounts that people link; nothing is opened yet."""
    if (store := settings.accounts.store) is not None:
        from toolgen.state.accounts_postgres import PostgresAccountRows  # noqa: PLC0415 - where they are kept there

        return PostgresAccountRows(lambda: SecretResolver().resolve(store).reveal())
    if settings.state is None:
        return SqliteAccountRows(settings.state_dir / "accounts.db", clock)
    return RedisAccountRows(_link(settings.state))


def sign_in_rows(settings: Settings, clock: Clock) -> SignInRows:
    """Return the storage of the sign-ins of people through the gateway; nothing is opened yet."""
    if (store := settings.accounts.store) is not None:
        from toolgen.state.sign_in_postgres import PostgresSignInRows  # noqa: PLC0415 - where they are kept there

        return PostgresSignInRows(lambda: SecretResolver().resolve(store).reveal())
    if settings.state is None:
        return SqliteSignInRows(settings.state_dir / "sign-in.db", clock)
    return RedisSignInRows(_link(settings.state))


def seal_file(settings: Settings) -> Path:
    """Return the path of the key that seals a project's data in Redis: beside that of the audit log."""
    return settings.audit_dir / "seal.key"


def _link(state: StateSettings) -> RedisLink:
    return RedisLink(state.location, state.secret)


def _sealing(settings: Settings) -> Callable[[], Seal]:
    return lambda: seal_of(seal_file(settings))
