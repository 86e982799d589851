"""The identity provider of these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.services.identity_provider import SECRET, IdentityProvider, identity_provider


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[IdentityProvider]:
    """The company's identity provider, at which the gateway is a client."""
    monkeypatch.setenv("SIGN_IN_SECRET", SECRET)
    with identity_provider() as running:
        yield running
