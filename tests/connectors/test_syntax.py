"""Keys that stand twice: found wherever they are, in JSON and in YAML, and nothing else taken for one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgen.connectors.syntax import parse, read
from toolgen.core.errors import DescriptionError

Found = list[tuple[str, str, int]]


def repeated(text: str) -> Found:
    return [(one.pointer, one.key, one.line) for one in read(text.encode(), where="d.json").repeated]


CASES: list[tuple[str, Found]] = [
    ('{"a": 1, "b": 2}', []),
    ('{"a": 1,\n "a": 2}', [("#", "a", 2)]),
    ('{"a": 1, "a": 1}', [("#", "a", 1)]),
    ('{"a": {"b": [0, {"c": 1,\n\n"c": {"d": 1, "d": 2, "d": 3}}]}}', [("#/a/b/1", "c", 3), ("#/a/b/1/c", "d", 3), ("#/a/b/1/c", "d", 3)]),
    ('[{"a": 1}, {"a": 1}, {"a/b~": {"x": 1, "x": 2}}]', [("#/2/a~1b~0", "x", 1)]),
    ('{"a": 1, "\\u0061": 2}', [("#", "a", 1)]),
    ('{"a": "\\u003a", "b": 1, "b": 2}', [("#", "b", 1)]),  # an escaped colon for the one that was lost
    ('{"a": "\\u003A::", "b\\u003a": ":"}', []),
    ('{"a": "{\\"b\\": 1, \\"b\\": 2}", "c": "\\\\", "d": ["}", ",", ":"]}', []),
    ('{"": 1, "": 2}', [("#", "", 1)]),
    ("{" + '"a": {' * 300 + '"b": 1, "b": 2' + "}" * 301, [("#" + "/a" * 300, "b", 1)]),  # deeper than most readers go
    ("a: 1\nb: 2\n", []),
    ("a: 1\nb:\n  c: 1\n  c: 2\na: 3\n", [("#", "a", 5), ("#/b", "c", 4)]),
    ("r:\n  200: x\n  '200': y\n", [("#/r", "200", 3)]),
    ("a: &m {x: 1, y: 2}\nb: {<<: *m, x: 3}\nc: {<<: [*m, {x: 4}], y: 1}\n", []),
    ("a: &m {x: 1, y: 2}\nb:\n  <<: *m\n  x: 3\n  x: 4\n", [("#/b", "x", 5)]),
    ("e:\n  f: &m {<<: {q: 2}, q: 3}\ng: *m\nh: {<<: *m, q: 4}\n", []),
    ("- a: &m {x: 1, x: 2}\n- *m\n- *m\n", [("#/0/a", "x", 1)]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_a_key_that_stands_twice_is_found(text: str, expected: Found) -> None:
    assert sorted(repeated(text)) == sorted(expected)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@given(VALUES.filter(lambda value: isinstance(value, (dict, list))), st.booleans(), st.sampled_from([None, 1]))
def test_no_json_without_such_a_key_has_one(value: object, ascii_only: bool, indent: int | None) -> None:
    assert repeated(json.dumps(value, ensure_ascii=ascii_only, indent=indent)) == []


@given(st.dictionaries(st.text(max_size=3), VALUES, min_size=1, max_size=4), st.data())
def test_every_json_with_such_a_key_has_it(value: dict[str, object], data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(value)))
    members = [*value.items(), (key, data.draw(VALUES))]
    text = "{" + ", ".join(f"{json.dumps(name)}: {json.dumps(item)}" for name, item in members) + "}"
    assert (("#", key, 1)) in repeated(text)


def test_what_repeats_without_end_is_told_of_in_part() -> None:
    text = "{" + ", ".join(['"a": 1'] * 200_000) + "}"
    assert len(repeated(text)) == 50
    assert len(repeated("b:\n" + "  a: 1\n" * 1000)) == 50


MERGES = [
    ("a: &a {x: 1, y: 1}\nb: {<<: *a, y: 2}", {"x": 1, "y": 2}),
    ("a: &a {x: 1}\nc: &c {x: 2, z: 3}\nb: {<<: [*a, *c]}", {"x": 1, "z": 3}),
    ("a: &a {x: 1}\nc: &c {<<: *a, y: 2}\nb: {<<: *c, z: 3}", {"x": 1, "y": 2, "z": 3}),
    ("b: &b {<<: *b, x: 1}", {"x": 1}),
    ("a: {x: 1}\nb: {<<: []}", {}),
]


@pytest.mark.parametrize(("text", "merged"), MERGES)
def test_merge_keys_mean_what_they_mean_elsewhere(text: str, merged: dict[str, int]) -> None:
    assert parse(text.encode(), where="d.yaml")["b"] == merged


def test_merges_of_merges_keep_each_key_once() -> None:
    levels = "".join(f"x-{n}: &b{n} {{<<: [{', '.join([f'*b{n - 1}'] * 10)}]}}\n" for n in range(1, 30))
    value = parse(f"x-0: &b0 {{k: 1, l: 2}}\n{levels}".encode(), where="d.yaml")
    assert value["x-29"] == {"k": 1, "l": 2}


def test_merging_more_than_anybody_writes_is_refused() -> None:
    wide = ", ".join(f"k{n}: 1" for n in range(2000))
    text = f"a: &a {{{wide}}}\n" + "".join(f"b{n}: {{<<: *a}}\n" for n in range(600))
    with pytest.raises(DescriptionError, match="merges too many keys"):
        parse(text.encode(), where="d.yaml")


@pytest.mark.parametrize(
    "text",
    ["a: !!bool maybe", "a: !!map [a]", "a: !!map b", "a: !!int ''", "a: !!float x", "a: !!seq {a: 1}", "a: !!set [b]", "a: !!null [b]",
     "a: !!omap b", "a: {<<: b}", "a: {<<: [[b]]}", "a: !!str [b]", "a: !!merge b", "!!merge a: b"],
)  # fmt: skip
def test_a_tag_that_its_value_does_not_fit_is_a_sentence_or_harmless(text: str) -> None:
    said = ""
    try:
        json.dumps(parse(text.encode(), where="d.yaml"))
    except DescriptionError as error:
        said = error.message
    assert said == "" or "is not YAML" in said


@pytest.mark.parametrize(
    ("text", "value"), [("!!set {a, b}", {"a": None, "b": None}), ("!!omap [{a: 1}]", [{"a": 1}]), ("!!pairs [{a: 1}]", [{"a": 1}])]
)  # fmt: skip
def test_what_json_has_no_word_for_is_what_it_is_made_of(text: str, value: object) -> None:
    assert parse(f"a: {text}".encode(), where="d.yaml")["a"] == value
