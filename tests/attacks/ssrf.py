"""Requests that would go where they must not, tried in a network namespace with loopback alone: `unshare -n python -m tests.attacks.ssrf`.

Prints one JSON object: each case with how it ended and how many packets left while it was tried (the kernel's own count).
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import socket
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.connectors.http.bindings import binding, call, parameter
from tests.stream_servers import stream_server
from toolgen.connectors.executor import Destination
from toolgen.connectors.http.executor import HttpExecutor
from toolgen.connectors.secrets import SecretResolver
from toolgen.model.manifest import SecurityScheme
from toolgen.model.result import Failed, Success
from toolgen.model.tool import HttpBinding
from toolgen.model.verdict import Verdict
from toolgen.policy.egress import Egress

_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A server as a description might name it, what its name resolves to, and the arguments of a path, a query and a header."""

    server: str = "http://api.test"
    resolves: tuple[str, ...] = ("93.184.216.34",)
    arguments: dict[str, Any] = field(default_factory=dict)
    bound: HttpBinding | None = None
    codes: tuple[str, ...] = ("egress_refused", "validation")


# Every way to write an address that leads inside, as a literal in the URL.
LITERALS = (
    "127.0.0.1", "127.1", "127.0.1", "0177.0.0.1", "0x7f.0.0.1", "0x7f000001", "2130706433", "017700000001", "127.0.0.1.",
    "0", "0.0.0.0", "10.0.0.1", "10.1", "0xa000001", "172.16.0.1", "192.168.0.1", "192.168.257", "3232235777",
    "169.254.169.254", "0xa9fea9fe", "2852039166", "0251.0376.0251.0376", "169.254.43518", "100.64.0.1", "100.100.100.200",
    "192.0.0.192", "168.63.129.16", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "192.0.2.1", "192.88.99.1",
    "[::1]", "[0:0:0:0:0:0:0:1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:169.254.169.254]", "[::127.0.0.1]",
    "[::ffff:0:127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b::169.254.169.254]", "[64:ff9b::10.0.0.1]", "[64:ff9b:1::a00:1]",
    "[2002:7f00:1::]", "[2002:a9fe:a9fe::1]", "[2002:a00:1::1]", "[2001:0:4136:e378:8000:63bf:80ff:fffe]", "[fe80::1]",
    "[fc00::1]", "[fd00:ec2::254]", "[fec0::1]", "[ff02::1]", "[2001:db8::1]", "[100::1]", "[5f00::1]",
    "\u2460\u2461\u2466.0.0.1", "\uff11\uff12\uff17.0.0.1", "127\u30020\u30020\u30021", "\u2488\u2488\u2488\u2488",
)  # fmt: skip

# What no client may be asked to read: two parsers would differ on where it leads.
MISREAD = (
    "http://api.test@127.0.0.1", "http://127.0.0.1:80@api.test", "http://api.test:pw@127.0.0.1", "http://api.test%40127.0.0.1",
    "http://127.0.0.1\\@api.test", "http://api.test\\.127.0.0.1", "http://api.test#@127.0.0.1", "http://127.0.0.1#.api.test",
    "http://127.0.0.1?.api.test", "http://api.test /", "http://api.test\t.example", "http://api.test\r\nX: y", "http://[::1%25lo]",
    "http://[fe80::1%25eth0]", "http://[::1]api.test", "http://127.0.0.1:0x50", "http://127.0.0.1:99999", "http:///127.0.0.1",
    "http:127.0.0.1", "//127.0.0.1", "file:///etc/passwd", "gopher://127.0.0.1:6379", "ftp://127.0.0.1", "unix:///run/docker.sock",
    "http://%31%32%37.0.0.1", "http://127.0.0.1%00.api.test", "http://127.0.0.1%2f.api.test", "http://1.1.1.1 &@127.0.0.1",
)  # fmt: skip

# What a name may turn out to mean between the description and the dial.
RESOLVED: tuple[tuple[str, ...], ...] = (
    ("127.0.0.1",), ("10.0.0.5",), ("169.254.169.254",), ("100.64.0.9",), ("::1",), ("::ffff:10.0.0.1",), ("64:ff9b::a9fe:a9fe",),
    ("2002:7f00:1::",), ("fe80::1%lo",), ("::ffff:a9fe:a9fe",), ("93.184.216.34", "127.0.0.1"), ("2606:2800:220:1::1", "::1"),
    ("0.0.0.0",), ("255.255.255.255",), ("ff02::fb",), ("fd00:ec2::254",),
)  # fmt: skip

HOSTS = (
    "localhost",
    "LOCALHOST",
    "localhost.",
    "localhost.localdomain",
    "metadata.google.internal",
    "api.test.",
    "xn--lcalhost-b1a",
)

# What would split a request or move it to another route, of a server that is public and that nobody can reach from here.
PATHS = (
    "..", ".", "%2e%2e", "%252e%252e", "../admin", "..%2fadmin", "..%5cadmin", "a/../../b", "..;/admin", "..;a=b",
    "%2e%2e;x", "%2e%2e%2fadmin",
    "\\..\\admin", "a/..", "a/./..", "", "\ud800",
)  # fmt: skip
HEADERS = (
    "a\r\nHost: evil",
    "a\nX: y",
    "a\rX: y",
    "a\0b",
    "\r\n\r\nGET / HTTP/1.1",
    "a\x0bb",
    " a",
    "a\x85\nb",
    "x\ud800",
)
NAMES = (
    "Host", "Authorization", "Cookie", "Content-Length", "Transfer-Encoding", "Connection", "X Y", "X:Y", "X\r\nY",
    "Proxy-Authorization", "TE", "Upgrade",
)  # fmt: skip


def cases() -> dict[str, Case]:
    """All of them, by a name that says what is tried."""
    found = {f"literal {host}": Case(server=f"http://{host}") for host in LITERALS}
    found |= {f"url {url!r}": Case(server=url, resolves=("127.0.0.1",)) for url in MISREAD}
    found |= {f"name -> {', '.join(to)}": Case(resolves=to) for to in RESOLVED}
    found |= {f"host {name}": Case(server=f"http://{name}", resolves=("127.0.0.1",)) for name in HOSTS}
    path = binding(parameter("path", name="p"), path="/v1/{p}/x")
    found |= {f"path {text!r}": Case(bound=path, arguments={"p": text}, codes=("validation",)) for text in PATHS}
    header = binding(parameter("header", name="X-Q"))
    found |= {
        f"header {text!r}": Case(bound=header, arguments={"X-Q": text}, codes=("validation",)) for text in HEADERS
    }
    for name in NAMES:
        case = Case(bound=binding(parameter("header", name=name)), arguments={name: "1"}, codes=("validation",))
        found[f"header name {name!r}"] = case
    cookie = binding(parameter("cookie", name="c", style="cookie"))
    found |= {
        f"cookie {text!r}": Case(bound=cookie, arguments={"c": text}, codes=("validation",))
        for text in ("a; session=1", "a\r\nX: y", 'a,b="c', "a b")
    }
    return found


def packets() -> int:
    """How many packets of any kind this namespace has sent or tried to send."""
    total = 0
    lines = Path("/proc/net/snmp").read_text().splitlines()
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        counted = dict(zip(names.split(), values.split(), strict=True))
        total += (
            int(counted.get("OutRequests", 0)) + int(counted.get("OutNoRoutes", 0)) + int(counted.get("ActiveOpens", 0))
        )
    for line in Path("/proc/net/snmp6").read_text().splitlines():
        name, value = line.split()
        total += int(value) if name in {"Ip6OutRequests", "Ip6OutNoRoutes"} else 0
    return total


async def attempt(case: Case, egress: Egress) -> str:
    """How a call ended: the code of its error, or "answered"."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        return case.resolves

    def permit(destination: Destination) -> Verdict:
        return egress.check(destination.host, destination.port, destination.address)

    sender = HttpExecutor(
        schemes={"key": SecurityScheme(type="apiKey", in_="query", name="key")},
        auth={},
        secrets=SecretResolver({}),
        permit=permit,
        resolver=resolve,
    )
    bound = case.bound or binding()
    fields = {name: getattr(bound, name) for name in bound.__struct_fields__}
    try:
        outcome = await sender.execute(call(HttpBinding(**{**fields, "servers": (case.server,)}), case.arguments))
    finally:
        await sender.close()
    assert isinstance(outcome, (Success, Failed))
    return outcome.error.code if isinstance(outcome, Failed) else "answered"


async def control() -> dict[str, Any]:
    """A request that is allowed, so that a count of none means something."""
    async with stream_server(_answer) as port:
        before = packets()
        ended = await attempt(Case(server=f"http://127.0.0.1:{port}"), Egress(private_networks=True))
    return {"ended": ended, "packets": packets() - before}


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
    await writer.drain()


def raise_loopback() -> None:
    """Brings `lo` up, as a new namespace has it down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(handle, _GET_FLAGS, request))[1]
        fcntl.ioctl(handle, _SET_FLAGS, struct.pack("16sh14x", b"lo", flags | _UP))


async def main() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, case in cases().items():
        before = packets()
        ended = await attempt(case, Egress())
        found[name] = {"ended": ended, "expected": list(case.codes), "packets": packets() - before}
    return {"interfaces": [name for _, name in socket.if_nameindex()], "cases": found, "control": await control()}


if __name__ == "__main__":
    raise_loopback()
    json.dump(asyncio.run(main()), sys.stdout)
