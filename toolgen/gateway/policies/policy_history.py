"""History of policies in force and of used keys, for the console, written without delaying calls.

Policies are stored as their files, without secrets: of keys the beginning of their digest, of credentials their references.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from toolgen.core.background import Background, cancel
from toolgen.core.clock import Clock
from toolgen.core.errors import SecretError, StateError
from toolgen.gateway.policies.compiled_policy import CompiledPolicy, CurrentPolicy
from toolgen.model.secret import MASK, parse_reference
from toolgen.state.seen import SeenPolicies

__all__ = ["PolicyHistory", "without_secrets"]

_logger = logging.getLogger(__name__)
_EVERY_S = 10.0
_DIGEST = re.compile(r"(sha256:[0-9a-f]{12})[0-9a-f]{52}")
_KEY = re.compile(r"tgk_[A-Za-z0-9_-]{8,}")
_SECRET_NAMES = re.compile(r"(?i)(password|passwd|secret|token|private[_-]?key|credential)s?\Z")


class PolicyHistory:
    """Watcher that notes changes every few seconds, and at once when another policy comes into force."""

    def __init__(self, seen: SeenPolicies, current: CurrentPolicy, clock: Clock, background: Background) -> None:
        self.seen = seen
        self._current = current
        self._clock = clock
        self._background = background
        self._noted = ""
        self._known: CompiledPolicy | None = None  # its keys are read once more when another policy is in force
        self._fault = ""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start watching."""
        self._task = self._background.start("noting policies and uses of keys", self._run)

    async def stop(self) -> None:
        """Note the last changes, and close the file."""
        if self._task is not None:
            await cancel(self._task)
            await self.note()
        await self.seen.close()

    async def note(self) -> None:
        """Note new data. A failed write is repeated with the next, and never blocks calls."""
        compiled_policy, before = self._current.compiled_policy, self._known
        self._known = compiled_policy
        digest, now = compiled_policy.policy.digest, self._clock.now()
        used = compiled_policy.identity.used_keys()
        if before is not None and before is not compiled_policy:
            used |= before.identity.used_keys()
        try:
            if digest != self._noted:
                files = await asyncio.to_thread(without_secrets, compiled_policy.policy.files)
                await self.seen.policy(digest, files, now)
                self._noted = digest
            if used:
                await self.seen.used(used, now)
        except StateError as error:
            if str(error) != self._fault:
                _logger.warning("the history of the policy cannot be written: %s", error)
            self._fault = str(error)

    async def _run(self) -> None:
        while True:
            await self.note()
            with suppress(TimeoutError):
                async with asyncio.timeout(_EVERY_S):
                    await self._current.changed()


def without_secrets(files: Mapping[str, Any]) -> dict[str, Any]:
    """Return the policy files for people to read: an accepted key as the beginning of its digest, and credential values only if they are
    references."""
    return {name: _file(data) for name, data in files.items()}


def _file(data: Any) -> Any:
    if not isinstance(data, Mapping):
        return _plain(data)
    return {
        section: [_assignment(one) for one in content]
        if section == "credentials" and isinstance(content, list)
        else _plain(content)
        for section, content in data.items()
        if section not in {"keys", "revoked"}  # not part of what a digest covers
    }


def _assignment(given: Any) -> Any:
    if not isinstance(given, Mapping):
        return MASK
    return {name: _masked(value) if name not in {"source", "to"} else _plain(value) for name, value in given.items()}


def _masked(value: Any) -> Any:
    """Return a value with all of its texts and numbers masked, except references; names of members stay."""
    if isinstance(value, Mapping):
        return {name: _masked(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_masked(inner) for inner in value]
    return value if isinstance(value, str) and _is_reference(value) else MASK


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            name: MASK
            if isinstance(inner, str) and _SECRET_NAMES.search(str(name)) and not _is_reference(inner)
            else _plain(inner)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, str):
        return _KEY.sub(MASK, _DIGEST.sub(r"\1…", value))
    return value


def _is_reference(text: str) -> bool:
    try:
        return parse_reference(text).provider != "literal"
    except SecretError:
        return False
