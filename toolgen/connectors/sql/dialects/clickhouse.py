"""ClickHouse."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NoReturn

from sqlglot import exp
from sqlglot.errors import UnsupportedError
from sqlglot.generator import Generator
from sqlglot.tokenizer_core import Token, TokenType

from toolgen.connectors.sql.dialects.costs import COMMON, OPERATORS, Cost, table
from toolgen.connectors.sql.dialects.record import Dialect, TokenRewrite, TreeRewrite, words
from toolgen.connectors.sql.dialects.writers import WRITERS
from toolgen.connectors.sql.guard.marks import SLOT
from toolgen.connectors.sql.guard.refusal import refuse, shown
from toolgen.model.database_rights import Power, Rights

if TYPE_CHECKING:
    from toolgen.connectors.sql.reading.schema import ReadSchema
    from toolgen.model.call import Statement
    from toolgen.model.database_url import FileLocation

__all__ = ["DIALECT"]

_NOT: Final = WRITERS[exp.Not]
# Parts of a text that both parsers read alike. ClickHouse knows more escapes than the parser, quotes that are not ASCII (“…”), texts
# between dollar signs, `#` comments and `{name:Type}`. https://clickhouse.com/docs/sql-reference/syntax
_PARTS: Final = re.compile(
    r"""
    '(?:[^'\\]|''|\\[\\'])*'
    | (?:"[^"\\`]*"|`[^"\\`]*`)(?!["`])
    | --[^\n]*
    | /\*(?:(?!/\*|\*/).)*\*/
    | [\w\s()\[\],.;:+*%=<>!|?]+
    | -(?!-) | /(?!\*)
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)


def _check_text(sql: str) -> str:
    """Return the text. Refuse one with a part that the parser and the engine could read differently."""
    place = 0
    while place < len(sql):
        found = _PARTS.match(sql, place)
        if found is None:
            _refuse_part(sql[place])
        place = found.end()
    return sql


def _refuse_part(sign: str) -> NoReturn:
    if sign in "'\"`":
        refuse(
            "literal",
            "a quote is not closed, or something between quotes has another meaning in ClickHouse",
            "quote texts with ' (doubled inside of one, a backslash written twice) and plain names with \"",
        )
    if sign == "/":
        refuse("comment", "a comment is not closed, or contains another one", "leave the comment out")
    refuse(
        "character",
        f"the statement contains {shown(sign)} outside of quotes",
        'send standard SQL; quote names with letters beyond ASCII with "',
    )


_SET_OPERATIONS: Final = frozenset({TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT})


def _select_from_set_operation(tokens: Sequence[Token]) -> Iterator[Token]:
    """Rewrite `a UNION ALL b` as `SELECT * FROM (a UNION ALL b)`, because a LIMIT after it limits its last query only."""
    depth = 0
    found = False
    for before, token in pairwise(tokens):
        depth += (before.token_type is TokenType.L_PAREN) - (before.token_type is TokenType.R_PAREN)
        excludes = before.token_type is TokenType.STAR  # `* EXCEPT (name)`
        found = found or (not depth and not excludes and token.token_type in _SET_OPERATIONS)
    if not found:
        yield from tokens
        return
    first, last = tokens[0], tokens[-1]
    for kind, text in (
        (TokenType.SELECT, "SELECT"),
        (TokenType.STAR, "*"),
        (TokenType.FROM, "FROM"),
        (TokenType.L_PAREN, "("),
    ):
        yield _sign(first, kind, text)
    yield from tokens
    yield _sign(last, TokenType.R_PAREN, ")")


def _sign(place: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, place.line, place.col, place.start, place.end, [])


def _refuse_named_sets(root: exp.Expr) -> None:
    """Refuse `x IN (name)`, which reads the table of this name if there is one, also if it is the name of a column.

    https://clickhouse.com/docs/sql-reference/operators/in
    """
    for test in root.find_all(exp.In):
        listed = test.expressions
        if len(listed) == 1 and isinstance(listed[0].unnest(), exp.Column) and not _is_value(listed[0].unnest()):
            refuse(
                "syntax", "IN has one name in parentheses, which ClickHouse reads as a table", "write = and the name"
            )


def _is_value(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and node.name.startswith(SLOT)


def _write_identifier(generator: Generator, node: exp.Expr) -> str:
    """Write each name in quotes. One with a sign that ends or changes a quoted name is not written."""
    if any(sign in '"\\`' for sign in node.name):
        raise UnsupportedError("a name contains a quote or a backslash")
    return generator.identifier_sql(node)  # type: ignore[arg-type]  # the dispatch gives an Identifier


def _write_not(generator: Generator, node: exp.Expr) -> str:
    """Write `x NOT IN (…)` as it was read; sqlglot writes `NOT (x IN (…))`, which is another tree."""
    test = node.this
    if not isinstance(test, exp.In):
        return _NOT(generator, node)
    query = test.args.get("query")
    listed = generator.sql(query) if query is not None else f"({generator.expressions(test, flat=True)})"
    return f"{generator.sql(test, 'this')} NOT IN {listed}"


def _refuse_inner_aliases(root: exp.Expr) -> None:
    """Refuse `(id AS x) + 1`: a name that an expression defines is known in the complete query."""
    for alias in root.find_all(exp.Alias):
        if not isinstance(alias.parent, exp.Select) or alias.arg_key != "expressions":
            refuse("syntax", "a name is given inside of an expression", "give it in the SELECT list")


def _read(location: FileLocation, _password: str) -> ReadSchema:
    from toolgen.connectors.sql.reading.clickhouse import read_clickhouse  # noqa: PLC0415 - at a build

    return read_clickhouse(location.path)


def _prepare(
    location: FileLocation, _password: str, statements: Sequence[Statement]
) -> Iterator[str | tuple[str, ...]]:
    from toolgen.connectors.sql.reading.clickhouse import prepare_clickhouse  # noqa: PLC0415 - at a build

    return prepare_clickhouse(location.path, statements)


def _rights(location: FileLocation, _password: str) -> Rights:
    power = Power(code="folder-readable", message=f"this process reads {location.path.name}", harmless=True)
    return Rights(account="", powers=(power,))


# https://clickhouse.com/docs/sql-reference/functions and .../aggregate-functions, by their names in lower case
_FUNCTIONS: Final = table(
    COMMON,
    (
        (
            Cost(),
            """
            avgif count countif date_diff datediff empty endswith isfinite isinfinite isnan isnotnull isnull lengthutf8 median
            notempty now position positioncaseinsensitive positioncaseinsensitiveutf8 positionutf8 startswith stddevpop stddevsamp
            sumif today todayofmonth todayofweek todayofyear tohour tominute tomonth toquarter tosecond tounixtimestamp toyear
            toyyyymm toyyyymmdd uniq uniqexact uniqif varpop varsamp yesterday
            """,
        ),
        (
            Cost(result="one", work=1),
            """
            anylast argmax argmin assumenotnull greatest if ifnull least maxif minif multiif
            """,
        ),
        (
            Cost(),
            """
            adddays addhours addminutes addmonths addquarters addseconds addweeks addyears subtractdays subtracthours subtractminutes
            subtractmonths subtractquarters subtractseconds subtractweeks subtractyears date_trunc datetrunc tomonday tostartofday
            tostartofhour tostartofminute tostartofmonth tostartofquarter tostartofweek tostartofyear todate todatetime todateornull
            todatetimeornull intdiv intdivorzero modulo
            """,
        ),
        (Cost(result="sum"), "replaceone substringutf8 trimleft trimright trimboth reverse reverseutf8"),
        (Cost(result="replace", pairs=1.2), "replaceall"),
        (Cost(result="sum", factor=3), "lowerutf8 tostring upperutf8"),
        (
            Cost(),
            """
            toint8 toint16 toint32 toint64 touint8 touint16 touint32 touint64 tofloat32 tofloat64 toint32ornull toint64ornull
            touint64ornull tofloat64ornull toint32orzero toint64orzero tofloat64orzero
            """,
        ),
    ),
)
_ALIASES: Final = frozenset({"expressions", "where", "group", "having", "qualify", "order"})
# https://clickhouse.com/docs/engines/table-engines#table_engines-virtual_columns
_VIRTUAL: Final = words(
    """
    _block_number _block_offset _database _disk_name _distance _part _part_data_version _part_granule_offset _part_index _part_offset
    _part_starting_offset _part_uuid _partition_id _partition_value _row_exists _sample_factor _table
    """
)

DIALECT: Final = Dialect(
    name="clickhouse",
    engine="ClickHouse",
    functions=_FUNCTIONS,
    operators=table(OPERATORS),
    special_calls=words("cast extract trim substring interval"),
    grammar={
        "Extract": "this expression",
        "Substring": "this start length",
        "Trim": "this expression position",
        **dict.fromkeys(words("Lateral Unnest Values"), ""),  # functions of the same names, with other arguments
    },
    types=words("int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 string"),
    text_rewrite=_check_text,
    token_rewrites=tuple(TokenRewrite(kind, _select_from_set_operation) for kind in sorted(_SET_OPERATIONS, key=str)),
    tree_rewrites=(
        TreeRewrite((exp.In,), _refuse_named_sets, makes_nodes=False),
        TreeRewrite((exp.Alias,), _refuse_inner_aliases, makes_nodes=False),
    ),
    writers={exp.Identifier: _write_identifier, exp.Not: _write_not},
    default_schema="default",
    implicit_columns=_VIRTUAL,
    exact_names=True,
    alias_clauses=_ALIASES,
    alias_subquery_clauses=_ALIASES,
    later_ctes="always",
    later_ctes_hide=True,
    computed_limits=False,
    changes=False,
    read=_read,
    prepare=_prepare,
    rights=_rights,
    sandbox="toolgen.connectors.sql.execution.clickhouse",
    driver="chdb",
)
