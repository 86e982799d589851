"""Faults planted in built tools are found, each of them; the tools as they are built are not called wrong."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from tests.connectors.http.fidelity import cases, document
from toolgen.connectors.openapi.proof.prover import prove_http_tools
from toolgen.connectors.openapi.read import read_openapi
from toolgen.connectors.source import SourceConfig, SourceReading
from toolgen.core.errors import DescriptionError
from toolgen.model.manifest import SecurityScheme
from toolgen.model.tool import Tool
from toolgen.quality.verify import FailedTool, ProvenTool

HERE = Path(__file__).parent / "planted"
SPECS = Path(__file__).parents[3] / "specs"
CORPUS = Path(__file__).parents[3].parent / "shared" / "corpus" / "openapi"
FAULTS = yaml.safe_load((HERE / "faults.yaml").read_text(encoding="utf-8"))
WAREHOUSE = HERE / "warehouse.yaml"
TOOLS_OF_A_DOCUMENT = 6
MAX_DOCUMENT_SIZE = 1_000_000  # bytes; the larger ones would take most of their time to be read


def config(path: Path) -> SourceConfig:
    return SourceConfig(name="w", kind="openapi", location=str(path))


def prove(path: Path, tool: Tool, schemes: Mapping[str, SecurityScheme], examples: int = 12) -> object:
    return prove_http_tools(config(path), schemes, examples, "0")(tool)


def planted(form: Any, at: str, fault: Mapping[str, Any]) -> Any:
    """A copy of a JSON value with what the fault says put in its place; `-` is behind the last item."""
    built = json.loads(json.dumps(form))
    *steps, last = at.split("/")
    node = built
    for step in steps:
        node = node[int(step) if isinstance(node, list) else step]
    if "drop" in fault:
        del node[int(last) if isinstance(node, list) else last]
    elif last == "-":
        node.append(fault["put"])
    else:
        node[int(last) if isinstance(node, list) else last] = fault["put"]
    return built


@pytest.fixture(scope="module")
def warehouse() -> SourceReading:
    reading = read_openapi(config(WAREHOUSE))
    assert [one for one in reading.problems if one.level == "error"] == []
    return reading


def test_the_tools_are_right_before_anything_is_planted(warehouse: SourceReading) -> None:
    prove_one = prove_http_tools(config(WAREHOUSE), warehouse.info.security_schemes, 12, "0")
    assert {tool.name: prove_one(tool) for tool in warehouse.tools if not isinstance(prove_one(tool), ProvenTool)} == {}


@pytest.mark.parametrize(
    "fault", FAULTS, ids=[f"{number} {one['tool']} {one['at']}" for number, one in enumerate(FAULTS)]
)
def test_a_planted_fault_is_found(warehouse: SourceReading, fault: dict[str, Any]) -> None:
    tool = next(one for one in warehouse.tools if one.name == f"w__{fault['tool']}")
    schemes = dict(warehouse.info.security_schemes)
    if fault["at"].startswith("schemes/"):
        form = planted(msgspec.to_builtins(schemes), fault["at"].removeprefix("schemes/"), fault)
        schemes = msgspec.convert(form, dict[str, SecurityScheme])
    else:
        tool = msgspec.convert(planted(tool.to_dict(), fault["at"], fault), Tool)
    verdict = prove(WAREHOUSE, tool, schemes)
    assert isinstance(verdict, FailedTool), verdict
    assert fault["says"] in f"{verdict.reason} {verdict.sent}"
    assert "#/" in verdict.pointer or verdict.sent


def test_a_fault_is_shown_with_the_smallest_arguments_and_its_place(warehouse: SourceReading) -> None:
    tool = next(one for one in warehouse.tools if one.name == "w__create_item")
    schema = planted(tool.input_schema, "$defs/Item/properties/box/properties/w/minimum", {"put": 5})
    verdict = prove(WAREHOUSE, msgspec.structs.replace(tool, input_schema=schema), warehouse.info.security_schemes)
    assert isinstance(verdict, FailedTool)
    assert verdict.pointer == "#/components/schemas/Item/properties/box/properties/w/minimum"
    assert verdict.arguments["parts"] == [{"box": {"w": 0.0}}]
    assert "`minimum: 5.0`, the description 0.0" in verdict.reason


NOT_CONSTRAINTS = frozenset({"title", "description", "examples", "default", "deprecated", "writeOnly", "$ref", "$defs"})
NAMED = ("properties", "patternProperties", "$defs", "dependentSchemas")
ONE = ("items", "additionalProperties", "not", "contains", "propertyNames")
SEVERAL = ("allOf", "anyOf", "oneOf", "prefixItems")


def constraints(node: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Every (schema, keyword) in a schema that constrains a value."""
    if not isinstance(node, dict):
        return
    for key in node:
        if key not in NOT_CONSTRAINTS and node[key] not in ({}, True):
            yield node, key
        inner = (
            node[key].values() if key in NAMED else node[key] if key in SEVERAL else (node[key],) if key in ONE else ()
        )
        for one in inner:
            yield from constraints(one)


def worsened(schema: Mapping[str, Any], chance: random.Random) -> tuple[dict[str, Any], str] | None:
    """A copy with one constraint changed, and which."""
    built = copy.deepcopy(dict(schema))
    found = list(constraints(built))
    if not found:
        return None
    node, key = chance.choice(found)
    value = node[key]
    match value:
        case dict() if key == "properties" and value and chance.random() < 0.5:
            del value[chance.choice(sorted(value))]
        case dict() if key == "properties":
            value["invented"] = {"type": "string"}
        case list() if key in {"required", "enum"} and len(value) > 1 and chance.random() < 0.5:
            value.pop(chance.randrange(len(value)))
        case list() if key in {"required", "enum"}:
            value.append("invented")
        case bool():
            node[key] = not value
        case int() | float():
            node[key] = value + 1
        case str() if key == "type":
            node[key] = chance.choice([one for one in ("string", "integer", "array", "object") if one != value])
        case str():
            node[key] = f"{value}x"
        case _:
            del node[key]
    return built, f"{key}: {value!r}"[:80]


def undetected(path: Path, many: int) -> tuple[int, list[str]]:
    """How many faults were planted in the schemas of a description's tools, and those that nobody noticed."""
    try:
        reading = read_openapi(config(path))
    except DescriptionError:
        return 0, []
    proof: Callable[[Tool], object] = prove_http_tools(config(path), reading.info.security_schemes, 1, "0")
    count, missed = 0, []
    for tool in reading.tools[:: max(1, len(reading.tools) // many)]:
        for field in ("input_schema", "output_schema"):
            # Not a secret: the same tool always gets the same fault.
            change = worsened(getattr(tool, field) or {}, random.Random(f"{path.name}{tool.name}{field}"))
            if change is not None:
                count += 1
                if not isinstance(proof(msgspec.structs.replace(tool, **{field: change[0]})), FailedTool):
                    missed.append(f"{path.name} {tool.name} {field} {change[1]}")
    return count, missed


def test_faults_in_the_projects_own_description_are_found() -> None:
    count, missed = undetected(SPECS / "orders.yaml", 100)
    assert count > 5
    assert missed == []


@pytest.fixture(scope="module")
def fidelity(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A file for each case of tests/fixtures/fidelity."""
    folder = tmp_path_factory.mktemp("fidelity")
    paths = {}
    for number, (name, case) in enumerate(cases()):
        paths[name] = folder / f"{number:03}.json"
        paths[name].write_text(json.dumps(document(case)), encoding="utf-8")
    return paths


def test_faults_in_every_case_of_fidelity_are_found(fidelity: dict[str, Path]) -> None:
    found = [undetected(path, 4) for path in fidelity.values()]
    assert sum(count for count, _ in found) > 400
    assert [one for _, missed in found for one in missed] == []


def test_no_case_of_fidelity_is_called_wrong(fidelity: dict[str, Path]) -> None:
    wrong = []
    for name, path in fidelity.items():
        reading = read_openapi(config(path))
        proof = prove_http_tools(config(path), reading.info.security_schemes, 2, "0")
        if any(isinstance(proof(tool), FailedTool) for tool in reading.tools):
            wrong.append(name)
    assert wrong == []


@pytest.mark.skipif(not CORPUS.is_dir(), reason="../shared/corpus/openapi is not here")
def test_faults_in_real_descriptions_are_found() -> None:
    real = [path for path in sorted(CORPUS.rglob("*")) if path.is_file() and path.stat().st_size < MAX_DOCUMENT_SIZE]
    found = [undetected(path, TOOLS_OF_A_DOCUMENT) for path in real]
    assert sum(count for count, _ in found) > 200
    assert [one for _, missed in found for one in missed] == []
