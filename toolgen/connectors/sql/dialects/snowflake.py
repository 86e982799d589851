"""Snowflake."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from sqlglot import exp
from sqlglot.errors import UnsupportedError
from sqlglot.generator import Generator
from sqlglot.tokenizer_core import Token, TokenType

from toolgen.connectors.sql.dialects.costs import COMMON, OPERATORS, Cost, table
from toolgen.connectors.sql.dialects.record import Dialect, TokenRewrite, TreeRewrite, words
from toolgen.connectors.sql.guard.marks import RESERVED
from toolgen.connectors.sql.guard.refusal import refuse, shown

if TYPE_CHECKING:
    from toolgen.connectors.sql.execution.engine import Engine
    from toolgen.connectors.sql.execution.server_address import Reach
    from toolgen.connectors.sql.reading.schema import ReadSchema
    from toolgen.core.clock import Clock
    from toolgen.model.call import Statement
    from toolgen.model.database_rights import Rights
    from toolgen.model.database_url import ServerLocation

__all__ = ["DIALECT"]

# Parts of a text that Snowflake and the parser read alike. Snowflake has more: escapes with a backslash, texts between $$, `//` comments,
# `$name` of a session, `$1` of a file, `@stage`, `column:path`, `{…}` and `[…]` of semi-structured values, `->>` between statements.
# https://docs.snowflake.com/en/sql-reference/data-types-text#string-constants
# https://docs.snowflake.com/en/sql-reference/identifiers-syntax
_PARTS: Final = re.compile(
    r"""
    '(?:[^'\\]|'')*'
    | "[^"\\]*"(?!")
    | --[^\n]*
    | /\*(?:(?!/\*|\*/).)*\*/
    | (?<![\w")':]):(?=[A-Za-z_])
    | ::(?=\s*[A-Za-z])
    | [\w\s(),.;+*%=<>!|?]+
    | -(?![->]) | /(?![/*])
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_UNITS: Final = words("year quarter month week day hour minute second")
_UNIT_FIRST: Final = words("date_trunc dateadd datediff timestampadd timestampdiff")
_ADVICE: Final = {
    "$": "write texts in single quotes, and values as ? with parameters",
    "@": "name a table: stages and files are not read",
    ":": "read a whole column: paths into semi-structured values are not supported",
    "[": "read a whole column: lists and paths into semi-structured values are not supported",
    "{": "read a whole column: objects are not supported",
}


def _check_text(sql: str) -> str:
    """Return the text. Refuse one with a part that Snowflake and the parser could read differently."""
    place = 0
    while place < len(sql):
        found = _PARTS.match(sql, place)
        if found is None:
            _refuse_part(sql[place : place + 2])
        place = found.end()
    return sql


def _refuse_part(signs: str) -> NoReturn:
    if signs[0] in "'\"":
        refuse(
            "literal",
            "a quote is not closed, or something between quotes has another meaning in Snowflake",
            "quote texts with ' (doubled inside of one) and names with \", and write no backslash",
        )
    if signs[0] == "/":
        refuse("comment", "a comment is not closed, contains another one, or begins with //", "leave the comment out")
    refuse(
        "character",
        f"the statement contains {shown(signs[0])} outside of quotes",
        _ADVICE.get(signs[0], 'send standard SQL; quote names with letters beyond ASCII with "'),
    )


def _fold_names(root: exp.Expr) -> None:
    """Write each name that is not quoted in capital letters and quotes, as Snowflake reads it.

    https://docs.snowflake.com/en/sql-reference/identifiers-syntax#label-identifier-casing
    """
    for name in root.find_all(exp.Identifier):
        if not name.args.get("quoted") and not name.name.startswith(RESERVED):
            name.set("this", name.name.upper())
            name.set("quoted", True)


def _refuse_list_tests(root: exp.Expr) -> None:
    """Refuse `x = ANY (column)`: the values after ANY and ALL are a query, or a list of patterns after LIKE."""
    for test in root.find_all(exp.Any, exp.All):
        values = test.this.this if isinstance(test.this, exp.Paren) else test.this
        if not isinstance(values, (exp.Query, exp.Tuple, exp.Literal)):
            refuse("syntax", "ANY or ALL has no query", "write x IN (SELECT …)")


def _name_types(root: exp.Expr) -> None:
    """Write STRING and TEXT as VARCHAR, of which they are synonyms."""
    for kind in root.find_all(exp.DataType):
        if kind.this is exp.DType.TEXT:
            kind.set("this", exp.DType.VARCHAR)


def _quote_units(tokens: Sequence[Token]) -> Iterator[Token]:
    """Write the unit of `dateadd(day, …)` as a text. The parser reads a word there as a column.

    https://docs.snowflake.com/en/sql-reference/functions-date-time#supported-date-and-time-parts
    """
    for place, token in enumerate(tokens):
        word = token.text.lower()
        if (
            place > 1
            and word in _UNITS
            and token.token_type not in {TokenType.STRING, TokenType.IDENTIFIER}
            and tokens[place - 1].token_type is TokenType.L_PAREN
            and tokens[place - 2].text.lower() in _UNIT_FIRST
            and tokens[place + 1 : place + 2]
            and tokens[place + 1].token_type is TokenType.COMMA
        ):
            yield Token(TokenType.STRING, word, token.line, token.col, token.start, token.end, [])
        else:
            yield token


def _write_literal(generator: Generator, node: exp.Expr) -> str:
    """Write a text with doubled quotes, and with doubled backslashes, which begin an escape."""
    if not node.args.get("is_string"):
        return generator.literal_sql(node)  # type: ignore[arg-type]  # the dispatch gives a Literal
    text = str(node.this).replace("\\", "\\\\").replace("'", "''")
    return f"'{text}'"


def _write_identifier(generator: Generator, node: exp.Expr) -> str:
    """Write a name. One with a sign that ends or changes a quoted name is not written."""
    if any(sign in '"\\' for sign in node.name):
        raise UnsupportedError("a name contains a quote or a backslash")
    return generator.identifier_sql(node)  # type: ignore[arg-type]  # the dispatch gives an Identifier


def _read(location: ServerLocation, password: str) -> ReadSchema:
    from toolgen.connectors.sql.reading.snowflake import read_snowflake  # noqa: PLC0415 - at a build

    return read_snowflake(location, password)


def _prepare(
    location: ServerLocation, password: str, statements: Sequence[Statement]
) -> Iterator[str | tuple[str, ...]]:
    from toolgen.connectors.sql.reading.snowflake import prepare_snowflake  # noqa: PLC0415 - at a build

    return prepare_snowflake(location, password, statements)


def _rights(location: ServerLocation, password: str) -> Rights:
    from toolgen.connectors.sql.reading.snowflake import snowflake_rights  # noqa: PLC0415 - for a report

    return snowflake_rights(location, password)


def _open_engine(location: ServerLocation, reach: Reach, clock: Clock) -> Engine:
    from toolgen.connectors.sql.execution.snowflake import SnowflakeEngine  # noqa: PLC0415 - where there is such a source

    return SnowflakeEngine(location, reach, clock)


# https://docs.snowflake.com/en/sql-reference/functions-all, by their names in lower case
_FUNCTIONS: Final = table(
    COMMON,
    (
        (
            Cost(),
            """
            approx_count_distinct charindex contains corr count_if covar_pop covar_samp datediff dayname dayofmonth dayofweek
            dayofweekiso dayofyear editdistance endswith grouping hour jarowinkler_similarity median minute month monthname
            months_between position quarter ratio_to_report second skew square startswith stddev stddev_pop stddev_samp
            timestampdiff var_pop var_samp variance week weekiso weekofyear width_bucket year yearofweek yearofweekiso
            zeroifnull
            """,
        ),
        (
            Cost(result="one", work=1),
            "any_value decode div0 div0null greatest iff ifnull least max_by min_by nullifzero nvl nvl2 regr_slope",
        ),
        (
            Cost(),
            """
            add_months boolor_agg booland_agg current_date current_timestamp dateadd date_trunc last_day next_day
            previous_day timestampadd to_boolean to_date to_decimal to_double to_number to_numeric to_time to_timestamp
            to_timestamp_ntz try_to_boolean try_to_date try_to_decimal try_to_double try_to_number try_to_numeric
            try_to_time try_to_timestamp try_to_timestamp_ntz
            """,
        ),
        (Cost(result="sum"), "initcap left reverse right split_part to_char to_varchar translate"),
        (Cost(result="gather", work=0), "listagg"),
    ),
)
_ALIASES: Final = frozenset({"group", "order", "having", "qualify"})

DIALECT: Final = Dialect(
    name="snowflake",
    engine="Snowflake",
    functions=_FUNCTIONS,
    operators=table(OPERATORS),
    special_calls=words("cast extract trim substring try_cast"),
    grammar={
        "Extract": "this expression",
        "Substring": "this start length",
        "Trim": "this expression position",
        "WithinGroup": "this expression",
        **dict.fromkeys(words("All Any"), "this"),  # the parser writes `NOT IN (SELECT …)` as `<> ALL (SELECT …)`
        **dict.fromkeys(words("Lateral Unnest Values"), ""),  # functions of the same names, with other arguments
    },
    types=words("string"),
    text_rewrite=_check_text,
    token_rewrites=tuple(TokenRewrite(name.upper(), _quote_units) for name in sorted(_UNIT_FIRST)),
    tree_rewrites=(
        TreeRewrite((exp.Identifier,), _fold_names, makes_nodes=False),
        TreeRewrite((exp.DataType,), _name_types, makes_nodes=False),
        TreeRewrite((exp.Any, exp.All), _refuse_list_tests, makes_nodes=False),
    ),
    writers={exp.Identifier: _write_identifier, exp.Literal: _write_literal},
    default_schema="PUBLIC",
    exact_names=True,
    alias_clauses=_ALIASES,
    values_columns=("COLUMN", 1),
    computed_limits=False,
    changes=False,
    read=_read,
    prepare=_prepare,
    rights=_rights,
    explain="EXPLAIN USING TEXT ",
    open_engine=_open_engine,
)
