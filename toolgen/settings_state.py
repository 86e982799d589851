"""`state:` of toolgen.yaml: where what all processes share is kept, in this one's memory or in Redis."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from toolgen.errors import ConfigError, SecretError
from toolgen.execute.secrets import SecretReference, Secrets, parse_reference
from toolgen.model.location import part_password
from toolgen.model.names import nearest
from toolgen.state.redis_location import RedisLocation

__all__ = ["StateSettings", "read_state"]

_SHAPE = "memory, or redis://user:${env:REDIS_PASSWORD}@host:6379/0 (rediss:// with TLS)"
_CERTIFICATES = ("sslrootcert", "sslcert", "sslkey")
_OPTIONS = (*_CERTIFICATES, "prefix")
_PREFIX = re.compile(r"[A-Za-z0-9_.:-]{1,64}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSettings:
    """Redis, and the reference of its password; None where there is none."""

    location: RedisLocation
    password: SecretReference | None

    def secret(self) -> str:
        """The password as it is now, "" where there is none. Raises `SecretError`."""
        return "" if self.password is None else Secrets().resolve(self.password).reveal()


def read_state(text: str, where: str, root: Path, warnings: list[str]) -> StateSettings | None:
    """What `state:` says; None for memory. Raises `ConfigError`, which repeats nothing but the names of options."""
    if text == "memory":
        return None
    location, password = part_password(text)
    try:
        parts = urlsplit(location)
        port = parts.port
    except ValueError:
        raise ConfigError("state: is not understood", where=where, suggestion=f"use {_SHAPE}") from None
    if parts.scheme not in {"redis", "rediss"} or not parts.hostname or parts.password or parts.fragment or port == 0:
        raise ConfigError("state: is not understood", where=where, suggestion=f"use {_SHAPE}")
    if find_spec("redis") is None:
        raise ConfigError(
            "state: in Redis needs its client", where=where, suggestion='install it with: pip install "toolgen[redis]"'
        )
    options = _options(parts, where)
    certificates = {name: str(root / options[name]) for name in _CERTIFICATES if name in options}
    tls = parts.scheme == "rediss"
    if certificates and not tls:
        raise ConfigError("state: certificates belong to rediss://", where=where)
    for name, path in certificates.items():
        if not Path(path).is_file():
            raise ConfigError(f"state: the file of {name} is not there", where=where)
    return StateSettings(
        location=RedisLocation(
            host=parts.hostname,
            port=port or 6379,
            database=_database(parts.path, where),
            user=unquote(parts.username or ""),
            tls=tls,
            certificates=MappingProxyType(certificates),
            prefix=options.get("prefix", "toolgen"),
        ),
        password=_password(password, where, warnings),
    )


def _options(parts: SplitResult, where: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in _OPTIONS or name in options or not value:
            raise ConfigError(
                f"state: the option {name[:40]!r} is unknown, empty or there twice{nearest(name, _OPTIONS)}",
                where=where,
                suggestion=f"known: {', '.join(_OPTIONS)}",
            )
        options[name] = value
    if not _PREFIX.match(options.get("prefix", "toolgen")):
        raise ConfigError("state: prefix takes 1 to 64 of A-Z a-z 0-9 _ . : -", where=where)
    return options


def _database(path: str, where: str) -> int:
    text = path.removeprefix("/")
    if text and not (text.isascii() and text.isdigit() and len(text) <= 4):
        raise ConfigError("state: what stands behind the host is the number of a database, as in /0", where=where)
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
