"""HTTP application of a gateway with tenants: it gives a request below /t/NAME to the application of that tenant, without this prefix."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable
from typing import cast

from toolgen.core.tenant import working_for
from toolgen.frontends.http.app import App
from toolgen.frontends.http.mount_path import mounted_at
from toolgen.frontends.http.request import (
    Rejected,
    Request,
    Response,
    Send,
    check_host,
    json_response,
    read_path,
    refusal,
)
from toolgen.gateway.metrics.prometheus import MEDIA_TYPE
from toolgen.gateway.metrics.prometheus_format import Family

__all__ = ["TenantApp", "TenantsApp"]

# The path as it was sent: an encoded or doubled character names no tenant, and the rest is checked by the application of the tenant.
# Metadata of a resource or an issuer with a path has its path after the well-known name (RFC 8414 and RFC 9728, section 3.1).
_ADDRESS = re.compile(r"(/\.well-known/[a-z-]{1,40})?/t/([a-z][a-z0-9-]{0,39})(/.*)?\Z", re.DOTALL)
_STATUS = frozenset({"/healthz", "/readyz", "/metrics"})
_BUSY_S = 1
_ABSENT_S = 10
_ENDING_S = 2.0


class TenantApp:
    """Application of one tenant in this process. It answers at most `most` requests at a time, so that the load of a tenant leaves room for
    the others. `app` is None while the tenant cannot be served."""

    def __init__(self, name: str, most: int) -> None:
        self.name = name
        self.app: App | None = None
        self.most = most
        self._in_flight: set[asyncio.Task[object]] = set()
        self._path = f"/t/{name}"

    async def serve(self, request: Request, send: Send) -> None:
        """Answer a request with its path below that of the tenant."""
        app = self.app
        if app is None:
            rejected = Rejected(
                503,
                "upstream_unavailable",
                "this tenant cannot be served now",
                suggestion="the operator's log says why",
                retry_after_s=_ABSENT_S,
            )
            await send(request.finish(refusal(rejected)))
            return
        if len(self._in_flight) >= self.most:
            rejected = Rejected(503, "overloaded", "this tenant has too many requests now", retry_after_s=_BUSY_S)
            app.count(rejected.status)
            await send(request.finish(refusal(rejected)))
            return
        task = cast(asyncio.Task[object], asyncio.current_task())
        self._in_flight.add(task)
        try:
            with working_for(self.name), mounted_at(self._path):
                await app.serve(request, send)
        finally:
            self._in_flight.discard(task)

    async def drain(self, seconds: float, cut_off: Callable[[], None]) -> None:
        """Let the requests in progress end. Calls that run longer are ended by `cut_off`, and requests that go on then are cancelled."""
        if self._in_flight:
            await asyncio.wait(self._in_flight, timeout=seconds)
        cut_off()
        if self._in_flight:
            await asyncio.wait(self._in_flight, timeout=_ENDING_S)
        for task in tuple(self._in_flight):
            task.cancel()
        if self._in_flight:
            await asyncio.wait(self._in_flight, timeout=_ENDING_S)


class TenantsApp:
    """Applications of all tenants. Outside of them there are only the checks of the process: is it alive, is it ready, and two metrics.

    `hosts` are the permitted names in the Host header for these checks.
    """

    def __init__(self, tenants: Iterable[TenantApp], hosts: frozenset[str]) -> None:
        self._tenants = {tenant.name: tenant for tenant in tenants}
        self.hosts = hosts
        self.stopping = False

    def add(self, tenant: TenantApp) -> None:
        """Answer requests of one more tenant."""
        self._tenants[tenant.name] = tenant

    def remove(self, name: str) -> None:
        """Answer further requests of a tenant like those of an unknown one."""
        del self._tenants[name]

    async def serve(self, request: Request, send: Send) -> None:
        """Answer one request. Raises only the errors of `send`."""
        found = _ADDRESS.match(request.path)
        tenant = None if found is None else self._tenants.get(found[2])
        if found is None or tenant is None:
            try:
                answer = self._own(request)
            except Rejected as rejected:
                answer = refusal(rejected)
            await send(request.finish(answer))
            return
        request.path = f"{found[1] or ''}{found[3] or ''}" or "/"
        await tenant.serve(request, send)

    def _own(self, request: Request) -> Response:
        """Answer a request outside of all tenants. Raises `Rejected`."""
        check_host(request, self.hosts)
        path = read_path(request.path)
        request.check()
        if path not in _STATUS:
            raise Rejected(
                404, "not_found", "there is nothing at this path", suggestion="the tools of a tenant are below /t/NAME"
            )
        request.take("GET")
        return self._status(path)

    def _status(self, path: str) -> Response:
        """Answer a question about the process. No answer names a tenant, because anyone may ask."""
        if path == "/healthz":
            return json_response({"status": "ok"})
        served = sum(tenant.app is not None for tenant in self._tenants.values())
        if path == "/metrics":
            samples = [({"state": "served"}, served), ({"state": "unavailable"}, len(self._tenants) - served)]
            family = Family("toolgen_tenants", "gauge", "Tenants of this process, by state.", samples)
            return Response(body=("\n".join(family.lines({})) + "\n").encode(), media_type=MEDIA_TYPE)
        ready = served > 0 and not self.stopping
        return json_response({"status": "ready" if ready else "not ready"}, status=200 if ready else 503)
