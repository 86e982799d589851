"""Which credentials a tool is called with: alternatives that collide with themselves, and documents that say nothing about credentials."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.openapi.readings import document, only, operation, read
from toolgen.config.settings import load
from toolgen.connectors.http.credentials import SourceCredentials
from toolgen.connectors.http.request_builder import bind
from toolgen.connectors.openapi.proof.prover import prove_http_tools
from toolgen.connectors.secrets import SecretResolver
from toolgen.connectors.source import SourceConfig, SourceSettings
from toolgen.core.errors import ConfigError
from toolgen.generator.build import build_sources
from toolgen.model.auth_schemes import with_headers
from toolgen.model.manifest import Manifest
from toolgen.model.tool import HttpBinding, Tool
from toolgen.quality.verify import ProvenTool

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
    assert isinstance(prove_http_tools(config, reading.info.security_schemes, 4, "0")(tool), ProvenTool)
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


BARE = document({"/x": {"get": operation(), "post": operation(security=[])}})
AUTHORIZED = {"name": "authorization", "in": "header", "required": True, "schema": {"type": "string"}}


def settings(folder: Path, auth: Any, written: dict[str, Any], **more: Any) -> Mapping[str, SourceSettings]:
    (folder / "api.json").write_text(json.dumps(written))
    (folder / "toolgen.yaml").write_text(json.dumps({"sources": {"t": {"openapi": "api.json", "auth": auth, **more}}}))
    return load(str(folder / "toolgen.yaml")).sources


WAYS: dict[str, tuple[Any, dict[str, str]]] = {
    "bearer": ({"bearer": "${env:T}"}, {"Authorization": "Bearer s3cret"}),
    "basic": ({"basic": {"username": "ann", "password": "${env:T}"}}, {"Authorization": "Basic YW5uOnMzY3JldA=="}),
    "api_key": ({"api_key": {"name": "X-Api", "in": "header", "value": "${env:T}"}}, {"X-Api": "s3cret"}),
    "a plain api_key": ({"api_key": "${env:T}"}, {"X-API-Key": "s3cret"}),
    "a cookie": ({"api_key": {"name": "sid", "in": "cookie", "value": "${env:T}"}}, {"Cookie": "sid=s3cret"}),
    "headers": ({"headers": {"X-A": "${env:T}", "X-B": "${env:T}"}}, {"X-A": "s3cret", "X-B": "s3cret"}),
    "two": (
        {"bearer": "${env:T}", "headers": {"X-B": "${env:T}"}},
        {"Authorization": "Bearer s3cret", "X-B": "s3cret"},
    ),
}


@pytest.mark.parametrize("way", WAYS)
async def test_a_description_without_schemes_is_given_credentials(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("T", "s3cret")
    auth, headers = WAYS[way]
    sources = settings(tmp_path, auth, BARE)
    manifest = build_sources(sources).manifest
    get, post = (next(one for one in manifest.tools.values() if one.effect == effect) for effect in ("read", "write"))
    sent = await signed(manifest, sources, get)
    assert headers.items() <= sent.items()
    assert "s3cret" not in json.dumps(manifest.to_dict())
    assert isinstance(post.binding, HttpBinding)
    assert post.binding.security == ()  # it says that it needs none
    prove = prove_http_tools(sources["t"].config, manifest.sources["t"].security_schemes, 4, "0")
    assert all(isinstance(prove(tool), ProvenTool) for tool in (get, post))


async def signed(manifest: Manifest, sources: Mapping[str, SourceSettings], tool: Tool) -> dict[str, str]:
    assert isinstance(tool.binding, HttpBinding)
    schemes, auth = with_headers(manifest.sources["t"].security_schemes, sources["t"].auth)
    credentials = SourceCredentials(schemes=schemes, auth=auth, secrets=SecretResolver())
    request = bind(tool.binding, {}, tool.input_schema)
    return dict((await credentials.sign(request, credentials.choose(tool.binding.security))).request.headers)


def test_a_key_in_the_query_is_no_argument_where_the_source_is_given_it(tmp_path: Path) -> None:
    token = {"name": "token", "in": "query", "required": True, "schema": {"type": "string"}}
    auth = {"api_key": {"name": "token", "in": "query", "value": "${env:T}"}}
    sources = settings(tmp_path, auth, document({"/x": {"get": operation(parameters=[token])}}))
    (tool,) = build_sources(sources).manifest.tools.values()
    assert tool.input_schema == {"type": "object", "properties": {}}


@pytest.mark.parametrize("secured", [False, True])
def test_a_required_authorization_header_is_filled_by_it(secured: bool, tmp_path: Path) -> None:
    written = document(
        {"/x": {"get": operation(parameters=[AUTHORIZED])}, "/y": {"get": operation(operationId="other")}}
    )
    if secured:
        written |= {"components": {"securitySchemes": {"key": SCHEMES["key"]}}}
        written["paths"]["/y"]["get"]["security"] = [{"key": []}]
    without = build_sources(settings(tmp_path, {}, written)).manifest
    assert "gateway_header" in {problem.code for problem in without.problems}
    manifest = build_sources(settings(tmp_path, {"bearer": "${env:T}"}, written)).manifest
    assert [problem.code for problem in manifest.problems if problem.level != "info"] == []
    assert {
        name: tool.binding.security for name, tool in manifest.tools.items() if isinstance(tool.binding, HttpBinding)
    } == {
        "t__do_it": (("bearer",),),
        "t__other": (("key",),) if secured else (("bearer",),),
    }


def test_a_required_authorization_header_is_filled_by_a_scheme_of_the_description(tmp_path: Path) -> None:
    """Also where its requirement does not name it: any of those that send the header."""
    assert proven(tmp_path, secured(parameters=[AUTHORIZED])) == tuple(
        (name,) for name in SCHEMES if name in AUTHORIZATION
    )
    asked = [{"key": []}, {"bearer": []}]
    found = proven(tmp_path, secured(*asked, parameters=[AUTHORIZED]))
    assert found == (*(("key", name) for name in SCHEMES if name in AUTHORIZATION), ("bearer",))


def test_a_scheme_that_is_not_described_can_be_given(tmp_path: Path) -> None:
    key = {"securitySchemes": {"key": SCHEMES["key"]}}
    written = document({"/x": {"get": operation(security=[{"gone": []}])}}, components=key)
    without = build_sources(settings(tmp_path, {}, written)).manifest
    assert {problem.code for problem in without.problems} == {"uncallable", "unknown_scheme"}
    auth = {"gone": {"name": "X-Gone", "in": "header", "value": "${env:T}"}}
    manifest = build_sources(settings(tmp_path, auth, written)).manifest
    assert manifest.problems == ()
    assert manifest.sources["t"].security_schemes["gone"].name == "X-Gone"
    with pytest.raises(ConfigError, match="lost"):
        build_sources(settings(tmp_path, {**auth, "lost": auth["gone"]}, written))


REFUSED: dict[str, tuple[Any, str]] = {
    "no scheme of the document": ({"bearer": "${env:T}"}, "it has its own security schemes: key"),
    "a misspelt scheme": ({"kee": "${env:T}"}, "did you mean 'key'"),
    "another form": ({"key": {"username": "a", "password": "${env:T}"}}, "takes a value"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_build_checks_credentials_against_the_description(case: str, tmp_path: Path) -> None:
    auth, said = REFUSED[case]
    key = {"securitySchemes": {"key": SCHEMES["key"]}}
    written = document({"/x": {"get": operation(security=[{"key": []}])}}, components=key)
    with pytest.raises(ConfigError) as caught:
        build_sources(settings(tmp_path, auth, written))
    assert said in str(caught.value)


def test_an_unknown_way_says_which_there_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="bearer, basic, api_key or headers"):
        build_sources(settings(tmp_path, {"token": "${env:T}"}, BARE))


@pytest.mark.parametrize(
    ("auth", "said"),
    [
        ({"api_key": {"name": "Host", "in": "header", "value": "${env:T}"}}, "belongs to the gateway"),
        ({"api_key": {"name": "a b", "in": "header", "value": "${env:T}"}}, "is not the name of a header"),
        ({"api_key": {"name": "a", "in": "body", "value": "${env:T}"}}, "in: takes header, query, cookie"),
        ({"api_key": {"name": "a", "in": "query"}}, "does not belong here"),
        ({"api_key": {"name": "a", "in": "query", "valeu": "${env:T}"}}, "does not belong here"),
        ({"headers": {"Content-Length": "${env:T}"}}, "belongs to the gateway"),
        ({"headers": {"Authorization": "${env:T}"}, "bearer": "${env:T}"}, "is already sent by bearer"),
        ({"headers": "x"}, None),
    ],
)
def test_credentials_that_could_not_be_sent_are_refused_with_their_line(auth: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        build_sources(settings(tmp_path, auth, BARE))
    assert "toolgen.yaml:1" in str(caught.value.where) or said is None
