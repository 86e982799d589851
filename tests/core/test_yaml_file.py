"""Our own YAML: what is read as what, what is refused, on which line, and with which words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from toolgen.core.errors import ConfigError, PolicyError
from toolgen.core.yaml_file import YamlDocument, decode, parse, read


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    count: int = 7
    names: list[str] = []


class Other(msgspec.Struct, forbid_unknown_fields=True, rename={"first": "fi-rst"}):
    first: int


class Outer(msgspec.Struct, forbid_unknown_fields=True):
    inner: Inner
    many: list[Inner] = []
    maybe: Other | None = None
    pairs: tuple[Inner, ...] = ()
    table: dict[str, Inner] = {}


def data(text: str) -> Any:
    return parse(text, "f.yaml", ConfigError).data


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1", {"a": 1}),
        ("a: 2026-01-31", {"a": "2026-01-31"}),
        ("a: 2026-01-31T12:00:00Z", {"a": "2026-01-31T12:00:00Z"}),
        ("a: yes", {"a": True}),
        ("a: 'yes'", {"a": "yes"}),
        ("a: null\nb: ~\nc:", {"a": None, "b": None, "c": None}),
        ("a: 0x1F", {"a": 31}),
        ("a: [1, {b: [c]}]", {"a": [1, {"b": ["c"]}]}),
        ("'1': 2", {"1": 2}),
        ("", {}),
        ("# nothing\n", {}),
        ("a: &here 1", {"a": 1}),
        ("a: !!str 5", {"a": "5"}),
    ],
)
def test_values_are_what_yaml_says_but_for_dates(text: str, value: Any) -> None:
    assert data(text) == value


@pytest.mark.parametrize(
    ("text", "says", "line"),
    [
        ("a: 1\nb: 2\na: 3", "the key 'a' occurs twice", 3),
        ("x:\n  a: 1\n  a: 1", "the key 'a' occurs twice", 3),
        ("- a: 1\n  'a': 1", "the key 'a' occurs twice", 2),
        ("ok: 1\n1: a", "the key 1 is not text; put it in quotes", 2),
        ("yes: a", "the key True is not text; put it in quotes", 1),
        ("null: a", "the key None is not text", 1),
        ("a: {}\n? [b]\n: c", "is not", 2),
        ("a: &x [1]\nb: *x", "uses a YAML alias; write the value out", 1),
        ("a: &x {b: 1}\nc:\n  - *x", "uses a YAML alias; write the value out", 1),
        ("a: &x [*x]", "uses a YAML alias", 1),
        ("a: &x {b: 1}\nc:\n  <<: *x", "is not YAML", 3),
        ("a: [1\nb: 2", "is not YAML", 2),
        ("a: 1\n---\nb: 2", "is not YAML: but found another document", 2),
        ("a: !!python/object/apply:os.system [x]", "has the tag !!python/object/apply:os.system; leave it out", 1),
        ("a: !mine 1", "has the tag !mine; leave it out", 1),
        ("a:\n  !!set {b, c}", "has the tag !!set", 2),
        ("a: !mine {b: c}", "has the tag !mine", 1),
        ("a: !!omap [b: c]", "has the tag !!omap", 1),
        ("a: !!binary aGk=", "has the tag !!binary", 1),
        ("a: !!timestamp 2026-01-31", "has the tag !!timestamp", 1),
        ("a: \x07", "is not YAML", 0),
        ("a:\n  " + "[" * 51 + "]" * 51, "is nested more than 50 levels deep", 2),
        ("[" * 100_000, "is nested more than 50 levels deep", 1),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused_on_its_line(text: str, says: str, line: int) -> None:
    with pytest.raises(PolicyError) as caught:
        parse(text, "f.yaml", PolicyError)
    assert says in str(caught.value)
    assert str(caught.value).startswith(f"f.yaml:{line}: " if line else "f.yaml: ")


def test_fifty_levels_are_not_too_deep_and_those_beside_each_other_do_not_add_up() -> None:
    assert data("[" * 50 + "]" * 50) is not None
    assert len(data("\n".join(f"- [{{a: {number}}}]" for number in range(60)))) == 60


@pytest.mark.parametrize(
    ("text", "says", "line"),
    [
        ("inner: {}\nhosts: 1", "unknown key 'hosts' in the file (valid keys: inner, many, maybe, pairs, table)", 2),
        ("inner:\n  cuont: 1", "unknown key 'cuont' in inner (did you mean 'count'?)", 2),
        ("inner: {}\nmany:\n  - {}\n  - x: 1", "unknown key 'x' in many.1 (valid keys: count, names)", 4),
        ("inner: {}\nmaybe:\n  fi-rst: 1\n  more: 1", "unknown key 'more' in maybe (valid keys: fi-rst)", 4),
        ("inner: {}\npairs:\n  - more: 1", "unknown key 'more' in pairs.0 (valid keys: count, names)", 3),
        ("inner: {}\ntable:\n  q:\n    more: 1", "unknown key 'more' in table", 2),
        ("inner:\n  count: five", "inner.count: expected `int`, got `str`", 2),
        ("inner:\n  count: '5'", "inner.count: expected `int`, got `str`", 2),
        ("inner:\n  count: 5.5", "inner.count: expected `int`, got `float`", 2),
        ("inner:\n  count: true", "inner.count: expected `int`, got `bool`", 2),
        ("inner:\n  names:\n  - a\n  - 5", "inner.names.1: expected `str`, got `int`", 4),
        ("inner:\n  names: a", "inner.names: expected `array`, got `str`", 2),
        ("many: []", "the file: object missing required field `inner`", 1),
        ("inner: {}\nmaybe: {}", "maybe: object missing required field `fi-rst`", 2),
        ("inner:", "inner: expected `object`, got `null`", 1),
        ("- inner", "the file must be a mapping of keys to values", 1),
    ],
)
def test_what_is_not_known_or_of_another_type_is_refused_where_it_stands(text: str, says: str, line: int) -> None:
    with pytest.raises(ConfigError) as caught:
        decode(parse(text, "f.yaml", ConfigError), (), Outer, ConfigError)
    assert says.lower() in str(caught.value).lower()
    assert "`$" not in str(caught.value), "a place is said once, as a pointer"
    assert f"f.yaml:{line}" in str(caught.value)


def test_what_is_not_said_is_as_the_struct_has_it() -> None:
    made = decode(parse("inner: {}", "f.yaml", ConfigError), (), Outer, ConfigError)
    assert (made.inner.count, made.inner.names, made.many, made.maybe) == (7, [], [], None)


@pytest.mark.parametrize(
    ("text", "says", "line"),
    [
        ("a:\n  b:\n  - cuont: 1", "unknown key 'cuont' in a.b.0", 3),
        ("a:\n  b:\n  - count: x", "a.b.0.count: expected", 3),
        ("a:\n  b:\n  - 5", "a.b.0 must be a mapping of keys to values", 3),
    ],
)
def test_a_part_of_a_file_says_where_it_stands_in_the_whole(text: str, says: str, line: int) -> None:
    with pytest.raises(ConfigError) as caught:
        decode(parse(text, "f.yaml", ConfigError), ("a", "b", 0), Inner, ConfigError)
    assert says in str(caught.value)
    assert f"f.yaml:{line}" in str(caught.value)


def test_every_part_has_its_line_and_what_is_not_there_that_of_what_it_would_stand_in() -> None:
    document = parse("a: 1\nb:\n  c:\n  - d\n  -\n    e: f\n", "f.yaml", ConfigError)
    lines = {
        (): 1,
        ("a",): 1,
        ("b",): 2,
        ("b", "c"): 3,
        ("b", "c", 0): 4,
        ("b", "c", 1, "e"): 6,
        ("b", "c", 1, "x", "y"): 6,
        ("b", "zzz"): 2,
        ("zzz",): 1,
    }
    assert {path: document.where(*path) for path in lines} == {path: f"f.yaml:{line}" for path, line in lines.items()}
    assert document.name == "f.yaml"
    assert YamlDocument("made here", {}, {}).where("a", "b") == "made here:1"


def test_a_file_is_read_as_utf8_with_or_without_its_mark(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    for content in (b"a: \xc3\xa9", b"\xef\xbb\xbfa: \xc3\xa9"):
        path.write_bytes(content)
        assert read(path, "x.yaml", ConfigError).data == {"a": "é"}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"a: \xff", "x.yaml: is not UTF-8 text (byte 3)"),
        (b"a: 1 #" + b"x" * (4 * 1024 * 1024 - 5), "x.yaml: is larger than 4194304 bytes"),
        (None, "x.yaml: cannot be read: No such file or directory"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(content: bytes | None, says: str, tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(PolicyError) as caught:
        read(path, "x.yaml", PolicyError)
    assert says in str(caught.value)


def test_a_file_may_be_exactly_as_large_as_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"a: 1 #" + b"x" * (4 * 1024 * 1024 - 6))
    assert read(path, "x.yaml", ConfigError).data == {"a": 1}
