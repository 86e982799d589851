"""pydantic's models in parameters and answers: in the schema with the rest, read and written by pydantic; answers are what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.connectors.functions.projects import call, written
from toolgen.frontends.python.gateway import Gateway

pytest.importorskip("pydantic")
TOOLS = '''
import dataclasses, math
from typing import Annotated, Literal
import msgspec
import pydantic
import toolgen
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

class Item(BaseModel):
    sku: str = Field(min_length=2, description="its number")
    count: int = Field(1, ge=1, le=9, alias="howMany")

class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int

class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str] = []

class Node(BaseModel):
    name: str
    below: "list[Node]" = []

class Even(BaseModel):
    n: int
    @pydantic.field_validator("n")
    @classmethod
    def even(cls, n: int) -> int:
        if n % 2:
            raise ValueError("must be even")
        return n

@pydantic.dataclasses.dataclass
class Place:
    city: str = Field(max_length=5)

@dataclasses.dataclass
class Plain:
    size: Annotated[int, Field(ge=1)]

class Typed(TypedDict):
    size: Annotated[int, Field(ge=1)]

@dataclasses.dataclass
class order:
    mine: int

@toolgen.tool
def order_items(items: Annotated[list[Item], Field(max_length=2, description="what to order")], first: Item | None = None,
                size: int = 3) -> dict[str, int]:
    """Orders."""
    assert all(isinstance(one, Item) for one in items)
    return {one.sku: one.count for one in [*items, *([first] if first else [])]}

@toolgen.tool
def pet(pet: Annotated[Cat | Dog, Field(discriminator="kind")]) -> str:
    """Says which."""
    return type(pet).__name__

@toolgen.tool
def tree(root: Node) -> Node:
    """Gives it back."""
    return root

@toolgen.tool
def even(x: Even) -> int:
    """Takes even ones."""
    return x.n

@toolgen.tool
def others(place: Place, plain: Plain, typed: Typed, mixed: Item = Item(sku="ab")) -> list[str]:
    """Takes all."""
    return [type(one).__name__ for one in (place, plain, typed, mixed)]

@toolgen.tool
def item(kind: str) -> Item:
    """Answers an item, or what is none."""
    return {"good": Item(sku="ab", howMany=2), "dict": {"sku": "ab", "howMany": 1}, "bad": Item.model_construct(sku="a", count=99),
            "other": 3, "none": None}[kind]

@toolgen.tool
def numbers(kind: str) -> object:
    """Answers numbers."""
    return {"nan": [1.0, {"a": math.nan}], "infinite": math.inf, "null": [None, 1.5], "set": object()}[kind]

@toolgen.tool
def promised(kind: str) -> dict[str, int]:
    """Answers what it says, or does not."""
    return {"good": {"a": 1}, "text": {"secret-key": "secret-value"}, "list": [1]}[kind]

@toolgen.tool
def bare(kind: str):
    """Says nothing of its answer."""
    return Item(sku="ab", howMany=3)
'''


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("models"), TOOLS)


def test_models_are_in_the_schema_with_limits_descriptions_and_aliases(project: Path) -> None:
    manifest = Gateway.load(project).manifest
    assert [problem.message for problem in manifest.problems] == []
    schema = dict(manifest.tools["own__order_items"].input_schema)
    Draft202012Validator.check_schema(schema)
    assert schema["properties"]["items"]["maxItems"] == 2
    assert schema["properties"]["items"]["description"] == "what to order"
    item = schema["$defs"]["Item"]["properties"]
    assert item["sku"] == {"type": "string", "minLength": 2, "description": "its number"}
    assert item["howMany"] == {"type": "integer", "default": 1, "minimum": 1, "maximum": 9}
    assert schema["required"] == ["items"]


async def test_values_are_models_and_their_limits_hold(project: Path) -> None:
    made = await call(project, "own__order_items", {"items": [{"sku": "ab", "howMany": 2}], "first": {"sku": "cd"}})
    assert made["data"] == {"ab": 2, "cd": 1}
    for items in ([{"sku": "a"}], [{"sku": "ab", "howMany": 10}], [{"sku": "ab"}] * 3, ["ab"], [{}]):
        assert (await call(project, "own__order_items", {"items": items}))["error"]["code"] == "validation", items
    assert (await call(project, "own__pet", {"pet": {"kind": "dog"}}))["data"] == "Dog"
    assert (await call(project, "own__pet", {"pet": {"kind": "dog", "lives": 3, "tricks": 3}}))["error"][
        "code"
    ] == "validation"
    root = {"name": "a", "below": [{"name": "b", "below": []}]}
    assert (await call(project, "own__tree", {"root": root}))["data"] == root
    given = {"place": {"city": "Bonn"}, "plain": {"size": 1}, "typed": {"size": 2}}
    assert (await call(project, "own__others", given))["data"] == ["Place", "Plain", "dict", "Item"]
    assert (await call(project, "own__others", {**given, "plain": {"size": 0}}))["error"]["code"] == "validation"


async def test_what_a_validator_refuses_is_told_without_what_was_sent(project: Path) -> None:
    assert (await call(project, "own__even", {"x": {"n": 2}}))["data"] == 2
    error = (await call(project, "own__even", {"x": {"n": 77777}}))["error"]
    assert (error["code"], "must be even" in error["message"]) == ("validation", True)
    assert "77777" not in error["message"]
    assert "errors.pydantic.dev" not in error["message"]


@pytest.mark.parametrize(
    ("tool", "kind", "data"),
    [
        ("item", "good", {"sku": "ab", "howMany": 2}),
        ("item", "dict", {"sku": "ab", "howMany": 1}),
        ("bare", "", {"sku": "ab", "howMany": 3}),
        ("promised", "good", {"a": 1}),
        ("numbers", "null", [None, 1.5]),
    ],
)
async def test_an_answer_is_written_as_it_says(tool: str, kind: str, data: Any, project: Path) -> None:
    assert (await call(project, f"own__{tool}", {"kind": kind}))["data"] == data


@pytest.mark.parametrize(
    ("tool", "kind", "says"),
    [
        ("item", "bad", "/sku breaks `minLength` of its schema"),
        ("item", "other", "does not match its output schema"),
        ("item", "none", "does not match its output schema"),
        ("promised", "text", "/secret-key breaks `type`"),
        ("promised", "list", "the answer breaks `type`"),
        ("numbers", "nan", "has no JSON form"),
        ("numbers", "infinite", "has no JSON form"),
        ("numbers", "set", "has no JSON form"),
    ],
)
async def test_an_answer_that_is_not_what_it_says_is_an_error_without_a_word_of_it(
    tool: str, kind: str, says: str, project: Path
) -> None:
    found = await call(project, f"own__{tool}", {"kind": kind})
    assert (found["status"], found["error"]["code"]) == ("error", "handler_error")
    assert says in found["error"]["message"]
    assert "secret-value" not in str(found)


async def test_two_types_that_are_called_alike_have_a_definition_each(tmp_path: Path) -> None:
    text = '''
import dataclasses
import pydantic, toolgen

class A:
    class Thing(pydantic.BaseModel):
        x: int

class B:
    class Thing(pydantic.BaseModel):
        y: str

class C:
    @dataclasses.dataclass
    class Thing:
        z: bool

@toolgen.tool
def Thing(a: list[A.Thing], b: list[B.Thing], c: list[C.Thing]) -> list[int]:
    """Takes three."""
    return [a[0].x, len(b[0].y), int(c[0].z)]
'''
    path = written(tmp_path, text)
    tool = Gateway.load(path).manifest.tools["own__Thing"]
    good = {"a": [{"x": 1}], "b": [{"y": "abc"}], "c": [{"z": True}]}
    validator = Draft202012Validator(dict(tool.input_schema))
    assert validator.is_valid(good)
    assert not validator.is_valid({**good, "a": [{"y": "abc"}]})
    assert not validator.is_valid({**good, "c": [{"z": 1}]})
    assert (await call(path, "own__Thing", good))["data"] == [1, 3, 1]
