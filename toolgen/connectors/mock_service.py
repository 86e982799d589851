"""Mock of the system that a description describes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

__all__ = ["MockResponse", "MockService"]


class MockResponse(Struct, frozen=True, kw_only=True):
    """Response of a mock. `media_type` is "" if there is no body."""

    status: int
    media_type: str
    body: bytes
    headers: Mapping[str, str]


class MockService(Protocol):
    """Mock that answers each request by itself. `size` operations are answered, `skipped` are too broken to be.

    A protocol, because the mock belongs to the connector of OpenAPI, which the command line must not import.
    """

    size: int
    skipped: int

    def answer(
        self, method: str, path: str, query: str, headers: Sequence[tuple[str, str]], body: bytes | None
    ) -> MockResponse:
        """Answer a request. `path` is encoded, header names are in lower case, and `body` is None if it is too large."""
