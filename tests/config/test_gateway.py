"""What is said of the gateway itself: its public address, the proxies in front of it, and how long it takes to stop."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path

import pytest

from toolgen.config.settings import load
from toolgen.core.errors import ConfigError


def written(root: Path, url: str) -> Path:
    path = root / "toolgen.yaml"
    path.write_text(f"sources:\n  shop: {{sql: 'sqlite:///shop.db'}}\ngateway:\n  url: {url}\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("given", "origin"),
    [
        ("https://tools.example.com", "https://tools.example.com"),
        ("https://tools.example.com/", "https://tools.example.com"),
        ("HTTPS://Tools.Example.COM:443", "https://tools.example.com"),
        ("https://tools.example.com:8443", "https://tools.example.com:8443"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://localhost:80", "http://localhost"),
        ('"http://[::1]:8080"', "http://[::1]:8080"),
    ],
)
def test_the_public_address_is_an_origin(tmp_path: Path, given: str, origin: str) -> None:
    assert load(written(tmp_path, given)).url == origin


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("http://tools.example.com", "must be https"),
        ("http://127.0.0.1.example.com", "must be https"),
        ("http://10.0.0.1:8080", "must be https"),
        ("https://tools.example.com/mcp", "takes only scheme, host, port"),
        ("https://tools.example.com?x=1", "takes only scheme, host, port"),
        ("https://tools.example.com?", "takes only scheme, host, port"),
        ('"https://tools.example.com#"', "takes only scheme, host, port"),
        ("https://user:pw@tools.example.com", "takes only scheme, host, port"),
        ("tools.example.com", "is not an address"),
        ("ftp://tools.example.com", "is not an address"),
        ("https://", "is not an address"),
        ('""', "is not an address"),
        ("https://tools.example.com:99999", "is not an address"),
        ("https://[fe80::1%25eth0]", "is not an address"),
        ("https://töols.example", "is not an address"),
        ('"https://tools.example.com\\n"', "is not an address"),
        ('"https://tools.example.com\\",evil=\\""', "is not an address"),
    ],
)
def test_anything_else_is_refused_at_its_line(tmp_path: Path, given: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(written(tmp_path, given))
    assert says in str(caught.value)
    assert "toolgen.yaml:4" in str(caught.value)
    assert "pw" not in str(caught.value)


def draining(root: Path, drain: str) -> Path:
    path = root / "toolgen.yaml"
    path.write_text(f"sources:\n  shop: {{sql: 'sqlite:///shop.db'}}\ngateway:\n  drain: {drain}\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(("given", "seconds"), [("1s", 1), ("30s", 30), ("2m", 120), ("1h", 3600), ("1500ms", 1.5)])
def test_the_time_to_stop_is_a_duration(tmp_path: Path, given: str, seconds: float) -> None:
    assert load(draining(tmp_path, given)).drain_s == seconds


def test_the_time_to_stop_is_half_a_minute_where_nothing_is_said(tmp_path: Path) -> None:
    assert load(written(tmp_path, "https://tools.example.com")).drain_s == 30


@pytest.mark.parametrize(("given", "seconds"), [("0s", 0), ("5s", 5), ("29s", 29), (None, None)])
def test_calls_are_taken_for_a_part_of_the_time_to_stop(tmp_path: Path, given: str | None, seconds: float) -> None:
    more = "" if given is None else f"\n  grace: {given}"
    assert load(draining(tmp_path, f"30s{more}")).grace_s == seconds


@pytest.mark.parametrize("given", ["30s", "1m", "'5'", "'-1s'", "''"])
def test_a_grace_that_leaves_no_time_is_refused_at_its_line(tmp_path: Path, given: str) -> None:
    with pytest.raises(ConfigError, match=r"grace:") as caught:
        load(draining(tmp_path, f"30s\n  grace: {given}"))
    assert "toolgen.yaml:5" in str(caught.value)


@pytest.mark.parametrize("given", ["0s", "999ms", "61m", "'30'", "'-1s'", "forever", "''"])
def test_any_other_time_to_stop_is_refused_at_its_line(tmp_path: Path, given: str) -> None:
    with pytest.raises(ConfigError, match=r"drain:") as caught:
        load(draining(tmp_path, given))
    assert "toolgen.yaml:4" in str(caught.value)


def trusting(root: Path, networks: str) -> Path:
    path = root / "toolgen.yaml"
    head = "sources:\n  shop: {sql: 'sqlite:///shop.db'}\ngateway:\n  trusted_proxies:\n"
    path.write_text(head + networks, encoding="utf-8")
    return path


def test_trusted_proxies_are_networks_and_nobody_by_default(tmp_path: Path) -> None:
    given = trusting(tmp_path, "    - 10.0.0.0/8\n    - 192.0.2.7\n    - fd00::/8\n")
    assert load(given).trusted_proxies == tuple(ip_network(text) for text in ("10.0.0.0/8", "192.0.2.7/32", "fd00::/8"))
    assert load(written(tmp_path, "https://tools.example.com")).trusted_proxies == ()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("0.0.0.0/0", "contains all addresses: any client could claim any address"),
        ('"::/0"', "contains all addresses"),
        ("10.0.0.1/8", "is not a network like 10.0.0.0/8"),
        ("proxy.example.com", "is not a network like 10.0.0.0/8"),
        ('""', "is not a network like 10.0.0.0/8"),
        ("10.0.0.0/33", "is not a network like 10.0.0.0/8"),
    ],
)
def test_any_other_proxy_is_refused_at_its_line(tmp_path: Path, given: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(trusting(tmp_path, f"    - 10.0.0.0/8\n    - {given}\n"))
    assert says in str(caught.value)
    assert "toolgen.yaml:6" in str(caught.value)


@pytest.mark.parametrize(
    ("given", "seconds"), [(None, None), ("0s", 0.0), ("500ms", 0.5), ("30s", 30.0), ("1h", 3600.0)]
)
def test_how_long_callers_wait_is_said_or_they_wait_to_the_end(
    tmp_path: Path, given: str | None, seconds: float | None
) -> None:
    more = "" if given is None else f"\n  pending_after: {given}"
    assert load(draining(tmp_path, f"30s{more}")).pending_after_s == seconds


@pytest.mark.parametrize("given", ["never", "-1s", "61m", "30", ""])
def test_what_is_no_time_to_wait_is_refused_at_its_line(tmp_path: Path, given: str) -> None:
    with pytest.raises(ConfigError, match=r"pending_after:") as caught:
        load(draining(tmp_path, f"30s\n  pending_after: {given!r}"))
    assert caught.value.where == "toolgen.yaml:5"
