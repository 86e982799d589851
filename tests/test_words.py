"""One language: modules, help texts and pages use the terms of the field, never a private metaphor."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from toolgen.cli.lazy import LazyCommand
from toolgen.cli.main import cli

ROOT = Path(__file__).parent.parent
# The word that was used -> the word that somebody would search for.
MODULES = {
    "attempts": "failed_logins or trials",
    "beginnings": "truncated_json",
    "chain": "middleware",
    "cut": "chunking",
    "courier": "checkpoint_shipper",
    "desk": "approval_queue",
    "dial": "connector",
    "door": "authentication",
    "earlier": "session_history",
    "errand": "short-lived session",
    "facade": "protocol",
    "given": "input_validation",
    "governance": "compiled_policy",
    "helpers": "what it helps with",
    "in_force": "policy_reloader",
    "intake": "argument_normalization",
    "keeper": "maintenance",
    "kept": "stored_answers",
    "ledger": "idempotency",
    "line": "client_channel",
    "link": "redis_connection",
    "manager": "what it manages",
    "meanings": "embedding_cache",
    "pack": "compression",
    "patience": "resilience_config",
    "places": "checkpoint_sinks",
    "presence": "call_context",
    "promise": "output_validation",
    "rare": "outbound",
    "rarely": "outbound",
    "reach": "connect",
    "respell": "dialect_rewrites",
    "road": "pipeline",
    "seal": "encryption",
    "seat": "slot",
    "settle": "normalize",
    "stand_ins": "search_tools",
    "steady": "resilience",
    "titles": "column_names",
    "trail": "call state",
    "turning": "turn_limit",
    "upstreams": "upstream_quotas",
    "utils": "what it is for",
    "wallet": "credential_selection",
    "wire": "request_builder or json_codec",
    "witness": "counterexample",
}
STILL = {"toolgen/policy/readings/wire.py"}  # how a value may be read once it is text on the wire: the word is meant
TEXTS = re.compile(
    r"\b(courier|desk|errand|wallet|stand-ins?|at the door|the road|whoever|anew|for the record|which rule spoke|(?<!When )in doubt)\b",
    re.IGNORECASE,
)
# What those who change the code are told: in comments and docstrings.
REMARKS = re.compile(
    r"\b(courier|desk|errand|wallet|stand-ins?|(?:the|at|usual) doors?|the road|whoever|whomever|anew|hitherto|lest|rare requests?)\b",
    re.IGNORECASE,
)


_PRIVATE = (
    "road",
    "patience",
    "steady",
    "wallet",
    "courier",
    "errand",
    "anew",
    "doubts",
    "desk(?!top)",
    "door",
    "rehears",
)
NAMES = re.compile(rf"(?:\b|_)(?i:{'|'.join(_PRIVATE)})|{'|'.join(word.title() for word in _PRIVATE)}|\bMeaning\b")


def commands(group: click.Command, name: str = "toolgen") -> Iterator[tuple[str, click.Command]]:
    """Every command of the command line by what a user types."""
    loaded = group.load() if isinstance(group, LazyCommand) else group
    yield name, loaded
    if isinstance(loaded, click.Group):
        for one in loaded.commands.values():
            yield from commands(one, f"{name} {one.name}")


def test_modules_are_called_what_a_newcomer_would_search_for() -> None:
    found = {
        str(path.relative_to(ROOT)): MODULES[path.stem]
        for path in sorted((ROOT / "toolgen").rglob("*.py"))
        if path.stem in MODULES and str(path.relative_to(ROOT)) not in STILL
    }
    assert found == {}, "call each by the term on the right"


def test_help_texts_use_the_terms_of_the_field() -> None:
    said = {
        name: sorted({word.group() for text in texts(command) for word in TEXTS.finditer(text)})
        for name, command in commands(cli)
    }
    assert len(said) > 40
    assert {name: words for name, words in said.items() if words} == {}


def texts(command: click.Command) -> Iterator[str]:
    yield command.help or ""
    yield from (one.help or "" for one in command.params if isinstance(one, click.Option))


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda page: page.name
)
def test_pages_use_the_terms_of_the_field(page: Path) -> None:
    assert sorted({word.group() for word in TEXTS.finditer(page.read_text(encoding="utf-8"))}) == []


def strings(tree: ast.Module) -> Iterator[str]:
    """The texts of a module that somebody may be shown: all but its docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docs = {
        id(first.value)
        for node in ast.walk(tree)
        if isinstance(node, documented)
        for first in node.body[:1]
        if isinstance(first, ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def names(tree: ast.Module) -> Iterator[str]:
    """What a module calls its classes, functions, arguments and variables."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name) | ast.Attribute(attr=name):
                yield name


@cache
def sources() -> dict[str, str]:
    return {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for path in sorted((ROOT / "toolgen").rglob("*.py"))
    }


# Between the words of one text that is written as several.
_JOINED = re.compile(r"""["']\s+[rbf]*["']""")


def wrong_texts(source: str) -> list[str]:
    """The words in texts of a module. One in whose source none stands is not parsed: they are nearly all."""
    if not TEXTS.search(_JOINED.sub("", source)):
        return []
    return sorted({word.group() for text in strings(ast.parse(source)) if " " in text for word in TEXTS.finditer(text)})


_MAYBE_NAMES = re.compile("|".join((*_PRIVATE, "meaning")))


def wrong_names(source: str) -> list[str]:
    """The words in names of a module, which is not parsed either where none stands in it."""
    if not _MAYBE_NAMES.search(source.lower()):
        return []
    return sorted({one for one in names(ast.parse(source)) if NAMES.search(one)})


def test_messages_use_the_terms_of_the_field() -> None:
    said = {name: wrong_texts(source) for name, source in sources().items()}
    assert len(said) > 400
    assert {name: words for name, words in said.items() if words} == {}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('x = "ask at the desk"', ["desk"]),
        ('raise E(f"ask {x} at " "the " f"door")', ["at the door"]),
        ('raise E(\n    "ask at the"\n    f" road {x}"\n)', ["the road"]),
        ("x = f'ask {x[\"a b\"]} at the desk'", ["desk"]),
        ('def f():\n    """Ask at the desk."""\n    return "a desktop"', []),
        ("x = 1  # at the desk", []),
    ],
)
def test_a_planted_text_is_found(source: str, found: list[str]) -> None:
    assert wrong_texts(source) == found


def remarks(source: str) -> Iterator[str]:
    """The comments and docstrings of a module, or none where no such word stands in it at all."""
    if not REMARKS.search(source):
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and token.string.startswith('"""')):
            yield token.string


def test_comments_and_docstrings_use_the_terms_of_the_field() -> None:
    said = {
        name: sorted({word.group() for text in remarks(source) for word in REMARKS.finditer(text)})
        for name, source in sources().items()
    }
    assert {name: words for name, words in said.items() if words} == {}


def test_names_use_the_terms_of_the_field() -> None:
    called = {name: wrong_names(source) for name, source in sources().items()}
    assert {name: words for name, words in called.items() if words} == {}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def the_road(): pass", ["the_road"]),
        ("class OpenDoor: pass", ["OpenDoor"]),
        ("x.courier_name = desktop", ["courier_name"]),
        ("def f(wallet): pass", ["wallet"]),
        ("class Meaning: pass", ["Meaning"]),
        ("broad = 'road'", []),
    ],
)
def test_a_planted_name_is_found(source: str, found: list[str]) -> None:
    assert wrong_names(source) == found
