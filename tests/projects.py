"""Small whole projects on disk, for tests that go through the command line or the gateway."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any

from toolgen.audit.reader import entries, entry_at
from toolgen.frontends.python.gateway import Gateway

KEY = "test-key-of-the-bot"
PETS = {
    "openapi": "3.1.0",
    "info": {"title": "Pets", "version": "1"},
    "paths": {
        "/pets/{petId}": {
            "get": {
                "operationId": "getPet",
                "summary": "Get a pet",
                "parameters": [{"name": "petId", "in": "path", "required": True, "schema": {"type": "integer"}}],
                "responses": {"200": {"description": "ok"}},
                "security": [{"key": []}],
            },
            "delete": {
                "operationId": "deletePet",
                "summary": "Delete a pet",
                "parameters": [{"name": "petId", "in": "path", "required": True, "schema": {"type": "integer"}}],
                "responses": {"200": {"description": "ok"}},
            },
        }
    },
    "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}},
}
POLICY: dict[str, Any] = {
    "principals": {
        "bot": {"api_key": "sha256:" + hashlib.sha256(KEY.encode()).hexdigest(), "roles": ["bot"], "acts_for": ["ann"]},
        "ann": {"roles": ["user"]},
        "reviewer": {"api_key": "sha256:" + hashlib.sha256(b"reviewer-key").hexdigest(), "roles": ["reviewer"]},
    },
    "rules": [
        {"id": "reads", "to": ["bot"], "tools": ["*"], "effects": ["read"], "verdict": "allow"},
        {"id": "user-pets", "to": ["user"], "tools": ["pets__*"], "effects": ["read"], "verdict": "allow"},
    ],
    "sql": {"shop": {"tables": {"customers": {"columns": ["id", "name"]}}, "max_rows": 10}},
    "egress": {"private_networks": "allow"},
}


def make_project(root: Path, *, server: str = "http://127.0.0.1:9", policy: dict[str, Any] | None = None) -> Path:
    """Writes a project with an OpenAPI source `pets` and a SQLite source `shop`; returns its toolgen.yaml."""
    (root / "specs").mkdir(parents=True)
    (root / "policies").mkdir()
    (root / "specs" / "pets.json").write_text(json.dumps(PETS), encoding="utf-8")
    connection = sqlite3.connect(root / "specs" / "shop.db")
    connection.executescript(
        "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, email TEXT);"
        "INSERT INTO customers (name, email) VALUES ('Ada', 'ada@example.com'), ('Ben', 'ben@example.com');"
    )
    connection.close()
    sources = {
        "pets": {"openapi": "specs/pets.json", "server": server, "auth": {"key": "${env:TEST_PETS_KEY}"}},
        "shop": {"sql": "sqlite:///specs/shop.db"},
    }
    path = root / "toolgen.yaml"
    path.write_text(json.dumps({"sources": sources}, indent=1), encoding="utf-8")
    (root / "policies" / "policy.yaml").write_text(json.dumps(policy or POLICY, indent=1), encoding="utf-8")
    return path


def audit_entries(gateway: Gateway, *, limit: int = 50, before: int | None = None) -> list[dict[str, Any]]:
    """The newest entries of this gateway's stream first, those below `before`."""
    log = gateway._log
    last = log.size if before is None else min(before - 1, log.size)
    first = max(1, last - limit + 1)
    found = entries(gateway.settings.audit_dir, log.stream, first)
    return [dict(entry) for entry in found if first <= entry.get("seq", 0) <= last][::-1]


def audit_entry(gateway: Gateway, seq: int) -> dict[str, Any] | None:
    """One entry of this gateway's stream by its number: what `audit_seq` of an envelope names."""
    found = entry_at(gateway.settings.audit_dir, seq, gateway._log.stream)
    return dict(found[0]) if found else None
