"""A project over a real GraphQL service, from toolgen.yaml to the answer: what policy opens works, and nothing else is ever sent."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.library import call, code, write_project
from tests.services.library import WRITTEN, application, serving
from toolgen.audit.reader import entries
from toolgen.core.errors import PolicyError
from toolgen.frontends.python.gateway import Gateway
from toolgen.state.pauses import Pause

SEVEN = {"edges": [{"node": {"id": str(number)}} for number in range(1, 8)]}

NO_MORE = {"pageInfo": {"hasNextPage": False, "endCursor": "7"}}
ONE_MORE = {"pageInfo": {"hasNextPage": True, "endCursor": "1"}}


@pytest.fixture(name="origin", scope="module")
def _origin() -> Iterator[str]:
    with serving(application()) as origin:
        yield origin


@pytest.fixture(name="project")
def _project(tmp_path: Path, origin: str) -> Callable[..., Path]:
    return partial(write_project, tmp_path, origin)


async def test_a_trusted_operation_runs_with_what_the_gateway_knows_of_the_caller(project: Callable[..., Path]) -> None:
    path = project()
    found = await call(path, "find_book", {"id": "2"})
    assert found.data == {
        "book": {"id": "2", "title": "Book 2", "similar": {"edges": [{"node": {"id": "1"}}]}},
        "echo": "acme",
    }
    async with Gateway.load(path) as gateway:
        shown = await gateway.preview("lib__find_book", {"id": "2"}, principal="bot")
    assert shown.data["variables"] == {"id": "2", "who": "acme"}
    assert "@bind" not in shown.data["query"]
    assert code(await call(path, "find_book", {"id": "2", "who": "other"})) == "validation"


async def test_a_caller_without_the_bound_attribute_is_refused(project: Callable[..., Path]) -> None:
    assert code(await call(project(), "find_book", {"id": "2"}, "bare")) == "forbidden"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("get_book", {"by": {"id": 7}}), ("get_book", {"by": {"id": "7"}}), ("list_several", {"ids": ["1", 7]})],
)
async def test_a_rule_about_an_id_holds_for_its_number_too(
    project: Callable[..., Path], tool: str, arguments: dict[str, Any]
) -> None:
    assert code(await call(project(), tool, arguments)) == "forbidden"


async def test_a_number_for_an_id_is_sent_as_it_was_given(project: Callable[..., Path]) -> None:
    async with Gateway.load(project()) as gateway:
        shown = await gateway.preview("lib__get_book", {"by": {"id": 6}}, principal="bot")
    assert shown.data["variables"] == {"by": {"id": 6}}


async def test_pages_are_capped_and_the_next_one_is_offered(project: Callable[..., Path]) -> None:
    path = project()
    first = await call(path, "page", {"first": 2})
    assert (first.meta.next_cursor, code(first)) == ("2", "")
    assert (await call(path, "list_books", {"first": 7})).meta.next_cursor == ""
    for name in ("page", "list_books"):
        refused = await call(path, name, {"first": 101})
        assert code(refused) == "validation"
    assert (
        code(await call(path, "list_books", {"first": -1})) == "validation"
    )  # which means all of them to some services
    narrow = project(max_page="5")
    assert code(await call(narrow, "list_books", {"first": 6})) == "validation"
    assert code(await call(narrow, "list_books", {"first": 5})) == ""


@pytest.mark.parametrize(
    ("fields", "data"),
    [
        ("{ id }", {"book": {"id": "2"}}),
        ("{ title similar { edges { node { id } } } }", {"book": {"title": "Book 2", "similar": {**SEVEN, **NO_MORE}}}),
        ("{ similar(first: 1) { edges { node { id } } } }", {"book": {"similar": {"edges": [{"node": {"id": "1"}}], **ONE_MORE}}}),
        ("{ secret }", {"book": {"secret": "[hidden]"}}),
    ],
)  # fmt: skip
async def test_an_agent_reads_only_the_fields_it_asks_for(project: Callable[..., Path], fields: str, data: Any) -> None:
    assert (await call(project(), "get_book", {"by": {"id": "2"}, "fields": fields})).data == data


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ("{ nothing }", "no field 'nothing'"),
        ("{ s: secret }", "alias"),
        ("{ id @skip(if: true) }", "directive"),
        ("{ reads { hidden } }", "leads back"),
        ("{ similar }", "fields must be chosen"),
        ("{ id { x } }", "no fields"),
        ("{ excerpt }", "needs the argument length"),
        ("{ similar(first: 101) { edges { cursor } } }", "at most 100"),
        ('{ similar(first: "1") { edges { cursor } } }', "type Int"),
        ("{ similar(nope: 1) { edges { cursor } } }", "no argument 'nope'"),
        ("{ __schema { types { name } } }", "no field '__schema'"),
        ("{ ...F } fragment F on Book { id }", "more than one"),
        ("{ id } query B { book }", "more than one"),
        ("{ id", "not a selection set"),
        ("{ ... on Film { id } }", "never a Film"),
        ("{ " + "similar { edges { node { " * 3 + "id" + " } } }" * 3 + " }", "levels deep"),
        (
            "{ similar(first: 100) { edges { node { similar(first: 100) { edges { node { id title } } } } } } }",
            "too many",
        ),
        ("{" + "{" * 5000, "at most 4000 are read"),
    ],
)
async def test_fields_that_may_not_be_chosen_are_refused_and_nothing_is_sent(
    project: Callable[..., Path], fields: str, reason: str
) -> None:
    refused = await call(project(), "get_book", {"by": {"id": "2"}, "fields": fields})
    assert code(refused) == "validation"
    assert refused.error is not None
    assert reason in refused.error.message


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("get_kept", {"id": "1"}),
        ("get_anything", {}),
        ("get_whole", {}),
        ("get_kept", {"id": "1", "fields": "{ ... on Reads { hidden } }"}),
        ("get_kept", {"id": "1", "fields": "{ hidden }"}),
        ("get_anything", {"fields": "{ ... on Reads { hidden } }"}),
        ("get_anything", {"fields": "{ ... on Kept { hidden } }"}),
        ("get_whole", {"fields": "{ hidden }"}),
        ("get_whole", {"fields": "{ whole { hidden } }"}),
        ("run_query", {"query": '{ kept(id: "1") { ... on Reads { hidden } } }'}),
        ("run_query", {"query": '{ kept(id: "1") { ...F } } fragment F on Reads { hidden }'}),
        ("run_query", {"query": '{ kept(id: "1") { ... { hidden } } }'}),
        ("run_query", {"query": "{ anything { ... on Reads { hidden } } }"}),
        ("run_query", {"query": "{ anything { ... on Kept { hidden } } }"}),
        ("run_query", {"query": "{ ... on Kept { hidden } }"}),
        ("run_query", {"query": "{ whole { hidden } }"}),
    ],
)
async def test_a_root_field_is_not_read_behind_an_interface_a_union_or_the_root_itself(
    project: Callable[..., Path], tool: str, arguments: dict[str, Any]
) -> None:
    answer = await call(project(), tool, arguments)
    assert "hidden" not in json.dumps(answer.data)
    assert (code(answer) in {"validation", "forbidden"}) == ("fields" in arguments or tool == "run_query")


async def test_what_identifies_an_object_behind_an_interface_can_be_read(project: Callable[..., Path]) -> None:
    path = project()
    found = {"kept": {"id": "reads"}}
    assert (await call(path, "get_kept", {"id": "1", "fields": "{ id }"})).data == found
    assert (await call(path, "run_query", {"query": '{ kept(id: "1") { id } }'})).data == found
    assert (await call(path, "get_whole", {})).data == {"whole": {"id": "reads"}}


async def test_a_document_reads_what_its_writer_may_read(project: Callable[..., Path]) -> None:
    document = "query Q($id: ID!) { book(by: {id: $id}) { title secret } marks { label } }"
    answer = await call(project(), "run_query", {"query": document, "variables": {"id": "3"}})
    assert answer.data == {
        "book": {"title": "Book 3", "secret": "[hidden]"},
        "marks": [{"label": "A"}, {"label": None}],
    }


@pytest.mark.parametrize(
    ("document", "variables", "expected", "reason"),
    [
        ("{ hidden }", {}, "validation", "Cannot query field 'hidden'"),
        ("{ ... { ...F } } fragment F on Reads { hidden }", {}, "validation", "Cannot query field 'hidden'"),
        ('{ book(by: {id: "7"}) { id } }', {}, "forbidden", "no-secrets"),
        ("query Q($b: BookBy!) { book(by: $b) { id } }", {"b": {"id": "7"}}, "forbidden", "no-secrets"),
        ('query Q($b: BookBy! = {id: "7"}) { book(by: $b) { id } }', {}, "forbidden", "no-secrets"),
        ('query Q($i: ID!) { book(by: {id: $i}) { id } }', {"i": "7"}, "forbidden", "no-secrets"),
        ("{ book(by: {id: 7}) { id } }", {}, "forbidden", "no-secrets"),
        ("query Q($i: ID! = 7) { book(by: {id: $i}) { id } }", {}, "forbidden", "no-secrets"),
        ("query Q($i: ID!) { book(by: {id: $i}) { id } }", {"i": 7}, "forbidden", "no-secrets"),
        ("{ several(ids: 7) { id } }", {}, "forbidden", "no-seventh"),
        ('query Q($i: [ID!]) { several(ids: $i) { id } }', {"i": "7"}, "forbidden", "no-seventh"),
        ("{ priced(at: -5) { id } }", {}, "validation", "at"),
        ("query Q($p: Price) { priced(at: $p) { id } }", {"p": -5}, "validation", "at"),
        ("{ books(first: -1) { edges { cursor } } }", {}, "validation", "at least 0"),
        ('{ book(by: {id: "1"}) { s: secret } }', {}, "forbidden", "aliases"),
        ('{ book(by: {id: "1"}) { reads { crowded } } }', {}, "forbidden", "root type"),
        ('{ book(by: {id: "1"}) { reads { hidden } } }', {}, "validation", "Cannot query field 'hidden'"),
        ('mutation { removeBook(id: "1") { id } }', {}, "forbidden", "runs a query"),
        ("subscription { added { id } }", {}, "forbidden", "runs a query"),
        ("{ __schema { types { name } } }", {}, "forbidden", "introspection"),
        ('{ __type(name: "Book") { name } }', {}, "forbidden", "introspection"),
        ("{ marks { nothing } }", {}, "validation", "nothing"),
        ("{ marks { label ", {}, "validation", "not GraphQL"),
        ("query A { marks { label } } query B { hidden }", {}, "validation", "exactly one"),
        ("type X { a: Int }", {}, "validation", "exactly one"),
        ("{ marks { label @defer } }", {}, "validation", "@defer"),
        ("query Q($f: Int) { books(first: $f) { edges { cursor } } }", {"f": "x"}, "validation", "variables"),
        ("query Q($f: Int) { books(first: $f) { edges { cursor } } }", {"f": 101}, "validation", "at most 100"),
        ("{ books(first: 1000) { edges { cursor } } }", {}, "validation", "at most 100"),
        ("{ marks { label } }", {"stray": 1}, "validation", "$stray"),
        ("{ " + " ".join(f"a{n}: crowded" for n in range(5)) + " }", {}, "validation", "root fields"),
        ("{ marks { " + " ".join(f"a{n}: label" for n in range(11)) + " } }", {}, "validation", "aliases"),
        ("{ marks { " + " ".join("... { label }" for n in range(11)) + " } }", {}, "validation", "fragments"),
        ("{ marks { ...A } } fragment A on Shelfmark { ...B } fragment B on Shelfmark { ...A }", {}, "validation", "itself"),
        ("{ books(first: 100) { edges { node { similar(first: 100) { edges { cursor } } } } } }", {}, "validation", "costs"),
        ("{ books { edges { node { " + "similar { edges { node { " * 3 + "id" + " } } }" * 3 + " } } } }", {}, "validation", "levels"),
        ("{" * 3000, {}, "validation", "not GraphQL"),
    ],
)  # fmt: skip
async def test_a_document_that_may_not_run_is_refused_before_anything_is_sent(
    project: Callable[..., Path], document: str, variables: dict[str, Any], expected: str, reason: str
) -> None:
    refused = await call(project(), "run_query", {"query": document, "variables": variables})
    assert (refused.status, code(refused)) == ("refused", expected)
    assert refused.error is not None
    assert reason in f"{refused.error.message} {refused.error.rule}"


async def test_a_fragment_bomb_is_refused_in_bounded_time(project: Callable[..., Path]) -> None:
    wide = " ".join(f"fragment F{n} on Shelfmark {{ ...F{n + 1} ...F{n + 1} }}" for n in range(8))
    bomb = f"{{ marks {{ ...F0 }} }} {wide} fragment F8 on Shelfmark {{ {'label ' * 100} }}"
    assert code(await call(project(queries="{max_fragments: 100}"), "run_query", {"query": bomb})) == "validation"


async def test_what_is_sent_is_rendered_from_the_tree_and_not_the_text(project: Callable[..., Path]) -> None:
    text = "#\u2028 comment\nquery   Q{marks{label,count}} # } mutation { removeBook(id: 1) { id } }"
    async with Gateway.load(project()) as gateway:
        shown = await gateway.preview("lib__run_query", {"query": text}, principal="bot")
    assert shown.data["query"] == "query Q {\n  marks {\n    label\n    count\n  }\n}"


async def test_types_are_described_without_the_root_fields_the_caller_may_not_use(project: Callable[..., Path]) -> None:
    path = project()
    assert "hidden" not in (await call(path, "describe_types", {"types": ["Reads"]})).data["sdl"]
    roots = (await call(path, "describe_types", {})).data["sdl"]
    assert "book(by: BookBy!): Book" in roots
    assert "removeBook" not in roots
    described = (await call(path, "describe_types", {"types": ["BookBy", "Item", "Shelf", "BookFilter"]})).data["sdl"]
    assert "input BookBy @oneOf {" in described
    assert "union Item = Book | Film" in described
    assert code(await call(path, "describe_types", {"types": ["Bok"]})) == "validation"


async def test_mutations_are_off_until_a_policy_turns_them_on(project: Callable[..., Path]) -> None:
    path = project()
    WRITTEN.clear()
    document = {"query": 'mutation { addBook(title: "x") { id } }'}
    assert code(await call(path, "add_book", {"title": "x"})) == "cancelled"  # somebody has to agree
    assert code(await call(path, "remove_book", {"id": "1"})) == "unknown_tool"  # no rule
    assert code(await call(path, "run_mutation", document)) == "cancelled"
    assert code(await call(path, "rename_book", {"title": "x"})) == "unknown_tool"  # its file says it writes
    assert WRITTEN == []
    assert code(await call(path, "add_book", {"title": "a"}, "writer")) == ""
    assert code(await call(path, "run_mutation", document, "writer")) == ""
    assert code(await call(path, "rename_book", {"title": "b"}, "writer")) == ""
    assert WRITTEN == ["a", "x", "b"]


def test_a_schema_is_closed_to_documents_unless_toolgen_yaml_opens_it(project: Callable[..., Path]) -> None:
    with pytest.raises(PolicyError, match="run_mutation"):
        Gateway.load(project(queries="false"))


async def test_partial_data_stays_beside_its_errors_with_their_paths(project: Callable[..., Path]) -> None:
    answer = await call(project(), "list_marks", {})
    assert (answer.status, code(answer)) == ("ok", "")
    assert answer.data == {"marks": [{"label": "A", "count": 1}, {"label": None, "count": None}]}
    assert answer.meta.partial == [{"message": "counter stopped", "path": ["marks", 1, "count"]}]
    assert "[hidden]" in str((await call(project(), "get_book", {"by": {"id": "1"}})).data)


async def test_throttling_is_a_rate_limit_with_a_wait(project: Callable[..., Path]) -> None:
    answer = await call(project(), "get_crowded", {})
    assert answer.error is not None
    assert (answer.error.code, answer.error.retry_after_s) == ("rate_limited", 1.0)


async def test_unions_are_read_with_aliases_where_their_types_conflict(project: Callable[..., Path]) -> None:
    assert (await call(project(), "list_items", {})).data["items"][1]["title"] == "Film"


async def test_files_are_sent_by_the_multipart_specification(project: Callable[..., Path]) -> None:
    path = project()
    one = {"base64": "aGVsbG8=", "filename": "a.txt", "media_type": "text/plain"}
    arguments = {
        "file": one,
        "more": [{"base64": "aGk=", "filename": "b.txt"}, {"base64": "", "filename": "c"}],
        "note": "n",
    }
    answer = await call(path, "store", {**arguments, "fields": "{ bytes names note }"}, "writer")
    assert answer.data == {"store": {"bytes": 7, "names": ["a.txt", "b.txt", "c"], "note": "n"}}
    async with Gateway.load(path) as gateway:
        shown = await gateway.preview("lib__store", arguments, principal="writer")
    assert shown.data["variables"] == {"file": None, "more": [None, None], "note": "n"}
    assert [one["path"] for one in shown.data["files"]] == ["variables.file", "variables.more.0", "variables.more.1"]
    assert code(await call(path, "store", {"file": {"base64": "???"}}, "writer")) == "validation"


async def test_each_root_field_of_a_document_counts_as_a_call_of_its_tool(project: Callable[..., Path]) -> None:
    """Aliases and fragments dodge nothing; and nothing that is over the limit is sent."""
    path = project()
    limits = 'limits: [{id: books, per: [principal, tool], rate: 3/h, cost: {lib__run_query: 0, "lib__list_*": 1}}]\n'
    (path.parent / "policies" / "limits.yaml").write_text(limits, encoding="utf-8")

    async with Gateway.load(path) as gateway:
        several = "{ ids: several(ids: [1]) { id } } "
        spread = "{ ... { a: several(ids: [1]) { id } } b: several(ids: [2]) { id } }"
        found = []
        for text in (several, spread, several, "{ books(first: 1) { edges { node { id } } } }"):
            found.append(await gateway.call("lib__run_query", {"query": text}, principal="bot"))
        found.append(await gateway.call("lib__list_several", {"ids": ["1"]}, principal="bot"))
        first, second, third, books, single = found
    assert [answer.status for answer in (first, second, books)] == ["ok", "ok", "ok"], second.error
    for answer in (third, single):
        assert answer.error is not None
        assert (answer.error.code, answer.error.rule) == ("rate_limited", "books")


async def test_a_tool_that_is_paused_is_not_called_by_a_document(project: Callable[..., Path]) -> None:
    async with Gateway.load(project()) as gateway:
        gateway.pausing.local.change(lambda known: (Pause(tool="lib__list_several", since=0.0),))
        texts = (
            "{ several(ids: [1]) { id } }",
            "{ marks { label } ... { a: several(ids: [1]) { id } } }",
            "{ marks { label } }",
        )
        found = [code(await gateway.call("lib__run_query", {"query": text}, principal="bot")) for text in texts]
    assert found == ["paused", "paused", ""]


async def test_what_rules_about_root_fields_leave_for_the_record_is_recorded(project: Callable[..., Path]) -> None:
    path = project()
    rules = "rules: [{id: watched, to: [bot], tools: [lib__list_several], verdict: deny, shadow: true}]\n"
    (path.parent / "policies" / "shadow.yaml").write_text(rules, encoding="utf-8")
    assert code(await call(path, "run_query", {"query": "{ marks { label } several(ids: [1]) { id } }"})) == ""
    noted = [entry for entry in entries(path.parent / "audit") if entry.get("event") == "decision"]
    assert [(entry["rule"], entry["status"]) for entry in noted] == [("watched", "shadow")]


BOUND = """
  - {id: bound, to: [bot], tools: [lib__list_books], verdict: allow, bind: {after: principal.attributes.tenant}}
  - {id: echoes, to: [bot], tools: [lib__get_echo], verdict: allow, bind: {value: principal.attributes.tenant}}
"""


def with_bound(path: Path) -> Path:
    """The project with two fields of which the gateway sets arguments: one alone leads to some types, the other to none."""
    policy = path.parent / "policies" / "p.yaml"
    policy.write_text(policy.read_text().replace("rules:", f"rules:{BOUND}", 1))
    return path


async def test_what_the_gateway_sets_is_named_nowhere_where_documents_are_written(project: Callable[..., Path]) -> None:
    path = with_bound(project())
    roots = (await call(path, "describe_types", {})).data["sdl"]
    assert "books(" not in roots
    assert "echo" not in roots
    for hidden in ("BookFilter", "BookFiltr"):
        told = await call(path, "describe_types", {"types": [hidden]})
        assert code(told) == "validation"
        assert "did you mean 'BookFilter'" not in str(told.to_dict())
    assert "BookConnection" in (await call(path, "describe_types", {"types": ["Book"]})).data["sdl"]
    asked = await call(path, "run_query", {"query": '{ books(aftr: "x") { pageInfo { hasNextPage } } }'})
    assert code(asked) == "validation"
    assert asked.error.suggestion.endswith("call lib__list_books")
    assert "'after'" not in str(asked.to_dict())
    assert "BookFilter" in (await call(path, "describe_types", {"types": ["BookFilter"]}, "writer")).data["sdl"]


@pytest.mark.parametrize(
    ("real", "invented"),
    [("{ hidden }", "{ hiddex }"), ("{ hiddn }", "{ hiddz }"), ("{ whole { id hidden } }", "{ whole { id hiddex } }")],
)
async def test_a_hidden_root_field_is_answered_as_one_that_does_not_exist(
    project: Callable[..., Path], real: str, invented: str
) -> None:
    path = project()
    one, other = [await call(path, "run_query", {"query": text}) for text in (real, invented)]
    assert code(one) == code(other) == "validation"
    blank = re.compile("hidd[a-z]+")
    assert blank.sub("*", one.error.message) == blank.sub("*", other.error.message)
    assert "'hidden'?" not in one.error.message


async def test_mutations_that_nobody_opened_are_not_told_apart_from_none(project: Callable[..., Path]) -> None:
    path = project()
    found = [
        (await call(path, "run_mutation", {"query": f"mutation {{ {name}(id: 1) {{ id }} }}"})).error.message.replace(
            name, "*"
        )
        for name in ("removeBook", "remoteBook")
    ]
    assert found[0] == found[1]


async def test_what_looks_at_answers_of_a_tool_looks_at_its_field_in_a_document(project: Callable[..., Path]) -> None:
    path = project()
    with path.open("a", encoding="utf-8") as file:
        file.write("inspect_results: [{detector: personal_data, then: redact, tools: [lib__get_echo]}]\n")
    text = '{ marks { label } ... { again: echo(value: "ann.lee@mail.fr") } }'
    data: Any = (await call(path, "run_query", {"query": text})).data
    assert data["again"] == "[email]"


GATE = """
import toolgen

class Gate(toolgen.Middleware):
    def before(self, call):
        if call.tool.name == "lib__get_echo" and call.arguments.get("value") == "no":
            return toolgen.Refuse(message="not this one")
        if call.tool.name == "lib__get_echo" and call.arguments.get("value") == "less":
            return toolgen.Narrow(arguments={"value": "less", **({} if call.arguments["value"] == "less" else {"value": ""})})
        if call.tool.name == "lib__list_books" and call.arguments.get("first", 0) > 1:
            return toolgen.Narrow(arguments={"first": 1})

    def shows(self, step, tool):
        return tool.name != "lib__list_marks"
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{ echo(value: "yes") }', ""),
        ('{ echo(value: "less") }', ""),
        ('{ ok: echo(value: "yes") ... { again: echo(value: "no") } }', "forbidden"),
        ("{ books(first: 1) { edges { node { id } } } }", ""),
        ("{ books(first: 2) { edges { node { id } } } }", "forbidden"),
        ('{ echo(value: "yes") marks { label } }', "outside_catalog"),
    ],
)
async def test_a_middleware_is_asked_of_each_root_field_of_a_document(
    project: Callable[..., Path], text: str, said: str
) -> None:
    path = project()
    name = f"gate_{path.parent.name.replace('-', '_')}"
    (path.parent / f"{name}.py").write_text(GATE, encoding="utf-8")
    with path.open("a", encoding="utf-8") as file:
        file.write(f"middleware: [{{use: {name}.Gate, timeout: 10s}}]\n")
    answer = await call(path, "run_query", {"query": text})
    assert code(answer) == said, answer.error
