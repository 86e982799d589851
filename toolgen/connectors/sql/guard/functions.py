"""Functions that a statement may call in each dialect, and limits of their arguments.

The lists are curated: a listed function computes a value from its arguments, and reads or changes nothing else. Other functions are
refused; a policy may add some.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from toolgen.connectors.sql.dialects import RECORDS, ByDialect
from toolgen.model.database import DialectName

__all__ = [
    "CAPS",
    "FORMATTERS",
    "FUNCTIONS",
    "GROWING",
    "KEYWORD_ARGUMENTS",
    "LAMBDAS",
    "MODIFIERS",
    "SPECIAL",
    "TABLE_FUNCTIONS",
    "WRITTEN_OUT",
    "Cap",
    "source_columns",
]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


FUNCTIONS: Mapping[str, frozenset[str]] = ByDialect(lambda record: frozenset(record.functions))
"""Allowed scalar, aggregate and window functions by dialect, folded to lower case."""

TABLE_FUNCTIONS: Mapping[str, Mapping[str, tuple[str, ...]]] = ByDialect(lambda record: record.table_functions)
"""Functions allowed in FROM, with their columns."""


def source_columns(name: str, dialect: DialectName) -> tuple[str, ...] | None:
    """Return the columns that a function gives in FROM: () if its alias declares them, None if it is not allowed there."""
    columns = TABLE_FUNCTIONS[dialect].get(name)
    return (name,) if columns is None and name in RECORDS[dialect].scalars_in_from else columns


SPECIAL: Mapping[str, frozenset[str]] = ByDialect(lambda record: record.special_calls)
"""Calls with their own grammar, which the parser must parse; all others are `name(argument, …)`, and are kept as written."""

KEYWORD_ARGUMENTS: Mapping[str, tuple[int, frozenset[str]]] = MappingProxyType(
    {
        "timestampdiff": (0, _names("microsecond second minute hour day week month quarter year")),
        "timestampadd": (0, _names("microsecond second minute hour day week month quarter year")),
        "get_format": (0, _names("date time datetime timestamp")),
        "normalize": (1, _names("nfc nfd nfkc nfkd")),
    }
)
"""Functions with a keyword argument that looks like a column: its position and the keywords (MySQL; PostgreSQL's normalize)."""


class Cap(Struct, frozen=True, kw_only=True):
    """Limit of an argument: the literal at `index` must not be larger than `largest`; with `strict`, only a literal is allowed."""

    index: int
    largest: int
    strict: bool = True


CAPS: Mapping[str, Cap] = MappingProxyType(
    {
        "repeat": Cap(index=1, largest=1_000),
        "lpad": Cap(index=1, largest=1_000),
        "rpad": Cap(index=1, largest=1_000),
        "replicate": Cap(index=1, largest=1_000),
        "space": Cap(index=0, largest=1_000),
        "zeroblob": Cap(index=0, largest=1_000),
        "randomblob": Cap(index=0, largest=1_000),
        "approx_top_k": Cap(index=1, largest=1_000),
        "array_resize": Cap(index=1, largest=1_000),
        "list_resize": Cap(index=1, largest=1_000),
        "generate_array": Cap(index=1, largest=100_000, strict=False),
        "generate_series": Cap(index=1, largest=100_000, strict=False),
        "range": Cap(index=-1, largest=100_000, strict=False),
    }
)
MODIFIERS = frozenset(  # https://dev.mysql.com/doc/refman/8.4/en/select.html: words that only affect the optimizer
    [
        "STRAIGHT_JOIN",
        "HIGH_PRIORITY",
        "SQL_NO_CACHE",
        "SQL_CACHE",
        "SQL_SMALL_RESULT",
        "SQL_BIG_RESULT",
        "SQL_BUFFER_RESULT",
    ]
)
"""Words after SELECT in MySQL that change no answer."""

LAMBDAS = _names(
    """
    apply array_apply array_filter array_reduce array_transform filter list_apply list_filter list_reduce list_transform reduce
    """
)
"""DuckDB's functions with a function argument; in the arguments of any other an arrow reads JSON."""

GROWING = _names("repeat lpad replicate rpad space zeroblob randomblob")
"""Functions whose arguments determine the length of the result. Nested, their limits would multiply."""

WRITTEN_OUT: Mapping[str, int] = MappingProxyType({"translate": 1, "btrim": 1, "ltrim": 1, "rtrim": 1, "trim": 1})
"""Arguments from this position on must be literals if the server cannot be interrupted: it searches each character of one in all of the
other.
"""

FORMATTERS = _names("printf format")
"""Functions whose first argument is a template with widths: it must be a literal, and its widths small."""
