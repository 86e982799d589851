"""Whose address counts: the connection's, or what a trusted proxy says of it, and never what its client says."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from toolgen.frontends.http.client_address import client_of, counted_as

PROXIES = tuple(ip_network(text) for text in ("10.0.0.0/8", "fd00::/8"))


@pytest.mark.parametrize(
    ("lines", "client"),
    [
        ([], "10.0.0.1"),
        (["192.0.2.1"], "192.0.2.1"),
        (["1.1.1.1, 192.0.2.1"], "192.0.2.1"),
        (["1.1.1.1", "192.0.2.1"], "192.0.2.1"),  # HAProxy adds a line of its own
        (["1.1.1.1, 192.0.2.1, 10.2.2.2"], "192.0.2.1"),
        (["192.0.2.1, 10.2.2.2,10.3.3.3"], "192.0.2.1"),
        (["rubbish, ,, 192.0.2.1"], "192.0.2.1"),
        (["10.2.2.2, 10.3.3.3"], "10.2.2.2"),
        (["192.0.2.1:4711"], "192.0.2.1"),
        (["2001:db8::1"], "2001:db8::1"),
        (["[2001:db8::1]:4711"], "2001:db8::1"),
        (["::ffff:192.0.2.1"], "192.0.2.1"),
        (["192.0.2.1, ::ffff:10.0.0.2"], "192.0.2.1"),
        (["192.0.2.1,"], "10.0.0.1"),
        ([""], "10.0.0.1"),
        (["192.0.2.1, unknown"], "10.0.0.1"),
        (["192.0.2.1, 10.1.1.1.1"], "10.0.0.1"),
        (["192.0.2.1, 010.1.1.1"], "10.0.0.1"),
        (["192.0.2.1, [10.1.1.1]"], "10.0.0.1"),
        (["fe80::1%eth0"], "10.0.0.1"),
        (["192.0.2.1:999999"], "10.0.0.1"),
        (["192.0.2.1\xa0"], "10.0.0.1"),
        (["192.0.2.1, " + ", ".join(["10.1.1.1"] * 31)], "192.0.2.1"),
        (["192.0.2.1, " + ", ".join(["10.1.1.1"] * 32)], "10.0.0.1"),
    ],
)
def test_the_rightmost_address_that_is_no_proxys_counts(lines: list[str], client: str) -> None:
    headers = [(b"x-forwarded-for", line.encode("latin-1")) for line in lines]
    assert client_of("10.0.0.1", headers, PROXIES) == client


@pytest.mark.parametrize(
    ("lines", "client"),
    [
        (["for=192.0.2.1"], "192.0.2.1"),
        (['For="192.0.2.1:4711";proto=http;by=10.0.0.1'], "192.0.2.1"),
        (["for=1.1.1.1, for=192.0.2.1;proto=https, for=10.2.2.2"], "192.0.2.1"),
        (["for=1.1.1.1", "for=192.0.2.1"], "192.0.2.1"),
        (['for="[2001:db8::1]:4711"'], "2001:db8::1"),
        (['for=1.1.1.1;x="a,b;c", for=192.0.2.1'], "192.0.2.1"),
        (['for="192\\.0.2.1"'], "192.0.2.1"),
        (["for=[2001:db8::1]"], "10.0.0.1"),
        (['for="2001:db8::1"'], "10.0.0.1"),
        (["for=unknown"], "10.0.0.1"),
        (["for=_hidden"], "10.0.0.1"),
        (["by=192.0.2.1"], "10.0.0.1"),
        (["for=192.0.2.1;for=192.0.2.2"], "10.0.0.1"),
        (["192.0.2.1"], "10.0.0.1"),
        (["for = 192.0.2.1"], "10.0.0.1"),
        (['for="192.0.2.1'], "10.0.0.1"),
        (['for="1.1.1.1', "for=192.0.2.1"], "10.0.0.1"),
        (['for=1.1.1.1;x="', 'for="[2001:db8::1]"'], "10.0.0.1"),
        (['for=1.1.1.1;x="\\', "for=192.0.2.1"], "10.0.0.1"),
    ],
)
def test_forwarded_is_read_as_rfc_7239_writes_it(lines: list[str], client: str) -> None:
    assert client_of("10.0.0.1", [(b"forwarded", line.encode()) for line in lines], PROXIES) == client


def test_only_a_trusted_proxy_is_asked_and_two_that_differ_are_not_believed() -> None:
    plain, standard = (b"x-forwarded-for", b"192.0.2.1"), (b"forwarded", b"for=192.0.2.1")
    other = (b"forwarded", b"for=192.0.2.2")
    for peer in ("192.0.2.9", "11.0.0.1", "", "unix", "fe80::1"):
        assert client_of(peer, [plain, standard], PROXIES) == peer
    assert client_of("10.0.0.1", [plain], ()) == "10.0.0.1"
    for peer in ("10.0.0.1", "fd00::7", "::ffff:10.0.0.1"):
        assert client_of(peer, [plain, standard], PROXIES) == "192.0.2.1"
        assert client_of(peer, [plain, other], PROXIES) == peer
        assert client_of(peer, [(b"x-forwarded-for", b"?"), standard], PROXIES) == peer


@pytest.mark.parametrize(
    ("peer", "name"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8:0:0:ffff::1", "2001:db8::/64"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("unix", "unix"),
    ],
)
def test_an_ipv6_network_of_64_bits_is_one_address(peer: str, name: str) -> None:
    assert counted_as(peer) == name
