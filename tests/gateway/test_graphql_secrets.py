"""Values of secret scalars stay out of the record wherever an agent writes them, and files out of documents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from toolgen.frontends.python.gateway import Gateway
from toolgen.model.result import Envelope

SDL = """
scalar Password
scalar Upload
type Query { login(user: String, password: Password!, card: Card): Session, find(by: [Card]): Session }
type Mutation { store(file: Upload, files: Files): Session }
type Session { id: ID, of(secret: [Password!]): Session }
input Card { pin: Password, owner: String, next: Card }
input Files { all: [Upload!] }
"""
POLICY = """
principals: {bot: {api_key: "sha256:%s", roles: [bot]}}
rules: [{id: all, to: [bot], tools: ["s__*"], effects: [read, destructive], verdict: allow}]
egress: {private_networks: allow}
"""
CANARY = "hunter2-canary"


async def call(root: Path, name: str, arguments: Mapping[str, Any]) -> tuple[Envelope, str]:
    """How it ends, and all that was written down."""
    source = {
        "graphql": "s.graphql",
        "endpoint": "http://127.0.0.1:9/graphql",
        "queries": True,
        "scalars": {"Password": {"type": "string", "format": "password"}},
    }
    (root / "policies").mkdir(exist_ok=True)
    (root / "policies" / "p.yaml").write_text(POLICY % ("1" * 64), encoding="utf-8")
    (root / "s.graphql").write_text(SDL, encoding="utf-8")
    said = {"sources": {"s": source}, "audit": {"dir": "audit"}}
    (root / "toolgen.yaml").write_text(json.dumps(said), encoding="utf-8")

    async with Gateway.load(root / "toolgen.yaml") as gateway:
        ended = await gateway.call(f"s__{name}", dict(arguments), principal="bot")
    return ended, "".join(path.read_text("utf-8", "replace") for path in (root / "audit").rglob("*.jsonl"))


@pytest.mark.parametrize(
    ("query", "variables"),
    [
        ('{ login(user: "ann", password: "%s") { id } }', {}),
        ('{ login(user: "ann", password: """%s""") { id } }', {}),
        ('query ($p: Password!) { login(user: "ann", password: $p) { id } }', {"p": CANARY}),
        ('query ($p: Password! = "%s") { login(user: "ann", password: $p) { id } }', {}),
        ('{ login(user: "ann", password: "x", card: {next: {pin: "%s"}}) { id } }', {}),
        ('query ($c: Card) { login(user: "ann", password: "x", card: $c) { id } }', {"c": {"next": {"pin": CANARY}}}),
        ("query ($c: [Card]) { find(by: $c) { id } }", {"c": [{"owner": "ann", "pin": CANARY}]}),
        ('{ find(by: {owner: "ann"}) { of(secret: ["%s"]) { id } } }', {}),
        ('{ login(user: "ann", password: "%s"', {}),
    ],
)
async def test_a_secret_scalar_in_a_document_is_recorded_as_a_digest(
    tmp_path: Path, query: str, variables: Any
) -> None:
    written = query % CANARY if "%s" in query else query
    ended, recorded = await call(tmp_path, "run_query", {"query": written, "variables": variables})
    assert ended.error is not None
    assert CANARY not in recorded
    assert CANARY not in json.dumps(ended.to_dict())


@pytest.mark.parametrize(
    ("query", "variables"),
    [
        ('{ login(user: "ann", pasword: "%s") { id } }', {}),
        ('{ login(user: "ann", password: "x", card: {pni: "%s"}) { id } }', {}),
        ('{ login(user: "ann", password: "x", card: "%s") { id } }', {}),
        ('{ login(user: {password: "%s"}, password: "x") { id } }', {}),
        ('{ logn(user: "%s") { id } }', {}),
        ('query ($u: String) { login(user: $u, password: "x") { id } }', {"u": "ann", "password ": CANARY}),
        ('query ($c: Card) { login(password: "x", card: $c) { id } }', {"c": {"pni": CANARY}}),
        ('query ($c: Card) { login(password: "x", card: $c) { id } }', {"c": json.dumps({"pin": CANARY})}),
        ('{ login(user: "ann", password: "x") @also(password: "%s") { id } }', {}),
        ("{ find { id } }", CANARY),
    ],
)
async def test_what_the_schema_does_not_have_is_a_digest_whole(tmp_path: Path, query: str, variables: Any) -> None:
    """Nobody can tell which of its values is a secret. The agent that wrote it may be told what is wrong with it."""
    written = query % CANARY if "%s" in query else query
    ended, recorded = await call(tmp_path, "run_query", {"query": written, "variables": variables})
    assert ended.status == "refused"
    assert CANARY not in recorded
    assert "run_query" in recorded


async def test_a_secret_scalar_in_chosen_fields_is_recorded_as_a_digest(tmp_path: Path) -> None:
    fields = f'{{ of(secret: "{CANARY}") {{ id }} }}'
    _, recorded = await call(tmp_path, "get_login", {"password": CANARY, "user": "ann", "fields": fields})
    assert "s__get_login" in recorded
    assert CANARY not in recorded


FILE = {"base64": "AAAA", "filename": "a.txt"}


@pytest.mark.parametrize(
    ("query", "variables"),
    [
        ("mutation ($f: Upload) { store(file: $f) { id } }", {"f": FILE}),
        ("mutation ($f: [Upload!]) { store(files: {all: $f}) { id } }", {"f": [FILE]}),
        ("mutation ($f: Files) { store(files: $f) { id } }", {"f": {"all": [FILE]}}),
        ('mutation { store(file: {base64: "AAAA"}) { id } }', {}),
        ('mutation { store(file: {contents: "AAAA"}) { id } }', {}),
    ],
)
async def test_a_file_in_a_document_is_refused_and_not_sent_as_json(tmp_path: Path, query: str, variables: Any) -> None:
    ended, _ = await call(tmp_path, "run_mutation", {"query": query, "variables": variables})
    assert ended.error is not None
    assert (ended.status, ended.error.code) == ("refused", "validation")


@pytest.mark.parametrize("given", [None, "https://files.example/1"])
async def test_a_reference_to_a_file_in_a_document_is_passed_on(tmp_path: Path, given: Any) -> None:
    arguments = {"query": "mutation ($f: Upload) { store(file: $f) { id } }", "variables": {"f": given}}
    ended, _ = await call(tmp_path, "run_mutation", arguments)
    assert ended.error is not None
    assert ended.error.code == "upstream_unavailable"
