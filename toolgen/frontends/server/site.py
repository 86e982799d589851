"""Site: what a process serves over HTTP, one gateway or those of several tenants."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

from toolgen.frontends.http.app import App
from toolgen.frontends.http.request import Handlers
from toolgen.gateway.protocol import Facade

__all__ = ["GatewaySite", "Site"]


class Site(Protocol):
    """Gateway, or several, behind one socket: entered before the first request, and left when the calls in flight have ended."""

    @property
    def handlers(self) -> Handlers:
        """Return the handlers of requests."""

    @property
    def drain_s(self) -> float:
        """Return the seconds that calls in flight have to end."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> bool | None: ...

    def leave(self) -> Callable[[], None]:
        """Prepare the shutdown; return a function that ends the calls still running."""

    def end_streams(self) -> None:
        """End streams that have no end of their own."""

    async def close(self) -> None:
        """Close the resources of the front ends."""

    async def reload(self) -> object:
        """Read the policies again."""

    def show_certificate(self, end: Callable[[], float | None]) -> None:
        """Report the end of the certificate in metrics."""


class GatewaySite:
    """Site of one gateway."""

    def __init__(self, gateway: Facade, app: App) -> None:
        self._gateway = gateway
        self.handlers = app
        self.end_streams, self.close = app.end_streams, app.close

    @property
    def drain_s(self) -> float:
        """Return the seconds that calls in flight have to end."""
        return self._gateway.operations.drain_s

    async def __aenter__(self) -> Self:
        await self._gateway.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._gateway.__aexit__(kind, error, trace)

    def leave(self) -> Callable[[], None]:
        """Prepare the shutdown; return a function that ends the calls still running."""
        return self._gateway.operations.leave()

    async def reload(self) -> object:
        """Read the policy again."""
        return await self._gateway.operations.reload(complete=False)

    def show_certificate(self, end: Callable[[], float | None]) -> None:
        """Report the end of the certificate in metrics."""
        self._gateway.operations.metrics.certificate_end = end
