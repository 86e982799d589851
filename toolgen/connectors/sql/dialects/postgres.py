"""PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from toolgen.connectors.sql.dialects.call_rewrites import enclose_ordered_arrows, is_standard_json, separate_by_commas
from toolgen.connectors.sql.dialects.computed_counts import SMALL_COUNTS, bound_counts
from toolgen.connectors.sql.dialects.dollar_signs import separate_parameters
from toolgen.connectors.sql.dialects.equivalents import POSTGRES_EQUIVALENTS
from toolgen.connectors.sql.dialects.postgres_costs import POSTGRES_FUNCTIONS, POSTGRES_OPERATORS
from toolgen.connectors.sql.dialects.postgres_gathering import bound_gathering, may_gather
from toolgen.connectors.sql.dialects.postgres_operators import (
    OPERATOR_TOKENS,
    enclose_negated_searches,
    name_operators,
    refuse_null_safe_sign,
    write_named_operator,
)
from toolgen.connectors.sql.dialects.postgres_xml import declare_counters, search_by_path, write_column_definition
from toolgen.connectors.sql.dialects.record import (
    AccountStatements,
    Dialect,
    Gathering,
    RowEstimate,
    TokenRewrite,
    TreeRewrite,
    words,
)
from toolgen.connectors.sql.dialects.recursion_clauses import list_columns, restore_columns, write_recursion_clause
from toolgen.connectors.sql.dialects.token_rewrites import (
    cast_typed_texts,
    enclose_limits,
    enclose_typed_texts,
    join_type_words,
)
from toolgen.connectors.sql.dialects.value_rows import select_from_values
from toolgen.connectors.sql.dialects.whole_rows import name_fields, read_through_subqueries
from toolgen.connectors.sql.dialects.writers import operator, prefix, word, write_power, write_row_test

if TYPE_CHECKING:
    from toolgen.connectors.sql.execution.engine import Engine
    from toolgen.connectors.sql.execution.server_address import Reach
    from toolgen.connectors.sql.reading.schema import ReadSchema
    from toolgen.core.clock import Clock
    from toolgen.model.call import Statement
    from toolgen.model.database_rights import Rights
    from toolgen.model.database_url import ServerLocation

__all__ = ["DIALECT"]

# https://www.postgresql.org/docs/current/datatype-datetime.html#DATATYPE-INTERVAL-INPUT: keywords of the type.
_UNITS: Final = words("YEAR MONTH DAY HOUR MINUTE SECOND")

_TYPES: Final = words(
    """
    box cidr circle datemultirange int4multirange int8multirange line lseg macaddr macaddr8 nummultirange point tsmultirange tsquery
    tsvector varbit xml
    """
)

_GRAMMAR: Final = {
    **dict.fromkeys(
        words("RegexpLike RegexpILike SimilarTo Slice Extract Pow Overlaps WithinGroup StartsWith"), "this expression"
    ),
    **dict.fromkeys(
        words("ArrayContainsAll ArrayContainedBy ArrayOverlaps JSONBContains JSONBExtract"), "this expression"
    ),
    **dict.fromkeys(
        words("JSONKeyValue JSONBContainsTopKey JSONBContainsAnyTopKeys JSONBContainsAllTopKeys"), "this expression"
    ),
    **dict.fromkeys(
        words("JSONBPathExists JSONBDeleteAtPath Adjacent ExtendsLeft ExtendsRight IntervalSpan Kwarg Dot"),
        "this expression",
    ),
    **dict.fromkeys(words("Any All Sqrt Cbrt National"), "this"),
    **dict.fromkeys(words("Localtime Localtimestamp"), ""),
    "Array": "expressions bracket_notation",
    "Bracket": "this expressions offset",
    "AtTimeZone": "this zone",
    "Substring": "this start length",
    "Trim": "this expression position",
    "StrPosition": "this substr",
    "Overlay": "this expression from_ for_",
    "JSONBExtractScalar": "this expression json_type",
    "JSONObject": "expressions",
    "Table": "+ sample only rows_from",
    "TableSample": "method percent size seed",
    "LimitOptions": "rows with_ties",
    "Explode": "this expressions",
    "MatchAgainst": "this expressions",
    "Operator": "this expression operator",
    "ColumnDef": "this kind constraints",
    **dict.fromkeys(words("PathColumnConstraint DefaultColumnConstraint"), "this"),
    "ColumnConstraint": "kind",
    "NotNullColumnConstraint": "",
    "XMLElement": "this expressions",
    "XMLTable": "this passing columns",
    "With": "+ search cycle",
    "RecursiveWithSearch": "kind this expression to default using",
}
# Aggregates and window functions, which are not allowed in FROM.
_OF_MANY_ROWS: Final = words(
    """
    any_value array_agg avg bit_and bit_or bit_xor bool_and bool_or corr count covar_pop covar_samp cume_dist dense_rank every
    first_value grouping json_agg json_arrayagg json_object_agg json_objectagg jsonb_agg jsonb_agg_strict jsonb_object_agg
    jsonb_object_agg_strict lag last_value lead max min mode nth_value ntile percent_rank percentile_cont percentile_disc range_agg
    range_intersect_agg rank regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy row_number
    stddev stddev_pop stddev_samp string_agg sum var_pop var_samp variance xmlagg
    """
)
_ESTIMATE: Final = (
    "SELECT c.reltuples::pg_catalog.int8 FROM pg_catalog.pg_class c WHERE c.oid = pg_catalog.to_regclass($1)"
)


def _estimated(schema: str, table: str) -> tuple[str, ...]:
    return (".".join(f'"{name.replace(chr(34), chr(34) * 2)}"' for name in (schema or "public", table)),)


_HINTS: Final = (
    (["IS", "JSON"], "write jsonb_typeof(column) for a document; texts are not tested"),
    (["ESCAPE"], "write the character after ESCAPE as a string"),
    *(
        ([shape], "compare numbers: sqrt(power(x1 - x2, 2) + power(y1 - y2, 2)) is the distance of two points")
        for shape in ("POINT", "BOX", "CIRCLE", "LINE", "LSEG", "PATH", "POLYGON")
    ),
)


def _hint(words: Sequence[str]) -> str:
    if any(word in {"XMLPARSE", "XMLSERIALIZE", "XMLROOT", "XMLPI"} for word in words):
        return "write x::text for the text of XML, and '<a/>'::xml for XML"
    for clause, advice in _HINTS:
        if any(words[place : place + len(clause)] == clause for place in range(len(words))):
            return advice
    return ""


def _read(location: ServerLocation, password: str) -> ReadSchema:
    from toolgen.connectors.sql.reading.postgres import read_postgres  # noqa: PLC0415 - behind an extra

    return read_postgres(location, password)


def _prepare(
    location: ServerLocation, password: str, statements: Sequence[Statement]
) -> Iterator[str | tuple[str, ...]]:
    from toolgen.connectors.sql.reading.postgres import prepare_postgres  # noqa: PLC0415 - behind an extra

    return prepare_postgres(location, password, statements)


def _rights(location: ServerLocation, password: str) -> Rights:
    from toolgen.connectors.sql.reading.postgres_rights import postgres_rights  # noqa: PLC0415 - behind an extra

    return postgres_rights(location, password)


def _open_engine(location: ServerLocation, reach: Reach, clock: Clock) -> Engine:
    from toolgen.connectors.sql.execution.postgres import PostgresEngine  # noqa: PLC0415 - behind an extra

    return PostgresEngine(location, reach, clock)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _make_account(account: str, database: str, schemas: Sequence[str], writes: bool, sessions: int) -> list[str]:
    statements = [f"CREATE ROLE {account} LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOREPLICATION"]
    if not writes:
        statements.append(f"ALTER ROLE {account} SET default_transaction_read_only = on")
    statements.extend(_bound_account(what, account, sessions) for what in ("sessions", "temporary files"))
    statements.append(f"GRANT CONNECT ON DATABASE {_quoted(database)} TO {account}")
    statements.extend(f"GRANT USAGE ON SCHEMA {_quoted(schema)} TO {account}" for schema in schemas)
    return statements


def _bound_account(what: str, account: str, sessions: int) -> str:
    if what == "temporary files":
        return f"ALTER ROLE {account} SET temp_file_limit = '256MB'"
    return f"ALTER ROLE {account} CONNECTION LIMIT {sessions}"


def _password_hint(account: str) -> str:
    return f"\\password {account}  -- in psql: gives the role a password"


def _memory_hint(account: str) -> str:
    return (
        "PostgreSQL bounds no role's memory: give the server a limit (MemoryMax of systemd, a container, ulimit -v), "
        f"or {account} a replica that has one; docs/how-to/databases/memory.md"
    )


DIALECT: Final = Dialect(
    name="postgres",
    engine="PostgreSQL",
    functions=POSTGRES_FUNCTIONS,
    operators=POSTGRES_OPERATORS,
    uninterruptible=True,
    table_functions={
        **{name: (name,) for name in words("generate_series generate_subscripts json_object_keys jsonb_object_keys")},
        **{
            name: (name,)
            for name in words("jsonb_path_query regexp_matches regexp_split_to_table string_to_table unnest")
        },
        **dict.fromkeys(words("json_array_elements json_array_elements_text"), ("value",)),
        **dict.fromkeys(words("jsonb_array_elements jsonb_array_elements_text"), ("value",)),
        **dict.fromkeys(words("json_each json_each_text jsonb_each jsonb_each_text"), ("key", "value")),
        **dict.fromkeys(words("json_to_record json_to_recordset jsonb_to_record jsonb_to_recordset"), ()),
    },  # chapter 9.26
    unnested_columns={"tsvector": ("lexeme", "positions", "weights")},
    scalars_in_from=frozenset(POSTGRES_FUNCTIONS) - _OF_MANY_ROWS,
    special_calls=words("cast extract position overlay trim substring json_object interval xmlelement xmltable"),
    named_arguments=words("make_date make_interval make_time make_timestamp make_timestamptz"),
    equivalents=POSTGRES_EQUIVALENTS,
    padded_types=frozenset({exp.DType.CHAR, exp.DType.NCHAR, exp.DType.BPCHAR, exp.DType.BIT}),
    estimate=RowEstimate(_ESTIMATE, _estimated),
    grammar=_GRAMMAR,
    types=_TYPES,
    spellings=frozenset(
        {
            "absolutes",
            "catalog_prefix",
            "interval_fields",
            "json_keys",
            "operator_order",
            "table_queries",
            "unicode_texts",
        }
    ),
    interval_units=_UNITS,
    query_starts=frozenset({TokenType.TABLE}),
    declared_records=True,
    typed_json_arrows=True,
    array_comparisons=True,
    fields_may_be_calls=True,
    text_rewrite=separate_parameters,
    token_rewrites=(
        TokenRewrite(TokenType.MOD, enclose_limits),
        TokenRewrite(TokenType.DCOLON, enclose_typed_texts),
        TokenRewrite(TokenType.VALUES, select_from_values),
        TokenRewrite(TokenType.ARROW, enclose_ordered_arrows),
        *(TokenRewrite(word, join_type_words) for word in ("VARYING", "NATIONAL", TokenType.NCHAR)),
        *(TokenRewrite(kind.upper(), partial(cast_typed_texts, types=_TYPES)) for kind in sorted(_TYPES)),
        *(TokenRewrite(kind, name_operators) for kind in OPERATOR_TOKENS),
        TokenRewrite(TokenType.NULLSAFE_EQ, refuse_null_safe_sign),
        TokenRewrite(TokenType.NOT, enclose_negated_searches),
        TokenRewrite("XMLTABLE", declare_counters),
        TokenRewrite("XMLEXISTS", partial(separate_by_commas, function="XMLEXISTS", words=("PASSING",))),
        TokenRewrite("CYCLE", list_columns),
        TokenRewrite("SEARCH", list_columns),
        TokenRewrite("SIMILAR", partial(separate_by_commas, function="SUBSTRING", words=("SIMILAR", "ESCAPE"))),
    ),
    tree_rewrites=(
        TreeRewrite((exp.Anonymous,), bound_counts(SMALL_COUNTS["postgres"])),
        TreeRewrite((exp.Anonymous,), read_through_subqueries),
        TreeRewrite((exp.Anonymous,), search_by_path),
        TreeRewrite((exp.Dot,), name_fields),
        TreeRewrite((exp.RecursiveWithSearch,), restore_columns, makes_nodes=False),
    ),
    writers={
        exp.ColumnDef: write_column_definition,
        exp.Not: write_row_test,
        exp.Operator: write_named_operator,
        exp.RecursiveWithSearch: write_recursion_clause,
        exp.CurrentTime: word("CURRENT_TIME"),  # sqlglot writes `CURRENT_TIME()`, which PostgreSQL does not support
        exp.Pow: write_power,
        exp.StartsWith: operator("^@"),
        exp.Sqrt: prefix("|/"),
        exp.Cbrt: prefix("||/"),
    },
    hint=_hint,
    standard_calls={"json_object": is_standard_json},
    gathering=Gathering(may_gather, bound_gathering),
    tilde_operators=True,
    interval_spans=True,
    neighbouring_texts="lines",
    default_schema="public",
    implicit_columns=words("ctid xmin xmax cmin cmax tableoid oid"),
    implicit_advice="it is a system column: order by the key, and find changes by a column with a time",
    row_ids=words("ctid"),
    row_id="ctid",
    niladic=words(
        """
        current_catalog current_date current_role current_schema current_time current_timestamp current_user localtime localtimestamp
        session_user system_user user
        """
    ),
    keeps_quoted_case=True,
    max_name_bytes=63,  # NAMEDATALEN - 1
    bare_aliases=True,
    whole_row_calls=True,
    tables_as_values=True,
    later_ctes="recursive",
    groups_by_key=True,
    titles_by_function=True,
    number_mark="$",
    always_numbered=True,
    question_operators=True,
    types_by_first_use=True,
    list_parameters=True,
    stable_comparisons=True,
    fence=("offset", 0),
    unsorted_types=True,
    groups_as_equal=True,
    named_enums=True,
    exact_labels=True,
    cross_checked=True,
    explain="EXPLAIN (VERBOSE FALSE) ",
    read=_read,
    prepare=_prepare,
    rights=_rights,
    accounts=AccountStatements(
        make=_make_account,
        bound=_bound_account,
        rights=str,
        password_hint=_password_hint,
        memory_hint=_memory_hint,
        rows="row-level security or a view",
    ),
    open_engine=_open_engine,
)
