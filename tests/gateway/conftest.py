from __future__ import annotations

import pytest

from tests.gateway.clients import adapter
from toolgen.state import redis_connection, shared_counts

__all__ = ["adapter"]


@pytest.fixture(autouse=True)
def _patient_redis(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for Redis as long as a busy machine may need, except in tests of a Redis that hangs (`redis_times_out`)."""
    if request.node.get_closest_marker("redis_times_out") is None:
        for module in (redis_connection, shared_counts):
            monkeypatch.setattr(module, "TIMEOUT_S", 30.0)
