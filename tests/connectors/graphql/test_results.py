"""The size of a page has one cap, however a schema lets it be asked for: as an argument, inside an input object, or with a point."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.connectors.graphql.reading import binding, read, read_sdl, tools_of
from tests.messages import line_names
from toolgen.connectors.graphql.compiled_schema import compile_schema
from toolgen.connectors.graphql.executor import GraphQLExecutor
from toolgen.connectors.graphql.guard import check_document
from toolgen.connectors.graphql.options import GraphOptions, QueryLimits
from toolgen.connectors.http.parameter_styles import UnbindableError
from toolgen.connectors.secrets import SecretResolver
from toolgen.model.call import Call, Principal
from toolgen.model.graphql_schema import MAX_INT
from toolgen.model.schema import JsonObject
from toolgen.model.tool import GraphQLDocumentBinding
from toolgen.model.verdict import Allow, Deny

SDL = """
scalar NonNegativeInt
type Query {
  posts(options: Options): Posts
  found(filter: Filter, sort: String): [Post!]!
  numbered(limit: Float): [Post]
  counted(take: NonNegativeInt): [Post]
  paged(page: Int, perPage: Int): Posts
  author: Author
}
type Mutation { raise(input: Card, limit: Int): Card_  drop(first: Int, input: Card): [Post] }
input Card { limit: Int }
type Card_ { limit: Int }
type Author { name: String posts(pagination: Paging, where: [Filter]): [Post] }
input Options { paginate: Paging, search: String }
input Paging { first: Int, limit: Int, page: Int }
input Filter { per_page: Int, and: [Filter!], title: String, limit: Words }
input Words { eq: Int }
type Posts { data: [Post] total: Int }
type Post { id: ID title: String }
"""
LIMITS = QueryLimits()


def reading(tmp_path: Path, **options: Any) -> Any:
    return read_sdl(tmp_path, SDL, graph=GraphOptions(queries=LIMITS, **options))


def send(tmp_path: Path, name: str, arguments: JsonObject, max_page: int = 100) -> JsonObject:
    made = reading(tmp_path)
    executor = GraphQLExecutor(
        schemes={},
        auth={},
        secrets=SecretResolver({}),
        permit=lambda _: Allow(rule="test"),
        graph=made.info.graph,
        max_page=max_page,
    )
    tool = tools_of(made)[f"s__{name}"]
    return executor.preview(Call(id="c", tool=tool, arguments=arguments, principal=Principal(id="p")))


TOO_MUCH: list[tuple[str, JsonObject, str]] = [
    ("list_posts", {"options": {"paginate": {"first": 1000}}}, "options.paginate.first"),
    ("list_posts", {"options": {"paginate": {"limit": -1}}}, "options.paginate.limit"),
    ("list_posts", {"options": {"paginate": {"first": 1000.0}}}, "options.paginate.first"),
    ("list_found", {"filter": {"per_page": -1}}, "filter.per_page"),
    ("list_found", {"filter": {"and": [{"title": "a"}, {"and": [{"per_page": 101}]}]}}, "filter.and.and.per_page"),
    ("list_found", {"filter": {"and": {"per_page": 101}}}, "filter.and.per_page"),
    ("list_numbered", {"limit": 1000}, "limit"),
    ("list_numbered", {"limit": 100.5}, "limit"),
    ("list_counted", {"take": 1000}, "take"),
    ("list_counted", {"take": "1000"}, "take"),
    ("get_paged", {"page": 1, "perPage": 1000}, "perPage"),
    ("get_author", {"fields": "{ posts(pagination: {first: 1000}) { id } }"}, "pagination.first"),
    ("get_author", {"fields": "{ posts(where: [{per_page: -1}]) { id } }"}, "where.per_page"),
    ("drop", {"first": 1000}, "first"),
]


@pytest.mark.parametrize(("name", "arguments", "where"), TOO_MUCH)
def test_a_page_is_capped_wherever_its_size_stands(
    tmp_path: Path, name: str, arguments: JsonObject, where: str
) -> None:
    name = _found(tmp_path, name)
    with pytest.raises(UnbindableError, match=rf"'?{where}'?.* may be at least 0 and at most 100"):
        send(tmp_path, name, arguments)
    assert send(tmp_path, name, arguments, MAX_INT)["variables"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("list_posts", {"options": {"paginate": {"first": 100, "page": 5000}, "search": "first"}}),
        ("list_found", {"filter": {"limit": {"eq": 5000}, "title": "limit"}}),
        ("list_found", {"filter": None}),
        ("raise", {"limit": 5000, "input": {"limit": 5000}}),
        ("drop", {"first": 5, "input": {"limit": 5000}}),
    ],
)
def test_what_is_no_page_is_not_capped(tmp_path: Path, name: str, arguments: JsonObject) -> None:
    name = _found(tmp_path, name)
    assert send(tmp_path, name, arguments)["variables"] == arguments


def _found(tmp_path: Path, name: str) -> str:
    """The tool of a root field, whatever verb a build puts before it."""
    names = tools_of(reading(tmp_path))
    last = name.rpartition("_")[2]
    return next(one.removeprefix("s__") for one in names if one.endswith(last))


def judged(tmp_path: Path, text: str, variables: JsonObject, max_page: int = 100) -> object:
    made = reading(tmp_path)
    kind = "mutation" if text.startswith("mutation") else "query"
    binding_ = next(
        one.binding
        for one in made.tools
        if isinstance(one.binding, GraphQLDocumentBinding) and one.binding.type == kind
    )
    return check_document(text, variables, schema=compile_schema(made.info.graph), limits=binding_, max_page=max_page)


@pytest.mark.parametrize(
    ("text", "variables"),
    [
        ("{ posts(options: {paginate: {first: 1000}}) { total } }", {}),
        ("query ($n: Int) { posts(options: {paginate: {first: $n}}) { total } }", {"n": 1000}),
        ("query ($n: Int) { posts(options: {paginate: {first: $n}}) { total } }", {"n": 1000.0}),
        ("query ($n: Int = 1000) { posts(options: {paginate: {first: $n}}) { total } }", {}),
        ("query ($o: Options) { posts(options: $o) { total } }", {"o": {"paginate": {"limit": -1}}}),
        ("query ($n: Int) { paged(perPage: $n) { total } }", {"n": 1000.0}),
        ("{ author { posts(where: {per_page: -1}) { id } } }", {}),
        ("mutation { drop(first: 1000) { id } }", {}),
    ],
)
def test_a_document_is_held_to_the_same_cap(tmp_path: Path, text: str, variables: JsonObject) -> None:
    denied = judged(tmp_path, text, variables)
    assert isinstance(denied, Deny)
    assert line_names(denied.reason, "at least 0 ", "at most 100")


def test_a_document_may_say_what_is_no_page(tmp_path: Path) -> None:
    for text in (
        "mutation { raise(limit: 5000, input: {limit: 5000}) { limit } }",
        "{ found(filter: {limit: {eq: 5000}}) { id } }",
    ):
        assert not isinstance(judged(tmp_path, text, {}), Deny)


def test_a_large_page_inside_an_object_makes_a_document_dear(tmp_path: Path) -> None:
    cheap = judged(tmp_path, "{ found(filter: {per_page: 1}) { id } }", {})
    dear = judged(tmp_path, "{ found(filter: {per_page: 90}) { id } }", {})
    assert (cheap.cost, dear.cost) == (2, 91)  # type: ignore[attr-defined]  # neither is a Deny


@pytest.mark.parametrize(
    "operation",
    [
        "query Some($n: Int) { posts(options: {paginate: {first: $n}}) { total } }",
        "query Some($n: Paging) { posts(options: {paginate: $n}) { total } }",
        "query Some($n: Float) { numbered(limit: $n) { id } }",
    ],
)
def test_the_variables_of_a_trusted_operation_are_capped_where_they_size_a_page(tmp_path: Path, operation: str) -> None:
    (tmp_path / "some.graphql").write_text(operation, encoding="utf-8")
    (tmp_path / "schema.graphql").write_text(SDL, encoding="utf-8")
    options = GraphOptions(operations=(str(tmp_path / "some.graphql"),))
    [tool] = read(tmp_path / "schema.graphql", graph=options).tools
    assert binding(tool).pages == ("n",)
