"""What a mutation reads by default: ids, names and states, the payload's own scalars and why it was refused; each mutation is a tool."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.connectors.graphql.reading import binding, read_sdl, tools_of
from tests.services.tracker import SDL, answer

HEAD = "type Query { a: Int thing: Thing } "
THING = """type Thing { id: ID! name: String size: Int owner: Thing! all: Things! }
type Things { nodes: [Thing!] pageInfo: Page } type Page { a: Int } """
CASES = [
    # A payload: its scalars, ids and names of its objects, its errors whole.
    ("type P { ok: Boolean thing: Thing others: [Thing!] userErrors: [E!]! } type E { message: String! field: [String!] code: String }",
     "ok userErrors { message field code } thing { id name } others { id name }"),
    ("type P { thing: Thing things: Things query: Query }", "thing { id name }"),
    # What was changed itself: its own scalars, and nothing below.
    ("type P { id: ID! name: String size: Int owner: Thing! all: Things! parent: P }", "id name size"),
    ("type P { id: ID! a1: Int a2: Int a3: Int a4: Int a5: Int a6: Int a7: Int a8: Int a9: Int }", "id a1 a2 a3 a4 a5 a6 a7"),
    # Of an object, what tells how it is now, however far behind in the alphabet.
    ("type P { made: Row } type Row { a1: Int a2: Int createdAt: String displayState: String id: ID! status: String locked: Boolean }",
     "made { id status displayState locked }"),
    ("type P { id: ID! a1: Int a2: Int a3: Int a4: Int a5: Int a6: Int a7: Int a8: Int zState: String }", "id zState a1 a2 a3 a4 a5 a6"),
    # Objects without an id of the schema's own: what stands for one, else the first scalar.
    ("type P { made: [Row!]! count: Int } type Row { owner_id: Int id: Int note: String }", "count made { id }"),
    ("type P { made: Row } type Row { ref: ID owner: ID note: String }", "made { ref owner }"),
    ("type P { made: Row } type Row { note: String title: String }", "made { title }"),
    # A wrapper around one: down to what identifies it.
    ("type P { edge: Edge } type Edge { cursor: String node: Thing }", "edge { cursor node { id name } }"),
    ("type P { wrap: W } type W { thing: Thing }", "wrap { thing { id name } }"),
    # Unions and interfaces.
    ("union P = Done | Failure type Done { thing: Thing } type Failure { error: E } type E { code: String message: String }",
     "__typename ... on Done { thing { id name } } ... on Failure { error { message code } }"),
    ("interface P { ok: Boolean } type Q1 implements P { ok: Boolean more: Int }", "__typename ok"),
    ("type P { errors: [E!]! } union E = Taken | Blank type Taken { message: String by: Thing } type Blank { field: String }",
     "errors { __typename ... on Taken { message } ... on Blank { field } }"),
]  # fmt: skip


@pytest.mark.parametrize(("types", "selection"), CASES)
def test_a_mutation_reads_ids_scalars_and_errors(tmp_path: Path, types: str, selection: str) -> None:
    tools = tools_of(read_sdl(tmp_path, f"{HEAD}{THING}{types} type Mutation {{ change: P }}"))
    words = binding(tools["s__change"]).operation.split()
    assert sorted(words[words.index("change") + 2 : -2]) == sorted(selection.split())


@pytest.mark.parametrize(
    ("returned", "more"),
    [
        ("Query!", ""),
        ("Query", ""),
        ("[Query!]", ""),
        ("Mutation", ""),
        ("Either", "union Either = Query | Thing"),
        ("Only", "union Only = Query"),
        ("Front", "interface Front { b: Int } extend type Query implements Front { b: Int }"),
    ],
)
def test_a_mutation_that_leads_to_the_root_is_a_tool(tmp_path: Path, returned: str, more: str) -> None:
    reading = read_sdl(tmp_path, f"{HEAD}{THING}{more} type Mutation {{ deleteAll: {returned} }}")
    operation = binding(tools_of(reading)["s__delete_all"]).operation
    assert "__typename" in operation
    assert not {"a", "b", "nodes"} & set(operation.split())
    assert [one.code for one in reading.problems if one.level != "warning"] == []


def test_the_operations_run_against_a_service(tmp_path: Path) -> None:
    tools = tools_of(read_sdl(tmp_path, SDL))
    deleted = answer(binding(tools["s__delete_all"]).operation)
    assert deleted == {"data": {"deleteAll": {"__typename": "Query"}}}
    assert answer(binding(tools["s__reset"]).operation) == {"data": {"reset": {"__typename": "Query"}}}
    made = answer(binding(tools["s__create"]).operation, {"title": "a"})
    assert made["data"]["create"]["issue"] == {"id": "7", "title": "a", "state": "OPEN"}
    assert "errors" not in made
