from __future__ import annotations

from typing import Any

import msgspec
import openapi_spec_validator
import pytest

from tests.gateway.clients import JSON, bearer, client
from tests.gateway.gateways import BOT, OTHER_KEY, REVIEWER_KEY, TOOLS, FakeGateway, envelope
from toolgen.frontends.rest.tool_call_batches import MAX_NAME_LENGTH
from toolgen.frontends.rest.tools import STATUS_OF_CODE, status_of
from toolgen.gateway.catalog.tool_lists import LISTED
from toolgen.model.result import Error

pytestmark = pytest.mark.usefixtures("adapter")

ENTRIES = [{"seq": number, "event": "outcome", "tool": "<b>x</b>"} for number in range(9, -1, -1)]


async def test_a_call_reaches_the_gateway_as_sent_and_its_envelope_comes_back() -> None:
    gateway = FakeGateway()
    body = {"arguments": {"text": "hi", "n": 10**25 // 10**16}, "wait": 5, "idempotency_key": "once"}
    async with client(gateway) as http:
        headers = JSON | {"x-conversation-id": "talk-1", "user-agent": "tester/2"}
        answer = await http.post("/v1/tools/test__echo/call", headers=headers, content=msgspec.json.encode(body))
    assert answer.status_code == 200
    assert answer.json() == {
        "status": "ok",
        "tool": "test__echo",
        "call_id": "call-1",
        "data": body["arguments"],
        "meta": {"duration_ms": 1.5, "truncated": False, "audit_seq": 7},
    }
    assert gateway.calls == [
        {
            "name": "test__echo",
            "arguments": body["arguments"],
            "principal": BOT,
            "session": "talk-1",
            "client": "tester/2",
            "idempotency_key": "once",
        }
    ]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (b"", ""),
        (b"{", ""),
        (b"[]", ""),
        (b'"x"', ""),
        (b'{"arguments": []}', "/arguments"),
        (b'{"arguments": null}', "/arguments"),
        (b'{"argument": {}}', "/argument"),
        (b'{"principal": "admin"}', "/principal"),
        (b'{"idempotency_key": ""}', "/idempotency_key"),
        (b'{"idempotency_key": 5}', "/idempotency_key"),
        (b'{"wait": -1}', "/wait"),
        (b'{"wait": 301}', "/wait"),
        (b'{"wait": "5"}', "/wait"),
        (b'{"arguments": ' + b"[" * 100 + b"]" * 100 + b"}", ""),
    ],
)
async def test_a_bad_call_body_is_400_with_a_pointer_and_calls_nothing(body: bytes, pointer: str) -> None:
    gateway = FakeGateway()
    async with client(gateway) as http:
        answer = await http.post("/v1/tools/test__echo/call", headers=JSON, content=body)
    assert answer.status_code == 400
    assert (answer.json()["error"]["code"], answer.json()["error"]["pointer"]) == ("validation", pointer)
    assert gateway.calls == []


@pytest.mark.parametrize("conversation", ["a b", "x" * 129, "\tx y"])
async def test_a_conversation_id_that_is_no_id_is_refused(conversation: str) -> None:
    gateway = FakeGateway()
    async with client(gateway) as http:
        headers = JSON | {"x-conversation-id": conversation}
        answer = await http.post("/v1/tools/test__echo/call", headers=headers, content=b"{}")
    assert answer.status_code == 400
    assert gateway.calls == []


@pytest.mark.parametrize(("length", "status"), [(0, 400), (1, 200), (MAX_NAME_LENGTH, 200), (MAX_NAME_LENGTH + 1, 404)])
async def test_a_name_that_no_tool_can_have_calls_nothing(length: int, status: int) -> None:
    gateway = FakeGateway(answer=lambda name, _: envelope(name, "ok"))
    async with client(gateway) as http:
        answer = await http.post(f"/v1/tools/{'x' * length}/call", headers=JSON, content=b"{}")
    assert answer.status_code == status
    assert len(gateway.calls) == (status == 200)


STATUSES = {
    "validation": 400, "forbidden": 403, "sql_refused": 403, "egress_refused": 403, "approval_denied": 403, "cancelled": 403,
    "expired": 403, "unknown_tool": 404, "rate_limited": 429, "turn_limit": 429, "approval_required": 202, "deferred": 202,
    "input_required": 202,
    "authorization_required": 202, "upstream_error": 502, "outcome_unknown": 502, "response_too_large": 502, "upstream_timeout": 504,
    "handler_error": 500, "internal": 500, "audit_unavailable": 503, "secret_unavailable": 503, "upstream_unavailable": 503, "paused": 503,
    "rejected": 422, "not_found": 404,
    "sql_failed": 400, "code_failed": 400, "middleware_failed": 503, "outside_catalog": 403, "result_withheld": 403, "step_failed": 502,
}  # fmt: skip


@pytest.mark.parametrize(("code", "status"), STATUSES.items())
async def test_every_code_has_its_http_status(code: str, status: int) -> None:
    # What waits is 202 as long as it does; a call that nothing can wait for is refused with the same code.
    for stand, wanted in (("pending", status), ("refused", 403)) if status == 202 else (("refused", status),):
        given = envelope("test__echo", stand, error=Error(code=code, message="no"))
        async with client(FakeGateway(answer=lambda name, _, given=given: given)) as http:
            answer = await http.post("/v1/tools/test__echo/call", headers=JSON, content=b"{}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (wanted, code)


def test_no_code_is_without_a_tested_status() -> None:
    assert dict(STATUS_OF_CODE) == STATUSES


@pytest.mark.parametrize(
    ("status", "http"), [("refused", 403), ("cancelled", 403), ("pending", 202), ("error", 500), ("something new", 500)]
)
def test_an_unknown_code_is_never_a_success(status: str, http: int) -> None:
    assert status_of(envelope("t", status, error=Error(code="new_code", message="new"))) == http
    assert status_of(envelope("t", status)) == http


@pytest.mark.parametrize(("after", "header"), [(1.2, "2"), (0.0, "1"), (60.0, "60"), (None, "1")])
async def test_too_many_calls_says_when_to_come_back(after: float | None, header: str) -> None:
    error = Error(code="rate_limited", message="slow down", retry_after_s=after)
    gateway = FakeGateway(answer=lambda name, _: envelope(name, "refused", error=error))
    async with client(gateway) as http:
        answer = await http.post("/v1/tools/test__echo/call", headers=JSON, content=b"{}")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, header)


async def test_tool_calls_come_back_as_tool_messages_in_order() -> None:
    gateway = FakeGateway()
    calls = [
        {"type": "tool_call", "id": "a", "name": "test__pet", "args": {}},
        {"type": "tool_call", "id": "b", "name": "test__fail", "args": {}},
        {"id": "c", "name": "test__echo", "args": {"text": "hi"}},
    ]
    async with client(gateway) as http:
        answer = await http.post("/v1/tool_calls", headers=JSON, content=msgspec.json.encode(calls))
    assert answer.status_code == 200
    messages = answer.json()
    assert [(item["tool_call_id"], item["name"], item["status"]) for item in messages] == [
        ("a", "test__pet", "success"),
        ("b", "test__fail", "error"),
        ("c", "test__echo", "success"),
    ]
    assert all(item["role"] == "tool" for item in messages)
    assert messages[0]["content"] == '{"id":5,"name":"Rex"}'
    assert messages[1]["content"].startswith("rate_limited: too many calls")


async def test_a_tool_call_without_an_id_is_given_one_of_its_own() -> None:
    calls = [{"name": "test__pet"}, {"name": "test__pet", "id": None}, {"name": "test__fail", "args": {}}]
    async with client(FakeGateway()) as http:
        answer = await http.post("/v1/tool_calls", headers=JSON, content=msgspec.json.encode(calls))
    ids = [message["tool_call_id"] for message in answer.json()]
    assert len(set(ids)) == 3
    assert all(isinstance(id_, str) and len(id_) > 20 for id_ in ids)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, ""),
        ([], ""),
        ([{"id": 5, "name": "t"}], "/0/id"),
        ([{"id": "a"}], "/0"),
        ([{"id": "", "name": "t"}], "/0/id"),
        ([{"id": "a", "name": "x" * 129}], "/0/name"),
        ([{"id": "a", "name": "t", "args": []}], "/0/args"),
        ([{"id": "a", "name": "t", "type": "other"}], "/0/type"),
        ([{"id": "a", "name": "t"}, {"id": "b", "name": "t", "principal": "x"}], "/1/principal"),
        ([{"id": str(number), "name": "t"} for number in range(65)], ""),
    ],
)
async def test_one_bad_tool_call_refuses_them_all(body: object, pointer: str) -> None:
    gateway = FakeGateway()
    async with client(gateway) as http:
        answer = await http.post("/v1/tool_calls", headers=JSON, content=msgspec.json.encode(body))
    assert (answer.status_code, answer.json()["error"]["pointer"]) == (400, pointer)
    assert gateway.calls == []


@pytest.mark.parametrize("form", ["manifest", "mcp", "openai", "anthropic"])
async def test_the_catalog_is_listed_in_every_format_page_by_page(form: str) -> None:
    seen: list[dict[str, Any]] = []
    async with client(FakeGateway()) as http:
        cursor = ""
        while True:
            page = (
                await http.get(
                    "/v1/tools", params={"format": form, "limit": 3} | ({"cursor": cursor} if cursor else {})
                )
            ).json()
            seen += page["tools"]
            cursor = page.get("next_cursor", "")
            if not cursor:
                break
        assert (await http.get("/v1/tools", params={"format": form})).json()["tools"] == seen
    names = [item["function"]["name"] if form == "openai" else item["name"] for item in seen]
    assert names == [item.name for item in TOOLS]


async def test_a_principal_that_may_call_nothing_is_listed_nothing() -> None:
    async with client(FakeGateway(), key=OTHER_KEY) as http:
        assert (await http.get("/v1/tools")).json() == {"tools": []}


@pytest.mark.parametrize("query", ["cursor=made-up", "q=x&cursor=made-up"])
async def test_a_cursor_that_was_never_given_out_leads_nowhere(query: str) -> None:
    async with client(FakeGateway()) as http:
        answer = await http.get(f"/v1/tools?{query}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    "query",
    [
        "format=xml",
        "limit=0",
        "limit=-1",
        "limit=1001",
        "limit=five",
        "limit=%C2%B2",
        "limit=1&limit=2",
        "q=",
        "q=x&limit=0",
        "q=x&q=y",
        "unknown=1",
        "format=%FF",
        "limit=" + "9" * 400,
    ],
)
async def test_a_bad_query_is_refused(query: str) -> None:
    async with client(FakeGateway()) as http:
        answer = await http.get(f"/v1/tools?{query}")
    assert answer.status_code == 400


async def test_a_search_refused_for_its_number_says_when_to_come_back() -> None:
    gateway = FakeGateway(refusal=Error(code="rate_limited", message="too many searches", retry_after_s=1.2))
    async with client(gateway) as http:
        answer = await http.get("/v1/tools?q=pet")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "2")


async def test_a_misspelt_format_is_told_the_nearest() -> None:
    async with client(FakeGateway()) as http:
        answer = await http.get("/v1/tools?format=antropic")
    assert "did you mean 'anthropic'" in answer.json()["error"]["suggestion"]


async def test_the_audit_is_for_reviewers_alone() -> None:
    async with client(FakeGateway(entries=ENTRIES)) as http:
        for path in ("/v1/audit", "/v1/audit/calls", "/v1/audit/3"):
            answer = await http.get(path)
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")
            assert "outcome" not in answer.text


async def test_a_reviewer_reads_entries_newest_first_and_one_by_one() -> None:
    async with client(FakeGateway(entries=ENTRIES), key=REVIEWER_KEY) as http:
        assert (await http.get("/v1/audit")).json() == {"entries": ENTRIES}
        assert (await http.get("/v1/audit?limit=2&before=5")).json() == {
            "entries": ENTRIES[5:7],
            "next_cursor": "2.1",
        }
        assert (await http.get("/v1/audit/0")).json() == ENTRIES[9]
        for missing in ("10", "-1", "x", "1e3", "٣", "9" * 17):
            assert (await http.get(f"/v1/audit/{missing}")).status_code == 404
        for cursor in ("x", "1.2.3.4.5", "9" * 20, "1."):
            assert (await http.get(f"/v1/audit?cursor={cursor}")).status_code == 404
        for query in (
            "limit=0",
            "limit=501",
            "before=x",
            "toll=x",
            "since=5",
            "since=2026-01-01",
            "text=" + "x" * 1001,
        ):
            assert (await http.get(f"/v1/audit?{query}")).status_code == 400


@pytest.mark.parametrize("path", ["/v1/audit", "/v1/audit/calls", "/v1/audit/3"])
async def test_an_audit_log_that_cannot_be_read_is_said_so(path: str) -> None:
    async with client(FakeGateway(entries=None), key=REVIEWER_KEY) as http:
        answer = await http.get(path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "audit_unavailable")


async def test_the_served_description_is_valid_and_describes_every_route() -> None:
    async with client(FakeGateway()) as http:
        document = (await http.get("/openapi.json")).json()
        openapi_spec_validator.validate(document)
        parameters = {item["name"]: item for item in document["paths"]["/v1/tools"]["get"]["parameters"]}
        headers = {"X-Conversation-Id", "X-Toolset", "X-On-Behalf-Of"}
        assert parameters.keys() == {"format", "q", "limit", "cursor", "toolset", *headers}
        assert parameters["format"]["schema"]["enum"] == sorted(LISTED)
        assert document["components"]["schemas"]["LangChainToolCall"]["required"] == ["name"]
        for path, methods in document["paths"].items():
            for method in methods:
                concrete = path.replace("{name}", "test__echo").replace("{seq}", "1").replace("{id}", "call_1")
                concrete = concrete.replace("{token}", "a" * 64)
                answer = await http.request(method, concrete, headers=JSON, content=b"{}")
                assert str(answer.status_code) in methods[method]["responses"], (method, path)
                assert "there is nothing at this path" not in answer.text


async def test_the_credential_decides_whose_call_it_is_and_nothing_in_the_body_does() -> None:
    gateway = FakeGateway()
    async with client(gateway) as http:
        body = msgspec.json.encode({"arguments": {"principal": "reviewer"}})
        await http.post("/v1/tools/test__echo/call", headers=JSON | bearer(), content=body)
    assert gateway.calls[0]["principal"] is BOT
