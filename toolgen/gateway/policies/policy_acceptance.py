"""Acceptance of incomplete policy files: the files that an operator accepted, and those in force when a gateway served last."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from toolgen.config.settings import Settings
from toolgen.core.errors import StateError
from toolgen.core.files import read_file
from toolgen.policy.document.policy_files import PolicyFiles, incomplete
from toolgen.state.whole_file import write_whole

__all__ = ["ACCEPTED", "Acceptance", "Acceptances", "LocalAcceptances", "accept", "accept_places"]

ACCEPTED = ".accepted"
"""Name of the file in the policy directory with the acceptance. It is hidden, and so no part of the policy."""

_MAX_SIZE = 4_096
_MAX_RECORD = 1024 * 1024 * 1024
_READABLE = 0o644  # readable for the gateway's user; it contains no secret
_logger = logging.getLogger(__name__)


class Acceptance(Struct, frozen=True, kw_only=True):
    """Policy files that an operator accepted, by their digest. `id` distinguishes two acceptances of the same files."""

    id: str
    files: str


def accept_places(settings: Settings) -> tuple[Path, ...]:
    """Return the files of acceptances: beside the policy, and, if that cannot be written, in the project's state."""
    return settings.policies / ACCEPTED, settings.state_dir / "policy-accepted.json"


class _FilesInForce(Struct, frozen=True, kw_only=True):
    """Files in force of a running gateway, and the acceptances that were used so far."""

    files: PolicyFiles
    used: tuple[str, ...] = ()


class LocalAcceptances:
    """Policy files accepted by an operator, from a project's files. With `record` the files in force are stored for a process that starts
    later."""

    def __init__(self, settings: Settings, *, record: bool = False) -> None:
        self._places = accept_places(settings)
        self._record = settings.state_dir / "policy-in-force" if record else None
        self._kept = None if self._record is None else _kept(self._record)
        self._used = {one.id for one in self._written()} if self._kept is None else set(self._kept.used)

    def first(self, files: PolicyFiles) -> tuple[PolicyFiles, tuple[str, ...]]:
        """Return the files to begin with: these, or those that were in force before if these are incomplete compared to them; and what is
        missing in that case."""
        if self._kept is None:
            return files, ()
        missing = incomplete(self._kept.files, files)
        if not missing or self.accepted(files):
            return files, ()
        return self._kept.files, missing

    def used(self, acceptance: Acceptance) -> bool:
        """Return True if the files of this acceptance were put in force before."""
        return acceptance.id in self._used

    async def in_force(self, files: PolicyFiles, shared: Acceptance | None = None) -> None:
        """Note that these files are in force: their acceptance is used, and the next process begins with them."""
        digest, found = files.digest, self._written()
        if shared is not None:
            found.append(shared)
        self._used.update(one.id for one in found if one.files == digest)
        if self._record is not None:
            await asyncio.to_thread(self._keep, self._record, files)

    def accepted(self, files: PolicyFiles) -> bool:
        """Return True if an operator accepted exactly these files on this machine."""
        fresh = [one.files for one in self._written() if one.id not in self._used]
        return bool(fresh) and files.digest in fresh

    def _written(self) -> list[Acceptance]:
        found = []
        for path in self._places:
            with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
                found.append(msgspec.json.decode(read_file(path, _MAX_SIZE), type=Acceptance))
        return found

    def _keep(self, record: Path, files: PolicyFiles) -> None:
        try:
            record.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole(record, msgspec.msgpack.encode(_FilesInForce(files=files, used=tuple(sorted(self._used)))))
        except OSError as error:
            _logger.warning("the policy in force could not be stored for the next start: %s", error.strerror)


class Acceptances:
    """Policy files accepted by an operator, on this machine (`local`) and in the state its gateways share (`shared`).

    An acceptance counts once: if files are lost again, they must be accepted again.
    """

    def __init__(self, local: LocalAcceptances, shared: Callable[[], Awaitable[Acceptance | None]] | None) -> None:
        self._local, self._shared = local, shared

    async def accepted(self, files: PolicyFiles) -> bool:
        """Return True if an operator accepted exactly these files."""
        if self._local.accepted(files):
            return True
        try:
            there = None if self._shared is None else await self._shared()
        except StateError as error:
            _logger.warning("acceptances of policy files on other machines cannot be read: %s", error)
            return False
        return there is not None and not self._local.used(there) and there.files == files.digest

    async def in_force(self, files: PolicyFiles) -> None:
        """Note that these files are in force: their acceptance is used, and the next process begins with them."""
        there = None
        with suppress(StateError):
            there = None if self._shared is None else await self._shared()
        await self._local.in_force(files, there)


def _kept(record: Path) -> _FilesInForce | None:
    """Return the stored files in force; None if they are unknown."""
    try:
        return msgspec.msgpack.decode(read_file(record, _MAX_RECORD), type=_FilesInForce)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def accept(settings: Settings, files: PolicyFiles) -> tuple[Acceptance, Path]:
    """Write that an operator accepts these files: beside them, or in the state of the project if that cannot be written. Raises
    `StateError`."""
    made, reason = Acceptance(id=secrets.token_hex(8), files=files.digest), ""
    for path in accept_places(settings):
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole(path, msgspec.json.encode(made))
            path.chmod(_READABLE)
        except OSError as error:
            reason = error.strerror or type(error).__name__
        else:
            return made, path
    raise StateError(f"the acceptance cannot be written: {reason}", where=str(settings.state_dir))
