"""Location of Redis, for settings: without its client, and without an event loop."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct, field

__all__ = ["RedisLocation"]


class RedisLocation(Struct, frozen=True, kw_only=True):
    """Location of Redis. `certificates` has the files sslrootcert, sslcert and sslkey; `prefix` begins every key."""

    host: str
    port: int = 6379
    database: int = 0
    user: str = ""
    tls: bool = False
    certificates: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    prefix: str = "toolgen"
