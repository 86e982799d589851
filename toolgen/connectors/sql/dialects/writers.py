"""Writers of nodes, where sqlglot's SQL would have another meaning in the engine, or is missing."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from sqlglot import exp
from sqlglot.generator import Generator

from toolgen.connectors.sql.dialects.record import Writer

__all__ = [
    "WRITERS",
    "operator",
    "prefix",
    "word",
    "write_absolute",
    "write_extract",
    "write_group_concat",
    "write_hexadecimal",
    "write_ignore_nulls",
    "write_integer_division",
    "write_offset",
    "write_position",
    "write_power",
    "write_rlike",
    "write_row_test",
    "write_varchar",
    "write_within_group",
]


def write_rlike(generator: Generator, node: exp.Expr) -> str:
    """Return `a RLIKE b`, which MySQL and MariaDB both know; sqlglot writes a call of REGEXP_LIKE, which MariaDB does not have."""
    return generator.binary(node, "RLIKE")  # type: ignore[arg-type]  # the dispatch gives a RegexpLike, which is one


def _distinct(generator: Generator, node: exp.Expr) -> str:
    """Return `f(DISTINCT a, ',')`; sqlglot makes a tuple of several arguments, as if all of them were counted."""
    if isinstance(node.parent, exp.Select):
        return generator.distinct_sql(node)  # type: ignore[arg-type]  # the dispatch gives a Distinct
    return f"DISTINCT {generator.expressions(node, flat=True)}"


def _not(generator: Generator, node: exp.Expr) -> str:
    """Return `a IS NOT NULL`, the usual form, by which some engines name the column."""
    test = node.this
    if isinstance(test, exp.Is) and not test.args.get("negate"):
        return f"{generator.sql(test, 'this')} IS NOT {generator.sql(test, 'expression')}"
    return generator.not_sql(node)  # type: ignore[arg-type]  # the dispatch gives a Not


def write_row_test(generator: Generator, node: exp.Expr) -> str:
    """Return `NOT row IS NULL`, which differs from `row IS NOT NULL`: https://www.postgresql.org/docs/current/functions-comparison.html."""
    if isinstance(node.this, exp.Is) and isinstance(node.this.expression, exp.Null):
        return generator.not_sql(node)  # type: ignore[arg-type]  # the dispatch gives a Not
    return _not(generator, node)


def write_hexadecimal(generator: Generator, node: exp.Expr) -> str:
    return str(node.this) if str(node.this).startswith("0x") else f"x'{node.this}'"


def write_integer_division(generator: Generator, node: exp.Expr) -> str:
    """Return DIV as it was written; sqlglot adds parentheses around the left operand."""
    return generator.binary(node, "DIV")  # type: ignore[arg-type]  # the dispatch gives an IntDiv, which is one


def write_extract(generator: Generator, node: exp.Expr) -> str:
    """Return the part as it was written; sqlglot uses another name."""
    return f"EXTRACT({generator.sql(node, 'this')} FROM {generator.sql(node, 'expression')})"


def write_varchar(generator: Generator, node: exp.Expr) -> str:
    """Return VARCHAR under its own name; some engines name columns by it, and TEXT is a synonym."""
    written = generator.datatype_sql(node)  # type: ignore[arg-type]  # the dispatch gives a DataType
    return "VARCHAR" if written == "TEXT" else written


def write_power(generator: Generator, node: exp.Expr) -> str:
    """Return `a ^ b` as it was written: a call of power stays a call."""
    return generator.binary(node, "^")  # type: ignore[arg-type]  # the dispatch gives a Pow, which is one


def operator(sign: str) -> Writer:
    """Return a writer of the operator as it was written; sqlglot writes a call."""
    return lambda generator, node: f"{generator.sql(node, 'this')} {sign} {generator.sql(node, 'expression')}"


def write_position(generator: Generator, node: exp.Expr) -> str:
    """Return POSITION as it was written; sqlglot writes a function with another name."""
    return f"POSITION({generator.sql(node, 'substr')} IN {generator.sql(node, 'this')})"


def write_absolute(generator: Generator, node: exp.Expr) -> str:
    """Return `@(x)` as it was written: the parser has a class for it in DuckDB. A call of abs stays a call."""
    written = generator.sql(node, "this")
    return f"@{written}" if isinstance(node.this, exp.Paren) else f"@({written})"


def write_group_concat(generator: Generator, node: exp.Expr) -> str:
    """Return `GROUP_CONCAT(x ORDER BY y SEPARATOR ',' LIMIT 2)`; sqlglot writes the separator after the limit."""
    gathered, limit = node.this, ""
    if isinstance(gathered, exp.Limit):
        counts = [gathered.args.get("offset"), gathered.expression]
        limit = " LIMIT " + ", ".join(generator.sql(count) for count in counts if count is not None)
        gathered = gathered.this
    return f"GROUP_CONCAT({generator.sql(gathered)} SEPARATOR {generator.sql(node, 'separator')}{limit})"


def write_offset(generator: Generator, node: exp.Expr) -> str:
    """Return `OFFSET 1 ROWS` before FETCH, where MariaDB requires the word; `OFFSET 1` after LIMIT."""
    fetched = node.parent is not None and isinstance(node.parent.args.get("limit"), exp.Fetch)
    return f"{generator.seg('OFFSET')} {generator.sql(node, 'expression')}{' ROWS' * fetched}"


def prefix(sign: str) -> Writer:
    return lambda generator, node: f"{sign} {generator.sql(node, 'this')}"


def word(word: str) -> Writer:
    return lambda _generator, _node: word


def write_within_group(generator: Generator, node: exp.Expr) -> str:
    """Return WITHIN GROUP as it was written; sqlglot writes a function with another name."""
    return f"{generator.sql(node, 'this')} WITHIN GROUP ({generator.sql(node, 'expression').strip()})"


def write_ignore_nulls(generator: Generator, node: exp.Expr) -> str:
    """Return `f(x IGNORE NULLS)`: DuckDB has the words inside the parentheses."""
    words = "IGNORE NULLS" if isinstance(node, exp.IgnoreNulls) else "RESPECT NULLS"
    return f"{generator.sql(node, 'this').removesuffix(')')} {words})"


WRITERS: Final[Mapping[type[exp.Expr], Writer]] = MappingProxyType({exp.Distinct: _distinct, exp.Not: _not})
"""Writers of all dialects, by kind of node."""
