"""Dialect record: what the guard knows about one SQL engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct, field
from sqlglot import exp
from sqlglot.generator import Generator
from sqlglot.tokenizer_core import Token, TokenType

from toolgen.connectors.sql.dialects.costs import Costs
from toolgen.model.database import DialectName

if TYPE_CHECKING:
    from toolgen.connectors.sql.execution.engine import Engine
    from toolgen.connectors.sql.execution.server_address import Reach
    from toolgen.connectors.sql.reading.schema import ReadSchema
    from toolgen.core.clock import Clock
    from toolgen.model.call import Statement
    from toolgen.model.database_rights import Rights
    from toolgen.model.database_url import ServerLocation

__all__ = [
    "AccountStatements",
    "Dialect",
    "Gathering",
    "RowEstimate",
    "Spelling",
    "TokenRewrite",
    "TreeRewrite",
    "Writer",
    "words",
]

_Tokens: TypeAlias = Callable[[Sequence[Token]], Iterable[Token]]
_Tree: TypeAlias = Callable[[exp.Expr], None]
Writer: TypeAlias = Callable[[Generator, exp.Expr], str]
"""Writer of one kind of node, where sqlglot's SQL would have another meaning in the engine, or is missing."""

Spelling: TypeAlias = Literal[
    "absolutes",  # `@ x` is abs(x)
    "affinities",  # a type has the affinity of its name
    "catalog_prefix",  # `pg_catalog.lower(x)`
    "dotted_calls",  # `x.upper()` is upper(x), and arrows have the precedence of operators
    "dual",  # `FROM DUAL` means no FROM
    "factorial_signs",  # `n!` is factorial(n)
    "excluded_names",  # `* EXCLUDE name`
    "group_separators",  # GROUP_CONCAT has a default separator
    "hex_numbers",  # `0x0A` is a number beside numbers, and `X'0A'` a text
    "index_hints",  # `USE INDEX (name)`
    "indexed_by",  # `INDEXED BY name`
    "interval_fields",  # `INTERVAL '2' DAY`
    "interval_texts",  # `INTERVAL '2 weeks 1 day'`
    "json_keys",  # the right operand of a JSON arrow is one key or index, not a path
    "null_tests",  # `a IS NOT DISTINCT FROM NULL`
    "nulls_inside",  # `f(x IGNORE NULLS)`
    "operator_order",  # `ORDER BY x USING >`
    "sample_methods",  # `SAMPLE 50 PERCENT (bernoulli)`
    "signed_types",  # INTEGER is SIGNED, and `TIMESTAMP '…'` a DATETIME
    "table_queries",  # `TABLE t` is a query
    "unicode_texts",  # `U&'…'`
    "utc_words",  # `UTC_DATE` is a call
]
"""Syntax that the guard normalizes before it checks a statement."""


class TokenRewrite(Struct, frozen=True):
    """Rewrite of tokens before the parser reads them. It runs if the statement has the word or the kind of token `trigger`."""

    trigger: str | TokenType
    rewrite: _Tokens


class TreeRewrite(Struct, frozen=True):
    """Rewrite of the parsed tree in place. It runs if the tree has a node of one of `kinds`, or of a derived class.

    `makes_nodes`: other rewrites may have to process its nodes. `names`: it runs only if an identifier has one of these names, in lower
    case.
    """

    kinds: tuple[type[exp.Expr], ...]
    rewrite: _Tree
    makes_nodes: bool = True
    names: frozenset[str] = frozenset()


class Gathering(Struct, frozen=True):
    """Bound on aggregated values of many rows, for an engine without a memory limit per session.

    `bound` changes a checked tree in place, and returns the functions that it added. It runs if `may_gather` is true for the text.
    """

    may_gather: Callable[[str], bool]
    bound: Callable[[exp.Expr], frozenset[str]]


class AccountStatements(Struct, frozen=True, kw_only=True):
    """Statements for an administrator of a server about the account of a source. Names of accounts are quoted.

    `make` takes an account, the database, the schemas, True for an account that writes, and its maximum number of sessions. `bound` takes
    the resource, an account and the maximum number of sessions. `rights` returns the account as it is written in GRANT. `rows` names the
    server's means to hide rows. `grant` gives the right to read a table to an account, for a server without grants by privilege and column.
    """

    make: Callable[[str, str, Sequence[str], bool, int], Sequence[str]]
    bound: Callable[[str, str, int], str]
    rights: Callable[[str], str]
    password_hint: Callable[[str], str]
    memory_hint: Callable[[str], str]
    rows: str
    grant: Callable[[str, str], str] | None = None


class RowEstimate(Struct, frozen=True):
    """Query of a catalog for the number of rows of a table. `values` gives its parameters for a schema and a table."""

    sql: str
    values: Callable[[str, str], tuple[str, ...]]


class Dialect(Struct, frozen=True, kw_only=True):
    """Knowledge about one engine. Rewrites keep the meaning of a statement. Defaults follow standard SQL, or are the stricter choice."""

    name: DialectName
    engine: str  # name as people write it
    # functions and costs
    functions: Costs  # allowed scalar, aggregate and window functions, by their names in lower case
    operators: Costs  # operators by the names of the parser's classes
    max_row_memory: float = 50e6  # bytes for the values of one row
    uninterruptible: bool = False  # the server does not check its time limit inside of a function
    # functions allowed in FROM, with their columns
    table_functions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unnested_columns: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # columns of unnest for a type that is not a list
    scalars_in_from: frozenset[str] = frozenset()  # functions of one value allowed in FROM as one row
    # calls with their own grammar, which the parser must parse; others are passed through it unchanged
    special_calls: frozenset[str] = frozenset()
    named_arguments: frozenset[str] = frozenset()  # functions with named arguments
    # functions with a keyword in the place of an argument, besides those of every dialect: its position and the keywords
    keyword_arguments: Mapping[str, tuple[int, frozenset[str]]] = field(default_factory=dict)
    equivalents: Mapping[str, str] = field(default_factory=dict)  # equivalents for functions of other engines
    bounded_values: bool = (
        False  # the session limits the size of each value, so that a width may be an argument: `printf('%*d', n, x)`
    )
    format_takes_template: bool = True  # format() takes a template with widths
    padded_types: frozenset[exp.DType] = frozenset()  # types whose values have the length in the type
    gathering: Gathering | None = None
    estimate: RowEstimate | None = None  # without one, rows are counted up to a limit
    # grammar
    grammar: Mapping[str, str] = field(
        default_factory=dict
    )  # arguments by class of node; `+` adds to those of every dialect
    types: frozenset[str] = frozenset()  # names of types that the parser does not know
    spellings: frozenset[Spelling] = frozenset()
    interval_units: frozenset[str] = frozenset()  # words after the value of an interval
    # words that begin a query, in addition to those of every dialect
    query_starts: frozenset[TokenType] = frozenset()
    join_methods: frozenset[str] = frozenset({"NATURAL"})
    select_modifiers: bool = False  # STRAIGHT_JOIN and similar words after SELECT
    standard_calls: Mapping[str, Callable[[Sequence[Token], int], bool]] = field(
        default_factory=dict
    )  # special calls that are also functions: True if arguments from a position on have the standard syntax
    json_tables: bool = False  # JSON_TABLE declares columns
    declared_records: bool = False  # an alias declares columns: `jsonb_to_record(x) AS r(a int)`
    converts_to_types: bool = False  # `CONVERT(x, CHAR(10))`
    comprehensions: bool = False  # `[x FOR x IN l IF …]`
    lambdas: bool = False  # an arrow makes a function; elsewhere it reads JSON
    typed_json_arrows: bool = False  # an arrow is only for JSON
    array_comparisons: bool = False  # `x <> ALL (array)`
    character_sets: bool = False  # `CAST(x AS CHAR CHARACTER SET utf8mb4)`
    searches_words: bool = False  # `MATCH (a, b) AGAINST ('words')`
    loose_null_safe: bool = False  # `a <=> b < c` is `(a <=> b) < c`
    fields_may_be_calls: bool = False  # `(x).name` calls the function `name` where x has no such field
    text_rewrite: Callable[[str], str] | None = None  # before the text is tokenized
    token_rewrites: tuple[TokenRewrite, ...] = ()
    tree_rewrites: tuple[TreeRewrite, ...] = ()
    writers: Mapping[type[exp.Expr], Writer] = field(default_factory=dict)
    hint: Callable[[Sequence[str]], str] | None = None  # correction for words that could not be parsed, or ""
    rows_as_selects: bool = False  # rows of VALUES are written as `SELECT … UNION ALL SELECT …`
    # values as written
    executable_comments: bool = False  # `/*! … */` runs
    nested_tests: bool = False  # `a LIKE b NOT IN (c)` is `a LIKE (b NOT IN (c))`
    exclamation_negates: bool = False  # `!x`
    tilde_operators: bool = False  # `!~`
    radix_letters: str = ""  # letters after 0 in numbers that every version reads alike
    digit_separators: bool = False  # `1_000`
    neighbouring_texts: Literal["", "lines", "always"] = ""  # where two texts beside each other are one
    typed_texts: Mapping[str, str] | None = None  # forms of `DATE '…'` by type; None for any type, {} for no form
    interval_needs_unit: bool = False
    interval_spans: bool = False  # `INTERVAL '1-2' YEAR TO MONTH`
    # names
    quote: str = '"'  # around names
    default_schema: str = ""
    implicit_columns: frozenset[str] = frozenset()  # columns of tables that no catalog lists
    implicit_advice: str = ""  # what to do without them
    niladic: frozenset[str] = frozenset()  # functions that are called without parentheses
    names_before_niladic: bool = False  # names of a query precede such a function
    exact_names: bool = False  # all names are case-sensitive
    keeps_quoted_case: bool = False  # a quoted name keeps its case
    folds_all_letters: bool = False  # letters beyond ASCII are case-insensitive too
    folds_tables: bool = False  # tables never differ only in case
    server_folds_tables: bool = False  # a server setting decides if tables may differ only in case
    max_name_bytes: int = 0  # longer names are cut; 0 for no limit
    max_alias_length: int = (
        0  # characters of a name, which has none beyond U+FFFF and no spaces around it; 0 for no limit
    )
    row_ids: frozenset[str] = frozenset()  # implicit columns that only identify a row
    row_id: str = ""  # name under which the use of one is recorded
    subquery_row_numbers: bool = False  # subqueries have them too
    rowid_keys: bool = False  # an INTEGER primary key is the number of the row
    alias_clauses: frozenset[str] = frozenset()  # places where aliases of SELECT can be used inside of expressions
    alias_subquery_clauses: frozenset[str] = frozenset()  # clauses whose subqueries see them
    bare_aliases: bool = False  # aliases can be used only as complete items of ORDER BY, GROUP BY and DISTINCT ON
    window_aliases: bool = False  # aliases can be used inside of window functions
    column_selections: bool = False  # COLUMNS(…) represents several columns
    struct_fields: bool = False  # `column.field`
    whole_row_calls: bool = False  # `row_to_json(t.*)`
    tables_as_values: bool = False  # the name of a table is its row
    values_columns: tuple[str, int] = ("column", 1)  # prefix and first number of the columns of VALUES
    lateral_subqueries: bool = False  # a subquery in FROM sees the tables before it
    subquery_name: str = ""  # name of a subquery in FROM without an alias; "" if it has none
    later_ctes: Literal["", "recursive", "always"] = ""  # places where a query sees common table expressions after it
    later_ctes_hide: bool = False  # a later one hides one of an enclosing query
    implicit_recursion: bool = False  # WITH without RECURSIVE may be recursive
    recursion_keeps_types: bool = False  # columns of a recursion have the types of its first query; longer values fail
    groups_by_key: bool = False  # a table grouped by its key has all of its columns
    sequence_tables: Callable[[str], bool] | None = None  # True for a name that is a list of numbers
    # names of columns of the result
    titles_by_text: bool = False  # a computed column is named by its text
    titles_with_comments: bool = False  # a comment after it belongs to the text
    titles_by_value: bool = False  # booleans and signed values are named by their values
    titles_respelt: bool = False  # the engine rewrites the text
    titles_by_function: bool = False  # a computed column is named by its function
    untyped_results: bool = False  # the engine does not report types of columns
    # parameters
    number_mark: str = ""  # prefix of the number of a parameter; "" without numbers
    always_numbered: bool = False  # parameters are `$1`, never `?`
    question_operators: bool = False  # `?` is an operator as well
    dollar_words: bool = False  # the parser reads `$1` as a word
    named_marks: bool = False  # `?1`, `@name` and `$name`
    types_by_first_use: bool = False  # the first use decides the type of a parameter
    list_parameters: bool = False  # a parameter may be a list
    # conditions, order and limits
    stable_comparisons: bool = False  # no comparison of a column of an ordinary type fails
    merges_subqueries_wrongly: bool = False  # below WITH ROLLUP, window functions and subqueries in HAVING
    fence: tuple[Literal["limit", "offset"], int] = ("limit", 2**63 - 1)  # clause beyond which no condition is moved
    nulls_first: bool = False
    orders_once: bool = False  # ORDER BY may have each column once
    unsorted_types: bool = False  # values of some types have no order
    groups_as_equal: bool = False  # equal values of one type are one group and one key, and adjacent after sorting
    loose_texts: bool = False  # texts that differ only in case are equal
    named_enums: bool = False  # types of enum columns have names, to which texts are cast
    exact_labels: bool = False  # labels of an enum are case-sensitive
    lenient_labels: bool = False  # an enum may hold '' and numbers of labels
    negative_limits: bool = False  # a negative LIMIT means no limit
    computed_limits: bool = True  # LIMIT takes an expression
    cross_checked: bool = False  # a second parser may check the statement
    changes: bool = True  # the engine has transactions, in which rows are changed
    # reading and execution: functions with their own imports, as drivers are extras. `location` is one of the dialect's own.
    read: Callable[[Any, str], ReadSchema]  # reads the schema of a location with a password
    prepare: Callable[
        [Any, str, Sequence[Statement]], Iterator[str | tuple[str, ...]]
    ]  # column types, or the reason why a statement is rejected
    rights: Callable[[Any, str], Rights] | None = None  # rights of the account; None for a file
    accounts: AccountStatements | None = None  # None for a file, and for a server without statements of ours
    # prefix of a statement that makes a plan and runs nothing; "" if the engine tells of the statement itself, None if it tells nothing
    explain: str | None = "EXPLAIN "
    open_engine: Callable[[ServerLocation, Reach, Clock], Engine] | None = None  # engine of a server
    sandbox: str = ""  # module that runs statements on a file, in a separate process
    driver: str = ""  # module that such a process needs in addition to Python's own


def words(text: str) -> frozenset[str]:
    """Words of a text, separated by spaces."""
    return frozenset(text.split())
