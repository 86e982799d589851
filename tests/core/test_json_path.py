"""JSONPath: what paths select, beside the library that parses them, and what bounds them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import jsonpath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgen.core.json_path import JsonPath, JsonPathError, StepBudget

STRICT = jsonpath.JSONPathEnvironment(strict=True)
DOCUMENT: Any = {
    "store": {
        "book": [
            {"category": "reference", "author": "Nigel Rees", "price": 8.95},
            {"category": "fiction", "author": "Evelyn Waugh", "price": 12.99, "isbn": "0-553"},
            {"category": "fiction", "author": "Herman Melville", "isbn": "0-395", "price": 8.99},
        ],
        "bicycle": {"color": "red", "price": 399, "": None, "0": "zero"},
    },
    "list": [1, 2, [3, [4]], {"a": [5]}, "x", None, True, False, 1.5, ""],
    "same": [[1, {"a": 2}], [1, {"a": 2}], {"a": 2}],
}
PATHS = [
    *("$", "$.store.book[*].author", "$..author", "$.store.*", "$.store..price", "$..book[2]", "$..book[-1]"),
    *("$..book[0,1]", "$..book[:2]", "$..book[::-1]", "$..book[?@.isbn]", "$..book[?@.price < 10]", "$..*", "$..['']"),
    *("$.list[1:5:2]", "$.list[2][1][0]", "$.list[?@ == 1]", "$.list[?@ == true]", "$.list[?@ != null]"),
    *("$.same[?@ == $.same[0]]", "$.same[?@ != $.same[0]]", "$..[?length(@) > 2]", "$..[?count(@.*) == 3]"),
    *(
        "$..book[?value(@..isbn) == '0-395']",
        "$.store.book[?@.price < $.store.bicycle.price && @.category == 'fiction']",
    ),
    *(
        "$.store.book[?!@.isbn || @.price >= 12.99]",
        "$..book[?@.author < 'N']",
        "$.nobody",
        "$.list[99]",
        "$['list'][0,'a']",
    ),
    *("$.list[?@[?@.a]]", "$.store.book[?@.price == $.nobody]", "$.list[?@.a == $.list[3].a]"),
]
EXTENDED = [
    *("$.store.bicycle.~", "$..book[?@.category in ['fiction', 'x']]", "$..book[?@.author contains 'Herman']"),
    *(
        "$.store.bicycle[0]",
        "$..[?# == 'price']",
        "$..book[?@.author =~ /herman.*/i]",
        "$..book[?startswith(@.author, 'E')]",
    ),
    *(
        "$..book[?isinstance(@.isbn, 'string')]",
        "$..book[?@.isbn == undefined]",
        "^[0].store.bicycle",
        "$.list[$.list[0]]",
    ),
]


def theirs(environment: Any, path: str, value: Any) -> list[tuple[tuple[Any, ...], Any]]:
    return [(tuple(match.parts), match.obj) for match in environment.compile(path).finditer(value)]


@pytest.mark.parametrize("path", PATHS)
def test_a_path_selects_what_the_library_selects(path: str) -> None:
    assert JsonPath(path).select(DOCUMENT) == theirs(STRICT, path, DOCUMENT)
    assert JsonPath(path).singular == STRICT.compile(path).singular_query()  # type: ignore[union-attr]
    assert JsonPath(path, "extended").select(DOCUMENT) == theirs(jsonpath, path, DOCUMENT)


@pytest.mark.parametrize("path", EXTENDED)
def test_extensions_of_the_syntax_stay_in_paths_that_hide(path: str) -> None:
    assert JsonPath(path, "extended").select(DOCUMENT) == theirs(jsonpath, path, DOCUMENT)
    if path == "$.store.bicycle[0]":  # an index of RFC 9535 is none of an object
        assert JsonPath(path).select(DOCUMENT) == []
        return
    with pytest.raises(JsonPathError, match="not a JSONPath"):
        JsonPath(path)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "b", "ab"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["a", "b", "0"]), inner, max_size=3),
    max_leaves=20,
)
TERMS = st.sampled_from(["@", "@.a", "@[0]", "$.a", "$..b", "1", "'a'", "null", "true", "length(@)", "count(@.*)"])
FILTERS = st.tuples(TERMS, st.sampled_from([" == ", " != ", " < ", " >= "]), TERMS).map("".join)
STEPS = st.sampled_from([".a", ".b", "[0]", "[-1]", "[*]", "..a", "..*", "[::-1]", "['a','b']"]) | FILTERS.map(
    "[?{}]".format
)


@given(st.lists(STEPS, max_size=4).map(lambda steps: "$" + "".join(steps)), VALUES)
def test_any_path_selects_what_the_library_selects_or_is_over_its_budget(path: str, value: Any) -> None:
    try:
        expected = theirs(STRICT, path, value)
    except jsonpath.JSONPathError:
        with pytest.raises(JsonPathError):
            JsonPath(path).select(value)
        return
    compiled, whole = JsonPath(path), StepBudget(10**6)
    assert compiled.select(value, whole) == expected
    used = 10**6 - whole.left
    assert compiled.select(value, StepBudget(used)) == expected
    with pytest.raises(JsonPathError, match="steps"):
        compiled.select(value, StepBudget(used - 1))


LONG = "a" * 200_000
BLOW_UP = "(a{1,50}){1,50}b"


def nested(times: int) -> Any:
    """Return an array of two equal arrays, and so on."""
    value: Any = 0
    for _ in range(times):
        value = [value, value]
    return value


def chain(times: int) -> Any:
    """Return an object in an object, and so on."""
    value: Any = {"a": {}}
    for _ in range(times):
        value = {"a": value}
    return value


# Documents are made in their test: together they take over a gigabyte.
HOSTILE: list[tuple[str, Callable[[], Any]]] = [
    ("$..*..*..*", lambda: nested(12)),
    ("$..[?count($..*) > 0]", lambda: nested(12)),
    ("$..[?@ == $]", lambda: nested(12)),
    ("$.a[?1 == 2]", lambda: {"a": [0] * 200_000}),
    ("$.a[?!@]", lambda: {"a": [0] * 200_000}),
    ("$.a[?@ == $.b]", lambda: {"a": [[0] * 2_000] * 200, "b": [0] * 2_000}),
    ("$.a[?@ == $.b]", lambda: {"a": [{"t": LONG}] * 20_000, "b": {"t": "".join([LONG])}}),
    ("$.a[?@ == $.b]", lambda: {"a": ["".join([LONG, "b"]) for _ in range(3_000)], "b": LONG + "b"}),
    ("$.a[?@ < $.b]", lambda: {"a": ["".join([LONG, "b"]) for _ in range(3_000)], "b": LONG + "b"}),
    (f"$.a[?search(@, '{BLOW_UP}')]", lambda: {"a": [LONG]}),
    ("$.a[?match(@, $.b)]", lambda: {"a": [LONG], "b": BLOW_UP}),
    ("$.a[?search('a', @)]", lambda: {"a": [f"a{{1,40}}{number}" for number in range(200)]}),
    ("$.a[?search(@, '(a*)*b')]", lambda: {"a": [LONG] * 5}),
    ("$.a[?" + " || ".join(["@ == $.b"] * 300) + "]", lambda: {"a": list(range(1_000)), "b": -1}),
    ("$" + "['a','a']" * 20, lambda: chain(20)),
    ("$[" + ",".join(["*"] * 400) + "]", lambda: {"a": [0] * 100, **{str(number): 0 for number in range(1_000)}}),
]


@pytest.mark.parametrize(("path", "made"), HOSTILE, ids=[path[:40] for path, _ in HOSTILE])
def test_a_selection_of_too_many_steps_ends(path: str, made: Callable[[], Any]) -> None:
    value = made()
    for dialect in ("rfc9535", "extended"):
        with pytest.raises(JsonPathError, match="100000 steps"):
            JsonPath(path, dialect).select(value, StepBudget(100_000))  # type: ignore[arg-type]


@pytest.mark.parametrize("operator", ["in", "contains"])
def test_membership_is_paid_for_too(operator: str) -> None:
    path = "$.a[?@ in $.b]" if operator == "in" else "$.a[?$.b contains @]"
    value = {"a": list(range(1_000)), "b": [[number] for number in range(1_000)]}
    with pytest.raises(JsonPathError, match="steps"):
        JsonPath(path, "extended").select(value, StepBudget(100_000))


def test_long_names_are_not_copied_into_each_node() -> None:
    value = {"k" * 1_000_000: [{"a": 0}] * 5_000}
    tracemalloc.start()
    try:
        assert len(JsonPath("$.*.*.a").select(value)) == 5_000
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("pattern", [r"(?=a)b", r"(a)\\1", "(", "a)|(b"])
def test_an_expression_that_could_hide_nothing_is_refused_where_it_should_hide(pattern: str) -> None:
    with pytest.raises(JsonPathError, match="expression"):
        JsonPath(f"$..[?search(@, '{pattern}')]", "extended")
    assert JsonPath(f"$..[?search(@, '{pattern}')]").select(["ab"]) == []  # RFC 9535, section 2.4.7


@pytest.mark.parametrize("pattern", [r"(?=a)b", r"(a)\1", "("])
def test_an_operator_with_an_expression_is_held_to_linear_time(pattern: str) -> None:
    with pytest.raises(JsonPathError, match="expression"):
        JsonPath(f"$..[?@ =~ /{pattern}/]", "extended")


def test_a_budget_is_shared_by_the_searches_that_are_given_it() -> None:
    budget = StepBudget(1_000)
    for _ in range(3):
        JsonPath("$.a").select({"a": 1}, budget)
    spent = 1_000 - budget.left
    other = StepBudget(1_000)
    JsonPath("$.a").select({"a": 1}, other)
    assert spent == 3 * (1_000 - other.left)
