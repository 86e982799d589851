"""PostgreSQL."""

from __future__ import annotations

from typing import Final

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from toolgen.connectors.sql.dialects.call_rewrites import check_json_objects, enclose_ordered_arrows
from toolgen.connectors.sql.dialects.computed_counts import SMALL_COUNTS, bound_counts
from toolgen.connectors.sql.dialects.dollar_signs import separate_parameters
from toolgen.connectors.sql.dialects.postgres_costs import POSTGRES_FUNCTIONS, POSTGRES_OPERATORS
from toolgen.connectors.sql.dialects.postgres_gathering import bound_gathering, may_gather
from toolgen.connectors.sql.dialects.record import Dialect, Gathering, TokenRewrite, TreeRewrite, words
from toolgen.connectors.sql.dialects.token_rewrites import enclose_limits
from toolgen.connectors.sql.dialects.value_rows import select_from_values
from toolgen.connectors.sql.dialects.whole_rows import name_fields, read_through_subqueries

__all__ = ["POSTGRES"]

# https://www.postgresql.org/docs/current/datatype-datetime.html#DATATYPE-INTERVAL-INPUT: the words that belong to the type.
_UNITS: Final = words("YEAR MONTH DAY HOUR MINUTE SECOND")

POSTGRES: Final = Dialect(
    name="postgres",
    engine="PostgreSQL",
    functions=POSTGRES_FUNCTIONS,
    operators=POSTGRES_OPERATORS,
    uninterruptible=True,
    table_functions=dict.fromkeys(("json_to_record", "json_to_recordset", "jsonb_to_record", "jsonb_to_recordset"), ()),
    named_arguments=words("make_date make_interval make_time make_timestamp make_timestamptz"),
    types=words(
        "cidr datemultirange int4multirange int8multirange macaddr macaddr8 nummultirange tsmultirange tsquery tsvector"
    ),
    interval_units=_UNITS,
    text_rewrite=separate_parameters,
    token_rewrites=(
        TokenRewrite(TokenType.MOD, enclose_limits),
        TokenRewrite(TokenType.VALUES, select_from_values),
        TokenRewrite(TokenType.ARROW, enclose_ordered_arrows),
        TokenRewrite("JSON_OBJECT", check_json_objects),
    ),
    tree_rewrites=(
        TreeRewrite((exp.Anonymous,), bound_counts(SMALL_COUNTS["postgres"])),
        TreeRewrite((exp.Anonymous,), read_through_subqueries),
        TreeRewrite((exp.Dot,), name_fields),
    ),
    gathering=Gathering(may_gather, bound_gathering),
)
