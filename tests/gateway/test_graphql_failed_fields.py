"""Fields that failed for a principal are left out of what it reads by default, for a while and not in silence."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.graphql.reading import binding, read_sdl, tools_of
from tests.services.library import serving
from tests.services.tracker import SDL, application
from toolgen.connectors.graphql.failed_fields import FailedFields
from toolgen.connectors.graphql.options import GraphOptions
from toolgen.core.clock import FixedClock
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.call import Call, Principal
from toolgen.model.result import Envelope, Failed, Shape, Success
from toolgen.model.tool import absent

LEFT_OUT = "left out: this field failed for you before"


@pytest.fixture(name="served", scope="module")
def _served() -> Iterator[tuple[str, list[Any]]]:
    app, seen = application()
    with serving(app) as origin:
        yield origin, seen


async def calls(
    root: Path, served: tuple[str, list[Any]], *asked: tuple[str, str, Any], **source: Any
) -> list[Envelope]:
    principals = {
        name: {"api_key": f"sha256:{digit * 64}", "roles": ["bot"]} for name, digit in (("ann", "1"), ("bob", "2"))
    }
    policy = {
        "principals": principals,
        "rules": [
            {"id": "all", "to": ["bot"], "tools": ["t__*"], "effects": ["read", "destructive"], "verdict": "allow"}
        ],
        "egress": {"private_networks": "allow"},
    }
    (root / "policies").mkdir()
    (root / "policies" / "p.yaml").write_text(json.dumps(policy), encoding="utf-8")
    (root / "t.graphql").write_text(SDL, encoding="utf-8")
    path = root / "toolgen.yaml"
    said = {"graphql": "t.graphql", "endpoint": f"{served[0]}/graphql", **source}
    path.write_text(json.dumps({"sources": {"t": said}, "audit": {"dir": "audit"}}), encoding="utf-8")
    served[1].clear()

    async with Gateway.load(path) as gateway:
        return [await gateway.call(f"t__{name}", given, principal=who) for who, name, given in asked]


async def test_what_failed_before_is_left_out_for_whom_it_failed(tmp_path: Path, served: tuple[str, list[Any]]) -> None:
    one = {"id": "1"}
    first, second, third, other, chosen = await calls(
        tmp_path,
        served,
        ("ann", "get_issue", one),
        ("ann", "get_issue", one),
        ("ann", "get_issue", one),
        ("bob", "get_issue", one),
        ("ann", "get_issue", {**one, "fields": "boss { id } id"}),
    )
    assert first.error is not None
    assert first.error.suggestion.startswith("call again: ")
    assert (second.status, third.status) == ("ok", "ok")
    assert second.data["issue"]["title"] == "An issue"
    told = {(".".join(map(str, error["path"])), error["message"][:42]) for error in third.meta.partial}
    assert {("issue.boss", LEFT_OUT), ("issue.secret", LEFT_OUT)} <= told
    assert "boss" not in served[1][1]["query"]
    assert served[1][1]["query"] != served[1][0]["query"]
    assert (other.status, chosen.status) == ("error", "error")
    assert "boss" in served[1][3]["query"]
    assert "boss" in served[1][4]["query"]


async def test_a_change_is_asked_for_as_it_is_stored(tmp_path: Path, served: tuple[str, list[Any]]) -> None:
    made = await calls(tmp_path, served, *[("ann", "rename", {"id": "1", "title": "x"})] * 2)
    assert [one.status for one in made] == ["ok", "ok"]
    assert served[1][0]["query"] == served[1][1]["query"]


def call(who: str = "ann") -> Call:
    return Call(id="c", tool=absent("t__get"), arguments={}, principal=Principal(id=who))


def failed(*paths: list[Any], data: Any = None) -> Failed | Success:
    told = {"data": data, "errors": [{"message": "no", "path": path} for path in paths]}
    return Success(data=told, shape=Shape.GRAPHQL)


@pytest.mark.parametrize(
    ("data", "path", "left_out"),
    [
        ({"a": {"b": None, "c": 1}}, ["a", "b"], {("a", "b")}),
        ({"a": [{"b": None}, {"b": None}]}, ["a", 0, "b"], {("a", "b")}),
        ({"a": [{"b": None}, {"b": 1}]}, ["a", 0, "b"], set()),  # it answers for others
        ({"a": None, "d": 1}, ["a", "b", "c"], {("a", "b", "c")}),
        ({"a": None, "d": 1}, ["a"], set()),  # a root field is what the tool is about
        ({"a": {"b": 0}}, [], set()),
    ],
)
def test_a_field_is_left_out_only_where_it_failed_everywhere(data: Any, path: list[Any], left_out: Any) -> None:
    known = FailedFields(FixedClock())
    known.with_messages(call(), failed(path, data=data), frozenset())
    assert known.paths(call()) == left_out
    assert known.paths(call("bob")) == frozenset()


def test_a_field_is_asked_for_again_after_a_while() -> None:
    clock = FixedClock()
    known = FailedFields(clock)
    known.with_messages(call(), failed(["a", "b"], data={"a": {"b": None}}), frozenset())
    clock.advance(899)
    assert known.paths(call())
    clock.advance(2)
    assert not known.paths(call())


def test_what_failed_long_ago_takes_no_place_of_what_fails_now() -> None:
    clock = FixedClock()
    known = FailedFields(clock)
    names = [f"f{number}" for number in range(60)]
    lost = failed(*(["a", name] for name in names), data={"a": dict.fromkeys(names)})
    known.with_messages(call(), lost, frozenset())
    assert len(known.paths(call())) == 50
    clock.advance(901)
    known.with_messages(call(), failed(["a", "f59"], data={"a": {"f59": None}}), frozenset())
    assert known.paths(call()) == {("a", "f59")}
    # One that fails again while others fill the room is left out for another while.
    known.with_messages(call(), lost, frozenset())
    clock.advance(800)
    known.with_messages(call(), failed(["a", "f59"], data={"a": {"f59": None}}), frozenset())
    clock.advance(200)
    assert known.paths(call()) == {("a", "f59")}


def test_toolgen_yaml_names_what_is_never_read_by_default(tmp_path: Path) -> None:
    options = GraphOptions(leave_out=("Issue.secret", "Issue.boss", "User.e*"))
    operation = binding(tools_of(read_sdl(tmp_path, SDL, graph=options))["s__get_issue"]).operation
    assert not {"secret", "boss", "email"} & set(operation.split())
    assert {"title", "owner"} <= set(operation.split())


async def test_leave_out_is_read_from_toolgen_yaml(tmp_path: Path, served: tuple[str, list[Any]]) -> None:
    [answer] = await calls(
        tmp_path, served, ("ann", "get_issue", {"id": "1"}), leave_out=["*.boss", "*.secret", "*.email"]
    )
    assert (answer.status, answer.meta.partial) == ("ok", None)
