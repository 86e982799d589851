"""DuckDB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from toolgen.policy.sql.dialects.dollar_signs import separate_parameters
from toolgen.policy.sql.dialects.duckdb_pivots import rewrite_pivots
from toolgen.policy.sql.dialects.record import Dialect, TokenRewrite, TreeRewrite, words
from toolgen.policy.sql.dialects.reserved_names import quote_reserved_names
from toolgen.policy.sql.dialects.token_rewrites import enclose_interval_values, enclose_limits

__all__ = ["DUCKDB", "SUMMARY_COLUMNS"]

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
    """`PIVOT t … ORDER BY x` is `SELECT * FROM (PIVOT t …) ORDER BY x`, and so are UNPIVOT and SUMMARIZE."""
    first = tokens[0]
    if first.token_type not in _STATEMENTS:
        yield from tokens
        return
    end = len(tokens) if first.token_type is TokenType.SUMMARIZE else _statement_end(tokens)
    yield from _select_all(first)
    yield _like(first, TokenType.L_PAREN, "(")
    yield from tokens[:end]
    yield _like(tokens[end - 1], TokenType.R_PAREN, ")")
    yield from tokens[end:]


def _statement_end(tokens: Sequence[Token]) -> int:
    end = depth = 0
    while end < len(tokens) and not (depth == 0 and tokens[end].token_type in _AFTER_A_STATEMENT):
        depth += (tokens[end].token_type is TokenType.L_PAREN) - (tokens[end].token_type is TokenType.R_PAREN)
        end += 1
    return end


def _summarize_queries(tokens: Sequence[Token]) -> Iterator[Token]:
    """`SUMMARIZE t` is `SUMMARIZE SELECT * FROM t`."""
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
    """Makes columns of the names in `f(name).g()`, which the parser leaves bare."""
    for call in root.find_all(exp.Anonymous):
        for argument in list(call.expressions):
            if isinstance(argument, exp.Identifier):
                argument.replace(exp.Column(this=argument.copy()))


_FUNCTIONS: Final = words(
    """
    acosh aggregate ago apply approx_top_k arg_max_null arg_max_nulls_last arg_min_null arg_min_nulls_last array_aggregate array_apply
    array_concat array_distance array_extract array_filter array_grade_up array_has_all array_has_any array_reduce array_select
    array_transform array_where array_zip asinh atanh bar bitstring char_length character_length columns days_in_month decode encode
    equi_width_bins era factorial from_binary from_hex generate_subscripts grouping_id histogram_exact json_deep_merge json_exists
    json_insert json_quote json_remove json_replace json_set json_strip_nulls left_grapheme length_grapheme list_approx_count_distinct
    list_bit_and list_bit_or list_bit_xor list_bool_and list_bool_or list_distance list_entropy list_kurtosis list_kurtosis_pop list_mad
    list_sem list_skewness list_stddev_samp list_var_samp listagg make_timestamp_ms map_contains_entry map_contains_value md5_number
    mean microsecond millennium nanosecond overlay parse_dirpath pg_typeof right_grapheme row_to_json set_bit str_split_regex
    string_split_regex string_to_array struct_concat struct_contains struct_keys struct_update struct_values substring_grapheme
    to_binary to_hex transaction_timestamp union_value uuidv4
    """
)

DUCKDB: Final = Dialect(
    name="duckdb",
    engine="DuckDB",
    functions=_FUNCTIONS,
    table_functions={"json_each": _JSON_EACH, "json_tree": _JSON_EACH},
    interval_units=_UNITS,
    text_rewrite=separate_parameters,
    token_rewrites=(
        TokenRewrite(TokenType.INTERVAL, partial(enclose_interval_values, units=_UNITS)),
        TokenRewrite(TokenType.MOD, enclose_limits),
        TokenRewrite(TokenType.SUMMARIZE, _summarize_queries),
        *(
            TokenRewrite(kind, _select_from_statement)
            for kind in (TokenType.PIVOT, TokenType.UNPIVOT, TokenType.SUMMARIZE)
        ),
    ),
    tree_rewrites=(
        TreeRewrite((exp.Dot,), _column_arguments),
        TreeRewrite((exp.Pivot,), rewrite_pivots),
        TreeRewrite((exp.Identifier,), quote_reserved_names("duckdb"), makes_nodes=False),
    ),
)
