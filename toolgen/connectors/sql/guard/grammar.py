"""Permitted syntax of a statement: a list of node classes and their arguments; others are refused."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType, NoneType
from typing import Final

from sqlglot import exp

from toolgen.connectors.sql.dialects import RECORDS, ByDialect, Dialect
from toolgen.connectors.sql.dialects.computed_counts import bounded_count
from toolgen.connectors.sql.dialects.duckdb_series import is_bounded_series
from toolgen.connectors.sql.dialects.postgres_operators import check_operator, is_negated_search
from toolgen.connectors.sql.dialects.postgres_xml import check_xml_call, check_xml_table, check_xml_text
from toolgen.connectors.sql.guard.alternatives import SESSION, catalog_alternative, syntax_alternative
from toolgen.connectors.sql.guard.bounds import is_negative, is_smallest
from toolgen.connectors.sql.guard.enum_types import EnumTypes
from toolgen.connectors.sql.guard.equivalents import function_advice
from toolgen.connectors.sql.guard.functions import (
    CAPS,
    FORMATTERS,
    FUNCTIONS,
    GROWING,
    MODIFIERS,
    TABLE_FUNCTIONS,
    WRITTEN_OUT,
    Cap,
    source_columns,
)
from toolgen.connectors.sql.guard.identifiers import check_name
from toolgen.connectors.sql.guard.placeholders import CALL, RESERVED, SLOT, slot_number
from toolgen.connectors.sql.guard.prefix_signs import is_sign
from toolgen.connectors.sql.guard.refusal import refuse, shown
from toolgen.connectors.sql.guard.searches import check_search
from toolgen.model.database import DialectName

__all__ = ["GRAMMAR", "called", "check_grammar"]

Arguments = frozenset[str]
_WIDTH = re.compile(r"%[-+ 0,!#]*(\*|[0-9]*)(?:\.(\*|[0-9]*))?")
_CONVERSION = re.compile(r"%[-+ 0,!#]*(\*|[0-9]*)(?:\.(\*|[0-9]*))?[hlLjqtz]*([A-Za-z%])")
_MAX_WIDTH = 1_000
_MAX_ARRAY = 10_000


def _arguments(text: str = "") -> Arguments:
    return frozenset(text.split())


_TWO, _ONE, _MANY = map(_arguments, ("this expression", "this", "expressions"))

# By name, because a class that is missing in a version of sqlglot cannot occur.
_EVERYWHERE: Mapping[str, Arguments] = {
    # queries
    "Select": _arguments("with_ expressions distinct from_ joins laterals where group having qualify windows order limit offset"),
    "Union": _arguments("with_ this expression distinct by_name order limit offset"),
    "Except": _arguments("with_ this expression distinct by_name order limit offset"),
    "Intersect": _arguments("with_ this expression distinct by_name order limit offset"),
    "Subquery": _arguments("this alias with_ joins order limit offset"),
    "Values": _arguments("expressions alias"),
    "With": _arguments("expressions recursive"),
    "CTE": _arguments("this alias materialized"),
    "From": _ONE,
    "Join": _arguments("this on side kind using method"),
    "Lateral": _arguments("this alias ordinality"),
    "Unnest": _arguments("expressions alias offset"),
    "Table": _arguments("this alias db joins ordinality"),
    "TableAlias": _arguments("this columns"),
    "Where": _ONE,
    "Group": _arguments("expressions grouping_sets cube rollup all"),
    "GroupingSets": _MANY,
    "Cube": _MANY,
    "Rollup": _MANY,
    "Having": _ONE,
    "Qualify": _ONE,
    "Order": _arguments("this expressions"),
    "Ordered": _arguments("this desc nulls_first"),
    "Limit": _arguments("expression"),
    "Offset": _arguments("expression"),
    "Fetch": _arguments("direction count limit_options"),
    "LimitOptions": _arguments("rows"),
    "Distinct": _arguments("expressions on"),
    # names and values
    "Column": _arguments("this table db"),
    "Identifier": _arguments("this quoted"),
    "Star": _arguments("except_"),
    "Alias": _arguments("this alias"),
    "Literal": _arguments("this is_string"),
    "Boolean": _ONE,
    "Null": _arguments(),
    "HexString": _arguments("this is_integer"),
    "BitString": _ONE,
    "ByteString": _arguments("this is_bytes"),
    "RawString": _ONE,
    "Paren": _ONE,
    "Tuple": _MANY,
    "Var": _ONE,
    "Interval": _arguments("this unit"),
    # conditions
    "And": _TWO, "Or": _TWO, "Xor": _TWO, "Not": _ONE,
    "EQ": _TWO, "NEQ": _TWO, "GT": _TWO, "GTE": _TWO, "LT": _TWO, "LTE": _TWO, "NullSafeEQ": _TWO, "NullSafeNEQ": _TWO,
    "Is": _arguments("this expression negate"),
    "Between": _arguments("this low high symmetric"),
    "In": _arguments("this expressions query"),
    "Like": _arguments("this expression negate"),
    "ILike": _arguments("this expression negate"),
    "Glob": _TWO,
    "Escape": _TWO,
    "Exists": _ONE,
    "Case": _arguments("this ifs default"),
    "If": _arguments("this true false"),
    # operators
    "Add": _TWO, "Sub": _TWO, "Mul": _TWO, "Div": _arguments("this expression typed safe"), "Mod": _TWO, "IntDiv": _TWO, "Neg": _ONE,
    "BitwiseAnd": _TWO, "BitwiseOr": _TWO, "BitwiseXor": _TWO, "BitwiseNot": _ONE, "BitwiseLeftShift": _TWO, "BitwiseRightShift": _TWO,
    "DPipe": _arguments("this expression safe"),
    "Collate": _TWO,
    "Cast": _arguments("this to"),
    "TryCast": _arguments("this to safe requires_string"),
    "DataType": _arguments("this expressions nested kind"),
    "DataTypeParam": _ONE,
    "JSONExtract": _arguments("this expression only_json_types"),
    "JSONExtractScalar": _arguments("this expression only_json_types scalar_only"),
    # functions and windows
    "Anonymous": _arguments("this expressions"),
    "Window": _arguments("this partition_by order spec alias over"),
    "WindowSpec": _arguments("kind start start_side end end_side exclude"),
    "Filter": _TWO,
    "RespectNulls": _ONE,
    "IgnoreNulls": _ONE,
    "CurrentDate": _arguments(), "CurrentTime": _arguments(), "CurrentTimestamp": _arguments(),
}  # fmt: skip


def _listed(record: Dialect) -> Mapping[type[exp.Expr], Arguments]:
    named = {**_EVERYWHERE, **{name: _extended(name, text) for name, text in record.grammar.items()}}
    return MappingProxyType(
        {kind: allowed for name, allowed in named.items() if (kind := getattr(exp, name, None)) is not None}
    )


def _extended(name: str, text: str) -> Arguments:
    return _EVERYWHERE[name] | _arguments(text[1:]) if text.startswith("+") else _arguments(text)


GRAMMAR: Mapping[str, Mapping[type[exp.Expr], Arguments]] = ByDialect(_listed)
"""Permitted classes of the parser with their arguments, by dialect."""

_TYPES = _arguments(
    """
    BIGINT BINARY BIT BLOB BOOLEAN BPCHAR CHAR DATE DATETIME DATETIME2 DATE32 DECIMAL DOUBLE FLOAT HUGEINT INT INT128 INTERVAL JSON JSONB
    LIST ARRAY LONGTEXT MEDIUMINT MEDIUMTEXT MONEY NAME NCHAR NVARCHAR SMALLINT SMALLDATETIME TEXT TIME TIMETZ TIMESTAMP TIMESTAMPTZ
    TIMESTAMPNTZ TIMESTAMPLTZ TIMESTAMP_S TIMESTAMP_MS TIMESTAMP_NS TINYINT TINYTEXT UBIGINT UDECIMAL UINT USMALLINT UTINYINT UUID VARBINARY
    ENUM VARCHAR YEAR INET INT4RANGE INT8RANGE NUMRANGE TSRANGE TSTZRANGE DATERANGE
    INT4MULTIRANGE INT8MULTIRANGE NUMMULTIRANGE TSMULTIRANGE TSTZMULTIRANGE DATEMULTIRANGE
    """
)
_NESTED_TYPES = frozenset({"MAP", "STRUCT", "UNION"})
_TYPE_ADVICE: Final = {
    "mysql": "convert it to CHAR, SIGNED, DOUBLE, DECIMAL(12, 2), DATE, DATETIME or TIME",
    "postgres": "convert it to TEXT, INTEGER, NUMERIC, DATE, TIMESTAMP, INTERVAL, JSONB or an array of these",
}
_FRAMES = frozenset({"CURRENT ROW", "UNBOUNDED"})
_SAMPLE_METHODS = frozenset({"bernoulli", "reservoir", "system"})
_SIDES = frozenset({"LEFT", "RIGHT", "FULL"})
_JOINS = frozenset({"INNER", "CROSS", "OUTER", "SEMI", "ANTI", "STRAIGHT_JOIN"})
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
_CHARACTER_SETS = _arguments("ASCII BINARY LATIN1 UCS2 UTF16 UTF32 UTF8 UTF8MB3 UTF8MB4")


def check_grammar(
    root: exp.Expr,
    dialect: DialectName,
    added: frozenset[str],
    defined: frozenset[str] = frozenset(),
    enums: EnumTypes | None = None,
) -> None:
    """Refuse the first node, argument, function, type or operator of the tree that is not listed.

    `added` are the policy's functions. `defined` are the database's own: a function with the name of a listed one is a different function.
    `enums` are its types allowed in casts, if any.
    """
    listed = GRAMMAR[dialect]
    for node in root.walk():
        kind = type(node)
        allowed = listed.get(kind)
        if allowed is None:
            if kind is exp.SessionParameter:
                refuse("parameters", "variables of the server are not supported", SESSION)
            if kind in {exp.Placeholder, exp.Parameter}:
                refuse(
                    "parameters",
                    "placeholders with names and variables are not supported",
                    "write ? (PostgreSQL: $1) for each parameter",
                )
            refuse("syntax", f"{_readable(kind)} is not supported", syntax_alternative(kind.__name__))
        for name, value in node.args.items():
            if value and name not in allowed:
                refuse(
                    "syntax",
                    f"{name.strip('_').upper()} is not supported in {_readable(kind)}",
                    syntax_alternative(kind.__name__, name),
                )
        if kind is exp.Anonymous:
            _check_call(node, dialect, added, defined)
        elif kind is exp.DataType:
            _check_type(node, dialect, enums)
        elif (check := _CHECKS.get(kind)) is not None:
            check(node, dialect)
            if kind is exp.Dot and RECORDS[dialect].fields_may_be_calls and node.expression.name.lower() in defined:
                refuse("function", "a field has the name of a function of this database", syntax_alternative("Dot"))


def _readable(kind: type[exp.Expr]) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.__name__)


def _check_identifier(node: exp.Expr, dialect: DialectName) -> None:
    name = node.name
    if name.lower().startswith(RESERVED):
        parent = node.parent
        if not (
            name.startswith(SLOT)
            and isinstance(parent, exp.Column)
            and parent.this is node
            and not parent.args.get("table")
        ):
            refuse("syntax", "a placeholder or call is used in the place of a name", "write the name")
    else:
        check_name(name, dialect)


def called(node: exp.Anonymous) -> str:
    """Return the name of a call as written, in lower case, or "" if it was not parsed as an ordinary call."""
    name = node.this
    return name[len(CALL) :].lower() if isinstance(name, str) and name.startswith(CALL) else ""


def _check_call(node: exp.Expr, dialect: DialectName, added: frozenset[str], defined: frozenset[str]) -> None:
    name = called(node) if isinstance(node, exp.Anonymous) else ""
    record = RECORDS[dialect]
    if not name and node.name.upper() == "ALL" and isinstance(node.parent, _COMPARISONS) and record.array_comparisons:
        return  # `x <> ALL (array)`: a reserved word, not a function
    if is_sign(node) or (record.tilde_operators and is_negated_search(node)):
        return
    in_from = isinstance(node.parent, (exp.Table, exp.Lateral))
    known = source_columns(name, dialect) is not None if in_from else name in FUNCTIONS[dialect] or name in added
    if not name or not known:
        written = name or str(node.this)
        refuse(
            "function",
            f"the function {shown(written)} is not available",
            function_advice(written.lower(), dialect),
        )
    if name in defined and name not in added:
        refuse("function", f"this database defines its own function {shown(name)}", "compute it another way")
    if isinstance(node.parent, exp.Dot) and node.parent.expression is node:
        refuse("function", f"{shown(name)} is called with a schema", "call it by its name, without a schema")
    check_xml_call(node)
    if cap := CAPS.get(name):
        _check_cap(node, name, cap)
    if name in GROWING and any(called(inner) in GROWING for inner in node.find_all(exp.Anonymous) if inner is not node):
        refuse("size", f"{name} is used on the result of a function that lengthens text", "lengthen a text only once")
    if record.uninterruptible and (first := WRITTEN_OUT.get(name)) is not None:
        for argument in node.expressions[first:]:
            if not (isinstance(argument, exp.Literal) and argument.is_string and len(argument.name) <= _MAX_WIDTH):
                refuse("size", f"the characters of {name} must be a literal", "write them as a string")
    if name in FORMATTERS and record.format_takes_template:
        _check_template(node, name, widths_as_arguments=record.bounded_values)


def _check_named_argument(node: exp.Expr, dialect: DialectName) -> None:
    """Refuse calls with named arguments except `make_interval(days => 7)` and similar ones, because argument sizes are judged by
    position.
    """
    function = node.parent
    known = isinstance(function, exp.Anonymous) and called(function) in RECORDS[dialect].named_arguments
    if not known or not isinstance(node.this, exp.Var) or not node.this.name.isidentifier():
        refuse("syntax", "a function is called with named arguments", "give the arguments in their order")


def _check_declaration(node: exp.Expr, _dialect: DialectName) -> None:
    if isinstance(node.parent, exp.XMLTable):
        return
    if not isinstance(node.parent, (exp.TableAlias, exp.DataType)) or node.args.get(
        "constraints"
    ):  # or a field of a STRUCT
        refuse("syntax", "a column is declared in the wrong place", "name the column")


def _check_cap(node: exp.Expr, name: str, cap: Cap) -> None:
    arguments = node.expressions
    if not arguments or is_bounded_series(node):
        return
    if not cap.strict and not isinstance(node.parent, (exp.Table, exp.Lateral)):
        _check_series(node, name, cap.largest)
    argument = arguments[min(cap.index, len(arguments) - 1)]  # its only argument: `generate_series(5)`
    if is_negative(argument) or bounded_count(argument):
        return
    if any(_is_small(bound, cap.largest) for bound in _upper_bounds(argument)):
        return
    if cap.strict or _is_whole(argument):
        refuse(
            "size",
            f"an argument of {name} must be a literal number up to {cap.largest}",
            f"write a smaller number, or {'min' if name in {'zeroblob', 'randomblob'} else 'least'}(n, 100) in place of a column n",
        )


def _check_series(node: exp.Expr, name: str, largest: int) -> None:
    """Check the bounds of a list of numbers, which is made at once: no number in them may be large, or become large by a product or a
    text.
    """
    for argument in node.expressions:
        if any(_is_small(bound, largest) for bound in _upper_bounds(argument)):
            continue
        if any(_grows(part, largest) for part in argument.walk()):
            refuse(
                "size",
                f"an argument of {name} could be more than {largest}",
                f"write a number up to {largest}, or least(n, 1000) in place of the expression",
            )


_MAX_FACTOR = 100
_LARGE_NUMBERS = frozenset({"exp", "factorial", "hash", "pow", "power", "product"})


def _grows(part: exp.Expr, largest: int) -> bool:
    match part:
        case exp.Literal():
            digits = part.name.isdigit()
            return (
                not _is_small(_as_number(part), largest) if digits else not part.is_string and "e" in part.name.lower()
            )
        case exp.Mul():
            small = any(_is_small(side, _MAX_FACTOR) for side in (part.this, part.expression))
            return not small or part.find_ancestor(exp.Mul) is not None
        case exp.Anonymous():
            return called(part) in _LARGE_NUMBERS
    return isinstance(part, (exp.Pow, exp.BitwiseLeftShift, exp.DPipe))


def _as_number(node: exp.Expr) -> exp.Expr:
    return exp.Literal.number(node.name)


def _upper_bounds(argument: exp.Expr) -> list[exp.Expr]:
    """Return the argument itself, or those of which it is the smallest: `least(level, 100)`."""
    return argument.expressions if is_smallest(argument) else [argument]


def _is_whole(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit()


def _is_small(node: exp.Expr, largest: int) -> bool:
    return _is_whole(node) and len(node.name) <= 9 and int(node.name) <= largest


def _check_template(node: exp.Expr, name: str, *, widths_as_arguments: bool) -> None:
    template = node.expressions[0] if node.expressions else None
    if not isinstance(template, exp.Literal) or not template.is_string:
        refuse("size", f"the template of {name} must be a literal", "write the template as a string")
    widths = {number for found in _WIDTH.findall(template.name) for number in found if number and number != "*"}
    computed = "*" in template.name and not widths_as_arguments
    written = (part for argument in _width_arguments(node, template.name) for part in argument.walk())
    computed = computed or any(_is_whole(part) and not _is_small(part, _MAX_WIDTH) for part in written)
    if computed or any(int(number[:9]) > _MAX_WIDTH for number in widths):
        refuse(
            "size",
            f"a width in the template of {name} is not a number up to {_MAX_WIDTH}",
            "write the width as a number, or indent with substr('          ', 1, n) in place of *",
        )


def _width_arguments(node: exp.Expr, template: str) -> Iterator[exp.Expr]:
    """Yield the arguments for widths and precisions, one for each `*` of a template."""
    arguments = iter(node.expressions[1:])
    for width, precision, kind in _CONVERSION.findall(template):
        stars = (width, precision).count("*")
        yield from islice(arguments, stars)
        if kind not in "%n":
            next(arguments, None)


def _check_type(node: exp.Expr, dialect: DialectName, enums: EnumTypes | None) -> None:
    kind = node.args.get("kind")
    if isinstance(kind, exp.Var) and RECORDS[dialect].character_sets and node.this is exp.DataType.Type.CHARACTER_SET:
        kind = None
        known = node.args["kind"].name.upper() in _CHARACTER_SETS
    else:
        known = _is_known(kind, dialect) if kind else _is_type(getattr(node.this, "name", ""), dialect)
    if _elements(node) > _MAX_ARRAY:
        refuse("type", f"the arrays have more than {_MAX_ARRAY:,} elements", "write a list, as INTEGER[]")
    if node.this is exp.DataType.Type.XML:
        check_xml_text(node)
    if isinstance(node.this, exp.Interval):
        refuse(
            "type",
            "an interval has a field after its type",
            "write CAST(x AS INTERVAL), and date_trunc('day', x) to cut it",
        )
    if not known and not (kind and enums is not None and enums.accepts(node)):
        refuse(
            "type",
            "a value is converted to a type that is not supported",
            _TYPE_ADVICE.get(dialect, "convert it to TEXT, INTEGER, DOUBLE, DECIMAL(12, 2), DATE or TIMESTAMP"),
        )


def _elements(kind: exp.Expr) -> int:
    """Return the number of elements of a value of a type in arrays of a fixed size. DuckDB allocates all of them, for many rows at once."""
    parts = [part.args.get("kind") if isinstance(part, exp.ColumnDef) else part for part in kind.expressions]
    within = sum(_elements(part) for part in parts if isinstance(part, exp.DataType))
    sizes = [
        int(size.name) if _is_small(size, _MAX_ARRAY) else _MAX_ARRAY + 1 for size in kind.args.get("values") or ()
    ]
    return math.prod(sizes) * max(within, 1)


def _is_type(name: str, dialect: DialectName) -> bool:
    record = RECORDS[dialect]
    return name in _TYPES or name.lower() in record.types or (name in _NESTED_TYPES and record.struct_fields)


def _is_known(kind: object, dialect: DialectName) -> bool:
    """Return True if a type unknown to the parser is one of the engine's own."""
    name = kind.name.lower() if isinstance(kind, exp.Identifier) else kind
    return isinstance(name, str) and name in RECORDS[dialect].types


def _check_join(node: exp.Expr, dialect: DialectName) -> None:
    methods = RECORDS[dialect].join_methods
    side, kind, method = (str(node.args.get(name) or "").upper() for name in ("side", "kind", "method"))
    if (side and side not in _SIDES) or (kind and kind not in _JOINS) or (method and method not in methods):
        refuse(
            "syntax",
            f"{shown(' '.join(filter(None, (method, side, kind))))} JOIN is not supported",
            "use INNER, LEFT or CROSS JOIN",
        )


_RECORD_FIELDS: Final = ByDialect(
    lambda record: frozenset(
        {name for names in record.table_functions.values() for name in names if len(names) > 1}
        | {f"f{place}" for place in range(1, 100)}
    )
)
"""Fields of records from functions of PostgreSQL and ROW(…). None of them is a function."""


def _check_field(node: exp.Expr, dialect: DialectName) -> None:
    """Check `value.field` of a struct; DuckDB's `value.function()` is refused, and so is a schema's function.

    PostgreSQL reads `(x).name` as a call of the function `name` if x has no such field:
    https://www.postgresql.org/docs/current/rowtypes.html#ROWTYPES-USAGE. So only known fields are permitted.
    """
    if isinstance(node.parent, exp.DataType):
        return  # the name of a type, which was checked with the type
    if RECORDS[dialect].fields_may_be_calls:
        record = node.this.this if isinstance(node.this, exp.Paren) else None
        plain = isinstance(record, (exp.Column, exp.Anonymous)) and isinstance(node.expression, exp.Identifier)
        if not plain or node.expression.name not in _RECORD_FIELDS[dialect]:
            refuse("syntax", "a row has an unknown field", syntax_alternative("Dot"))
        return
    if not isinstance(node.expression, exp.Identifier) or isinstance(node.this, exp.Identifier):
        refuse("function", "a function is called through a value or a schema", "write function(value)")


def _check_mysql(node: exp.Expr, dialect: DialectName) -> None:
    """Refuse `a <=> b < c`, which is `(a <=> b) < c`, because the parser reads it as `a <=> (b < c)`."""
    value = node.expression
    if isinstance(node, exp.Introducer):
        if str(node.this).removeprefix("_").upper() not in _CHARACTER_SETS or not isinstance(
            value, (exp.Literal, exp.HexString)
        ):
            refuse("type", "a text has a character set that is not supported", "write only the text")
    elif RECORDS[dialect].loose_null_safe and isinstance(value, exp.Paren) and isinstance(value.this, _COMPARISONS):
        refuse("syntax", "<=> is followed by another comparison", "write the comparisons apart, joined by AND")


def _check_words(node: exp.Expr, dialect: DialectName) -> None:
    if RECORDS[dialect].searches_words:
        check_search(node)


def _check_star(node: exp.Expr, _dialect: DialectName) -> None:
    """Refuse `* ILIKE 'a%'` outside of a SELECT list: it is a list of columns, which `count(*)` does not accept."""
    holder = node.parent.parent if isinstance(node.parent, exp.Column) else node.parent
    selects = isinstance(holder, exp.Select) or (isinstance(holder, exp.Anonymous) and called(holder) == "columns")
    if node.args.get("ilike") is not None and not selects:
        refuse("syntax", "* ILIKE is used outside of a SELECT list", "name the columns")


def _check_sample(node: exp.Expr, _dialect: DialectName) -> None:
    if (method := node.args.get("method")) is not None and method.name.lower() not in _SAMPLE_METHODS:
        refuse(
            "syntax", "a sample has a method that is not supported", "write USING SAMPLE 10 ROWS, or TABLESAMPLE 10%"
        )


def _check_modifiers(node: exp.Expr, _dialect: DialectName) -> None:
    for word in node.args.get("operation_modifiers") or ():
        if word.name.upper() not in MODIFIERS:
            refuse("syntax", f"{shown(word.name)} is not supported after SELECT", "leave it out")


def _check_frame(node: exp.Expr, _dialect: DialectName) -> None:
    for name in ("start", "end"):
        bound = node.args.get(name)
        if isinstance(bound, str) and bound.upper() not in _FRAMES:
            refuse(
                "syntax", "a window frame has a bound that is not supported", "use UNBOUNDED, CURRENT ROW or a number"
            )
    for name in ("kind", "start_side", "end_side", "exclude"):
        word = node.args.get(name)
        word = word.name if isinstance(word, exp.Var) else word
        if word and not (isinstance(word, str) and word.replace(" ", "").isalpha()):
            refuse("syntax", "a window frame is not understood", "use ROWS BETWEEN … AND …")


def _check_table(node: exp.Expr, dialect: DialectName) -> None:
    if not isinstance(node.args.get("db"), (exp.Identifier, NoneType)):
        refuse("syntax", "the schema of a table is not a name", "write schema.table")
    if (functions := node.args.get("rows_from")) is not None and node.this is None:
        for function in functions:
            _check_function_in_rows(function)
        return
    if isinstance(node.this, (exp.Identifier, exp.JSONTable, exp.XMLTable)) and not (
        isinstance(node.this, (exp.JSONTable, exp.XMLTable)) and node.args.get("db")
    ):
        return
    if not isinstance(node.this, exp.Anonymous) or node.args.get("db"):
        refuse("syntax", "FROM contains something other than a table", "name a table")
    name = called(node.this)
    if source_columns(name, dialect) is None:
        known = ", ".join(sorted(TABLE_FUNCTIONS[dialect]))
        refuse(
            "function",
            f"the function {shown(name or str(node.this.this))} is not available in FROM",
            catalog_alternative(name, "") or f"name a table, or call one of these: {known}"
            if known
            else "name a table",
        )


def _check_function_in_rows(function: exp.Expr) -> None:
    """Check `ROWS FROM (f(x), g(y))`, which may contain only calls without names or declared columns of their own."""
    given = {name for name, value in function.args.items() if value}
    call = isinstance(function, exp.Table) and isinstance(function.this, exp.Anonymous) and given == {"this"}
    if not call and not (isinstance(function, exp.Unnest) and given <= {"expressions"}):
        refuse(
            "syntax",
            "ROWS FROM contains something other than function calls",
            "write ROWS FROM (f(x), g(y)) AS t(a, b)",
        )


def _check_gathered_limit(node: exp.Expr, _dialect: DialectName) -> None:
    """Check `GROUP_CONCAT(x ORDER BY y LIMIT 2)`: https://mariadb.com/kb/en/group_concat/. `LIMIT 50%` is a number, and belongs to a
    query.
    """
    if node.args.get("limit_options") is not None and not (
        isinstance(node.expression, exp.Literal) and not node.expression.is_string
    ):
        refuse("limit", "the share of a LIMIT is not a literal number", "write LIMIT 50%, or LIMIT and a number")
    if node.this is None and node.args.get("offset") is None:
        return
    counts = [node.expression, *filter(None, [node.args.get("offset")])]
    gathered = isinstance(node.parent, exp.GroupConcat) or (
        isinstance(node.parent, exp.Anonymous) and called(node.parent) == "json_arrayagg"
    )
    if not gathered or not all(map(_is_whole, counts)):
        refuse("limit", "the LIMIT of a function is not a literal number", "write GROUP_CONCAT(x ORDER BY y LIMIT 3)")


_CHECKS: Mapping[type[exp.Expr], Callable[[exp.Expr, DialectName], None]] = {
    exp.Identifier: _check_identifier,
    exp.Join: _check_join,
    exp.WindowSpec: _check_frame,
    exp.Table: _check_table,
    exp.Select: _check_modifiers,
    exp.Dot: _check_field,
    exp.Limit: _check_gathered_limit,
    exp.Star: _check_star,
    exp.TableSample: _check_sample,
    exp.Kwarg: _check_named_argument,
    exp.ColumnDef: _check_declaration,
    exp.NullSafeEQ: _check_mysql,
    exp.Introducer: _check_mysql,
    exp.MatchAgainst: _check_words,
    exp.XMLTable: lambda node, _dialect: check_xml_table(node),
    exp.Operator: lambda node, _dialect: check_operator(node),
}


def is_number(node: exp.Expr | None) -> bool:
    """Return True if a LIMIT or OFFSET is a literal whole number or a placeholder."""
    if isinstance(node, exp.Column):
        return slot_number(node) is not None
    return isinstance(node, exp.Literal) and not node.is_string and node.name.isascii() and node.name.isdigit()
