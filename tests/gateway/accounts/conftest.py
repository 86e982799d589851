"""The provider of these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.services.account_provider import SECRET, AccountProvider, account_provider


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[AccountProvider]:
    """A strict authorization server, for which the gateway has a client."""
    monkeypatch.setenv("ACCOUNT_CLIENT_SECRET", SECRET)
    with account_provider() as running:
        yield running
