"""Writes what a release leaves on disk and in Redis, by that release's own code; tests/test_released_formats.py reads it.

Before a release, from its checkout: `python -m tests.released next`, and the folder is copied under the version. What an earlier release
wrote is never written again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from redis import Redis

from tests.redis_server import RedisServer
from toolgen.audit.keys import make_key
from toolgen.config.policies import load_policy
from toolgen.config.settings import load
from toolgen.core.clock import FixedClock
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.catalog.served_catalog import catalog_of
from toolgen.state.pauses import Pause
from toolgen.state.redis_connection import RedisLink

SAMPLES = Path(__file__).parent / "fixtures" / "released"
NOW = 4_000_000_000.0
"""When it is written, so late that nothing in Redis is over when it is read."""
FUNCTIONS = "released_notes.py"
TOOLS = '''
from pathlib import Path

from toolgen import tool


@tool(effect="write")
def add_note(text: str) -> dict[str, str]:
    """Adds a line to the notes."""
    with Path(__file__).with_name("notes.txt").open("a") as notes:
        notes.write(text[:20] + "\\n")
    return {"added": text}


@tool(effect="write")
def send_note(text: str) -> dict[str, str]:
    """Sends a line, once somebody agrees."""
    return add_note(text)


@tool(effect="read")
def count_notes() -> int:
    """How many lines there are."""
    path = Path(__file__).with_name("notes.txt")
    return len(path.read_text().splitlines()) if path.exists() else 0


@tool(effect="read")
def first_note() -> str:
    """The first line, until a program removes this tool."""
    return Path(__file__).with_name("notes.txt").read_text().splitlines()[0]


def last_note() -> str:
    """The last line; a program adds this tool."""
    return Path(__file__).with_name("notes.txt").read_text().splitlines()[-1]
'''
PETS = {
    "openapi": "3.1.0",
    "info": {"title": "Pets", "version": "1"},
    "servers": [{"url": "http://127.0.0.1:9"}],
    "paths": {
        "/pets/{petId}": {
            "get": {
                "operationId": "getPet",
                "summary": "One pet",
                "parameters": [{"name": "petId", "in": "path", "required": True, "schema": {"type": "integer"}}],
                "responses": {"200": {"description": "ok"}},
            }
        }
    },
}
SHOP = "type Query { product(id: ID!): Product }\ntype Product { id: ID! name: String tags: [String!]! }\n"
SETTINGS: dict[str, Any] = {
    "sources": {
        "notes": {"python": "released_notes"},
        "pets": {"openapi": "specs/pets.json"},
        "shop": {"graphql": "specs/shop.graphql", "endpoint": "http://127.0.0.1:9/graphql"},
    },
    "audit": {"segments": {"size": "64KiB"}},
}
POLICY: dict[str, Any] = {
    "principals": {
        name: {"api_key": "sha256:" + hashlib.sha256(f"key-of-{name}".encode()).hexdigest(), "roles": [name]}
        for name in ("bot", "ann")
    },
    "rules": [
        {"id": "notes", "to": ["bot"], "tools": ["notes__add_note", "notes__count_notes"], "verdict": "allow"},
        {"id": "sending", "to": ["bot"], "tools": ["notes__send_note"], "verdict": "ask"},
        {"id": "changed", "to": ["bot"], "tools": ["notes__first_note", "added__last_note"], "verdict": "allow"},
    ],
    "approvals": {"approvers": ["ann"], "expires": "1h"},
    "limits": [{"id": "some", "per": ["principal"], "rate": "1000/h"}],
    "egress": {"private_networks": "allow"},
}


async def at_that_time(_: RedisLink) -> float:
    """In place of Redis's own time."""
    return NOW


def opened(path: Path, clock: FixedClock) -> Gateway:
    """A project's gateway, by a clock that stands still."""
    settings = load(path)
    manifest = catalog_of(settings)
    return Gateway(settings=settings, manifest=manifest, policy=load_policy(settings.policies, manifest), clock=clock)


def _project(folder: Path, state: str) -> Path:
    for name, text in {
        FUNCTIONS: TOOLS,
        "specs/pets.json": json.dumps(PETS, indent=1),
        "specs/shop.graphql": SHOP,
        "policies/policy.yaml": json.dumps(POLICY, indent=1),
        "toolgen.yaml": json.dumps({**SETTINGS, **({"state": state} if state else {})}, indent=1),
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    subprocess.run([sys.executable, "-m", "toolgen", "build", "--format", "mcp"], cwd=folder, check=True)
    (folder / "var" / "audit").mkdir(parents=True)
    make_key(folder / "var" / "audit" / "checkpoint.key", folder / "var" / "audit")
    return folder / "toolgen.yaml"


async def _used(gateway: Gateway) -> dict[str, Any]:
    """Calls of every kind, and what their callers were told."""
    ann, told = gateway.principal("ann"), dict[str, Any]()

    async def call(name: str, tool: str, text: str, key: str = "") -> None:
        envelope = await gateway.call(tool, {"text": text}, principal="bot", idempotency_key=key)
        told[name] = {"call_id": envelope.call_id, "status": envelope.status, "data": envelope.data}

    async with gateway:
        await call("kept", "notes__add_note", "kept", key="key-1")
        for number in range(100):
            await call("last", "notes__add_note", f"line {number} " + "x" * 500)
        await call("waiting", "notes__send_note", "waiting")
        await call("waiting with a key", "notes__send_note", "waiting with a key", key="key-2")
        for name, approve in (("carried out", True), ("denied", False)):
            await call(name, "notes__send_note", name)
            call_id = told[name]["call_id"]
            await gateway.approvals.decide(call_id, approve=approve, note="", principal=ann)
            found = await gateway.approvals.calls.outcome(call_id, gateway.principal("bot"), 60.0)
            assert found is not None
            told[name] |= {"status": found.status, "data": found.data}
        pause = Pause(tool="notes__count_notes", reason="a sample", since=NOW)
        change = gateway._shared.pauses.change(lambda known: (*known, pause))
        if asyncio.iscoroutine(change):
            await change
        await gateway.tools.remove("notes__first_note")
        added = await gateway.tools.add(sys.modules["released_notes"].last_note, effect="read")
        told["tools"] = {"removed": ["notes__first_note"], "added": {added.name: added.digest}}
    return told


def _commands(redis: Redis) -> list[list[str]]:
    """What makes the same content in another Redis, without the times at which it would be forgotten. Bytes are written as hexadecimal."""
    found: list[list[Any]] = []
    keys: Any = redis.keys()
    for key in sorted(keys):
        values: Any
        match redis.type(key):
            case b"string":
                found.append(["SET", key, redis.get(key)])
            case b"hash":
                values = redis.hgetall(key)
                found.append(["HSET", key, *(part for pair in sorted(values.items()) for part in pair)])
            case b"zset":
                values = redis.zrange(key, 0, -1, withscores=True)
                found.append(["ZADD", key, *(part for member, score in values for part in (repr(score), member))])
            case other:
                raise ValueError(f"{key!r} is a {other!r}")
    return [[part if isinstance(part, str) else part.hex() for part in command] for command in found]


def replay(redis: Redis, commands: list[list[str]]) -> None:
    """Puts into a Redis what `_commands` wrote."""
    for name, *parts in commands:
        scores = name == "ZADD"
        values = [part if scores and number % 2 == 1 else bytes.fromhex(part) for number, part in enumerate(parts)]
        redis.execute_command(name, *values)


def _write(target: Path, state: str, dump: Callable[[], object] | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "project"
        path = _project(root, state)
        sys.path.insert(0, str(root))
        told = asyncio.run(_used(opened(path, FixedClock(NOW))))
        sys.path.remove(str(root))
        sys.modules.pop("released_notes")
        (root / "told.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
        if dump is not None:
            (root / "redis.json").write_text(json.dumps(dump(), indent=1) + "\n", encoding="utf-8")
        shutil.rmtree(root / "__pycache__", ignore_errors=True)
        # Git leaves var/ out, and what reads Python files would read this one.
        (root / "var").rename(root / "kept")
        (root / FUNCTIONS).rename(root / "functions.txt")
        for lock in (root / "kept").rglob("*.lock"):
            lock.unlink()
        shutil.copytree(root, target)


def main(name: str) -> None:
    """Writes both samples of a release: its state in files, and in Redis."""
    shutil.rmtree(SAMPLES / name, ignore_errors=True)
    _write(SAMPLES / name / "files", "", None)
    with tempfile.TemporaryDirectory() as folder:
        server = RedisServer(Path(folder))
        server.start()
        RedisLink.now = at_that_time  # type: ignore[method-assign]
        try:
            redis = Redis(port=server.port)
            _write(SAMPLES / name / "redis", f"redis://127.0.0.1:{server.port}", lambda: _commands(redis))
        finally:
            server.stop()


if __name__ == "__main__":
    main(sys.argv[1])
