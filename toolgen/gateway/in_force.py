"""The policy in force: read again when its files change, put in force whole, and the old one kept where the new one is broken."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from toolgen.background import Background
from toolgen.errors import ToolgenError
from toolgen.gateway.governance import Governance, Runtime
from toolgen.gateway.reload import State, state_of, watch
from toolgen.policy.document import Policy
from toolgen.policy.document import load as load_policy
from toolgen.policy.key_list import without_revoked

__all__ = ["InForce"]

_logger = logging.getLogger(__name__)

Note = Callable[[Mapping[str, Any]], Awaitable[None]]
"""Records what happened to the gateway itself."""


class InForce:
    """What was compiled from the policy that calls are decided by. Whoever begins a call keeps that call's `governance` to its end.

    `state` is what `state_of` said of the policy's files before they were read: a change since then is acted on by `start`.
    """

    def __init__(
        self, policy: Policy, runtime: Runtime, note: Note, state: State | None, background: Background
    ) -> None:
        self._background = background
        self.governance = Governance(policy, runtime)
        self.unread = ""
        """What is wrong with the policy's files, while an older reading of them is in force."""
        self._runtime = runtime
        self._directory = runtime.settings.policies
        self._note = note
        self._state = state_of(self._directory) if state is None else state
        self._changes = asyncio.Event()
        self._reloading = asyncio.Lock()
        self._watch: asyncio.Task[None] | None = None

    @property
    def policy(self) -> Policy:
        """As it was read."""
        return self.governance.policy

    def start(self) -> None:
        """Begins to look after the policy's files."""
        self._watch = self._background.start(
            "watching the policy", lambda: watch(self._directory, self._state, self.reload)
        )

    async def stop(self) -> None:
        """What is in force stays so."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait((self._watch,))

    async def changed(self) -> None:
        """Returns when another policy, or other keys, came into force."""
        await self._changes.wait()

    async def reload(self) -> bool:
        """Reads the policy again and puts it in force whole. False when it cannot be used: then what was in force stays so.

        Either is in the log and in the audit; `unread` says what is wrong until a later reading succeeds.
        """
        async with self._reloading:
            try:
                policy = await asyncio.to_thread(load_policy, self._directory, self._runtime.manifest)
            except Exception as error:  # noqa: BLE001 - also a fault of ours in reading it: the next edit must still be looked at
                said = str(error) if isinstance(error, ToolgenError) else f"reading it failed ({type(error).__name__})"
                self.unread = f"an edit of the policy is not in force: {said}"
                _logger.error("%s", self.unread)  # noqa: TRY400 - the error says all there is to say
                await self._note({"event": "policy", "policy_digest": self.policy.digest, "status": "error"})
                await self._revoke()
                return False
            self.unread = ""
            if policy.digest != self.policy.digest:
                self._put(policy)
                _logger.warning("the policy %s is in force", policy.digest)
                await self._note({"event": "policy", "policy_digest": policy.digest, "status": "ok"})
            elif policy.keys_digest != self.policy.keys_digest:
                self._put(policy)
                _logger.warning("other keys are accepted, or revoked, from now on")
                await self._note({"event": "keys", "policy_digest": policy.digest, "status": "ok"})
            return True

    async def _revoke(self) -> None:
        """What was revoked is revoked, also beside an edit that cannot be used."""
        credentials = await asyncio.to_thread(without_revoked, self.policy.credentials, self._directory)
        if credentials != self.policy.credentials:
            self._put(replace(self.policy, credentials=credentials, keys_digest=""))
            _logger.warning("what was revoked since is in force; the rest of the edit is not")
            await self._note({"event": "keys", "policy_digest": self.policy.digest, "status": "ok"})

    def _put(self, policy: Policy) -> None:
        self.governance = Governance(policy, self._runtime)
        changes, self._changes = self._changes, asyncio.Event()
        changes.set()
