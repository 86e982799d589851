"""A whole gateway with a console in front of a real API, served over a real port, and people who may do different things there."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.gateway.clients import listening
from tests.gateway.governed import Upstream, project, upstream
from toolgen.frontends.console.app import console_of
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.result import Envelope

KEYS = {name: f"key-of-{name}" for name in ("bot", "rita", "paul", "olga", "lena", "nobody")}


def _entry(name: str, *roles: str, **rest: Any) -> dict[str, Any]:
    return {
        "api_key": "sha256:" + hashlib.sha256(KEYS[name].encode()).hexdigest(),
        "roles": list(roles),
        **rest,
    }


POLICY: dict[str, Any] = {
    "principals": {
        "bot": _entry("bot", "bot", attributes={"tenant": "acme"}, acts_for=["ann"]),
        "ann": {"roles": ["bot"]},
        "rita": _entry("rita", "reviewer", "reader"),
        "paul": _entry("paul", "approver"),
        "olga": _entry("olga", "operator", "approver", "reader"),
        "nobody": _entry("nobody", "bot"),
    },
    "rules": [
        {"id": "reads", "to": ["bot", "reader"], "tools": ["*"], "effects": ["read"], "verdict": "allow"},
        {"id": "deletes-ask", "to": ["bot"], "tools": ["orders__delete_order"], "verdict": "ask"},
        {"id": "no-mail", "to": ["bot"], "tools": ["orders__send_mail"], "verdict": "deny"},
    ],
    "approvals": {"approvers": ["approver"], "expires": "1h"},
    "limits": [{"id": "per-bot", "per": ["principal"], "rate": "600/min", "burst": 200}],
    "tests": [
        {
            "as": "bot",
            "call": "orders__list_orders",
            "arguments": {"tenant_id": "a"},
            "expect": "allow",
            "rule": "reads",
        },
        {"as": "bot", "call": "orders__delete_order", "arguments": {"id": "1"}, "expect": "ask"},
    ],
}
CONSOLE: dict[str, Any] = {"viewers": ["reviewer"], "admins": ["operator"]}


@dataclass
class House:
    """The gateway, where it is, what reached the API behind it, and a way to do things on its loop."""

    gateway: Gateway
    url: str
    upstream: Upstream
    root: Path
    loop: asyncio.AbstractEventLoop = field(repr=False)

    def run(self, work: Awaitable[Any]) -> Any:
        """Waits for something on the gateway's loop."""

        async def awaited() -> Any:
            return await work

        return asyncio.run_coroutine_threadsafe(awaited(), self.loop).result(120)

    def call(self, tool: str, arguments: dict[str, Any], principal: str = "bot", **origin: str) -> Envelope:
        """A call by an agent."""
        found = self.run(self.gateway.call(tool, arguments, principal=principal, **origin))
        assert isinstance(found, Envelope)
        return found


@contextlib.contextmanager
def house(
    root: Path,
    *,
    policy: dict[str, Any] | None = None,
    console: dict[str, Any] | None = None,
    change: Callable[[Gateway], None] = lambda gateway: None,
) -> Iterator[House]:
    """Runs all of it in a thread of its own, so that a browser driven from the test's thread finds it at work.

    `console` may say `"url": "self"` for the address it will have.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    settings = dict(console or CONSOLE)
    if settings.get("url") == "self":
        settings["url"] = f"http://127.0.0.1:{listener.getsockname()[1]}"
    started: list[House] = []
    ready, leave = threading.Event(), threading.Event()
    with upstream() as (seen, server):
        path = project(root, server, policy or POLICY, console=settings)

        async def served() -> None:
            gateway = Gateway.load(path)
            change(gateway)
            app = App(gateway)
            app.open_console(lambda authentication: console_of(gateway, authentication))
            async with gateway, listening(app, listener) as url:
                started.append(House(gateway, url, seen, root, asyncio.get_running_loop()))
                ready.set()
                await asyncio.to_thread(leave.wait)
                await app.close()

        thread = threading.Thread(target=lambda: asyncio.run(served()), daemon=True)
        thread.start()
        try:
            assert ready.wait(120)
            yield started[0]
        finally:
            leave.set()
            thread.join(30)
