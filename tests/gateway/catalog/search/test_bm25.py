from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toolgen
from bench.search import BUDGETS, SETS, index_of, lines, recall
from tests.catalogs import PETS, http_tool
from toolgen.gateway.catalog.search.bm25 import MAX_QUERY_LENGTH, RankedTool, ToolIndex
from toolgen.gateway.catalog.search.tokenizer import terms

TEXTS = [
    ("a", "get_weather", "The forecast of the weather for a city.", ["city"]),
    ("b", "send_mail", "Sends an e-mail to somebody.", ["recipient", "subject"]),
    ("c", "createRepository", "Creates a new repo for the user.", ["org"]),
    ("d", "webhook-list", "All hooks.", []),
    ("e", "delete_pet", "Removes the pet.", ["petId"]),
    ("f", "get_pet", "One pet.", ["petId"]),
]
WORDS = st.text(alphabet="abc xyz", max_size=12)


def ids(hits: list[RankedTool]) -> list[str]:
    return [hit.id for hit in hits]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("getPetByID2", ["get", "pet", "identifi", "2"]),
        ("get_pet_by_id_2", ["get", "pet", "identifi", "2"]),
        ("HTTPServerError", ["http", "server", "error"]),
        ("s3 bucket", ["3", "s3", "bucket"]),
        ("ipv4", ["ipv", "4", "ipv4"]),
        ("Cafés résumés", ["cafe", "resum"]),
        ("ｆｕｌｌ", ["full"]),
        ("天気予報", ["天気", "気予", "予報"]),
        ("the of and", []),
        ("", []),
        ("___---", []),
        ("pr", ["pull", "request"]),
    ],
)
def test_text_falls_into_terms(text: str, found: list[str]) -> None:
    assert terms(text) == found


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("what will the weather be in Paris tomorrow?", "a"),
        ("weather forecasts for cities", "a"),
        ("e-mail my boss", "b"),
        ("make a repository in my organisation", "c"),
        ("a new repo", "c"),
        ("list web hooks", "d"),
        ("remove a pet", "e"),
        ("fetch the pet", "f"),
        ("recipient", "b"),
    ],
)
def test_a_request_in_words_finds_its_tool(query: str, best: str) -> None:
    assert ids(ToolIndex.from_texts(TEXTS).search(query))[0] == best


@pytest.mark.parametrize("query", ["", "   ", "the of and", "qqqq", "?!", "\x00"])
def test_what_shares_no_word_with_any_tool_finds_nothing(query: str) -> None:
    assert ToolIndex.from_texts(TEXTS).search(query) == []


def test_a_catalog_is_searched_by_name_title_description_parameters_and_source() -> None:
    index = toolgen.ToolIndex(PETS)
    assert len(index) == len(PETS.tools)
    assert ids(index.search("delete a pet"))[0] == "pets__delete_pet"
    assert ids(index.search("tag", limit=1)) == ["pets__list_pets"]
    assert ids(index.search("shop")) == ["shop__query"]


def test_ties_stand_in_the_order_of_their_ids_whatever_the_order_they_came_in() -> None:
    same = [(id_, "get pet", "One pet.", ["id"]) for id_ in "cabd"]
    hits = ToolIndex.from_texts(same).search("pet", limit=3)
    assert ids(hits) == ["a", "b", "c"]
    assert len({hit.score for hit in hits}) == 1


def test_the_limit_is_kept_and_the_first_of_more_are_the_same() -> None:
    index = ToolIndex.from_texts(TEXTS)
    everything = index.search("get the weather pet mail", limit=50)
    assert len(everything) > 2
    for limit in range(len(everything) + 1):
        assert index.search("get the weather pet mail", limit=limit) == everything[:limit]
    assert index.search("pet", limit=-1) == []


def test_a_tool_is_found_once_it_was_added_and_not_after_it_was_removed() -> None:
    index = ToolIndex(PETS)
    assert index.search("invoice") == []
    index.add(http_tool("shop__create_invoice"))
    assert ids(index.search("invoice")) == ["shop__create_invoice"]
    index.add(http_tool("shop__create_invoice", properties={"customer": {"type": "integer"}}))
    assert ids(index.search("customer")) == ["shop__create_invoice"]
    assert len(index) == len(PETS.tools) + 1
    index.remove("shop__create_invoice")
    index.remove("shop__create_invoice")
    assert index.search("invoice customer") == []
    assert "shop__create_invoice" not in index


documents = st.lists(
    st.tuples(st.sampled_from("pqrstu"), WORDS, WORDS, st.lists(WORDS, max_size=2)),
    max_size=8,
    unique_by=lambda item: item[0],
)


@given(kept=documents, gone=documents, query=WORDS)
def test_an_index_is_the_same_as_one_that_never_held_what_was_removed(
    kept: list[tuple[str, str, str, list[str]]], gone: list[tuple[str, str, str, list[str]]], query: str
) -> None:
    """Nothing of a tool that a principal may not see is in the scores of those that it may: rarity and lengths included."""
    index = ToolIndex.from_texts([(f"gone-{item[0]}", *item[1:]) for item in gone])
    for item in reversed(kept):
        index.add_text(*item)
    index.search(query)
    for item in gone:
        index.remove(f"gone-{item[0]}")
    assert index.search(query) == ToolIndex.from_texts(kept).search(query)
    assert index._postings.keys() == ToolIndex.from_texts(kept)._postings.keys()


def test_a_query_beyond_the_bound_is_refused_and_the_longest_is_answered() -> None:
    index = ToolIndex.from_texts(TEXTS)
    with pytest.raises(ValueError, match="10000 characters"):
        index.search("pet " * 2_500_000)
    assert ids(index.search(("weather " * MAX_QUERY_LENGTH)[:MAX_QUERY_LENGTH]))[0] == "a"
    assert index.search("x1" * (MAX_QUERY_LENGTH // 2)) == []


def test_endless_text_is_cut() -> None:
    index = ToolIndex.from_texts([("a", "n" * 10**6, "word " * 10**6 + "last", ["p"] * 10**5)])
    assert ids(index.search("word")) == ["a"]
    assert index.search("last") == []


@pytest.mark.parametrize("name", sorted(set(BUDGETS) - {"steps"}))
def test_recall_on_labelled_sets(name: str) -> None:
    if not (SETS / name).is_dir():
        pytest.skip(f"the labelled set {name} is not here")
    tools, queries = lines(SETS / name / "tools.jsonl"), lines(SETS / name / "queries.jsonl")
    assert recall(index_of(tools), queries, 10) >= BUDGETS[name]


def test_the_bench_counts_what_recall_says(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(json.dumps({"q": "pet", "rel": ["e", "f", "a", "b"]}) + "\n", encoding="utf-8")
    assert recall(ToolIndex.from_texts(TEXTS), lines(tmp_path / "x.jsonl"), 10) == 0.5
