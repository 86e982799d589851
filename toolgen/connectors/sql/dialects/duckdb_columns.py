"""Column expressions of DuckDB, COLUMNS(…), `*COLUMNS(…)` and `* LIKE`, which represent several columns selected by name.

https://duckdb.org/docs/stable/sql/expressions/star. The guard replaces each by a list of columns, because a pattern would match hidden
columns too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Final, NoReturn, TypeAlias

import msgspec
from msgspec import Struct
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from toolgen.connectors.sql.guard.marks import CALL
from toolgen.connectors.sql.guard.refusal import refuse

__all__ = [
    "ColumnSelection",
    "each_column",
    "has_columns",
    "is_left_over",
    "is_selector",
    "is_titles",
    "is_unpacked",
    "nested_type",
    "replaced",
    "selection_of",
    "struct_fields",
    "title_of",
    "titles_of_columns",
    "unnested_fields",
    "unpack_columns",
    "whole_selection",
    "whole_star",
]

_Test: TypeAlias = Callable[[str], bool]
_SELECTOR: Final = f"{CALL}columns"
_UNPACKED: Final = f"{CALL}unpack_columns"
_TITLES: Final = f"{CALL}titles_of_columns"
# Regular expressions with linear time and the same meaning in RE2 and Python.
_PLAIN_PATTERN: Final = re.compile(
    r"(?:[\w \-/:,]|\[\^?[\w\-]+\][*+?]?|\\[dws.][*+?]?|\.[*+?]?|[\^$|()]|\w[*+?])*\Z", re.ASCII
)
_MAX_PATTERN_LENGTH: Final = 100
_MAX_REPETITIONS: Final = 3
_VARIADIC: Final = frozenset(
    {
        "array_value",
        "coalesce",
        "concat",
        "concat_ws",
        "greatest",
        "hash",
        "json_array",
        "least",
        "list_pack",
        "list_value",
        "row",
    }
)
_GROUPS: Final = re.compile(r"(?:[^\\]|\\[0-9])*\Z")
_BEFORE_AN_ARGUMENT: Final = frozenset({TokenType.L_PAREN, TokenType.COMMA, TokenType.L_BRACKET})
_EXAMPLE: Final = "write COLUMNS(['a', 'b']), or name the columns"


class ColumnSelection(Struct, frozen=True, kw_only=True):
    """Nodes of an item that represent columns, and the selected columns. `star` has the relation and the excluded columns."""

    nodes: tuple[exp.Expr, ...]
    star: exp.Star
    qualifier: exp.Identifier | None
    chosen: _Test
    named: tuple[str, ...] = ()  # columns that must exist
    pattern: re.Pattern[str] | None = None  # if a regular expression selects them


def is_selector(node: exp.Expr) -> bool:
    """Return True for COLUMNS(…)."""
    return _is_called(node, _SELECTOR)


def has_columns(item: exp.Expr) -> bool:
    """Return True for an item of a SELECT list that contains COLUMNS(…)."""
    return any(map(is_left_over, item.find_all(exp.Anonymous)))


def is_left_over(node: exp.Expr) -> bool:
    """Return True for a remaining COLUMNS(…) or `*COLUMNS(…)` that was not replaced."""
    return any(_is_called(node, name) for name in (_SELECTOR, _UNPACKED, _TITLES))


def _is_called(node: exp.Expr, name: str) -> bool:
    return isinstance(node, exp.Anonymous) and isinstance(node.this, str) and node.this.lower() == name


def each_column(value: exp.Expr) -> exp.Expr:
    """Return a list element for an expression of each column: of `COLUMNS(…)::VARCHAR`, of a star, of `COLUMNS(…)` alone."""
    if isinstance(value, exp.Star) or not is_selector(value):
        return exp.Anonymous(this=_UNPACKED, expressions=[value.copy()])
    return exp.Anonymous(this=_UNPACKED, expressions=[one.copy() for one in value.expressions])


def titles_of_columns(selector: exp.Expr) -> exp.Expr:
    """Return a list element for the name of each column of a star or of COLUMNS(…)."""
    given = [selector] if isinstance(selector, exp.Star) else selector.expressions
    return exp.Anonymous(this=_TITLES, expressions=[one.copy() for one in given])


def is_titles(node: exp.Expr) -> bool:
    """Return True for a list element made by `titles_of_columns`."""
    return _is_called(node, _TITLES)


def unpack_columns(tokens: Sequence[Token]) -> Iterator[Token]:
    """Rewrite `f(*COLUMNS(…))` as `f(unpack_columns(…))`: the parser reads the star as a product."""
    for place, token in enumerate(tokens):
        kinds = [one.token_type for one in tokens[max(place - 1, 0) : place + 3]]
        if token.token_type is TokenType.STAR and _is_unpacking(tokens, place):
            continue
        if token.text.upper() == "COLUMNS" and token.token_type is TokenType.VAR and kinds[0] is TokenType.STAR:
            unpacked = _is_unpacking(tokens, place - 1)
            yield (
                Token(TokenType.VAR, "unpack_columns", token.line, token.col, token.start, token.end, [])
                if unpacked
                else token
            )
            continue
        yield token


def _is_unpacking(tokens: Sequence[Token], star: int) -> bool:
    """Return True for a star between the start of an argument and `COLUMNS(`."""
    behind = tokens[star + 1 : star + 3]
    return (
        star > 0
        and tokens[star - 1].token_type in _BEFORE_AN_ARGUMENT
        and len(behind) == 2
        and behind[0].token_type is TokenType.VAR
        and behind[0].text.upper() == "COLUMNS"
        and behind[1].token_type is TokenType.L_PAREN
    )


def is_unpacked(node: exp.Expr) -> bool:
    """Return True for `*COLUMNS(…)` among the elements of a list, or the arguments of a function with any number of them."""
    if node.arg_key != "expressions" or not (_is_called(node, _UNPACKED) or is_titles(node)):
        return False
    around = node.parent
    # Other functions check arguments by position, which is unknown until the columns are listed.
    variadic = isinstance(around, exp.Anonymous) and around.name.removeprefix(CALL).lower() in _VARIADIC
    return variadic or isinstance(around, (exp.Array, exp.In))


def selection_of(item: exp.Expr) -> ColumnSelection | None:
    """Return the selected columns of an item of a SELECT list, or None for an ordinary item. Raises `StatementRefusal` for other forms."""
    if is_unpacked(item):
        inner = tuple(_selectors(item)) if _is_called(item, _UNPACKED) else ()
        return _selection(inner or (item,))
    if isinstance(item, exp.Column) and isinstance(item.this, exp.Star) and item.this.args.get("ilike"):
        return ColumnSelection(
            nodes=(item,), star=item.this, qualifier=item.args.get("table"), chosen=_of_star(item.this)
        )
    if (test := _star_pattern(item)) is not None:
        star = next(item.find_all(exp.Star))
        return ColumnSelection(nodes=(item,), star=star, qualifier=None, chosen=test)
    nodes = tuple(_selectors(item))
    if not nodes:
        return None
    if any(node != nodes[0] for node in nodes):
        refuse("column", "an expression holds two different COLUMNS", _EXAMPLE)
    return _selection(nodes)


def whole_selection(item: exp.Expr) -> ColumnSelection:
    """Return the columns of a complete star or COLUMNS(…) item."""
    if isinstance(item, exp.Star):
        return ColumnSelection(nodes=(item,), star=item, qualifier=None, chosen=_of_star(item))
    return _selection((item,))


def _selectors(item: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the COLUMNS of this query, without those of inner queries."""
    return (node for node in item.walk(prune=lambda node: isinstance(node, exp.Query)) if is_selector(node))


def _selection(nodes: tuple[exp.Expr, ...]) -> ColumnSelection:
    arguments = nodes[0].expressions
    argument = arguments[0] if len(arguments) == 1 else None
    match argument:
        case exp.Star():
            return ColumnSelection(nodes=nodes, star=argument, qualifier=None, chosen=_of_star(argument))
        case exp.Column() if isinstance(argument.this, exp.Star):
            qualifier = argument.args.get("table")
            return ColumnSelection(nodes=nodes, star=argument.this, qualifier=qualifier, chosen=_of_star(argument.this))
        case exp.Array():
            names = tuple(_name(part) for part in argument.expressions)
            folded = frozenset(name.lower() for name in names)
            return ColumnSelection(
                nodes=nodes, star=exp.Star(), qualifier=None, chosen=lambda name: name.lower() in folded, named=names
            )
        case exp.Literal() if argument.is_string:
            pattern = _pattern(argument.name)
            return ColumnSelection(
                nodes=nodes,
                star=exp.Star(),
                qualifier=None,
                chosen=lambda name: pattern.search(name) is not None,
                pattern=pattern,
            )
        case exp.Lambda():
            return ColumnSelection(nodes=nodes, star=exp.Star(), qualifier=None, chosen=_lambda(argument))
    return _refuse_form()


def _name(part: exp.Expr) -> str:
    return part.name if isinstance(part, exp.Literal) and part.is_string else _refuse_form()


def _star_pattern(item: exp.Expr) -> _Test | None:
    """Return the test of column names in `* LIKE 'a%'` and similar forms; None for any other item."""
    test = item.this if isinstance(item, exp.Not) else item
    if isinstance(test, exp.Star) and test.args.get("ilike") is not None:
        return _of_star(test)
    if isinstance(test, exp.SimilarTo) and isinstance(test.this, exp.Star):
        whole = _pattern(_name(test.expression))
        return lambda name: (whole.fullmatch(name) is not None) is (test is item)
    if not isinstance(test, (exp.Like, exp.ILike)) or not isinstance(test.this, exp.Star):
        return None
    matches = _like(test)
    return (lambda name: not matches(name)) if test is not item else matches


def _of_star(star: exp.Star) -> _Test:
    """Return the test of column names in `* ILIKE 'a%'`, or a test that every name passes."""
    written = star.args.get("ilike")
    return _like(exp.ILike(this=exp.Star(), expression=written)) if written is not None else lambda _: True


def _lambda(node: exp.Lambda) -> _Test:
    """Return the test of column names in `lambda c: c LIKE 'a%'` and `lambda c: c IN ('a', 'b')`."""
    test = node.this.this if isinstance(node.this, exp.Not) else node.this
    plain = len(node.expressions) == 1 and isinstance(test, (exp.Like, exp.ILike, exp.In))
    if not plain or test.this.name != node.expressions[0].name:
        _refuse_form()
    matches = _listed(test) if isinstance(test, exp.In) else _like(test)
    return (lambda name: not matches(name)) if test is not node.this else matches


def _listed(test: exp.In) -> _Test:
    if test.args.get("query") is not None or not test.expressions:
        _refuse_form()
    names = frozenset(_name(part) for part in test.expressions)
    return lambda name: name in names


def _like(test: exp.Expr) -> _Test:
    if not (isinstance(test.expression, exp.Literal) and test.expression.is_string):
        _refuse_form()
    pattern = test.expression.name
    if len(pattern) > _MAX_PATTERN_LENGTH or pattern.count("%") > _MAX_REPETITIONS:
        refuse(
            "size",
            f"the pattern of columns has {len(pattern)} characters and {pattern.count('%')} %, and at most {_MAX_PATTERN_LENGTH} and "
            f"{_MAX_REPETITIONS} are read",
            _EXAMPLE,
        )
    text = "".join({"%": ".*", "_": "."}.get(character, re.escape(character)) for character in pattern)
    flags = re.DOTALL | (re.IGNORECASE if isinstance(test, exp.ILike) else 0)
    compiled = re.compile(text, flags)
    negated = bool(test.args.get("negate"))
    return lambda name: (compiled.fullmatch(name) is not None) is not negated


def _pattern(text: str) -> re.Pattern[str]:
    """Return a compiled pattern. Refuse one that could take more than linear time, or that Python and RE2 could read differently."""
    repetitions = sum(text.count(sign) for sign in "*+")
    if not _PLAIN_PATTERN.match(text) or len(text) > _MAX_PATTERN_LENGTH or repetitions > _MAX_REPETITIONS:
        refuse("size", "the regular expression of COLUMNS is not a simple one", _EXAMPLE)
    try:
        return re.compile(text, re.DOTALL)
    except re.error:
        return refuse("syntax", "the regular expression of COLUMNS is malformed", _EXAMPLE)


def _refuse_form() -> NoReturn:
    refuse("syntax", "this form of COLUMNS is not supported", _EXAMPLE)


def title_of(selection: ColumnSelection, alias: str, column: str) -> str:
    """Return the name of a column of `COLUMNS('(.*)_id') AS 'ref_\\1'`: `\\1` is the first group of the match."""
    if "\\" not in alias:
        return alias
    found = selection.pattern.search(column) if selection.pattern is not None else None
    if (
        found is None
        or not _GROUPS.match(alias)
        or any(int(n) > len(found.groups()) for n in re.findall(r"\\(\d)", alias))
    ):
        refuse("syntax", "a name of COLUMNS has a backslash that refers to no group of its pattern", _EXAMPLE)
    return re.sub(r"\\(\d)", lambda group: found[int(group[1])] or "", alias)


def replaced(item: exp.Expr, selection: ColumnSelection, column: exp.Column) -> exp.Expr:
    """Return a copy of the item with one column in place of the expression for several."""
    if selection.nodes[0] is item:
        return column
    places = [place for place, node in enumerate(item.walk()) if any(node is one for one in selection.nodes)]
    copy = item.copy()
    nodes = [node for place, node in enumerate(copy.walk()) if place in places]
    for node in nodes:
        node.replace(column.copy())
    return copy


def unnested_fields(item: exp.Expr, type_of: Callable[[exp.Column], str]) -> tuple[exp.Identifier, ...]:
    """Return the columns that `unnest({'a': 1, 'b': 2})` gives, also of a list of such structs with `recursive := true`; () for others.

    `type_of` gives the type of a column of a table, "" for other columns.
    """
    if isinstance(item, exp.Explode):
        value, given = item.this, item.expressions
    elif isinstance(item, exp.Anonymous) and item.this == f"{CALL}unnest" and item.expressions:
        value, *given = item.expressions
    else:
        return ()
    options = {option.this.name.lower(): option.expression for option in given if isinstance(option, exp.PropertyEQ)}
    recursive = isinstance(options.get("recursive"), exp.Boolean) and bool(options["recursive"].this)
    if len(given) != len(options) or options.keys() - {"recursive"}:
        return ()
    return tuple(_fields_of(value, recursive, type_of))


def _fields_of(value: exp.Expr, recursive: bool, type_of: Callable[[exp.Column], str]) -> Iterator[exp.Identifier]:
    """Return the fields of a struct, and if `recursive` of the structs in lists."""
    value = value.unnest()
    if isinstance(value, exp.Column) and isinstance(value.this, exp.Identifier):
        yield from map(exp.to_identifier, _typed_fields(type_of(value), recursive))
    elif isinstance(value, exp.Struct):
        yield from _fields(value, recursive)
    elif isinstance(value, exp.Array) and recursive and value.expressions:
        yield from _fields_of(value.expressions[0], recursive, type_of)
    elif isinstance(value, exp.Comprehension) and recursive:
        yield from _fields_of(value.this, recursive, type_of)
    elif isinstance(value, exp.Anonymous) and isinstance(value.this, str):
        name, arguments = value.this.removeprefix(CALL).lower(), value.expressions
        if name in _FROM_JSON and len(arguments) == 2 and arguments[1].is_string:
            yield from map(exp.to_identifier, _json_fields(arguments[1].name, recursive))
        elif name in _TRANSFORMS and recursive and len(arguments) == 2 and isinstance(arguments[1], exp.Lambda):
            yield from _fields_of(arguments[1].this, recursive, type_of)


_FROM_JSON: Final = frozenset({"from_json", "from_json_strict", "json_transform", "json_transform_strict"})
_TRANSFORMS: Final = frozenset({"apply", "array_apply", "array_transform", "list_apply", "list_transform"})


def _json_fields(structure: str, recursive: bool) -> Iterator[str]:
    """Return the fields of a JSON structure of `from_json`: `{"name": "VARCHAR"}`, or `[{"name": "VARCHAR"}]`."""
    try:
        found = msgspec.json.decode(structure)
    except msgspec.DecodeError:
        return
    yield from _structure_fields(found, recursive)


def _structure_fields(found: object, recursive: bool) -> Iterator[str]:
    while recursive and isinstance(found, list) and len(found) == 1:
        found = found[0]
    for name, inner in found.items() if isinstance(found, dict) else ():
        nested = [*_structure_fields(inner, recursive)] if recursive else []
        yield from nested or [name]


def whole_star(item: exp.Expr) -> exp.Expr:
    """Return the star of a complete `COLUMNS(* REPLACE (…))` item, which is equivalent; other items unchanged."""
    star = item.expressions[0] if is_selector(item) and len(item.expressions) == 1 else None
    bare = star.this if isinstance(star, exp.Column) else star
    changed = isinstance(bare, exp.Star) and (bare.args.get("replace") or bare.args.get("rename"))
    return star if changed and star is not None else item


@lru_cache(maxsize=1_000)
def nested_type(declared: str, fields: tuple[str, ...]) -> str:
    """Return the type of a field of a struct, by the names that lead to it; "" if there is none."""
    if not fields:
        return declared
    try:
        kind: exp.Expr | None = exp.DataType.build(declared, dialect="duckdb")
    except (SqlglotError, ValueError, RecursionError):
        return ""
    for name in fields:
        inner = kind.expressions if kind is not None and kind.this is exp.DType.STRUCT else ()
        kind = next((one.args.get("kind") for one in inner if one.name.lower() == name.lower()), None)
    return kind.sql("duckdb") if kind is not None else ""


def struct_fields(declared: str) -> tuple[str, ...]:
    """Return the fields of a STRUCT from its type in the catalog; () for other types."""
    return _typed_fields(declared, False)


@lru_cache(maxsize=1_000)
def _typed_fields(declared: str, recursive: bool) -> tuple[str, ...]:
    """Return the fields of a STRUCT from its type in the catalog, and if `recursive` those of nested structs and lists."""
    if not declared.upper().startswith("STRUCT("):
        return ()
    try:
        kind = exp.DataType.build(declared, dialect="duckdb")
    except (SqlglotError, ValueError, RecursionError):
        return ()
    return tuple(_type_fields(kind, recursive))


def _type_fields(kind: exp.Expr, recursive: bool) -> Iterator[str]:
    while recursive and kind.args.get("nested") and kind.this in {exp.DType.ARRAY, exp.DType.LIST} and kind.expressions:
        kind = kind.expressions[0]
    for field in kind.expressions if kind.this is exp.DType.STRUCT else ():
        inner = field.args.get("kind")
        found = [*_type_fields(inner, recursive)] if recursive and inner is not None else []
        yield from found or [field.name]


def _fields(struct: exp.Struct, recursive: bool) -> Iterator[exp.Identifier]:
    for field in struct.expressions:
        if recursive and isinstance(field.expression, exp.Struct):
            yield from _fields(field.expression, recursive)
        elif isinstance(field.this, exp.Identifier):
            yield field.this
