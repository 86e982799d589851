"""Failed attempts to authenticate, counted by address: in memory, bounded, and forgotten with time."""

from __future__ import annotations

from collections import OrderedDict

from toolgen.core.clock import Clock
from toolgen.frontends.http.client_address import counted_as

__all__ = ["FailureBuckets"]

_BURST = 30
_PER_SECOND = 1.0
_MAX_PEERS = 4096


class FailureBuckets:
    """A bucket of failures for each peer, as `counted_as` counts them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._peers: OrderedDict[str, tuple[float, float]] = OrderedDict()  # failures, and the time they are as of

    def wait(self, peer: str) -> float:
        """Seconds until this peer may fail again; 0.0 when it may now."""
        if not self._peers:
            return 0.0
        return max(0.0, (self._failures(counted_as(peer)) - _BURST + 1) / _PER_SECOND)

    def failed(self, peer: str) -> None:
        """Counts a failure."""
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
