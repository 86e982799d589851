"""Resolves secret references at send time: what is here at once, what is elsewhere when it was fetched.

`${keyring:service/name}`: the keyring of the account that the gateway runs as, by the keyring library where it is installed.
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from toolgen.clock import Clock, SystemClock
from toolgen.errors import SecretError
from toolgen.execute.base import Permit
from toolgen.execute.secrets.vault import Vault
from toolgen.files import read_file
from toolgen.model.secret import MASK, Secret, SecretReference, parse_reference

__all__ = ["MASK", "Secret", "SecretReference", "Secrets", "parse_reference", "read_keyring"]


def read_keyring(locator: str) -> str:
    """The password `service/name`. May wait for the desktop or the system's service. Raises `SecretError`, naming the reference."""
    try:
        import keyring  # noqa: PLC0415 - behind the extra `keyring`
        from keyring.errors import KeyringError  # noqa: PLC0415
    except ImportError:
        raise SecretError(
            f"${{keyring:{locator}}} needs the keyring library",
            suggestion='install it with: pip install "toolgen[keyring]"',
        ) from None
    service, _, name = locator.partition("/")
    try:
        value = keyring.get_password(service, name)
    except (KeyringError, RuntimeError, OSError) as error:
        raise SecretError(
            f"the keyring cannot be asked for {locator} ({type(error).__name__})",
            suggestion="unlock it, or choose a backend for the account the gateway runs as",
        ) from None
    if not value:
        raise SecretError(
            f"the keyring has no password {locator}", suggestion=f"set it with: keyring set {service} {name}"
        )
    return value


_MAX_FILE_SIZE = 65_536
_MAX_FILES = 1024
_KEYRING_S = 60.0
_CLOCK = SystemClock()
_SUGGESTION = "set it where the gateway runs"


class Secrets:
    """Resolves references each time one is needed, so that a rotated variable, file or entry is seen by the next call.

    Variables and files are looked at every time; what has to be fetched (Vault, keyrings) is remembered for a while. `permit` is asked
    about the address of a Vault, and lets every one through where it is None: for what an operator starts by hand.
    """

    def __init__(
        self,
        environment: Mapping[str, str] = os.environ,
        *,
        permit: Permit | None = None,
        clock: Clock = _CLOCK,
    ) -> None:
        self._environment = environment
        self._clock = clock
        self._files: OrderedDict[str, tuple[tuple[int, int, int], str]] = OrderedDict()
        self._vault = Vault(environment, permit=permit, clock=clock)
        self._keyring: dict[str, tuple[float, str]] = {}

    def known(self, reference: SecretReference) -> Secret | None:
        """The value, where it can be had without waiting for anybody; None where `fetch` must be asked.

        Raises `SecretError`, naming the reference, when there is no value or an empty one.
        """
        match reference.provider:
            case "env":
                value = self._environment.get(reference.locator, "")
                missing = f"the environment variable {reference.locator} is not set"
            case "file":
                value = self._file(reference.locator)
                missing = f"the secret file {reference.locator} is empty or cannot be read"
            case "vault":
                found = self._vault.known(reference.locator)
                return None if found is None else Secret(reference.prefix + found)
            case "keyring":
                entry = self._keyring.get(reference.locator)
                if entry is None or entry[0] <= self._clock.monotonic():
                    return None
                return Secret(reference.prefix + entry[1])
            case _:
                value = reference.locator
                missing = "a secret in toolgen.yaml is empty"
        if not value:
            raise SecretError(missing, suggestion=_SUGGESTION)
        return Secret(reference.prefix + value)

    async def fetch(self, reference: SecretReference) -> Secret:
        """The value, wherever it is. Raises `SecretError` as `known` does."""
        known = self.known(reference)
        if known is not None:
            return known
        if reference.provider == "vault":
            return Secret(reference.prefix + await self._vault.read(reference.locator))
        value = await asyncio.to_thread(read_keyring, reference.locator)
        self._keyring[reference.locator] = (self._clock.monotonic() + _KEYRING_S, value)
        return Secret(reference.prefix + value)

    def resolve(self, reference: SecretReference) -> Secret:
        """The same for who cannot await: a build, a command. Waits where it has to."""
        known = self.known(reference)
        if known is not None:
            return known
        with ThreadPoolExecutor(max_workers=1) as aside:  # there may be a loop in this thread already
            return aside.submit(lambda: asyncio.run(self.fetch(reference))).result()

    def _file(self, path: str) -> str:
        """The content of a file, read again whenever the file is another: one replaced, written to or touched."""
        try:
            stat = os.stat(path)
            mark = (stat.st_mtime_ns, stat.st_ino, stat.st_size)
            known = self._files.get(path)
            if known is not None and known[0] == mark:
                return known[1]
            text = read_file(path, _MAX_FILE_SIZE).decode("utf-8")
        except (OSError, UnicodeDecodeError, ValueError):
            self._files.pop(path, None)
            return ""
        if len(text) > _MAX_FILE_SIZE:
            return ""
        text = text.strip()
        self._files[path] = (mark, text)
        if len(self._files) > _MAX_FILES:
            self._files.popitem(last=False)
        return text
