"""The policy in force: read again when its files change, put in force whole, and the old one kept where the new one is broken.

Notices that a directory of policies has changed, without reading it again and again.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from toolgen.background import Background, cancel
from toolgen.config.settings import Settings
from toolgen.emit.writer import MANIFEST
from toolgen.errors import ToolgenError
from toolgen.gateway.compiled_policy import Governance, Runtime
from toolgen.gateway.prometheus import PolicyCounts
from toolgen.policy.document.policy import Policy
from toolgen.policy.key_list import without_revoked
from toolgen.policy.role_grants import NOTHING_GIVEN, GivenRoles

__all__ = ["INTERVAL_S", "FileStates", "PolicyReloader", "State", "file_states", "state_of", "watch"]

INTERVAL_S = 0.2
"""A change is acted on once it has rested for this long: a key that is revoked stops working within a second."""

_RESTLESS = (
    3  # looks at which a change is acted on though files keep changing: writing on and on holds back no revocation
)

State: TypeAlias = tuple[tuple[str, int, int, int, int], ...]
"""What `stat` says of every file of a directory. The time of its inode is among it, which no program can set back."""


def state_of(directory: Path) -> State:
    """Name, size, inode and both times of each file, in name order; nothing for what cannot be listed.

    Hidden files are no part of a policy, and an editor's swap file changes all the time.
    """
    try:
        with os.scandir(directory) as found:
            entries = sorted((entry for entry in found if not entry.name.startswith(".")), key=lambda entry: entry.name)
    except OSError:
        return ()
    return tuple(item for entry in entries if (item := _item(entry)) is not None)


_STEM = MANIFEST.partition(".")[0]


class FileStates(Struct, frozen=True, kw_only=True):
    """What `stat` said of the policy's files and of what was built, before either was read."""

    policies: State
    built: State


def file_states(settings: Settings) -> FileStates:
    """Taken before files are read, so that a change while they are read is a change since."""
    built = tuple(one for one in state_of(settings.generated) if one[0].startswith(_STEM))
    return FileStates(policies=state_of(settings.policies), built=built)


async def watch(directory: Path, known: State, changed: Callable[[], Awaitable[object]]) -> None:
    """Calls `changed` after every change since `known`, until it is cancelled."""
    last, looks = known, 0
    while True:
        await asyncio.sleep(INTERVAL_S)
        state = state_of(directory)
        looks = 0 if state == known else looks + 1
        if looks and (state == last or looks >= _RESTLESS):
            known, looks = state, 0
            await changed()
        last = state


def _item(entry: os.DirEntry[str]) -> tuple[str, int, int, int, int] | None:
    """A symbolic link is what it leads to: that is how a mounted ConfigMap changes."""
    try:
        status = entry.stat()
    except OSError:
        return None
    return entry.name, status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns


_logger = logging.getLogger(__name__)

Note = Callable[[Mapping[str, Any]], Awaitable[None]]
"""Records what happened to the gateway itself."""


class CatalogReloader(Protocol):
    """What looks after the catalog beside the policy."""

    unread: str

    def start(self, background: Background) -> None: ...

    async def stop(self) -> None: ...


class PolicyReloader:
    """Puts a policy in force, and another one when its files change.

    `state` is what the files were before they were read: a change since then is acted on by `start`.
    """

    def __init__(
        self, policy: Policy, runtime: Runtime, note: Note, state: FileStates | None, background: Background
    ) -> None:
        self._background = background
        self._current = runtime.current
        self._read, self._given = policy, NOTHING_GIVEN
        self._current.put(Governance(policy, runtime))
        self._loaded = self._failed = 0
        self._since = runtime.clock.now()
        self.unread = ""
        """What is wrong with the policy's files, while an older reading of them is in force."""
        self.runtime = runtime
        self.catalog: CatalogReloader | None = None
        """What looks after the catalog, and puts another in force by `adopt`."""
        self._directory = runtime.settings.policies
        self.note = note
        self.state = file_states(runtime.settings) if state is None else state
        """What the files were before they were first read."""
        self._reloading = asyncio.Lock()
        self._watch: asyncio.Task[None] | None = None

    def counts(self) -> PolicyCounts:
        """How often edits came into force, and since when what is in force is."""
        given = [one for roles in self._given.values() for one in roles]
        return PolicyCounts(
            loaded=self._loaded,
            failed=self._failed,
            since=self._since,
            unused=bool(self.unread),
            roles_given=len(given),
            broken_glass=sum(one.break_glass for one in given),
        )

    def give(self, given: GivenRoles) -> None:
        """Puts in force what people were given for some time, in place of what they were before."""
        if given != self._given:
            self._given = given
            self._current.put(Governance(self._read.with_given(given), self.runtime))

    def start(self) -> None:
        """Begins to look after the policy's files."""
        self._watch = self._background.start(
            "watching the policy", lambda: watch(self._directory, self.state.policies, self.reload)
        )
        if self.catalog is not None:
            self.catalog.start(self._background)

    async def stop(self) -> None:
        """What is in force stays so."""
        if self.catalog is not None:
            await self.catalog.stop()
        if self._watch is not None:
            await cancel(self._watch)

    async def reload(self) -> bool:
        """Reads the policy again and puts it in force whole. False when it cannot be used: then what was in force stays so.

        Either is in the log and in the audit; `unread` says what is wrong until a later reading succeeds.
        """
        async with self._reloading:
            try:
                policy = await asyncio.to_thread(self.runtime.read_policy, self.runtime.known)
            except Exception as error:  # noqa: BLE001 - also a fault of ours in reading it: the next edit must still be looked at
                said = str(error) if isinstance(error, ToolgenError) else f"reading it failed ({type(error).__name__})"
                self._failed += 1
                self.unread = f"an edit of the policy is not in force: {said}"
                _logger.error("%s", self.unread)  # noqa: TRY400 - the error says all there is to say
                await self.note(
                    {"event": "policy", "policy_digest": self._current.governance.policy.digest, "status": "error"}
                )
                await self._revoke()
                return False
            self.unread = ""
            before = self._current.governance.policy
            if policy.digest != before.digest:
                self._put(policy)
                _logger.warning("the policy %s is in force", policy.digest)
                await self.note({"event": "policy", "policy_digest": policy.digest, "status": "ok"})
            elif policy.keys_digest != before.keys_digest:
                self._put(policy)
                _logger.warning("other keys are accepted, or revoked, from now on")
                await self.note({"event": "keys", "policy_digest": policy.digest, "status": "ok"})
            return True

    async def adopt(self, runtime: Runtime, begin: Callable[[], Awaitable[None]]) -> None:
        """Puts another catalog in force, and the policy as it reads with it. `begin` comes just before.

        Raises `ToolgenError` where it cannot be read so, and what `begin` raises: nothing changes then.
        """
        async with self._reloading:
            policy = await asyncio.to_thread(runtime.read_policy, runtime.known)
            before = self._current.governance.policy
            await begin()
            self.runtime, self.unread = runtime, ""
            self._put(policy)
            if policy.digest != before.digest:
                await self.note({"event": "policy", "policy_digest": policy.digest, "status": "ok"})

    async def narrow(self, runtime: Runtime, begin: Callable[[], Awaitable[None]]) -> None:
        """Puts a catalog in force that has fewer tools, under the policy in force: no broken edit of that holds it up."""
        async with self._reloading:
            await begin()
            self.runtime = runtime
            self._put(self._read)

    async def _revoke(self) -> None:
        """What was revoked is revoked, also beside an edit that cannot be used."""
        policy = self._read
        credentials = await asyncio.to_thread(without_revoked, policy.credentials, self._directory)
        if credentials != policy.credentials:
            self._put(replace(policy, credentials=credentials, keys_digest=""))
            _logger.warning("what was revoked since is in force; the rest of the edit is not")
            await self.note({"event": "keys", "policy_digest": policy.digest, "status": "ok"})

    def _put(self, policy: Policy) -> None:
        self._loaded, self._since = self._loaded + 1, self.runtime.clock.now()
        self._read = policy
        self._current.put(Governance(policy.with_given(self._given), self.runtime))
