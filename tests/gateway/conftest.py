from __future__ import annotations

import pytest

from tests.gateway import clients
from toolgen.state import redis_connection, shared_counts


@pytest.fixture(autouse=True)
def _patient_redis(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for Redis as long as a busy machine may need, except in tests of a Redis that hangs (`redis_times_out`)."""
    if request.node.get_closest_marker("redis_times_out") is None:
        for module in (redis_connection, shared_counts):
            monkeypatch.setattr(module, "TIMEOUT_S", 30.0)


@pytest.fixture(params=["asgi", "connection"])
def adapter(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a test with `clients.client` over ASGI, and again over a socket of our own server: one set of rules for both."""
    monkeypatch.setattr(clients, "ADAPTER", request.param)
