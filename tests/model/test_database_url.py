"""Where a database is: what is read of a URL, and everything that is refused without being quoted."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolgen.connectors.sql.engines import location_of
from toolgen.core.errors import ConfigError
from toolgen.model.database_url import FileLocation, Scheme, ServerLocation, parse_location


def test_files() -> None:
    assert location_of("sqlite:///specs/shop.db") == FileLocation(dialect="sqlite", path=Path("specs/shop.db"))
    assert location_of("duckdb:////srv/x.duckdb") == FileLocation(dialect="duckdb", path=Path("/srv/x.duckdb"))


def test_servers() -> None:
    assert location_of("postgresql://app@db.example/shop") == ServerLocation(
        dialect="postgres", host="db.example", port=5432, user="app", database="shop"
    )
    assert location_of("mariadb://a%40b@[::1]:3307/my%20shop?pool_size=9&connect_timeout=2") == ServerLocation(
        dialect="mysql", host="::1", port=3307, user="a@b", database="my shop", pool_size=9, connect_timeout_s=2
    )


def test_tls_and_sockets() -> None:
    found = location_of("mysql://app@db.example/shop?sslmode=verify-full&sslrootcert=/etc/ca.pem")
    assert isinstance(found, ServerLocation)
    assert (found.port, found.sslmode, dict(found.certificates)) == (
        3306,
        "verify-full",
        {"sslrootcert": "/etc/ca.pem"},
    )
    local = location_of("postgresql://app@/shop?socket=/run/postgresql")
    assert isinstance(local, ServerLocation)
    assert (local.host, local.socket) == ("", "/run/postgresql")


REFUSED = [
    "oracle://CNRY@db/x",
    "shop.db",
    "sqlite://shop.db",
    "duckdb:///",
    "postgresql://app:CNRY@db/shop",
    "postgresql://app@db",
    "postgresql://app@db/",
    "postgresql://app@db/a/b",
    "postgresql://db/shop",
    "postgresql:///shop",
    "postgresql://app@db:0/shop",
    "postgresql://app@db:99999/shop",
    "postgresql://app@db/shop#CNRY",
    "postgresql://app@db/shop?options=-c%20CNRY",
    "postgresql://app@db/shop?host=CNRY",
    "postgresql://app@db/shop?password=CNRY",
    "postgresql://app@db/shop?sslmode=CNRY",
    "postgresql://app@db/shop?sslmode=allow",
    "postgresql://app@db/shop?sslmode=require&sslmode=disable",
    "postgresql://app@db/shop?pool_size=0",
    "postgresql://app@db/shop?pool_size=1000",
    "postgresql://app@db/shop?connect_timeout=CNRY",
    "postgresql://app@db/shop?CNRY",
    "postgresql://app@db/shop?socket=/run/x",
    "postgresql://app@d\x00b/shop",
]


def test_a_scheme_has_options_that_no_other_takes() -> None:
    schemes = {"warehouse": Scheme("postgres", 443, ("role",)), "plain": Scheme("postgres", 443)}
    found = parse_location("warehouse://app@db.example/shop?role=READER&pool_size=2", schemes)
    assert isinstance(found, ServerLocation)
    assert (dict(found.own_options), found.pool_size) == ({"role": "READER"}, 2)
    with pytest.raises(ConfigError, match="'role'"):
        parse_location("plain://app@db.example/shop?role=READER", schemes)


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_location_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        location_of(text)
    assert "CNRY" not in str(caught.value).replace("'CNRY'", "")
