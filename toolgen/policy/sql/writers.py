"""How some nodes are written out, where what sqlglot would write is read by the engine as something else, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from sqlglot import exp
from sqlglot.generator import Generator

__all__ = ["WRITERS"]

_Writer: TypeAlias = Callable[[Generator, exp.Expr], str]


def _rlike(generator: Generator, node: exp.Expr) -> str:
    """`a RLIKE b`, which MySQL and MariaDB both know; sqlglot writes a call of REGEXP_LIKE, which MariaDB does not have."""
    return generator.binary(node, "RLIKE")  # type: ignore[arg-type]  # the dispatch gives a RegexpLike, which is one


def _distinct(generator: Generator, node: exp.Expr) -> str:
    """`f(DISTINCT a, ',')`; sqlglot makes a tuple of several, as if all of them were counted."""
    if isinstance(node.parent, exp.Select):
        return generator.distinct_sql(node)  # type: ignore[arg-type]  # the dispatch gives a Distinct
    return f"DISTINCT {generator.expressions(node, flat=True)}"


def _not(generator: Generator, node: exp.Expr) -> str:
    """`a IS NOT NULL` as people write it, and as some engines call the column."""
    test = node.this
    if isinstance(test, exp.Is) and not test.args.get("negate"):
        return f"{generator.sql(test, 'this')} IS NOT {generator.sql(test, 'expression')}"
    return generator.not_sql(node)  # type: ignore[arg-type]  # the dispatch gives a Not


def _hexadecimal(generator: Generator, node: exp.Expr) -> str:
    return str(node.this) if str(node.this).startswith("0x") else f"x'{node.this}'"


def _integer_division(generator: Generator, node: exp.Expr) -> str:
    """As it was read; sqlglot puts parentheses around what is before it."""
    return generator.binary(node, "DIV")  # type: ignore[arg-type]  # the dispatch gives an IntDiv, which is one


def _extract(generator: Generator, node: exp.Expr) -> str:
    """The part as it was read; sqlglot writes another name of it."""
    return f"EXTRACT({generator.sql(node, 'this')} FROM {generator.sql(node, 'expression')})"


def _varchar(generator: Generator, node: exp.Expr) -> str:
    """VARCHAR by its own name; TEXT is another name for it, and columns are called by the first."""
    written = generator.datatype_sql(node)  # type: ignore[arg-type]  # the dispatch gives a DataType
    return "VARCHAR" if written == "TEXT" else written


def _power(generator: Generator, node: exp.Expr) -> str:
    """`a ^ b` as it was read: a call named power is one that was written so."""
    return generator.binary(node, "^")  # type: ignore[arg-type]  # the dispatch gives a Pow, which is one


def _root(sign: str) -> _Writer:
    return lambda generator, node: f"{sign} {generator.sql(node, 'this')}"


def _word(word: str) -> _Writer:
    return lambda _generator, _node: word


def _within_group(generator: Generator, node: exp.Expr) -> str:
    """As it was read; sqlglot writes a function of another name."""
    return f"{generator.sql(node, 'this')} WITHIN GROUP ({generator.sql(node, 'expression').strip()})"


def _ignore_nulls(generator: Generator, node: exp.Expr) -> str:
    """`f(x IGNORE NULLS)`: DuckDB has the words inside."""
    words = "IGNORE NULLS" if isinstance(node, exp.IgnoreNulls) else "RESPECT NULLS"
    return f"{generator.sql(node, 'this').removesuffix(')')} {words})"


_EVERYWHERE: Mapping[type[exp.Expr], _Writer] = {exp.Distinct: _distinct, exp.Not: _not}

WRITERS: Mapping[str, Mapping[type[exp.Expr], _Writer]] = MappingProxyType(
    {
        "sqlite": _EVERYWHERE,
        "postgres": {
            **_EVERYWHERE,
            exp.CurrentTime: _word("CURRENT_TIME"),  # sqlglot writes `CURRENT_TIME()`, which PostgreSQL does not read
            exp.Pow: _power,
            exp.Sqrt: _root("|/"),
            exp.Cbrt: _root("||/"),
        },
        "mysql": {**_EVERYWHERE, exp.RegexpLike: _rlike, exp.HexString: _hexadecimal, exp.IntDiv: _integer_division},
        "duckdb": {
            **_EVERYWHERE,
            exp.DataType: _varchar,
            exp.Extract: _extract,
            exp.Pow: _power,
            # Columns are called by these words as they are written, and mostly they are written small.
            exp.CurrentDate: _word("current_date"),
            exp.CurrentTimestamp: _word("current_timestamp"),
            exp.Localtime: _word("localtime"),
            exp.Localtimestamp: _word("localtimestamp"),
            exp.WithinGroup: _within_group,
            exp.IgnoreNulls: _ignore_nulls,
            exp.RespectNulls: _ignore_nulls,
        },
    }
)
"""By dialect and kind of node."""
