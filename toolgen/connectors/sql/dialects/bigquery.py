"""Google BigQuery."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from sqlglot import exp
from sqlglot.errors import UnsupportedError
from sqlglot.generator import Generator

from toolgen.connectors.sql.dialects.costs import COMMON, OPERATORS, Cost, table
from toolgen.connectors.sql.dialects.record import AccountStatements, Dialect, TreeRewrite, words
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

# Parts of a text that both parsers read alike. GoogleSQL also has three quotes in a row, the prefixes r and b, more escapes, comments with
# `#`, parameters `@name`, variables `@@name`, hints `@{…}` and the pipe `|>`; two quotes do not continue a text.
# https://cloud.google.com/bigquery/docs/reference/standard-sql/lexical
_PARTS: Final = re.compile(
    r"""
    '(?!'')(?:[^'\\\n\r]|\\[\\'])*'(?!['"])
    | "(?!"")(?:[^"\\\n\r]|\\[\\"])*"(?!['"])
    | `[^`\\\n\r]+`(?!`)
    | --[^\n\r]*(?:\n|\Z)
    | /\*(?:(?!\*/).)*\*/
    | (?<![\w`])\w+(?!['"\w`])
    | [\s()\[\],.;:+*%$=<>!?]+
    | \|\| | -(?!-) | /(?![*/])
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)


def _check_text(sql: str) -> str:
    """Return the text. Refuse one with a part that the parser and the engine could read differently."""
    place = 0
    while place < len(sql):
        found = _PARTS.match(sql, place)
        if found is None:
            _refuse_part(sql, place)
        place = found.end()
    return sql


def _refuse_part(sql: str, place: int) -> NoReturn:
    sign = sql[place]
    if sign in "'\"`" or (sign.isascii() and (sign.isalnum() or sign == "_")):
        refuse(
            "literal",
            "a quote is not closed, or a text has a prefix, three quotes or an escape that parsers read differently",
            "quote texts with ' (write \\' inside of one, and a backslash twice), and names with `",
        )
    if sign == "/":
        refuse("comment", "a comment is not closed", "leave the comment out")
    refuse(
        "character",
        f"the statement contains {shown(sign)} outside of quotes",
        "begin comments with --, write ? for each parameter, and a query as SELECT … FROM",
    )


def _quote_names(root: exp.Expr) -> None:
    """Quote every name, so that none is a word of a later grammar. Placeholders and the keywords of functions are no names."""
    for name in root.find_all(exp.Identifier):
        if not name.args.get("quoted") and not name.name.lower().startswith(RESERVED) and not _is_keyword(name):
            name.set("quoted", True)


def _is_keyword(name: exp.Expr) -> bool:
    """Return True for the part of a date in `date_trunc(d, MONTH)`."""
    column = name.parent
    call = column.parent if isinstance(column, exp.Column) and column.args.get("table") is None else None
    if not isinstance(call, exp.Anonymous) or not isinstance(call.this, str):
        return False
    place, keywords = _KEYWORDS.get(call.this.removeprefix(CALL).lower(), (0, frozenset[str]()))
    return place < len(call.expressions) and call.expressions[place] is column and name.name.lower() in keywords


def _settle_types(root: exp.Expr) -> None:
    """Convert the names of whole numbers to INT64, the only type of them.

    https://cloud.google.com/bigquery/docs/reference/standard-sql/data-types#integer_type
    """
    for kind in root.find_all(exp.DataType):
        if kind.this in _INTEGERS:
            kind.set("this", exp.DType.BIGINT)


_INTEGERS: Final = frozenset({exp.DType.INT, exp.DType.SMALLINT, exp.DType.TINYINT})


def _refuse_dotted_names(root: exp.Expr) -> None:
    """Refuse more than a dataset before a table. Parts of a path in one pair of backticks were separated by the parser."""
    for source in root.find_all(exp.Table):
        if source.args.get("catalog") is not None:
            refuse(
                "table", "a table is written with a project", "write the name of the table, without project and dataset"
            )


def _write_identifier(generator: Generator, node: exp.Expr) -> str:
    """Write a name. One with a sign that ends or changes a quoted name is not written."""
    if any(sign in "`\\.\n\r" for sign in node.name):
        raise UnsupportedError("a name contains a backtick, a backslash, a dot or the end of a line")
    return generator.identifier_sql(node)  # type: ignore[arg-type]  # the dispatch gives an Identifier


def _write_interval(generator: Generator, node: exp.Expr) -> str:
    """Write `INTERVAL 1 DAY` with a number, as GoogleSQL requires; sqlglot writes a text."""
    value, unit = node.this, node.args.get("unit")
    whole = isinstance(value, exp.Literal) and value.name.isdigit()
    written = value.name if whole else generator.sql(value)
    return f"INTERVAL {written} {generator.sql(unit)}"


def _write_type(generator: Generator, node: exp.Expr) -> str:
    """Write a type. sqlglot leaves out the digits of a NUMERIC, which would be another type."""
    if node.expressions and not node.args.get("nested"):
        raise UnsupportedError("a type has a size")
    return generator.datatype_sql(node)  # type: ignore[arg-type]  # the dispatch gives a DataType


def _read(location: ServerLocation, password: str) -> ReadSchema:
    from toolgen.connectors.sql.reading.bigquery import read_bigquery  # noqa: PLC0415 - at a build

    return read_bigquery(location, password)


def _prepare(
    location: ServerLocation, password: str, statements: Sequence[Statement]
) -> Iterator[str | tuple[str, ...]]:
    from toolgen.connectors.sql.reading.bigquery import prepare_bigquery  # noqa: PLC0415 - at a build

    return prepare_bigquery(location, password, statements)


def _rights(location: ServerLocation, password: str) -> Rights:
    from toolgen.connectors.sql.reading.bigquery import bigquery_rights  # noqa: PLC0415 - for a report

    return bigquery_rights(location, password)


def _open(location: ServerLocation, reach: Reach, clock: Clock) -> Engine:
    from toolgen.connectors.sql.execution.bigquery import BigqueryEngine  # noqa: PLC0415 - at the first statement

    return BigqueryEngine(location, reach, clock)


# https://cloud.google.com/bigquery/docs/reference/standard-sql/functions-all, by their names in lower case
_ABSENT: Final = words("concat_ws degrees log2 pi radians")
_FUNCTIONS: Final = table(
    tuple((cost, " ".join(name for name in names.split() if name not in _ABSENT)) for cost, names in COMMON),
    (
        (
            Cost(),
            """
            acosh approx_count_distinct array_length ascii asinh atanh bit_and bit_count bit_or bit_xor byte_length cbrt char_length
            character_length corr cosh cot coth countif covar_pop covar_samp csc csch current_date current_datetime current_time
            current_timestamp date date_add date_diff date_from_unix_date date_sub date_trunc datetime datetime_add datetime_diff
            datetime_sub datetime_trunc div ends_with farm_fingerprint generate_uuid grouping ieee_divide instr is_inf is_nan last_day
            logical_and logical_or parse_date parse_datetime parse_time parse_timestamp rand range_bucket regexp_contains regexp_instr
            safe_add safe_divide safe_multiply safe_negate safe_subtract sec sech sinh starts_with stddev stddev_pop stddev_samp strpos
            tanh time time_add time_diff time_sub time_trunc timestamp timestamp_add timestamp_diff timestamp_micros timestamp_millis
            timestamp_seconds timestamp_sub timestamp_trunc trunc unicode unix_date unix_micros unix_millis unix_seconds var_pop var_samp
            variance
            """,
        ),
        (Cost(result="one", work=1), "any_value greatest if ifnull least percentile_cont percentile_disc"),
        (Cost(result="digest"), "md5 sha1 sha256 sha512"),
        (
            Cost(result="sum"),
            """
            array_concat array_reverse from_base64 from_hex json_extract json_extract_scalar json_query json_value left regexp_extract
            reverse right safe_convert_bytes_to_string translate
            """,
        ),
        (Cost(result="sum", factor=2), "initcap to_base64 to_hex"),
        (Cost(result="sum", factor=3), "string"),
        (Cost(result="sum", factor=10), "format_date format_datetime format_time format_timestamp"),
        (Cost(result="sum", factor=12), "normalize"),
        (Cost(result="sum", factor=16, memory=4), "json_value_array json_query_array regexp_extract_all split"),
        (Cost(result="top", work=1), "max_by min_by"),
        (Cost(result="pad", factor=4), "lpad rpad"),
        (Cost(result="series", factor=16, memory=2), "generate_array"),
        (Cost(result="template"), "format"),
        (Cost(result="insert"), "regexp_replace"),
        (Cost(result="join"), "array_to_string"),
        (Cost(result="gather", work=0), "approx_quantiles array_agg array_concat_agg string_agg"),
        (Cost(result="document", memory=4), "to_json to_json_string"),
        (Cost(result="json", memory=30), "json_type parse_json"),
    ),
)
_DATE_PARTS: Final = words("day isoweek isoyear month quarter week year")
_TIME_PARTS: Final = words("hour microsecond millisecond minute second")
_KEYWORDS: Final = {
    **dict.fromkeys(words("date_trunc last_day"), (1, _DATE_PARTS)),
    "date_diff": (2, _DATE_PARTS),
    "time_trunc": (1, _TIME_PARTS),
    "time_diff": (2, _TIME_PARTS),
    **dict.fromkeys(words("datetime_trunc timestamp_trunc"), (1, _DATE_PARTS | _TIME_PARTS)),
    **dict.fromkeys(words("datetime_diff timestamp_diff"), (2, _DATE_PARTS | _TIME_PARTS)),
}
_ALIASES: Final = frozenset({"group", "having", "order", "qualify"})
# https://cloud.google.com/bigquery/docs/querying-partitioned-tables and .../querying-wildcard-tables
_PSEUDO: Final = words(
    "_change_sequence_number _change_timestamp _change_type _file_name _partitiondate _partitiontime _table_suffix"
)


def _name_of(account: str) -> str:
    """Return the name of a service account, which has no underscores: https://cloud.google.com/iam/docs/service-accounts-create."""
    return account.strip("`").replace("_", "-")


def _make_account(account: str, *_given: object) -> list[str]:
    """Return a remark: a service account is made outside of SQL."""
    name = _name_of(account)
    return [
        f"-- with gcloud: make the service account {name}, and give it roles/bigquery.jobUser on the project that pays"
    ]


def _grant(table: str, account: str) -> str:
    """https://cloud.google.com/bigquery/docs/reference/standard-sql/data-control-language"""
    return f'GRANT `roles/bigquery.dataViewer` ON TABLE {table} TO "serviceAccount:{account}@PROJECT.iam.gserviceaccount.com"'


_ACCOUNTS: Final = AccountStatements(
    make=_make_account,
    bound=lambda resource, account, most: f"-- {account}: no limit of {resource}; at most {most} are used",
    rights=_name_of,
    password_hint=lambda account: f"{_name_of(account)} is a service account, and its key the password of the location",
    memory_hint=lambda account: (
        f"{_name_of(account)}: maximum_bytes_billed= of the location limits what a statement may read"
    ),
    rows="a row access policy (CREATE ROW ACCESS POLICY)",
    grant=_grant,
)

DIALECT: Final = Dialect(
    name="bigquery",
    engine="BigQuery",
    functions=_FUNCTIONS,
    operators=table(OPERATORS),
    special_calls=words("array cast extract interval offset ordinal safe_cast safe_offset safe_ordinal unnest"),
    keyword_arguments=_KEYWORDS,
    grammar={
        "Array": "expressions bracket_notation struct_name_inheritance",
        "Bracket": "this expressions offset safe",
        "Dot": "this expression",
        "Extract": "this expression",
        "In": "+unnest",
        "Star": "+replace",
        **dict.fromkeys(words("Lateral Values"), ""),  # GoogleSQL has neither
    },
    types=words("bigdecimal"),
    join_methods=frozenset(),
    text_rewrite=_check_text,
    tree_rewrites=(
        TreeRewrite((exp.Identifier,), _quote_names, makes_nodes=False),
        TreeRewrite((exp.DataType,), _settle_types, makes_nodes=False),
        TreeRewrite((exp.Table,), _refuse_dotted_names, makes_nodes=False),
    ),
    writers={exp.Identifier: _write_identifier, exp.Interval: _write_interval, exp.DataType: _write_type},
    quote="`",
    implicit_columns=_PSEUDO,
    folds_all_letters=True,
    server_folds_tables=True,
    alias_clauses=_ALIASES,
    alias_subquery_clauses=_ALIASES,
    struct_fields=True,
    tables_as_values=True,
    later_ctes="recursive",
    later_ctes_hide=True,
    computed_limits=False,
    stable_comparisons=True,
    nulls_first=True,
    unsorted_types=True,
    changes=False,
    read=_read,
    prepare=_prepare,
    rights=_rights,
    accounts=_ACCOUNTS,
    explain="",
    open_engine=_open,
)
