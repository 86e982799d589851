"""How many connections there may be: who gives way, who keeps working, and what those are told for whom there is no room."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
from collections.abc import AsyncIterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.clients import BASE, bearer, listening
from tests.gateway.gateways import KEY, OTHER_KEY, FakeGateway
from tests.gateway.raw import CLOSE, request, rest_of, serving, statuses
from toolgen.frontends.http import connection
from toolgen.frontends.http.app import App
from toolgen.frontends.http.connections import MAX_COUNT, MAX_PER_ADDRESS, Connections, InFlight
from toolgen.frontends.http.request import EventStream, LimitedResource, Request, Send

PROXIES = (ip_network("10.0.0.0/8"),)
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
TOOLS = "GET /v1/tools HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\n\r\n"


class Fake:
    """A connection that only says whether it can be spared."""

    def __init__(self, peer: str = "192.0.2.1") -> None:
        self.peer = peer
        self.proven = False
        self.busy = False
        self.places: tuple[Any, ...] = ()
        self.gone = False

    def expendable(self) -> bool:
        return not self.busy

    def give_way(self) -> None:
        self.gone = True

    def end_after_answer(self) -> None: ...
    def abort(self) -> None: ...


def filled(connections: Connections, count: int, peer: str = "192.0.2.1") -> list[Fake]:
    found = [Fake(peer) for _ in range(count)]
    for one in found:
        connections.enter(one)
    return found


def gone(found: list[Fake]) -> list[int]:
    return [number for number, one in enumerate(found) if one.gone]


def test_who_rests_longest_gives_way_and_never_who_is_busy() -> None:
    connections = Connections(most_per_address=4)
    found = filled(connections, 4)
    found[0].busy = True
    connections.rested(found[1])
    assert connections.enter(Fake()) is None
    assert gone(found) == [2]
    connections.enter(Fake())
    assert gone(found) == [2, 3]
    found[0].busy = False
    connections.rested(found[0])
    filled(connections, 2)
    assert gone(found) == [1, 2, 3]
    assert connections.count == 4


def test_who_has_shown_a_credential_gives_way_last() -> None:
    connections = Connections(most_per_address=3)
    found = filled(connections, 3)
    found[0].proven = True
    connections.rested(found[0])
    filled(connections, 20)
    assert gone(found) == [1, 2]
    known = []
    for _ in range(2):
        known += filled(connections, 1)
        known[-1].proven = True
        connections.rested(known[-1])
    connections.enter(Fake())
    assert gone([found[0], *known]) == [0]


def test_an_address_has_its_share_and_takes_nothing_from_others() -> None:
    connections = Connections(most=10, most_per_address=4)
    others = filled(connections, 3, "192.0.2.2")
    crowd = filled(connections, 100)
    assert gone(others) == []
    assert len(crowd) - len(gone(crowd)) == 4
    network = filled(connections, 1, "2001:db8::1") + filled(connections, 8, "2001:db8::2")
    assert len(network) - len(gone(network)) == 4  # all places are taken, and those who rest longest gave way
    assert connections.count == 10


def test_where_nobody_can_be_spared_there_is_a_reserve_and_then_an_end() -> None:
    connections = Connections(most=3, most_per_address=2, reserve=2)
    for one in filled(connections, 2):
        one.busy = True
    late = [Fake() for _ in range(3)]
    assert [connections.enter(one) for one in late] == [LimitedResource.ADDRESS] * 3
    assert gone(late) == [0]
    filled(connections, 1, "192.0.2.9")[0].busy = True
    other = Fake("192.0.2.8")
    assert connections.enter(other) is LimitedResource.ALL
    for one in (late[2], other):
        one.busy = True
    last = Fake("192.0.2.7")
    assert connections.enter(last) is LimitedResource.ALL
    assert last.gone
    assert connections.count == 5
    connections.leave(last)
    assert connections.count == 5


def test_a_trusted_proxys_connections_are_not_one_addresss() -> None:
    connections = Connections(proxies=PROXIES, most=5, most_per_address=2)
    found = filled(connections, 5, "10.1.1.1") + filled(connections, 1, "::ffff:10.1.1.1")
    assert gone(found) == [0]
    assert connections.count == 5


def test_nothing_is_kept_of_connections_that_are_closed() -> None:
    connections = Connections(most=3, most_per_address=1, reserve=1)
    for number in range(50):
        filled(connections, 2, f"192.0.2.{number}")
    found = filled(connections, 3)
    for one in found:
        one.busy = True
    for number in range(50):
        for one in filled(connections, 2, f"198.51.100.{number}"):
            connections.leave(one)
            connections.leave(one)
    for place in (connections._all, connections._reserve):
        for one in [*place.known, *place.unknown, *found]:
            connections.leave(one)
    assert connections.count <= 3
    assert len(connections._addresses) <= 3


def test_requests_in_flight_are_counted_by_address() -> None:
    flight = InFlight(2)
    assert [flight.enter("2001:db8::1"), flight.enter("2001:db8::2"), flight.enter("192.0.2.1")] == [None] * 3
    assert flight.enter("2001:db8::3") is LimitedResource.ADDRESS
    for name in ("2001:db8::1", "2001:db8::2", "2001:db8::3", "192.0.2.1"):
        flight.leave(name)
    assert flight._counts == {}


async def opened(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))


async def asked(wire: tuple[asyncio.StreamReader, asyncio.StreamWriter], sent: bytes) -> tuple[bytes, bytes]:
    """Head and body of the answer on a connection that may stay open."""
    wire[1].write(sent)
    head = await wire[0].readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    return head, await wire[0].readexactly(length)


async def test_idle_connections_of_an_address_give_way_and_a_known_one_stays() -> None:
    async with listening(App(FakeGateway()), connections=Connections(most_per_address=3)) as url:
        known = await opened(url)
        head, _ = await asked(known, TOOLS.format(KEY).encode())
        assert b" 200 " in head
        half = await opened(url)
        half[1].write(b"GET /hea")
        await half[1].drain()
        rested = await opened(url)
        assert b" 200 " in (await asked(rested, HEALTH))[0]
        crowd = [await opened(url) for _ in range(5)]
        said = await half[0].read()
        assert said.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 5" in said
        assert json.loads(said.partition(b"\r\n\r\n")[2])["error"]["code"] == "overloaded"
        assert await rested[0].read() == b""  # on a connection that rests, an answer would be to nothing
        assert b" 200 " in (await asked(known, TOOLS.format(KEY).encode()))[0]
        assert b" 200 " in (await asked(crowd[-1], HEALTH))[0]
        for one in (known, half, rested, *crowd):
            one[1].close()


async def test_where_everybody_is_busy_only_health_and_who_is_known_are_answered() -> None:
    gateway = FakeGateway()
    shown: set[str] = set()
    recognise = gateway.callers.recognised

    def recognised(credential: str) -> Any:
        return recognise(credential) if credential in shown else None

    gateway.callers.recognised = recognised  # type: ignore[method-assign]
    call = f"POST /v1/tools/test__slow/call HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEY}\r\n"
    call += "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    async with listening(App(gateway), connections=Connections(most_per_address=1)) as url:
        busy = await opened(url)
        busy[1].write(call.encode())
        await gateway.entered.wait()
        shown.add(KEY)
        for sent, status in (
            (HEALTH, 200),
            (TOOLS.format(KEY).encode(), 200),
            (TOOLS.format(OTHER_KEY).encode(), 429),
            (b"GET /v1/tools HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 429),
        ):
            wire = await opened(url)
            head, body = await asked(wire, sent)
            assert f" {status} ".encode() in head
            assert (b"retry-after" in head) is (status == 429)
            assert b"connection: close" in head
            assert status == 200 or json.loads(body)["error"]["code"] == "rate_limited"
            assert await wire[0].read() == b""
            wire[1].close()
        gateway.gate.set()
        assert b" 200 " in await busy[0].readuntil(b"\r\n")
        busy[1].close()


async def test_who_does_not_take_the_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SLOWEST_READER_S", 0.05)
    ended = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(100):  # 100 MB fit nowhere, and nobody reads them
            yield b"a" * 1_000_000

    class Telling:
        async def serve(self, asked: Request, send: Send) -> None:
            await send(EventStream(events=endless()))
            assert asked.caller_connection.disconnected()
            ended.set()

    async with listening(Telling()) as url:
        reader, writer = await opened(url)
        writer.write(HEALTH)
        await reader.readuntil(b"\r\n")
        await ended.wait()
        writer.close()


def test_thousands_of_idle_connections_from_one_address_keep_nobody_out(tmp_path: Path) -> None:
    count = MAX_COUNT + 104
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < count + 500:
        pytest.skip(f"this process may not open {count} files")
    with serving(tmp_path / "p") as served, socket.socket() as caller, socket.socket() as late:
        for one in (caller, late):
            one.bind(("127.0.0.2", 0))
        caller.connect(("127.0.0.1", served.port))
        caller.sendall(request(b"{}"))
        assert statuses(caller.recv(65536)) == [200]
        idle = [socket.create_connection(("127.0.0.1", served.port), timeout=60) for _ in range(count)]
        try:
            late.connect(("127.0.0.1", served.port))
            late.sendall(HEALTH)
            assert statuses(late.recv(65536)) == [200]
            served.alive()  # from the same address
            told = rest_of(idle[0])
            assert statuses(told) == [503]
            assert b"retry-after" in told
            caller.sendall(request(b"{}", CLOSE))
            assert statuses(rest_of(caller)) == [200]
            open_files = len(list(Path(f"/proc/{served.pid}/fd").iterdir()))
            assert open_files < MAX_PER_ADDRESS + 200
        finally:
            for one in idle:
                one.close()
        served.alive()


async def test_requests_through_a_proxy_count_for_the_address_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = FakeGateway()
    app = App(gateway, proxies=PROXIES)
    monkeypatch.setattr(app, "_in_flight", InFlight(1))
    monkeypatch.setattr(gateway, "recognised", lambda _: None)
    transport = httpx.ASGITransport(app, client=("10.1.1.1", 5))
    async with httpx.AsyncClient(transport=transport, base_url=BASE, headers=bearer()) as http:

        async def get(path: str, client: str) -> int:
            return (await http.get(path, headers={"x-forwarded-for": client})).status_code

        slow = http.post(
            "/v1/tools/test__slow/call",
            headers={"x-forwarded-for": "192.0.2.1", "content-type": "application/json"},
            content=b"{}",
        )
        task = asyncio.create_task(slow)
        await gateway.entered.wait()
        assert await get("/v1/tools", "192.0.2.1") == 429
        assert await get("/v1/tools", "192.0.2.9, 192.0.2.1") == 429
        assert await get("/healthz", "192.0.2.1") == 200
        assert await get("/v1/tools", "192.0.2.2") == 200
        gateway.gate.set()
        assert (await task).status_code == 200
        assert await get("/v1/tools", "192.0.2.1") == 200
