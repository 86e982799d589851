"""Upstream credentials through the whole gateway: every scheme, every provider and every caller, and that none of it is ever seen."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import copy
import gc
import hashlib
import json
import logging
import re
import threading
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.frontends.console.people import form_token
from tests.gateway.clients import bearer
from tests.gateway.governed import PRINCIPALS
from tests.gateway.issuer import AUDIENCE, ISSUER, PRIVATE, jwk, token
from tests.projects import audit_entries
from tests.services.authorization import Answered, Asked, Service, serving
from tests.services.authorization import token as issued
from toolgen.core.errors import ConfigError, PolicyError
from toolgen.frontends.console.app import console_of
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.call import Principal
from toolgen.model.result import Envelope, Error

_RITA = {"api_key": "sha256:" + hashlib.sha256(b"key-of-rita").hexdigest()}
SCHEMES: dict[str, Any] = {
    "header": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "query": {"type": "apiKey", "in": "query", "name": "api_key"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": "sid"},
    "basic": {"type": "http", "scheme": "basic"},
    "bearer": {"type": "http", "scheme": "bearer"},
    "client": {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "/token", "scopes": {"read": ""}}}},
    "refresh": {"type": "oauth2", "flows": {"authorizationCode": {"authorizationUrl": "/a", "tokenUrl": "/token", "scopes": {}}}},
    "exchange": {"type": "openIdConnect", "openIdConnectUrl": "https://login.example/x"},
    "amazon": {"type": "apiKey", "in": "header", "name": "Authorization"},
    "unset": {"type": "http", "scheme": "bearer"},
}  # fmt: skip
SECRETS = {
    "HEADER": "canary-header-/+=1",
    "QUERY": "canary query&é=2",
    "COOKIE": "canary-cookie-3",
    "PASSWORD": "canary:pass wörd/4",
    "BEARER": "canary-bearer-5",
    "CLIENT_SECRET": "canary-client-secret-6/+é",
    "REFRESH": "canary-refresh-7",
    "AWS_SECRET": "canary-aws-secret-8",
    "AWS_SESSION": "canary-aws-session-9",
    "VIP": "canary-vip-10",
}
AUTH: dict[str, Any] = {
    "header": "${env:HEADER}",
    "query": "${env:QUERY}",
    "cookie": "${file:COOKIE_FILE}",
    "basic": {"username": "shop", "password": "${env:PASSWORD}"},
    "bearer": {"token": "${vault:secret/api#bearer}"},
    "client": {"client_id": "shop", "client_secret": "${env:CLIENT_SECRET}", "scopes": ["read"]},
    "refresh": {"client_id": "shop", "refresh_token": "${env:REFRESH}"},
    "exchange": {
        "client_id": "shop",
        "client_secret": "${env:CLIENT_SECRET}",
        "subject_token": "principal",
        "token_url": "SERVER/token",
    },
    "amazon": {
        "access_key_id": "AKIDEXAMPLE",
        "secret_access_key": "${env:AWS_SECRET}",
        "session_token": "${env:AWS_SESSION}",
        "region": "eu-west-1",
        "service": "execute-api",
    },
}
SECURITY: dict[str, Any] = {
    **{name: [{name: []}] for name in SCHEMES},
    "both": [{"header": [], "bearer": []}],
    "either": [{"unset": []}, {"header": [], "unset": []}, {"query": []}, {"bearer": []}],
    "optional": [{}, {"unset": []}],
}


def description() -> dict[str, Any]:
    paths = {
        f"/s/{name}": {
            "get": {
                "operationId": f"read_{name}",
                "summary": f"read {name}",
                "parameters": [{"name": "status", "in": "query", "schema": {"type": "integer"}}],
                "responses": {"200": {"description": "ok"}},
                "security": security,
            }
        }
        for name, security in SECURITY.items()
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "t", "version": "1"},
        "paths": paths,
        "components": {"securitySchemes": copy.deepcopy(SCHEMES)},
    }


# What holds secrets for longer than a request does.
KEEPERS = (
    "toolgen.connectors.http.connector",
    "toolgen.connectors.http.credentials",
    "toolgen.connectors.http.credentials",
    "toolgen.connectors.http.oauth",
    "toolgen.connectors.http.outbound.request",
    "toolgen.connectors.secrets",
    "toolgen.connectors.secrets",
    "toolgen.model",
)


class Api:
    """The API, its token endpoint and its Vault. What it is shown it says back, in every way a service could."""

    def __init__(self) -> None:
        self.given: list[str] = []
        self.refused: set[str] = set()
        self.lock = threading.Lock()

    def __call__(self, asked: Asked) -> Answered:
        if asked.path == "/token":
            return self._token(asked)
        if asked.path.startswith("/v1/secret/data/api"):
            return Answered.json(data={"data": {"bearer": SECRETS["BEARER"]}})
        shown = asked.headers.get("Authorization", "")
        if shown.removeprefix("Bearer ") in self.refused:
            return Answered.json(401, detail=f"{shown} is over")
        said = [*asked.headers.values(), asked.path]
        encoded = [base64.b64encode(one.encode()).decode() for one in said]
        body = {
            "plain": said,
            "encoded": encoded,
            "percent": [quote(one, safe="") for one in said],
            "detail": " ".join(said),
        }
        status = 422 if "status=422" in asked.path else 200
        return Answered(status, json.dumps(body).encode(), {"Content-Type": "application/json"})

    def _token(self, asked: Asked) -> Answered:
        with self.lock:
            kind = asked.form["grant_type"].rpartition(":")[2]
            self.given.append(f"canary-{kind}-{len(self.given)}")
            rotated = {"refresh_token": f"canary-rotated-{len(self.given)}"} if kind == "refresh_token" else {}
            answered = issued(self.given[-1], **rotated)
            said = {"X-Echo": f"{asked.headers.get('Authorization')} {self.given[-1]} {quote(asked.body.decode())}"}
            return Answered(answered.status, answered.body, {**answered.headers, **said})


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def service(api: Api) -> Iterator[Service]:
    with serving(api) as running:
        yield running


def whole(**more: Any) -> dict[str, Any]:
    shared = {"audience": AUDIENCE, "jwks": "../keys.json"}
    everybody = ["bot", "user", "staff", "vip"]
    return {
        "principals": {**PRINCIPALS, "vip": {"roles": ["vip"]}, "rita": {**_RITA, "roles": ["bot", "reviewer"]}},
        "issuers": {"staff": {"jwt": {"issuer": ISSUER, **shared}, "roles": ["staff"]}},
        "rules": [{"id": "all", "to": everybody, "tools": ["api__*"], "verdict": "allow"}],
        "egress": {"private_networks": "allow"},
        **more,
    }


def project(
    root: Path, service: Service, policy: dict[str, Any] | None = None, auth: dict[str, Any] | None = None
) -> Path:
    (root / "specs").mkdir(parents=True, exist_ok=True)
    (root / "policies").mkdir(exist_ok=True)
    (root / "specs" / "api.json").write_text(json.dumps(description()), encoding="utf-8")
    (root / "keys.json").write_text(json.dumps({"keys": [jwk(name) for name in PRIVATE]}), encoding="utf-8")
    (root / "policies" / "policy.yaml").write_text(json.dumps(policy or whole()), encoding="utf-8")
    (root.parent / "cookie").write_text(SECRETS["COOKIE"], encoding="utf-8")
    written = json.dumps(AUTH if auth is None else auth).replace("SERVER", service.origin)
    written = written.replace("COOKIE_FILE", str(root.parent / "cookie"))
    source = {"openapi": "specs/api.json", "server": service.origin, "auth": json.loads(written)}
    (root / "toolgen.yaml").write_text(json.dumps({"sources": {"api": source}}), encoding="utf-8")
    return root / "toolgen.yaml"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, service: Service) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("VAULT_ADDR", service.origin)
    monkeypatch.setenv("VAULT_TOKEN", "canary-vault-token")


@contextlib.asynccontextmanager
async def calling(path: Path) -> Any:
    async with Gateway.load(path) as gateway:

        async def call(name: str, who: Principal | str = "bot", **arguments: Any) -> Envelope:
            return await gateway.call(f"api__read_{name}", arguments, principal=who)

        yield gateway, call


def shown(service: Service, name: str) -> dict[str, str]:
    found = [asked for asked in service.asked if asked.path.startswith(f"/s/{name}")][-1]
    return {**found.headers, "path": found.path}


async def user(gateway: Gateway, text: str) -> Principal:
    found = await gateway.callers.authenticate(text)
    assert isinstance(found, Principal), found
    return found


async def test_every_scheme_is_shown_where_it_belongs(tmp_path: Path, service: Service) -> None:
    async with calling(project(tmp_path / "p", service)) as (gateway, call):
        ann = await user(gateway, token())
        for name in SECURITY:
            envelope = await call(name, ann)
            expected = "error" if name == "unset" else "ok"
            assert envelope.status == expected, (name, envelope)
    assert shown(service, "header")["X-Key"] == SECRETS["HEADER"]
    assert shown(service, "query")["path"] == f"/s/query?api_key={quote(SECRETS['QUERY'], safe='')}"
    assert shown(service, "cookie")["Cookie"] == f"sid={SECRETS['COOKIE']}"
    basic = base64.b64encode(f"shop:{SECRETS['PASSWORD']}".encode()).decode()
    assert shown(service, "basic")["Authorization"] == f"Basic {basic}"
    assert shown(service, "bearer")["Authorization"] == f"Bearer {SECRETS['BEARER']}"
    assert shown(service, "client")["Authorization"].startswith("Bearer canary-client_credentials-")
    assert shown(service, "refresh")["Authorization"].startswith("Bearer canary-refresh_token-")
    assert shown(service, "exchange")["Authorization"].startswith("Bearer canary-token-exchange-")
    assert shown(service, "amazon")["Authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
    assert shown(service, "both").keys() >= {"X-Key", "Authorization"}
    assert "api_key=" in shown(service, "either")["path"]
    assert "Authorization" not in shown(service, "optional")


async def shown_to_people(gateway: Gateway) -> list[str]:
    """What Prometheus reads, and every page of the console for somebody who may see all, each call's own among them."""
    app = App(gateway)
    app.open_console(lambda authentication: console_of(gateway, authentication))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8080") as http:
        pages = [await http.get("/metrics"), await http.get("/openapi.json", headers=bearer("key-of-rita"))]
        token = form_token((await http.get("/console/sign-in")).text)
        await http.post("/console/sign-in", data={"credential": "key-of-rita", "form_token": token})
        seen, left = set[str](), ["/console/overview", "/console/live"]
        while left:
            page = left.pop()
            if page in seen:
                continue
            seen.add(page)
            pages.append(await http.get(page))
            links = (unescape(link) for link in re.findall(r'href="(/console/[^"#]+)"', pages[-1].text))
            left += [link for link in links if "/static/" not in link and "sign-out" not in link and len(seen) < 150]
    assert {page.status_code for page in pages} == {200}, [page.url for page in pages if page.status_code != 200]
    assert sum("/console/calls/" in page for page in seen) > 20
    return [page.text for page in pages]


async def test_no_secret_is_ever_seen(
    tmp_path: Path, service: Service, api: Api, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Everything that is written, said, logged or kept is searched for every secret and every token, in every form."""
    caplog.set_level(logging.DEBUG)
    said: list[object] = []
    caller = token()
    assigned = {"to": ["vip"], "source": "api", "use": {"bearer": "${env:VIP}"}}
    path = project(tmp_path / "p", service, whole(credentials=[assigned]))

    async with calling(path) as (gateway, call):
        ann = await user(gateway, caller)
        said.extend([repr(ann), str(ann)])
        for name in SECURITY:
            for status in (200, 422):
                envelope = await call(name, ann, status=status)
                said.extend([envelope.to_dict(), repr(envelope)])
            said.append((await gateway.preview(f"api__read_{name}", {}, principal=ann)).to_dict())
        said.append((await call("bearer", "vip")).to_dict())
        api.refused.update(api.given)
        said.append((await call("client")).to_dict())
        api.refused.update(api.given)
        said.append((await call("client")).to_dict())
        said.extend([repr(gateway.settings), repr(gateway.policy), gateway.manifest.to_dict(), repr(vars(gateway))])
        said.extend(audit_entries(gateway, limit=1000))
        said.extend(await shown_to_people(gateway))
        alive = [one for one in gc.get_objects() if str(type(one).__module__).startswith(KEEPERS)]
        said.extend(repr(one) for one in alive)
        assert len(alive) > 20
    assert len(api.given) >= 4
    rotated = [f"canary-rotated-{number}" for number in range(1, len(api.given) + 1)]
    sent = [*SECRETS.values(), "canary-vault-token", *api.given, *rotated, caller]
    out = capfd.readouterr()
    texts = [json.dumps(said, default=repr, ensure_ascii=False), json.dumps(said, default=repr), caplog.text, *out]
    files = [item.read_bytes() for item in (tmp_path / "p").rglob("*") if item.is_file()]
    for secret in sent:
        raw = secret.encode()
        forms = {secret, json.dumps(secret)[1:-1], quote(secret, safe=""), base64.b64encode(raw).decode().rstrip("=")}
        for form in forms:
            assert not [text[max(0, text.find(form) - 300) :][:400] for text in texts if form in text], form
            assert not any(form.encode() in file for file in files), form


@pytest.mark.parametrize("name", ["client", "refresh", "exchange"])
async def test_a_token_that_is_not_accepted_is_replaced_once(
    tmp_path: Path, service: Service, api: Api, name: str
) -> None:
    async with calling(project(tmp_path / "p", service)) as (gateway, call):
        ann = await user(gateway, token())
        assert (await call(name, ann)).status == "ok"
        api.refused.update(api.given)
        envelopes = await asyncio.gather(*(call(name, ann) for _ in range(20)))
        assert {envelope.status for envelope in envelopes} == {"ok"}
        assert len(api.given) == 2


async def test_a_service_that_accepts_no_token_is_not_asked_for_ever(
    tmp_path: Path, service: Service, api: Api
) -> None:
    api.refused = type("Everything", (set,), {"__contains__": lambda *_: True})()

    async with calling(project(tmp_path / "p", service)) as (_, call):
        for _ in range(10):
            envelope = await call("client")
            assert envelope.error is not None
            assert envelope.error.code == "upstream_error"
    assert len(api.given) == 2
    assert len([asked for asked in service.asked if asked.path.startswith("/s/")]) == 11


async def test_callers_are_never_given_each_others_tokens(tmp_path: Path, service: Service, api: Api) -> None:
    async with calling(project(tmp_path / "p", service)) as (gateway, call):
        people = [await user(gateway, token(sub=f"user-{number}")) for number in range(8)]
        assert len({one.id for one in people}) == 8
        results = await asyncio.gather(*(call("exchange", one) for one in people for _ in range(4)))
        assert {one.status for one in results} == {"ok"}
    assert len(api.given) == 8
    sent = [asked.headers["Authorization"] for asked in service.asked if asked.path.startswith("/s/exchange")]
    assert sorted(sent.count(one) for one in set(sent)) == [4] * 8


@pytest.mark.parametrize("who", ["bot", "ann"])
async def test_a_caller_without_a_token_is_refused_before_anything_is_sent(
    tmp_path: Path, service: Service, who: str
) -> None:
    async with calling(project(tmp_path / "p", service)) as (gateway, call):
        by_key = await gateway.callers.authenticate("key-of-bot")
        for caller in (who, by_key):
            envelope = await call("exchange", caller)
            assert envelope.error is not None
            assert envelope.error.code == "forbidden"
    assert not service.asked


async def test_an_agent_that_acts_for_a_user_is_given_the_users_token_and_never_its_own(
    tmp_path: Path, service: Service
) -> None:
    bot = {**PRINCIPALS["bot"], "acts_for": ["ann", "staff:*"]}
    policy = whole()
    policy["principals"] = {**policy["principals"], "bot": bot}

    async with calling(project(tmp_path / "p", service, policy)) as (gateway, call):
        agent, person = await user(gateway, "key-of-bot"), await user(gateway, token(sub="person"))
        for_person = gateway.callers.acting_for(agent, person)
        assert for_person is not None
        assert (await call("exchange", for_person)).status == "ok"
        for_ann = gateway.callers.acting_for(agent, "ann")
        assert for_ann is not None
        envelope = await call("exchange", for_ann)
        assert envelope.error is not None
        assert envelope.error.code == "forbidden"
    (asked,) = [asked for asked in service.asked if asked.path == "/token"]
    assert json.loads(base64.urlsafe_b64decode(asked.form["subject_token"].split(".")[1] + "=="))["sub"] == "person"


def asking() -> dict[str, Any]:
    """A policy under which lena is asked about calls that exchange a token."""
    policy = whole()
    policy["principals"]["lena"] = {**_RITA, "api_key": "sha256:" + "0" * 64, "roles": ["lead"]}
    policy["approvals"] = {"approvers": ["lead"], "expires": "1h"}
    asked = {**policy["rules"][0], "tools": ["api__read_exchange"], "verdict": "ask"}
    allowed = {"id": "free", "to": ["staff"], "tools": ["api__read_client"], "verdict": "allow"}
    return {**policy, "rules": [asked, allowed]}


async def test_nobody_is_asked_about_a_call_that_could_not_be_made_afterwards(tmp_path: Path, service: Service) -> None:
    async with calling(project(tmp_path / "p", service, asking())) as (gateway, call):
        for who in (await user(gateway, token(sub="ann")), gateway.principal("staff:ann", claims={}), "bot"):
            rehearsed = await gateway.preview("api__read_exchange", {}, principal=who)
            for envelope in (await call("exchange", who), rehearsed):
                assert envelope.error is not None
                assert (envelope.status, envelope.error.code) == ("refused", "forbidden")
                assert "without approval" in (envelope.error.suggestion or "")
        assert await gateway.approvals.answerable(gateway.principal("lena")) == ()
    assert service.asked == []


async def test_somebody_is_asked_where_the_caller_has_a_credential_of_the_systems_own(
    tmp_path: Path, service: Service
) -> None:
    given = {"to": ["staff"], "source": "api", "use": {"exchange": {"token": "${env:VIP}"}}}
    path = project(tmp_path / "p", service, {**asking(), "credentials": [given]})
    async with calling(path) as (gateway, call):
        assert (await call("exchange", await user(gateway, token()))).status == "pending"
        envelope = await call("exchange", "bot")  # who is not given it
        assert envelope.status == "refused"


@pytest.mark.parametrize("others", [False, True])
async def test_a_call_that_waited_for_a_person_is_made_with_nobodys_token(
    tmp_path: Path, service: Service, others: bool
) -> None:
    """Neither with its caller's, which may have ended and is kept nowhere, nor with another that is at hand.

    Tokens are exchanged only since it was asked for; otherwise nobody would have been asked.
    """
    before = {name: written for name, written in AUTH.items() if name != "exchange"}

    async def ask() -> str:
        async with calling(project(tmp_path / "p", service, asking(), before)) as (gateway, call):
            waiting = await call("exchange", await user(gateway, token(sub="ann")))
            assert waiting.status == "pending"
            return str(waiting.call_id)

    call_id = await ask()
    async with calling(project(tmp_path / "p", service, asking())) as (gateway, call):
        ann = await user(gateway, token(sub="ann"))
        if others:  # the same person, with another token, while the first call waits
            again = await user(gateway, token(sub="ann", jti="other"))
            assert (await call("client", again)).status == "ok"
        lena = gateway.principal("lena")
        decided = await gateway.approvals.decide(call_id, approve=True, note="", principal=lena)
        assert not isinstance(decided, Error)
        async with asyncio.timeout(120):
            ended = await gateway.approvals.calls.outcome(call_id, ann, wait=120)
        assert ended is not None
        assert ended.error is not None
        assert (ended.status, ended.error.code) == ("error", "forbidden")
        assert "without approval" in (ended.error.suggestion or "")
    assert not [asked for asked in service.asked if asked.path.startswith("/s/exchange")]
    assert "token-exchange" not in "".join(asked.body.decode() for asked in service.asked)


async def test_tokens_of_callers_are_kept_only_where_they_are_exchanged(tmp_path: Path, service: Service) -> None:
    auth = {name: value for name, value in AUTH.items() if name != "exchange"}
    for number, (given, kept) in enumerate(((auth, False), (AUTH, True))):
        async with Gateway.load(project(tmp_path / str(number), service, auth=given)) as gateway:
            assert ((await user(gateway, token())).token is not None) is kept
            assert (await user(gateway, "key-of-bot")).token is None


ASSIGNED: list[dict[str, Any]] = [
    {"to": ["vip"], "source": "api", "use": {"bearer": "${env:VIP}", "query": "${env:VIP}"}},
    {"to": ["user"], "source": "api", "use": {"header": "${env:VIP}"}},
]


@pytest.mark.parametrize(
    ("who", "name", "status", "sees"),
    [
        ("bot", "bearer", "ok", SECRETS["BEARER"]),
        ("vip", "bearer", "ok", SECRETS["VIP"]),
        ("vip", "either", "ok", SECRETS["VIP"]),
        ("vip", "header", "error", ""),  # what is assigned takes the place of all of it
        ("ann", "header", "ok", SECRETS["VIP"]),
        ("bot for ann", "header", "ok", SECRETS["HEADER"]),  # the agent has none of these roles
    ],
)
async def test_a_policy_gives_credentials_to_roles(
    tmp_path: Path, service: Service, who: str, name: str, status: str, sees: str
) -> None:
    async with calling(project(tmp_path / "p", service, whole(credentials=ASSIGNED))) as (gateway, call):
        agent, _, person = who.partition(" for ")
        envelope = await call(name, gateway.principal(agent, person or None))
        assert envelope.status == status, envelope
    if sees:
        assert sees in " ".join(shown(service, name).values())
    else:
        assert not service.asked


async def test_another_policy_gives_others_at_once_and_tokens_are_kept(
    tmp_path: Path, service: Service, api: Api
) -> None:
    path = project(tmp_path / "p", service)
    use = {"client": {**AUTH["client"], "client_id": "vip"}}
    policy = whole(credentials=[{"to": ["vip"], "source": "api", "use": use}])

    async with calling(path) as (gateway, call):
        await call("client", "vip")
        for number in range(3):
            more = [{"id": f"r{number}", "to": ["vip"], "tools": ["api__read_header"], "verdict": "allow"}]
            edited = {**policy, "rules": [*policy["rules"], *more]}
            (path.parent / "policies" / "policy.yaml").write_text(json.dumps(edited), encoding="utf-8")
            assert await gateway.operations.reload()
            await call("client", "vip")
            await call("client", "bot")
    assert len(api.given) == 2


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"to": ["vip"], "source": "apy", "use": {"header": "${env:A}"}}, "there is no source 'apy'"),
        ({"to": ["nobody"], "source": "api", "use": {"header": "${env:A}"}}, "no principal has the role 'nobody'"),
        ({"to": ["vip"], "source": "api", "use": {"heeder": "${env:A}"}}, "no security scheme 'heeder' (did you mean"),
        (
            {"to": ["vip"], "source": "api", "use": {"header": "canary-literal"}},
            "a secret must not be written in a policy",
        ),
        ({"to": ["vip"], "source": "api", "use": {"header": "${env:}"}}, "not a known secret reference"),
        ({"to": ["vip"], "source": "api", "use": {"basic": "${env:A}"}}, "takes username and password"),
        ({"to": ["vip"], "source": "api", "use": {"client": {"client_id": "a"}}}, "client_secret: is missing"),
        ({"to": ["vip"], "source": "api", "use": {}}, "use"),
        ({"to": [], "source": "api", "use": {"header": "${env:A}"}}, "to"),
        ({"to": ["vip"], "source": "api", "use": {"header": "${env:A}"}, "when": "true"}, "when"),
    ],
)
def test_what_no_caller_could_be_given_is_an_error_with_its_line(
    tmp_path: Path, service: Service, entry: dict[str, Any], message: str
) -> None:
    with pytest.raises(PolicyError) as caught:
        Gateway.load(project(tmp_path / "p", service, whole(credentials=[entry])))
    assert message in str(caught.value)
    assert "policy.yaml:" in str(caught.value)
    assert "canary-literal" not in str(caught.value)


@pytest.mark.parametrize(
    ("auth", "message"),
    [
        ({"basic": "${env:A}"}, "takes username and password"),
        ({"header": {"client_id": "a", "client_secret": "${env:A}"}}, "takes a value"),
        ({"client": {"client_id": "a", "client_secrets": "${env:A}"}}, "client_secrets: does not belong here"),
        ({"client": {"client_secret": "${env:A}"}}, "client_id: is missing"),
        ({"client": {**AUTH["client"], "token_url": "ftp://x/"}}, "token_url: is not"),
        ({"client": {**AUTH["client"], "token_url": "https://u:p@x/"}}, "token_url: is not"),
        ({"client": {**AUTH["client"], "scopes": "read write"}}, "scopes: must be a list"),
        ({"client": {**AUTH["client"], "scopes": ['a"b']}}, "scopes: must be a list"),
        ({"client": {**AUTH["client"], "authentication": "private_key_jwt"}}, "authentication: private_key_jwt"),
        ({"client": {**AUTH["client"], "subject_token": "caller"}}, "subject_token"),
        ({"amazon": {"access_key_id": "A", "secret_access_key": "${env:A}", "region": "x"}}, "service: is missing"),
        ({"header": {"certificate": "${file:/a}", "key": "${file:/b}"}}, "takes a value"),
    ],
)
def test_a_credential_that_could_never_be_sent_is_an_error(
    tmp_path: Path, service: Service, auth: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        Gateway.load(project(tmp_path / "p", service, auth=auth))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("url", "allow", "asked"),
    [
        ("https://login.attacker.example/token", [], False),
        ("//login.attacker.example/token", [], False),
        ("http://169.254.169.254/token", [], False),
        ("file:///etc/passwd", [], False),
        ("", [], False),
        ("/token", [], True),
        ("SERVER/token", [], True),
    ],
)
async def test_a_description_does_not_decide_who_is_sent_the_clients_secret(
    tmp_path: Path, service: Service, api: Api, url: str, allow: list[str], asked: bool
) -> None:
    path = project(tmp_path / "p", service)
    document = description()
    document["components"]["securitySchemes"]["client"]["flows"]["clientCredentials"]["tokenUrl"] = url.replace(
        "SERVER", service.origin
    )
    (path.parent / "specs" / "api.json").write_text(json.dumps(document), encoding="utf-8")

    async with calling(path) as (_, call):
        envelope = await call("client")
        assert (envelope.status == "ok") is asked, envelope
        if not asked:
            assert envelope.error is not None
            assert envelope.error.code == "secret_unavailable"
            assert "canary" not in json.dumps(envelope.to_dict())
    assert bool(api.given) is asked


async def test_the_operators_token_url_takes_the_place_of_the_descriptions(tmp_path: Path, service: Service) -> None:
    with serving(lambda _: issued("canary-elsewhere")) as other:
        auth = {"client": {**AUTH["client"], "token_url": f"{other.origin}/oauth/token"}}

        async with calling(project(tmp_path / "p", service, auth=auth)) as (_, call):
            assert (await call("client")).status == "ok"
        assert len(other.asked) == 1
    assert shown(service, "client")["Authorization"] == "Bearer canary-elsewhere"


async def test_a_dry_run_asks_nobody_for_a_token(tmp_path: Path, service: Service) -> None:
    async with calling(project(tmp_path / "p", service)) as (gateway, _):
        for name in ("client", "refresh", "exchange", "bearer", "amazon"):
            envelope = await gateway.preview(f"api__read_{name}", {}, principal="bot")
            assert envelope.status == "ok"
            assert "***" in dict(envelope.data["headers"])["Authorization"]  # type: ignore[index, call-overload]
    assert not service.asked
