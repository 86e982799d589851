"""DuckDB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from toolgen.connectors.sql.dialects.call_rewrites import (
    enclose_ordered_arrows,
    rename_list_functions,
    separate_by_commas,
)
from toolgen.connectors.sql.dialects.computed_counts import SMALL_COUNTS, bound_counts
from toolgen.connectors.sql.dialects.dollar_signs import separate_parameters
from toolgen.connectors.sql.dialects.duckdb_columns import unpack_columns
from toolgen.connectors.sql.dialects.duckdb_costs import DUCKDB_FUNCTIONS, DUCKDB_OPERATORS
from toolgen.connectors.sql.dialects.duckdb_pivots import PIVOTED, rewrite_pivots
from toolgen.connectors.sql.dialects.duckdb_series import bound_series
from toolgen.connectors.sql.dialects.equivalents import DUCKDB_EQUIVALENTS
from toolgen.connectors.sql.dialects.factorial_signs import call_factorials
from toolgen.connectors.sql.dialects.record import Dialect, RowEstimate, TokenRewrite, TreeRewrite, words
from toolgen.connectors.sql.dialects.reserved_names import quote_reserved_names, reserved_names
from toolgen.connectors.sql.dialects.token_rewrites import (
    enclose_interval_values,
    enclose_limits,
    enclose_typed_texts,
)
from toolgen.connectors.sql.dialects.value_rows import select_from_values
from toolgen.connectors.sql.dialects.whole_rows import is_source, select_rows
from toolgen.connectors.sql.dialects.writers import (
    operator,
    word,
    write_absolute,
    write_extract,
    write_ignore_nulls,
    write_position,
    write_power,
    write_varchar,
    write_within_group,
)
from toolgen.connectors.sql.guard.marks import CALL

if TYPE_CHECKING:
    from toolgen.connectors.sql.reading.schema import ReadSchema
    from toolgen.model.call import Statement
    from toolgen.model.database_url import FileLocation

__all__ = ["DIALECT", "SUMMARY_COLUMNS", "is_variable"]

# https://duckdb.org/docs/stable/sql/data_types/interval
_SINGULAR: Final = words(
    "YEAR MONTH DAY HOUR MINUTE SECOND WEEK QUARTER DECADE CENTURY MILLENNIUM MILLISECOND MICROSECOND"
)
_UNITS: Final = _SINGULAR | {f"{unit}S" for unit in _SINGULAR} | {"CENTURIES", "MILLENNIA"}

_JSON_EACH: Final = ("key", "value", "type", "atom", "id", "parent", "fullkey", "path")
# https://duckdb.org/docs/stable/guides/meta/summarize
SUMMARY_COLUMNS: Final = (
    *("column_name", "column_type", "min", "max", "approx_unique", "avg", "std", "q25", "q50", "q75", "count"),
    "null_percentage",
)
_STATEMENTS: Final = frozenset({TokenType.PIVOT, TokenType.UNPIVOT, TokenType.SUMMARIZE})
_AFTER_A_STATEMENT: Final = frozenset({TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET})
_NAMES: Final = frozenset({TokenType.VAR, TokenType.IDENTIFIER})


def _select_from_statement(tokens: Sequence[Token]) -> Iterator[Token]:
    """Rewrite `PIVOT t … ORDER BY x` as `SELECT * FROM (PIVOT t …) ORDER BY x`, and likewise UNPIVOT and SUMMARIZE, with or without
    WITH.
    """
    begin = _statement_place(tokens)
    first = tokens[begin]
    if first.token_type not in _STATEMENTS:
        yield from tokens
        return
    end = len(tokens) if first.token_type is TokenType.SUMMARIZE else _statement_end(tokens, begin)
    yield from tokens[:begin]
    yield from _select_all(first)
    yield _like(first, TokenType.L_PAREN, "(")
    yield from tokens[begin:end]
    yield _like(tokens[end - 1], TokenType.R_PAREN, ")")
    yield from tokens[end:]


def _statement_place(tokens: Sequence[Token]) -> int:
    """Return the start of the statement: after the common table expressions, if there are any."""
    if tokens[0].token_type is not TokenType.WITH:
        return 0
    depth = 0
    for place, token in enumerate(tokens):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        follows = place > 0 and tokens[place - 1].token_type is TokenType.R_PAREN
        if depth == 0 and follows and token.token_type in _STATEMENTS:
            return place
    return 0


def _statement_end(tokens: Sequence[Token], begin: int) -> int:
    end, depth = begin, 0
    while end < len(tokens) and not (depth == 0 and tokens[end].token_type in _AFTER_A_STATEMENT):
        depth += (tokens[end].token_type is TokenType.L_PAREN) - (tokens[end].token_type is TokenType.R_PAREN)
        end += 1
    return end


def _summarize_queries(tokens: Sequence[Token]) -> Iterator[Token]:
    """Rewrite `SUMMARIZE t` as `SUMMARIZE SELECT * FROM t`."""
    for index, token in enumerate(tokens):
        yield token
        following = tokens[index + 1] if index + 1 < len(tokens) else None
        if token.token_type is TokenType.SUMMARIZE and following is not None and following.token_type in _NAMES:
            yield from _select_all(following)


def _select_all(token: Token) -> Iterator[Token]:
    for kind, text in ((TokenType.SELECT, "SELECT"), (TokenType.STAR, "*"), (TokenType.FROM, "FROM")):
        yield _like(token, kind, text)


def _like(token: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, token.line, token.col, token.start, token.end, [])


def _column_arguments(root: exp.Expr) -> None:
    """Convert names in `f(name).g()` and `[name].g()` to columns, and variables of lambdas to bare names, as the parser does elsewhere."""
    for call in root.find_all(exp.Anonymous, exp.Array):
        for argument in list(call.expressions):
            if isinstance(argument, exp.Identifier) and not is_variable(argument):
                argument.replace(exp.Column(this=argument.copy()))
    for function in root.find_all(exp.Lambda):
        for column in list(function.this.find_all(exp.Column)):
            if len(column.parts) == 1 and is_variable(column):
                if column is function.this:
                    function.set("this", column.this.copy())
                else:
                    column.replace(column.this.copy())


def _extract_fields(root: exp.Expr) -> None:
    """Rewrite `x.field` of a lambda's variable as `struct_extract(x, 'field')`.

    If a dot follows, DuckDB prefers a table or a column with the name x to the variable.
    """
    for dot in reversed(list(root.find_all(exp.Dot))):
        fields: list[exp.Expr] = []
        value: exp.Expr = dot
        while isinstance(value, exp.Dot) and isinstance(value.expression, exp.Identifier):
            fields.append(value.expression)
            value = value.this
        around = dot.parent
        is_part = isinstance(around, exp.Dot) and isinstance(around.expression, exp.Identifier)
        if is_part or not (isinstance(value, exp.Identifier) and is_variable(value)):
            continue
        made: exp.Expr = value.copy()
        for name in reversed(fields):
            made = exp.Anonymous(this=f"{CALL}struct_extract", expressions=[made, exp.Literal.string(name.name)])
        dot.replace(made)


def is_variable(name: exp.Expr) -> bool:
    """Return True for a variable of an enclosing lambda, which the parser leaves as a bare name."""
    function = name.find_ancestor(exp.Lambda)
    while function is not None:
        if any(variable.name == name.name for variable in function.expressions):
            return True
        function = function.find_ancestor(exp.Lambda)
    return False


_QUALIFIERS: Final = {
    exp.CurrentCatalog: "current_catalog",
    exp.CurrentDate: "current_date",
    exp.CurrentRole: "current_role",
    exp.CurrentSchema: "current_schema",
    exp.CurrentTime: "current_time",
    exp.CurrentTimestamp: "current_timestamp",
    exp.CurrentUser: "current_user",
    exp.Localtime: "localtime",
    exp.Localtimestamp: "localtimestamp",
    exp.SessionUser: "session_user",
}


def _qualify_by_names(root: exp.Expr) -> None:
    """Read `current_date.x` as the column x of a table called current_date: a function without parentheses has no fields."""
    for dot in list(root.find_all(exp.Dot)):
        name = _QUALIFIERS.get(type(dot.this), "")
        if name and isinstance(dot.expression, exp.Identifier) and not any(dot.this.args.values()):
            table = exp.to_identifier(name, quoted=True)
            dot.replace(exp.Column(this=dot.expression.copy(), table=table))


def _join_in_selects(root: exp.Expr) -> None:
    """Move the joins of `FROM a JOIN b SELECT …` to the SELECT, where the parser puts those of `SELECT … FROM a JOIN b`."""
    for source in root.find_all(exp.From):
        joins, query = source.this.args.get("joins"), source.parent
        if joins and isinstance(query, exp.Select):
            source.this.set("joins", None)
            query.set("joins", [*joins, *(query.args.get("joins") or [])])


def _number_order(root: exp.Expr) -> None:
    """Rewrite `ORDER BY #2` as `ORDER BY 2`, the position in the SELECT list. Elsewhere `#2` is a position in FROM, hidden columns
    included.
    """
    for place in list(root.find_all(exp.PositionalColumn)):
        order = place.parent.parent if isinstance(place.parent, exp.Ordered) else None
        if isinstance(order, exp.Order) and isinstance(order.parent, (exp.Query, exp.Subquery)):
            place.replace(place.this.copy())


def _unnest_structs(root: exp.Expr) -> None:
    """Rewrite `s.*` as `unnest(s)` if s is a struct and not a table of the query."""
    for column in list(root.find_all(exp.Column)):
        select, star = column.parent, column.this
        if not isinstance(star, exp.Star) or not isinstance(select, exp.Select) or len(column.parts) != 2:
            continue
        struct = column.args["table"]
        if not any(star.args.values()) and not is_source(column, struct.name):
            column.replace(exp.Anonymous(this=f"{CALL}unnest", expressions=[exp.Column(this=struct.copy())]))


def _contain(root: exp.Expr) -> None:
    """Rewrite `x IN listed` without parentheses as `contains(listed, x)`: an element of a list, a key of a map, a part of a text."""
    for test in list(root.find_all(exp.In)):
        if (holder := test.args.get("field")) is not None:
            test.replace(exp.Anonymous(this=f"{CALL}contains", expressions=[holder.copy(), test.this.copy()]))


def _limit_fetched_rows(root: exp.Expr) -> None:
    """Rewrite `FETCH FIRST 3 ROWS ONLY` as `LIMIT 3`, and without a number as `LIMIT 1`."""
    for fetch in list(root.find_all(exp.Fetch)):
        options = fetch.args.get("limit_options")
        if options is None or not (options.args.get("percent") or options.args.get("with_ties")):
            count = fetch.args.get("count") or exp.Literal.number(1)
            fetch.replace(exp.Limit(expression=count.copy()))


def _hint(words: Sequence[str]) -> str:
    if "@" not in words and ("PIVOT" in words or "UNPIVOT" in words):
        return PIVOTED
    if "@" not in words and words[:2] == ["WITH", "RECURSIVE"] and "KEY" in words:
        return "write WITH RECURSIVE without USING KEY, and keep the last row of each key with QUALIFY row_number() OVER (…) = 1"
    return ""


_GRAMMAR: Final = {
    **dict.fromkeys(words("RegexpLike RegexpILike StartsWith RegexpFullMatch SimilarTo Extract"), "this expression"),
    **dict.fromkeys(
        words("PropertyEQ Pow ArrayContainsAll ArrayContainedBy ArrayOverlaps WithinGroup Dot"), "this expression"
    ),
    **dict.fromkeys(words("Abs Any All ToMap Summarize"), "this"),
    **dict.fromkeys(words("Struct List"), "expressions"),
    **dict.fromkeys(words("Parameter Localtime Localtimestamp"), ""),
    "Array": "expressions bracket_notation value_constructor",
    "Bracket": "this expressions offset safe returns_list_for_maps",
    "AtTimeZone": "this zone",
    "Substring": "this start length",
    "Trim": "this expression position",
    "StrPosition": "this substr",
    "Map": "keys values",
    "Lambda": "this expressions colon",
    "Comprehension": "this expression position iterator condition",
    "ColumnDef": "this kind",
    "Explode": "this expressions",
    "Star": "+ replace rename ilike",
    "Column": "+ catalog",
    "Select": "+ sample",
    "Table": "+ sample",
    "TableSample": "method percent size seed",
    "DataType": "+ values",
    "Limit": "+ limit_options",
    "LimitOptions": "percent",
    "Slice": "this expression step",
}


def _read(location: FileLocation, _password: str) -> ReadSchema:
    from toolgen.connectors.sql.reading.duckdb import read_duckdb  # noqa: PLC0415 - at a build

    return read_duckdb(location.path)


def _prepare(
    location: FileLocation, _password: str, statements: Sequence[Statement]
) -> Iterator[str | tuple[str, ...]]:
    from toolgen.connectors.sql.reading.duckdb import prepare_duckdb  # noqa: PLC0415 - at a build

    return prepare_duckdb(location.path, statements)


DIALECT: Final = Dialect(
    name="duckdb",
    engine="DuckDB",
    functions=DUCKDB_FUNCTIONS,
    operators=DUCKDB_OPERATORS,
    max_row_memory=10e6,  # the engine processes many rows at once
    table_functions={
        "generate_series": ("generate_series",),
        "range": ("range",),
        "unnest": ("unnest",),
        "json_each": _JSON_EACH,
        "json_tree": _JSON_EACH,
    },
    special_calls=words("cast try_cast extract position trim substring unnest interval"),
    equivalents=DUCKDB_EQUIVALENTS,
    estimate=RowEstimate(
        "SELECT estimated_size FROM duckdb_tables() "
        "WHERE database_name = current_database() AND schema_name = ? AND table_name = ?",
        lambda schema, table: (schema or "main", table),
    ),
    grammar=_GRAMMAR,
    spellings=frozenset(
        {
            "absolutes",
            "dotted_calls",
            "excluded_names",
            "factorial_signs",
            "interval_texts",
            "nulls_inside",
            "sample_methods",
            "table_queries",
        }
    ),
    interval_units=_UNITS,
    query_starts=frozenset({TokenType.TABLE, TokenType.FROM, TokenType.PIVOT, TokenType.UNPIVOT, TokenType.SUMMARIZE}),
    join_methods=frozenset({"NATURAL", "ASOF", "POSITIONAL"}),
    comprehensions=True,
    lambdas=True,
    text_rewrite=separate_parameters,
    token_rewrites=(
        TokenRewrite(TokenType.INTERVAL, partial(enclose_interval_values, units=_UNITS)),
        TokenRewrite(TokenType.MOD, enclose_limits),
        TokenRewrite(TokenType.DCOLON, enclose_typed_texts),
        TokenRewrite(TokenType.SUMMARIZE, _summarize_queries),
        TokenRewrite(TokenType.VALUES, select_from_values),
        TokenRewrite(TokenType.ARROW, enclose_ordered_arrows),
        TokenRewrite("COLUMNS", unpack_columns),
        TokenRewrite("!", call_factorials),
        TokenRewrite("PLACING", partial(separate_by_commas, function="OVERLAY", words=("PLACING", "FROM", "FOR"))),
        *(TokenRewrite(name, rename_list_functions) for name in ("APPLY", "FILTER")),
        *(
            TokenRewrite(kind, _select_from_statement)
            for kind in (TokenType.PIVOT, TokenType.UNPIVOT, TokenType.SUMMARIZE)
        ),
    ),
    tree_rewrites=(
        TreeRewrite((exp.Join,), _join_in_selects, makes_nodes=False),
        TreeRewrite((exp.Dot,), _column_arguments),
        TreeRewrite((exp.Dot,), _extract_fields),
        TreeRewrite((exp.Dot,), _qualify_by_names),
        TreeRewrite((exp.In,), _contain),
        TreeRewrite((exp.Fetch,), _limit_fetched_rows),
        TreeRewrite((exp.Pivot,), rewrite_pivots),
        TreeRewrite((exp.PositionalColumn,), _number_order, makes_nodes=False),
        TreeRewrite((exp.Star,), _unnest_structs),
        TreeRewrite((exp.Anonymous,), bound_counts(SMALL_COUNTS["duckdb"])),
        TreeRewrite((exp.Anonymous,), bound_series),
        TreeRewrite((exp.Select,), select_rows, makes_nodes=False),
        TreeRewrite(
            (exp.Identifier,), quote_reserved_names("duckdb"), makes_nodes=False, names=reserved_names("duckdb")
        ),
    ),
    writers={
        exp.DataType: write_varchar,
        exp.Extract: write_extract,
        exp.Pow: write_power,
        exp.StartsWith: operator("^@"),
        exp.Abs: write_absolute,
        exp.RegexpILike: operator("~*"),
        exp.StrPosition: write_position,
        # The result names columns by these words as written, usually in lower case.
        exp.CurrentDate: word("current_date"),
        exp.CurrentTimestamp: word("current_timestamp"),
        exp.Localtime: word("localtime"),
        exp.Localtimestamp: word("localtimestamp"),
        exp.WithinGroup: write_within_group,
        exp.IgnoreNulls: write_ignore_nulls,
        exp.RespectNulls: write_ignore_nulls,
    },
    hint=_hint,
    tilde_operators=True,
    radix_letters="xXbBoO",
    digit_separators=True,
    neighbouring_texts="lines",
    default_schema="main",
    implicit_columns=words("rowid"),
    niladic=words(
        """
        current_catalog current_date current_role current_schema current_time current_timestamp current_user localtime localtimestamp
        session_user user
        """
    ),
    names_before_niladic=True,
    folds_tables=True,
    row_ids=words("rowid"),
    row_id="rowid",
    alias_clauses=frozenset({"expressions", "where", "group", "having", "qualify", "order", "distinct", "windows"}),
    alias_subquery_clauses=frozenset({"expressions", "where", "order"}),
    column_selections=True,
    struct_fields=True,
    tables_as_values=True,
    values_columns=("col", 0),
    lateral_subqueries=True,
    subquery_name="unnamed_subquery",
    titles_by_text=True,
    titles_respelt=True,
    number_mark="$",
    named_enums=True,
    read=_read,
    prepare=_prepare,
    sandbox="toolgen.connectors.sql.execution.duckdb",
    driver="duckdb",
)
