"""Settings of the gateway in toolgen.yaml: its address, proxies, its shutdown, and its `state:`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.util import find_spec
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import msgspec
from msgspec import Struct

from toolgen.core.errors import ConfigError, SecretError
from toolgen.core.spelling import nearest
from toolgen.core.units import MAX_PENDING_AFTER_S, parse_duration
from toolgen.core.yaml_file import YamlDocument
from toolgen.model.database_url import part_password
from toolgen.model.secret import SecretReference, parse_reference
from toolgen.state.redis_location import RedisLocation

__all__ = [
    "GivenCors",
    "GivenTls",
    "Networks",
    "StateSettings",
    "TlsFiles",
    "contains",
    "mount_of",
    "read_drain",
    "read_grace",
    "read_networks",
    "read_origins",
    "read_pending_after",
    "read_public_url",
    "read_state",
    "read_tls",
]

Networks: TypeAlias = tuple[IPv4Network | IPv6Network, ...]

_VISIBLE = re.compile(r"[\x21-\x7e]{1,300}\Z")
_HOST = re.compile(r"[a-z0-9._-]{1,253}\Z")
_TENANT_PATH = re.compile(r"/t/[a-z][a-z0-9-]{0,39}/?\Z")
# No dots at the beginning, and nothing that has to be encoded: every proxy and browser spells such a path alike.
_MOUNT_PATH = re.compile(r"(?:(?:/[A-Za-z0-9_-][A-Za-z0-9._-]{0,39}){1,4})?/?\Z")
_OWN_PATHS = frozenset(
    {"accounts", "apps", "console", "healthz", "mcp", "metrics", "oauth", "openapi.json", "readyz", "t", "v1"}
)
_MAX_DRAIN_S = 3600.0
_DEFAULT = {"https": 443, "http": 80}


def read_public_url(given: str | None, where: str) -> str:
    """Return the origin (`https://tools.example.com`, with a port unless it is the default one), and after it the path of a tenant, or the
    one that the gateway is mounted at; "" if none is set.

    Raises `ConfigError`. Tokens are sent to it, so it must be https; http is only for loopback (RFC 9728 section 7, RFC 8252 section 8.3).
    """
    if given is None:
        return ""
    try:
        parts = urlsplit(given)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        parts, host, port = urlsplit(""), "", None
    if not _VISIBLE.match(given) or parts.scheme not in _DEFAULT or not (_HOST.match(host) or _is_address(host)):
        raise ConfigError(
            "url: is not an address like https://tools.example.com",
            where=where,
            suggestion="set the address that agents use, in front of any proxy",
        )
    if parts.username is not None or not _is_mount_path(parts.path) or "?" in given or "#" in given:
        raise ConfigError(
            "url: takes only scheme, host, port and a plain path, /t/NAME for a tenant, and none of the gateway's own paths",
            where=where,
            suggestion="remove user, query and fragment; write a mount path like https://example.com/toolgen, the gateway adds /mcp itself",
        )
    if parts.scheme != "https" and not _is_loopback(host):
        raise ConfigError(
            "url: must be https, because tokens are sent to it",
            where=where,
            suggestion="http is accepted only for 127.0.0.1, [::1] and localhost",
        )
    named = f"[{host}]" if ":" in host else host
    origin = f"{parts.scheme}://{named}" + (f":{port}" if port not in {None, _DEFAULT[parts.scheme]} else "")
    return origin + parts.path.rstrip("/")


def mount_of(url: str) -> str:
    """Return the path that a proxy mounts the gateway with this public address at, like `/toolgen`; "" if the gateway has the whole origin.

    Tenants share an origin that is the gateway's own.
    """
    path = urlsplit(url).path
    return "" if _TENANT_PATH.match(path) else path


def read_drain(given: str, where: str) -> float:
    """Return the seconds that calls in flight have to end when the gateway stops. Raises `ConfigError`."""
    seconds = parse_duration(given)
    if seconds is None or not 1 <= seconds <= _MAX_DRAIN_S:
        raise ConfigError(
            "drain: takes 1s to 1h",
            where=where,
            suggestion="set it a little below the time after which the process is killed",
        )
    return seconds


def read_grace(given: str | None, drain_s: float, where: str) -> float | None:
    """Return the seconds in which new calls are accepted after the stop signal; None if not set. Raises `ConfigError`."""
    if given is None:
        return None
    seconds = parse_duration(given)
    if seconds is None or seconds >= drain_s:
        raise ConfigError(
            "grace: takes a time below gateway.drain, like 5s, or 0s for none",
            where=where,
            suggestion="it is the first part of drain; the rest is for calls in flight",
        )
    return seconds


def read_pending_after(given: str | None, where: str) -> float | None:
    """Return the seconds that a caller waits before its call continues without it; None for no limit. Raises `ConfigError`."""
    if given is None:
        return None
    seconds = parse_duration(given)
    if seconds is None or seconds > MAX_PENDING_AFTER_S:
        raise ConfigError(
            "pending_after: takes 0s to 1h, like 30s",
            where=where,
            suggestion="set it a little below the timeouts of clients and of proxies in front of the gateway",
        )
    return seconds


class GivenTls(msgspec.Struct, forbid_unknown_fields=True):
    """`gateway.tls` as it is written."""

    certificate: str
    key: str
    client_ca: str | None = None


class TlsFiles(Struct, frozen=True, kw_only=True):
    """Certificate (with its chain) and key of the gateway, in PEM, and the authorities of client certificates; None without client
    certificates. `where` is the place in toolgen.yaml.
    """

    certificate: Path
    key: Path
    client_ca: Path | None
    where: str

    @property
    def paths(self) -> tuple[Path, ...]:
        """Return all paths."""
        return (self.certificate, self.key, *(() if self.client_ca is None else (self.client_ca,)))


def read_tls(given: GivenTls | None, root: Path, where: str) -> TlsFiles | None:
    """Return the paths of the files; a server reports faults of their content when it starts."""
    if given is None:
        return None
    authorities = None if given.client_ca is None else root / given.client_ca
    return TlsFiles(certificate=root / given.certificate, key=root / given.key, client_ca=authorities, where=where)


def read_networks(given: Sequence[str], document: YamlDocument, *path: str, danger: str) -> Networks:
    """Return the networks of a list like `["10.0.0.0/8"]`. Raises `ConfigError`; `danger` is the risk of a network with all addresses."""
    networks = []
    for index, text in enumerate(given):
        where = document.where(*path, index)
        try:
            network = ip_network(text)
        except ValueError as error:
            raise ConfigError(f"'{text[:60]}' is not a network like 10.0.0.0/8", where=where) from error
        if network.prefixlen == 0:
            raise ConfigError(f"{text} contains all addresses: {danger}", where=where)
        networks.append(network)
    return tuple(networks)


class GivenCors(msgspec.Struct, forbid_unknown_fields=True):
    """`gateway.cors` as it is written."""

    origins: list[str] = []


def read_origins(given: GivenCors, document: YamlDocument) -> frozenset[str]:
    """Return the origins of web pages that may call the gateway, as browsers write them (RFC 6454, section 6.2). Raises `ConfigError`."""
    return frozenset(
        _origin(text, document.where("gateway", "cors", "origins", index)) for index, text in enumerate(given.origins)
    )


def _origin(text: str, where: str) -> str:
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        parts, host, port = urlsplit(""), "", None
    named = f"[{host}]" if ":" in host else host
    written = f"{parts.scheme}://{named}" + (f":{port}" if port not in {None, _DEFAULT.get(parts.scheme)} else "")
    if parts.scheme not in _DEFAULT or not (_HOST.match(host) or _is_address(host)) or text != written:
        raise ConfigError(
            f"{text[:60]!a} is not an origin like https://chat.example.com",
            where=where,
            suggestion="write scheme, host in lower case, and a port unless it is the default; one origin per entry, without * or a path",
        )
    if parts.scheme != "https" and not _is_loopback(host):
        raise ConfigError(
            f"'{text}': a page loaded over http can be changed in transit, and would receive the answers",
            where=where,
            suggestion="use https; http is accepted only for 127.0.0.1, [::1] and localhost",
        )
    return text


def contains(networks: Networks, peer: str) -> bool:
    """Return True if an address is in one of these networks; text that is no address is in none."""
    try:
        address = ip_address(peer.partition("%")[0])
    except ValueError:
        return False
    address = getattr(address, "ipv4_mapped", None) or address
    return any(address in network for network in networks)


def _is_mount_path(path: str) -> bool:
    if _TENANT_PATH.match(path):
        return True
    return bool(_MOUNT_PATH.match(path)) and _OWN_PATHS.isdisjoint(path.split("/")[1:2])


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return "%" not in host


def _is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_address(host) and ip_address(host).is_loopback)


_SHAPE = "memory, or redis://user:${env:REDIS_PASSWORD}@host:6379/0 (rediss:// with TLS)"
_CERTIFICATES = ("sslrootcert", "sslcert", "sslkey")
_OPTIONS = (*_CERTIFICATES, "prefix", "cluster")
_PREFIX = re.compile(r"[A-Za-z0-9_.:-]{1,64}\Z")


class StateSettings(Struct, frozen=True, kw_only=True):
    """Redis, and the reference of its password; None without a password."""

    location: RedisLocation
    password: SecretReference | None

    def secret(self) -> str:
        """Return the current password, "" without one. Raises `SecretError`."""
        if self.password is None:
            return ""
        from toolgen.connectors.secrets import SecretResolver  # noqa: PLC0415 - brings asyncio, which reading a project has no use for

        return SecretResolver().resolve(self.password).reveal()


def read_state(text: str, where: str, root: Path, warnings: list[str]) -> StateSettings | None:
    """Read the key `state:`; None for memory. Raises `ConfigError`, which repeats nothing but the names of options."""
    if text == "memory":
        return None
    location, password = part_password(text)
    try:
        parts = urlsplit(location)
        port = parts.port
    except ValueError:
        raise ConfigError("state: has an unknown value", where=where, suggestion=f"use {_SHAPE}") from None
    if parts.scheme not in {"redis", "rediss"} or not parts.hostname or parts.password or parts.fragment or port == 0:
        raise ConfigError("state: has an unknown value", where=where, suggestion=f"use {_SHAPE}")
    if find_spec("redis") is None:
        raise ConfigError(
            "state: in Redis needs its client", where=where, suggestion='install it with: pip install "toolgen[redis]"'
        )
    options = _options(parts, where)
    certificates = {name: str(root / options[name]) for name in _CERTIFICATES if name in options}
    tls = parts.scheme == "rediss"
    if certificates and not tls:
        raise ConfigError("state: certificates belong to rediss://", where=where)
    cluster, database = options.get("cluster") == "1", _database(parts.path, where)
    if cluster and database:
        raise ConfigError("state: a cluster has database 0 alone", where=where)
    for name, path in certificates.items():
        if not Path(path).is_file():
            raise ConfigError(f"state: the file of {name} does not exist", where=where)
    return StateSettings(
        location=RedisLocation(
            host=parts.hostname,
            port=port or 6379,
            database=database,
            user=unquote(parts.username or ""),
            tls=tls,
            certificates=MappingProxyType(certificates),
            prefix=options.get("prefix", "toolgen"),
            cluster=cluster,
        ),
        password=_password(password, where, warnings),
    )


def _options(parts: SplitResult, where: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in _OPTIONS or name in options or not value:
            raise ConfigError(
                f"state: the option {name[:40]!r} is unknown, empty or repeated{nearest(name, _OPTIONS)}",
                where=where,
                suggestion=f"known: {', '.join(_OPTIONS)}",
            )
        options[name] = value
    if not _PREFIX.match(options.get("prefix", "toolgen")):
        raise ConfigError("state: prefix takes 1 to 64 of A-Z a-z 0-9 _ . : -", where=where)
    if options.get("cluster", "1") != "1":
        raise ConfigError("state: cluster takes 1", where=where, suggestion="leave it out for a single server")
    return options


def _database(path: str, where: str) -> int:
    text = path.removeprefix("/")
    if text and not (text.isascii() and text.isdigit() and len(text) <= 4):
        raise ConfigError("state: the path must be the number of a database, like /0", where=where)
    return int(text or 0)


def _password(text: str, where: str, warnings: list[str]) -> SecretReference | None:
    if not text:
        return None
    try:
        reference = parse_reference(text)
    except SecretError as error:
        raise ConfigError(f"state: the password {error.message}", where=where, suggestion=error.suggestion) from error
    if reference.provider == "literal":
        warnings.append(f"{where}: a secret is written out; keep it outside with ${{env:NAME}} or ${{file:/path}}")
    return reference
