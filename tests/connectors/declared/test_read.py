"""Tool resources: files that declare tools by functions, requests, statements and expressions, each called like any other tool."""

from __future__ import annotations

import itertools
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.gateway.governed import upstream
from toolgen.core.errors import ConfigError
from toolgen.frontends.python.gateway import Gateway
from toolgen.quality.verify.source import verify_source

_NUMBERS = itertools.count()
POLICY = """
principals: {bot: {roles: [bot], attributes: {tenant: acme}}}
rules: [{id: all, to: [bot], tools: ["*"], effects: [read, write, destructive], verdict: allow}]
egress: {private_networks: allow}
"""


def project(
    folder: Path, resource: str | dict[str, Any], more: dict[str, Any] | None = None, policy: str = POLICY
) -> Path:
    """toolgen.yaml with one resource, `own`."""
    (folder / "policies").mkdir(exist_ok=True)
    (folder / "policies" / "policy.yaml").write_text(policy, encoding="utf-8")
    text = resource if isinstance(resource, str) else yaml.safe_dump(json.loads(json.dumps(resource)), sort_keys=False)
    (folder / "own.tool.yaml").write_text(text, encoding="utf-8")
    path = folder / "toolgen.yaml"
    sources = {"own": {"resource": "own.tool.yaml", **(more or {})}}
    path.write_text(yaml.safe_dump({"sources": sources, "audit": {"dir": "audit"}}), encoding="utf-8")
    return path


async def call(path: Path, name: str, arguments: dict[str, Any]) -> Any:
    async with Gateway.load(path) as gateway:
        return (await gateway.call(name, arguments, principal="bot")).to_dict()


def messages(path: Path) -> list[str]:
    return [problem.message for problem in Gateway.load(path).manifest.problems if problem.level == "error"]


FUNCTIONS = '''
import toolgen

def add(a: int, b: int = 1) -> int:
    """Adds."""
    return a + b

def loose(**arguments):
    return arguments

def bare(x, y=2):
    return [x, y]

def fails(x: int) -> int:
    raise toolgen.ToolError("a long message about what went wrong")

def who(ctx: toolgen.ToolContext) -> str:
    """Says who."""
    return ctx.principal
'''


async def test_exports_of_an_entry_are_functions_with_what_the_resource_says(tmp_path: Path) -> None:
    module = f"declared_functions_{next(_NUMBERS)}"
    (tmp_path / f"{module}.py").write_text(FUNCTIONS, encoding="utf-8")
    number = {"type": "integer", "maximum": 5}
    taking = {"type": "object", "properties": {"x": number}, "required": ["x"]}
    path = project(
        tmp_path,
        {
            "kind": "Tool",
            "name": "own",
            "entry": module,
            "errorMessageLimit": 10,
            "exports": [
                {"name": "add_up", "function": "add", "description": "Adds two numbers.", "effect": "read"},
                {"name": "bare", "parameters": taking},
                {"name": "fails", "parameters": taking},
                {"name": "fails_at_length", "function": "fails", "errorMessageLimit": 30},
                {"name": "who"},
                {"name": "bare_without", "function": "bare"},
                {"name": "nothing"},
                {"name": "loose", "parameters": {"type": "object", "properties": {"z": {}}}},
                {"name": "add", "parameters": {"type": "object", "properties": {"c": {}}}},
                {"name": "add_required", "function": "add", "parameters": {"type": "object", "properties": {"a": {}}}},
            ],
        },
    )
    manifest = Gateway.load(path).manifest
    assert manifest.tools["own__add_up"].description == "Adds two numbers."
    assert manifest.tools["own__add_up"].effect == "read"
    assert (await call(path, "own__add_up", {"a": 2}))["data"] == 3
    assert (await call(path, "own__bare", {"x": 5}))["data"] == [5, 2]
    assert (await call(path, "own__bare", {"x": 6}))["error"]["code"] == "validation"
    assert (await call(path, "own__loose", {"z": [1]}))["data"] == {"z": [1]}
    assert (await call(path, "own__who", {}))["data"] == "bot"
    assert (await call(path, "own__fails", {"x": 1}))["error"]["message"] == "a long me…"
    assert len((await call(path, "own__fails_at_length", {"x": 1}))["error"]["message"]) == 30
    told = messages(path)
    assert [message.partition(":")[2].partition(":")[0] for message in told] == ["17", "18", "22", "26"] or len(
        told
    ) == 4
    for says in ("no parameters", "no function nothing", "takes no c", "needs a"):
        assert any(says in message for message in told), (says, told)
    assert all(message.startswith("own.tool.yaml:") for message in told)


async def test_a_request_template_is_sent_by_the_same_guards_as_an_api(tmp_path: Path) -> None:
    with upstream() as (seen, server):
        resource = {
            "kind": "Tool",
            "http": {"server": server},
            "exports": [
                {
                    "name": "get_forecast",
                    "description": "Weather of a city.",
                    "parameters": {
                        "type": "object",
                        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "maximum": 7}},
                        "required": ["city"],
                    },
                    "request": {
                        "path": "/cities/{city}/forecast",
                        "query": {"d": "{days}", "units": "metric"},
                        "headers": {"X-Way": "plain"},
                    },
                },
                {
                    "name": "report",
                    "description": "Reports weather.",
                    "parameters": {
                        "type": "object",
                        "properties": {"city": {"type": "string"}, "text": {"type": "string"}},
                        "required": ["city", "text"],
                    },
                    "request": {"method": "POST", "path": "/reports", "body": {"place": "{city}", "words": "{text}"}},
                },
            ],
        }
        path = project(tmp_path, resource, {"auth": {"bearer": "token-1"}})
        manifest = Gateway.load(path).manifest
        assert messages(path) == []
        assert (manifest.tools["own__get_forecast"].effect, manifest.tools["own__report"].effect) == ("read", "write")
        found = await call(path, "own__get_forecast", {"city": "Köln/x", "days": 3})
        assert found["status"] == "ok", found
        assert "dot segment" in (await call(path, "own__get_forecast", {"city": "a/../b"}))["error"]["message"]
        assert (await call(path, "own__get_forecast", {"city": "a", "days": 8}))["error"]["code"] == "validation"
        assert (await call(path, "own__report", {"city": "Bonn", "text": "rain"}))["status"] == "ok"
        (first, second) = seen.requests
        assert first[:2] == ("GET", "/cities/K%C3%B6ln%2Fx/forecast?d=3&units=metric")
        assert (second[0], second[1], json.loads(second[2])) == ("POST", "/reports", {"place": "Bonn", "words": "rain"})
        closed = project(tmp_path, resource, policy=POLICY.replace("{private_networks: allow}", "{}"))
        assert (await call(closed, "own__get_forecast", {"city": "a"}))["error"]["code"] == "egress_refused"
        assert len(seen.requests) == 2
        path = project(tmp_path, resource, {"auth": {"bearer": "token-1"}})
        shown = await Gateway.load(path).preview("own__report", {"city": "a", "text": "b"}, principal="bot")
        assert "token-1" not in json.dumps(shown.to_dict())
        assert ["authorization", "Bearer ***"] in [[name.lower(), value] for name, value in shown.data["headers"]]
        source = Gateway.load(path).settings.sources["own"]
        assert all("declared" in str(one.verdict) for one in verify_source(source.config).tools)


GOOD_PARAMETERS = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
GOOD = {
    "name": "get",
    "description": "Gets.",
    "parameters": GOOD_PARAMETERS,
    "request": {"path": "/{id}"},
}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"request": {"path": "/{other}"}}, "is not one of its parameters"),
        ({"request": {"path": "/x"}}, "id does not occur"),
        ({"request": {"path": "x/{id}"}}, "begins with /"),
        ({"request": {"path": "/{id}?a=b"}}, "has no query"),
        ({"request": {"path": "/{id}/{"}}, "without an argument"),
        ({"request": {"path": "/{id}", "method": "FETCH"}}, "is not a method"),
        ({"request": {"path": "/{id}", "query": {"again": "{id}"}}}, "two places"),
        ({"request": {"path": "/a", "query": {"q": "id:{id}"}}}, "nothing beside it"),
        ({"request": {"path": "/{id}", "headers": {"Authorization": "x"}}}, "gateway's own"),
        ({"request": {"path": "/{id}", "query": {"api_key": "k"}}}, "belongs under auth"),
        ({"request": {"path": "/{id}", "headers": {"X": "${env:KEY}"}}}, "belongs under auth"),
        ({"request": {"path": "/a", "body": "{id}"}}, "GET request has no body"),
        ({"request": {"path": "/{id}", "url": "x"}}, "unknown key 'url'"),
        ({"request": None}, "has no request"),
        ({"name": "a__b"}, "no name of an export"),
        ({"name": "_a"}, "no name of an export"),
        ({"name": "A"}, "no name of an export"),
        ({"description": ""}, "has no description"),
        ({"parameters": None}, "has no parameters"),
        ({"parameters": {"type": "array"}}, "type object"),
        ({"parameters": {"type": "object", "properties": {}, "required": ["x"]}}, "what properties do not have"),
        (
            {"parameters": {**GOOD_PARAMETERS, "default": {"id": float("nan")}}},
            "nan is a number that JSON does not carry (put it in quotes",
        ),
        ({"output": {"maximum": float("-inf")}}, "-inf is a number that JSON does not carry"),
        ({"output": {"maximum": 10**30}}, "1000000000000000000000000000000 is a number that JSON does not carry"),
        ({"statement": "SELECT 1"}, "does not belong to a resource with http"),
        ({"errorMessageLimit": 0}, "1 to 1000"),
        ({"effect": "reads"}, "effect"),
        ({"descripton": "x"}, "did you mean 'description'"),
        ({"name": "other"}, "exported already"),
    ],
)
def test_a_wrong_export_is_a_problem_with_its_line_and_costs_no_other(
    change: dict[str, Any], says: str, tmp_path: Path
) -> None:
    wrong = {key: value for key, value in {**GOOD, "name": "wrong", **change}.items() if value is not None}
    resource = {
        "kind": "Tool",
        "http": {"server": "http://127.0.0.1:9"},
        "exports": [{**GOOD, "name": "other"}, wrong],
    }
    path = project(tmp_path, resource)
    manifest = Gateway.load(path).manifest
    assert list(manifest.tools) == ["own__other"]
    (problem,) = manifest.problems
    assert says in problem.message
    assert problem.code == "bad_export"
    line = int(problem.message.split(":")[1])
    lines = (tmp_path / "own.tool.yaml").read_text(encoding="utf-8").splitlines()
    begins = [index for index, text in enumerate(lines, 1) if text.startswith("- name")][1]
    assert begins <= line <= len(lines)


@pytest.mark.parametrize("wrong", [{"type": "nonsense"}, {"pattern": "("}, {"$ref": "https://example.com/x"}])
def test_parameters_that_are_no_schema_are_told_with_the_line_of_their_export(wrong: Any, tmp_path: Path) -> None:
    exports = [
        {"name": name, "description": "Sums.", "parameters": GOOD_PARAMETERS, "result": 1} for name in ("a", "b")
    ]
    exports[1]["parameters"] = {"type": "object", "properties": {"id": wrong}}
    path = project(tmp_path, {"kind": "Tool", "exports": exports})
    manifest = Gateway.load(path).manifest
    assert list(manifest.tools) == ["own__a"]
    (problem,) = manifest.problems
    lines = (tmp_path / "own.tool.yaml").read_text(encoding="utf-8").splitlines()
    assert problem.message.startswith(f"own.tool.yaml:{lines.index('- name: b') + 1}: ")
    assert "arguments" in problem.message


@pytest.mark.parametrize(
    ("text", "more", "says", "line"),
    [
        ("kind: Tool\nexports: []\n", {}, "1 to 500", 2),
        ("kind: Tol\nexports: []\n", {}, "kind", 1),
        ("kind: Tool\nname: other\nexports: [{name: a}]\n", {}, "source of toolgen.yaml is called own", 2),
        ("kind: Tool\nentry: a b\nexports: [{name: a}]\n", {}, "no module", 2),
        ("kind: Tool\nentry: a\nsql: b\nexports: [{name: a}]\n", {}, "takes one of them", 3),
        ("kind: Tool\nentri: a\nexports: [{name: a}]\n", {}, "did you mean 'entry'", 2),
        ("kind: [\n", {}, "is not YAML", 2),
        ("kind: Tool\nexports: [{name: a}]\n", {"prefix": "none"}, "is not allowed with resource", None),
        ("kind: Tool\nexports: [{name: a}]\n", {"python": "x"}, "is not allowed with resource", None),
    ],
)
def test_what_is_no_resource_is_an_error_with_file_and_line(
    text: str, more: dict[str, Any], says: str, line: int | None, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=says) as raised:
        Gateway.load(project(tmp_path, text, more))
    assert line is None or raised.value.where == f"own.tool.yaml:{line}"


@pytest.mark.parametrize("name", ["a__b", "a_"])
def test_the_first_separator_of_a_tools_name_stands_behind_its_resource(name: str, tmp_path: Path) -> None:
    path = project(tmp_path, {"kind": "Tool", "exports": [{"name": "x"}]})
    path.write_text(path.read_text(encoding="utf-8").replace("own:", f"{name}:"), encoding="utf-8")
    with pytest.raises(ConfigError, match="before the first __"):
        Gateway.load(path)


async def test_a_statement_is_a_named_query_under_the_same_guard(tmp_path: Path) -> None:
    pytest.importorskip("sqlglot")
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("CREATE TABLE customers (id INTEGER, name TEXT, tenant TEXT, secret TEXT)")
        database.execute("INSERT INTO customers VALUES (1, 'Ann', 'acme', 's'), (2, 'Eve', 'globex', 's')")
    database.close()
    named = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    resource = {
        "kind": "Tool",
        "sql": "sqlite:///shop.db",
        "exports": [
            {
                "name": "find",
                "description": "Finds a customer.",
                "parameters": named,
                "statement": "SELECT id, name FROM customers WHERE name = :name",
            },
            {
                "name": "leak",
                "description": "Reads what is not open.",
                "parameters": named,
                "statement": "SELECT secret FROM customers WHERE name = :name",
            },
            {"name": "drop", "description": "Drops.", "parameters": named, "statement": "DROP TABLE customers"},
            {
                "name": "other",
                "description": "Asks for more.",
                "parameters": named,
                "statement": "SELECT id FROM customers WHERE id = :id",
            },
            {
                "name": "odd",
                "description": "Has an odd type.",
                "parameters": {"type": "object", "properties": {"name": {"type": "object"}}},
                "statement": "SELECT id FROM customers WHERE name = :name",
            },
        ],
    }
    sql = 'sql: {own: {tables: {customers: {columns: [id, name], rows: "tenant = :tenant"}}}}\n'
    path = project(tmp_path, resource, policy=POLICY + sql)
    manifest = Gateway.load(path).manifest
    assert set(manifest.tools) == {"own__find", "own__leak"}
    assert len(messages(path)) == 3
    assert (await call(path, "own__find", {"name": "Ann"}))["data"]["rows"] == [[1, "Ann"]]
    assert (await call(path, "own__find", {"name": "Eve"}))["data"]["rows"] == []
    assert (await call(path, "own__find", {"name": "' OR 1=1 --"}))["data"]["rows"] == []
    assert (await call(path, "own__leak", {"name": "Ann"}))["error"]["code"] == "sql_refused"


async def test_a_transform_runs_no_code_and_is_pinned_by_its_text(tmp_path: Path) -> None:
    parameters = {
        "type": "object",
        "properties": {"orders": {"type": "array", "items": {"type": "object"}}},
        "required": ["orders"],
    }
    export = {
        "name": "totals",
        "description": "Sums orders up.",
        "parameters": parameters,
        "output": {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]},
        "result": {"sum": {"$sum": "$.orders[*].total"}, "cities": {"$unique": "$.orders[*].city"}},
    }
    bad = {**export, "name": "bad", "result": "$["}
    path = project(tmp_path, {"kind": "Tool", "exports": [export, bad]})
    built = Gateway.load(path)
    assert built.manifest.tools["own__totals"].effect == "read"
    (told,) = messages(path)
    assert "not a JSONPath" in told
    assert told.startswith("own.tool.yaml:")
    orders = [{"total": 2, "city": "Bonn"}, {"total": 3.5, "city": "Bonn"}]
    assert (await call(path, "own__totals", {"orders": orders}))["data"] == {"sum": 5.5, "cities": ["Bonn"]}
    assert (await call(path, "own__totals", {"orders": [{"total": "x"}]}))["error"]["code"] == "handler_error"
    assert (await call(path, "own__totals", {"orders": 3}))["error"]["code"] == "validation"
    project(tmp_path, {"kind": "Tool", "exports": [{**export, "result": {"sum": 1}}]})

    async with built as gateway:
        refused = await gateway.call("own__totals", {"orders": []}, principal="bot")
    assert "toolgen build" in refused.error.suggestion
