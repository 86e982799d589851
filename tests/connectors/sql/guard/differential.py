"""Statements for a differential of bare engine and guard, generated from the tables of differential.yaml."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

__all__ = ["generated"]

_Words: TypeAlias = Mapping[str, Sequence[str]]

_TABLES: Final[Mapping[str, Any]] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
_TEXT_TYPES: Final = {"postgres": "jsonb", "duckdb": "JSON", "mysql": "CHAR(2000)", "sqlite": "TEXT"}


def generated(dialect: str) -> list[str]:
    """Every statement for one engine. Many are none to it: there, the gateway has to say no as well."""
    return list(dict.fromkeys(_statements(dialect)))


def _of(words: _Words, dialect: str) -> list[str]:
    return [*words.get("all", ()), *words.get(dialect, ())]


def _statements(dialect: str) -> Iterator[str]:
    for literal in _TABLES["literals"]:
        yield f"SELECT {literal}"
    for kind, value in product(_TABLES["typed"]["words"], _TABLES["typed"]["values"]):
        yield f"SELECT {kind} '{value}'"
    for literal in _TABLES["intervals"]:
        yield f"SELECT {literal}" if dialect != "mysql" else f"SELECT '2024-01-31 10:00:00' + {literal}"
    yield from _operations(dialect)
    for form in _TABLES["forms"]:
        yield f"SELECT {form} AS x"
    for value, kind in product(_TABLES["casts"]["values"], _of(_TABLES["casts"]["types"], dialect)):
        yield f"SELECT CAST({value} AS {kind}) AS x"
    yield from _documents(dialect)
    yield from _TABLES["statements"]


def _operations(dialect: str) -> Iterator[str]:
    """Two operators without parentheses, and one with each side in them: precedence and associativity, and what must not lose them."""
    operators = _of(_TABLES["operators"], dialect)
    for first, second in product(operators, operators):
        yield f"SELECT 7 {first} 2 {second} 3 AS x"
    for sign, operator in product(_of(_TABLES["signs"], dialect), operators):
        yield f"SELECT {sign} 7 {operator} 2 AS x"
    for operator in operators:
        yield f"SELECT 7 {operator} (2 {operator} 3) AS x, 7 {operator} 2, 7 {operator} - 2"


def _documents(dialect: str) -> Iterator[str]:
    tables = _TABLES["documents"]
    text = tables["document"] if dialect == "mysql" else tables["document"].replace("\\\\", "\\")
    source = f"(SELECT CAST('{text}' AS {_TEXT_TYPES[dialect]}) AS d) q"
    for form, key in product(_of(tables["access"], dialect), tables["keys"]):
        yield f"SELECT {form.format(key)} AS x FROM {source}"
    for form in _of(tables["places"], dialect):
        yield f"SELECT {form} AS x FROM {source}"
