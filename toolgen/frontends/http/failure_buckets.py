"""Failed authentication attempts by address: in memory, bounded, and forgotten after some time."""

from __future__ import annotations

from collections import OrderedDict

from toolgen.core.clock import Clock
from toolgen.frontends.http.client_address import counted_as

__all__ = ["FailureBuckets"]

_BURST = 30
_PER_SECOND = 1.0
_MAX_PEERS = 4096


class FailureBuckets:
    """Bucket of failures for each peer, by `counted_as`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._peers: OrderedDict[str, tuple[float, float]] = OrderedDict()  # failures, and the time of their count

    def wait(self, peer: str) -> float:
        """Return the seconds until this peer may fail again; 0.0 for now."""
        if not self._peers:
            return 0.0
        return max(0.0, (self._failures(counted_as(peer)) - _BURST + 1) / _PER_SECOND)

    def failed(self, peer: str) -> None:
        """Count a failure."""
        name = counted_as(peer)
        failures = min(self._failures(name) + 1, float(_BURST))
        self._peers[name] = (failures, self._clock.monotonic())
        self._peers.move_to_end(name)
        if len(self._peers) > _MAX_PEERS:
            self._peers.popitem(last=False)

    def _failures(self, name: str) -> float:
        known = self._peers.get(name)
        if known is None:
            return 0.0
        return max(0.0, known[0] - (self._clock.monotonic() - known[1]) * _PER_SECOND)
