from __future__ import annotations

import pytest

from tests.gateway import clients


@pytest.fixture(params=["asgi", "connection"])
def adapter(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a test with `clients.client` over ASGI, and again over a socket of our own server: one set of rules for both."""
    monkeypatch.setattr(clients, "ADAPTER", request.param)
