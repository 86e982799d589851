"""Watch over the store that gateways share: its epoch, and whether it answered without interruption."""

from __future__ import annotations

from msgspec import Struct

from toolgen.core.clock import Clock

__all__ = ["LEASE_S", "StoreWatch"]

LEASE_S = 10.0
"""Seconds that a worker which stopped may hold a call before others end it."""


class StoreWatch(Struct, kw_only=True):
    """Shared by all that one process keeps in the store.

    `epoch` is the epoch of the store that was seen last, "" for none. A process that could not ask the store for more than a third of a
    lease cannot tell a worker that stopped from one that could not renew its lease: until one lease has passed, it takes no call for lost.
    """

    clock: Clock
    epoch: str = ""
    _heard: float | None = None
    _settled_at: float = 0.0

    @property
    def settled(self) -> bool:
        """True if leases that lapsed mean that their owners are gone."""
        now = self.clock.monotonic()
        if self._heard is not None and now - self._heard > LEASE_S / 3:
            return False
        return now >= self._settled_at

    def heard(self) -> None:
        """Note that the store answered."""
        now = self.clock.monotonic()
        if self._heard is not None and now - self._heard > LEASE_S / 3:
            self.unsettle()
        self._heard = now

    def unsettle(self) -> None:
        """Note that the store lost something, or was away: leases are believed again one lease later."""
        self._settled_at = self.clock.monotonic() + LEASE_S
