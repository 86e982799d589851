"""Complete gateway for each trial: this installation's code, in a temporary folder, without real systems."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from toolgen.config.policies import load_policy
from toolgen.config.settings import load as load_settings
from toolgen.connectors.executor import Executor
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.call import Call
from toolgen.model.database import Column, Database, Table
from toolgen.model.manifest import Manifest, SourceInfo, assemble
from toolgen.model.result import Success
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import Effect, HttpBinding, HttpParameter, SqlBinding, Tool

__all__ = ["CANARY", "KEY", "ONE", "SOURCE", "Echo", "Scratch", "scratch"]

CANARY: Final = "canary-4d1f9b7e"
KEY: Final = "doctors-own-key"
SOURCE: Final = "trial"
DATABASE: Final = "records"
NOBODYS_SERVER: Final = "http://trial.invalid"
ONE: Final[JsonObject] = {"id": 1}
_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "tenant": {"type": "string"},
        "note": {"type": "string"},
        "pin": {"type": "string", "format": "password"},
    },
    "required": ["id"],
    "additionalProperties": False,
}
_OPENED: Final = {
    "tables": {"customers": {"columns": ["id", "name", "tenant"], "rows": "tenant = :tenant"}},
    "max_rows": 5,
}
_READS: Final = ("open", "narrowed", "denied", "hidden", "bound", "limited")


class Echo(Struct):
    """Executor that records each call that reached it, and answers with data that a policy hides."""

    calls: list[Call] = []
    events: list[str] = []

    async def execute(self, call: Call) -> Success:
        self.calls.append(call)
        self.events.append("sent")
        return Success(data={"name": "ada", "ssn": CANARY})

    def preview(self, call: Call) -> JsonObject:
        return {}

    async def close(self) -> None:
        """Do nothing, because no resource is open."""


class Scratch(Struct, frozen=True, kw_only=True):
    """Open gateway, its executor, and its folder."""

    gateway: Gateway
    echo: Echo
    folder: Path

    async def reached(self, tool: str, arguments: Mapping[str, Json], **more: Any) -> bool:
        """Return True if a call by the agent reaches the other system."""
        before = len(self.echo.calls)
        await self.gateway.call(f"{SOURCE}__{tool}", arguments, principal=more.pop("principal", "agent"), **more)
        return len(self.echo.calls) > before


@asynccontextmanager
async def scratch(
    *,
    policy: Mapping[str, Any] | None = None,
    server: str = NOBODYS_SERVER,
    real: bool = False,
    database: bool = False,
    bound: bool = False,
    **settings: Any,
) -> AsyncIterator[Scratch]:
    """Return an open gateway. `policy` replaces parts of its policy; `real` sends to `server`, which must be on loopback.

    `database`: it has a tool of a database too, which needs the SQL parser (`toolgen[sql]`). `bound`: it has a tool with an argument that
    the policy binds, which needs CEL (`toolgen[cel]`).
    """
    with tempfile.TemporaryDirectory(prefix="toolgen-doctor-") as name:
        folder = Path(name)
        whole, given = _policy(database=database, bound=bound), policy or {}
        principals = {**whole["principals"], **given.get("principals", {})}
        _write(folder, {**whole, **given, "principals": principals}, settings)
        manifest, echo = _manifest(server, database=database), Echo()
        stand_in: Mapping[str, Executor] | None = None if real else {SOURCE: echo, DATABASE: echo}
        gateway = Gateway(
            settings=load_settings(folder / "toolgen.yaml"),
            manifest=manifest,
            policy=load_policy(folder / "policies", manifest),
            stand_in=stand_in,
        )
        async with gateway:
            yield Scratch(gateway=gateway, echo=echo, folder=folder)


def _write(folder: Path, policy: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    (folder / "policies").mkdir()
    (folder / "policies" / "policy.yaml").write_text(json.dumps(policy), encoding="utf-8")
    source = {SOURCE: {"openapi": "trial.json"}}
    (folder / "toolgen.yaml").write_text(json.dumps({"sources": source, **settings}), encoding="utf-8")


def _policy(*, database: bool, bound: bool) -> dict[str, Any]:
    def allow(name: str, *tools: str, **more: Any) -> dict[str, Any]:
        named = [f"{SOURCE}__{tool}" for tool in tools]
        return {"id": name, "to": ["agent"], "tools": named, "verdict": "allow", **more}

    only_one = {"properties": {"id": {"const": 1}}, "required": ["id"]}
    return {
        "principals": {
            "agent": {
                "api_key": f"sha256:{hashlib.sha256(KEY.encode()).hexdigest()}",
                "roles": ["agent"],
                "attributes": {"tenant": "own"},
                "acts_for": ["user"],
            },
            "user": {"roles": ["user"], "attributes": {"tenant": "own"}},
            "person": {"roles": ["approver"]},
        },
        "rules": [
            allow("open", "open", "denied", "limited", *(["query"] if database else [])),
            allow("narrowed", "narrowed", arguments=only_one),
            *([allow("bound", "bound", bind={"tenant": "principal.attributes.tenant"})] if bound else []),
            {**allow("asked", "asked"), "verdict": "ask"},
            {**allow("denied", "denied", arguments=only_one), "verdict": "deny"},
            {**allow("user", "open", arguments=only_one), "to": ["user"]},
        ],
        "approvals": {"approvers": ["approver"]},
        "limits": [
            {
                "id": "limited",
                "rate": "1/h",
                "per": ["principal"],
                "burst": 1,
                "cost": {f"{SOURCE}__limited": 1, "*": 0},
            }
        ],
        "sql": {DATABASE: _OPENED} if database else {},
        "sensitive": ["$.note"],
        "redact": [{"tools": [f"{SOURCE}__*"], "fields": ["$..ssn"]}],
    }


def _manifest(server: str, *, database: bool) -> Manifest:
    sources = {SOURCE: SourceInfo(kind="openapi", digest="", title="", version="")}
    tools = [*(_http(name, Effect.READ, server) for name in _READS), _http("asked", Effect.DESTRUCTIVE, server)]
    if database:
        sources[DATABASE] = SourceInfo(kind="sql", digest="", title="", version="", database=_database())
        binding = SqlBinding(dialect="sqlite", operation="query")
        schema: JsonObject = {"type": "object", "properties": {"sql": {"type": "string"}}, "required": ["sql"]}
        tools.append(_tool("query", Effect.READ, binding, schema, DATABASE))
    return assemble(sources, tools, ())


def _database() -> Database:
    def column(*names: str) -> tuple[Column, ...]:
        return tuple(Column(name=name, type="TEXT") for name in names)

    return Database(
        dialect="sqlite",
        tables=(
            Table(name="customers", columns=column("id", "name", "tenant", "ssn")),
            Table(name="salaries", columns=column("id", "amount")),
        ),
    )


def _http(name: str, effect: Effect, server: str) -> Tool:
    parameters = tuple(
        HttpParameter(argument=one, in_="query", name=one, style="form", explode=True, required=one == "id")
        for one in _properties()
    )
    binding = HttpBinding(method="GET", path="/", servers=(server,), parameters=parameters, body=None, security=())
    return _tool(name, effect, binding, _SCHEMA, SOURCE)


def _properties() -> Sequence[str]:
    properties = _SCHEMA["properties"]
    return tuple(properties) if isinstance(properties, Mapping) else ()


def _tool(name: str, effect: Effect, binding: HttpBinding | SqlBinding, schema: JsonObject, source: str) -> Tool:
    return Tool(
        name=f"{SOURCE}__{name}",
        title=name,
        description="",
        input_schema=schema,
        output_schema=None,
        effect=effect,
        idempotent=True,
        source=source,
        origin="",
        binding=binding,
    )
