"""Where a connection may go: every address is put to the policy, and what was checked is what is connected to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

import httpcore
import httpx
import idna
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.exhaustive import examples
from toolgen.connectors.executor import Destination, Permit
from toolgen.connectors.http.connector import Dialer, EgressRefusal, Target, Timeouts
from toolgen.connectors.http.target import _read
from toolgen.core.clock import FixedClock
from toolgen.model.verdict import Allow, Ask, Deny, Verdict


def allow(_: Destination) -> Verdict:
    return Allow(rule="t")


class Names:
    """A resolver with fixed answers that counts its questions."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        answer = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        return answer


def dialer(names: Names, permit: Permit = allow, clock: FixedClock | None = None) -> Dialer:
    return Dialer(permit=permit, resolver=names, timeouts=Timeouts(), clock=clock or FixedClock())


@pytest.mark.parametrize(
    ("url", "host", "port", "literal"),
    [
        ("http://h.test/", "h.test", 80, False),
        ("https://H.test/e?a=1", "h.test", 443, False),
        ("http://h.test:8080/e", "h.test", 8080, False),
        ("http://127.0.0.1:1/e", "127.0.0.1", 1, True),
        ("http://[::1]:1/e", "::1", 1, True),
        ("http://a_b.test./e", "a_b.test.", 80, False),
        ("HTTPS://h.test?a=%2F", "h.test", 443, False),
        ("http://[2001:DB8:0:0::1]/e", "2001:db8::1", 80, True),
        ("http://[::ffff:127.0.0.1]/e", "::ffff:7f00:1", 80, True),
        ("http://bücher.test/e", "xn--bcher-kva.test", 80, False),
        ("http://xn--bcher-KVA.test/e", "xn--bcher-kva.test", 80, False),
    ],
)
def test_a_target_is_host_and_port_of_the_url(url: str, host: str, port: int, literal: bool) -> None:
    target = Target.of(url)
    assert (target.host, target.port, target.literal) == (host, port, literal)


@pytest.mark.parametrize(
    "url",
    [
        "http://h.test/a/../b",
        "http://h.test/a/%2e%2e/b",
        "http://h.test/a\\b",
        "http://h.test/a b",
        "http://h.test/a?b'c",
        "http://h.test/a#b",
        "http://user@h.test/a",
        "ftp://h.test/a",
        "h.test/a",
        "http://@h.test/a",
        "http://:p@h.test/a",
        "http://h.test:65536/a",
        "http://h.test:/a",
        "http:///h.test/a",
        " http://h.test/a",
        "http://h.test/a\n",
        "http://h.test?a/b",
        "http://h%2e.test/a",
        "http://h..test/a",
        f"http://{'h' * 64}.test/a",
        "http://xn--zz/a",
        # Some read an address in these, some a name.
        "http://0x7f.1/a",
        "http://0x7f.0x1/a",
        "http://2130706433/a",
        "http://0177.0.0.1/a",
        "http://127.1/a",
        "http://127.0.0.1./a",
        "http://1.1.1.256/a",
        "http://\uff11\uff12\uff17.1/a",
        "http://[::1%25eth0]/a",
        "http://[1::2::3]/a",
    ],
)
def test_a_url_that_parsers_change_or_read_in_different_ways_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Target.of(url)


async def test_every_address_is_checked_and_one_forbidden_address_is_enough() -> None:
    seen: list[Destination] = []

    def permit(destination: Destination) -> Verdict:
        seen.append(destination)
        return Deny(rule="private", reason="no") if destination.address == "10.0.0.1" else Allow(rule="t")

    target = Target.of("http://h.test:8080/e")
    with pytest.raises(EgressRefusal) as caught:
        await dialer(Names(["192.0.2.1", "10.0.0.1"]), permit).addresses(target)
    assert caught.value.verdict.rule == "private"
    assert seen == [Destination(host="h.test", port=8080, address=one) for one in ("", "192.0.2.1", "10.0.0.1")]


async def test_a_name_that_is_not_permitted_is_not_resolved() -> None:
    names = Names(["192.0.2.1"])
    with pytest.raises(EgressRefusal):
        await dialer(names, lambda _: Deny(rule="r", reason="no")).addresses(Target.of("http://h.test/"))
    assert not names.asked


async def test_a_literal_address_is_checked_without_being_resolved() -> None:
    names = Names(["192.0.2.1"])
    with pytest.raises(EgressRefusal):
        await dialer(names, lambda _: Deny(rule="r", reason="no")).addresses(Target.of("http://127.0.0.1/"))
    assert names.asked == 0


async def test_a_policy_that_would_ask_is_a_refusal() -> None:
    with pytest.raises(EgressRefusal) as caught:
        await dialer(Names(["192.0.2.1"]), lambda _: Ask(rule="r", reason="who?")).addresses(
            Target.of("http://h.test/")
        )
    assert caught.value.verdict.code == "egress_refused"


async def test_a_rebound_name_is_checked_anew() -> None:
    clock = FixedClock()
    names = Names(["192.0.2.1"], ["127.0.0.1"])
    bound = dialer(
        names, lambda d: Allow(rule="t") if d.address in {"", "192.0.2.1"} else Deny(rule="r", reason="no"), clock
    )
    target = Target.of("http://h.test/")
    assert await bound.addresses(target) == ("192.0.2.1",)
    assert await bound.addresses(target) == ("192.0.2.1",)
    assert names.asked == 1
    clock.advance(60)
    with pytest.raises(EgressRefusal):
        await bound.addresses(target)


@pytest.mark.parametrize("answer", [[], ["not-an-address"]])
async def test_a_resolver_that_gives_no_address_is_an_error(answer: list[str]) -> None:
    with pytest.raises((OSError, ValueError)):
        await dialer(Names(answer)).addresses(Target.of("http://h.test/"))


def read(url: str, by: Callable[[str], Target]) -> Target | str:
    try:
        return by(url)
    except ValueError:
        return "refused"


def named(host: str) -> str:
    """Return one form of an address, or of a name."""
    try:
        return str(ip_address(host))
    except ValueError:
        return host.lower() if host.isascii() else idna.encode(host, uts46=True).decode()


@pytest.mark.sweep
@settings(max_examples=examples(2_000), deadline=None)
@given(
    st.builds(
        "{}{}{}".format,
        st.sampled_from(["http://", "https://", "HTTP://", "ftp://", "http:///", "http:", "//", ""]),
        st.sampled_from(
            [
                "a.test",
                "A.test",
                "192.0.2.1",
                "[2001:db8::1]",
                "a.test:80",
                "a.test:99999",
                "a:b@c",
                "",
                "1.2",
                "[",
                "a..b",
                "xn--a",
                "bücher.test",
                "0x7f.1",
                "[::ffff:1.2.3.4]",
                "a_b:0",
                "a.test:080",
            ]
        ),
        st.text(st.sampled_from("/ab0.%2e?&=#@\\\t ~_-+,;:é'|<{"), max_size=12),
    )
)
@example("http:///a.test/b")
@example("http://a.test?x/y")
@example("http://a.test/a/../b")
@example("http://a.test/%2e%2e/b")
@example("http://a.test/a b")
def test_a_url_that_is_taken_is_read_alike_by_every_parser(url: str) -> None:
    target = read(url, Target.of)
    assert target == read(url, _read)
    if isinstance(target, str):
        return
    parts = urlsplit(url)
    assert (parts.scheme, parts.port or target.port) == (target.scheme, target.port)
    assert (parts.username, parts.password, parts.fragment) == (None, None, "")
    seen = httpx.URL(url)
    assert (seen.scheme, seen.port or target.port, seen.userinfo) == (target.scheme, target.port, b"")
    assert {named(parts.hostname or ""), named(seen.raw_host.decode())} == {named(target.host)}
    if url.isascii():
        dialled = httpcore.URL(url)  # what the client of event streams reads
        assert named(dialled.host.decode().strip("[]")) == named(target.host)
        assert (dialled.port or target.port) == target.port
