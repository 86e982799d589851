"""No name that an agent invents speaks for a bound, a named or a credential's own: in any place, to any service that reads names loosely.

The table is held against a real server behind a gateway with a policy, and what a dry run shows. `NAMES_CASES=100000` tries more names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toolgen
from tests.attacks.lenient import READERS, Pairs
from tests.connectors.http.bindings import binding, parameter
from tests.exhaustive import size
from tests.services.local import LocalServer, running
from toolgen.connectors.http.credentials import SourceCredentials
from toolgen.connectors.http.request_builder import HttpRequest, UnbindableError, bind
from toolgen.connectors.secrets import SecretReference, SecretResolver
from toolgen.core.errors import ToolgenError
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.manifest import SecurityScheme
from toolgen.model.tool import HttpBody, HttpPart

FORM = "application/x-www-form-urlencoded"
TEXT = {"type": "string"}
OPEN: dict[str, Any] = {"type": "object", "additionalProperties": True}
FILTER = {"type": "object", "properties": {"owner": TEXT, "status": TEXT}, "additionalProperties": True}


def _operation(name: str, *parameters: dict[str, Any], **content: Any) -> dict[str, Any]:
    body = {"requestBody": {"content": content["content"]}} if content else {}
    return {"operationId": name, "parameters": [*parameters], **body, "responses": {"200": {"description": "ok"}}}


LIMIT = {"name": "limit", "in": "query", "schema": {"type": "integer"}}
OWNER = {"name": "owner", "in": "query", "schema": TEXT}
DEEP = {"name": "filter", "in": "query", "style": "deepObject", "schema": FILTER}
OPTS = {"name": "opts", "in": "query", "schema": OPEN}
PREFS = {"name": "prefs", "in": "cookie", "style": "form", "explode": True, "schema": OPEN}
ID = {"name": "id", "in": "path", "required": True, "schema": TEXT}
FIELDS = {"type": "object", "properties": {"amount": {"type": "integer"}, "id": TEXT}, "additionalProperties": True}
API = {
    "openapi": "3.1.0",
    "info": {"title": "names", "version": "1"},
    "components": {
        "securitySchemes": {
            "key": {"type": "apiKey", "in": "query", "name": "api_key"},
            "session": {"type": "apiKey", "in": "cookie", "name": "session"},
        }
    },
    "security": [{"key": [], "session": []}],
    "paths": {
        "/search": {"get": _operation("search", LIMIT, OWNER, DEEP, OPTS, PREFS)},
        "/items/{id}": {"post": _operation("pay", ID, OWNER, content={FORM: {"schema": FIELDS}})},
        "/files/{id}": {"post": _operation("store", ID, OWNER, content={"multipart/form-data": {"schema": FIELDS}})},
        "/json/{id}": {"post": _operation("write", ID, OWNER, content={"application/json": {"schema": FIELDS}})},
        "/ask": {"get": _operation("ask", LIMIT, {**OWNER, "name": "_method"}, OPTS)},
    },
}
POLICY: dict[str, Any] = {
    "principals": {"bot": {"roles": ["bot"], "attributes": {"who": "me"}}},
    "rules": [
        {"id": "all", "to": ["bot"], "tools": ["api__*"], "effects": ["read", "write"], "verdict": "allow"},
        {"id": "owner", "to": ["bot"], "tools": ["api__search", "api__pay", "api__store", "api__write"], "verdict": "allow",
         "bind": {"owner": "principal.attributes.who"}},
        {"id": "filtered", "to": ["bot"], "tools": ["api__search"], "verdict": "allow",
         "bind": {"filter.owner": "principal.attributes.who"}},
    ],
    "egress": {"private_networks": "allow"},
}  # fmt: skip
SEARCH, PAY, STORE, WRITE, ASK = ("api__search", "api__pay", "api__store", "api__write", "api__ask")
ATTACKS: list[tuple[str, dict[str, Any]]] = [
    (SEARCH, {"opts": {"filter[owner]": "ceo"}}),
    (SEARCH, {"opts": {"filter.owner": "ceo"}}),
    (SEARCH, {"opts": {"filter": "ceo"}}),
    (SEARCH, {"opts": {"owner[]": "ceo"}}),
    (SEARCH, {"opts": {" owner": "ceo"}}),
    (SEARCH, {"opts": {"OWNER": "ceo"}}),
    (SEARCH, {"opts": {"limit\0": "1000"}}),
    (SEARCH, {"opts": {"limit[]": "1000"}, "limit": 5}),
    (SEARCH, {"opts": {" limit": "1000"}, "limit": 5}),
    (SEARCH, {"opts": {"%6cimit": "1000"}, "limit": 5}),
    (SEARCH, {"opts": {"x&limit": "1000"}, "limit": 5}),
    (SEARCH, {"opts": {"api_key[]": "mine"}}),
    (SEARCH, {"opts": {"apiKey": "mine"}}),
    (SEARCH, {"opts": {"session": "mine"}}),
    (SEARCH, {"opts": {"_method": "DELETE"}}),
    (SEARCH, {"opts": {"X-HTTP-Method-Override": "DELETE"}}),
    (SEARCH, {"opts": {"a": "1", "a[]": "2"}}),
    (SEARCH, {"filter": {"status": "open", "status[]": "any"}}),
    (SEARCH, {"filter": {"status": "open", "Status": "any"}}),
    (SEARCH, {"filter": {"x": {"y": "1", "y[]": "2"}}}),
    (SEARCH, {"filter": {"owner][": "ceo"}}),
    (SEARCH, {"prefs": {"Session": "mine"}}),
    (SEARCH, {"prefs": {"session[]": "mine"}}),
    (SEARCH, {"prefs": {"limit": "1000"}}),
    (PAY, {"id": "1", "body": {"amount": 5, "amount[]": 1000}}),
    (PAY, {"id": "1", "body": {"amount": 5, " Amount": 1000}}),
    (PAY, {"id": "1", "body": {"owner": "ceo"}}),
    (PAY, {"id": "1", "body": {"Id": "2"}}),
    (PAY, {"id": "1", "body": {"api_key": "mine"}}),
    (PAY, {"id": "1", "body": {"_method": "DELETE"}}),
    (PAY, {"id": "1", "body": {".method": "DELETE"}}),
    (STORE, {"id": "1", "body": {"owner[0]": "ceo"}}),
    (STORE, {"id": "1", "body": {"_method": "DELETE"}}),
    (WRITE, {"id": "1", "body": {"owner": "ceo"}}),
    (WRITE, {"id": "1", "body": {"_method": "DELETE"}}),
    (ASK, {"_method": "DELETE"}),
    (ASK, {"opts": {"method": "DELETE"}}),
]
HONEST: list[tuple[str, dict[str, Any], str]] = [
    (SEARCH, {"opts": {"colour": "red"}, "limit": 5}, "colour=red"),
    (SEARCH, {"filter": {"status": "open", "x": {"y": "1", "z": "2"}}}, "filter%5Bx%5D%5Bz%5D=2"),
    (SEARCH, {"opts": {"filters": "1", "limits": "2", "owner_id": "3"}}, "limits=2"),
    (SEARCH, {"prefs": {"theme": "dark"}}, "theme=dark"),
    (PAY, {"id": "1", "body": {"amount": 5, "id": "2", "note": "x"}}, "note=x"),
    (STORE, {"id": "1", "body": {"amount": 5, "note": "x"}}, 'name="note"'),
    (WRITE, {"id": "1", "body": {"amount": 5, "method": "card"}}, '"method":"card"'),
]


class Seen:
    """What reached the service."""

    def __init__(self) -> None:
        self.requests: list[str] = []


@contextmanager
def service() -> Iterator[tuple[Seen, str]]:
    seen = Seen()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
            seen.requests.append(f"{self.command} {self.path} {self.headers.get('cookie', '')} {body}")
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        do_GET = do_POST = _answer

        def log_message(self, *_: Any) -> None: ...

    server = LocalServer(("127.0.0.1", 0), Handler)
    with running(server):
        yield seen, server.url


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Seen, Path]]:
    with service() as (seen, url):
        root = tmp_path_factory.mktemp("names")
        (root / "policies").mkdir()
        (root / "api.json").write_text(json.dumps({**API, "servers": [{"url": url}]}))
        (root / "policies" / "policy.yaml").write_text(json.dumps(POLICY))
        auth = {"key": "${file:key}", "session": "${file:key}"}
        (root / "key").write_text("secret")
        sources = {"api": {"openapi": "api.json", "auth": auth}}
        (root / "toolgen.yaml").write_text(json.dumps({"sources": sources}))
        yield seen, root / "toolgen.yaml"


@pytest.fixture(autouse=True, scope="module")
def _there(made: tuple[Seen, Path]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made[1].parent)
        yield


async def answered(path: Path, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    async with Gateway.load(path) as gateway:
        return dict((await gateway.call(tool, arguments, principal=gateway.principal("bot"))).to_dict())


@pytest.mark.parametrize(("tool", "arguments"), ATTACKS, ids=repr)
async def test_an_invented_name_that_speaks_for_another_is_refused(
    made: tuple[Seen, Path], tool: str, arguments: dict[str, Any]
) -> None:
    seen, path = made
    before = len(seen.requests)
    envelope = await answered(path, tool, arguments)
    if tool == ASK and "_method" in arguments:  # the build left it out
        assert "method" not in seen.requests[-1]
        return
    assert envelope["status"] in {"refused", "error"}, seen.requests[-1]
    assert envelope["error"]["code"] in {"forbidden", "validation"}
    assert envelope["error"]["suggestion"]
    assert len(seen.requests) == before


@pytest.mark.parametrize(("tool", "arguments", "sent"), HONEST, ids=repr)
async def test_a_name_of_its_own_is_sent(
    made: tuple[Seen, Path], tool: str, arguments: dict[str, Any], sent: str
) -> None:
    seen, path = made
    assert (await answered(path, tool, arguments))["status"] == "ok"
    assert sent in seen.requests[-1]
    assert "owner" in seen.requests[-1]
    assert "secret" in seen.requests[-1]


@pytest.mark.parametrize(
    ("tool", "arguments"), [one for one in ATTACKS if "owner" not in str(one).casefold()], ids=repr
)
def test_a_dry_run_refuses_what_a_call_does(made: tuple[Seen, Path], tool: str, arguments: dict[str, Any]) -> None:
    manifest = toolgen.build(made[1].parent / "api.json")
    shown = toolgen.preview(manifest, tool, arguments)
    if tool == ASK and "_method" in arguments:
        assert "method" not in str(shown["url"])
    else:
        assert shown["error"]["code"] == "validation"


# Names drawn at random: whatever is sent, every reader finds under the owned names what it finds without the invented ones.

OWNED = (
    "limit",
    "tenant_id",
    "filter[owner]",
    "user.name",
    "X-Trace",
    "id",
    "api_key",
    "session",
    "access_token",
    "amount",
)
NAMED = {"limit": 5, "tenant": "acme", "owned": "me", "user": "ann", "id": "7", "trace": "t"}
SCHEMES = {
    "key": SecurityScheme(type="apiKey", in_="query", name="api_key"),
    "session": SecurityScheme(type="apiKey", in_="cookie", name="session"),
    "bearer": SecurityScheme(type="http", scheme="bearer"),
}
CREDENTIALS = SourceCredentials(
    schemes=SCHEMES,
    auth=dict.fromkeys(SCHEMES, SecretReference("literal", "secret")),
    secrets=SecretResolver({}),
)
PARAMETERS = (
    parameter("query", name="limit"),
    parameter("query", name="tenant_id", argument="tenant"),
    parameter("query", name="filter[owner]", argument="owned"),
    parameter("query", name="user.name", argument="user"),
    parameter("header", name="X-Trace", argument="trace"),
    parameter("path", name="id"),
)
HOLDERS = {
    "query": parameter("query", name="opts", argument="holder"),
    "deep": parameter("query", "deepObject", name="opts", argument="holder"),
    "querystring": parameter("querystring", name="opts", argument="holder", content_type=FORM),
    "cookie": parameter("cookie", name="opts", argument="holder"),
    "reserved": parameter("query", name="opts", argument="holder", allow_reserved=True),
    "matrix": parameter("path", "matrix", name="m", argument="holder", explode=True),
}
AMOUNT = {"amount": "amount"}
BODIES = {
    "form": HttpBody(media_type=FORM, argument="holder"),
    "multipart": HttpBody(media_type="multipart/form-data", argument="holder"),
    "field": HttpBody(media_type=FORM, properties={**AMOUNT, "holder": "more"}, parts={"more": HttpPart(style="form")}),
    "part": HttpBody(
        media_type="multipart/form-data",
        properties={**AMOUNT, "holder": "more"},
        parts={"more": HttpPart(style="deepObject", explode=True)},
    ),
}


def _respelt(name: str, how: int, where: int) -> str:
    """Another spelling of a name, or one beside it."""
    at = where % (len(name) + 1)
    around = name[:at], name[at:]
    return (
        f"{name}[]", f"{name}[0]", f" {name}", f"{name}\0x", name.upper(), name.replace("_", "."), name.replace("_", "-"),
        name.replace("_", ""), "%00".join((name, "x")), "".join(f"%{ord(one):02x}" for one in name), name.replace("[", "."),
        "".join(chr(ord(one) + 0xFEE0) if "!" <= one <= "~" else one for one in name), f"{name}=", f"x&{name}", f"[{name}",
        f"{name}:int", f"{name}][x", name.replace("]", ""), f"{around[0]}\u200b{around[1]}", f"{around[0]}[{around[1]}",
        f"{around[0]}\u0301{around[1]}", f"{around[0]} {around[1]}", name.replace("[", "][").title(), name.partition("[")[0],
        f"{name}]", f"%25{ord(name[0]):02x}{name[1:]}", f"x_{name}", f"{name}s",
    )[how]  # fmt: skip


_SPELT = st.builds(_respelt, st.sampled_from(OWNED), st.integers(0, 27), st.integers(0, 30))
NAMES = st.one_of(
    _SPELT, st.builds(_respelt, _SPELT.filter(bool), st.integers(0, 27), st.integers(0, 30)), st.text(max_size=12)
)
HELD = st.dictionaries(NAMES, st.one_of(st.just("evil"), st.just(["evil", "evil"])), min_size=1, max_size=3)


def _bound(place: str, held: Mapping[str, Any]) -> HttpRequest:
    """The request with what an agent made up, as it would be sent but for its credentials. Raises where it is refused."""
    more = (HOLDERS[place],) if place in HOLDERS else ()
    path = "/{id}/e{m}" if place == "matrix" else "/{id}/e"
    bound = binding(*PARAMETERS, *more, body=BODIES.get(place), path=path, method="POST", security=())
    amount = {"amount": "5"} if place in {"field", "part"} else {}
    request = bind(bound, {**NAMED, **amount, "holder": held})
    CREDENTIALS.mask(request, ())  # raises for names of credentials, whether they are sent or not
    return request


def _pairs(request: HttpRequest) -> Pairs:
    """Every name and value that the query, a path's parameters, a cookie or a form has."""
    url = urlsplit(request.url)
    texts = [*url.query.split("&"), *url.path.split(";")[1:]]
    headers = dict(request.headers)
    texts += headers.get("Cookie", "").split("; ")
    kind, body = headers.get("Content-Type", ""), (request.body or b"").decode()
    if kind == FORM:
        texts += body.split("&")
    found = [(name, value) for name, _, value in (text.partition("=") for text in texts) if name]
    for part in body.split("--" + kind.partition("boundary=")[2])[1:-1] if kind.startswith("multipart/") else ():
        head, _, value = part.partition("\r\n\r\n")
        name = head.partition('; name="')[2].partition('"')[0]
        raw = name.encode().replace(b"%", b"%25") if "%22" not in name else name.encode()
        quoted = "".join(chr(byte) if chr(byte).isalnum() or byte == ord("%") else f"%{byte:02X}" for byte in raw)
        found.append((quoted, value.removesuffix("\r\n")))
    return found


def _checked(place: str, held: Mapping[str, Any]) -> bool:
    """Whether it was sent; every reader then finds what it finds without."""
    try:
        sent = _pairs(_bound(place, held))
    except ToolgenError:
        return False
    plain = _pairs(_bound(place, {"innocent": "x"}))
    owned = [name for name in OWNED if name != "amount" or place in {"field", "part"}]
    for kind, read in READERS.items():
        for name in owned:
            assert read(sent, name) == read(plain, name), (kind, name, place, held)
        assert read(sent, "_method") is None, (kind, place, held)
    return True


@given(place=st.sampled_from([*HOLDERS, *BODIES]), held=HELD)
@settings(max_examples=size("NAMES_CASES", 200, 10_000))
def test_no_reader_takes_an_invented_name_for_an_owned_one(place: str, held: dict[str, Any]) -> None:
    _checked(place, held)


@pytest.mark.parametrize("place", [*HOLDERS, *BODIES])
def test_the_readers_would_notice_and_honest_names_are_sent(place: str) -> None:
    assert _checked(place, {"colour": "red", "x y": "1", "größe": "2", "a.b": "3"})
    with pytest.raises(UnbindableError):
        _bound(place, {"limit[]": "9", "Limit": "8", "limit": "7"})


def test_each_reader_is_fooled_by_a_name_of_its_own() -> None:
    fooling = {
        "php": "tenant.id", "rack": "[tenant_id", "qs": "tenant_id[]", "express": "Tenant_ID", "django": "tenant_id",
        "servlet": "tenant_id", "asp.net": "TENANT_ID[]", "grpc": "tenantId", "cgi": "tenant-id", "zope": "tenant_id:int",
        "c": "tenant_id\0", "twice": "tenant%5fid", "best fit": "\uff54enant_id",
    }  # fmt: skip
    for kind, name in fooling.items():
        encoded = "".join(f"%{byte:02x}" for byte in name.encode())
        assert READERS[kind]([(encoded, "evil")], "tenant_id"), kind
        with pytest.raises(UnbindableError):
            _bound("query", {name: "evil"})


@pytest.mark.parametrize("spelt", ["{0}[]", " {0}", "{0}\u0000x", "{0}.", "%{1:x}{2}", "_{0}", "{3}"])
@pytest.mark.parametrize(
    ("tool", "key", "described"),
    [("pay", "body", "amount"), ("store", "body", "amount"), ("search", "filter", "status")],
)
def test_a_name_is_not_invented_beside_a_described_one_that_is_not_sent(
    tmp_path: Path, tool: str, key: str, described: str, spelt: str
) -> None:
    (tmp_path / "api.json").write_text(json.dumps(API), encoding="utf-8")
    manifest = toolgen.build({"api": {"openapi": str(tmp_path / "api.json"), "server": "http://127.0.0.1:9"}})
    name = spelt.format(described, ord(described[0]), described[1:], described.title())
    shown = toolgen.preview(manifest, f"api__{tool}", {"id": "1", key: {name: "5"}})
    assert shown["status"] == "refused", shown
    assert "another's to some services" in shown["error"]["message"]
