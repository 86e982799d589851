"""Which credentials a tool is called with: alternatives that collide with themselves, and documents that say nothing about credentials."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.sources.openapi.readings import document, only, operation, read
from toolgen.sources.base import SourceConfig
from toolgen.verify import Proven
from toolgen.verify.source import prove_http_tools

SCHEMES: dict[str, Any] = {
    "oauth": {"type": "oauth2", "flows": {"implicit": {"authorizationUrl": "https://h.test/", "scopes": {"r": ""}}}},
    "code": {"type": "oauth2", "flows": {"authorizationCode": {"tokenUrl": "https://h.test/t", "scopes": {"r": ""}}}},
    "bearer": {"type": "http", "scheme": "bearer"},
    "basic": {"type": "http", "scheme": "basic"},
    "token": {"type": "apiKey", "in": "header", "name": "AUTHORIZATION"},
    "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "query": {"type": "apiKey", "in": "query", "name": "key"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": "key"},
    "cert": {"type": "mutualTLS"},
}
AUTHORIZATION = {"oauth", "code", "bearer", "basic", "token"}


def secured(*options: dict[str, list[str]], **more: Any) -> dict[str, Any]:
    return document({"/x": {"get": operation(security=list(options), **more)}}, components={"securitySchemes": SCHEMES})


def proven(folder: Path, written: dict[str, Any]) -> tuple[tuple[str, ...], ...]:
    reading = read(folder, written)
    tool, binding = only(reading)
    config = SourceConfig(name="t", kind="openapi", location=str(folder / "doc.json"))
    assert isinstance(prove_http_tools(config, reading.info.security_schemes, 4, "0")(tool), Proven)
    return binding.security


@pytest.mark.parametrize(("one", "other"), list(product(SCHEMES, SCHEMES)))
def test_an_alternative_that_collides_with_itself_is_either_of_them(one: str, other: str, tmp_path: Path) -> None:
    found = proven(tmp_path, secured({one: [], other: []}))
    if one == other:
        assert found == ((one,),)
    elif {one, other} <= AUTHORIZATION:
        assert found == ((one,), (other,))
    else:
        assert found == ((one, other),)


def test_every_choice_of_two_that_collide_is_an_alternative(tmp_path: Path) -> None:
    written = secured({"oauth": ["r"], "key": [], "bearer": []}, {"basic": []}, {"bearer": [], "key": []})
    assert proven(tmp_path, written) == (("oauth", "key"), ("bearer", "key"), ("basic",))
    binding = only(read(tmp_path, written))[1]
    assert binding.scopes == ({"oauth": ("r",), "key": ()}, {"bearer": (), "key": ()}, {"basic": ()})
