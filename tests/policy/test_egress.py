"""Which addresses are open, in every form an address can take."""

from __future__ import annotations

import pytest

from toolgen.model.verdict import Allow, Deny
from toolgen.policy.egress import Egress, parse_allowed

CLOSED = [
    "127.0.0.1",
    "127.8.8.8",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "100.100.100.200",
    "0.0.0.0",
    "0.1.2.3",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "198.18.0.1",
    "192.0.2.1",
    "::1",
    "::",
    "fe80::1",
    "fe80::1%eth0",
    "fc00::1",
    "fd00:ec2::254",
    "fec0::1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "::ffff:169.254.169.254",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::7f00:1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::",
    "2001:db8::1",
    "168.63.129.16",
    "192.0.0.192",
    "192.0.0.170",
    "192.88.99.1",
    "64:ff9b:1:7f00:0:100:808:808",
    "3fff::1",
    "5f00::1",
    "fd20:ce::254",
    "not-an-address",
]
PUBLIC = ["93.184.216.34", "8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]


@pytest.mark.parametrize("address", CLOSED)
def test_addresses_that_are_closed_by_default(address: str) -> None:
    assert not isinstance(Egress().check("api.example.com", 443, address), Allow)


@pytest.mark.parametrize("address", [item for item in CLOSED if item != "not-an-address"])
def test_literal_hosts_are_judged_before_any_look_up(address: str) -> None:
    assert not isinstance(Egress().check(address, 443), Allow)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_open(address: str) -> None:
    assert isinstance(Egress().check("api.example.com", 443, address), Allow)


@pytest.mark.parametrize(
    ("address", "opened"),
    [
        ("127.0.0.1", True),
        ("10.1.2.3", True),
        ("::1", True),
        ("fd12::1", True),
        ("::ffff:127.0.0.1", True),
        ("169.254.169.254", False),
        ("::ffff:169.254.169.254", False),
        ("100.64.0.1", False),
        ("224.0.0.1", False),
        ("0.0.0.0", False),
        ("64:ff9b::a9fe:a9fe", False),
        ("fd00:ec2::254", False),
        ("168.63.129.16", False),
        ("192.0.0.192", False),
    ],
)
def test_private_networks_open_private_addresses_and_no_others(address: str, opened: bool) -> None:
    assert isinstance(Egress(private_networks=True).check("internal.example", 80, address), Allow) is opened


@pytest.mark.parametrize(
    ("host", "port", "address", "opened"),
    [
        ("api.example.com", 443, "10.0.0.1", True),
        ("API.example.COM.", 443, "10.0.0.1", True),
        ("api.example.com", 444, "10.0.0.1", False),
        ("other.example.com", 443, "93.184.216.34", False),
        ("169.254.169.254", 80, "169.254.169.254", True),
        ("::1", 8080, "::1", True),
    ],
)
def test_a_listed_place_is_open_whatever_its_address_and_closes_the_rest(
    host: str, port: int, address: str, opened: bool
) -> None:
    egress = Egress(allow=frozenset({("api.example.com", 443), ("169.254.169.254", 80), ("::1", 8080)}))
    assert isinstance(egress.check(host, port, address), Allow) is opened
    if not opened:
        assert not isinstance(egress.check(host, port), Allow)


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("api.example.com:443", ("api.example.com", 443)),
        ("API.Example.com.:443", ("api.example.com", 443)),
        ("[::1]:8080", ("::1", 8080)),
        ("127.0.0.1:80", ("127.0.0.1", 80)),
        ("api.example.com", None),
        ("*:443", None),
        ("api.example.com:0", None),
        ("api.example.com:99999", None),
        ("http://api.example.com:80", None),
        ("user@host:80", None),
        ("", None),
    ],
)
def test_entries_of_the_allow_list(text: str, parsed: tuple[str, int] | None) -> None:
    assert parse_allowed(text) == parsed


def test_a_database_may_be_where_databases_are_and_nowhere_a_request_may_never_go() -> None:
    """Its address is the operator's own; public ones and those of metadata services are the reviewer's, as for requests."""
    for address in ("127.0.0.1", "10.0.0.5", "192.168.1.1", "::1", "fd00::1"):
        assert isinstance(Egress().check_database("db", 5432, address), Allow)
        assert isinstance(Egress(allow=frozenset({("x", 1)})).check_database("db", 5432, address), Allow)
    for address in ("169.254.169.254", "100.64.0.1", "224.0.0.1", "0.0.0.0", "fe80::1", "fd00:ec2::254"):
        assert not isinstance(Egress().check_database("db", 5432, address), Allow)
    listed = Egress(allow=frozenset({("db", 5432)}))
    assert isinstance(Egress().check_database("db", 5432, "93.184.216.34"), Allow)
    assert isinstance(listed.check_database("db", 5432, "93.184.216.34"), Allow)
    assert not isinstance(listed.check_database("db", 5433, "93.184.216.34"), Allow)


def test_a_source_that_is_named_reaches_its_places_and_no_other() -> None:
    egress = Egress(sources={"shop": frozenset({("api.shop.test", 443)})})
    public = "93.184.216.34"
    assert isinstance(egress.check("API.shop.test.", 443, public, source="shop"), Allow)
    for host, port in (("other.test", 443), ("api.shop.test", 80), ("api.shop.test.evil.test", 443)):
        verdict = egress.check(host, port, public, source="shop")
        assert isinstance(verdict, Deny)
        assert "egress.sources.shop" in verdict.suggestion
    assert isinstance(egress.check("other.test", 443, public, source="mail"), Allow)
    assert isinstance(egress.check("other.test", 443, public), Allow)
    assert isinstance(egress.check_database("db.test", 5432, public, source="shop"), Deny)


def test_a_place_of_a_source_opens_nothing_that_the_rest_closes() -> None:
    egress = Egress(sources={"shop": frozenset({("api.shop.test", 443)})}, allow=frozenset({("mail.test", 443)}))
    assert isinstance(egress.check("api.shop.test", 443, "10.0.0.1", source="shop"), Deny)
    assert isinstance(egress.check("api.shop.test", 443, "93.184.216.34", source="shop"), Deny)


def test_redirects_are_followed_where_the_policy_says_so_and_the_place_is_open() -> None:
    public = "93.184.216.34"
    assert isinstance(Egress().check_redirect("api.test", 443, public), Deny)
    assert isinstance(Egress(same_origin=True).check_redirect("api.test", 443, public), Allow)
    assert isinstance(Egress(same_origin=True).check_redirect("api.test", 443, "10.0.0.1"), Deny)
