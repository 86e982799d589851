"""A project's own checks around real calls: what they see, what they may change, and that nothing they do gets past a guard."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toolgen
from tests.exhaustive import examples
from tests.gateway.governed import Upstream, project, upstream
from tests.projects import audit_entries
from toolgen.config.policies import load_policy
from toolgen.config.settings import load
from toolgen.core.errors import ConfigError
from toolgen.core.json_codec import MAX_DEPTH
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.catalog.served_catalog import catalog_of
from toolgen.model.middleware import CallView, Change, Middleware, Narrow, Refuse, ResultView
from toolgen.model.result import Envelope

ALL = {"id": "all", "to": ["bot"], "tools": ["orders__*"], "verdict": "allow"}
_RELEASE = threading.Event()


async def limited(limit: int = 10, tags: list[str] | None = None, everything: bool = False) -> dict[str, Any]:
    """Answers with what it was given."""
    return {"limit": limit, "tags": tags, "everything": everything}


async def failing() -> str:
    """Fails in a way that it explains."""
    raise toolgen.ToolError("no such customer")


async def called(
    middleware: Sequence[object], name: str = "limited", arguments: dict[str, Any] | None = None, **more: Any
) -> tuple[Envelope, list[dict[str, Any]]]:
    """One call to a function behind a middleware, and the record."""

    gateway = Gateway.from_functions(limited, failing, middleware=middleware)
    async with gateway:
        envelope = await gateway.call(name, arguments or {}, principal="agent", **more)
        return envelope, audit_entries(gateway)


def decisions(entries: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(entry["rule"], entry["status"]) for entry in reversed(entries) if entry["event"] == "decision"]


def code(envelope: Envelope) -> str:
    return envelope.error.code if envelope.error is not None else envelope.status


class Halving(Middleware):
    async def before(self, call: CallView) -> Narrow:
        return Narrow(arguments={"limit": call.arguments["limit"] // 2})  # type: ignore[operator]


async def test_it_narrows_arguments_and_the_record_has_what_was_sent() -> None:
    envelope, entries = await called([Halving(), Halving()], arguments={"limit": 40})
    assert envelope.data["limit"] == 10  # type: ignore[index, call-overload]
    narrowed = [entry for entry in reversed(entries) if entry["event"] == "decision"]
    assert [entry["arguments"] for entry in narrowed] == [{"limit": 20}, {"limit": 10}]
    assert all(entry["status"] == "narrowed" and entry["policy_digest"].startswith("sha256:") for entry in narrowed)


async def test_it_is_an_onion_around_what_the_gateway_does() -> None:
    order: list[str] = []

    class Ring(Middleware):
        def __init__(self, name: str) -> None:
            self.name = name

        async def before(self, call: CallView) -> None:
            order.append(f"{self.name} before")

        async def after(self, call: CallView, result: ResultView) -> None:
            order.append(f"{self.name} after {result.status}")

    await called([Ring("outer"), Ring("inner")])
    assert order == ["outer before", "inner before", "inner after ok", "outer after ok"]


class Wide(Middleware):
    def __init__(self, **changes: Any) -> None:
        self.changes = changes

    async def before(self, call: CallView) -> Narrow:
        return Narrow(arguments=self.changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"limit": 41},
        {"limit": -1},
        {"limit": 39.5 + 1},
        {"limit": float("nan")},
        {"limit": True},
        {"limit": "40"},
        {"tags": ["a", "c"]},
        {"tags": ["b", "a"]},
        {"tags": ["a", "a"]},
        {"tags": None},
        {"everything": True},
        {"unknown": 1},
    ],
    ids=str,
)
async def test_what_asks_for_more_is_refused_and_never_sent(changes: dict[str, Any]) -> None:
    arguments = {"limit": 40, "tags": ["a", "b"], "everything": False}
    envelope, entries = await called([Wide(**changes)], arguments=arguments)
    assert code(envelope) == "middleware_failed"
    assert envelope.error is not None
    assert envelope.error.rule == f"middleware:{__name__}.Wide"
    assert decisions(entries) == [(f"middleware:{__name__}.Wide", "widened")]
    assert [entry["status"] for entry in entries if entry["event"] == "outcome"] == ["refused"]


async def test_less_of_a_list_is_less() -> None:
    assert (await called([Wide(tags=["b"])], arguments={"tags": ["a", "b"]}))[0].data["tags"] == ["b"]  # type: ignore[index, call-overload]


async def test_arguments_that_it_adds_are_held_against_the_schema() -> None:
    assert code((await called([Wide(limit=1.5)], arguments={"tags": ["a"]}))[0]) == "validation"
    assert (await called([Wide(limit=3)], arguments={"tags": ["a"]}))[0].data["limit"] == 3  # type: ignore[index, call-overload]


class Raising(Middleware):
    async def before(self, call: CallView) -> None:
        raise RuntimeError("canary-in-the-text")


class Sleeping(Middleware):
    async def before(self, call: CallView) -> None:
        await asyncio.Event().wait()


class Stubborn(Middleware):
    async def before(self, call: CallView) -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue


class Blocking(Middleware):
    def before(self, call: CallView) -> None:
        _RELEASE.wait(300)


class Leaving(Middleware):
    async def before(self, call: CallView) -> None:
        sys.exit(3)


class Cancelling(Middleware):
    async def before(self, call: CallView) -> None:
        raise asyncio.CancelledError


class Talking(Middleware):
    async def before(self, call: CallView) -> Any:
        return "yes"


@pytest.mark.parametrize(
    ("middleware", "status"),
    [
        (Raising(), "raised"),
        (Sleeping(), "timeout"),
        (Stubborn(), "timeout"),
        (Blocking(), "timeout"),
        (Leaving(), "raised"),
        (Cancelling(), "raised"),
        (Talking(), "answered"),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Middleware) else one,
)
async def test_one_that_fails_refuses_each_call_by_itself_and_the_gateway_goes_on(
    middleware: Middleware, status: str
) -> None:
    _RELEASE.clear()

    try:
        gateway = Gateway.from_functions(limited, failing, middleware=[middleware])
        async with gateway:
            many = await asyncio.gather(*(gateway.call("limited", {}, principal="agent") for _ in range(3)))
            assert [code(one) for one in many] == ["middleware_failed"] * 3
            entries = audit_entries(gateway)
        name = f"middleware:{__name__}.{type(middleware).__name__}"
        assert decisions(entries) == [(name, status)] * 3
        assert "canary" not in json.dumps([entries, [one.to_dict() for one in many]])
        assert {entry["policy_digest"] for entry in entries if entry["event"] == "decision"} == {
            gateway._checks.hooks[0].digest  # type: ignore[union-attr]
        }
    finally:
        _RELEASE.set()


async def test_one_that_waits_in_its_time_is_waited_for() -> None:
    class Patient(Middleware):
        timeout_s = 60.0

        async def before(self, call: CallView) -> None:
            async with asyncio.timeout(60):
                await asyncio.sleep(0)
            try:
                async with asyncio.timeout(0.001):
                    await asyncio.Event().wait()
            except TimeoutError:
                await asyncio.sleep(0)

    assert code((await called([Patient()]))[0]) == "ok"


class Two(dict[str, Any]):
    """Says one thing when it is judged, and another when it is sent."""

    asked = 0

    def items(self) -> Any:
        self.asked += 1
        return {"limit": 1 if self.asked == 1 else 1_000}.items()


class Small(int):
    """Says of itself that it is smaller than anything."""

    def __le__(self, other: object) -> bool:
        return True

    __ge__ = __eq__ = __le__

    def __hash__(self) -> int:
        return 0


@pytest.mark.parametrize("changes", [Two(limit=1_000), {"limit": Small(1_000)}, {"tags": Two({"a": 1})}])
async def test_what_is_judged_is_what_is_sent_whatever_its_class_says_of_itself(changes: Any) -> None:
    class Sly(Middleware):
        async def before(self, call: CallView) -> Narrow:
            return Narrow(arguments=changes)

    envelope, entries = await called([Sly()], arguments={"limit": 5, "tags": ["a"]})
    assert code(envelope) == "middleware_failed"
    assert [status for _, status in decisions(entries)] == ["widened"]


async def test_what_is_kept_of_arguments_and_data_changes_neither_call_nor_answer_nor_what_is_recorded() -> None:
    kept: list[Any] = []

    class Keeping(Middleware):
        async def before(self, call: CallView) -> Narrow:
            kept.append({"tags": ["a"]})
            asyncio.get_running_loop().call_soon(lambda: kept[0].update(tags=["z"], limit=1_000))
            asyncio.get_running_loop().call_soon(kept[0]["tags"].append, "z")
            return Narrow(arguments=kept[0])

        async def after(self, call: CallView, result: ResultView) -> None:
            data: Any = result.data
            data["tags"].append("z")
            data["limit"] = 1_000

    envelope, entries = await called([Keeping(), Keeping()], arguments={"limit": 5, "tags": ["a", "b"]})
    assert envelope.data == {"limit": 5, "tags": ["a"], "everything": False}
    assert {status for _, status in decisions(entries)} == {"narrowed"}


class NoError(BaseException):
    """What no `except Exception` catches."""


@pytest.mark.parametrize("raised", [KeyboardInterrupt, GeneratorExit, NoError, SystemExit, asyncio.CancelledError])
@pytest.mark.parametrize("place", ["before", "after", "shows"])
async def test_whatever_it_raises_refuses_its_call_and_the_next_is_served(
    raised: type[BaseException], place: str
) -> None:
    times: list[int] = []

    def shows(*_: object) -> bool:
        times.append(1)
        if len(times) == 1:
            raise raised
        return True

    async def hook(*_: object) -> None:
        shows()

    refused = {"before": "middleware_failed", "after": "result_withheld", "shows": "outside_catalog"}
    made = type("Failing", (Middleware,), {place: shows if place == "shows" else hook})()
    async with Gateway.from_functions(limited, middleware=[made]) as gateway:
        found = [code(await gateway.call("limited", {}, principal="agent")) for _ in range(2)]
    assert found == [refused[place], "ok"]


async def test_it_refuses_in_words_of_its_own() -> None:
    async def closed(call: CallView) -> Refuse:
        return Refuse(message=f"{call.tool.name} is closed", suggestion="come back tomorrow")

    envelope, entries = await called([closed])
    assert envelope.error is not None
    assert (envelope.error.code, envelope.error.message) == ("forbidden", "limited is closed")
    assert envelope.error.suggestion == "come back tomorrow"
    assert decisions(entries)[0][1] == "refused"


async def test_it_changes_an_answer_and_tells_more_of_a_failure() -> None:
    class After(Middleware):
        async def after(self, call: CallView, result: ResultView) -> Change:
            if result.status == "error":
                return Change(suggestion="search for the customer first")
            return Change(data={**result.data, "stamped": call.principal.id})  # type: ignore[dict-item]

    envelope, entries = await called([After()])
    assert envelope.data["stamped"] == "agent"  # type: ignore[index, call-overload]
    assert decisions(entries)[0][1] == "changed"
    failed, _ = await called([After()], "failing")
    assert failed.error is not None
    assert (failed.error.code, failed.error.suggestion) == ("handler_error", "search for the customer first")


@pytest.mark.parametrize("kind", ["raises", "no_json", "label", "refuses"])
async def test_an_answer_is_withheld_where_a_check_of_it_fails(kind: str) -> None:
    class After(Middleware):
        async def after(self, call: CallView, result: ResultView) -> Change | Refuse:
            match kind:
                case "raises":
                    raise RuntimeError("canary")
                case "no_json":
                    return Change(data=object())  # type: ignore[arg-type]
                case "label":
                    return Change(labels=["undeclared"])
            return Refuse(message="not for you")

    envelope, entries = await called([After()])
    assert (envelope.status, code(envelope), envelope.data) == ("error", "result_withheld", None)
    (outcome,) = (entry for entry in entries if entry["event"] == "outcome")
    assert (outcome["status"], outcome["code"]) == ("error", "result_withheld")
    assert outcome["rule"] != ""


async def test_what_it_sees_cannot_be_changed_by_it_and_holds_no_secret(tmp_path: Path) -> None:
    seen: list[CallView] = []

    class Grabbing(Middleware):
        async def before(self, call: CallView) -> None:
            seen.append(call)
            with pytest.raises(TypeError):
                call.arguments["text"] = "other"  # type: ignore[index]
            call.arguments["inner"]["text"] = "other"  # type: ignore[index, call-overload]
            with pytest.raises(AttributeError):
                call.principal.id = "root"  # type: ignore[misc]

    (tmp_path / "sealed_tools.py").write_text(
        "import toolgen\nfrom typing import Annotated\n"
        "@toolgen.tool(effect='read')\nasync def keep(text: str, inner: dict[str, str], password: str) -> dict[str, str]:\n"
        '    """Keeps."""\n    return {**inner, "text": text}\n'
    )
    policy = {
        "principals": {"agent": {"api_key": "sha256:" + "0" * 64, "roles": ["bot"]}},
        "rules": [{"id": "all", "to": ["bot"], "tools": ["*"], "verdict": "allow"}],
        "sensitive": ["$.password"],
    }
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "policy.yaml").write_text(json.dumps(policy))
    (tmp_path / "toolgen.yaml").write_text(json.dumps({"sources": {"own": {"python": "sealed_tools"}}}))

    settings = load(tmp_path / "toolgen.yaml")
    manifest = catalog_of(settings)
    policy = load_policy(settings.policies, manifest)
    gateway = Gateway(settings=settings, manifest=manifest, policy=policy, middleware=[Grabbing()])
    arguments = {"text": "a", "inner": {"text": "b"}, "password": "canary-password"}
    async with gateway:
        envelope = await gateway.call("own__keep", arguments, principal="agent")
    assert envelope.data == {"text": "a"}
    assert "canary-password" not in repr(seen)
    assert "hmac-sha256" in repr(seen)


# What follows is in a project with a policy, an API of its own, and toolgen.yaml.

CHECKS = '''
import toolgen

class Lower(toolgen.Middleware):
    """Lowers an amount, or adds one."""
    def __init__(self, amount):
        self.amount = amount
    async def before(self, call):
        if "amount_cents" in call.tool.name or call.tool.name.endswith("create_order"):
            return toolgen.Narrow(arguments={"amount_cents": self.amount})

class Noting(toolgen.Middleware):
    """Adds a note to an order that has none."""
    async def before(self, call):
        if call.tool.name.endswith("create_order") and "note" not in call.arguments:
            return toolgen.Narrow(arguments={"note": "checked"})

class Labels(toolgen.Middleware):
    async def after(self, call, result):
        if call.tool.name.endswith("get_health"):
            return toolgen.Change(labels=["private"])

class Steps(toolgen.Middleware):
    """Mail is there only as long as nothing private was read."""
    def shows(self, step, tool):
        return not (tool.name.endswith("send_mail") and ("private" in step.labels or step.session == "closed"))

async def stamp(call):
    return None
'''
Steps = Callable[[Gateway, Upstream], Awaitable[None]]


@asynccontextmanager
async def scenario(
    root: Path, policy: dict[str, Any], middleware: list[Any]
) -> AsyncIterator[tuple[Gateway, Upstream]]:
    with upstream() as (seen, server):
        (root / "p").mkdir()
        path = project(root / "p", server, policy, middleware=middleware)
        name = f"checks_{abs(hash(str(root)))}"
        (root / "p" / f"{name}.py").write_text(CHECKS)
        path.write_text(path.read_text().replace("own_checks", name))
        async with Gateway.load(path) as gateway:
            yield gateway, seen


def order(amount: int, **more: Any) -> dict[str, Any]:
    return {"tenant_id": "acme", "amount_cents": amount, **more}


async def test_what_is_narrowed_is_judged_by_the_policy_again(tmp_path: Path) -> None:
    rule = {**ALL, "id": "big", "tools": ["orders__create_order"], "verdict": "deny", "when": "args.amount_cents < 20"}

    use = {"use": "own_checks.Lower", "options": {"amount": 10}}
    async with scenario(tmp_path, {"rules": [ALL, rule]}, [use]) as (gateway, seen):
        envelope = await gateway.call("orders__create_order", order(100), principal="bot")
        assert envelope.error is not None
        assert (envelope.error.code, envelope.error.rule) == ("forbidden", "big")
        assert seen.requests == []


async def test_a_sum_of_a_session_counts_what_was_sent_and_no_more(tmp_path: Path) -> None:
    ceiling = {
        **ALL,
        "id": "ceiling",
        "tools": ["orders__create_order"],
        "verdict": "deny",
        "when": "session.sum('orders__create_order', 'amount_cents') + args.amount_cents > 100",
    }

    use = {"use": "own_checks.Lower", "options": {"amount": 30}}
    async with scenario(tmp_path, {"rules": [ALL, ceiling]}, [use]) as (gateway, seen):
        outcomes = [
            code(await gateway.call("orders__create_order", order(60), principal="bot", session="s")) for _ in range(4)
        ]
        assert outcomes == ["ok", "ok", "forbidden", "forbidden"]  # 30, 60, then 60 + 60
        assert [json.loads(body)["amount_cents"] for _, _, body in seen.requests] == [30, 30]


async def test_a_person_agrees_to_the_narrowed_call_and_it_is_made_as_it_was_shown(tmp_path: Path) -> None:
    asking = {**ALL, "id": "asking", "tools": ["orders__create_order"], "verdict": "ask"}
    policy = {"rules": [ALL, asking], "approvals": {"approvers": ["user"]}}

    async with scenario(tmp_path, policy, ["own_checks.Noting"]) as (gateway, seen):
        waiting = await gateway.call("orders__create_order", order(60), principal="bot", session="s")
        assert code(waiting) == "approval_required"
        person = gateway.principal("ann")
        (shown,) = await gateway.approvals.answerable(person)
        assert shown.arguments["note"] == "checked"
        await gateway.approvals.decide(waiting.call_id, approve=True, note="", principal=person)
        await asyncio.to_thread(seen.reached, 1)
        assert json.loads(seen.requests[0][2])["note"] == "checked"


async def test_an_argument_that_the_policy_sets_is_not_its_to_change(tmp_path: Path) -> None:
    policy = {
        "rules": [{**ALL, "bind": {"amount_cents": "principal.attributes.limit"}, "tools": ["orders__create_order"]}]
    }

    async with scenario(tmp_path, policy, [{"use": "own_checks.Lower", "options": {"amount": 1}}]) as (gateway, seen):
        envelope = await gateway.call("orders__create_order", {"tenant_id": "acme"}, principal="bot")
        assert code(envelope) == "middleware_failed"
        assert seen.requests == []


async def test_a_label_that_it_sets_closes_the_way_out(tmp_path: Path) -> None:
    closed = {
        **ALL,
        "id": "closed",
        "tools": ["orders__send_mail"],
        "verdict": "deny",
        "when": "'private' in session.labels",
    }

    use = {"use": "own_checks.Labels", "labels": ["private"]}
    async with scenario(tmp_path, {"rules": [ALL, closed]}, [use]) as (gateway, _):

        async def mail(session: str) -> str:
            return code(await gateway.call("orders__send_mail", {"to": "x"}, principal="bot", session=session))

        assert await mail("one") == "ok"
        await gateway.call("orders__get_health", {}, principal="bot", session="one")
        assert (await mail("one"), await mail("two")) == ("forbidden", "ok")


async def test_a_step_has_the_catalog_that_it_is_shown_and_a_call_outside_is_refused(tmp_path: Path) -> None:
    uses = [{"use": "own_checks.Labels", "labels": ["private"]}, "own_checks.Steps"]
    closed = {
        **ALL,
        "id": "closed",
        "tools": ["orders__list_orders"],
        "verdict": "deny",
        "when": "'private' in session.labels",
    }
    async with scenario(tmp_path, {"rules": [ALL, closed]}, uses) as (gateway, seen):
        bot = gateway.principal("bot")

        def names(session: str | None) -> set[str]:
            return {tool.name for tool in gateway.tool_calls.offered(bot, session)}

        assert "orders__send_mail" in names(None)  # the registry
        assert "orders__send_mail" in names("one")
        assert names(None) - names("closed") == {"orders__send_mail"}
        assert gateway.tool_calls.offered(bot, "closed") is gateway.tool_calls.offered(bot, "closed")
        envelope = await gateway.call("orders__send_mail", {"to": "x"}, principal="bot", session="closed")
        assert code(envelope) == "outside_catalog"
        assert code(await gateway.call("orders__send_mail", {"to": "x"}, principal="bot", session="one")) == "ok"
        await gateway.call("orders__get_health", {}, principal="bot", session="one")
        assert "orders__send_mail" not in names("one")
        seen.requests.clear()
        assert (
            code(await gateway.call("orders__send_mail", {"to": "x"}, principal="bot", session="one"))
            == "outside_catalog"
        )
        assert seen.requests == []
        unknown = await gateway.call("orders__nothing", {}, principal="bot", session="closed")
        assert code(unknown) == "unknown_tool"


async def test_a_dry_run_shows_what_would_be_sent(tmp_path: Path) -> None:
    async with scenario(tmp_path, {"rules": [ALL]}, ["own_checks.Noting"]) as (gateway, seen):
        shown = await gateway.preview("orders__create_order", order(60), principal="bot")
        assert json.loads(shown.data["body"])["note"] == "checked"  # type: ignore[index, call-overload]
        assert seen.requests == []


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("own_checks.nothing", "has no 'nothing'"),
        ("no_such_module.stamp", "there is no module no_such_module"),
        ("stamp", "is not a name like"),
        ({"use": "own_checks.Lower"}, "cannot be made with its options"),
        ({"use": "own_checks.stamp", "options": {"a": 1}}, "takes no options"),
        ({"use": "own_checks.toolgen"}, "is not a middleware"),
        ({"use": "own_checks.stamp", "timeout": "20s"}, "timeout: takes a time"),
        ({"opa": {"url": "ftp://x"}}, "url: takes an http"),
        ({"opa": {"url": "http://x"}, "use": "own_checks.stamp"}, "takes one of"),
        ({"cedar": {"policies": "none.cedar"}}, "there is no file none.cedar"),
        ({"uses": "own_checks.stamp"}, "uses"),
    ],
)
async def test_what_cannot_be_loaded_stops_the_start_with_its_line(tmp_path: Path, entry: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        async with scenario(tmp_path, {"rules": [ALL]}, [entry]):
            ...
    assert message in str(caught.value)
    assert "toolgen.yaml:" in str(caught.value)


class Anything(Middleware):
    """Answers with whatever a property draws."""

    def __init__(self, before: Any, after: Any, seen: list[str]) -> None:
        self.answers, self.seen = (before, after), seen

    async def before(self, call: CallView) -> Any:
        self.seen.append("before")
        return _told(self.answers[0])

    async def after(self, call: CallView, result: ResultView) -> Any:
        self.seen.append("after")
        return _told(self.answers[1])


def _told(answer: Any) -> Any:
    if isinstance(answer, Exception):
        raise answer
    return answer


_VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-50, 50), st.lists(st.sampled_from("ab"), max_size=2), st.text(max_size=2)
)
_CHANGES = st.dictionaries(st.sampled_from(["limit", "tags", "everything", "other"]), _VALUES, max_size=2)
_BEFORE = st.one_of(
    st.none(),
    st.builds(lambda changes: Narrow(arguments=changes), _CHANGES),
    st.just(Refuse(message="no")),
    st.just(RuntimeError()),
    st.just(3),
)
_AFTER = st.one_of(
    st.none(), st.just(Change(data=1)), st.just(Refuse(message="no")), st.just(RuntimeError()), st.just([])
)
_SEEN: list[dict[str, Any]] = []


async def recorded(limit: int = 10, tags: list[str] | None = None, everything: bool = False) -> int:
    """Remembers what it was given."""
    _SEEN.append({"limit": limit, "tags": tags, "everything": everything})
    return limit


@pytest.mark.sweep
@settings(max_examples=examples(120), deadline=None)
@given(st.lists(st.tuples(_BEFORE, _AFTER), min_size=1, max_size=3), st.integers(1, 30), st.booleans())
async def test_no_middleware_skips_a_stage_or_has_one_twice(
    drawn: list[tuple[Any, Any]], limit: int, paused: bool
) -> None:
    """Whatever they answer: one intent, one outcome, at most one delivery, of arguments that the schema has and that ask for no more."""

    seen: list[str] = []
    _SEEN.clear()
    gateway = Gateway.from_functions(recorded, middleware=[Anything(*each, seen) for each in drawn])
    async with gateway:
        if paused:
            await gateway.pausing.pause(principal="agent", source="", tool="", reason="", by="test")
        given = {"limit": limit, "tags": ["a", "b"]}
        envelope = await gateway.call("recorded", given, principal="agent")
        entries = audit_entries(gateway)
    events = [entry["event"] for entry in entries if entry.get("call_id") == envelope.call_id]
    assert events.count("intent") == events.count("outcome") == 1
    assert events[0] == "outcome"  # the newest: nothing is said behind it
    assert events[-1] == "intent"
    assert len(_SEEN) <= 1
    if paused:
        assert (seen, _SEEN, code(envelope)) == ([], [], "paused")
    if envelope.status == "ok":
        assert len(_SEEN) == 1
    for sent in _SEEN:
        assert 0 <= sent["limit"] <= limit
        assert sent["tags"] in (["a", "b"], ["a"], ["b"], [])
        assert seen.count("after") <= len(drawn)
    if "after" in seen:
        assert len(_SEEN) == 1


def _nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value, 0, 0, 0]
    return value


@pytest.mark.parametrize(
    "value",
    [
        _nested(MAX_DEPTH + 1),
        _nested(195),
        b"bytes",
        {1, 2},
        Decimal("1.5"),
        datetime(2026, 1, 1, tzinfo=UTC),
        object(),
    ],
    ids=["65", "195", "bytes", "set", "decimal", "datetime", "object"],
)
async def test_what_is_no_json_or_nested_too_deeply_is_a_failure_of_the_check(value: Any) -> None:
    class Narrowing(Middleware):
        async def before(self, call: CallView) -> Narrow:
            return Narrow(arguments={"limit": value})

    class Changing(Middleware):
        async def after(self, call: CallView, result: ResultView) -> Change:
            return Change(data=value)

    narrowed, _ = await called([Narrowing()])
    assert (narrowed.status, narrowed.data) == ("refused", None)
    changed, entries = await called([Changing()])
    assert (changed.status, changed.data) == ("error", None)
    assert changed.error is not None
    assert "is withheld" in changed.error.message
    assert [entry["event"] for entry in entries if entry.get("call_id") == changed.call_id].count("outcome") == 1


async def test_an_answer_that_a_check_changed_is_given_up_to_the_limit() -> None:
    class Changing(Middleware):
        async def after(self, call: CallView, result: ResultView) -> Change:
            return Change(data=_nested(MAX_DEPTH))

    assert (await called([Changing()]))[0].data == _nested(MAX_DEPTH)
