"""Location of Redis, for settings: without its client, and without an event loop."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct, field

__all__ = ["RedisLocation"]


class RedisLocation(Struct, frozen=True, kw_only=True):
    """Location of Redis. `certificates` has the files sslrootcert, sslcert and sslkey; `prefix` begins every key.

    `cluster`: this is one node of a Redis Cluster. All keys have the prefix as their hash tag, so that scripts find them in one slot.
    """

    host: str
    port: int = 6379
    database: int = 0
    user: str = ""
    tls: bool = False
    certificates: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    prefix: str = "toolgen"
    cluster: bool = False

    @property
    def key_prefix(self) -> str:
        """Beginning of every key as it is stored."""
        return f"{{{self.prefix}}}" if self.cluster else self.prefix
