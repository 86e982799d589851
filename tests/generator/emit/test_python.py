"""Typed stubs of a catalog: they type-check whatever the descriptions bring along, and call what they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.catalogs import http_tool
from tests.generator.emit.test_formats import CORPUS, ROOT
from tests.golden.small import small_manifest
from toolgen.generator.build import build
from toolgen.generator.emit.python import docstring, identifier, python_module

HOSTILE = [
    '"""\nimport os\n"""',
    '"',
    '""',
    "\\",
    '\\"""',
    "ends with a backslash \\",
    '""" + __import__("os") + """',
    "nul \x00, bell \x07, form feed \x0c, next line \x85",
    "line\rbreaks\u2028of\u2029every\x0bkind",
    "\u202eright to left\u202c \u200b",
    "{braces} %s %(x)s {0}",
    "'''",
    "#: comment",
]
NAMES = [
    *("class", "match", "def", "None", "caller", "self", "_given", "ABSENT", "Any", "int", "str", "list"),
    *("__init__", "__x", "x-y", "x.y", "x y", "1st", "", "-", "猫", "ä", "a" * 64, "print", "type", "in", "ResultT"),
    *("x_y", 'quote"d', "back\\slash", "new\nline", "async", "await", "_", "__", "name"),
]


def checked(folder: Path, *sources: str) -> None:
    """Fails unless mypy --strict passes each of the modules."""
    paths = [folder / f"catalog_{number}.py" for number, _ in enumerate(sources)]
    for path, source in zip(paths, sources, strict=True):
        path.write_text(source, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        f"--cache-dir={folder}/cache",
        *map(str, paths),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr


def loaded(source: str) -> ModuleType:
    module = ModuleType("catalog")
    exec(compile(source, "catalog.py", "exec"), module.__dict__)
    return module


class Recorder:
    """A caller that keeps what it is given."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []

    async def call(self, name: str, arguments: dict[str, Any], /) -> str:
        self.calls.append((name, arguments))
        return "done"


def hostile_module() -> str:
    """Every awkward name as an argument, as a property and as a definition, with every awkward text beside it."""
    texts = [HOSTILE[number % len(HOSTILE)] for number in range(len(NAMES))]
    fields = {name: {"type": "string", "description": text} for name, text in zip(NAMES, texts, strict=True)}
    choices = {"enum": [*HOSTILE, *NAMES, None, True, 5]}
    tree = {"type": "object", "properties": {**fields, "kids": {"type": "array", "items": {"$ref": "#/$defs/class"}}}}
    loop = {"allOf": [{"$ref": "#/$defs/loop"}, {"minimum": 1}]}
    deep = {"choice": choices, "tree": tree, "ÄÖ": {"$ref": "#/$defs/a b"}, "l": {"$ref": "#/$defs/loop"}}
    tools = [
        http_tool("pets__class", properties=fields, required=NAMES[::2]),
        http_tool("pets__class-", properties={"tree": {"$ref": "#/$defs/class"}}, **{"$defs": {"class": tree}}),
        http_tool("pets__class_", properties={"tree": {"$ref": "#/$defs/class"}}, **{"$defs": {"class": {**tree, "minProperties": 1}}}),
        http_tool("def", properties=deep, **{"$defs": {"a b": choices, "class": tree, "loop": loop}}),
    ]  # fmt: skip
    described = [
        type(tool)(**{name: getattr(tool, name) for name in tool.__struct_fields__} | {"description": text})
        for tool, text in zip(tools, HOSTILE, strict=False)
    ]
    return python_module(described)


def test_the_modules_of_real_catalogs_pass_mypy(tmp_path: Path) -> None:
    graphql = {"graphql": "specs/catalog.graphql", "endpoint": "http://127.0.0.1:8802/graphql"}
    project = build({"orders": {"openapi": "specs/orders.yaml"}, "catalog": graphql}, root=ROOT)
    sources = [python_module(project.tools.values()), python_module(small_manifest().tools.values()), hostile_module()]
    if CORPUS.is_dir():
        sample = (
            "apisguru__vercel.com",
            "weaviate-weaviate__openapi-specs-schema",
            "readmeio-oas-examples__3.0-json-circular",
        )
        corpus = build({f"s{number}": {"openapi": str(CORPUS / f"{name}.json")} for number, name in enumerate(sample)})
        sources.append(python_module(corpus.tools.values()))
    checked(tmp_path, *sources)


@pytest.mark.parametrize("text", [*HOSTILE, "half a pair \ud800"], ids=range(len(HOSTILE) + 1))
def test_a_description_never_leaves_its_docstring(text: str) -> None:
    module = loaded(f"def f():\n    {docstring(text, '    ')}\n")
    spelt = text.replace("\ud800", r"\ud800")
    visible = "".join(letter for letter in spelt if letter.isprintable() and not letter.isspace())
    shown = "".join(letter for letter in module.f.__doc__ if letter.isprintable() and not letter.isspace())
    assert shown == visible
    assert set(module.__dict__) - set(loaded("").__dict__) == {"f"}


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_every_name_becomes_an_identifier(name: str) -> None:
    built = identifier(name)
    compile(f"def f(*, {built}): return {built}", "f.py", "exec")
    assert built.isascii()
    assert not built.startswith("__")


async def test_a_stub_calls_its_tool_with_the_wire_names_and_without_what_is_absent() -> None:
    properties = {"x-y": {"type": "string"}, "class": {"type": "integer"}, "x_y": {}}
    tool = http_tool("pets__find-pet", properties=properties, required=["class"])
    module = loaded(python_module([tool]))
    caller = Recorder()
    assert await module.pets__find_pet(caller, class_=5, x_y_2=None) == "done"
    assert await module.pets__find_pet(caller, class_=0, x_y="") == "done"
    assert caller.calls == [
        ("pets__find-pet", {"class": 5, "x_y": None}),
        ("pets__find-pet", {"class": 0, "x-y": ""}),
    ]
    with pytest.raises(TypeError, match="class_"):
        module.pets__find_pet(caller)


@pytest.mark.parametrize(
    ("schema", "annotation"),
    [
        ({"type": "string"}, "str"),
        ({"type": ["integer", "null"]}, "int | None"),
        ({"type": "array", "items": {"type": "number"}}, "list[float]"),
        ({"enum": ["a", None, 5]}, 'Literal["a", None, 5]'),
        ({"const": True}, "Literal[True]"),
        ({"enum": [1.5]}, "float"),
        ({"type": "object"}, "dict[str, Any]"),
        ({"type": "object", "additionalProperties": {"type": "boolean"}}, "dict[str, bool]"),
        ({"type": "object", "properties": {"a": {}}}, "PetsFindX"),
        ({"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}, "str | list[str]"),
        ({"anyOf": [{"type": "string"}, {}]}, "Any"),
        ({"allOf": [{"type": "integer"}, {"minimum": 1}]}, "int"),
        ({"allOf": [{"type": "integer"}, {"type": "string"}]}, "Any"),
        ({}, "Any"),
        (False, "Any"),
    ],
)
def test_annotations(schema: Any, annotation: str) -> None:
    module = python_module([http_tool("pets__find", properties={"x": schema}, required=["x"])])
    assert f"    x: {annotation},\n" in module


def test_the_same_definition_is_one_class_and_another_of_its_name_a_second() -> None:
    def tool(name: str, schema: dict[str, Any]) -> Any:
        return http_tool(name, properties={"pet": {"$ref": "#/$defs/Pet"}}, **{"$defs": {"Pet": schema}})

    pet = {"type": "object", "properties": {"name": {"type": "string"}}}
    named = {"type": "object", "properties": {"title": {"type": "string"}}}
    module = python_module([tool("pets__a", pet), tool("pets__b", pet), tool("pets__c", named)])
    assert module.count("class Pet(TypedDict)") == 1
    assert module.count("class Pet2(TypedDict)") == 1
    assert module.count("    pet: Pet | Absent") == 2
