"""What a gateway imports when it starts: what reads SQL, GraphQL, JSONPath and pages only where something asks for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.gateway.issuer import AUDIENCE, ISSUER, jwk
from tests.projects import PETS, POLICY, make_project
from toolgen.frontends.python.gateway import Gateway
from toolgen.generator.emit.writer import render_all, write

STARTED = """
import sys
import toolgen.cli.serve
from toolgen.frontends.python.gateway import Gateway
from toolgen.frontends.server.http import Front, _app
gateway = Gateway.load("toolgen.yaml")
_app(gateway, "127.0.0.1", Front.of(gateway.settings))
print(*sys.modules)
"""
RARE = {"graphql", "httpx", "jinja2", "jsonpath", "jwt", "openapi_core", "redis", "rich", "snowballstemmer", "sqlglot"}
BUILDING = {"toolgen.generator.build", "toolgen.frontends.python.in_process", "toolgen.connectors.openapi.read"}


def started(root: Path) -> set[str]:
    """The modules of a process that has a gateway ready to be served."""
    done = subprocess.run(
        [sys.executable, "-c", STARTED],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PETS": "x"},
    )
    return set(done.stdout.split())


def built(path: Path) -> Path:
    """The folder of a project whose generated/ is written."""
    manifest = Gateway.load(path).manifest
    write(path.parent / "generated", render_all(manifest, ()))
    return path.parent


def without_databases(tmp_path: Path, **more: Any) -> set[str]:
    """The modules that a gateway over an HTTP API alone starts with."""
    (tmp_path / "policies").mkdir()
    (tmp_path / "pets.json").write_text(json.dumps(PETS), encoding="utf-8")
    policy = {name: part for name, part in POLICY.items() if name != "sql"} | more
    (tmp_path / "policies" / "policy.yaml").write_text(json.dumps(policy), encoding="utf-8")
    settings = {
        "sources": {"pets": {"openapi": "pets.json", "server": "http://127.0.0.1:9", "auth": {"key": "${env:PETS}"}}},
        "policies": "policies/",
        "generated": "generated/",
    }
    (tmp_path / "toolgen.yaml").write_text(json.dumps(settings), encoding="utf-8")
    return started(built(tmp_path / "toolgen.yaml"))


def test_without_databases_and_graphql_neither_is_imported(tmp_path: Path) -> None:
    modules = without_databases(tmp_path)
    assert {name.partition(".")[0] for name in modules} & RARE == set()
    assert modules & BUILDING == set()
    assert not any(
        name.startswith(
            ("toolgen.connectors.sql.execution", "toolgen.connectors.mcp.executor", "toolgen.connectors.sql.guard")
        )
        for name in modules
    )


def test_with_an_identity_provider_what_checks_tokens_is_imported_at_once(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [jwk("rsa")]}), encoding="utf-8")
    staff = {"jwt": {"issuer": ISSUER, "audience": AUDIENCE, "jwks": "../keys.json"}, "grants": {"g": {"a": ["bot"]}}}
    assert "jwt" in without_databases(
        tmp_path, issuers={"staff": staff}
    )  # and not at the first token, which would wait


def test_with_a_database_what_reads_sql_is_imported_at_once(tmp_path: Path) -> None:
    modules = started(built(make_project(tmp_path)))
    assert "sqlglot" in modules  # and not at the first call, which would wait for it
    assert "graphql" not in modules
