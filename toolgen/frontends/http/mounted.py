"""Gateway as an ASGI application: mounted in FastAPI or Starlette under any path, or run by a separate server."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from toolgen.frontends.http.app import App, AsgiReceive, AsgiSend, Scope
from toolgen.frontends.http.mount_path import mounted_at, path_of
from toolgen.gateway.protocol import AgentGateway

__all__ = ["MountedApp"]


class MountedApp:
    """ASGI 3 application with its lifespan: the gateway opens when the server starts and closes when it stops. An open gateway stays open.

    Frameworks do not forward the lifespan to mounted applications. Then the gateway opens with the first request, and the program closes
    it.
    """

    def __init__(self, gateway: AgentGateway, app: App) -> None:
        self._gateway = gateway
        self._app = app
        self._opening = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: AsgiReceive, send: AsgiSend) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if not self._gateway.entered:
            async with self._opening:
                if not self._gateway.entered:
                    await self._gateway.__aenter__()
        with mounted_at(path_of(scope.get("root_path", ""))):
            await self._app(below_root(scope), receive, send)

    async def close(self) -> None:
        """End the streams of web pages, and close their resources."""
        self._app.end_streams()
        await self._app.close()

    async def _live(self, receive: AsgiReceive, send: AsgiSend) -> None:
        async with AsyncExitStack() as stack:
            await receive()  # lifespan.startup
            try:
                if not self._gateway.entered:
                    await stack.enter_async_context(self._gateway)
            except Exception as error:
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                raise
            await send({"type": "lifespan.startup.complete"})
            await receive()  # lifespan.shutdown
            self._app.end_streams()
        await send({"type": "lifespan.shutdown.complete"})


def below_root(scope: Scope) -> Scope:
    """Return the scope with the path below the mount path of the application (`root_path`)."""
    root = scope.get("root_path", "").rstrip("/")
    path = scope["path"]
    if not root or not (path == root or path.startswith(f"{root}/")):
        return scope  # a server that leaves the root out of the path
    below = {**scope, "path": path[len(root) :] or "/"}
    raw, encoded = scope.get("raw_path"), root.encode("utf-8")
    if raw is not None:
        # Escapes in the root cannot be counted, so the decoded path is used.
        below["raw_path"] = (raw[len(encoded) :] or b"/") if raw.startswith(encoded) else None
    return below
