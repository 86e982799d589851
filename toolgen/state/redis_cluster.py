"""Slot of a Redis Cluster that has all keys of a project, and the node that has the slot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["ClusterSlot"]


class ClusterSlot:
    """Slot of a prefix in braces (Redis Cluster specification, "Hash tags").

    It remembers the nodes that the cluster named last, because the one in the settings may be gone.
    """

    def __init__(self, host: str, port: int, prefix: str) -> None:
        self._first, self._prefix = (host, port), prefix
        self._known: tuple[tuple[str, int], ...] = ()

    def nodes(self) -> tuple[tuple[str, int], ...]:
        """Return the nodes to ask, the last owner of the slot first."""
        return tuple(dict.fromkeys((*self._known, self._first)))

    def owner(self, slots: Sequence[Sequence[Any]], asked: str) -> tuple[str, int] | None:
        """Return the node that has the slot, by the answer of a node to CLUSTER SLOTS; None if no node has it. A node without a name for
        itself is the host that was asked."""
        from redis.crc import key_slot  # noqa: PLC0415 - an optional dependency

        number = key_slot(self._prefix.encode())
        found: tuple[str, int] | None = None
        others: list[tuple[str, int]] = []
        for first, last, *shard in slots:
            nodes = [(host.decode() if host else asked, int(port)) for host, port, *_ in shard]  # the primary first
            if first <= number <= last:
                found = nodes[0]
            others += nodes
        if found is not None:
            self._known = (found, *dict.fromkeys(others))
        return found
