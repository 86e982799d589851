"""Where Redis is, for those who only read settings: importing its client takes longer than reading them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

__all__ = ["RedisLocation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisLocation:
    """Where Redis is. `certificates` has the files sslrootcert, sslcert and sslkey; `prefix` begins every key."""

    host: str
    port: int = 6379
    database: int = 0
    user: str = ""
    tls: bool = False
    certificates: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    prefix: str = "toolgen"
