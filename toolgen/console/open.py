"""Opens the console of a gateway: what it reads the record from, and who else signs people in."""

from __future__ import annotations

from toolgen.clock import Clock, SystemClock
from toolgen.console.app import Console
from toolgen.console.from_index import IndexRecords
from toolgen.console.oidc import Provider
from toolgen.gateway.door import Door
from toolgen.gateway.service import Gateway
from toolgen.pipeline.provider import make_asker

__all__ = ["console_of"]


_CLOCK = SystemClock()


def console_of(gateway: Gateway, door: Door, *, clock: Clock = _CLOCK) -> Console:
    """The console as the project's settings have it."""
    settings = gateway.settings.console.sign_in
    provider = None
    if settings is not None:
        asker = make_asker(gateway.permit, settings.client_secret)
        provider = Provider(settings, asker.ask, asker.secret)
    records = IndexRecords(gateway.settings, clock, gateway.records.filler)
    return Console(gateway, door, records=records, provider=provider, clock=clock)
