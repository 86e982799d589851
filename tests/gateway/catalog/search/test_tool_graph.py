"""The graph of producers and consumers: what each tool needs and gives, and that a search brings the step before along."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.formats import CORPUS
from bench.search import APIS, steps_recall
from tests.catalogs import http_tool
from toolgen.gateway.catalog.search.bm25 import ToolIndex
from toolgen.gateway.catalog.search.tool_roles import role_of_text, source_of
from toolgen.generator.build import build
from toolgen.model.tool import Effect, Tool

FILMS = [
    ("films/search_film", "Finds films by their title.", ["query"]),
    ("films/list_genres", "All genres.", []),
    ("films/get_film", "One film.", ["film_id"]),
    ("films/get_film_credits", "The cast of a film.", ["film_id"]),
    ("films/delete_film_poster", "Removes a poster.", ["film_id"]),
    ("films/create_film", "Adds one.", ["title"]),
    ("plants/search_plant", "Finds plants.", ["query"]),
    ("plants/get_leaf_form", "The leaves.", ["plant_id"]),
]


def index(*without: str) -> ToolIndex:
    return ToolIndex.from_texts((id_, id_, text, given) for id_, text, given in FILMS if id_ not in without)


def found(tools: ToolIndex, query: str, limit: int = 10) -> list[str]:
    return [hit.id for hit in tools.search(query, limit)]


@pytest.mark.parametrize(
    ("name", "parameters", "needs"),
    [
        ("get_film", ["film_id"], {("film",)}),
        ("getFilm", ["filmId", "page"], {("film",)}),
        ("get_film", ["filmid"], {("film",)}),
        ("merge", ["pull_request_id"], {("pull", "request")}),
        ("get_order", ["id"], {("order",)}),
        ("GET_artists-id-albums", ["id"], {("artist",)}),
        ("order by id", ["id"], {("order",)}),
        ("POST_playlists-playlist_id-tracks", ["playlist_id", "uris"], {("playlist",), ("track",)}),
        ("get_posts", ["username"], {("user",)}),
        ("get_film", ["api_key", "client_id", "session_id", "page"], set()),
        ("get_forecast", ["country_code"], {("countri",)}),
        ("get_film", ["paid", "grid_size", "guides"], set()),
        ("ping", [], set()),
    ],
)
def test_a_parameter_says_what_it_identifies(name: str, parameters: list[str], needs: set[tuple[str, ...]]) -> None:
    assert {wanted for wanted, _ in role_of_text(name, name, "", tuple(parameters)).needs} == needs


@pytest.mark.parametrize(
    ("name", "writes"),
    [
        ("search_films", False),
        ("POST_search", False),  # as many searches are sent
        ("post_search", False),
        ("list_posts", False),
        ("POST_films", True),
        ("find_and_replace", True),
        ("delete_found_films", True),
    ],
)
def test_what_changes_something_is_told_by_its_verb(name: str, writes: bool) -> None:
    assert role_of_text(name, name, "", ("query",)).writes is writes


@pytest.mark.parametrize("effect", list(Effect))
def test_a_destructive_tool_is_no_step_before(effect: Effect) -> None:
    steps = [
        http_tool("s__search_film", effect, {"query": {}}),
        http_tool("s__shown", properties={"film_id": {}}, required=["film_id"]),
    ]
    assert ("s__search_film" in found(ToolIndex(steps), "shown")) is (effect is not Effect.DESTRUCTIVE)


@pytest.mark.parametrize(
    ("id_", "source"),
    [
        ("films/get", "films"),
        ("films__get", "films"),
        ("films::get", "films"),
        ("GET /films/{id}", ""),
        ("POST /films", ""),
        ("/films", ""),
        ("get_film", ""),
    ],
)
def test_the_source_of_a_text_stands_before_its_name(id_: str, source: str) -> None:
    assert source_of(id_) == source


def test_the_tool_that_finds_what_another_needs_comes_along() -> None:
    assert "films/search_film" in found(index(), "who was in the cast")
    assert found(index(), "leaves", 2) == ["plants/get_leaf_form", "plants/search_plant"]


MUSIC = [
    ("GET /me", "GET_me", "Your profile.", []),
    ("GET /me/player", "GET_me-player", "What is played now.", []),
    ("GET /search", "GET_search", "Finds artists, albums or tracks.", ["q", "type"]),
    ("GET /artists/{id}/albums", "GET_artists-id-albums", "Records of somebody.", ["id"]),
    ("POST /users/{user_id}/playlists", "POST_users-user_id-playlists", "Starts a mixtape.", ["user_id", "name"]),
    ("PUT /playlists/{playlist_id}/images", "PUT_playlists-playlist_id-images", "Replaces a cover.", ["playlist_id"]),
]


@pytest.mark.parametrize(
    ("query", "step"),
    [
        ("start a mixtape", "GET /me"),  # of whoever calls
        ("records", "GET /search"),  # one search for everything, by its description
        ("replace the cover", "GET /search"),  # and by nothing better
    ],
)
def test_who_calls_and_a_search_for_everything_are_producers(query: str, step: str) -> None:
    assert step in found(ToolIndex.from_texts(MUSIC), query)
    assert step not in found(ToolIndex.from_texts(tool for tool in MUSIC if tool[0] != step), query)
    assert "GET /me/player" not in found(ToolIndex.from_texts(MUSIC), query)


def test_hundreds_of_searches_by_name_do_not_bury_what_was_found() -> None:
    things = [f"thing{chr(97 + count // 26)}{chr(97 + count % 26)}" for count in range(300)]
    searches = [(f"s/find_{thing}", f"s/find_{thing}", "", ["query"]) for thing in things]
    users = [(f"s/get_{thing}", f"s/get_{thing}", "", [f"{thing}_id"]) for thing in things]
    index = ToolIndex.from_texts([*searches, *users, *(("s/" + word, "s/" + word, "Moon.", []) for word in "pqrst")])
    assert set(found(index, "is Armstrong on the moon", 5)) == {f"s/{word}" for word in "pqrst"}


def test_a_source_leads_to_its_own_tools_and_a_change_to_no_identifier() -> None:
    hits = found(index("plants/search_plant"), "leaves")
    assert hits == ["plants/get_leaf_form"]
    assert "films/create_film" not in found(index("films/search_film"), "cast")


def test_what_is_asked_about_is_shown_by_the_tool_that_gets_it() -> None:
    assert "films/get_film" in found(index(), "cast")


def test_a_name_in_a_request_wants_the_search_for_names() -> None:
    texts = [
        *((id_, id_, text, given) for id_, text, given in FILMS),
        ("films/top", "films/top", "The best rated.", []),
    ]
    named, unnamed = ToolIndex.from_texts(texts), "rated best of all"
    assert "films/search_film" not in found(named, unnamed)
    assert "films/search_film" in found(named, "is Titanic rated best of all")


def test_what_every_tool_needs_brings_nothing_along() -> None:
    """As the account that all of a source's tools are called for: it is no step of any request in particular."""
    accounts = ("shop/list_accounts", "shop/list_accounts", "", [])
    others = [f"shop/part{chr(97 + count // 26)}{chr(97 + count % 26)}" for count in range(60)]
    for given_, brought in ((["account_id"], False), ([], True)):
        texts = [
            accounts,
            ("shop/refund", "shop/refund", "", ["account_id"]),
            *((one, one, "", given_) for one in others),
        ]
        assert ("shop/list_accounts" in found(ToolIndex.from_texts(texts), "refund")) is brought


def test_a_request_is_answered_from_the_source_that_fits_it_as_a_whole() -> None:
    tools = [
        ("maps/route", "maps/route", "Plans a route between stations.", []),
        ("maps/map", "maps/map", "Draws a map.", []),
        ("trains/buy", "trains/buy", "Buys a ticket.", []),
        ("trains/station", "trains/station", "Trains that leave a station.", []),
        ("trains/route", "trains/route", "Plans a route between stations.", []),
    ]
    assert found(ToolIndex.from_texts(tools), "buy a ticket for the route between two stations", 2)[1] == "trains/route"


names = st.sampled_from(["search film", "get film", "list genre", "get film cast", "me", "delete film", "search"])
needs = st.lists(st.sampled_from(["film_id", "genre_id", "id", "user_id", "query"]), max_size=2, unique=True)
tools = st.lists(st.tuples(st.sampled_from("pqrstu"), names, needs), max_size=6, unique_by=lambda item: item[0])


@given(kept=tools, gone=tools, query=st.sampled_from(["cast of Titanic", "my film", "genre", "search"]))
def test_a_hidden_tool_leaves_no_trace_in_the_graph(
    kept: list[tuple[str, str, list[str]]], gone: list[tuple[str, str, list[str]]], query: str
) -> None:
    never = ToolIndex.from_texts((f"s/{id_}", name, "", given) for id_, name, given in kept)
    once = ToolIndex.from_texts((f"s/gone-{id_}", name, "", given) for id_, name, given in gone)
    for id_, name, parameters in reversed(kept):
        once.add_text(f"s/{id_}", name, "", parameters)
    once.search(query)
    for id_, _, _ in gone:
        once.remove(f"s/gone-{id_}")
    hits = never.search(query, 20)
    assert once.search(query, 20) == hits
    for limit in range(len(hits) + 1):
        assert never.search(query, limit) == hits[:limit]


def _operation(
    id_: str, answer: dict[str, Any] | None = None, *parameters: dict[str, Any], **more: Any
) -> dict[str, Any]:
    content = {"application/json": {"schema": answer or {"type": "object"}}}
    said = {
        "operationId": id_,
        "parameters": list(parameters),
        "responses": {"200": {"description": "", "content": content}},
    }
    return {**said, **more}


def _in(where: str, name: str) -> dict[str, Any]:
    return {"name": name, "in": where, "required": where == "path", "schema": {"type": "string"}}


def _array(of: str) -> dict[str, Any]:
    return {"type": "array", "items": {"$ref": f"#/components/schemas/{of}"}}


def _body(*required: str) -> dict[str, Any]:
    properties = {name: {"type": "string"} for name in required}
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {"required": True, "content": {"application/json": {"schema": schema}}}


@pytest.fixture(name="catalog", scope="module")
def _catalog(tmp_path_factory: pytest.TempPathFactory) -> list[Tool]:
    """Tools whose names say little: what they need and give is in their paths and schemas."""
    thing = {"type": "object", "properties": {"id": {"type": "string"}, "label": {"type": "string"}}}
    document = {
        "openapi": "3.0.3",
        "info": {"title": "Depot", "version": "1"},
        "servers": [{"url": "https://depot.example.com"}],
        "components": {"schemas": {"Crate": thing, "Booking": thing}},
        "paths": {
            "/crates": {"get": _operation("inventory", _array("Crate")), "post": _operation("store")},
            "/crates/{idOrLabel}/weighings": {"get": _operation("heft", None, _in("path", "idOrLabel"))},
            "/me": {"get": _operation("whoAmI")},
            "/couriers/{user_id}/tips": {"get": _operation("gratuity", None, _in("path", "user_id"))},
            "/overview": {"get": _operation("panorama", _array("Booking"))},
            "/seals": {"post": _operation("stamp", None, requestBody=_body("booking_id"))},
        },
    }
    path = tmp_path_factory.mktemp("depot") / "depot.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return list(build({"depot": {"openapi": str(path)}}).tools.values())


@pytest.mark.parametrize(
    ("query", "step"),
    [
        ("heft", "depot__inventory"),  # the path says that {idOrLabel} is a crate, and that the inventory has crates
        ("gratuity", "depot__who_am_i"),  # of the caller, whose id it is
        ("stamp", "depot__panorama"),  # a required property of the body, and what the schema of an answer has
    ],
)
def test_schemas_and_paths_say_what_leads_where(catalog: list[Tool], query: str, step: str) -> None:
    assert step in found(ToolIndex(catalog), query)
    assert step not in found(ToolIndex(tool for tool in catalog if tool.name != step), query)


def test_answers_and_arguments_without_end_are_read_to_a_bound(catalog: list[Tool]) -> None:
    deep: dict[str, Any] = {"type": "object", "properties": {}}
    for _ in range(200):
        deep = {"type": "object", "properties": {"again": deep, **{f"x{count}_id": {} for count in range(20)}}}
    endless = {"$ref": "#/$defs/node", "$defs": {"node": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}
    for schema in (deep, endless, {"$ref": "#/$defs/none"}, {"items": True, "properties": 3, "allOf": [None]}):
        tool = msgspec.structs.replace(
            catalog[0], name="depot__deep", input_schema=deep, output_schema=schema, digest=""
        )
        assert found(ToolIndex([*catalog, tool]), "deep")[0] == "depot__deep"


def test_several_steps_are_found_over_real_descriptions() -> None:
    """Requests written for descriptions of the corpus; none of them is in a labelled set. 0.67 with words alone."""
    if not CORPUS.is_dir():
        pytest.skip("the corpus is not here")
    small = {api: file for api, file in APIS.items() if api != "github"}
    built = {api: list(build({api: {"openapi": str(CORPUS / file)}}).tools.values()) for api, file in small.items()}
    assert steps_recall(built) >= 0.8
