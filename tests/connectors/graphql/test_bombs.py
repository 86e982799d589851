"""Descriptions made to cost: each is refused or survived within bounds."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from graphql import build_schema, introspection_from_schema

from tests.connectors.graphql.reading import FIXTURES, SKIPS, binding, read_sdl
from tests.exhaustive import spread
from toolgen.connectors.graphql import description
from toolgen.core.errors import DescriptionError


def test_a_selection_stays_within_its_budget_however_wide_and_deep_types_are(tmp_path: Path) -> None:
    leaves = " ".join(f"f{number}: Int" for number in range(500))
    links = " ".join(f"t{number}: T{number}" for number in range(60))
    types = "\n".join(f"type T{number} {{ {leaves} {links} }}" for number in range(60))
    [tool] = read_sdl(tmp_path, f"type Query {{ a: T0 }}\n{types}").tools
    assert len(binding(tool).operation.splitlines()) < 200


def test_objects_that_hold_only_objects_are_not_followed_for_ever(tmp_path: Path) -> None:
    links = " ".join(f"t{number}: T{number}" for number in range(60))
    types = "\n".join(f"type T{number} {{ {links} }}" for number in range(60))
    [tool] = read_sdl(tmp_path, f"type Query {{ a: T0 }}\n{types}").tools
    assert binding(tool).operation.split()[3:] == ["a", "{", "__typename", "}", "}"]


@pytest.mark.parametrize(
    "types",
    [
        "type C { nodes: [C] pageInfo: C }",
        "type C { edges: [C] pageInfo: C node: C }",
        "type C { edges: [Int] pageInfo: Int }",
        "type C { edges: [E] pageInfo: P } type P { c: C } type E { node: U } union U = C | E",
    ],
)
def test_a_connection_that_leads_to_itself_is_opened_once(tmp_path: Path, types: str) -> None:
    [tool] = read_sdl(tmp_path, f"type Query {{ a: C }} {types}").tools
    assert len(binding(tool).operation.splitlines()) < 30


def test_a_union_of_everything_is_cut_to_some_of_its_types(tmp_path: Path) -> None:
    types = "\n".join(f"type T{number} {{ a: Int b: String }}" for number in range(1000))
    union = " | ".join(f"T{number}" for number in range(1000))
    [tool] = read_sdl(tmp_path, f"union U = {union}\n{types}\ntype Query {{ a: [U] }}").tools
    assert binding(tool).operation.count("... on") == 12


def test_arguments_that_lead_to_thousands_of_types_cost_the_operation_its_tool(tmp_path: Path) -> None:
    types = "\n".join(f"input I{number} {{ next: I{number + 1} }}" for number in range(12_000))
    reading = read_sdl(tmp_path, f"{types}\ninput I12000 {{ a: Int }} type Query {{ big(i: I0): Int small: Int }}")
    assert [tool.name for tool in reading.tools] == ["s__get_small"]
    assert [(one.level, one.code, one.origin) for one in reading.problems] == [
        ("error", "schema_too_large", "Query.big")
    ]
    assert reading.operations == 2


def test_arguments_that_take_too_many_bytes_cost_the_operation_its_tool(tmp_path: Path) -> None:
    fields = "\n".join(f"{'f' * 2000}{number}: Int" for number in range(2200))
    reading = read_sdl(tmp_path, f"input I {{ {fields} }} type Query {{ big(i: I): Int }}")
    assert [one.code for one in reading.problems] == ["schema_too_large"]


def test_an_enum_of_thousands_is_written_once_and_its_notes_are_cut(tmp_path: Path) -> None:
    values = "\n".join(f'"{"note " * 20}" V{number}' for number in range(3000))
    (tool,) = read_sdl(tmp_path, f"enum E {{ {values} }} type Query {{ a(x: E, y: [E!]): Int }}").tools
    assert list(tool.input_schema["$defs"]) == ["E"]
    assert len(tool.input_schema["$defs"]["E"]["description"]) <= 4096


def test_types_nested_as_deep_as_the_parser_allows_do_not_crash(tmp_path: Path) -> None:
    deep = "[" * 190 + "Int" + "]" * 190
    reading = read_sdl(tmp_path, f"type Query {{ a(x: {deep}): {deep} b: Int }}")
    assert reading.operations == 2
    assert {tool.name for tool in reading.tools} | {one.origin for one in reading.problems} >= {"s__get_b"}
    for tool in reading.tools:
        msgspec.json.encode(tool.input_schema)


def test_too_many_operations_ask_for_a_choice(tmp_path: Path) -> None:
    fields = " ".join(f"f{number}: Int" for number in range(5001))
    with pytest.raises(DescriptionError, match="5000") as caught:
        read_sdl(tmp_path, f"type Query {{ {fields} }}")
    assert "include" in caught.value.suggestion
    assert len(read_sdl(tmp_path, f"type Query {{ {fields} }}", include={"operations": ["f1?"]}).tools) == 10


def test_too_large_a_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(description, "MAX_SIZE", 2**20)
    with pytest.raises(DescriptionError, match="1 MiB"):
        read_sdl(tmp_path, "type Query { a: Int }" + " " * 2**20)


def test_defaults_json_cannot_say_are_left_out_or_written_as_text(tmp_path: Path) -> None:
    sdl = "scalar Long scalar Any type Query { a(x: Float = 1e999, y: Long = 99999999999999999999, z: Any = {k: [1e999]}): Int }"
    [tool] = read_sdl(tmp_path, sdl).tools
    properties = tool.input_schema["properties"]
    assert "default" not in properties["x"]
    assert properties["y"]["default"] == "99999999999999999999"
    assert "default" not in properties["z"]


@pytest.mark.parametrize("seed", spread(range(8), 4))
def test_a_damaged_description_is_read_or_refused_and_nothing_is_lost_without_a_word(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    sdl = (FIXTURES / "edges.graphql").read_text(encoding="utf-8")
    words = re.findall(r'"""|"[^"]*"|\w+|\S', sdl)
    introspected = json.dumps(introspection_from_schema(build_schema(sdl), input_value_deprecation=True, one_of=True))
    for _ in range(25):
        damaged = list(words)
        for _ in range(rng.choice([1, 2, 4])):
            place = rng.randrange(len(damaged))
            damaged[place] = rng.choice(["", "!", "[", "input", "interface", "union", "extend type", *words])
        document = json.loads(introspected)
        holder, key = rng.choice(list(_places(document)))
        holder[key] = rng.choice(
            [None, 1, True, "x", "a { b }", [], {}, "User", "By", "SCALAR", "INPUT_OBJECT", "UNION"]
        )
        for text in (" ".join(damaged), json.dumps(document)):
            try:
                reading = read_sdl(tmp_path, text)
            except DescriptionError:
                continue
            lost = [one for one in reading.problems if one.level == "error" or one.code in SKIPS]
            assert len(reading.tools) + len(lost) == reading.operations


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every spot in a JSON document: a container and a key of it."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield value, key
        yield from _places(item)
