"""Kinds of systems are known to their folders of connectors/ alone: names of kinds, of dialects and of bindings elsewhere are counted."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolgen.connectors.registry import CONNECTORS
from toolgen.connectors.sql.engines import ENGINES

ROOT = Path(__file__).parent.parent
FOLDERS = frozenset({"openapi", "graphql", "sql", "mcp", "functions", "workflow", "device", "declared", "context"})
BINDINGS = frozenset(
    {
        *("HttpBinding", "GraphQLBinding", "GraphQLDocumentBinding", "GraphQLSchemaBinding", "SqlBinding", "FunctionBinding"),
        *("McpBinding", "McpContextBinding", "McpResourceBinding", "WorkflowBinding", "DeviceBinding", "CodeBinding"),
        *("FolderBinding", "SkillFileBinding", "TextPromptBinding"),
    }
)  # fmt: skip
# Modules that name kinds for a reason, and the reason.
EXPLAINED = {
    "toolgen.model.tool": "has the bindings",
    "toolgen.model.graphql_binding": "has the bindings of GraphQL",
    "toolgen.model.http_binding": "has the binding of HTTP requests",
    "toolgen.model.device": "has the binding of devices",
    "toolgen.model.workflow": "has the bindings of workflows and code",
    "toolgen.model.context_bindings": "has the bindings of files",
    "toolgen.core.garbage": "names a library that counts objects, whoever loads it",
    "toolgen.audit.index.database": "has a database of its own, the index of the log",
    "toolgen.audit.index.index": "the same",
    "toolgen.audit.index.postgres": "the same",
    "toolgen.audit.index.row": "the same",
    "toolgen.config.audit": "reads where that is",
    "toolgen.config.checks": "kinds there are those of the project's own checks",
    "toolgen.gateway.policies.middleware": "the same",
    "toolgen.quality.doctor.scratch_gateway": "makes tools of two kinds, for trials of guards",
}
# Packages in which kinds are those of kept calls.
KEPT_CALLS = ("toolgen.state.", "toolgen.gateway.operations.")
# How often each is named outside of connectors/. These numbers only become smaller.
MOST = {"kinds": 0, "dialects": 0, "bindings": 5, "imports": 22}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted((ROOT / "toolgen").rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if not name.startswith("toolgen.connectors.") and name not in EXPLAINED:
            yield name, ast.parse(path.read_text(encoding="utf-8"))


def named(tree: ast.AST) -> Iterator[tuple[str, int, str]]:
    """What a module names, with the line: a kind that `.kind` is compared with, a dialect, a binding, an import of a kind's folder."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, comparators=others):
                if any(_is_kind(one) for one in (left, *others)):
                    yield from (("kinds", *one) for one in _texts(node, CONNECTORS))
            case ast.Match(subject=subject) if any(_is_kind(one) for one in ast.walk(subject)):
                yield from (("kinds", *one) for case in node.cases for one in _texts(case.pattern, CONNECTORS))
            case ast.Call(keywords=keywords):
                given = (one.value for one in keywords if one.arg == "kind")
                yield from (("kinds", *one) for value in given for one in _texts(value, CONNECTORS))
            case ast.Constant(value=str(text)) if text in ENGINES:
                yield "dialects", node.lineno, text
            case ast.Name(id=name) if name in BINDINGS:
                yield "bindings", node.lineno, name
            case ast.ImportFrom(module=str(module)) if module.startswith("toolgen.connectors."):
                if module.split(".")[2] in FOLDERS:
                    yield "imports", node.lineno, module


def _is_kind(node: ast.AST) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr == "kind") or (
        isinstance(node, ast.Name) and node.id == "kind"
    )


def _texts(tree: ast.AST, known: object) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in known:  # type: ignore[operator]  # a mapping
            yield node.lineno, node.value


def test_kinds_are_named_in_their_folders_alone() -> None:
    found = [
        (what, f"{name}:{line} {text}")
        for name, tree in modules()
        for what, line, text in named(tree)
        if what != "kinds" or not name.startswith(KEPT_CALLS)
    ]
    counts = Counter(what for what, _ in found)
    for what, most in MOST.items():
        listed = "\n".join(place for kind, place in found if kind == what)
        assert counts[what] <= most, (
            f"{what} are named {counts[what]} times outside of connectors/, at most {most}:\n{listed}"
        )
        assert counts[what] == most, f"{what} are named {counts[what]} times: make the bound of {most} smaller"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("x = source.config.kind == 'sql'", "kinds"),
        ("x = kind in {'graphql', 'mcp'}", "kinds"),
        ("match config.kind:\n    case 'openapi':\n        pass", "kinds"),
        ("made(kind='device')", "kinds"),
        ("x = database.dialect == 'postgres'", "dialects"),
        ("x = isinstance(binding, HttpBinding)", "bindings"),
        ("match binding:\n    case SqlBinding():\n        pass", "bindings"),
        ("def late():\n    from toolgen.connectors.graphql.guard import check", "imports"),
    ],
)
def test_a_planted_name_is_counted(text: str, what: str) -> None:
    assert {one for one, *_ in named(ast.parse(text))} == {what}


def test_what_is_explained_still_names_a_kind() -> None:
    for name in EXPLAINED:
        path = ROOT / Path(*name.split(".")).with_suffix(".py")
        text = path.read_text(encoding="utf-8")
        assert any(one in text for one in (*CONNECTORS, *ENGINES, *BINDINGS)), name
