"""Tokens in place of values in answers, and values in place of tokens in calls: for whom, where, and what stands on record of it."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from tests.gateway.governed import Upstream, project, upstream, write_policy
from tests.projects import audit_entries
from tests.redis_server import RedisServer
from toolgen.config.settings import load as load_settings
from toolgen.core.clock import SystemClock
from toolgen.core.errors import ConfigError, PolicyError
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.approvals.listing import listed
from toolgen.gateway.state.backup import back_up, restore
from toolgen.model.result import Envelope
from toolgen.state import value_vault
from toolgen.state.encryption import Seal

ALL = {
    "id": "all",
    "to": ["bot"],
    "tools": ["orders__*"],
    "verdict": "allow",
    "effects": ["read", "write", "destructive"],
}
BACK = {"to": ["bot"], "tools": ["orders__send_mail"], "kinds": ["email"], "arguments": ["to"]}
TOKENS = [{"detector": "personal_data", "then": "tokenise"}]
ANN, BEN = "ann.lee@mail.fr", "ben@mail.fr"


@asynccontextmanager
async def scenario(
    root: Path,
    *rules: dict[str, Any],
    tokens: list[dict[str, Any]] | None = None,
    detectors: list[Any] | None = None,
    policy: dict[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[tuple[Gateway, Upstream]]:
    with upstream() as (seen, server):
        said = {
            "rules": [ALL, *rules],
            "tokens": [BACK] if tokens is None else tokens,
            "approvals": {"approvers": ["user"]},
            **(policy or {}),
        }
        looked = TOKENS if detectors is None else detectors
        path = project(root / "p", server, said, inspect_results=looked, gateway={"turn_limit": "never"}, **settings)
        async with Gateway.load(path) as gateway:
            yield gateway, seen


async def health(gateway: Gateway, seen: Upstream, data: Any, session: str = "s", principal: str = "bot") -> Envelope:
    """What the API answers, as the agent gets it."""
    seen.body = json.dumps(data).encode()
    return await gateway.call("orders__get_health", {}, principal=principal, session=session)


async def mail(gateway: Gateway, to: Any, session: str = "s", **more: Any) -> Envelope:
    return await gateway.call(
        "orders__send_mail", {"to": to}, principal=more.pop("principal", "bot"), session=session, **more
    )


def code(envelope: Envelope) -> str:
    return envelope.error.code if envelope.error is not None else envelope.status


def sent(seen: Upstream) -> list[str]:
    return [body for _, path, body in seen.requests if path == "/mail"]


def record(gateway: Gateway) -> str:
    return json.dumps(audit_entries(gateway))


async def test_a_token_is_stable_and_its_value_is_sent_where_the_policy_says(tmp_path: Path) -> None:
    async with scenario(tmp_path) as (gateway, seen):
        first = await health(
            gateway, seen, {"a": ANN, "rows": [BEN, f"from {ANN} to {BEN}"], ANN: 1, "n": 4111111111111111}
        )
        assert first.data == {
            "a": "<email:1>",
            "rows": ["<email:2>", "from <email:1> to <email:2>"],
            "<email:1>": 1,
            "n": "<card:1>",
        }
        again = await health(gateway, seen, {"b": BEN})
        assert again.data == {"b": "<email:2>"}
        seen.body = json.dumps({"sent": f"to {ANN}"}).encode()
        answer = await mail(gateway, "<email:1>")
        assert (answer.status, answer.data) == ("ok", {"sent": "to <email:1>"})
        assert sent(seen) == [json.dumps({"to": ANN}, separators=(",", ":"))]
        intent = next(
            one for one in audit_entries(gateway) if one["event"] == "intent" and one["tool"] == "orders__send_mail"
        )
        assert intent["repaired"] == [{"argument": "to", "change": "restored <email:1>"}]
        assert str(intent["arguments"]["to"]).startswith("hmac-sha256:")
        assert ANN not in record(gateway)
        files = b"".join(one.read_bytes() for one in (tmp_path / "p").rglob("values.db*"))
        assert files
        assert ANN.encode() not in files


@pytest.mark.parametrize(
    ("tokens", "name", "arguments", "told"),
    [
        ([], "orders__send_mail", {"to": "<email:1>"}, "does not give this tool"),
        ([BACK], "orders__send_mail", {"to": "<card:1>"}, "does not give this tool"),
        ([BACK], "orders__delete_order", {"id": "<email:1>"}, "does not give this tool"),
        ([{**BACK, "to": ["user"]}], "orders__send_mail", {"to": "<email:1>"}, "does not give this tool"),
        ([BACK], "orders__send_mail", {"to": "<email:9>"}, "has no value"),
        ([BACK], "orders__send_mail", {"to": "<email:1>" * 1001}, "more than 1,000 tokens"),
    ],
)
async def test_a_token_without_a_grant_is_refused_and_nothing_is_sent(
    tmp_path: Path, tokens: list[dict[str, Any]], name: str, arguments: dict[str, Any], told: str
) -> None:
    async with scenario(tmp_path, tokens=tokens) as (gateway, seen):
        await health(gateway, seen, {"a": ANN, "card": "4111 1111 1111 1111"})
        before = len(seen.requests)
        answer = await gateway.call(name, arguments, principal="bot", session="s")
        assert (answer.status, len(seen.requests)) == ("refused", before)
        assert answer.error is not None
        assert answer.error.rule == "tokens"
        assert told in answer.error.message
        assert ANN not in record(gateway)
        (ending,) = [one for one in audit_entries(gateway) if one["event"] == "outcome" and one["tool"] == name]
        assert (ending["verdict"], ending["rule"]) == ("deny", "tokens")


async def test_an_argument_that_no_grant_names_gets_nothing(tmp_path: Path) -> None:
    async with scenario(tmp_path, tokens=[{**BACK, "tools": ["orders__create_order"], "arguments": ["note"]}]) as (
        gateway,
        seen,
    ):
        await health(gateway, seen, {"a": ANN})
        body = {"tenant_id": "<email:1>", "amount_cents": 1, "note": "x"}
        assert code(await gateway.call("orders__create_order", body, principal="bot", session="s")) == "forbidden"
        body = {"tenant_id": "t", "amount_cents": 1, "note": "for <email:1>, again <email:1>"}
        assert code(await gateway.call("orders__create_order", body, principal="bot", session="s")) == "ok"
        assert json.loads(seen.requests[-1][2])["note"] == f"for {ANN}, again {ANN}"


async def test_tokens_of_other_sessions_and_principals_stand_for_nothing(tmp_path: Path) -> None:
    async with scenario(tmp_path) as (gateway, seen):
        await health(gateway, seen, {"a": ANN})
        other = await health(gateway, seen, {"a": BEN}, session="t")
        assert other.data == {
            "a": "<email:2>"
        }  # a number is given once, so that no session takes another's token for its own
        assert code(await mail(gateway, "<email:1>", session="t")) == "validation"
        assert code(await mail(gateway, "<email:2>")) == "validation"
        assert code(await mail(gateway, "<email:1>", principal="bare")) == "validation"
        assert code(await gateway.call("orders__send_mail", {"to": "<email:1>"}, principal="bot")) == "validation"
        nameless = await gateway.call("orders__get_health", {}, principal="bot")
        assert nameless.data == {"a": "[email]"}  # without a session there is nothing to keep it for
        assert sent(seen) == []


async def test_both_parties_must_be_given_the_value(tmp_path: Path) -> None:
    rules = [{**ALL, "id": "users", "to": ["user"]}]

    async with scenario(tmp_path, *rules) as (gateway, seen):
        caller = gateway.principal("bot", "ann")
        seen.body = json.dumps({"a": ANN}).encode()
        shown = await gateway.call("orders__get_health", {}, principal=caller, session="s")
        assert shown.data == {"a": "<email:1>"}
        assert code(await mail(gateway, "<email:1>", principal=caller)) == "forbidden"
        write_policy(tmp_path / "p", {"rules": [ALL, *rules], "tokens": [{**BACK, "to": ["bot", "user"]}]})
        assert await gateway.operations.reload()
        assert code(await mail(gateway, "<email:1>", principal=caller)) == "ok"


LIKE = [
    ("<email:1>", "<\\email:1>"),
    ("<\\email:1>", "<\\\\email:1>"),
    ("<<email:1>>", "<<\\email:1>>"),
    ("<EMAIL:1>", "<EMAIL:1>"),
    ("<email:01>", "<email:01>"),
    ("< email:1>", "< email:1>"),
    ("<email:0>", "<email:0>"),
    ("<other:1>", "<other:1>"),
    ("<em\u200bail:1>", "<\\email:1>"),
    ("<email:<email:1>1>", "<email:<\\email:1>1>"),
    (f"<email:{ANN}>", "<email:<email:1>>"),
]


async def test_what_an_upstream_writes_like_a_token_is_none(tmp_path: Path) -> None:
    async with scenario(tmp_path, detectors=[{"detector": "hidden_text", "then": "redact"}, *TOKENS]) as (
        gateway,
        seen,
    ):
        await health(gateway, seen, {"a": ANN})
        answer = await health(gateway, seen, {"texts": [one for one, _ in LIKE], "split": {"x": "<email:", "y": "1>"}})
        assert answer.data["texts"] == [shown for _, shown in LIKE]  # type: ignore[index, call-overload]
        assert answer.data["split"] == {"x": "<email:", "y": "1>"}  # type: ignore[index, call-overload]
        listed = await gateway.call("orders__list_orders", {"tenant_id": "acme"}, principal="bot", session="s")
        assert listed.status == "ok"


async def test_answers_of_tools_that_are_not_looked_at_hold_no_tokens(tmp_path: Path) -> None:
    async with scenario(tmp_path, detectors=[{**TOKENS[0], "tools": ["orders__get_health"]}]) as (gateway, seen):
        await health(gateway, seen, {"a": ANN})
        seen.body = json.dumps({"order": f"<email:1> {BEN}"}).encode()
        answer = await gateway.call("orders__list_orders", {"tenant_id": "acme"}, principal="bot", session="s")
        assert answer.data == {"order": f"<\\email:1> {BEN}"}
        seen.body = json.dumps({"echo": f"sent to {ANN}"}).encode()
        assert (await mail(gateway, "<email:1>")).data == {"echo": "sent to <email:1>"}


async def test_what_is_sent_like_a_token_is_a_text_in_any_other_writing(tmp_path: Path) -> None:
    async with scenario(tmp_path) as (gateway, seen):
        await health(gateway, seen, {"a": ANN})
        for text in (
            "<EMAIL:1>",
            "<Email:1>",
            "<email:01>",
            "<email: 1>",
            "\uff1cemail:1\uff1e",
            "<email:1",
            "email:1",
            "<other:1>",
        ):
            assert code(await mail(gateway, text)) == "ok"
            assert json.loads(sent(seen)[-1]) == {"to": text}
        assert (
            code(await mail(gateway, "<\\email:1> <\\\\email:1>")) == "ok"
        )  # what stood in an answer so is sent as it was
        assert json.loads(sent(seen)[-1]) == {"to": "<email:1> <\\email:1>"}
        assert ANN not in "".join(sent(seen))


async def test_rules_judge_the_value_that_is_sent(tmp_path: Path) -> None:
    inside = {
        **ALL,
        "id": "inside",
        "tools": ["orders__send_mail"],
        "verdict": "deny",
        "when": "!args.to.endsWith('@mail.fr')",
    }

    async with scenario(tmp_path, inside) as (gateway, seen):
        await health(gateway, seen, {"a": ANN, "b": "eve@evil.io"})
        assert code(await mail(gateway, "<email:1>")) == "ok"
        assert code(await mail(gateway, "<email:2>")) == "forbidden"
        assert len(sent(seen)) == 1


async def test_an_approver_sees_the_request_as_it_would_be_sent(tmp_path: Path) -> None:
    ask = {**ALL, "id": "ask", "tools": ["orders__send_mail"], "verdict": "ask"}

    async with scenario(tmp_path, ask) as (gateway, seen):
        await health(gateway, seen, {"a": ANN})
        seen.body = json.dumps({"sent": ANN}).encode()
        answer = await mail(gateway, "<email:1>")
        assert code(answer) == "approval_required"
        assert ANN not in json.dumps(answer.to_dict())
        reviewer = gateway.principal("ann")
        (shown,) = await listed(gateway.approvals, await gateway.approvals.answerable(reviewer))
        assert shown["arguments"] == {"to": ANN}
        assert ANN in json.dumps(shown["request"])
        await gateway.approvals.decide(str(shown["id"]), approve=True, note="", principal=reviewer)
        await asyncio.to_thread(seen.reached, 2)
        while (
            known := await gateway.approvals.calls.own(answer.call_id, gateway.principal("bot"))
        ) and known.status != "ended":
            await gateway.approvals.calls.news.changed(0.05)
        assert known is not None
        assert known.envelope is not None
        assert (known.envelope["status"], known.envelope["data"]) == ("ok", {"sent": "<email:1>"})
        assert json.loads(sent(seen)[-1]) == {"to": ANN}
        assert ANN not in record(gateway)


async def test_an_edit_of_the_grants_makes_what_waits_stale(tmp_path: Path) -> None:
    ask = {**ALL, "id": "ask", "tools": ["orders__send_mail"], "verdict": "ask"}

    async with scenario(tmp_path, ask) as (gateway, seen):
        await health(gateway, seen, {"a": ANN})
        answer = await mail(gateway, "<email:1>")
        write_policy(tmp_path / "p", {"rules": [ALL, ask], "approvals": {"approvers": ["user"]}})
        assert await gateway.operations.reload()
        reviewer = gateway.principal("ann")
        await gateway.approvals.decide(answer.call_id, approve=True, note="", principal=reviewer)
        known = await gateway.approvals.calls.own(answer.call_id, gateway.principal("bot"))
        assert known is not None
        assert known.status == "ended"
        assert sent(seen) == []


async def test_a_number_is_put_back_as_a_number_and_an_error_does_not_tell_it(tmp_path: Path) -> None:
    async with scenario(
        tmp_path, tokens=[{**BACK, "tools": ["orders__create_order"], "kinds": ["card", "email"], "arguments": []}]
    ) as (gateway, seen):
        await health(gateway, seen, {"card": 4111111111111111, "mail": ANN})
        body: dict[str, Any] = {"tenant_id": "t", "amount_cents": "<card:1>", "note": "n"}
        assert code(await gateway.call("orders__create_order", body, principal="bot", session="s")) == "ok"
        assert json.loads(seen.requests[-1][2])["amount_cents"] == 4111111111111111
        body["amount_cents"] = "<email:1>"
        answer = await gateway.call("orders__create_order", body, principal="bot", session="s")
        assert code(answer) == "validation"
        assert ANN not in json.dumps(answer.to_dict())
        assert "4111111111111111" not in record(gateway)


async def test_more_values_than_are_kept_are_taken_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_vault, "MAX_VALUES", 3)

    async with scenario(tmp_path) as (gateway, seen):
        answer = await health(gateway, seen, [f"user{one}@mail.fr" for one in range(5)])
        assert answer.data == ["<email:1>", "<email:2>", "<email:3>", "[email]", "[email]"]
        assert (await health(gateway, seen, ["user0@mail.fr"])).data == ["<email:1>"]


@pytest.mark.parametrize("known", [True, False], ids=["the backup has numbers", "the backup has none"])
async def test_no_token_stands_for_another_value_after_a_restore(tmp_path: Path, known: bool) -> None:
    with upstream() as (seen, server):
        policy = {"rules": [ALL], "tokens": [BACK]}
        path = project(tmp_path / "p", server, policy, inspect_results=TOKENS, gateway={"turn_limit": "never"})
        settings, var = load_settings(path), path.parent / "var"

        async def with_gateway(steps: Callable[[Gateway], Awaitable[None]]) -> None:
            async with Gateway.load(path) as gateway:
                await steps(gateway)

        async def before(gateway: Gateway) -> None:
            if known:
                assert (await health(gateway, seen, [ANN])).data == ["<email:1>"]
            else:
                await health(gateway, seen, [])
            back_up(settings, tmp_path / "b")
            assert (await health(gateway, seen, [BEN])).data == [f"<email:{1 + known}>"]

        async def after(gateway: Gateway) -> None:
            token = (await health(gateway, seen, ["cy@mail.fr"])).data[0]
            assert int(token.removeprefix("<email:").removesuffix(">")) > 1_000_000
            assert (await mail(gateway, token)).status == "ok"
            assert json.loads(seen.requests[-1][2])["to"] == "cy@mail.fr"
            assert (await mail(gateway, f"<email:{1 + known}>")).error.code == "validation"
            if known:
                assert (await mail(gateway, "<email:1>")).status == "ok"
                assert json.loads(seen.requests[-1][2])["to"] == ANN

        await with_gateway(before)
        var.rename(tmp_path / "old")
        restore(settings, tmp_path / "b")
        for key in (tmp_path / "old" / "audit").glob("*.key"):
            shutil.copy2(key, var / "audit")
        await with_gateway(after)


async def test_a_number_is_on_the_disk_before_it_is_told(tmp_path: Path) -> None:
    vault = value_vault.SqliteVault(tmp_path / "values.db", SystemClock(), lambda: Seal(b"k" * 32))
    found = await vault._file.run(lambda connection: connection.execute("PRAGMA synchronous").fetchone()[0])
    await vault.close()
    result = int(found)
    assert result == 2  # FULL


async def test_every_worker_has_the_values_and_nobody_without_the_key(tmp_path: Path) -> None:
    (tmp_path / "redis").mkdir()
    server_ = RedisServer(tmp_path / "redis")
    server_.start()

    try:
        with upstream() as (seen, server):
            policy = {"rules": [ALL], "tokens": [BACK]}
            state = f"redis://127.0.0.1:{server_.port}/0"
            more: dict[str, Any] = {"state": state, "gateway": {"turn_limit": "never"}}
            path = project(tmp_path / "p", server, policy, inspect_results=TOKENS, **more)
            async with Gateway.load(path) as first, Gateway.load(path) as second:
                shown = await health(first, seen, [ANN, BEN])
                assert shown.data == ["<email:1>", "<email:2>"]
                assert (await health(second, seen, [BEN])).data == ["<email:2>"]
                assert code(await mail(second, "<email:2>")) == "ok"
                assert json.loads(sent(seen)[-1]) == {"to": BEN}
                assert code(await mail(second, "<email:3>")) == "validation"
                reader = Redis(port=server_.port)
                (name,) = reader.keys("*:values:of:*")
                kept = reader.hgetall(name)
                assert all(ANN.encode() not in one for pair in kept.items() for one in pair)
                stored = await health(first, seen, {"note": f"x{BEN}", "other": f"x{ANN}"}, "another session")
                assert stored.data == {"note": "x<email:3>", "other": "<email:4>"}  # no call was given the other
                reader.hset(name, "box email 2", kept[b"box email 1"])
                reader.close()
                assert (
                    code(await mail(second, "<email:2>")) == "upstream_unavailable"
                )  # what was moved there is not taken for the other
                server_.stop()
                assert code(await mail(second, "<email:1>")) == "upstream_unavailable"
                lost = await health(first, seen, [ANN])
                assert ANN not in json.dumps(lost.to_dict())
    finally:
        server_.stop()


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([{**BACK, "kinds": ["emial"]}], "no detector has tokens of the kind 'emial'"),
        ([{**BACK, "kinds": ["Email"]}], "is not a kind"),
        ([{**BACK, "arguments": ["too"]}], "has an argument 'too'.*did you mean"),
        ([{**BACK, "tools": ["orders__sendmail"]}], "matches no tool"),
        ([{**BACK, "to": ["bots"]}], "no principal has the role"),
    ],
)
async def test_a_grant_that_cannot_be_meant_stops_the_start(tmp_path: Path, tokens: list[Any], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        async with scenario(tmp_path, tokens=tokens):
            pass


@pytest.mark.parametrize(
    ("detector", "message"),
    [
        ({"detector": "instructions", "then": "tokenise"}, "cannot be replaced by tokens"),
        ({"detector": "own.Finder", "then": "tokenise"}, "needs the kinds"),
        ({"detector": "own.Finder", "then": "tokenise", "kinds": ["Code"]}, "is not a kind"),
    ],
)
async def test_what_has_no_tokens_stops_the_start(tmp_path: Path, detector: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        async with scenario(tmp_path, detectors=[detector], tokens=[]):
            pass


SHIFTS = [
    "12",
    "0",
    "4",
    "DE",
    "A",
    "GB82",
    "-",
    " ",
    "9" * 19,
    "x@",
    ".com",
    "a@b.fr",
    "%40",
    "password: ",
    "<",
    "\u200b",
    "&#64;",
    "4111 1111 1111 1111",
]
HIDDEN = ["GB82 WEST 1234 5698 7654 32", "4111 1111 1111 1111", "4111111111111111", ANN]


@pytest.mark.parametrize("value", HIDDEN)
async def test_text_beside_a_token_changes_nothing_in_what_is_found(tmp_path: Path, value: str) -> None:
    kinds = ["email", "card", "iban", "phone"]

    async with scenario(
        tmp_path, tokens=[{**BACK, "kinds": kinds}], detectors=[{"detector": "secrets", "then": "redact"}, *TOKENS]
    ) as (gateway, seen):
        token = (await health(gateway, seen, {"a": value})).data["a"]  # type: ignore[index, call-overload]
        for before in SHIFTS:
            for after in SHIFTS:
                seen.body = json.dumps({"echo": f"{before}{value}{after}", "other": f"to {BEN}"}).encode()
                answer = await mail(gateway, f"{before}{token}{after}")
                assert answer.status == "ok"
                shown = json.dumps(answer.data, ensure_ascii=False)
                for at in range(len(value) - 5):
                    piece = value[at : at + 6]
                    assert piece not in shown or piece in before or piece in after, (before, after, shown)
                assert token in shown
                assert BEN not in shown


async def test_a_value_beside_a_token_is_found_all_the_same(tmp_path: Path) -> None:
    async with scenario(tmp_path) as (gateway, seen):
        await health(gateway, seen, {"a": ANN})
        seen.body = json.dumps({"echo": f"{ANN} {BEN}", ANN: f"<email:1>{ANN}", "n": 4111111111111111}).encode()
        answer = await mail(gateway, "<email:1>")
        assert answer.data == {
            "echo": "<email:1> <email:2>",
            "<email:1>": "<\\email:1><email:1>",
            "n": "<card:1>",
        }


@pytest.mark.parametrize("value", HIDDEN)
@pytest.mark.parametrize("later", ["s", "another session"])
async def test_a_value_that_a_service_stored_is_told_as_a_token_in_later_calls(
    tmp_path: Path, value: str, later: str
) -> None:
    """An agent has text stored beside a token, and reads it back."""

    async with scenario(
        tmp_path,
        tokens=[{**BACK, "kinds": ["email", "card", "iban", "phone"]}],
        detectors=[{"detector": "secrets", "then": "redact"}, *TOKENS],
    ) as (gateway, seen):
        shown_first: Any = (await health(gateway, seen, {"a": value})).data
        token = shown_first["a"]
        seen.body = b"{}"
        assert (await mail(gateway, f"x{token}")).status == "ok"
        for before in SHIFTS:
            for after in SHIFTS:
                text = f"{before}{value}{after}"
                answer = await health(gateway, seen, {"note": text, text: 1, "other": f"to {BEN}"}, later)
                assert answer.status == "ok"
                shown = json.dumps(answer.data, ensure_ascii=False)
                for at in range(len(value) - 5):
                    piece = value[at : at + 6]
                    assert piece not in shown or piece in before or piece in after, (before, after, shown)
                assert (token if later == "s" else token.partition(":")[0]) in shown
                assert BEN not in shown


async def test_an_error_tells_no_piece_of_a_value_that_an_earlier_call_was_given(tmp_path: Path) -> None:
    async with scenario(tmp_path) as (gateway, seen):
        await health(gateway, seen, {"a": ANN})
        seen.body = b"{}"
        await mail(gateway, "x<email:1>")
        seen.status = 400
        seen.body = json.dumps({"message": f"the note x{ANN} is wrong near {ANN[2:11]}"}).encode()
        answer = await gateway.call("orders__get_health", {}, principal="bot", session="s")
        assert answer.error is not None
        assert ANN[2:9] not in answer.error.message
        assert "x<email:1> is wrong near [email]" in answer.error.message
