"""What a policy hides stays hidden under an alias, and out of the record where an agent wrote it into a document."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.connectors.graphql.reading import binding, read_sdl
from toolgen.connectors.graphql.hidden_fields import aliases_of, conceal_document, fits
from toolgen.connectors.graphql.options import GraphOptions, QueryLimits
from toolgen.model.graphql_schema import Graph, GraphArgument, GraphField, GraphType
from toolgen.model.tool import Tool
from toolgen.policy.answer_redaction import redactor
from toolgen.policy.hidden_names import behind_aliases, last_names
from toolgen.policy.redact import Redaction, conceal_texts

SDL = """
union Owner = User | Company
type User { email: String phone: Int } type Company { email: [String!]! phone: String home: Home } type Home { street: String }
type Query { owners: [Owner!]! } type Card { number: String }
"""
OPERATION = (
    "query Q($n: ID) { them: owners { ... on User { mail: email tel: phone } ... on Company { home { s: street } } } }"
)


def _tools(tmp_path: Path) -> dict[str, Tool]:
    operations = tmp_path / "q.graphql"
    operations.write_text(OPERATION.replace("($n: ID)", ""), encoding="utf-8")
    options = GraphOptions(operations=(str(operations),), queries=QueryLimits())
    reading = read_sdl(tmp_path, SDL, graph=options, include={"operations": ["*"]})
    return {tool.name: tool for tool in reading.tools}


def _redacted(tool: Tool, fields: tuple[str, ...], data: Any) -> Any:
    redact = redactor([Redaction(tools=("*",), fields=fields, replacement="***")], tool)
    assert redact is not None
    return redact(data)


def test_a_default_selection_hides_what_it_reads_under_an_alias(tmp_path: Path) -> None:
    tool = _tools(tmp_path)["s__list_owners"]
    [alias] = [alias for alias, names in aliases_of(binding(tool).operation).items() if "email" in names]
    data = {"owners": [{"__typename": "User", "email": "a@b"}, {"__typename": "Company", alias: ["c@d"]}]}
    hidden = {"owners": [{"__typename": "User", "email": "***"}, {"__typename": "Company", alias: "***"}]}
    assert _redacted(tool, ("$..email",), data) == hidden


@pytest.mark.parametrize(
    ("path", "gone"),
    [
        ("$..email", {"a@b"}),
        ("$.owners[*].email", {"a@b"}),
        ("$.owners[*].phone", {"555"}),
        ("$.owners[*].home.street", {"Main"}),
        ("$.owners[*]['email','phone']", {"a@b", "555"}),
        ("$.owners", {"a@b", "555", "Main"}),
        ("$.owners[0]", {"a@b", "555", "Main"}),
        ("$.owners[*].*", {"a@b", "555", "Main"}),
        ("$.owners[?@.email == 'a@b']", {"a@b", "555", "Main"}),
        ("$.them[*].mail", {"a@b"}),
        ("$.other", set()),
    ],
)
def test_an_alias_is_hidden_as_the_field_it_stands_for(tmp_path: Path, path: str, gone: set[str]) -> None:
    tool = _tools(tmp_path)["s__q"]
    data = {"them": [{"mail": "a@b", "tel": "555"}, {"home": {"s": "Main"}}]}
    seen = str(_redacted(tool, (path,), data))
    assert {word for word in ("a@b", "555", "Main") if word not in seen} == gone


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("$..a", {"a"}),
        ("$.a.b", {"b"}),
        ("$.a['b']", {"b"}),
        ('$.a["b","c"][0]', {"b", "c"}),
        ("$.a[*].*", {"a"}),
        ("$", None),
        ("$..*", None),
        ("$[?@.a]", None),
    ],
)
def test_a_path_ends_with_names(path: str, names: set[str] | None) -> None:
    assert last_names(path) == names


def test_a_path_that_no_alias_touches_finds_nothing_more() -> None:
    assert behind_aliases("$.a[?@.b]", {"x": frozenset({"c"})}) == ()


def _digest(value: Any) -> str:
    return f"#{len(str(value))}"


@pytest.mark.parametrize(
    ("document", "variables"),
    [
        ('{ pay(number: "4111") { id } }', set()),
        ("{ pay(number: 4111) { id } }", set()),
        ('{ pay(number: """4111""") { id } } # 4111', set()),
        ('{ pay(card: {number: ["4111", {x: "4111"}]}) { id } }', set()),
        ('{ a { b(in: [{number: "4111"}]) } }', set()),
        ("query Q($n: String = \"4111\") { pay(number: $n) { id } }", {"n"}),
        ('query Q($n: String = "4111") { pay(number: {x: $n, y: "4111"}) { id } }', {"n"}),
        ('fragment F on Query { pay(number: "4111") { id } } { ...F }', set()),
        ('{ pay(number: "4111"', set()),
        ("{ a @include(if: $b, number: \"4111\") }", set()),
    ],
)  # fmt: skip
def test_a_value_written_into_a_document_is_concealed(document: str, variables: set[str]) -> None:
    written, hidden = conceal_document(document, frozenset({"number"}), _digest)
    assert "4111" not in written
    assert hidden == variables
    assert "4111" not in conceal_document(document, None, _digest)[0]


def test_what_is_not_sensitive_stays_readable() -> None:
    written, _ = conceal_document('{ books(first: 10, after: "x") { id } }', frozenset({"number"}), _digest)
    assert written == '{\n  books(first: 10, after: "x") {\n    id\n  }\n}'


@pytest.mark.parametrize("sensitive", [("$..number",), ("$.card.number",), ("$.card.number[0]",), ("$..*",)])
def test_the_record_of_a_document_holds_no_sensitive_variable(tmp_path: Path, sensitive: tuple[str, ...]) -> None:
    tool = _tools(tmp_path)["s__run_query"]
    text = "query Q($n: String, $c: Card) { pay(number: $n, card: $c) { id } }"
    for variables in ({"n": "4111"}, {"c": {"number": "4111"}}, {"n": ["4111"], "c": {"x": [{"number": "4111"}]}}):
        arguments = {"query": text, "variables": variables}
        concealed = conceal_texts(arguments, tool, sensitive, _digest)
        seen = str(concealed)
        assert "4111" not in seen or (sensitive == ("$..number",) and "'number': '4111'" in seen)


def test_chosen_fields_are_concealed_like_a_document(tmp_path: Path) -> None:
    tool = _tools(tmp_path)["s__list_owners"]
    concealed = conceal_texts({"fields": '{ x(number: "4111") }'}, tool, ("$..number",), _digest)
    assert concealed == {"fields": '{\n  x(number: "#4")\n}'}


CARDS = Graph(
    types={
        "Query": GraphType(
            kind="object", fields={"pay": GraphField(type="Int", arguments={"cards": GraphArgument(type="[Card]")})}
        ),
        "Card": GraphType(kind="input", inputs={"number": GraphArgument(type="String")}),
    },
    query="Query",
)
PAY = "query($cards: [Card]) { pay(cards: $cards) }"


@pytest.mark.parametrize(
    ("text", "variables", "fine"),
    [
        (PAY, None, True),
        (PAY, {"cards": None}, True),
        (PAY, {"cards": [{"number": "1"}, None, {"number": None}]}, True),
        (PAY, {"cards": [{"number": "1"}, {"pin": "2"}]}, False),
        (PAY, {"cards": [{"number": {"pin": "2"}}]}, False),
        (PAY, {"cards": "1"}, False),
        (PAY, {"other": "1"}, False),
        ('{ pay(cards: [{number: "1"}, null]) }', None, True),
        ('{ pay(cards: [{pin: "2"}]) }', None, False),
        ("{ spend }", None, False),
        ('query @live(pin: "2") { pay }', None, False),
        ("query @live { pay }", None, True),
    ],
)
def test_a_document_fits_a_schema_that_has_all_it_names(text: str, variables: Any, fine: bool) -> None:
    assert fits(CARDS, text, variables) is fine
