"""Policy reloader: reads the policy again when its files change, and decides when each part of an edit comes into force.

Revoked and removed grants end at once. New grants come into force once the files have been unchanged for two seconds and are valid; if a
file is gone or was truncated, once an operator has accepted that. An invalid edit changes nothing, except for its revocations.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from toolgen.config.settings import Settings
from toolgen.core.background import Background, cancel
from toolgen.core.errors import PolicyError, ToolgenError
from toolgen.gateway.metrics.prometheus import PolicyCounts
from toolgen.gateway.policies.compiled_policy import CompiledPolicy, GatewayDependencies
from toolgen.gateway.policies.policy_acceptance import Acceptances
from toolgen.generator.emit.writer import MANIFEST
from toolgen.policy.credentials import PolicyCredentials
from toolgen.policy.document.policy import Policy
from toolgen.policy.document.policy_files import PolicyFiles, incomplete, read_files
from toolgen.policy.key_list import without_revoked
from toolgen.policy.narrowing import narrowed
from toolgen.policy.role_grants import NOTHING_GIVEN, GivenRoles

__all__ = ["INTERVAL_S", "SETTLED_S", "FileStates", "PolicyReloader", "State", "file_states", "state_of"]

INTERVAL_S = 0.2
"""Time between two checks of the files. A change is read after the files were stable for this long: a revoked key stops working within a
second."""

SETTLED_S = 2.0
"""Time for which files have to be unchanged before new grants of an edit come into force: a file that is still being written is not half an
edit."""

_RESTLESS = (
    3  # checks after which a change is read although files keep changing, so that continuous writes delay no revocation
)

State: TypeAlias = tuple[tuple[str, int, int, int, int], ...]
"""Data of `stat` for every file of a directory, including the time of its inode, which no program can set."""


def state_of(directory: Path) -> State:
    """Return name, size, inode and both times of each file, in name order; nothing for an unreadable directory.

    Hidden files and notes are not part of a policy; an editor's swap file changes all the time.
    """
    try:
        with os.scandir(directory) as found:
            named = [
                entry for entry in found if not entry.name.startswith(".") and not entry.name.lower().endswith(".md")
            ]
    except OSError:
        return ()
    entries = sorted(named, key=lambda entry: entry.name)
    return tuple(item for entry in entries if (item := _item(entry)) is not None)


_STEM = MANIFEST.partition(".")[0]


class FileStates(Struct, frozen=True, kw_only=True):
    """File states (`stat`) of the policy and of the built catalog, taken before either was read, and the policy files as read."""

    policies: State
    built: State
    files: PolicyFiles | None = None


def file_states(settings: Settings) -> FileStates:
    """Return the file states before the files are read, so that a change while they are read is noticed."""
    built = tuple(one for one in state_of(settings.generated) if one[0].startswith(_STEM))
    return FileStates(policies=state_of(settings.policies), built=built)


def _item(entry: os.DirEntry[str]) -> tuple[str, int, int, int, int] | None:
    """Return the state of a file. A symbolic link counts as its target, because a mounted ConfigMap changes that way."""
    try:
        status = entry.stat()
    except OSError:
        return None
    return entry.name, status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns


_logger = logging.getLogger(__name__)

Note = Callable[[Mapping[str, Any]], Awaitable[None]]
"""Function that records events of the gateway itself."""


class _Edit(Struct, kw_only=True):
    """Policy of the current files, if it is not the one in force. `files` is None if they cannot be used any more: then the edit only
    narrows, and never comes into force."""

    policy: Policy
    files: PolicyFiles | None
    missing: tuple[str, ...]


class PolicyReloader:
    """Reloader that puts a policy in force, and another one when its files change.

    `state` is the state of the files before they were read: `start` handles changes since then.
    """

    def __init__(
        self,
        policy: Policy,
        runtime: GatewayDependencies,
        note: Note,
        state: FileStates | None,
        background: Background,
        acceptances: Acceptances,
    ) -> None:
        self._background, self._acceptances = background, acceptances
        self._current = runtime.current
        self._read, self._given = policy, NOTHING_GIVEN
        self._edit: _Edit | None = None
        self._loaded = self._failed = 0
        self.unread = ""
        """Error of an edited policy while an older version is in force."""
        self.held = ""
        """Reason why new grants of an edit wait for an operator's acceptance."""
        self.runtime = runtime
        self._directory = runtime.settings.policies
        self.note = note
        self.state = file_states(runtime.settings) if state is None else state
        """State of the files before they were first read."""
        self._files = self.state.files or self._now()
        self._taken: State | None = self.state.policies
        self._seen, self._since_change, self._looks = self.state.policies, -math.inf, 0
        self._reloading = asyncio.Lock()
        self._watches: list[asyncio.Task[None]] = []
        self._searched: State | None = self.state.policies  # files in which revocations were last searched
        self._since = runtime.clock.now()
        self._current.put(CompiledPolicy(policy, runtime))

    def counts(self) -> PolicyCounts:
        """Number of edits that came into force, and the time of the last one."""
        given = [one for roles in self._given.values() for one in roles]
        return PolicyCounts(
            loaded=self._loaded,
            failed=self._failed,
            since=self._since,
            unused=bool(self.unread or self.held),
            roles_given=len(given),
            broken_glass=sum(one.break_glass for one in given),
        )

    @property
    def loaded(self) -> int:
        """Number of changes of the policy in force."""
        return self._loaded

    @property
    def unsettled(self) -> bool:
        """Return True while an edit of the policy is read, or is not in force as a whole."""
        return self._edit is not None or self._reloading.locked()

    @property
    def settled(self) -> bool:
        """Return True if the files have been unchanged for as long as an edit must be."""
        return self.runtime.clock.monotonic() - self._since_change >= SETTLED_S

    def give(self, given: GivenRoles) -> None:
        """Put temporary roles in force, in place of the former ones."""
        if given != self._given:
            self._given = given
            self._current.put(self._compiled_policy())

    def start(self) -> None:
        """Start watching the policy's files."""
        self._watches = [
            self._background.start("watching the policy", self._look_on),
            self._background.start("watching for revocations", self._look_for_revocations),
        ]

    async def stop(self) -> None:
        """Stop watching; the policy in force stays."""
        for watch in self._watches:
            await cancel(watch)

    async def _look_on(self) -> None:
        await self._acceptances.in_force(self._files)
        while True:
            await asyncio.sleep(INTERVAL_S)
            await self.look()

    async def _look_for_revocations(self) -> None:
        """Apply revocations while another edit is being read, which takes seconds if a whole file is new."""
        while True:
            await asyncio.sleep(INTERVAL_S)
            if self._reloading.locked() and (state := state_of(self._directory)) != self._searched:
                await self.revoke(state)

    async def revoke(self, state: State) -> None:
        """Put only the revocations of the files in force. `state` is the state of the files before they are read here."""
        self._searched = state
        try:
            files = await asyncio.to_thread(read_files, self._directory)
            await self._revoke_first(files)
        except Exception:  # noqa: BLE001 - any error: reading the whole policy reports it, and later edits must still be noticed
            return

    async def look(self) -> None:
        """Check the files once: a change is read, and a change that was read comes into force as a whole when it is due."""
        state, now = state_of(self._directory), self.runtime.clock.monotonic()
        rests = state == self._seen
        if not rests:
            self._seen, self._since_change = state, now
        self._looks = 0 if state == self._taken else self._looks + 1
        if self._looks and (rests or self._looks >= _RESTLESS):
            async with self._reloading:
                await self._take(state)
        elif self._edit is not None and self._edit.files is not None and self.settled:
            async with self._reloading:
                await self._settle()

    async def reload(self, *, complete: bool = True) -> bool:
        """Read the policy again. `complete`: the operator states that the edit is complete, and it comes into force as a whole; otherwise
        it is handled like a noticed change. Return False if it cannot be used: then the policy in force stays.

        Either is logged and audited; `unread` has the error until a later reading succeeds, and `held` the missing files.
        """
        async with self._reloading:
            await self._take(state_of(self._directory), complete=complete)
            return not self.unread

    async def _take(self, state: State, *, complete: bool = False) -> None:
        """Read the files and put their revocations in force; all of their content if they are `complete`."""
        self._taken, self._searched, self._looks = state, state, 0
        files: PolicyFiles | None = None
        try:
            files = await asyncio.to_thread(read_files, self._directory)
            await self._revoke_first(files)
            policy = await asyncio.to_thread(self.runtime.read_policy, files, self.runtime.known)
        except Exception as error:  # noqa: BLE001 - any error: later edits must still be noticed
            await self._fail(error, () if files is None else incomplete(self._files, files))
            return
        self.unread = ""
        before, edit = self._current.compiled_policy.policy, self._edit
        if (policy.digest, policy.keys_digest) == (self._read.digest, self._read.keys_digest):
            self._edit, self.held = None, ""
            self._files = files
            if edit is not None:
                await self._put(before)
            return
        self._edit = _Edit(policy=policy, files=files, missing=incomplete(self._files, files))
        if complete:
            await self._settle()
        if self._edit is not None:
            await self._put(before)
        self._hold()

    async def _revoke_first(self, files: PolicyFiles) -> None:
        """Apply the revocations in the files before the rest is read, which takes seconds if a whole file is new."""
        await self._take_away(lambda credentials: self.runtime.without_revoked(files, credentials))

    async def _take_away(self, less: Callable[[PolicyCredentials], PolicyCredentials]) -> bool:
        """Put the credentials reduced by `less`, which runs in a thread, in force. Returns False if nothing was removed."""
        while True:
            read = self._read
            credentials = await asyncio.to_thread(less, read.credentials)
            if read is self._read:  # otherwise other grants were removed meanwhile, and this narrows the rest
                break
        if credentials == read.credentials:
            return False
        self._read = replace(read, credentials=credentials, keys_digest="")
        self._enforce()
        return True

    async def _settle(self) -> None:
        """Put the edit in force as a whole, if the files still have it and nothing is missing."""
        edit = self._edit
        if edit is None or edit.files is None:
            return
        if edit.missing and not await self._acceptances.accepted(edit.files):
            return
        if self._now() != edit.files:  # stat did not show it
            self._taken, self._since_change = None, self.runtime.clock.monotonic()
            return
        before = self._current.compiled_policy.policy
        self._read, self._files, self._edit, self.held = edit.policy, edit.files, None, ""
        await self._put(before)
        await self._acceptances.in_force(self._files)

    def _hold(self) -> None:
        missing = () if self._edit is None else self._edit.missing
        held = _held(missing) if missing else ""
        if held and held != self.held:
            _logger.error("%s", held)
        self.held = held

    async def _fail(self, error: Exception, missing: tuple[str, ...]) -> None:
        said = str(error) if isinstance(error, ToolgenError) else f"reading it failed ({type(error).__name__})"
        self._failed += 1
        self.unread = "; ".join((f"an edit of the policy is not in force: {said}", *missing))
        self.held = ""
        _logger.error("%s", self.unread)
        if self._edit is not None:
            self._edit.files = None
        await self.note(
            {"event": "policy", "policy_digest": self._current.compiled_policy.policy.digest, "status": "error"}
        )
        await self._revoke()

    async def adopt(self, runtime: GatewayDependencies, begin: Callable[[], Awaitable[None]]) -> None:
        """Put another catalog in force, and the policy under it. `begin` runs just before.

        Raises `ToolgenError` if the policy is invalid under it, and errors of `begin`: nothing changes then.
        """
        async with self._reloading:
            state, files, edit = state_of(self._directory), self._files, None
            now = await asyncio.to_thread(self._now)
            unchanged = self.settled and state == self._seen
            if now != files and unchanged and (not incomplete(files, now) or await self._acceptances.accepted(now)):
                files = now
            policy = await asyncio.to_thread(runtime.read_policy, files, runtime.known)
            if self._edit is not None and files is not now:
                edit = await asyncio.to_thread(self._edit_again, self._edit, runtime)
            before = self._current.compiled_policy.policy
            await begin()
            self.runtime, self.unread = runtime, ""
            gone = policy.credentials.without(
                self._read.credentials, None
            )  # also revocations since the files were read
            if gone != policy.credentials:
                policy = replace(policy, credentials=gone, keys_digest="")
            self._read, self._files, self._edit = policy, files, edit
            # With this catalog the policy may be valid.
            if not policy.keys_digest or (files is not now and files != now):
                self._taken = None
            await self._put(before, always=True)

    def _edit_again(self, edit: _Edit, runtime: GatewayDependencies) -> _Edit:
        """Return the edit under another catalog; unchanged if it is invalid under it."""
        try:
            return replace(edit, policy=runtime.read_policy(edit.files or self._files, runtime.known))
        except PolicyError:
            return replace(edit, files=None)

    async def narrow(self, runtime: GatewayDependencies, begin: Callable[[], Awaitable[None]]) -> None:
        """Put a catalog with fewer tools in force, under the policy in force: a broken edit of the policy does not block it."""
        async with self._reloading:
            await begin()
            self.runtime = runtime
            self._enforce()

    async def _revoke(self) -> None:
        """Apply new revocations, also if the rest of the edit cannot be used."""
        if await self._take_away(lambda credentials: without_revoked(credentials, self._directory)):
            _logger.warning("new revocations are in force; the rest of the edit is not")
            await self.note({"event": "keys", "policy_digest": self._read.digest, "status": "ok"})

    async def _put(self, before: Policy, *, always: bool = False) -> None:
        """Put the current policy in force, and report the differences from the former one."""
        compiled_policy = self._compiled_policy()
        policy = compiled_policy.policy
        same = policy.digest == before.digest
        if same and policy.keys_digest == before.keys_digest and not always:
            return
        self._loaded, self._since = self._loaded + 1, self.runtime.clock.now()
        self._current.put(compiled_policy)
        waits = "" if self._edit is None else ", narrowed by an edit; what the edit grants waits"
        if not same:
            _logger.warning("the policy %s is in force%s", policy.digest, waits)
            await self.note({"event": "policy", "policy_digest": policy.digest, "status": "ok"})
        elif policy.keys_digest != before.keys_digest:
            _logger.warning("other keys are accepted, or revoked, from now on%s", waits)
            await self.note({"event": "keys", "policy_digest": policy.digest, "status": "ok"})

    def _enforce(self) -> None:
        self._loaded, self._since = self._loaded + 1, self.runtime.clock.now()
        self._current.put(self._compiled_policy())

    def _compiled_policy(self) -> CompiledPolicy:
        """Return the compiled policy in force, narrowed by a waiting edit if there is one."""
        read, edit, before = self._read, self._edit, self._current.compiled_policy
        if edit is None:
            return CompiledPolicy(read.with_given(self._given), self.runtime, before=before)
        if edit.policy.digest == read.digest:
            return CompiledPolicy(narrowed(read, edit.policy).with_given(self._given), self.runtime, before=before)
        edited = CompiledPolicy(edit.policy.with_given(self._given), self.runtime, before=before)
        return CompiledPolicy(read.with_given(self._given), self.runtime, edited, before)

    def _now(self) -> PolicyFiles:
        """Return the current files; none if they cannot be read."""
        try:
            return read_files(self._directory)
        except PolicyError:
            return PolicyFiles(directory=self._directory.name, contents={})


def _held(missing: tuple[str, ...]) -> str:
    return (
        f"an edit of the policy is incomplete: {'; '.join(missing)}. Its removals are in force, its new grants are not. Restore the file, "
        "end the file with a line `...`, or run `toolgen policy accept`"
    )
