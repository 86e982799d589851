"""What schemas of a very large source have in common: found once, viewed by each, and of one digest."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from toolgen.model.shared_definitions import Closure, Definitions, shared_among
from toolgen.model.subschemas import references, subschemas


def leads(*names: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"$ref": f"#/$defs/{name}"} for name in names}}


def walked(schemas: Mapping[str, Any], names: set[str]) -> set[str]:
    """The same by another way: from name to name."""
    found, todo = set[str](), [*names]
    while todo:
        if (name := todo.pop()) not in found:
            found.add(name)
            todo += references(schemas[name])
    return found


def graph(seed: int, count: int = 60) -> dict[str, Any]:
    """Definitions that refer to one another at random: chains, circles, and what nothing refers to."""
    chance = random.Random(seed)
    names = [f"d{number}" for number in range(count)]
    return {name: leads(*chance.sample(names, chance.choice((0, 0, 1, 1, 2)))) for name in names}


@pytest.mark.parametrize("seed", range(30))
def test_a_closure_is_what_walking_finds(seed: int) -> None:
    schemas = graph(seed)
    shared = Definitions(schemas)
    for name in schemas:
        closure = Closure(shared, {name})
        assert {*closure} == walked(schemas, {name})
        assert [*closure] == sorted(closure)
        assert len(closure) == len([*closure])
        assert all(closure[one] is schemas[one] for one in closure)
        assert all((one in closure) == (one in {*closure}) for one in (*schemas, "nothing"))


def test_what_is_not_reached_is_not_there() -> None:
    shared = Definitions({"a": leads("b"), "b": leads("a"), "c": leads("a")})
    closure = Closure(shared, {"a"})
    with pytest.raises(KeyError):
        closure["c"]
    assert closure.get("c") is None
    assert dict(closure) == {"a": leads("b"), "b": leads("a")}
    assert dict(Closure(shared, {"c"})) == {name: shared.schemas[name] for name in "abc"}


@pytest.mark.parametrize("seed", range(30))
def test_a_digest_changes_with_what_is_reached_alone(seed: int) -> None:
    schemas = graph(seed)
    changed = {**schemas, "d7": {**schemas["d7"], "description": "other"}}
    one, other = Definitions(schemas), Definitions(dict(reversed(changed.items())))
    for name in schemas:
        same = Closure(one, {name}).digest == Closure(other, {name}).digest
        assert same == ("d7" not in walked(schemas, {name}))
        assert (Closure(one, {name}) == Closure(other, {name})) == same


def test_names_are_part_of_a_digest() -> None:
    digests = {Closure(Definitions(schemas), {first}).digest for first, schemas in (
        ("a", {"a": leads()}), ("b", {"b": leads()}), ("a", {"a": leads("a")}), ("a", {"a": leads("b"), "b": leads()})
    )}  # fmt: skip
    assert len(digests) == 4


def test_what_is_not_defined_has_no_digest() -> None:
    with pytest.raises(KeyError):
        _ = Closure(Definitions({"a": leads("b")}), {"a"}).digest


def test_each_definition_is_visited_once_for_all_schemas() -> None:
    """One circle of all definitions, seen from every one of them: what each leads to is not walked again."""
    for count in (100, 200):
        schemas = {f"d{number}": leads(f"d{(number + 1) % count}") for number in range(count)}
        shared = Definitions(schemas)
        closures = [Closure(shared, {name}) for name in schemas]
        assert {len(closure) for closure in closures} == {count}
        assert len({closure.digest for closure in closures}) == 1
        assert shared.visits == count


def test_a_long_chain_is_no_chain_of_frames() -> None:
    schemas = {f"d{number}": leads(f"d{number + 1}") for number in range(5_000)} | {"d5000": leads()}
    closure = Closure(Definitions(schemas), {"d0"})
    assert len(closure) == 5_001
    assert closure.digest.startswith("sha256:")


def test_what_schemas_have_in_common_is_what_any_of_them_reaches() -> None:
    shared = Definitions({"a": leads("b"), "b": leads(), "c": leads(), "d": leads("c")})
    schemas = [{**leads(name), "$defs": Closure(shared, {name})} for name in ("a", "c")]
    assert shared_among([*schemas, leads(), {"$defs": {"own": {}}}]) == {name: shared.schemas[name] for name in "abc"}
    assert shared_among([leads()]) == {}


def test_a_property_that_is_called_like_a_keyword_holds_no_schema() -> None:
    schema = {"properties": {"items": {"$ref": "#/$defs/a"}}, "default": {"$ref": "#/$defs/b"}, "items": True}
    assert references(schema) == {"a"}
    assert [steps for steps, _ in subschemas(schema)] == [("properties", "items")]
