"""The call inside a `run_tool`: exactly the arguments that are meant, in every form that clients send, or a refusal that names them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.catalogs import http_tool
from toolgen.gateway.calls.inner_call import InnerCallError, inner_call
from toolgen.model.tool import Tool

NAME = "gh__get_repo"
OWN = ["owner", "repo", "name", "arguments", "args", "limit", "answer", "query", "tool"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('ab{}"[]: ', max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*OWN, "other"]), inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "arguments", "args"]), inner | st.just(NAME), max_size=3)
    ),
    max_leaves=6,
)


def tool(*names: str, **schema: Any) -> Tool:
    return http_tool(NAME, properties=dict.fromkeys(names, True), **schema)


def call(sent: Mapping[str, Any], *tools: Tool) -> tuple[str, Mapping[str, Any]]:
    made = inner_call(sent, {one.name: one for one in tools})
    return made.name, made.arguments


class Drawn(NamedTuple):
    """A tool, the arguments that are meant for it, and a form of them; `form` says which."""

    tool: Tool
    meant: dict[str, Any]
    sent: dict[str, Any]
    form: str


@st.composite
def drawn(draw: st.DrawFn) -> Drawn:
    own = draw(st.sets(st.sampled_from(OWN), max_size=6))
    opened = draw(st.sampled_from([{}, {}, {"additionalProperties": False}, {"additionalProperties": True}]))
    behind = draw(st.booleans())
    made = tool(*own, **opened)
    if behind:
        made = tool(allOf=[{"properties": dict.fromkeys(own, True)}], **opened)
    names = [*own, *(["extra", "name", "arguments", "args"] if opened.get("additionalProperties") is True else [])]
    meant = draw(st.dictionaries(st.sampled_from(names), VALUES, max_size=4)) if names else {}
    as_text = draw(st.booleans())
    held: Any = json.dumps(meant, indent=draw(st.sampled_from([None, 1]))) if as_text else meant
    form = draw(
        st.sampled_from(
            ["plain", "args", "null", "beside", "partly", "repeated", "doubled", "within", "both", "nothing"]
        )
    )
    beside = [key for key in meant if key not in {"name", "arguments", "args"} - (own & {"args"})]
    match form:
        case "plain":
            sent = {"name": NAME, "arguments": held}
        case "args":
            sent = {"name": NAME, "args": held}
        case "null":
            sent = {"name": NAME, "arguments": None, "args": held}
        case "beside" if len(beside) == len(meant):
            sent = {"name": NAME, **meant}
        case "partly":
            moved = draw(st.sets(st.sampled_from(beside))) if beside else set()
            kept = {key: value for key, value in meant.items() if key not in moved}
            sent = {"name": NAME, "arguments": kept, **{key: meant[key] for key in moved}}
        case "repeated" if not {"name", "arguments"} <= own:
            sent = {"name": NAME, "arguments": {"name": NAME, "arguments": held}}
        case "doubled" if not own & {"arguments", "args"}:
            sent = {"name": NAME, "arguments": {draw(st.sampled_from(["arguments", "args"])): held}}
        case "within":
            inner: Any = {"name": NAME, draw(st.sampled_from(["arguments", "args"])): held}
            sent = {draw(st.sampled_from(["arguments", "args"])): json.dumps(inner) if as_text else inner}
        case "both":
            other = draw(st.dictionaries(st.sampled_from([*own, "x"]), VALUES, max_size=2))
            sent = {"name": NAME, "arguments": held, "args": other}
        case _:
            meant, sent = {}, {"name": NAME}
    return Drawn(made, meant, sent, form)


@given(drawn())
def test_the_inner_call_has_exactly_the_arguments_that_are_meant_or_is_refused(case: Drawn) -> None:
    try:
        name, arguments = call(case.sent, case.tool)
    except InnerCallError as error:
        named = str(error)
        assert "arguments" in named or "args" in named
        moved = [key for key in case.sent if key not in {"name", "arguments", "args"}]
        assert all(key in named for key in moved)
        # Of a tool that takes any argument nobody can tell whether `arguments` is one.
        doubtful = case.tool.input_schema.get("additionalProperties") is True and "directly inside arguments" in named
        assert case.form not in {"plain", "nothing"} or doubtful
        return
    assert name == NAME
    if case.form == "both" and case.meant != case.sent["args"]:
        assert not case.meant or not case.sent["args"] or "args" in arguments
        expected: Any = case.meant or case.sent["args"]
        if "args" in arguments and "args" not in expected:
            expected = {**case.meant, "args": case.sent["args"]}
        assert arguments == expected
        return
    without_null = {key: value for key, value in case.meant.items() if key != "args" or value is not None}
    assert arguments in (case.meant, without_null)
    if arguments != case.meant:
        assert case.form in {"beside", "partly"}  # a null beside is that of run_tool's own args


@given(st.dictionaries(st.sampled_from([*OWN, "other"]), VALUES, max_size=5), st.sets(st.sampled_from(OWN)))
def test_whatever_is_sent_no_argument_is_lost_and_none_is_made_up(sent: dict[str, Any], own: set[str]) -> None:
    sent = {**sent, "name": NAME}
    try:
        _, arguments = call(sent, tool(*own))
    except InnerCallError:
        return
    leaves = [leaf for key, value in sent.items() if key != "name" for leaf in _leaves(value)]
    for leaf in _leaves(arguments):
        assert leaf in leaves
    told = _leaves(arguments)
    lost = [leaf for leaf in leaves if leaf not in told and leaf not in (NAME, None)]
    assert not lost


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, str):
        try:
            decoded = json.loads(value)
        except ValueError:
            return [value] if value.strip() else []
        return _leaves(decoded) if isinstance(decoded, (dict, list)) else [value]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in _leaves(item)]
    if isinstance(value, list):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]


GET = tool("owner", "repo")
CREATE = http_tool("gh__create_repo", properties={"name": True, "private": True})
OUTER = http_tool("far__call", properties={"name": True, "arguments": True})
RUN = http_tool("far__run", properties={"command": True, "args": True})
OPEN = http_tool("far__open", properties={"a": True}, additionalProperties=True)
REPO = {"owner": "octo", "repo": "x"}


@pytest.mark.parametrize(
    ("sent", "called"),
    [
        ({"name": NAME, "arguments": REPO}, (NAME, REPO)),
        ({"name": NAME, "arguments": ' {"owner": "octo", "repo": "x"}\n'}, (NAME, REPO)),
        ({"name": NAME}, (NAME, {})),
        ({"name": NAME, "arguments": ""}, (NAME, {})),
        ({"name": NAME, "args": REPO}, (NAME, REPO)),
        ({"name": NAME, "args": REPO, "arguments": {}}, (NAME, REPO)),
        ({"name": NAME, "args": REPO, "arguments": REPO}, (NAME, REPO)),
        ({"name": NAME, **REPO}, (NAME, REPO)),
        ({"name": NAME, "arguments": {"owner": "octo"}, "repo": "x"}, (NAME, REPO)),
        ({"name": NAME, "arguments": REPO, "repo": "x"}, (NAME, REPO)),
        ({"arguments": {"name": NAME, "arguments": REPO}}, (NAME, REPO)),
        ({"name": NAME, "arguments": {"name": NAME, "arguments": REPO}}, (NAME, REPO)),
        ({"name": NAME, "arguments": {"arguments": REPO}}, (NAME, REPO)),
        ({"name": NAME, "arguments": {"name": NAME, **REPO}}, (NAME, REPO)),
        ({"name": NAME, "arguments": {"name": NAME, "args": {"name": NAME, **REPO}}}, (NAME, REPO)),
        ({"name": NAME, "arguments": {"name": "gh__other", **REPO}}, (NAME, {"name": "gh__other", **REPO})),
        ({"name": "far__open", "arguments": {"name": "far__open"}}, ("far__open", {"name": "far__open"})),
        ({"name": NAME, "args": {"arguments": {"args": '{"owner": "octo", "repo": "x"}'}}}, (NAME, REPO)),
        ({"name": "far__call", "arguments": {"arguments": {"x": 1}}}, ("far__call", {"arguments": {"x": 1}})),
        ({"name": None, "arguments": {"name": NAME, "args": REPO}}, (NAME, REPO)),
        ({"name": "gh__create_repo", "arguments": {"name": "gh__create_repo"}}, ("gh__create_repo", {"name": "gh__create_repo"})),
        ({"name": "gh__create_repo", "private": True}, ("gh__create_repo", {"private": True})),
        (
            {"name": "far__call", "arguments": {"name": "far__call", "arguments": {"x": 1}}},
            ("far__call", {"name": "far__call", "arguments": {"x": 1}}),
        ),
        ({"name": "far__run", "command": "ls", "args": ["-l"]}, ("far__run", {"command": "ls", "args": ["-l"]})),
        ({"name": "far__open", "arguments": {"b": 1}}, ("far__open", {"b": 1})),
        ({"name": "no__tool", "owner": "octo"}, ("no__tool", {})),
    ],
)  # fmt: skip
def test_a_form_that_can_be_meant_in_one_way_is_taken(sent: dict[str, Any], called: tuple[str, Any]) -> None:
    assert call(sent, GET, CREATE, OUTER, RUN, OPEN) == called


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ({"name": NAME, **REPO, "depth": 1}, "put owner, repo, depth inside arguments; gh__get_repo has no argument depth"),
        ({"name": NAME, "onwer": "octo"}, "put onwer inside arguments; gh__get_repo has no argument onwer (did you mean owner?)"),
        (
            {"name": NAME, "arguments": {"owner": "a"}, "owner": "b"},
            "put owner inside arguments; owner is there too, with another value",
        ),
        ({"name": NAME, "args": {"owner": "a"}, "arguments": {"owner": "b"}}, "/args: is another name of arguments"),
        ({"name": NAME, "arguments": "owner=octo"}, "/arguments: must be an object; it is text that is not an object"),
        ({"name": NAME, "arguments": '{"owner": "a", "owner": "b"}'}, "two members of one name"),
        ({"name": NAME, "arguments": [REPO]}, "/arguments: must be an object; it is an array"),
        ({"name": NAME, "args": 5}, "/args: must be an object; it is a number"),
        ({"name": 5, "arguments": {}}, "/name: must be text"),
        ({}, "/name: is missing"),
        ({"arguments": REPO}, "/name: is missing"),
        ({"owner": "octo"}, "(you sent owner)"),
        (
            {"name": NAME, "arguments": {"name": "gh__other", "arguments": REPO}},
            "/arguments: contains name, arguments, like run_tool itself; put the arguments of gh__get_repo directly inside arguments",
        ),
        (
            {"name": "gh__create_repo", "arguments": {"name": "my-repo", "arguments": {"private": True}}},
            "put the arguments of gh__create_repo directly inside arguments",
        ),
        ({"name": "far__run", "args": {"command": "ls"}}, "put args inside arguments: args may be the tool's own argument"),
        ({"name": "far__open", "b": 1}, "put b inside arguments"),
        (
            {"name": "far__open", "arguments": {"name": "far__open", "arguments": {"b": 1}}},
            "put the arguments of far__open directly inside arguments",
        ),
    ],
)  # fmt: skip
def test_a_form_that_could_mean_more_is_refused_with_the_names(sent: dict[str, Any], told: str) -> None:
    with pytest.raises(InnerCallError) as refused:
        call(sent, GET, CREATE, OUTER, RUN, OPEN)
    assert told in str(refused.value)


def test_what_is_told_of_many_long_names_is_short() -> None:
    with pytest.raises(InnerCallError) as refused:
        call({"name": NAME, **{f"{number}{'x' * 500}": 1 for number in range(500)}}, GET)
    assert "and 480 more" in str(refused.value)
    assert len(str(refused.value)) < 4_000
