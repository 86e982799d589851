"""The rules of ARCHITECTURE.md, held against the code: imports point down, and there is one path to an executor."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = {
    "annotations": 1,
    "errors": 0,
    "canonical": 0,
    "json_codec": 0,
    "key_file": 0,
    "background": 1,
    "clock": 0,
    "core_dumps": 0,
    "files": 0,
    "functions": 1,
    "model": 1,
    "signatures": 1,
    "strict_yaml": 1,
    "sources": 2,
    "emit": 2,
    "policy": 2,
    "execute": 2,
    "audit": 2,
    "state": 2,
    "build": 3,
    "lint": 3,
    "pipeline": 3,
    "queries": 3,
    "settings": 3,
    "settings_audit": 3,
    "settings_console": 3,
    "settings_gateway": 3,
    "settings_failures": 3,
    "settings_mcp": 3,
    "settings_sources": 3,
    "settings_state": 3,
    "settings_sizes": 3,
    "settings_tools": 3,
    "verify": 3,
    "console": 4,
    "gateway": 4,
    "adapters": 5,
    "doctor": 5,
    "mock": 4,
    "serve": 5,
    "listen": 5,
    "worker": 5,
    "workers": 5,
    "__main__": 5,
    "cli": 5,
}
# What touches another system, and the parts that may: executors, and sources while they read a description.
SYSTEMS = {
    *(
        "aiohttp",
        "asyncpg",
        "ftplib",
        "gql",
        "httpcore",
        "httpcore2",
        "httpx",
        "httpx2",
        "pyreqwest",
        "requests",
        "websockets",
    ),
    *("aiomysql", "asyncmy", "redis", "duckdb", "psycopg", "psycopg2", "pymysql", "sqlite3", "sqlalchemy"),
    *(
        "http.client",
        "multiprocessing",
        "smtplib",
        "socket",
        "ssl",
        "subprocess",
        "telnetlib",
        "urllib.request",
        "urllib3",
    ),
}
# Who may use one of them without being an executor or a source, and what for.
EXCEPTIONS = {
    ("toolgen.audit.index_postgres", "psycopg"): "indexes the logs of several gateways",
    ("toolgen.audit.index_sqlite", "sqlite3"): "indexes the log",
    ("toolgen.cli.approvals", "httpx"): "answers at a gateway elsewhere, with its user's own key",
    ("toolgen.cli.init", "sqlite3"): "writes the database of the project it makes",
    ("toolgen.cli.diff", "subprocess"): "asks git for an older manifest",
    ("toolgen.mock.server", "socket"): "listens",
    ("toolgen.listen", "socket"): "listens",
    ("toolgen.serve", "socket"): "is given what listens",
    ("toolgen.worker", "socket"): "is given what listens",
    ("toolgen.workers", "socket"): "hands out what listens",
    ("toolgen.workers", "create_subprocess_exec"): "starts this same program, once a worker",
    ("toolgen.state.sqlite_file", "sqlite3"): "opens the files of the five that follow",
    ("toolgen.state.ledger_sqlite", "sqlite3"): "keeps the idempotency keys that were used",
    ("toolgen.state.link", "redis"): "shares what is counted",
    ("toolgen.state.begun_calls", "sqlite3"): "keeps which calls were begun",
    ("toolgen.state.invocations_sqlite", "sqlite3"): "keeps the calls that wait",
    ("toolgen.state.kept", "sqlite3"): "keeps long answers",
    ("toolgen.state.sessions_sqlite", "sqlite3"): "keeps who is signed in to the console",
}
# What makes or walks the road to an executor, and the only modules that may name it.
ROAD = {
    "toolgen.pipeline.chain.compose": {"toolgen.pipeline.order"},
    "toolgen.pipeline.deliver.Deliver": {"toolgen.pipeline.order", "toolgen.gateway.governance"},
    "toolgen.pipeline.executors.make_executors": {"toolgen.gateway.service", "toolgen.pipeline.preview"},
    "toolgen.pipeline.order.road": {"toolgen.gateway.governance"},
    "toolgen.pipeline.order.Parts": {"toolgen.gateway.governance"},
}
MAY_TOUCH_SYSTEMS = {"execute", "sources"}
# Who makes what reaches other systems out of what a project says.
MAKERS = {"toolgen.pipeline.executors", "toolgen.pipeline.places", "toolgen.pipeline.provider"}
# What of execute/ anybody may know: what an executor is, what a secret is, and how patient it is.
OPEN_MODULES = {"toolgen.execute.base", "toolgen.execute.patience", "toolgen.execute.secrets"}
# `toolgen verify` reads back what the pure `bind` and `choose_fields` write, `toolgen doctor` takes away
# what refuses redirects; none of these modules can send anything.
PURE_MODULES = {
    "toolgen.execute.graphql.fields",
    "toolgen.execute.http.keys",
    "toolgen.execute.http.redirects",
    "toolgen.execute.http.styles",
    "toolgen.execute.http.wire",
}


@cache
def modules() -> dict[str, str]:
    """Every module of toolgen by dotted name, with its text."""
    found = {}
    for path in sorted((ROOT / "toolgen").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text(encoding="utf-8")
    return found


@cache
def nodes(text: str) -> tuple[ast.AST, ...]:
    """Every node of a text, parsed once: each test looks at the whole package."""
    return tuple(ast.walk(ast.parse(text)))


def imports(name: str, text: str) -> Iterator[str]:
    """Every module a text imports, wherever in it the import stands; relative ones would hide from this, so they count as themselves."""
    for node in nodes(text):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = "." * level + (module or "")
                yield from (f"{base}.{alias.name}" for alias in names)
            case ast.Call(func=ast.Name(id="__import__") | ast.Attribute(attr="import_module")):
                yield f"dynamic:{name}"


def homes() -> dict[str, str]:
    """Where the names of the package itself live: `toolgen.Gateway` is an import of the gateway."""
    tree = ast.parse((ROOT / "toolgen" / "__init__.py").read_text(encoding="utf-8"))
    table = next(
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "_HOMES"
    )
    return {f"toolgen.{name}": f"{home}.{name}" for name, home in ast.literal_eval(table).items()}


HOMES = homes()


def layer_faults(texts: Mapping[str, str]) -> list[str]:
    """Imports that do not point down."""
    faults = []
    for name, text in texts.items():
        part = name.split(".")[1] if "." in name else ""
        for written in imports(name, text):
            imported = HOMES.get(written, written)
            if imported.startswith("."):
                faults.append(f"{name} imports relatively: {imported}")
            if not part or name == "toolgen.__main__":
                continue
            if imported == "toolgen":
                faults.append(f"{name} imports the whole package, which hides what it uses")
            if not imported.startswith("toolgen.") or imported == "toolgen.__version__":
                continue
            other = imported.split(".")[1]
            if other == part:
                continue
            if other not in LAYERS:
                faults.append(f"{name} imports {imported}, which has no layer")
            elif LAYERS[other] > LAYERS[part] or LAYERS[other] == LAYERS[part] == 2:
                faults.append(f"{name} imports {imported}")
    return faults


def path_faults(texts: Mapping[str, str]) -> list[str]:
    """Ways to an executor, or to another system, that do not lead through pipeline/order.py."""
    return [fault for name, text in texts.items() for fault in (*import_faults(name, text), *use_faults(name, text))]


def import_faults(name: str, text: str) -> Iterator[str]:
    part = name.split(".")[1] if "." in name else ""
    for written in imports(name, text):
        imported = HOMES.get(written, written)
        concrete = imported.startswith("toolgen.execute") and not any(
            imported == module or imported.startswith(f"{module}.") for module in OPEN_MODULES
        )
        pure = part in {"verify", "doctor"} and any(imported.startswith(f"{module}.") for module in PURE_MODULES)
        if concrete and part != "execute" and not pure and name not in MAKERS:
            yield f"{name} imports an executor: {imported}"
        system = next((item for item in SYSTEMS if imported == item or imported.startswith(f"{item}.")), None)
        if system and part not in MAY_TOUCH_SYSTEMS and (name, system) not in EXCEPTIONS:
            yield f"{name} reaches another system by itself: {imported}"
        if imported in ROAD and name not in ROAD[imported]:
            yield f"{name} walks the road by itself: {imported}"


def use_faults(name: str, text: str) -> Iterator[str]:
    """Uses that need no import: an executor's method, however it is taken hold of, and connections made with asyncio."""
    part = name.split(".")[1] if "." in name else ""
    for node in nodes(text):
        match node:
            case ast.Attribute(attr="execute" | "executors" | "_executors" as attribute):
                own = name in {"toolgen.pipeline.deliver", "toolgen.gateway.service", "toolgen.gateway.governance"}
                # A database's cursor has a method of that name too.
                database = any((name, driver) in EXCEPTIONS for driver in ("sqlite3", "psycopg"))
                if part not in MAY_TOUCH_SYSTEMS and not own and not database:
                    yield f"{name}:{node.lineno} takes hold of an executor: .{attribute}"
            case ast.Constant(value="execute" | "executors" | "_executors" | "road" | "_road" | "dry_road" | "_parts"):
                if name != "toolgen.pipeline.order":  # its __all__
                    yield f"{name}:{node.lineno} names part of the road in a string"
            case ast.Attribute(attr="road" | "_road" | "dry_road" | "_parts" | "deliver" as attribute) if part in {
                "pipeline",
                "gateway",
                "serve",
                "cli",
            }:
                if name not in {"toolgen.gateway.calls", "toolgen.gateway.governance", "toolgen.pipeline.order"}:
                    yield f"{name}:{node.lineno} takes hold of the road: .{attribute}"
            case ast.Attribute(
                attr="open_connection" | "create_connection" | "create_subprocess_exec" | "create_subprocess_shell"
            ):
                if part not in MAY_TOUCH_SYSTEMS and (name, node.attr) not in EXCEPTIONS:
                    yield f"{name}:{node.lineno} reaches another system by itself: .{node.attr}"


def test_imports_point_down_the_layers() -> None:
    assert layer_faults(modules()) == []


def test_every_part_has_a_layer() -> None:
    parts = {name.split(".")[1] for name in modules() if "." in name}
    assert parts - LAYERS.keys() == set()


def test_dynamic_imports_stand_only_where_commands_and_functions_are_found() -> None:
    dynamic = {name for name, text in modules().items() if f"dynamic:{name}" in set(imports(name, text))}
    assert dynamic <= {"toolgen", "toolgen.cli.main", "toolgen.signatures"}


def test_there_is_one_path_to_an_executor() -> None:
    assert path_faults(modules()) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("toolgen.model.planted", "from toolgen.policy.access import Access"),
        ("toolgen.policy.planted", "from toolgen.state.buckets import MemoryBuckets"),
        ("toolgen.audit.planted", "def late():\n    from toolgen.emit import formats"),
        ("toolgen.canonical", "import toolgen.model.tool"),
        ("toolgen.policy.planted", "from ..state import buckets"),
        ("toolgen.pipeline.planted", "from toolgen.gateway.service import Gateway"),
        ("toolgen.policy.planted", "from toolgen import Gateway"),
        ("toolgen.policy.planted", "import toolgen"),
        ("toolgen.policy.planted", "import toolgen.nowhere"),
    ],
)
def test_a_planted_import_is_found(name: str, text: str) -> None:
    assert len(layer_faults({**modules(), name: text})) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("toolgen.gateway.planted", "async def admin(executor, call):\n    return await executor.execute(call)"),
        (
            "toolgen.gateway.planted",
            "async def admin(executor, call):\n    run = executor.execute\n    return await run(call)",
        ),
        ("toolgen.gateway.planted", "def admin(executor):\n    return getattr(executor, 'execute')"),
        ("toolgen.gateway.planted", "async def admin(gateway, call):\n    return await gateway._parts().deliver(call)"),
        (
            "toolgen.gateway.planted",
            "async def admin(gateway, call):\n    return await gateway._governance._road(call)",
        ),
        ("toolgen.gateway.planted", "def admin(gateway):\n    return gateway._executors['shop']"),
        ("toolgen.gateway.planted", "from toolgen.execute.http import HttpExecutor"),
        ("toolgen.cli.planted", "from toolgen.execute import sql"),
        ("toolgen.gateway.planted", "import httpx"),
        ("toolgen.gateway.planted", "import httpx2 as client"),
        ("toolgen.gateway.planted", "from psycopg import connect"),
        ("toolgen.gateway.planted", "import socket"),
        ("toolgen.cli.planted", "import subprocess"),
        (
            "toolgen.gateway.planted",
            "import asyncio\nasync def direct():\n    return await asyncio.open_connection('a', 1)",
        ),
        ("toolgen.pipeline.planted", "def direct():\n    import sqlite3"),
        ("toolgen.gateway.planted", "from toolgen.pipeline.deliver import Deliver as D"),
        ("toolgen.gateway.planted", "from toolgen.pipeline.chain import compose as c"),
        ("toolgen.gateway.planted", "from toolgen.pipeline.order import road"),
        ("toolgen.cli.planted", "from toolgen.pipeline.executors import make_executors as m"),
    ],
)
def test_a_planted_second_path_is_found(name: str, text: str) -> None:
    assert path_faults({**modules(), name: text}) != []


def test_modules_do_not_import_each_other_in_circles() -> None:
    texts = modules()
    edges = {
        name: {
            other
            for imported in imports(name, text)
            # `from package.module import name` leads to the module, `from package import module` not to the package.
            if (other := imported if imported in texts else imported.rpartition(".")[0]) in texts
            and other not in {name, "toolgen"}
        }
        for name, text in texts.items()
        if name != "toolgen"
    }
    done: set[str] = set()

    def walk(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, " -> ".join([*above, name])
        if name not in done:
            for other in sorted(edges.get(name, ())):
                walk(other, (*above, name))
            done.add(name)

    for name in sorted(edges):
        walk(name, ())
