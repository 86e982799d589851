"""Gateway for synchronous code: its event loop runs in a thread, and every method waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from toolgen.core.errors import ConfigError
from toolgen.gateway.calls.call_service import UNNAMED, Unnamed
from toolgen.gateway.catalog.gateway_tools import GatewayTools, SyncGatewayTools
from toolgen.gateway.protocol import AgentGateway
from toolgen.model.account_need import chosen_account
from toolgen.model.call import Principal
from toolgen.model.result import Envelope
from toolgen.model.schema import JsonObject

__all__ = ["SyncGateway", "closed"]

T = TypeVar("T")


def closed() -> ConfigError:
    """Return the error for the use of a closed gateway."""
    return ConfigError(
        "this gateway was closed, and stays closed", suggestion="make another, or call inside of its `with`"
    )


class SyncGateway:
    """Blocking gateway that `with gateway as calls:` gives: methods have the names and parameters of `Gateway`, and wait. It can be used
    from any thread; without `principal`, the policy's only one calls."""

    def __init__(self, gateway: AgentGateway, tools: GatewayTools) -> None:
        """Open the gateway. Raises `ConfigError` within a running event loop, which it would block, and the errors of opening."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise ConfigError(
                "an event loop runs here, as in a notebook, and would stand still",
                suggestion="use `async with gateway:` and `await gateway.call(…)`",
            )
        self._gateway = gateway
        self.tools = SyncGatewayTools(tools, self._wait)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="toolgen-gateway", daemon=True)
        self._thread.start()
        try:
            self._wait(gateway.__aenter__())
        except BaseException:
            self._stop()
            raise

    def call(
        self,
        name: str,
        arguments: JsonObject | None = None,
        *,
        principal: Principal | str | Unnamed = UNNAMED,
        session: str = "",
        account: str = "",
    ) -> Envelope:
        """Run a call through all pipeline stages, as `Gateway.call` does. Raises only `ConfigError`, if it is not clear who calls."""
        who = self._gateway.callers.who(principal)
        if account:
            who = chosen_account(self._gateway.callers.named(who) if isinstance(who, str) else who, account)
        return self._wait(self._gateway.tool_calls.call(name, arguments or {}, principal=who, session=session))

    def preview(
        self, name: str, arguments: JsonObject | None = None, *, principal: Principal | str | Unnamed = UNNAMED
    ) -> Envelope:
        """Return the request that a call would send, as `Gateway.preview` does."""
        who = self._gateway.callers.who(principal)
        return self._wait(self._gateway.tool_calls.preview(name, arguments or {}, principal=who))

    def close(self) -> None:
        """Wait for the calls in flight, and close the gateway."""
        try:
            self._wait(self._gateway.__aexit__(None, None, None))
        finally:
            self._stop()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop.is_closed():
            work.close()
            raise closed()
        waiting = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return waiting.result()
        except KeyboardInterrupt:
            waiting.cancel()
            raise

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
