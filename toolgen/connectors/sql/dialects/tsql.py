"""SQL Server (T-SQL)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NoReturn

from sqlglot import exp
from sqlglot.errors import UnsupportedError
from sqlglot.generator import Generator
from sqlglot.tokenizer_core import Token, TokenType

from toolgen.connectors.sql.dialects.record import (
    AccountStatements,
    Dialect,
    RowEstimate,
    TokenRewrite,
    TreeRewrite,
    words,
)
from toolgen.connectors.sql.dialects.tsql_costs import TSQL_FUNCTIONS, TSQL_OPERATORS
from toolgen.connectors.sql.guard.marks import CALL, RESERVED
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

# Parts of a text that both parsers read alike. Not among them: variables and globals (`@a`, `@@a`), temporary tables (`#t`), money and
# pseudocolumns (`$1`, `$identity`), methods of types (`a::b()`), escapes of ODBC (`{fn a()}`), bit operators, whose precedence differs,
# names with letters beyond ASCII, which some collations compare without accents and width, and a backslash before the end of a line in a
# text, which joins both lines.
# https://learn.microsoft.com/en-us/sql/t-sql/data-types/constants-transact-sql
# https://learn.microsoft.com/en-us/sql/t-sql/language-elements/operator-precedence-transact-sql
_PARTS: Final = re.compile(
    r"""
    (?P<text>(?P<national>(?<![A-Za-z0-9_\])"'])[Nn])?'(?:[^'\\]|''|\\(?![\r\n]))*'(?!'))
    | \[[^\[\]"'\\`\x00-\x1f\x7f-\U0010ffff]+\](?!\])
    | "[^"\[\]'\\`\x00-\x1f\x7f-\U0010ffff]+"(?!")
    | --[^\r\n]*(?=\r?\n|\Z)
    | /\*(?:(?!/\*|\*/).)*\*/
    | [A-Za-z0-9_]+
    | \r\n | [ \t\n]
    | !=
    | [(),.;+*%=<>?]
    | :(?=[A-Za-z0-9_])(?<!::)
    | -(?!-) | /(?!\*)
    """,
    re.VERBOSE | re.DOTALL,
)


_SEPARATOR: Final = re.compile(r"\A[ \t\r\n]*;(?=[ \t\r\n]*with\b)", re.IGNORECASE)  # `;WITH`, a habit


def _check_text(sql: str) -> str:
    """Return the text, in which texts beyond ASCII are national ones: others lose characters that the server's code page lacks.

    Refuse a text with a part that the parser and the engine could read differently.
    """
    sql = _SEPARATOR.sub("", sql)
    parts: list[str] = []
    place = 0
    while place < len(sql):
        found = _PARTS.match(sql, place)
        if found is None:
            _refuse_part(sql, place)
        part = found[0]
        parts.append(f"N{part}" if found["text"] and not found["national"] and not part.isascii() else part)
        place = found.end()
    return "".join(parts)


_SIGNS: Final = {
    "@": "variables of T-SQL are not supported: write ? for each parameter, and leave @@ out",
    "#": "temporary tables are not supported: keep intermediate results in WITH … AS (…)",
    "$": "write the name of the column, and numbers without a sign of money",
    "{": "write the function or the text without braces",
    ":": "methods of types are not supported: name the column",
    "|": "write + or CONCAT(a, b) to join texts",
    "!": "write NOT, <>, <= or >=",
}


def _refuse_part(sql: str, place: int) -> NoReturn:
    sign = sql[place]
    if sign in "'\"[]":
        refuse(
            "literal",
            "a quote is not closed, or something between quotes has another meaning in SQL Server",
            "quote texts with ' (doubled inside of one) and names of ASCII letters with [ and ]",
        )
    if sign in "/-":
        refuse("comment", "a comment is not closed, or contains another one", "leave the comment out")
    refuse(
        "character",
        f"the statement contains {shown(sign)} outside of quotes",
        _SIGNS.get(sign, "send standard SQL; names with letters beyond ASCII are not supported"),
    )


# Reserved words that begin a statement. In a query they could begin the next one, because statements need no semicolon between them.
# https://learn.microsoft.com/en-us/sql/t-sql/language-elements/reserved-keywords-transact-sql
_BEGINNINGS: Final = words(
    """
    ALTER BACKUP BEGIN BREAK BULK CHECKPOINT CLOSE COMMIT CONTINUE CREATE DBCC DEALLOCATE DECLARE DELETE DENY DROP DUMP EXEC EXECUTE GO GOTO
    GRANT IF INSERT KILL LOAD MERGE OPEN PRINT RAISERROR READTEXT RECONFIGURE RESTORE RETURN REVERT REVOKE ROLLBACK SAVE SET SHUTDOWN
    THROW TRUNCATE UPDATE UPDATETEXT USE WAITFOR WHILE WRITETEXT
    """
)
_QUOTED: Final = frozenset({TokenType.STRING, TokenType.NATIONAL_STRING, TokenType.IDENTIFIER})


def _refuse_beginnings(tokens: Sequence[Token]) -> Sequence[Token]:
    """Refuse a word that begins a statement."""
    for token in tokens:
        if token.text.upper() in _BEGINNINGS and token.token_type not in _QUOTED:
            refuse(
                "one-statement",
                f"{shown(token.text.upper())} would begin another statement",
                "send one SELECT, and write a name with [ and ]",
            )
    return tokens


_SET_OPERATIONS: Final = frozenset({TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT})


def _select_from_set_operation(tokens: Sequence[Token]) -> Iterator[Token]:
    """Rewrite `a UNION b ORDER BY c` as `SELECT * FROM (a UNION b) AS answer ORDER BY c`, because only a SELECT has a TOP."""
    first = _first_query(tokens)
    depth = 0
    found = False
    end = len(tokens)
    for place in range(first, len(tokens)):
        kind = tokens[place].token_type
        depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
        found = found or (not depth and kind in _SET_OPERATIONS)
        if not depth and found and kind is TokenType.ORDER_BY:
            end = place
            break
    if not found:
        yield from tokens
        return
    yield from tokens[:first]
    start, last = tokens[first], tokens[end - 1]
    yield _sign(start, TokenType.SELECT, "SELECT")
    yield _sign(start, TokenType.STAR, "*")
    yield _sign(start, TokenType.FROM, "FROM")
    yield _sign(start, TokenType.L_PAREN, "(")
    yield from tokens[first:end]
    yield _sign(last, TokenType.R_PAREN, ")")
    yield _sign(last, TokenType.ALIAS, "AS")
    yield _sign(last, TokenType.VAR, "answer")
    yield from tokens[end:]


def _first_query(tokens: Sequence[Token]) -> int:
    """Return the position of the query after `WITH a AS (…), b AS (…)`; 0 without WITH."""
    if not tokens or tokens[0].token_type is not TokenType.WITH:
        return 0
    depth = 0
    for place, (token, following) in enumerate(pairwise(tokens)):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        closes = not depth and token.token_type is TokenType.R_PAREN
        if closes and following.token_type not in {TokenType.COMMA, TokenType.ALIAS}:
            return place + 1
    return 0


def _sign(place: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, place.line, place.col, place.start, place.end, [])


# https://learn.microsoft.com/en-us/sql/t-sql/functions/datepart-transact-sql#datepart-argument
_DATE_PARTS: Final = words(
    """
    year yy yyyy quarter qq q month mm m dayofyear dy y day dd d week wk ww weekday dw hour hh minute mi n second ss s millisecond ms
    microsecond mcs nanosecond ns iso_week isowk isoww tzoffset tz
    """
)
_WITH_DATE_PART: Final = words("dateadd datediff datediff_big datename datepart datetrunc date_bucket")


def _name_date_parts(root: exp.Expr) -> None:
    """Read the first argument of DATEADD and its kind as a word, because a column cannot be there."""
    for call in root.find_all(exp.Anonymous):
        name = call.name.removeprefix(CALL).lower()
        if name not in _WITH_DATE_PART or not call.expressions:
            continue
        part = call.expressions[0]
        bare = isinstance(part, exp.Column) and not part.args.get("table") and not part.this.args.get("quoted")
        word = part.name.lower() if bare or isinstance(part, exp.Var) else ""
        if word not in _DATE_PARTS:
            refuse("literal", f"the first argument of {name} is not a part of a date", f"write {name}(month, …)")
        part.replace(exp.Var(this=word))


_COLLATION: Final = re.compile(
    r"DATABASE_DEFAULT|[A-Za-z0-9]+(?:_[A-Za-z0-9]+)*_(?:CI|CS|BIN2?)(?:_[A-Za-z0-9]+)*", re.IGNORECASE
)


def _check_collations(root: exp.Expr) -> None:
    """Refuse COLLATE with another word than a collation, because it is written without brackets."""
    for node in root.find_all(exp.Collate):
        if not isinstance(node.expression, exp.Var) or not _COLLATION.fullmatch(node.expression.name):
            refuse("literal", "COLLATE is not followed by a collation", "write COLLATE Latin1_General_CI_AS")


def _count_rows(root: exp.Expr) -> None:
    """Rewrite `COUNT_BIG(*)` as `COUNT_BIG(1)`: every other function would get columns for its star."""
    for call in root.find_all(exp.Anonymous):
        if call.name.lower() == f"{CALL}count_big" and len(call.expressions) == 1 and call.expressions[0].is_star:
            call.set("expressions", [exp.Literal.number(1)])


def _quote_names(root: exp.Expr) -> None:
    """Quote every name, so that none is a word of the engine: without semicolons, a word can begin another statement."""
    for name in root.find_all(exp.Identifier):
        if not name.name.lower().startswith(RESERVED):
            name.set("quoted", True)


def _limit_fetched(root: exp.Expr) -> None:
    """Rewrite `FETCH NEXT 3 ROWS ONLY` as the limit that it is. The generator writes it after OFFSET, and TOP elsewhere."""
    for fetch in list(root.find_all(exp.Fetch)):
        options = fetch.args.get("limit_options")
        if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
            refuse("limit", "FETCH has PERCENT or WITH TIES", "write FETCH NEXT and a number")
        count = fetch.args.get("count") or exp.Literal.number(1)
        fetch.replace(exp.Limit(expression=exp.Column(this=count) if isinstance(count, exp.Identifier) else count))


def _cast_conversions(root: exp.Expr) -> None:
    """Rewrite `CONVERT(date, x)` as `CAST(x AS date)`; one with a style stays."""
    for call in list(root.find_all(exp.Convert)):
        style = call.args.get("style")
        if call.args.get("safe"):
            refuse("function", "the function TRY_CONVERT is not available", "write TRY_CAST(x AS type)")
        if style is None:
            call.replace(exp.Cast(this=call.expression, to=call.this))
        elif not (isinstance(style, exp.Literal) and not style.is_string and style.name.isdigit()):
            refuse("literal", "the style of CONVERT is not a literal number", "write CONVERT(varchar(10), x, 120)")


_MAX_FORMAT: Final = 60


def _check_formats(root: exp.Expr) -> None:
    """Refuse a computed format of FORMAT, because it decides the length of the text."""
    for call in root.find_all(exp.Anonymous):
        if call.name.removeprefix(CALL).lower() != "format" or len(call.expressions) < 2:
            continue
        template = call.expressions[1]
        text = template.name if isinstance(template, (exp.Literal, exp.National)) else None
        if text is None or len(text) > _MAX_FORMAT or any(len(digits) > 2 for digits in re.findall("[0-9]+", text)):
            refuse("size", "the format of FORMAT is not a short literal", "write FORMAT(x, 'yyyy-MM')")


def _refuse_forms(root: exp.Expr) -> None:
    """Refuse forms that the engine reads differently: `SELECT 'a' = b` names a column, and WITH belongs to the beginning of a statement.

    https://learn.microsoft.com/en-us/sql/t-sql/queries/select-clause-transact-sql
    """
    for select in root.find_all(exp.Select):
        if any(isinstance(item, exp.Predicate) for item in select.expressions):
            refuse(
                "syntax",
                "a condition is selected, which SQL Server does not do",
                "write CASE WHEN … THEN 1 ELSE 0 END AS name",
            )
    if isinstance(root, exp.Subquery) and root.args.get("order") is not None:
        refuse("syntax", "ORDER BY follows a query in parentheses", "leave the parentheses out")
    for clause in root.find_all(exp.With):
        if clause.parent is not root:
            refuse("syntax", "WITH is used inside of a query", "write WITH at the beginning of the statement")


def _write_select(generator: Generator, node: exp.Expr) -> str:
    """Write a SELECT as it was read, and TOP with parentheses: `TOP 5 -id` is also a difference.

    sqlglot would name the columns of subqueries, and rewrite clauses that the grammar refuses.
    """
    limit = node.args.get("limit")
    if isinstance(limit, exp.Limit) and limit.expression.is_number and node.args.get("offset") is None:
        limit.set("expression", exp.Var(this=limit.expression.name))
    return generator.select_sql(node)  # type: ignore[arg-type]  # the dispatch gives a Select


def _write_subquery(generator: Generator, node: exp.Expr) -> str:
    return generator.subquery_sql(node)  # type: ignore[arg-type]  # the dispatch gives a Subquery


def _write_cte(generator: Generator, node: exp.Expr) -> str:
    return generator.cte_sql(node)  # type: ignore[arg-type]  # the dispatch gives a CTE


def _write_identifier(generator: Generator, node: exp.Expr) -> str:
    """Write each name in brackets. One with a sign that ends or changes a quoted name is not written."""
    if any(sign in "[]\"'\\" for sign in node.name):
        raise UnsupportedError("a name contains a bracket, a quote or a backslash")
    return generator.identifier_sql(node)  # type: ignore[arg-type]  # the dispatch gives an Identifier


_HINTS: Final = (
    (["LIMIT"], "write SELECT TOP 10, or ORDER BY x OFFSET 0 ROWS FETCH NEXT 10 ROWS ONLY"),
    (["APPLY"], "join a subquery with ON, or number the rows with ROW_NUMBER() OVER (PARTITION BY …)"),
    (["FOR", "XML"], "leave FOR XML out: the rows are answered as JSON"),
    (["FOR", "JSON"], "leave FOR JSON out: the rows are answered as JSON"),
    (["OPTION"], "leave OPTION out"),
    (["SYSTEM_TIME"], "leave FOR SYSTEM_TIME out: rows are read as they are now"),
)


def _hint(found: Sequence[str]) -> str:
    for clause, advice in _HINTS:
        if any(found[place : place + len(clause)] == clause for place in range(len(found))):
            return advice
    if found.count("SELECT") > 1 and "UNION" not in found:
        return "send one SELECT; put parentheses around a subquery"
    return ""


def _read(location: ServerLocation, password: str) -> ReadSchema:
    from toolgen.connectors.sql.reading.tsql import read_tsql  # noqa: PLC0415 - behind an extra

    return read_tsql(location, password)


def _prepare(
    location: ServerLocation, password: str, statements: Sequence[Statement]
) -> Iterator[str | tuple[str, ...]]:
    from toolgen.connectors.sql.reading.tsql import prepare_tsql  # noqa: PLC0415 - behind an extra

    return prepare_tsql(location, password, statements)


def _rights(location: ServerLocation, password: str) -> Rights:
    from toolgen.connectors.sql.reading.tsql_rights import tsql_rights  # noqa: PLC0415 - behind an extra

    return tsql_rights(location, password)


def _open_engine(location: ServerLocation, reach: Reach, clock: Clock) -> Engine:
    from toolgen.connectors.sql.execution.tsql import TsqlEngine  # noqa: PLC0415 - behind an extra

    return TsqlEngine(location, reach, clock)


_ESTIMATE: Final = (
    "SELECT CAST(SUM(p.rows) AS bigint) FROM sys.partitions AS p WHERE p.index_id IN (0, 1)"
    " AND p.object_id = OBJECT_ID(QUOTENAME(@P1) + N'.' + QUOTENAME(@P2), N'U')"
)

DIALECT: Final = Dialect(
    name="tsql",
    engine="SQL Server",
    functions=TSQL_FUNCTIONS,
    operators=TSQL_OPERATORS,
    special_calls=words("cast try_cast convert try_convert"),
    format_takes_template=False,
    padded_types=frozenset({exp.DType.BINARY, exp.DType.CHAR, exp.DType.NCHAR}),
    estimate=RowEstimate(_ESTIMATE, lambda schema, table: (schema or "dbo", table)),
    grammar={
        **dict.fromkeys(words("GroupingSets Cube Rollup"), "expressions"),
        "AtTimeZone": "this zone",
        "Distinct": "expressions",
        "Convert": "this expression style",
        "National": "this",
        "WithinGroup": "this expression",
        **dict.fromkeys(
            words("Glob ILike Qualify Interval Lateral Unnest Values Xor DPipe Boolean HexString BitString"), ""
        ),
    },
    join_methods=frozenset(),
    text_rewrite=_check_text,
    token_rewrites=(
        *(TokenRewrite(word, _refuse_beginnings) for word in sorted(_BEGINNINGS)),
        *(TokenRewrite(kind, _select_from_set_operation) for kind in sorted(_SET_OPERATIONS, key=str)),
    ),
    tree_rewrites=(
        TreeRewrite((exp.Fetch,), _limit_fetched),
        TreeRewrite((exp.Convert,), _cast_conversions),
        TreeRewrite((exp.Collate,), _check_collations, makes_nodes=False),
        TreeRewrite((exp.Anonymous,), _count_rows, makes_nodes=False),
        TreeRewrite((exp.Anonymous,), _name_date_parts, makes_nodes=False),
        TreeRewrite((exp.Anonymous,), _check_formats, makes_nodes=False),
        TreeRewrite((exp.Select,), _refuse_forms, makes_nodes=False),
        TreeRewrite((exp.Identifier,), _quote_names, makes_nodes=False),
    ),
    writers={
        exp.CTE: _write_cte,
        exp.Identifier: _write_identifier,
        exp.Select: _write_select,
        exp.Subquery: _write_subquery,
    },
    hint=_hint,
    default_schema="dbo",
    niladic=words("current_timestamp current_user session_user system_user user"),
    folds_tables=True,
    max_alias_length=128,
    bare_aliases=True,
    implicit_recursion=True,
    number_mark="@P",
    nulls_first=True,
    orders_once=True,
    fence=("limit", 2**62),
    unsorted_types=True,
    computed_limits=False,
    changes=False,
    read=_read,
    prepare=_prepare,
    rights=_rights,
    accounts=AccountStatements(
        make=lambda account, _database, _schemas, _writes, _sessions: [
            f"CREATE LOGIN {account} WITH PASSWORD = '…'",
            f"CREATE USER {account} FOR LOGIN {account}",
        ],
        bound=lambda _what, _account, _sessions: "the server bounds sessions with the Resource Governor",
        rights=str,
        password_hint=lambda account: f"ALTER LOGIN {account} WITH PASSWORD = '…'",
        memory_hint=lambda _account: "a workload group of the Resource Governor bounds memory and processor time",
        rows="a view or row-level security",
    ),
    explain=None,  # SET SHOWPLAN_ALL changes the session
    open_engine=_open_engine,
)
