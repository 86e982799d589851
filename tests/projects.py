"""Small whole projects on disk, for tests that go through the command line or the gateway."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any

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
