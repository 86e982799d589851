"""Trials of forbidden addresses: judged without dialling, or dialled only on loopback."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, Literal

from msgspec import Struct

from toolgen.connectors.executor import Destination
from toolgen.connectors.http.redirects import moved
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.policies import permits
from toolgen.gateway.policies.compiled_policy import CurrentPolicy
from toolgen.model.verdict import Allow, Verdict
from toolgen.policy.egress import Egress
from toolgen.quality.doctor.scratch_gateway import ONE, scratch
from toolgen.quality.doctor.trial import Guard, RefusalCheck, UselessError

__all__ = ["attempts_at_places"]

_ALLOW: Final = Allow(rule="doctor")
_PORT: Final = 80
_LISTED: Final = Egress(allow=frozenset({("api.invalid", _PORT)}))
# Kinds of addresses, each with True if `private_networks: allow` opens it.
_PLACES: Final[dict[str, tuple[tuple[str, ...], bool]]] = {
    "link-local": (("169.254.169.254", "169.254.0.1", "fe80::1", "fe80::1%eth0"), False),
    "special": (
        ("168.63.129.16", "192.0.0.192", "100.100.100.200", "192.88.99.1", "64:ff9b:1::1", "3fff::1", "5f00::1"),
        False,
    ),
    "metadata": (("fd00:ec2::254", "fd20:ce::254"), False),
    "multicast and reserved": (
        ("0.0.0.0", "0.1.2.3", "::", "224.0.0.1", "240.0.0.1", "255.255.255.255", "ff02::1", "fec0::1"),  # noqa: S104 - asked about, not listened at
        False,
    ),
    "IPv4 inside of IPv6": (
        ("::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "::169.254.169.254"),
        False,
    ),
    "IPv4-mapped": (("::ffff:10.0.0.1", "::ffff:127.0.0.1", "::ffff:192.168.0.1", "2002:a00:1::1"), True),
    "private": (("10.0.0.1", "172.16.0.1", "172.31.255.254", "192.168.0.1", "fd12:3456::1"), True),
    "loopback": (("127.0.0.1", "127.8.8.8", "::1"), True),
}


def attempts_at_places(gateway: Gateway) -> tuple[RefusalCheck, ...]:
    """Return trials of addresses under the project's own egress rules and under others, of the use of those rules, and of redirects."""
    check = Guard(Egress, "check", _allows)
    addresses = [
        RefusalCheck(
            name=f"{kind} address",
            shown=f"{len(places)} such addresses were refused, also beside `egress.allow` and to databases and key sets",
            guards=(check,),
            make=partial(_judged, gateway, places, ordinary=ordinary),
        )
        for kind, (places, ordinary) in _PLACES.items()
    ]
    return (
        *addresses,
        *_beside_the_proxy(gateway),
        RefusalCheck(
            name="public address",
            shown="with `egress.allow`, and with places of a source, a place that is not listed was refused",
            guards=(check,),
            make=_unlisted,
        ),
        RefusalCheck(
            name="call to an address",
            shown="a call whose server is a link-local address was refused before anything was dialled",
            guards=(Guard(permits, "destination_of", _allows),),
            make=_sent_to_an_address,
        ),
        RefusalCheck(
            name="dialled address",
            shown="a name that leads to a forbidden address was not dialled",
            guards=(Guard(CurrentPolicy, "permit", _allows),),
            make=_dialled,
        ),
        RefusalCheck(
            name="redirect",
            shown="a redirect was not followed where the policy does not say so",
            guards=(Guard(Egress, "check_redirect", _allows),),
            make=partial(_redirected, "none", elsewhere=False),
        ),
        RefusalCheck(
            name="redirect to another origin",
            shown="a redirect to another origin was not followed, whatever the policy says",
            guards=(Guard(sys.modules[moved.__module__], "origin_of", lambda _: ("", "", 0)),),
            make=partial(_redirected, "same-origin", elsewhere=True),
        ),
    )


def _allows(*_: object, **__: object) -> Verdict:
    return _ALLOW


async def _judged(gateway: Gateway, places: tuple[str, ...], *, ordinary: bool) -> str:
    """Return a text about the first address that is open, or "". A policy may open `ordinary` addresses, and databases and key sets may
    use them.
    """
    asked: dict[str, Callable[[str], Verdict]] = {
        "by default": lambda address: Egress().check("doctor.invalid", _PORT, address),
        "written as it is": lambda address: Egress().check(address, _PORT),
        "beside `egress.allow`": lambda address: _LISTED.check("doctor.invalid", _PORT, address),
    }
    own = gateway.policy.egress
    if not (ordinary and own.private_networks):
        asked["under the project's policy"] = lambda address: gateway.current.permit(
            Destination(host="doctor.invalid", port=_PORT, address=address, proxied=True)
        )
        if "127.0.0.1" in places:
            asked["at localhost:9, under the project's policy"] = lambda address: gateway.current.permit(
                Destination(host="localhost", port=9, address=address, proxied=True)
            )
    if not ordinary:
        asked["with private networks open"] = lambda address: Egress(private_networks=True).check(
            "doctor.invalid", _PORT, address
        )
        asked["to a database"] = partial(_for_a_service, gateway, "database")
        asked["to a key set"] = partial(_for_a_service, gateway, "keys")
    for how, ask in asked.items():
        for address in places:
            if isinstance(ask(address), Allow):
                return f"a request to {address} was not refused {how}"
    return ""


def _for_a_service(gateway: Gateway, service: Literal["database", "keys"], address: str) -> Verdict:
    to = Destination(host="doctor.invalid", port=_PORT, address=address, service=service, proxied=True)
    return gateway.current.permit(to)


def _beside_the_proxy(gateway: Gateway) -> tuple[RefusalCheck, ...]:
    """Return the attempt to connect without the proxy of the policy, and say what is not checked behind it."""
    proxy = gateway.policy.egress.proxy
    if proxy is None:
        return ()
    unchecked = "; the proxy resolves names, so their addresses are not checked (`egress.resolve: local` changes that)"
    return (
        RefusalCheck(
            name="connection beside the proxy",
            shown=f"a direct connection beside `egress.proxy` was refused{unchecked if proxy.resolve == 'proxy' else ''}",
            guards=(Guard(Egress, "routed", lambda *_, **__: _ALLOW),),
            make=partial(_direct, gateway),
        ),
    )


async def _direct(gateway: Gateway) -> str:
    to = Destination(host="doctor.invalid", port=_PORT, address="1.1.1.1")
    asked = [gateway.current.permit(to), permits.permitted((Egress(proxy=gateway.policy.egress.proxy),), to)]
    return "a direct connection was not refused" if any(isinstance(one, Allow) for one in asked) else ""


async def _unlisted() -> str:
    narrow = Egress(sources={"one": frozenset({("api.invalid", _PORT)})})
    for egress, source in ((_LISTED, ""), (narrow, "one")):
        for host, address in (("other.invalid", "1.1.1.1"), ("other.invalid", ""), ("api.invalid.other", "1.1.1.1")):
            if isinstance(egress.check(host, _PORT, address, source=source), Allow):
                return f"a request to {host} was not refused, which is not listed"
        if not isinstance(egress.check("api.invalid", _PORT, "1.1.1.1", source=source), Allow):
            raise UselessError("a place that is listed was refused too")
    return ""


async def _sent_to_an_address() -> str:
    async with scratch(server="http://169.254.169.254") as place:
        return "a call to a link-local address got to where it is sent" if await place.reached("open", ONE) else ""


async def _dialled() -> str:
    async with _listening() as listener, scratch(server=f"http://localhost:{listener.port}", real=True) as place:
        await place.gateway.call("trial__open", ONE, principal="agent")
        return "localhost was dialled, which the egress rules forbid" if listener.asked else ""


async def _redirected(redirects: str, *, elsewhere: bool) -> str:
    egress = {"private_networks": "allow", "redirects": redirects}
    async with _listening() as other, _listening() as first:
        first.location = f"http://127.0.0.1:{(other if elsewhere else first).port}/elsewhere"
        async with scratch(server=f"http://127.0.0.1:{first.port}", real=True, policy={"egress": egress}) as place:
            await place.gateway.call("trial__open", ONE, principal="agent")
    if not first.asked:
        raise UselessError("the server on loopback was never asked")
    followed = other.asked or any(b"/elsewhere" in line for line in first.asked)
    return "a redirect was followed" if followed else ""


class _Listener(Struct):
    """HTTP server on loopback that records requests and can redirect clients."""

    port: int = 0
    location: str = ""
    asked: list[bytes] = []

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.asked.append((await reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")[0])
            status = f"302 Found\r\nlocation: {self.location}" if self.location else "200 OK"
            writer.write(f"HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode())
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def _listening() -> AsyncIterator[_Listener]:
    listener = _Listener()
    server = await asyncio.start_server(listener.answer, "127.0.0.1", 0)
    listener.port = server.sockets[0].getsockname()[1]
    async with server:
        yield listener
