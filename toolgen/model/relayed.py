"""Messages of a worker to the other workers of a gateway: changed resources, and state of the sessions of clients."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from msgspec import Struct

__all__ = ["LASTING_TOPICS", "RelayTopic", "Relayed"]

RelayTopic: TypeAlias = Literal["changed", "subscription", "log_level", "roots", "page"]
LASTING_TOPICS: Final[frozenset[RelayTopic]] = frozenset({"subscription", "log_level"})
"""Topics whose messages a worker needs that begins later."""


class Relayed(Struct, frozen=True, kw_only=True):
    """`changed`: the resource with the URI `name` has changed. `subscription`: the session `key` subscribed to the URI `name`, which it
    writes as `value`, or ended that with an empty one. `log_level`: the session `key` gets log messages of the level `value` or above.
    `roots`: the folders of the caller `key` have changed. `page`: the web page `name` that a client was shown is done, or where a session
    gets that: see `frontends/mcp/shown_pages.py`."""

    topic: RelayTopic
    key: str = ""
    name: str = ""
    value: str = ""
