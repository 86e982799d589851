"""Cost of a function or operator: the maximum size of its result, its work and its memory, by the sizes of its arguments.

Sizes are bytes, work is nanoseconds on a slow machine. The numbers were measured with the largest arguments that the guard allows and
rounded up; a test generates calls of every function and compares the engines with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from msgspec import Struct

__all__ = ["COMMON", "OPERATORS", "Cost", "Costs", "Result", "table"]

Result: TypeAlias = Literal[
    "scalar",  # a number, a date, a boolean
    "digest",  # a short text
    "one",  # one of the arguments, unchanged
    "top",  # one of the arguments, or a list of as many values as the number after them
    "bits",  # a text of bits: the second and third argument are the first and the last bit
    "sum",  # all arguments together
    "repeat",  # the first, repeated `count` times (the value of the argument at that position)
    "pad",  # the first, padded to `count` characters
    "space",  # a text of `count` characters
    "series",  # a list of `count` elements
    "replace",  # the first, with each occurrence of the second replaced by the third
    "insert",  # the first, with each character replaced by the third
    "wrap",  # the largest, with the last around each word
    "join",  # the first, with the second after each character
    "join_rest",  # the others, with the first between them
    "template",  # the first, with each placeholder replaced by another argument or padded to a width
    "map",  # the second, for each element of the first
    "filter",  # a part of the first; the second is a condition, computed for each element
    "gather",  # values of many rows
    "collect",  # a JSON document of values of many rows
    "document",  # a JSON document that contains the arguments
    "json",  # a part of a JSON document, or the complete document with the other arguments added
    "indent",  # a JSON document in which each part is indented by its depth
    "power",  # a number, whose digits grow with the exponent
    "factorial",  # a number with the digits of a factorial
    "fill",  # an array of the first, with the sizes in the second
    "cast",  # the argument converted to another type
]
"""Rule for the size of a result."""


class Cost(Struct, frozen=True, kw_only=True):
    """Bound on one call.

    `factor`: bytes of the result for each byte of the rule. `count`: position of the argument that is the rule's number. `work`:
    nanoseconds for each byte of the arguments and the result together. `pairs`: nanoseconds for each pair of a byte of the first argument
    and a byte of another, which is searched in it. `square`: nanoseconds for each pair of bytes of the largest argument. `memory`: bytes of
    memory for each byte of the arguments or of the result, whichever is larger. `pair_memory`: bytes for each pair of bytes of the two
    largest arguments, if the largest is a text that the statement makes. `pattern`: position of a regular expression among the arguments.
    `compiling`: bytes for each of its characters, for an engine that makes an automaton of it; without them, the engine backtracks. `path`:
    position of a jsonpath.
    """

    result: Result = "scalar"
    factor: float = 1.0
    count: int = 1
    work: float = 20.0
    pairs: float = 0.0
    square: float = 0.0
    memory: float = 1.0
    pair_memory: float = 0.0
    pattern: int = -1
    compiling: float = 0.0
    path: int = -1


Costs: TypeAlias = Mapping[str, Cost]


def table(*groups: Iterable[tuple[Cost, str]]) -> Costs:
    """Return costs by name, from groups of names with one cost. A later group replaces an earlier one."""
    return MappingProxyType({name: cost for group in groups for cost, names in group for name in names.split()})


COMMON: Final = (
    (
        Cost(),
        """
        acos asin atan atan2 cos count cume_dist degrees dense_rank exp length ln log log10 log2 mod ntile percent_rank pi pow power
        radians rank row_number sign sin sqrt tan
        """,
    ),
    (Cost(result="one", work=1), "coalesce first_value lag last_value lead max min nth_value nullif"),
    (Cost(result="sum"), "abs avg ceil ceiling concat floor ltrim round rtrim substr substring sum trim"),
    (Cost(result="sum", factor=2), "lower upper"),
    (Cost(result="join_rest"), "concat_ws"),
    (Cost(result="replace", pairs=1.2), "replace"),
)
"""Functions of all dialects."""

_FREE: Final = Cost(result="one", work=0, memory=0)

OPERATORS: Final = (
    (
        Cost(result="one", work=1),
        """
        EQ NEQ GT GTE LT LTE NullSafeEQ NullSafeNEQ Is Between In And Or Xor Not Exists Case If Collate Any All Overlaps Filter Window
        WithinGroup RespectNulls IgnoreNulls Extract AtTimeZone Neg BitwiseNot Ordered Bracket Slice Escape Distinct Add Sub
        """,
    ),
    (
        Cost(result="sum", work=2),
        """
        BitwiseAnd BitwiseOr BitwiseXor BitwiseLeftShift BitwiseRightShift DPipe Substring Trim Overlay Tuple Abs
        Array Struct List Map ToMap Introducer National Dot Interval
        """,
    ),
    (
        Cost(result="scalar"),
        "Pow Sqrt Cbrt StrPosition StartsWith Like ILike Glob SimilarTo RegexpLike RegexpILike RegexpFullMatch",
    ),
    (Cost(work=1, pairs=0.2), "Adjacent ArrayContainsAll ArrayContainedBy ArrayOverlaps MemberOf"),
    (Cost(work=2), "Mul Div Mod IntDiv"),
    (Cost(result="cast"), "Cast TryCast"),
    (Cost(result="gather", work=0), "GroupConcat"),
    (Cost(result="document", memory=4), "JSONObject"),
    (Cost(result="json", work=100, memory=6), "JSONExtract JSONExtractScalar JSONTable"),
    (
        _FREE,
        """
        Select Union Except Intersect Subquery Values With CTE From Join Lateral Unnest Explode Table TableAlias Where Group GroupingSets
        Cube Rollup Having Qualify Order Limit Offset Fetch LimitOptions TableSample Summarize RecursiveWithSearch Column Identifier Star
        Alias Literal Boolean Null HexString BitString ByteString RawString Paren Var DataType DataTypeParam WindowSpec CurrentDate
        CurrentTime CurrentTimestamp Localtime Localtimestamp Kwarg ColumnDef JSONKeyValue PropertyEQ Lambda Comprehension Parameter
        CharacterSet IndexTableHint IntervalSpan JSONSchema JSONColumnDef JSONBContains JSONBContainsTopKey JSONBContainsAnyTopKeys
        JSONBContainsAllTopKeys JSONBPathExists JSONBDeleteAtPath JSONBExtract JSONBExtractScalar MatchAgainst Anonymous
        """,
    ),
)
"""Operators and other parts of a statement, by the names of the parser's classes; dialects add their own."""
