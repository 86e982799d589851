"""The rules of ARCHITECTURE.md, held against the code: imports point down, and there is one path to an executor."""

from __future__ import annotations

import ast
import gc
import inspect
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

import pytest

from bench.size import compared_expiries
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway import protocol

ROOT = Path(__file__).parent.parent
# Layers from the bottom; packages and modules of one group may import each other only in layer 0, 1, 3 and up, and never in a circle.
LAYERS = {
    part: layer
    for layer, parts in enumerate(
        (
            ("core",),
            ("model", "generator.samples"),
            ("connectors", "policy", "audit", "state"),
            ("generator", "generator.emit", "config", "quality.lint", "quality.verify", "pipeline"),
            ("gateway",),
            ("frontends", "cli", "quality", "quality.doctor", "__main__"),
        )
    )
    for part in parts
}


def part_of(name: str) -> str:
    """Return the part of the package that a module or an imported name belongs to; "" for the package itself."""
    words = name.split(".")[1:3]
    return next((part for part in (".".join(words), *words[:1]) if part in LAYERS), words[0] if words else "")


# What touches another system, and the parts that may: executors, and sources while they read a description.
SYSTEMS = {
    *(
        "aiohttp",
        "asyncpg",
        "ftplib",
        "gql",
        "h2",
        "httpcore",
        "httpcore2",
        "httpx",
        "httpx2",
        "requests",
        "websockets",
    ),
    *(
        "aiomysql",
        "asyncmy",
        "chdb",
        "redis",
        "duckdb",
        "psycopg",
        "psycopg2",
        "pymysql",
        "pytds",
        "sqlite3",
        "sqlalchemy",
    ),
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
    ("toolgen.audit.index.postgres", "psycopg"): "indexes the logs of several gateways",
    ("toolgen.audit.index.database", "sqlite3"): "indexes the log",
    ("toolgen.cli.remote_gateway", "httpx"): "answers at a gateway elsewhere, with its user's own key",
    ("toolgen.cli.remote_gateway", "ssl"): "the same, with the authorities of the system",
    ("toolgen.core.errors", "socket"): "reads what an exception is",
    ("toolgen.core.errors", "ssl"): "the same",
    ("toolgen.config.tenant_separation", "psycopg"): "reads the name of a database in its location",
    ("toolgen.gateway.audit.destinations.kafka", "ssl"): "names the error of a certificate",
    ("toolgen.cli.demo.services", "sqlite3"): "writes the demo's database",
    ("toolgen.cli.demo.story", "httpx"): "is the demo's agent, which calls the gateway",
    ("toolgen.cli.new_project", "sqlite3"): "writes the database of the project it makes",
    ("toolgen.cli.diff", "subprocess"): "asks git for an older manifest",
    ("toolgen.frontends.server.sockets", "socket"): "listens",
    ("toolgen.frontends.server.applications", "socket"): "is given what listens",
    ("toolgen.frontends.server.http", "socket"): "is given what listens",
    ("toolgen.frontends.server.tls", "ssl"): "speaks TLS with who comes",
    ("toolgen.frontends.server.worker", "socket"): "is given what listens",
    ("toolgen.frontends.server.supervisor", "socket"): "hands out what listens",
    (
        "toolgen.frontends.server.lifeline",
        "socket",
    ): "tells workers that the supervisor lives, over pairs without a name",
    ("toolgen.frontends.server.supervisor", "create_subprocess_exec"): "starts this same program, once a worker",
    ("toolgen.state.shared_counts", "socket"): "counts for the workers of one host, over pairs without a name",
    ("toolgen.state.sqlite_file", "sqlite3"): "opens and copies the files of the twelve that follow",
    ("toolgen.state.accounts_sqlite", "sqlite3"): "keeps the accounts of people at upstream systems",
    ("toolgen.state.postgres_session", "psycopg"): "keeps accounts and sign-ins for several gateways",
    ("toolgen.state.departures", "sqlite3"): "keeps notes about clients that left",
    ("toolgen.state.grants", "sqlite3"): "keeps what was granted",
    ("toolgen.state.equal_calls", "sqlite3"): "keeps which call stands for others that are equal to it",
    ("toolgen.state.idempotency", "sqlite3"): "keeps the idempotency keys that were used",
    ("toolgen.state.redis_connection", "redis"): "shares what is counted",
    ("toolgen.state.redis_replies", "redis"): "reads what an exception of its client is",
    ("toolgen.state.redis_cluster", "redis"): "computes the slot of a key",
    ("toolgen.state.call_journal", "sqlite3"): "keeps which calls a gateway took on, began and ended",
    ("toolgen.state.invocations_sqlite", "sqlite3"): "keeps the calls that wait",
    ("toolgen.state.outbox_sqlite", "sqlite3"): "keeps messages to webhooks until they are delivered",
    ("toolgen.state.stored_answers", "sqlite3"): "keeps long answers",
    ("toolgen.state.stored_files", "sqlite3"): "lists the files that are kept",
    ("toolgen.state.value_vault", "sqlite3"): "keeps the values behind tokens",
    ("toolgen.state.sessions", "sqlite3"): "keeps who is signed in to the console",
    ("toolgen.state.sign_in_sqlite", "sqlite3"): "keeps who signs in through the gateway, and what they agreed to",
    ("toolgen.state.seen", "sqlite3"): "keeps what policies said and when keys were used",
}
# What makes or uses the pipeline to an executor, and the only modules that may name it.
PIPELINE = {
    "toolgen.pipeline.middleware.compose": {"toolgen.pipeline.order"},
    "toolgen.pipeline.stages.deliver.Deliver": {"toolgen.pipeline.order", "toolgen.gateway.policies.compiled_policy"},
    "toolgen.gateway.calls.executors.make_executors": {"toolgen.gateway.assembly", "toolgen.gateway.calls.preview"},
    "toolgen.pipeline.order.call_pipeline": set(),
    "toolgen.pipeline.order.Plans": {"toolgen.gateway.policies.compiled_policy"},
    "toolgen.pipeline.order.Parts": {"toolgen.gateway.policies.compiled_policy"},
}
MAY_TOUCH_SYSTEMS = {"connectors"}
# Parts of connectors that judge: they reach nothing.
JUDGES = (
    "toolgen.connectors.sql.guard.",
    "toolgen.connectors.sql.dialects.",
    "toolgen.connectors.graphql.guard",
    "toolgen.connectors.openapi.proof.",
)
# Imports between packages of layer 2: hidden names in GraphQL documents.
BETWEEN = {
    ("toolgen.policy.answer_redaction", "toolgen.connectors.graphql.hidden_fields.aliases_of"),
    ("toolgen.policy.redact", "toolgen.connectors.graphql.hidden_fields.conceal_document"),
}
MAX_LINES = 650
# Who makes what reaches other systems out of what a project says.
MAKERS = {
    "toolgen.gateway.accounts.accounts",
    "toolgen.gateway.accounts.assembled",
    "toolgen.gateway.accounts.tokens",
    "toolgen.gateway.calls.executors",
    "toolgen.gateway.audit.checkpoint_sinks",
    "toolgen.gateway.audit.destinations.base",
    "toolgen.gateway.audit.destinations.http",
    "toolgen.gateway.audit.destinations.kafka",
    "toolgen.gateway.audit.destinations.otlp",
    "toolgen.gateway.audit.destinations.s3",
    "toolgen.gateway.audit.destinations.syslog",
    "toolgen.gateway.identity.identity_providers",
    "toolgen.gateway.policies.middleware",
    "toolgen.gateway.notify.webhook",
    "toolgen.gateway.sign_in.client_documents",
    "toolgen.gateway.telemetry.exporter",
}
# Packages and modules of connectors/ that send calls. Whatever else in connectors/ imports one of them sends calls too, by way of it.
SENDING = (
    "toolgen.connectors.http",
    "toolgen.connectors.sql.execution",
    "toolgen.connectors.mcp.conversation",
    "toolgen.connectors.functions.threads",
    "toolgen.connectors.resilience",
)
# Secrets may be named anywhere; they are resolved by executors alone, from Vault by HTTP. Commands fetch descriptions, and send no calls.
OPEN_MODULES = {"toolgen.connectors.secrets", "toolgen.connectors.remote"}
# Names in open modules that ask the network.
CLOSED_NAMES = {"toolgen.connectors.resolver.system_resolver"}
# `toolgen verify` reads back what the pure `bind` and `choose_fields` write, `toolgen doctor` takes away
# what refuses redirects; none of these modules can send anything.
PURE_MODULES = {
    "toolgen.connectors.graphql.selection",
    "toolgen.connectors.http.request_builder",
    "toolgen.connectors.http.redirects",
    "toolgen.connectors.http.parameter_styles",
}


@cache
def modules() -> Mapping[str, str]:
    """Every module of toolgen by dotted name, with its text."""
    found = {}
    for path in sorted((ROOT / "toolgen").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text(encoding="utf-8")
    return MappingProxyType(found)


@cache
def nodes(text: str) -> list[ast.AST]:
    """Every node of a text, parsed once: each test looks at the whole package."""
    found: list[ast.AST] = [ast.parse(text)]
    for node in found:
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                found.extend(one for one in value if isinstance(one, ast.AST))
            elif isinstance(value, ast.AST):
                found.append(value)
    return found


@pytest.fixture(scope="module", autouse=True)
def _nodes_for_this_module() -> Iterator[None]:
    """There are a million nodes, none of them garbage until the end: the collector would look at all of them again and again."""
    gc.disable()
    try:
        yield
    finally:
        nodes.cache_clear()
        gc.enable()


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


def is_within(imported: str, module: str) -> bool:
    """Return True for a module itself and for what it has."""
    return imported == module or imported.startswith(f"{module}.")


def is_interface(name: str) -> bool:
    """Return True for the registry of connectors, for what it lists, for the protocol, and for the records of dialects.

    Records open engines when an executor asks them to, and nobody else may (see `use_faults`).
    """
    own = name.endswith(".connector") and not name.startswith("toolgen.connectors.http.")
    known = {"toolgen.connectors.registry", "toolgen.connectors.base", "toolgen.connectors.sql.dialects"}
    return own or name in known or name.startswith("toolgen.connectors.sql.dialects.")


@cache
def executing() -> frozenset[str]:
    """Modules of connectors/ that send calls: executors, `SENDING`, and every connector module that imports one of these."""
    ours = {
        name: set(imports(name, text)) for name, text in modules().items() if name.startswith("toolgen.connectors.")
    }
    # Interfaces: what they make is used by `make_executors` alone (see `use_faults`).
    ours = {
        name: used for name, used in ours.items() if not is_interface(name) and name not in OPEN_MODULES | PURE_MODULES
    }
    found = {name for name in ours if name.endswith(".executor") and name != "toolgen.connectors.executor"}
    found |= {name for name in ours if any(is_within(name, sending) for sending in SENDING)}
    while more := {
        name
        for name in ours.keys() - found
        if any(is_within(imported, module) for imported in ours[name] for module in found)
    }:
        found |= more
    return frozenset(found) | {*SENDING}


def layer_faults(texts: Mapping[str, str]) -> list[str]:
    """Imports that do not point down."""
    faults = []
    for name, text in texts.items():
        part = part_of(name)
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
            other = part_of(imported)
            if other == part:
                continue
            if other not in LAYERS:
                faults.append(f"{name} imports {imported}, which has no layer")
            elif LAYERS[other] > LAYERS[part] or (
                LAYERS[other] == LAYERS[part] == 2 and (name, imported) not in BETWEEN
            ):
                faults.append(f"{name} imports {imported}")
    return faults


def path_faults(texts: Mapping[str, str]) -> list[str]:
    """Ways to an executor, or to another system, that do not lead through pipeline/order.py."""
    return [fault for name, text in texts.items() for fault in (*import_faults(name, text), *use_faults(name, text))]


def import_faults(name: str, text: str) -> Iterator[str]:
    part = part_of(name)
    for written in imports(name, text):
        imported = HOMES.get(written, written)
        concrete = imported in CLOSED_NAMES or (
            any(is_within(imported, module) for module in executing())
            and not any(is_within(imported, module) for module in PURE_MODULES)
        )
        pure = part in {"quality.verify", "quality.doctor"} and any(
            imported.startswith(f"{module}.") for module in PURE_MODULES
        )
        if concrete and part != "connectors" and not pure and name not in MAKERS:
            yield f"{name} imports an executor: {imported}"
        system = next((item for item in SYSTEMS if imported == item or imported.startswith(f"{item}.")), None)
        reaches = part in MAY_TOUCH_SYSTEMS and not name.startswith(JUDGES)
        if system and not reaches and (name, system) not in EXCEPTIONS:
            yield f"{name} reaches another system by itself: {imported}"
        if imported in PIPELINE and name not in PIPELINE[imported]:
            yield f"{name} calls the pipeline by itself: {imported}"


def use_faults(name: str, text: str) -> Iterator[str]:
    """Uses that need no import: an executor's method, however it is taken hold of, and connections made with asyncio."""
    part = part_of(name)
    for node in nodes(text):
        match node:
            case ast.Attribute(attr="execute" | "executors" | "_executors" as attribute):
                own = name in {
                    "toolgen.pipeline.stages.deliver",
                    "toolgen.gateway.assembly",
                    "toolgen.frontends.python.gateway",
                    "toolgen.gateway.policies.compiled_policy",
                }
                # A database's cursor has a method of that name too.
                database = any((name, driver) in EXCEPTIONS for driver in ("sqlite3", "psycopg"))
                if part not in MAY_TOUCH_SYSTEMS and not own and not database:
                    yield f"{name}:{node.lineno} takes hold of an executor: .{attribute}"
            case ast.Attribute(attr="make_executor") if name != "toolgen.gateway.calls.executors":
                yield f"{name}:{node.lineno} makes an executor by itself"
            case ast.Attribute(attr="open_engine" | "sandbox") if name != "toolgen.connectors.sql.execution.executor":
                yield f"{name}:{node.lineno} opens a database by itself"
            case ast.Constant(
                value="execute"
                | "executors"
                | "_executors"
                | "call_pipeline"
                | "_pipeline"
                | "dry_pipeline"
                | "_parts"
                | "Plans"
            ):
                if name != "toolgen.pipeline.order":  # its __all__
                    yield f"{name}:{node.lineno} names part of the pipeline in a string"
            case ast.Attribute(
                attr="call_pipeline"
                | "_pipeline"
                | "dry_pipeline"
                | "_parts"
                | "_plans"
                | "Plans"
                | "deliver" as attribute
            ) if part in {
                "pipeline",
                "gateway",
                "frontends",
                "cli",
            }:
                if name not in {
                    "toolgen.gateway.calls.call_service",
                    "toolgen.gateway.policies.compiled_policy",
                    "toolgen.pipeline.order",
                }:
                    yield f"{name}:{node.lineno} takes hold of the pipeline: .{attribute}"
            case ast.Attribute(
                attr="open_connection" | "create_connection" | "create_subprocess_exec" | "create_subprocess_shell"
            ):
                if part not in MAY_TOUCH_SYSTEMS and (name, node.attr) not in EXCEPTIONS:
                    yield f"{name}:{node.lineno} reaches another system by itself: .{node.attr}"


def test_imports_point_down_the_layers() -> None:
    assert layer_faults(modules()) == []


def test_every_part_has_a_layer() -> None:
    parts = {part_of(name) for name in modules() if "." in name}
    assert parts - LAYERS.keys() == set()


def test_dynamic_imports_stand_only_where_commands_and_functions_are_found() -> None:
    dynamic = {name for name, text in modules().items() if f"dynamic:{name}" in set(imports(name, text))}
    assert dynamic <= {
        "toolgen",
        "toolgen.cli.lazy",
        "toolgen.connectors.functions.signature",
        "toolgen.connectors.sql.dialects",
        "toolgen.connectors.sql.execution.sandbox_process",
        "toolgen.core.system_modules",
        "toolgen.gateway.policies.middleware",
    }


def test_there_is_one_path_to_an_executor() -> None:
    assert path_faults(modules()) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("toolgen.model.planted", "from toolgen.policy.access import Access"),
        ("toolgen.policy.planted", "from toolgen.state.rate_limits import MemoryBuckets"),
        ("toolgen.audit.planted", "def late():\n    from toolgen.generator.emit import formats"),
        ("toolgen.core.canonical", "import toolgen.model.tool"),
        ("toolgen.policy.planted", "from ..state import rate_limits"),
        ("toolgen.pipeline.planted", "from toolgen.frontends.python.gateway import Gateway"),
        ("toolgen.policy.planted", "from toolgen import Gateway"),
        ("toolgen.policy.planted", "import toolgen"),
        ("toolgen.policy.planted", "import toolgen.nowhere"),
    ],
)
def test_a_planted_import_is_found(name: str, text: str) -> None:
    assert len(layer_faults({name: text})) == 1


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
            "async def admin(gateway, call):\n    return await gateway._governance._pipeline(call)",
        ),
        ("toolgen.gateway.planted", "def admin(gateway):\n    return gateway._executors['shop']"),
        ("toolgen.gateway.planted", "from toolgen.connectors.http import HttpExecutor"),
        ("toolgen.cli.planted", "from toolgen.connectors.sql.execution import executor"),
        ("toolgen.gateway.planted", "import httpx"),
        ("toolgen.gateway.planted", "import httpx2 as client"),
        ("toolgen.gateway.planted", "from psycopg import connect"),
        ("toolgen.gateway.planted", "import socket"),
        ("toolgen.gateway.planted", "from toolgen.connectors.resolver import system_resolver"),
        ("toolgen.cli.planted", "import subprocess"),
        (
            "toolgen.gateway.planted",
            "import asyncio\nasync def direct():\n    return await asyncio.open_connection('a', 1)",
        ),
        ("toolgen.pipeline.planted", "def direct():\n    import sqlite3"),
        ("toolgen.gateway.planted", "from toolgen.pipeline.stages.deliver import Deliver as D"),
        ("toolgen.gateway.planted", "from toolgen.pipeline.middleware import compose as c"),
        ("toolgen.gateway.planted", "from toolgen.pipeline.order import call_pipeline"),
        ("toolgen.gateway.planted", "from toolgen.pipeline.order import Plans"),
        ("toolgen.cli.planted", "from toolgen.gateway.calls.executors import make_executors as m"),
        (
            "toolgen.gateway.planted",
            "from toolgen.connectors.registry import CONNECTORS\nmade = CONNECTORS['sql'].make_executor",
        ),
    ],
)
def test_a_planted_second_path_is_found(name: str, text: str) -> None:
    assert path_faults({name: text}) != []


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
    assert circle(edges) == ()


def test_packages_do_not_import_each_other_in_circles() -> None:
    edges: dict[str, set[str]] = {}
    for name, text in modules().items():
        part = part_of(name)
        for imported in imports(name, text):
            home = HOMES.get(imported, imported)
            if part and part != "__main__" and home.startswith("toolgen.") and (other := part_of(home)) in LAYERS:
                edges.setdefault(part, set()).add(other)
    assert circle({part: others - {part} for part, others in edges.items()}) == ()


def circle(edges: Mapping[str, set[str]]) -> tuple[str, ...]:
    """The first circle among the imports, as its names in order; empty where there is none."""
    done: set[str] = set()

    def walk(name: str, above: tuple[str, ...]) -> tuple[str, ...]:
        if name in above:
            return (*above[above.index(name) :], name)
        if name not in done:
            for other in sorted(edges.get(name, ())):
                if found := walk(other, (*above, name)):
                    return found
            done.add(name)
        return ()

    return next((found for name in sorted(edges) if (found := walk(name, ()))), ())


def test_a_circle_is_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ("b", "c", "b")


def test_no_module_is_too_long_to_be_read() -> None:
    long = {name: len(text.splitlines()) for name, text in modules().items() if len(text.splitlines()) > MAX_LINES}
    assert long == {}


def test_records_are_structs() -> None:
    """A dataclass costs every start half a millisecond, a Struct a fortieth of that. What reads other people's dataclasses stays, and what
    cannot be a Struct: an exception, a middleware, a record that remembers what it has derived."""
    importing = {
        name
        for name, text in modules().items()
        if any(one.partition(".")[0] == "dataclasses" for one in imports(name, text))
    }
    assert importing == {
        "toolgen.connectors.http.decision_points",
        "toolgen.connectors.functions.annotations",
        "toolgen.connectors.functions.pydantic_types",
        "toolgen.state.value_vault",
        "toolgen.gateway.notify.webhook",
    }


def test_private_names_stay_in_their_package() -> None:
    private = [
        f"{name} imports {imported}"
        for name, text in modules().items()
        for imported in imports(name, text)
        if imported.startswith("toolgen.")
        and imported.rpartition(".")[2].startswith("_")
        and imported.rpartition(".")[2] != "__version__"
    ]
    assert private == []


def public_names(cls: type) -> set[str]:
    """The names of a class that others may use: what it defines, and the attributes that its methods give it."""
    tree = ast.parse(inspect.getsource(cls))
    given = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }
    return {name for name in (*vars(cls), *given) if not name.startswith("_")}


def changed_after_construction(text: str) -> list[int]:
    """Lines on which the assembly, or a constructor, sets an attribute or an item of an object other than its own."""
    tree, found = ast.parse(text), []
    made: list[ast.AST] = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
    for scope in [tree] if "def assemble(" in text else made:
        for node in ast.walk(scope):
            match node:
                case ast.Call(func=ast.Name(id="setattr")):
                    found.append(node.lineno)
                case (
                    ast.Attribute(value=ast.Name(id="self"))
                    | ast.Subscript(value=ast.Attribute(value=ast.Name(id="self")))
                ):
                    pass
                case ast.Attribute(ctx=ast.Store()) | ast.Subscript(value=ast.Attribute(), ctx=ast.Store()):
                    found.append(node.lineno)
    return found


def test_nothing_is_assigned_to_an_object_of_the_gateway_after_it_was_built() -> None:
    parts, requests = (
        ("toolgen.gateway.", "toolgen.pipeline."),
        "toolgen.frontends.http.connection",
    )
    built = {name: text for name, text in modules().items() if name.startswith(parts) and name != requests}
    found = {name: changed_after_construction(text) for name, text in built.items()}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "text",
    [
        "def assemble():\n    inner = Inner()\n    inner.calls = Calls()",
        "def assemble():\n    shared = Shared()\n    shared.pauses.first, other = 1, 2",
        "class Made:\n    def __init__(self, calls):\n        calls.recoveries['device'] = self",
        "def assemble():\n    setattr(inner, 'calls', 1)",
    ],
)
def test_a_late_assignment_is_found(text: str) -> None:
    assert len(changed_after_construction(text)) == 1


def split_classes(texts: Mapping[str, str]) -> list[str]:
    """Base classes whose only subclass stands in another file of their folder, and which nothing else makes or passes: one class in
    several files."""
    defined = {
        (name, node.name) for name, text in texts.items() for node in nodes(text) if isinstance(node, ast.ClassDef)
    }
    derived: dict[tuple[str, str], list[str]] = {}
    used: set[tuple[str, str]] = set()
    for name, text in texts.items():
        homes = {
            alias.asname or alias.name: (node.module or "", alias.name)
            for node in nodes(text)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for node in nodes(text):
            if isinstance(node, ast.ClassDef):
                named = [one.value if isinstance(one, ast.Subscript) else one for one in node.bases]
                for base in (homes.get(one.id, (name, one.id)) for one in named if isinstance(one, ast.Name)):
                    derived.setdefault(base, []).append(name)
            elif isinstance(node, ast.Call):
                passed = [node.func, *node.args, *(one.value for one in node.keywords)]
                used.update(homes.get(one.id, (name, one.id)) for one in passed if isinstance(one, ast.Name))
    return [
        f"{module}.{name}"
        for (module, name), places in sorted(derived.items())
        if (module, name) in defined - used
        and len(places) == 1
        and places[0] != module
        and places[0].rpartition(".")[0] == module.rpartition(".")[0]
    ]


def test_no_class_is_split_over_files_of_a_folder_by_inheritance() -> None:
    assert split_classes(modules()) == []


def test_a_class_split_by_inheritance_is_found() -> None:
    base, derived = (
        "class Waiting:\n    pass",
        "from toolgen.gateway.waiting import Waiting\nclass Approving(Waiting):\n    pass",
    )
    split = {"toolgen.gateway.waiting": base, "toolgen.gateway.approving": derived}
    assert split_classes(split) == ["toolgen.gateway.waiting.Waiting"]
    assert split_classes({**split, "toolgen.gateway.other": derived.replace("Approving", "Other")}) == []
    assert split_classes({**split, "toolgen.cli.made": "from toolgen.gateway.waiting import Waiting\nWaiting()"}) == []


def test_the_gateway_has_a_small_surface() -> None:
    assert public_names(Gateway) == {
        *(
            "load",
            "from_openapi",
            "from_functions",
            "from_asgi",
            "from_fastapi",
            "asgi",
            "key",
            "short_session",
            "entered",
            "settings",
            "manifest",
            "policy",
            "current",
        ),
        *("accounts", "sign_in", "callers", "tool_calls", "context", "operations"),
        *(
            "call",
            "preview",
            "principal",
            "approvals",
            "role_grants",
            "pausing",
            "monitoring",
            "unknown_outcomes",
            "tools",
        ),
    }


@pytest.mark.parametrize(
    ("protocol", "most"),
    [
        (protocol.Facade, 6),
        (protocol.AgentGateway, 3),
        (protocol.Project, 5),
        (protocol.Administration, 6),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_protocols_of_front_ends_stay_narrow(protocol: type, most: int) -> None:
    assert len(public_names(protocol)) <= most


def test_others_take_the_protocols_and_not_the_gateway() -> None:
    """Who starts a gateway makes one, and the doctor tries it out; nobody else sees the whole of it."""
    ends = (
        "toolgen.frontends.http.",
        "toolgen.frontends.rest.",
        "toolgen.frontends.mcp.",
        "toolgen.frontends.adapters.",
        "toolgen.frontends.console.",
    )
    whole = [
        name
        for name, text in modules().items()
        if name.startswith(ends) and "toolgen.frontends.python.gateway.Gateway" in set(imports(name, text))
    ]
    assert whole == []


def test_commands_make_a_gateway_and_hand_on_the_protocols() -> None:
    named = [
        f"{name}:{node.lineno}"
        for name in modules()
        if name.startswith("toolgen.cli.")
        for node in nodes(modules()[name])
        if isinstance(node, ast.arg)
        and node.annotation is not None
        and "Gateway" in ast.unparse(node.annotation).split()
    ]
    assert named == []


# Functions that compare an expiry with the time, and what of it expires.
EXPIRIES = {
    "toolgen.gateway.approvals.validity.is_expired": "a call that waits for an answer",
    "toolgen.frontends.mcp.request_state.open": "a question of a stateless client",
    "toolgen.frontends.console.app_pages._opened": "the address of a page of an app",
    "toolgen.frontends.console.approvals._filtered": "the filter of the page: what expires soon",
    "toolgen.state.grants._is_good": "a grant, in Redis",
    "toolgen.gateway.accounts.tokens._read": "an access token",
    "toolgen.gateway.sign_in.records.is_over": "a sign-in of a person",
}


def test_the_expiry_of_a_call_that_waits_is_decided_in_one_function() -> None:
    assert {one for name, text in modules().items() for one in compared_expiries(name, nodes(text))} == EXPIRIES.keys()


def test_a_planted_expiry_is_found() -> None:
    text = "async def due(self, known, now):\n    return known.status == 'pending' and now >= known.expires"
    assert list(compared_expiries("toolgen.gateway.planted", nodes(text))) == ["toolgen.gateway.planted.due"]
