"""How large the values of one row may become: a bound worked out from the text of a statement, before anything runs.

A server looks at the clock, and at who cancels, between rows and not inside of a function; PostgreSQL has no ceiling of memory for a
session. What tables hold is taken to be small; what a statement itself multiplies is counted. SQLite and DuckDB run in processes with a
ceiling.

How often a text may be worked through that only the server's own bounds keep small: 1 GB in PostgreSQL, seconds for each function.

Nothing looks at the clock between the functions of one row, so a chain of them would go on for as long as it is, even when it is cancelled.
MySQL gathers 1 MB unless its operator says otherwise, and the processes of SQLite and DuckDB are ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from sqlglot import exp

from toolgen.policy.sql.column_names import computed_title
from toolgen.policy.sql.placeholders import CALL, slot_number
from toolgen.policy.sql.refusal import refuse

__all__ = ["check_sizes", "check_transforms"]

_Type = exp.DType
_PADDED: Final = {
    "postgres": frozenset({_Type.CHAR, _Type.NCHAR, _Type.BPCHAR, _Type.BIT}),
    "mysql": frozenset({_Type.BINARY, _Type.BIT}),
}
_MAX_PADDED_LENGTH: Final = 1_000
_MAX_TYPE_LENGTH: Final = 65_535

_OF_A_TABLE: Final = 1_000  # characters
_PARAMETER: Final = 10_000
_GATHERED: Final = 100_000
_MAX_GATHERED: Final = 10  # values as large as they come; rows are interrupted
_MAX_DIGITS: Final = 147_455  # https://www.postgresql.org/docs/current/datatype-numeric.html#DATATYPE-NUMERIC-TABLE
_MAX_COUNT: Final = 50_000_000  # of all values of a row together
_STEPS: Final = 32  # of a recursion: what doubles in each is too large by then
_LONG_DIVISION: Final = 800  # digits of the one by digits of the other, in the time that a character takes

_GATHERING: Final = frozenset(
    {
        "array_agg", "group_concat", "json_agg", "json_arrayagg", "json_object_agg", "json_objectagg", "jsonb_agg", "jsonb_agg_strict",
        "jsonb_object_agg", "jsonb_object_agg_strict", "string_agg",
    }
)  # fmt: skip
_DOUBLING: Final = frozenset(
    {"encode", "format", "hex", "json_quote", "quote", "quote_ident", "quote_literal", "quote_nullable", "to_base64"}
)
_GROWING: Final = frozenset(
    {"array_to_string", "concat_ws", "lpad", "regexp_replace", "repeat", "replace", "rpad", "space"}
)
_DOCUMENTS: Final = frozenset(
    {
        "json_array", "json_build_array", "json_build_object", "json_object", "jsonb_build_array", "jsonb_build_object", "row_to_json",
        "to_json", "to_jsonb",
    }
)  # fmt: skip
_POWERS: Final = frozenset({"exp", "factorial", "pow", "power"})
_DIVISIONS: Final = frozenset({"div", "gcd", "lcm", "ln", "log", "mod", "sqrt"})
_MULTIPLYING: Final = _GROWING | _DOUBLING | _DOCUMENTS | _POWERS
_CANDIDATES: Final = frozenset({exp.Anonymous, exp.DPipe, exp.Literal, exp.Pow, exp.JSONObject})
_Sizes: TypeAlias = list[int]


def check_sizes(root: exp.Expr, dialect: str) -> None:
    """Raises `Refusal`, rule `size`."""
    padded = _PADDED.get(dialect, frozenset())
    multiplies = False
    for node in root.walk():
        kind = type(node)
        if kind is exp.DataTypeParam:
            _check_type_size(node, padded)
        elif kind in _CANDIDATES and not multiplies:
            multiplies = _multiplies(node)
    if multiplies and dialect in _PADDED:
        _Row().check(root)


def _check_type_size(size: exp.Expr, padded: frozenset[exp.DType]) -> None:
    number, kind = size.this, size.parent
    largest = _MAX_PADDED_LENGTH if isinstance(kind, exp.DataType) and kind.this in padded else _MAX_TYPE_LENGTH
    if not (isinstance(number, exp.Literal) and number.name.isdigit() and int(number.name[:9]) <= largest):
        refuse(
            "size", f"the size of a type is not a number up to {largest}", "write a smaller one, or TEXT without a size"
        )


def _multiplies(node: exp.Expr) -> bool:
    """Whether a value can be larger than those it is made of together; joined in an inner query, it can be joined again in the outer."""
    if isinstance(node, exp.DPipe) or _called(node) == "concat":
        query = node.find_ancestor(exp.Query)
        return query is not None and query.parent is not None
    if isinstance(node, exp.Literal):
        return not node.is_string and _digits(node) > _OF_A_TABLE
    return not isinstance(node, exp.Anonymous) or _called(node) in _MULTIPLYING


class _Row:
    """Adds up, in the order in which the parts of a statement are worked out, how large the values of a row are."""

    def __init__(self) -> None:
        self._columns: dict[str, int] = {}
        self._total = 0

    def check(self, root: exp.Expr) -> None:
        self._size(root)

    def _counted(self, size: int) -> int:
        self._total += size
        if self._total > _MAX_COUNT:
            refuse(
                "size",
                f"the values of one row could have more than {_MAX_COUNT // 1_000_000} MB",
                "repeat, replace and join less of it, or take parts of it with substr first",
            )
        return size

    def _size(self, node: exp.Expr) -> int:
        """How many characters a value has at most."""
        match node:
            case exp.Select():
                return self._query(node)
            case exp.Literal():
                return len(node.name) if node.is_string else _digits(node)
            case exp.Column() | exp.Identifier():
                return self._column(node)
            case exp.Case():
                return self._counted(sum(self._sizes(node)))
        sizes = self._sizes(node)
        if isinstance(node, (exp.Query, exp.From, exp.Join, exp.With, exp.Tuple, exp.Where, exp.Identifier)):
            return sum(sizes)
        return self._counted(_grown(node, sizes))

    def _sizes(self, node: exp.Expr) -> _Sizes:
        return [self._size(child) for child in node.iter_expressions()]

    def _column(self, node: exp.Expr) -> int:
        if isinstance(node, exp.Column) and slot_number(node) is not None:
            return _PARAMETER
        return self._columns.get(node.name.lower(), _OF_A_TABLE)

    def _query(self, select: exp.Select) -> int:
        self._common(select)
        for clause in ("from_", "joins", "laterals"):
            self._clause(select.args.get(clause))
        size = 0
        around = select.find_ancestor(exp.CTE, exp.Subquery)
        renamed = [name.lower() for name in around.alias_column_names] if around is not None else []
        for item in select.expressions:
            size += (given := self._size(item.unalias()))
            self._name((computed_title(item).lower(), *renamed) if select.parent is not None else (), given)
        self._name((around.alias.lower(),) if around is not None and around.alias else (), size)
        for clause, value in select.args.items():
            if clause not in {"with_", "from_", "joins", "laterals", "expressions"}:
                self._clause(value)
        return size

    def _common(self, select: exp.Select) -> None:
        clause = select.args.get("with_")
        if clause is None:
            return
        for cte in clause.expressions:
            steps = _STEPS if clause.args.get("recursive") and _names_itself(cte) else 1
            for _ in range(steps):
                self._size(cte.this)

    def _clause(self, value: object) -> None:
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, exp.Expr):
                self._size(node)

    def _name(self, names: tuple[str, ...], size: int) -> None:
        for name in names:
            self._columns[name] = max(size, self._columns.get(name, 0))


def _names_itself(cte: exp.Expr) -> bool:
    return any(table.name.lower() == cte.alias.lower() for table in cte.this.find_all(exp.Table))


def _grown(node: exp.Expr, sizes: _Sizes) -> int:
    name, total = _called(node), sum(sizes)
    if name in _GATHERING or isinstance(node, exp.GroupConcat):
        return max(_GATHERED, _MAX_GATHERED * total)
    if name in _RULES and len(sizes) > 1:
        return _RULES[name](node.expressions, sizes)
    if name in _DOUBLING:
        return 2 * total + _OF_A_TABLE * (name == "format")
    if name in _DOCUMENTS or isinstance(
        node, exp.JSONObject
    ):  # a text is quoted in it, and what was quoted already is so again
        return total + sum(
            4 * size for part, size in zip(node.expressions, sizes, strict=False) if isinstance(part, exp.Cast)
        )
    if name == "space":
        return int(_number(node.expressions[0])) if node.expressions else 0
    if isinstance(node, exp.Pow) or name in _POWERS:
        return _power(node, sizes)
    if (isinstance(node, (exp.Div, exp.Mod, exp.IntDiv)) or name in _DIVISIONS) and sizes:
        return total + max(sizes) * max(sizes) // _LONG_DIVISION * (min(sizes) > _OF_A_TABLE or len(sizes) == 1)
    if isinstance(node, exp.Cast):
        return max(
            total * (2 if node.to.this is _Type.VARBINARY else 1), *map(_number, node.to.find_all(exp.Literal)), 1
        )
    return total


def _replaced(arguments: list[exp.Expr], sizes: _Sizes) -> int:
    sought = len(arguments[1].name) if isinstance(arguments[1], exp.Literal) else 1
    return sizes[0] * max(1, -(-sizes[2] // max(1, sought))) if len(sizes) > 2 else sizes[0]


_Rule: TypeAlias = Callable[[list[exp.Expr], _Sizes], int]
_RULES: Final[Mapping[str, _Rule]] = MappingProxyType(
    {
        "repeat": lambda arguments, sizes: sizes[0] * _number(arguments[1]),
        "lpad": lambda arguments, sizes: max(sizes[0], _number(arguments[1])),
        "rpad": lambda arguments, sizes: max(sizes[0], _number(arguments[1])),
        "replace": _replaced,
        "regexp_replace": lambda _, sizes: sizes[0] * max(1, *sizes[2:3]),
        "array_to_string": lambda _, sizes: sizes[0] * (1 + sizes[1]),
        "concat_ws": lambda _, sizes: sum(sizes) + sizes[0] * len(sizes),
    }
)


def _power(node: exp.Expr, sizes: _Sizes) -> int:
    """Digits of a number with as many as PostgreSQL gives it, unless its exponent is small for sure."""
    exponent = node.expression if isinstance(node, exp.Pow) else node.expressions[-1] if node.expressions else None
    while isinstance(exponent, exp.Paren):
        exponent = exponent.this
    if isinstance(exponent, exp.Div) and isinstance(exponent.this, exp.Literal):
        return sum(sizes)  # a root: `1.0 / n`
    if isinstance(exponent, exp.Literal) and len(sizes) > 1:
        return min(_MAX_DIGITS, sizes[0] * max(1, _number(exponent)))
    return _MAX_DIGITS


def _digits(node: exp.Expr) -> int:
    """As many as `1e1000` has, too."""
    mantissa, _, exponent = node.name.lower().partition("e")
    return len(mantissa) + (int(exponent.lstrip("+-")[:9] or 0) if exponent.lstrip("+-").isdigit() else 0)


def _number(node: exp.Expr) -> int:
    if _called(node) == "least":  # `least(level, 100)`
        return max(map(_number, node.expressions), default=1)
    digits = node.name.partition(".")[0] if isinstance(node, exp.Literal) else ""
    return int(digits[:9]) if digits.isdigit() else 1


def _called(node: exp.Expr) -> str:
    name = node.this if isinstance(node, exp.Anonymous) else None
    return name[len(CALL) :].lower() if isinstance(name, str) and name.startswith(CALL) else ""


_MAX_TRANSFORMS: Final = 4
_MAX_DOUBLINGS: Final = 8  # each at least doubles what columns hold
_AGGREGATES: Final = frozenset(
    {
        "array_agg", "array_to_string", "json_agg", "json_arrayagg", "json_object_agg", "json_objectagg", "jsonb_agg", "jsonb_agg_strict",
        "jsonb_object_agg", "jsonb_object_agg_strict", "string_agg",
    }
)  # fmt: skip
_JOINING: Final = frozenset({"concat", "concat_ws", "format", "overlay", "replace"})
_TRANSFORMS: Final = frozenset(
    {
        "array_to_tsvector", "btrim", "casefold", "convert_from", "convert_to", "decode", "encode", "format", "initcap", "left", "lower",
        "lpad", "ltrim", "md5", "normalize", "overlay", "parse_ident", "quote_ident", "quote_literal", "quote_nullable", "regexp_count",
        "regexp_instr", "regexp_like", "regexp_match", "regexp_replace", "regexp_split_to_array", "regexp_substr", "replace", "reverse",
        "right", "rpad", "rtrim", "sha224", "sha256", "sha384", "sha512", "split_part", "string_to_array", "strpos", "substr",
        "substring", "to_ascii", "to_tsvector", "translate", "trim", "ts_headline", "unistr", "upper",
    }
)  # fmt: skip


def check_transforms(root: exp.Expr, dialect: str) -> None:
    """Raises `Refusal`, rule `size`."""
    if dialect != "postgres":
        return
    found = [*root.find_all(exp.With, exp.DPipe, exp.Anonymous, exp.GroupConcat, exp.Array)]
    doubled = sum(_joins(node) and _is_inner(node) for node in found) >= _MAX_DOUBLINGS
    doubled = doubled or any(node.args.get("recursive") for node in found)
    if not doubled and not any(map(_gathers, found)):
        return
    names = None if doubled else _large_names(root)
    if sum(_is_transform(node) and _is_large(node, names) for node in root.walk()) > _MAX_TRANSFORMS:
        refuse(
            "size",
            f"more than {_MAX_TRANSFORMS} functions work through texts that the statement puts together",
            "change the values before they are put together, or fewer times after it",
        )


def _large_names(root: exp.Expr) -> frozenset[str]:
    """What the columns of inner queries are called that hold something gathered, however often they were handed on."""
    items = list(_items(root))
    names: frozenset[str] = frozenset()
    while more := {name for name, item in items if name not in names and _is_large(item, names)}:
        names |= more
    return names


def _items(root: exp.Expr) -> Iterator[tuple[str, exp.Expr]]:
    """The columns that queries give to others. One that is renamed as a whole has all of its names for each."""
    for select in root.find_all(exp.Select):
        if select.parent is None:
            continue
        around = select.find_ancestor(exp.CTE, exp.Subquery)
        renamed = [name.lower() for name in around.alias_column_names] if around is not None else []
        owner = [around.alias.lower()] if around is not None else []  # `t` alone is a whole row
        for item in select.expressions:
            for name in (computed_title(item).lower(), *renamed, *owner):
                yield name, item


def _is_large(node: exp.Expr, names: frozenset[str] | None) -> bool:
    """Whether something gathered stands in it, or a column that holds such; `None`: any column may."""
    for part in node.walk():
        if _gathers(part):
            return True
        if isinstance(part, exp.Column) and slot_number(part) is None and (names is None or part.name.lower() in names):
            return True
    return False


def _is_transform(node: exp.Expr) -> bool:
    if isinstance(node, exp.Cast):
        return not node.is_type("text", "varchar")
    return isinstance(node, (exp.Trim, exp.Substring, exp.Overlay, exp.StrPosition)) or _called(node) in _TRANSFORMS


def _gathers(node: exp.Expr) -> bool:
    gathered = isinstance(node, exp.GroupConcat) or _called(node) in _AGGREGATES
    return gathered or (isinstance(node, exp.Array) and node.find(exp.Query) is not None)


def _joins(node: exp.Expr) -> bool:
    return isinstance(node, exp.DPipe) or _called(node) in _JOINING


def _is_inner(node: exp.Expr) -> bool:
    query = node.find_ancestor(exp.Query)
    return query is not None and query.parent is not None
