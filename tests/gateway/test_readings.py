"""What an argument can mean on the wire, in a running gateway: a rule holds for every reading of it, and no spelling dodges one."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from toolgen.frontends.python.gateway import Gateway
from toolgen.model.result import Envelope

KEY = "sha256:" + "1" * 64
OPEN: dict[str, Any] = {}
EITHER = {"type": ["integer", "string"]}
FASTAPI = {"anyOf": [{"type": "integer"}, {"type": "string"}]}
OPTIONAL = {"anyOf": [{"type": "integer"}, {"type": "null"}]}


def parameter(name: str, where: str, schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "in": where, "schema": schema, "required": where == "path", **more}


FORM = {
    "required": True,
    "content": {
        "application/x-www-form-urlencoded": {
            "schema": {"type": "object", "properties": {"open": OPEN, "either": EITHER}}
        }
    },
}
JSON_BODY = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "properties": {
                    "amount": {"type": "integer"},
                    "nested": {"type": "object", "properties": {"mode": {"type": "string", "default": "fast"}}},
                },
            }
        }
    },
}


def operation(name: str, *parameters: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"operationId": name, "parameters": [*parameters], "responses": {"200": {"description": "ok"}}, **more}


API = {
    "openapi": "3.1.0",
    "info": {"title": "Api", "version": "1"},
    "servers": [{"url": "http://127.0.0.1:9"}],
    "paths": {
        "/list": {
            "get": operation(
                "list_things",
                parameter("open", "query", OPEN),
                parameter("either", "query", EITHER),
                parameter("fastapi", "query", FASTAPI),
                parameter("optional", "query", OPTIONAL),
                parameter("n", "query", {"type": "integer"}),
                parameter("ids", "query", {"type": "array", "items": {"type": "string"}}, explode=False),
                parameter("pipes", "query", OPEN, style="pipeDelimited", explode=False),
                parameter("deep", "query", {"type": "object"}, style="deepObject", explode=True),
                parameter("region", "query", {"type": "string", "default": "eu"}),
                parameter("header", "header", OPEN),
                parameter("cookie", "cookie", EITHER),
            )
        },
        "/things/{key}": {"get": operation("get_thing", parameter("key", "path", EITHER))},
        "/form": {"post": operation("post_form", requestBody=FORM)},
        "/body": {"post": operation("post_body", requestBody=JSON_BODY)},
    },
}
SDL = """
enum Region { EU US }
scalar Long
scalar Whatever
input By { id: ID, region: Region = EU }
type Thing { id: ID }
type Query {
  thing(id: ID!): Thing
  find(by: By): Thing
  several(ids: [ID!]): Thing
  placed(region: Region = EU): Thing
  long(n: Long): Thing
  whatever(x: Whatever): Thing
  float(x: Float): Thing
}
"""


def write_project(root: Path, cases: list[list[dict[str, Any]]]) -> Path:
    """A project with a principal `bot-N` for each case, about whom only that case's rules speak; all it may else, where none allows."""
    (root / "policies").mkdir()
    (root / "api.json").write_text(json.dumps(API))
    (root / "lib.graphql").write_text(SDL)
    rules = []
    for number, said in enumerate(cases):
        allow = {"id": f"all-{number}", "tools": ["*"], "verdict": "allow"}
        own = said if any(one["verdict"] == "allow" for one in said) else [*said, allow]
        rules += [{**one, "id": f"{one['id']}-{number}", "to": [f"role-{number}"]} for one in own]
    names = range(len(cases))
    policy = {
        "principals": {f"bot-{n}": {"api_key": f"sha256:{n:064x}", "roles": [f"role-{n}"]} for n in names},
        "rules": rules,
        "egress": {"private_networks": "allow"},
    }
    (root / "policies" / "p.json.yaml").write_text(json.dumps(policy))
    sources = {
        "api": {"openapi": "api.json"},
        "lib": {"graphql": "lib.graphql", "endpoint": "http://127.0.0.1:9/graphql", "queries": True},
    }
    (root / "toolgen.yaml").write_text(json.dumps({"sources": sources, "audit": {"dir": str(root / "audit")}}))
    return root / "toolgen.yaml"


async def previews(path: Path, *calls: tuple[int, str, dict[str, Any]]) -> list[Envelope]:
    """What the gateway would send for each call of a case's principal, after every guard has had its say."""

    async with Gateway.load(path) as gateway:
        return [await gateway.preview(tool, arguments, principal=f"bot-{number}") for number, tool, arguments in calls]


def rule(tool: str, verdict: str, **more: Any) -> dict[str, Any]:
    return {"id": f"{verdict}s", "tools": [tool], "verdict": verdict, **more}


def narrowed(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"arguments": {"properties": {name: schema}, "required": [name]}}


ALIKE: dict[str, list[Any]] = {
    "open": [{"open": 101}, " 101", "+101"],
    "either": ["0101"],
    "fastapi": [],
    "header": [],
    "cookie": [],
}
IDS = (
    narrowed("id", {"const": "7"}),
    narrowed("id", {"const": 7}),
    {"when": "args.id == '7'"},
    {"when": "args.id == 7"},
)
OPEN_IDS = (
    narrowed("id", {"enum": ["7", "x"]}),
    narrowed("id", {"maximum": 100}),
    {"when": "args.id == '7'"},
)
Case = tuple[str, dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]


def above_a_hundred(name: str, more: list[Any]) -> Case:
    return (
        "api__list_things",
        {"verdict": "deny", **narrowed(name, {"type": "integer", "minimum": 101})},
        [{name: 101}, {name: "101"}, {name: 101.0}, *({name: one} for one in more)],
        [{name: 100}, {name: "100"}, {}],
    )


def about_seven(said: dict[str, Any]) -> Case:
    return (
        "lib__get_thing",
        {"verdict": "deny", **said},
        [{"id": 7}, {"id": "7"}, {"id": 7.0}, {"id": 70e-1}],
        [{"id": 8}, {"id": "8"}, {"id": 8.0}],
    )


def only_seven(said: dict[str, Any]) -> Case:
    return (
        "lib__get_thing",
        {"verdict": "allow", **said},
        [{"id": 7}, {"id": "7"}, {"id": 7.0}],
        [{"id": 101}, {"id": "101"}, {"id": 101.0}],
    )


DODGES: list[Case] = [
    # tool, what the rule says, calls it is about however they are written, and calls that it is not about
    *(above_a_hundred(name, more) for name, more in ALIKE.items()),
    (
        "api__list_things",
        {"verdict": "deny", **narrowed("open", {"contains": {"const": "b"}, "type": "array"})},
        [{"open": ["a", "b"]}, {"open": "b"}, {"open": {"open": "b"}}],
        [{"open": ["a"]}],
    ),
    (
        "api__list_things",
        {"verdict": "allow", "arguments": {"properties": {"open": {"maximum": 100}}}},
        [{"open": 5}, {"open": "5"}, {"open": [5]}, {"open": {"open": 5}}, {}],
        [{"open": 101}, {"open": "101"}, {"open": [101]} | {"open": 101}, {"open": {"open": 101}}],
    ),
    (
        "api__list_things",
        {"verdict": "deny", "when": "args.either == 101"},
        [{"either": 101}, {"either": "101"}, {"either": 101.0}],
        [{"either": 100}, {"either": "100"}],
    ),
    (
        "api__list_things",
        {"verdict": "allow", "when": "int(args.either) <= 100"},
        [{"either": 5}, {"either": "5"}],
        [{"either": 101}, {"either": "101"}, {"either": "x"}],
    ),
    (
        "api__list_things",
        {"verdict": "allow", **narrowed("either", {"enum": ["7", "all"]})},
        [{"either": 7}, {"either": "7"}, {"either": "all"}],
        [{"either": 8}, {"either": "8"}],
    ),
    (
        "api__list_things",
        {"verdict": "deny", **narrowed("n", {"const": 7})},
        [{"n": 7}, {"n": 7.0}, {"n": "7"}],
        [{"n": 8.0}],
    ),
    (
        "api__list_things",
        {"verdict": "allow", **narrowed("optional", {"type": "integer", "maximum": 9})},
        [{"optional": 7}, {"optional": "7"}],
        [{"optional": 10}, {"optional": "10"}],
    ),
    (
        "api__list_things",
        {"verdict": "deny", **narrowed("ids", {"contains": {"const": "8"}})},
        [{"ids": ["7", "8"]}, {"ids": ["7,8"]}],
        [{"ids": ["7", "9"]}, {"ids": ["7,9"]}, {"ids": []}],
    ),
    (
        "api__list_things",
        {"verdict": "deny", **narrowed("pipes", {"type": "array"})},
        [{"pipes": ["7", "8"]}, {"pipes": "7|8"}, {"pipes": {"7": 8}}],
        [{}],
    ),
    (
        "api__list_things",
        {"verdict": "deny", **narrowed("deep", {"properties": {"n": {"const": 7}}, "required": ["n"]})},
        [{"deep": {"n": 7}}, {"deep": {"n": "7"}}],
        [{"deep": {"n": 8}}],
    ),
    (
        "api__list_things",
        {"verdict": "deny", **narrowed("region", {"const": "eu"})},
        [{"region": "eu"}, {}],
        [{"region": "us"}],
    ),
    (
        "api__get_thing",
        {"verdict": "deny", **narrowed("key", {"const": "7"})},
        [{"key": 7}, {"key": "7"}, {"key": 7.0}],
        [{"key": 8}],
    ),
    (
        "api__post_form",
        {"verdict": "deny", **narrowed("open", {"const": 7})},
        [{"open": 7}, {"open": "7"}, {"open": [7]}, {"open": ["7"]}],
        [{"open": 8}, {"open": ["8"]}],
    ),
    (
        "api__post_body",
        {"verdict": "deny", "when": "args.nested.mode == 'fast'"},
        [{"nested": {}}, {"nested": {"mode": "fast"}}, {}],
        [{"nested": {"mode": "slow"}}],
    ),
    (
        "api__post_body",
        {"verdict": "deny", "when": "args.amount % 2 == 1"},
        [{"amount": 7}, {"amount": 7.0}],
        [{"amount": 8}, {"amount": 8.0}],
    ),
    *(about_seven(said) for said in IDS),
    *(only_seven(said) for said in OPEN_IDS),
    (
        "lib__find",
        {"verdict": "deny", **narrowed("by", {"properties": {"id": {"const": "7"}}, "required": ["id"]})},
        [{"by": {"id": 7}}, {"by": {"id": 7.0}}, {"by": {"id": "7"}}],
        [{"by": {"id": "8"}}],
    ),
    (
        "lib__find",
        {"verdict": "deny", "when": "args.by.region == 'EU'"},
        [{"by": {"region": "EU"}}, {"by": {}}],
        [{"by": {"region": "US"}}],
    ),
    (
        "lib__get_several",
        {"verdict": "deny", "when": "'7' in args.ids"},
        [{"ids": ["8", 7]}, {"ids": [7.0]}, {"ids": ["7"]}],
        [{"ids": ["8"]}],
    ),
    (
        "lib__get_placed",
        {"verdict": "deny", **narrowed("region", {"const": "EU"})},
        [{}, {"region": "EU"}],
        [{"region": "US"}, {"region": None}],
    ),
    (
        "lib__get_placed",
        {"verdict": "allow", "arguments": {"properties": {"region": {"const": "US"}}}},
        [{"region": "US"}],
        [{}, {"region": "EU"}],
    ),
    (
        "lib__get_long",
        {"verdict": "allow", "when": "args.n <= 100"},
        [{"n": 5}, {"n": "5"}],
        [{"n": 101}, {"n": "101"}],
    ),
    (
        "lib__get_whatever",
        {"verdict": "deny", **narrowed("x", {"type": "integer", "minimum": 101})},
        [{"x": 101}, {"x": "101"}, {"x": 101.0}],
        [{"x": 100}, {"x": "100"}],
    ),
]  # fmt: skip


@pytest.fixture(name="judged", scope="module")
def _judged(tmp_path_factory: pytest.TempPathFactory) -> list[Envelope]:
    """Every call of every case, judged by one gateway."""
    path = write_project(tmp_path_factory.mktemp("readings"), [[rule(tool, **said)] for tool, said, *_ in DODGES])
    calls = [
        (number, tool, arguments)
        for number, (tool, _, about, others) in enumerate(DODGES)
        for arguments in (*about, *others)
    ]
    return asyncio.run(previews(path, *calls))


@pytest.mark.parametrize("number", range(len(DODGES)))
def test_a_rule_holds_for_every_reading_of_a_call(judged: list[Envelope], number: int) -> None:
    _, said, about, others = DODGES[number]
    before = sum(len(case[2]) + len(case[3]) for case in DODGES[:number])
    found = judged[before : before + len(about) + len(others)]
    refused = [one.error is not None and one.error.code == "forbidden" for one in found]
    denies = said["verdict"] == "deny"
    assert [*zip([*about, *others], refused, strict=True)] == [
        *((one, denies) for one in about),
        *((one, not denies) for one in others),
    ]


DOCUMENTS: list[tuple[str, dict[str, Any]]] = [
    ("{ thing(id: 7) { id } }", {}),
    ('{ thing(id: "7") { id } }', {}),
    ("query Q($i: ID!) { thing(id: $i) { id } }", {"i": 7}),
    ("query Q($i: ID!) { thing(id: $i) { id } }", {"i": 7.0}),
    ("query Q($i: ID! = 7) { thing(id: $i) { id } }", {}),
    ("{ several(ids: 7) { id } }", {}),
    ("query Q($i: [ID!]) { several(ids: $i) { id } }", {"i": 7.0}),
    ("{ find(by: {id: 7}) { id } }", {}),
    ("query Q($i: ID) { find(by: {id: $i}) { id } }", {"i": 7.0}),
    ("query Q($b: By) { find(by: $b) { id } }", {"b": {"id": 7.0}}),
    ("{ placed { id } }", {}),
    ("query Q($r: Region) { placed(region: $r) { id } }", {}),
    ("{ find(by: {}) { id } }", {}),
    ("query Q($r: Region) { find(by: {region: $r}) { id } }", {}),
    ("{ float(x: 7.0) { id } }", {}),
    ("{ whatever(x: 7e0) { id } }", {}),
    ('{ whatever(x: "7") { id } }', {}),
    ('{ long(n: "7") { id } }', {}),
]


async def test_a_rule_holds_for_every_reading_of_a_document(tmp_path: Path) -> None:
    conditions = {
        "get_thing": "args.id == '7'",
        "get_several": "'7' in args.ids",
        "find": "has(args.by.id) ? args.by.id == '7' : args.by.region == 'EU'",
        "get_placed": "args.region == 'EU'",
        "get_float": "args.x % 2 == 1",
        "get_whatever": "args.x == 7",
        "get_long": "args.n == 7",
    }
    rules = [{**rule(f"lib__{tool}", "deny", when=when), "id": f"no-{tool}"} for tool, when in conditions.items()]
    path = write_project(tmp_path, [rules])
    calls = [(0, "lib__run_query", {"query": text, "variables": variables}) for text, variables in DOCUMENTS]
    for document, envelope in zip(DOCUMENTS, await previews(path, *calls), strict=True):
        assert envelope.error is not None, document
        assert (envelope.error.code, (envelope.error.rule or "")[:3]) == ("forbidden", "no-"), document


async def test_whole_numbers_are_sent_judged_and_recorded_as_integers(tmp_path: Path) -> None:
    calls: list[tuple[int, str, dict[str, Any]]] = [
        (0, "api__list_things", {"n": 7.0}),
        (0, "api__post_body", {"amount": 7.0, "nested": {"deep": [1.0, 1.5]}}),
    ]
    query, body = await previews(write_project(tmp_path, [[]]), *calls)
    assert query.data["url"].endswith("?n=7")
    assert '"amount":7,' in str(body.data["body"])
