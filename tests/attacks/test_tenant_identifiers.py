"""Every identifier that one tenant gave out is presented at another, over every route of REST, every method of MCP and every page of the
console that takes one: it is answered like one that nobody gave out.

The requests are those of `tests/gateway/test_unavailable.py`, which fails for a route or method without one.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from tests.frontends.console.people import form_token
from tests.frontends.mcp.peers import OldPeer, Peer, close_peers
from tests.gateway.devices import PHONE
from tests.gateway.governed import Upstream, project, upstream
from tests.gateway.tenants import OTHER, OWN, key_at, listed, rekeyed, serving_tenants, shared_servers, tenants
from tests.gateway.test_unavailable import CALL, HANDSHAKE_ONLY, MCP, MODERN_ONLY, REQUESTS, TOKEN
from toolgen.audit.reader import entries
from toolgen.frontends.console.app import _ROUTES

GRANT, ROLE = "grant_" + "0" * 24, "role_" + "0" * 24
SECRET = "text of one tenant alone"
PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20
BOSS: dict[str, Any] = {"api_key": "x", "roles": ["boss", "reviewer", "operator", "bot"]}
REMEMBERED: dict[str, Any] = {"max_duration": "1h", "any_arguments": True}
POLICY: dict[str, Any] = {
    "principals": {
        **{name: {"api_key": "x", "roles": ["bot"]} for name in ("bot", "other")},
        "boss": BOSS,
        "chief": BOSS,
        **{f"other{number}": {"roles": ["other"]} for number in range(9)},
    },
    "rules": [
        {"id": "all", "to": ["bot"], "tools": ["*"], "verdict": "allow"},
        {
            "id": "asks",
            "to": ["bot"],
            "tools": ["phone__ring", "orders__send_mail", "orders__create_order"],
            "verdict": "ask",
        },
    ],
    "approvals": {
        "approvers": ["boss"],
        "expires": "1h",
        "elicitation": "allow",
        "remember": {"max_duration": "1h", "any_arguments": True},
    },
    "role_grants": [{"role": "boss", "by": ["boss"], "to": ["other"], "max_duration": "4h"}],
}
CONSOLE: dict[str, Any] = {"viewers": ["reviewer"], "admins": ["operator"]}
# Parts of paths that name what a gateway made, and those that a person wrote into the files of a project.
MADE, WRITTEN = {"id", "token"}, {"name", "source", "seq"}


@dataclass
class Place:
    """A tenant at its URL."""

    name: str
    url: str
    key_of: Callable[[str], str]
    calls: dict[str, str] = field(default_factory=dict)
    """Ids of calls, by what became of them."""
    grant: str = ""
    role: str = ""
    token: str = ""
    file: str = ""
    cursor: str = ""
    session: str = ""
    state: str = ""
    task: str = ""
    service: Upstream | None = None

    def http(self, who: str) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, headers={"authorization": f"Bearer {self.key_of(who)}"}, timeout=60)

    def peer(self, kind: type[Peer], who: str) -> Peer:
        return kind(self.url, self.key_of(who).removeprefix("key-of-"), {"elicitation": {}})

    def made(self) -> Iterator[tuple[str, str]]:
        """Pairs of what stands for an identifier in the requests of the tables, and one that this tenant gave out."""
        yield from ((CALL, one) for one in {*self.calls.values(), self.task})
        yield from ((GRANT, self.grant), (ROLE, self.role), (TOKEN, self.token))

    def sent(self) -> list[str]:
        """Bodies that reached the service."""
        assert self.service is not None
        return [body for _, _, body in self.service.requests]

    def given_out(self) -> list[str]:
        """Everything that no other tenant may say."""
        found = [
            *self.calls.values(),
            self.task,
            self.grant,
            self.role,
            self.token,
            self.file,
            self.cursor,
            self.session,
        ]
        assert all(found), found
        return [*found, SECRET]


@asynccontextmanager
async def places(root: Path, stranger: str) -> AsyncIterator[tuple[Place, Place]]:
    """Two tenants with equal projects; the first one has made one of everything. See `tests/gateway/tenants.py` for `stranger`."""
    with upstream() as (seen, server), ExitStack() as opened:
        sources = {
            "orders": {"openapi": "specs/orders.json", "server": server},
            "phone": {"device": "phone.tools.yaml"},
        }
        for name in (OWN, OTHER):
            settings = {"sources": sources, "console": CONSOLE, "gateway": {"pending_after": "60s"}}
            path = rekeyed(project(root / name, server, POLICY, **settings), OWN if stranger == "twin" else name)
            (root / name / "phone.tools.yaml").write_text(PHONE, encoding="utf-8")
            assert path.is_file()
        if stranger == "twin":
            opened.enter_context(shared_servers(*(root / name / "toolgen.yaml" for name in (OWN, OTHER))))
        listing = listed(root, **{OWN: OWN, OTHER: OTHER})
        async with serving_tenants(listing) as (_, url):
            here, there = (
                Place(name, f"{url}/t/{name}", partial(key_at, OWN if stranger == "twin" else name))
                for name in (OWN, OTHER)
            )
            seen.body = json.dumps([{"id": number, "text": SECRET * 4} for number in range(3000)]).encode()
            await fill(here, seen)
            yield here, there
            await close_peers()


async def fill(place: Place, seen: Upstream) -> None:
    """Has a tenant make one of everything that has an identifier."""
    place.service = seen
    async with place.http("bot") as bot, place.http("boss") as boss:

        async def called(tool: str, wait: int = 0, **arguments: Any) -> dict[str, Any]:
            answer = await bot.post(f"/v1/tools/{tool}/call", json={"arguments": arguments, "wait": wait})
            found: dict[str, Any] = answer.json()
            return found

        place.calls["asks"] = (await called("phone__ring"))["call_id"]
        place.calls["device"] = (await called("phone__copy_text", text=SECRET))["call_id"]
        place.calls["denied"] = (await called("orders__send_mail", to="x"))["call_id"]
        await boss.post(f"/v1/approvals/{place.calls['denied']}", json={"decision": "deny"})
        asked = (await called("orders__send_mail", to="y"))["call_id"]
        place.calls["approved"] = asked
        remember = {"calls": 3, "any_arguments": True}
        given = await boss.post(f"/v1/approvals/{asked}", json={"decision": "approve", "remember": remember})
        assert given.status_code == 200, given.text
        place.grant = re.findall(r"grant_[0-9a-f]+", (await boss.get("/v1/grants")).text)[0]
        role = {"role": "boss", "to": "other1", "for": "1h", "reason": SECRET}
        place.role = re.findall(r"role_[0-9a-f]+", (await boss.post("/v1/grants", json=role)).text)[0]
        long = (await bot.post("/v1/tools/orders__list_orders/call", json={"arguments": {"tenant_id": "a"}})).json()
        place.calls["long"], place.cursor = long["call_id"], long["meta"]["next_cursor"]
        seen.body = json.dumps([{"icon": "data:image/png;base64," + base64.b64encode(PICTURE).decode()}]).encode()
        place.token = re.findall(
            r"toolgen://answers/orders__get_health/([\w-]{64})", str(await called("orders__get_health", 9))
        )[0]
        assert (await bot.get(f"/v1/answers/orders__get_health/{place.token}")).content == PICTURE
        kept = await bot.post("/v1/files", content=SECRET.encode(), headers={"content-type": "text/plain"})
        place.file = kept.json()["uri"]
    old = place.peer(OldPeer, "bot")
    assert isinstance(old, OldPeer)
    await old.open()
    place.session = old.session
    created = await old.ask("tools/call", name="phone__copy_text", arguments={"text": SECRET}, task={})
    place.task = created["task"]["taskId"]
    await old.ask("resources/subscribe", uri=place.file)
    asked_again = await place.peer(Peer, "bot").ask("tools/call", name="phone__ring", arguments={})
    place.state = asked_again["requestState"]


def replaced(value: Any, stands_for: str, made: str) -> Any:
    """A request with an identifier that was given out."""
    return json.loads(json.dumps(value).replace(stands_for, made))


_CHANGING = re.compile(
    r'"(?:call_id|audit_seq|duration_ms|retry_after_s|time|seq|asked|expires_s?|created|until)":\s*[^,}]+'
)


def comparable(answer: httpx.Response, made: str, stands_for: str) -> tuple[int, str]:
    """An answer without the identifier that was asked for, and without what differs between any two requests."""
    return answer.status_code, _CHANGING.sub("", answer.text.replace(made, stands_for))


def test_the_table_has_every_part_of_a_path() -> None:
    """A part of another kind has to be looked at here."""
    assert {part for _, path in REQUESTS for part in re.findall(r"{(\w+)}", path)} <= MADE | WRITTEN


@tenants
async def test_no_route_of_rest_takes_an_identifier_of_another_tenant(tmp_path: Path, stranger: str) -> None:
    async with places(tmp_path, stranger) as (here, there):
        presented = set()
        for who in ("bot", "boss"):
            async with there.http(who) as http:
                for (method, path), requests in REQUESTS.items():
                    for url, body in requests:
                        headers = {"accept": body} if isinstance(body, str) else {}
                        content = None if isinstance(body, str) else body
                        for stands_for, made in here.made():
                            asked = replaced([url, content], stands_for, made)
                            if asked == [url, content]:
                                continue
                            presented.add((method, path))
                            answers = [
                                await http.request(method, one, json=sent, headers=headers)
                                for one, sent in (asked, (url, content))
                            ]
                            found = [comparable(answer, made, stands_for) for answer in answers]
                            assert found[0] == found[1], (who, asked)
                            assert 400 <= answers[0].status_code < 500 or '"error"' in answers[0].text, (who, asked)
        of_made = {route for route in REQUESTS if set(re.findall(r"{(\w+)}", route[1])) & MADE}
        assert presented >= {*of_made, ("post", "/v1/tool-messages")}
        async with here.http("bot") as mine, there.http("bot") as theirs:  # what a person agreed to for later calls
            mail = {"arguments": {"to": "z"}, "wait": 0}
            sent = [await one.post("/v1/tools/orders__send_mail/call", json=mail) for one in (mine, theirs)]
            assert sent[0].json().get("error", {}).get("code") != "approval_required"
            assert sent[1].json()["error"]["code"] == "approval_required"
        async with here.http("bot") as http:
            for name, status in (("asks", "pending"), ("device", "pending"), ("denied", "refused")):
                assert (await http.get(f"/v1/calls/{here.calls[name]}")).json()["status"] == status, name
        async with here.http("boss") as http:
            grants = (await http.get("/v1/grants")).text
            assert here.grant in grants
            assert here.role in grants


@tenants
async def test_no_list_of_a_tenant_has_anything_of_another(tmp_path: Path, stranger: str) -> None:
    """Also with a filter, a cursor, an Idempotency-Key or an id of a conversation that names something there."""
    async with places(tmp_path, stranger) as (here, there):
        secrets = here.given_out()
        for who in ("bot", "boss"):
            async with there.http(who) as http:
                for (method, path), requests in REQUESTS.items():
                    if method == "get":
                        for url, body in requests:
                            headers = {"accept": body} if isinstance(body, str) else {}
                            answer = await http.get(url, headers=headers)
                            assert not [one for one in secrets if one in answer.text], (who, path)
        for who in ("bot", "boss"):
            async with there.http(who) as http:
                for call_id in here.calls.values():
                    for url in ("/v1/audit", "/v1/audit/calls"):
                        answer = await http.get(url, params={"call_id": call_id})
                        assert answer.status_code == (200 if who == "boss" else 403)
                        assert call_id not in answer.text
                for url in ("/v1/approvals", "/v1/audit", "/v1/audit/calls", "/v1/tools", "/v1/device/requests"):
                    answer = await http.get(url, params={"cursor": here.cursor})
                    assert not [one for one in secrets if one in answer.text.replace(here.cursor, "")], (who, url)
                arguments = {"tenant_id": "a", "answer": {"cursor": here.cursor}}
                more = await http.post("/v1/tools/orders__list_orders/call", json={"arguments": arguments})
                assert (more.json()["status"], more.json()["error"]["code"]) == ("refused", "expired")
                stolen = await http.get(f"/v1/answers/orders__get_health/{here.token}")
                assert stolen.status_code == 404
                for uri in (here.file, f"toolgen://answers/orders__get_health/{here.token}"):
                    read = await http.post("/v1/resources/read", json={"uri": uri})
                    assert read.status_code in {400, 404}, read.text
                    tool = await http.post("/v1/tools/read_file/call", json={"arguments": {"uri": uri}})
                    assert tool.json()["status"] in {"refused", "error"}, tool.text
                    assert SECRET not in tool.text
                detail = await http.get("/metrics", params={"detail": "all"})
                assert detail.status_code == (200 if who == "boss" else 403)
                assert "orders__list_orders" not in detail.text or who == "boss"


@tenants
async def test_no_method_of_mcp_takes_an_identifier_of_another_tenant(tmp_path: Path, stranger: str) -> None:
    async with places(tmp_path, stranger) as (here, there):
        secrets = [one for one in here.given_out() if one != here.session]
        for who in ("bot", "boss"):
            old = there.peer(OldPeer, who)
            assert isinstance(old, OldPeer)
            await old.open()
            for method, params in MCP.items():
                for peer in (old, there.peer(Peer, who)):
                    stateless, calls = type(peer) is Peer, method == "tools/call"
                    if method in (HANDSHAKE_ONLY if stateless else MODERN_ONLY) or method == "initialize":
                        continue
                    if calls and not stateless:
                        continue  # it has no state to present, and would ask its own person
                    for asked, unknown, made, stands_for in presented_in(here, method, params):
                        found = [await answered(peer, method, one) for one in (asked, unknown)]
                        told = [_CHANGING.sub("", json.dumps(one).replace(made, stands_for)) for one in found]
                        assert told[0] == told[1], (who, method, asked)
                    answer = "" if calls else json.dumps(await answered(peer, method, params))
                    assert not [one for one in secrets if one in answer], (who, method)
        mine = here.peer(OldPeer, "bot")
        assert isinstance(mine, OldPeer)
        mine.session = here.session
        assert (await mine.ask("tasks/get", taskId=here.task))["status"] in {"working", "input_required"}


@tenants
async def test_a_session_of_another_tenant_is_like_one_that_nobody_opened(tmp_path: Path, stranger: str) -> None:
    """A session id grants nothing: with it a caller of another tenant reaches no stream, no request and no question of the session."""
    async with places(tmp_path, stranger) as (here, there):
        for who in ("bot", "boss"):
            peers = [there.peer(OldPeer, who) for _ in range(2)]
            for peer, session in zip(peers, (here.session, "0" * 32 + here.session[32:]), strict=True):
                assert isinstance(peer, OldPeer)
                peer.session = session
            for method in MCP.keys() - MODERN_ONLY - {"initialize", "tools/call"}:
                for _, params, _, _ in [(0, MCP[method], 0, 0), *presented_in(here, method, MCP[method])]:
                    told = [json.dumps(await answered(peer, method, params)) for peer in peers]
                    assert told[0] == told[1], (who, method)
                    assert SECRET not in told[0]
            statuses = [[], []]  # type: list[list[int]]
            for verb in ("DELETE", "PUT"):
                for peer, found in zip(peers, statuses, strict=True):
                    found.append((await peer.http.request(verb, peer.url, headers=peer.written("", {})[1])).status_code)
            assert statuses[0] == statuses[1]
        # A question to the person of a session, and a request that is under way in it.
        mine, theirs = here.peer(OldPeer, "bot"), there.peer(OldPeer, "bot")
        assert isinstance(mine, OldPeer)
        assert isinstance(theirs, OldPeer)
        await mine.open()
        theirs.session = mine.session
        said = {"action": "accept", "content": {"approve": True}}
        async with mine.stream(
            "tools/call", name="orders__create_order", arguments={"tenant_id": "asked", "amount_cents": 1}
        ) as heard:
            question = await first(heard, method="elicitation/create")
            foreign = await theirs.respond(question["id"], said)
            unknown = await theirs.respond("no-question-of-anybody", said)
            assert foreign == unknown
            cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
            await theirs.http.post(theirs.url, json=cancel, headers=theirs.written("", {})[1])
            assert not [one for one in here.sent() if "asked" in one]
            assert await mine.respond(question["id"], said) < 300
            result = await first(heard, id=1)
        assert result["result"]["isError"] is False, result
        assert [one for one in here.sent() if "asked" in one]


async def first(heard: AsyncIterator[dict[str, Any]], **members: Any) -> dict[str, Any]:
    """The first message with these members."""
    async for message in heard:
        if members.items() <= message.items():
            return message
    raise AssertionError("there is no such message")


async def answered(peer: Peer, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a request, which may be empty."""
    async with peer.stream(method, **params) as found:
        async for message in found:
            if message.get("id") == 1:
                return {name: value for name, value in message.items() if name != "id"}
    raise AssertionError("the request has no answer")


def presented_in(
    here: Place, method: str, params: Mapping[str, Any]
) -> Iterator[tuple[dict[str, Any], dict[str, Any], str, str]]:
    """Requests with an identifier of a tenant, beside the same with one that nobody gave out."""
    for stands_for, made in here.made():
        if (asked := replaced(params, stands_for, made)) != params:
            yield asked, dict(params), made, stands_for
    if "uri" in params:
        unknown = here.file[:-8] + "A" * 8
        yield {**params, "uri": here.file}, {**params, "uri": unknown}, here.file, unknown
        answers = "toolgen://answers/orders__get_health/"
        yield {"uri": answers + here.token}, {"uri": answers + TOKEN}, here.token, TOKEN
    if method == "tools/call":
        call = {"name": "phone__ring", "arguments": {}}
        said = {"approval": {"action": "accept", "content": {"approve": True}}}
        for state in (here.state, here.state[:-4] + "AAAA"):
            yield (
                {**call, "requestState": state, "inputResponses": said},
                {
                    **call,
                    "requestState": here.state[::-1],
                    "inputResponses": said,
                },
                state,
                here.state[::-1],
            )


@tenants
async def test_no_page_of_the_console_takes_an_identifier_of_another_tenant(tmp_path: Path, stranger: str) -> None:
    """Every page with an identifier in its path, and every form, by a person with every right."""
    async with (
        places(tmp_path, stranger) as (here, there),
        httpx.AsyncClient(base_url=there.url, timeout=60) as browser,
    ):
        token = form_token((await browser.get("/console/sign-in")).text)
        credential = {"credential": there.key_of("boss"), "form_token": token}
        shown = await browser.post("/console/sign-in", data=credential)
        assert shown.status_code == 200, shown.text
        form = form_token((await browser.get("/console/approvals")).text)
        ids = {*here.calls.values(), here.task}
        presented = 0
        for route in _ROUTES:
            path = route.path.pattern
            if "[A-Za-z0-9_.:-]{1,128}" not in path:
                continue
            for made in ids:
                answers = []
                for one in (made, CALL):
                    url = re.sub(r"\(\[A-Za-z0-9_.:-\]\{1,128\}\)", one, path)
                    data = {"form_token": form, "decision": "approve", "answer": "approve"}
                    answers.append(
                        await browser.request(route.method, url, data=data if route.method == "POST" else None)
                    )
                assert answers[0].status_code == answers[1].status_code in {400, 404, 409}, (path, answers[0].text)
                assert SECRET not in answers[0].text
                presented += 1
        assert presented >= 3 * len(ids)
        for route in _ROUTES:
            if route.method == "GET" and "(" not in route.path.pattern:
                page = await browser.get(route.path.pattern)
                assert not [one for one in here.given_out() if one in page.text], route.path.pattern
        for data in ({"grant": here.grant}, {"id": here.grant}, {"grant": here.role}, {"id": here.role}):
            for path in ("revoke", "agree"):
                await browser.post(f"/console/grants/{path}", data={"form_token": form, **data})
        async with here.http("boss") as http:
            assert here.grant in (await http.get("/v1/grants")).text
            assert here.role in (await http.get("/v1/grants")).text
        decided = [one for one in entries(tmp_path / OTHER / "var" / "audit") if one["event"] in {"decision", "grant"}]
        assert decided == []
