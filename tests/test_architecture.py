"""The rules of ARCHITECTURE.md, held against the code: imports point down, and there is one path to an executor."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = {
    "errors": 0,
    "canonical": 0,
    "clock": 0,
    "model": 1,
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
    "settings": 3,
    "gateway": 4,
    "mock": 4,
    "serve": 5,
    "__main__": 5,
    "cli": 5,
}
# What touches another system, and the parts that may: executors, and sources while they read a description.
SYSTEMS = {"aiohttp", "gql", "httpcore", "httpx", "pyreqwest", "requests", "sqlite3", "urllib.request", "http.client"}
MAY_TOUCH_SYSTEMS = {"execute", "sources"}
# `toolgen init` writes the database of the project it makes; it calls no tool.
WRITES_A_SAMPLE = "toolgen.cli.init"
# What of execute/ anybody may know: what an executor is, and what a secret is.
OPEN_MODULES = {"toolgen.execute.base", "toolgen.execute.secrets"}


def modules() -> dict[str, str]:
    """Every module of toolgen by dotted name, with its text."""
    found = {}
    for path in sorted((ROOT / "toolgen").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text(encoding="utf-8")
    return found


def imports(name: str, text: str) -> Iterator[str]:
    """Every module a text imports, wherever in it the import stands; relative ones would hide from this, so they count as themselves."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = "." * level + (module or "")
                yield from (f"{base}.{alias.name}" for alias in names)
            case ast.Call(func=ast.Name(id="__import__") | ast.Attribute(attr="import_module")):
                yield f"dynamic:{name}"


def layer_faults(texts: Mapping[str, str]) -> list[str]:
    """Imports that do not point down."""
    faults = []
    for name, text in texts.items():
        part = name.split(".")[1] if "." in name else ""
        for imported in imports(name, text):
            if imported.startswith("."):
                faults.append(f"{name} imports relatively: {imported}")
            if not imported.startswith("toolgen.") or not part:
                continue
            other = imported.split(".")[1]
            if other == part or other not in LAYERS:
                continue
            if LAYERS[other] > LAYERS[part] or LAYERS[other] == LAYERS[part] == 2:
                faults.append(f"{name} imports {imported}")
    return faults


def path_faults(texts: Mapping[str, str]) -> list[str]:
    """Ways to an executor, or to another system, that do not lead through pipeline/order.py."""
    faults = []
    for name, text in texts.items():
        part = name.split(".")[1] if "." in name else ""
        for imported in imports(name, text):
            concrete = imported.startswith("toolgen.execute") and not any(
                imported == module or imported.startswith(f"{module}.") for module in OPEN_MODULES
            )
            if concrete and part != "execute" and name != "toolgen.pipeline.executors":
                faults.append(f"{name} imports an executor: {imported}")
            touches = any(imported == system or imported.startswith(f"{system}.") for system in SYSTEMS)
            if touches and part not in MAY_TOUCH_SYSTEMS and name != WRITES_A_SAMPLE:
                faults.append(f"{name} reaches another system by itself: {imported}")
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Call):
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called == "execute" and part not in MAY_TOUCH_SYSTEMS and name != "toolgen.pipeline.deliver":
                faults.append(f"{name}:{node.lineno} calls an executor")
            if called == "make_executors" and name not in {"toolgen.gateway.service", "toolgen.pipeline.preview"}:
                faults.append(f"{name}:{node.lineno} makes executors of its own")
            if called == "Deliver" and name != "toolgen.gateway.service":
                faults.append(f"{name}:{node.lineno} delivers by itself")
            if called == "compose" and name != "toolgen.pipeline.order":
                faults.append(f"{name}:{node.lineno} composes another order")
    return faults


def test_imports_point_down_the_layers() -> None:
    assert layer_faults(modules()) == []


def test_every_part_has_a_layer() -> None:
    parts = {name.split(".")[1] for name in modules() if "." in name}
    assert parts - LAYERS.keys() == set()


def test_dynamic_imports_stand_only_where_commands_are_found() -> None:
    dynamic = {name for name, text in modules().items() if f"dynamic:{name}" in set(imports(name, text))}
    assert dynamic <= {"toolgen", "toolgen.cli.main"}


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
    ],
)
def test_a_planted_import_is_found(name: str, text: str) -> None:
    assert len(layer_faults({**modules(), name: text})) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("toolgen.gateway.planted", "async def admin(executor, call):\n    return await executor.execute(call)"),
        ("toolgen.gateway.planted", "from toolgen.execute.http import HttpExecutor"),
        ("toolgen.cli.planted", "from toolgen.execute import sql"),
        ("toolgen.gateway.planted", "import httpx"),
        ("toolgen.pipeline.planted", "def direct():\n    import sqlite3"),
        ("toolgen.gateway.planted", "def direct(parts):\n    return Deliver(executors=parts)"),
        ("toolgen.gateway.planted", "road = compose((), last)"),
        ("toolgen.cli.planted", "executors = make_executors({}, None, None)"),
    ],
)
def test_a_planted_second_path_is_found(name: str, text: str) -> None:
    assert len(path_faults({**modules(), name: text})) == 1


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
