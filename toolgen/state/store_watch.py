"""Watch over the store that gateways share: its epoch, and its interruptions."""

from __future__ import annotations

from msgspec import Struct

from toolgen.core.clock import Clock

__all__ = ["LEASE_S", "StoreWatch"]

LEASE_S = 10.0
"""Seconds without a sign of life after which others end the calls of a worker."""


class StoreWatch(Struct, kw_only=True):
    """Watch of one process, shared by everything that it stores there.

    `epoch` is the last known epoch of the store, "" for none. A process that could not reach the store for more than a third of a lease
    cannot distinguish a stopped worker from one that could not renew its lease: until one lease has passed, it counts no call as lost.
    """

    clock: Clock
    epoch: str = ""
    _heard: float | None = None
    _settled_at: float = 0.0

    @property
    def settled(self) -> bool:
        """True if an expired lease means that its owner is gone."""
        now = self.clock.monotonic()
        if self._heard is not None and now - self._heard > LEASE_S / 3:
            return False
        return now >= self._settled_at

    def heard(self) -> None:
        """Record that the store answered."""
        now = self.clock.monotonic()
        if self._heard is not None and now - self._heard > LEASE_S / 3:
            self.unsettle()
        self._heard = now

    def unsettle(self) -> None:
        """Record that the store lost data, or was unreachable: expired leases are trusted again one lease later."""
        self._settled_at = self.clock.monotonic() + LEASE_S
