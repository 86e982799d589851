"""Resolves secret references at send time: what is here at once, what is elsewhere when it was fetched.

`${keyring:service/name}`: the keyring of the account that the gateway runs as, by the keyring library where it is installed.
`${aws:name#key}`, `${gcp:project/name#key}` and `${azure:vault/name#key}`: secrets of cloud providers (`cloud_secrets`).
`${vault:path#key}`: HashiCorp Vault's KV version 2 over its HTTP API, configured as Vault's own tools are, by VAULT_ADDR and so on.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote, urlsplit

from msgspec.structs import replace

from toolgen.connectors.cloud_secrets import CLOUDS, CloudSecrets
from toolgen.connectors.executor import Destination, Permit
from toolgen.connectors.http.outbound.client import ask
from toolgen.connectors.http.outbound.request import (
    OutboundError,
    OutboundRequest,
    OutboundResponse,
    TlsMaterial,
    UnreachableError,
    Via,
)
from toolgen.core.clock import Clock, SystemClock
from toolgen.core.errors import SecretError
from toolgen.core.files import read_file
from toolgen.model.secret import MASK, Secret, SecretReference, Unprinted, parse_reference

__all__ = ["MASK", "Secret", "SecretReference", "SecretResolver", "VaultClient", "parse_reference"]

_TTL_S = 300.0
_FAILED_S = 5.0
_MAX_DURATION_S = 86_400
_MAX_SECRETS = 1024
_MAX_PEM_SIZE = 1_048_576
_AWAY = frozenset({429, 472, 473})  # https://developer.hashicorp.com/vault/api-docs/system/health
_EARLY = 0.9  # of its time, after which a token is asked for again

log = logging.getLogger("toolgen.secrets")


class _CachedFields(Unprinted, frozen=True):
    """The fields of one secret, or a sentence about why there are none; both for a time. Fields may be used until `last` where there are
    no others."""

    fields: Mapping[str, str]
    fault: str
    until: float
    last: float = 0.0


class _LoginError(OutboundError):
    """Vault does not let this gateway in."""


class VaultClient:
    """Reads secrets of one Vault. What was read is remembered for `TOOLGEN_VAULT_TTL` seconds (300), or a shorter lease.

    When Vault cannot be reached, what was read before is used for as long again. Whatever else keeps it from being read is a no, and it is
    used no more, at once; a login that is refused ends what all earlier ones brought.
    """

    def __init__(self, environment: Mapping[str, str], *, permit: Permit | None, clock: Clock) -> None:
        self._environment = environment
        self._permit = permit
        self._clock = clock
        self._entries: OrderedDict[str, _CachedFields] = OrderedDict()
        self._reading: dict[str, asyncio.Task[_CachedFields]] = {}
        self._token: tuple[str, float] = ("", 0.0)

    def __repr__(self) -> str:
        return "Vault(***)"

    def known(self, locator: str) -> str | None:
        """Return the cached value of `path#key`, or None if there is none. Raises `SecretError` if reading it failed a short time ago."""
        path, _, key = locator.rpartition("#")
        entry = self._entries.get(path)
        if entry is None or entry.until <= self._clock.monotonic():
            return None
        return _field(entry, path, key)

    async def read(self, locator: str) -> str:
        """Read the value of `path#key`. Concurrent callers share one request. Raises `SecretError`."""
        path, _, key = locator.rpartition("#")
        task = self._reading.get(path)
        if task is None:
            task = self._reading[path] = asyncio.create_task(self._renewed(path))
            task.add_done_callback(lambda _: self._reading.pop(path, None))
        return _field(await asyncio.shield(task), path, key)

    async def _renewed(self, path: str) -> _CachedFields:
        old = self._entries.get(path)
        now = self._clock.monotonic()
        try:
            entry = await self._entry(path)
        except OutboundError as error:
            until = self._clock.monotonic() + _FAILED_S  # a Vault that does not answer is not waited for by every call
            entry = _CachedFields({}, str(error), until)
            if isinstance(error, _LoginError):
                self._entries = OrderedDict.fromkeys(self._entries, entry)
            elif isinstance(error, UnreachableError) and old is not None and not old.fault and now < old.last:
                log.warning("Vault cannot be reached for %s, so what it said before is used: %s", path, error)
                entry = replace(old, until=min(until, old.last))
        self._entries[path] = entry
        self._entries.move_to_end(path)
        while len(self._entries) > _MAX_SECRETS:
            self._entries.popitem(last=False)
        return entry

    async def _entry(self, path: str) -> _CachedFields:
        reply = await self._get(path, await self._login(again=False))
        if reply.status == 403 and self._role()[0]:
            reply = await self._get(path, await self._login(again=True))
        now = self._clock.monotonic()
        _check_up(reply)
        if reply.status != 200:
            why = {403: "Vault does not let this gateway read it", 404: "Vault has no such secret"}
            return _CachedFields({}, why.get(reply.status, f"Vault answered {reply.status}"), now + _FAILED_S)
        answer = _object(reply)
        inner = answer.get("data")
        data = inner.get("data") if isinstance(inner, Mapping) else None
        if not isinstance(data, Mapping):
            return _CachedFields({}, "what Vault answered is no secret of KV version 2", now + _FAILED_S)
        lease = answer.get("lease_duration")
        ttl = float(min(self._ttl(), lease)) if isinstance(lease, int) and lease > 0 else self._ttl()
        fields = {str(key): value for key, value in data.items() if isinstance(value, str)}
        return _CachedFields(fields, "", now + ttl, now + ttl + self._ttl())

    async def _get(self, path: str, token: str) -> OutboundResponse:
        mount, _, rest = path.partition("/")
        inner = rest if rest.startswith("data/") else f"data/{rest}"
        return await self._ask("GET", f"{quote(mount, safe='')}/{quote(inner, safe='/')}", token)

    async def call(self, method: str, path: str, members: Mapping[str, object] | None = None) -> Mapping[str, object]:
        """Return the `data` of an answer of Vault to a request below /v1. Raises `OutboundError`, without anything that Vault wrote."""
        body = b"" if members is None else json.dumps(members).encode()
        reply = await self._ask(method, path, await self._login(again=False), body)
        if reply.status == 403 and self._role()[0]:
            reply = await self._ask(method, path, await self._login(again=True), body)
        _check_up(reply)
        data = _object(reply).get("data") if reply.status == 200 else None
        if not isinstance(data, Mapping):
            raise OutboundError(
                "Vault does not let this gateway do it" if reply.status == 403 else f"Vault answered {reply.status}"
            )
        return data

    async def _login(self, *, again: bool) -> str:
        """A token: the one that was given, or that of the AppRole, asked for again before its time is over."""
        role, secret = self._role()
        if not role:
            return self._given("VAULT_TOKEN", needed="a token, or VAULT_ROLE_ID and VAULT_SECRET_ID")
        known, until = self._token
        if known and not again and self._clock.monotonic() < until:
            return known
        mount = self._environment.get("VAULT_APPROLE_MOUNT", "") or "approle"
        body = json.dumps({"role_id": role, "secret_id": secret}).encode()
        reply = await self._ask("POST", f"auth/{quote(mount, safe='/')}/login", "", body)
        _check_up(reply)
        auth = _object(reply).get("auth") if reply.status == 200 else None
        if not isinstance(auth, Mapping) or not isinstance(token := auth.get("client_token"), str) or not token:
            self._token = ("", 0.0)
            raise _LoginError(f"Vault did not log this gateway's AppRole in ({reply.status})")
        lease = auth.get("lease_duration")
        seconds = float(min(lease, _MAX_DURATION_S)) if isinstance(lease, int) and lease > 0 else self._ttl()
        self._token = (token, self._clock.monotonic() + seconds * _EARLY)
        return token

    async def _ask(self, method: str, path: str, token: str, body: bytes = b"") -> OutboundResponse:
        base = self._environment.get("VAULT_ADDR", "").rstrip("/")
        parts = urlsplit(base)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise OutboundError("VAULT_ADDR is not set to the address of a Vault")
        headers = {"X-Vault-Request": "true", "Accept": "application/json"}
        if token:
            headers["X-Vault-Token"] = token
        if namespace := self._environment.get("VAULT_NAMESPACE", ""):
            headers["X-Vault-Namespace"] = namespace
        via = Via(
            permit=self._permit,
            destination=Destination(host="", port=0, service="keys"),
            tls=TlsMaterial(
                certificate=self._pem("VAULT_CLIENT_CERT"),
                key=self._pem("VAULT_CLIENT_KEY"),
                authorities=self._pem("VAULT_CACERT"),
            ),
        )
        if any(not value.isascii() or not value.isprintable() for value in headers.values()):
            raise OutboundError("VAULT_TOKEN or VAULT_NAMESPACE holds a character that cannot be sent in a header")
        return await ask(OutboundRequest(method=method, url=f"{base}/v1/{path}", headers=headers, body=body), via)

    def _pem(self, name: str) -> str:
        """Read the file that a variable names. It is read every time, because it may have been replaced."""
        file = self._environment.get(name, "")
        try:
            return read_file(file, _MAX_PEM_SIZE).decode("utf-8") if file else ""
        except (OSError, UnicodeDecodeError):
            raise OutboundError(f"the file that {name} names cannot be read") from None

    def _role(self) -> tuple[str, str]:
        role = self._environment.get("VAULT_ROLE_ID", "")
        return (role, self._given("VAULT_SECRET_ID", needed="the AppRole's secret")) if role else ("", "")

    def _given(self, name: str, *, needed: str) -> str:
        """A variable, or the file that NAME_FILE names, which an agent may renew."""
        if value := self._environment.get(name, ""):
            return value
        file = self._environment.get(f"{name}_FILE", "")
        try:
            value = read_file(file, _MAX_FILE_SIZE).decode("utf-8").strip() if file else ""
        except (OSError, UnicodeDecodeError):
            value = ""
        if not value:
            raise OutboundError(f"Vault needs {needed}: set {name} or {name}_FILE")
        return value

    def _ttl(self) -> float:
        text = self._environment.get("TOOLGEN_VAULT_TTL", "")
        return float(text) if text.isascii() and text.isdigit() and int(text) > 0 else _TTL_S


def _check_up(reply: OutboundResponse) -> None:
    """Raises `UnreachableError` for what a Vault answers that is sealed, standing by or asked too much, and a proxy in its place."""
    if reply.status >= 500 or reply.status in _AWAY:
        raise UnreachableError(f"Vault answered {reply.status}")


def _field(entry: _CachedFields, path: str, key: str) -> str:
    if entry.fault:
        raise SecretError(
            f"${{vault:{path}#{key}}} cannot be read: {entry.fault}",
            suggestion="see what VAULT_ADDR and its token may read",
        )
    value = entry.fields.get(key, "")
    if not value:
        raise SecretError(
            f"${{vault:{path}#{key}}}: the secret has no text under '{key}'", suggestion="set it in Vault"
        )
    return value


def _object(reply: OutboundResponse) -> Mapping[str, object]:
    try:
        value = json.loads(reply.body)
    except (ValueError, RecursionError):
        raise OutboundError("what Vault answered is no JSON") from None
    if not isinstance(value, dict):
        raise OutboundError("what Vault answered is no JSON object")
    return value


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
_MOMENT_S = 2.0
_KEYRING_S = 60.0
_CLOCK = SystemClock()
_SUGGESTION = "set it where the gateway runs"


class SecretResolver:
    """Resolves references each time one is needed, so that a rotated variable, file or entry is seen by the next call.

    Variables and files are looked at every time; what has to be fetched (Vault, cloud providers, keyrings) is remembered for a while.
    `permit` is asked about the address of a Vault, and lets every one through where it is None: for what an operator starts by hand.
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
        self._files: OrderedDict[str, tuple[tuple[int, ...], str]] = OrderedDict()
        self._vault = VaultClient(environment, permit=permit, clock=clock)
        self._clouds = CloudSecrets(environment, permit=permit, clock=clock)
        self._keyring: dict[str, tuple[float, str]] = {}

    def revealed(self, reference: SecretReference) -> str | None:
        """The value itself, for a request that is put together now, where it can be had without waiting; None where `fetch` must be asked.

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
                return None if found is None else reference.prefix + found
            case "aws" | "gcp" | "azure" as cloud:
                found = self._clouds.known(cloud, reference.locator)
                return None if found is None else reference.prefix + found
            case "keyring":
                entry = self._keyring.get(reference.locator)
                if entry is None or entry[0] <= self._clock.monotonic():
                    return None
                return reference.prefix + entry[1]
            case _:
                value = reference.locator
                missing = "a secret in toolgen.yaml is empty"
        if not value:
            raise SecretError(missing, suggestion=_SUGGESTION)
        return reference.prefix + value

    async def fetch(self, reference: SecretReference) -> Secret:
        """The value, wherever it is. Raises `SecretError` as `revealed` does."""
        known = self.revealed(reference)
        if known is not None:
            return Secret(known)
        if reference.provider == "vault":
            return Secret(reference.prefix + await self._vault.read(reference.locator))
        if reference.provider in CLOUDS:
            return Secret(reference.prefix + await self._clouds.read(reference.provider, reference.locator))
        value = await asyncio.to_thread(read_keyring, reference.locator)
        self._keyring[reference.locator] = (self._clock.monotonic() + _KEYRING_S, value)
        return Secret(reference.prefix + value)

    def resolve(self, reference: SecretReference) -> Secret:
        """Return a secret's value to synchronous code (a build, a command). Blocks while it is fetched. Raises `SecretError`."""
        known = self.revealed(reference)
        if known is not None:
            return Secret(known)
        with ThreadPoolExecutor(max_workers=1) as aside:  # there may be a loop in this thread already
            return aside.submit(lambda: asyncio.run(self.fetch(reference))).result()

    def _file(self, path: str) -> str:
        """The content of a file, read again whenever the file is another: one replaced, written to or touched. What was written a moment
        ago is read again in any case: many file systems give two writes of one moment the same time."""
        try:
            stat = os.stat(path)
            mark = (stat.st_mtime_ns, stat.st_ino, stat.st_size)
            settled = self._clock.now() - stat.st_mtime > _MOMENT_S
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
        self._files[path] = (mark if settled else (), text)
        if len(self._files) > _MAX_FILES:
            self._files.popitem(last=False)
        return text
