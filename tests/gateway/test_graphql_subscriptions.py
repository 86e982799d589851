"""Subscriptions of a real service, through a project: bounded, under the egress rules, and only where the protocol is spoken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.library import call, code, write_project
from tests.services.library import application, serving


@pytest.fixture(name="origin", scope="module")
def _origin() -> Iterator[str]:
    with serving(application()) as origin:
        yield origin


@pytest.fixture(name="project")
def _project(tmp_path: Path, origin: str) -> Callable[..., Path]:
    return partial(write_project, tmp_path, origin)


@pytest.mark.parametrize("transport", ["websocket", "sse"])
async def test_a_subscription_ends_by_count_by_time_or_by_itself(project: Callable[..., Path], transport: str) -> None:
    path = project(subscriptions=f"{{transport: {transport}, events: 2, seconds: 20}}")
    enough = await call(path, "watch_added", {"count": 5})
    assert (enough.data["ended"], len(enough.data["events"])) == ("events", 2)
    assert enough.data["events"][0]["added"]["title"] == "Book 1"
    assert (await call(path, "watch_added", {"count": 1})).data["ended"] == "complete"
    short = project(subscriptions=f"{{transport: {transport}, events: 2, seconds: 0.5}}")
    late = await call(short, "watch_added", {"count": 2, "pause": 1})
    assert late.data["ended"] == "seconds"
    assert len(late.data["events"]) <= 1
    broken = await call(path, "watch_broken", {})
    assert code(broken) == "upstream_error"
    assert broken.data["errors"]


@pytest.mark.parametrize("transport", ["websocket", "sse"])
async def test_a_subscription_goes_only_where_the_egress_rules_let_it(
    project: Callable[..., Path], transport: str
) -> None:
    path = project("deny", subscriptions=f"{{transport: {transport}}}")
    assert code(await call(path, "watch_added", {})) == "egress_refused"


async def test_a_subscription_needs_a_service_that_speaks_its_protocol(
    project: Callable[..., Path], origin: str
) -> None:
    closed = project(subscriptions="{transport: websocket, url: 'ws://127.0.0.1:9/'}")
    assert code(await call(closed, "watch_added", {})) == "upstream_unavailable"
    with serving(_page) as other:
        for transport, url in (("websocket", "ws" + other.removeprefix("http")), ("sse", other)):
            path = project(subscriptions=f"{{transport: {transport}, url: '{url}'}}")
            assert code(await call(path, "watch_added", {})) == "upstream_error"


async def _page(scope: Any, receive: Any, send: Any) -> None:
    """A web page at every address, and a redirect in place of every WebSocket."""
    if scope["type"] == "websocket":
        await send(
            {"type": "websocket.http.response.start", "status": 302, "headers": [(b"location", b"ws://127.0.0.1:9/")]}
        )
        await send({"type": "websocket.http.response.body", "body": b""})
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/html")]})
    await send({"type": "http.response.body", "body": b"<html>"})
