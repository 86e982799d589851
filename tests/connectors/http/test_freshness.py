"""What an answer says of its lifetime: it may shorten what was configured, whatever else it claims."""

from __future__ import annotations

import pytest

from toolgen.connectors.http.response import lifetime


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"cache-control": "public"}, None),
        ({"cache-control": "max-age=60"}, 60),
        ({"cache-control": 'MAX-AGE="60"'}, 60),
        ({"cache-control": "private, max-age=60"}, 60),
        ({"cache-control": "s-maxage=5, max-age=60"}, 60),
        ({"cache-control": "max-age=60", "age": "20"}, 40),
        ({"cache-control": "max-age=60", "age": "90"}, 0),
        ({"cache-control": "max-age=60", "age": "-5"}, 0),
        ({"cache-control": "no-store"}, 0),
        ({"cache-control": "max-age=60, no-cache"}, 0),
        ({"cache-control": 'no-cache="set-cookie", max-age=60'}, 0),
        ({"cache-control": "max-age=60, max-age=600"}, 0),
        ({"cache-control": "max-age=-1"}, 0),
        ({"cache-control": "max-age=1e9"}, 0),
        ({"cache-control": "max-age="}, 0),
        ({"cache-control": "max-age"}, 0),
        ({"cache-control": "max-age=" + "9" * 30}, 0),
        ({"cache-control": "max-age=١٢"}, 0),
        ({"cache-control": "a" * 2000}, 0),
        ({"cache-control": "stale-if-error=99999999"}, None),
        ({"vary": "*"}, 0),
        ({"vary": "accept"}, None),
    ],
)
def test_lifetimes(headers: dict[str, str], seconds: float | None) -> None:
    assert lifetime(headers) == seconds
