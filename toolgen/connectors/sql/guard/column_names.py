"""Default names of unnamed result columns: PostgreSQL names them by the expression's kind, the other engines by its text.

The types of values in a SQLite query's columns, as far as its tables and its text show, for a result without rows.

https://www.sqlite.org/datatype3.html: values have types, columns have affinities. The types are information only; no decision depends on
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, TypeAlias

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.guard.functions import MODIFIERS
from toolgen.connectors.sql.guard.grammar import called
from toolgen.connectors.sql.guard.placeholders import CALL, RESERVED, SLOT, slot_number
from toolgen.connectors.sql.guard.prefix_signs import is_sign
from toolgen.model.database import Database, DialectName

__all__ = ["computed_title", "conceal", "entitle", "entitled", "retitle", "value_types"]

_TITLE: Final = "title"
_CONCEALED: Final = "concealed"
_NUMBER: Final = f"{RESERVED}s_"
_MAX_LENGTH: Final = 256  # characters of an alias in MySQL
_OPENING: Final = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE})
_CLOSING: Final = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END})
_AFTER_ITEMS: Final = frozenset(
    {
        *(TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.WINDOW, TokenType.ORDER_BY),
        *(TokenType.LIMIT, TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT, TokenType.QUALIFY),
    }
)
_BEFORE_ITEMS: Final = frozenset({"DISTINCT", "ALL", *MODIFIERS})
_SIGNED: Final = re.compile(
    r"\+[\s+]*(?:\(\s*)*(?:[\w.$`]+|'[^']*')(?:\s*\))*\s*\Z"
)  # MySQL: a sign before a column or a value alone
_SPACES: Final = str.maketrans("\t\n\r", "   ")

# by the text


def entitled(tokens: Sequence[Token], sql: str, dialect: DialectName) -> tuple[list[Token], list[tuple[str, ...]]]:
    """The tokens with a number at each SELECT, and by that number the texts of the columns it gives."""
    commented = RECORDS[dialect].titles_with_comments  # the comment behind a column belongs to its text there
    given: list[Token] = []
    texts: list[tuple[str, ...]] = []
    for index, token in enumerate(tokens):
        if token.token_type is TokenType.SELECT:
            given.append(
                Token(
                    token.token_type,
                    token.text,
                    token.line,
                    token.col,
                    token.start,
                    token.end,
                    [f"{_NUMBER}{len(texts)}"],
                )
            )
            texts.append(tuple(_items(tokens, index + 1, sql, commented=commented)))
        else:
            given.append(token)
    return given, texts


def _items(tokens: Sequence[Token], index: int, sql: str, *, commented: bool) -> Iterator[str]:
    while index < len(tokens) and tokens[index].text.upper() in _BEFORE_ITEMS:
        index += 1
    first, depth = index, 0
    for place, (token, following) in enumerate(pairwise([*tokens[index:], None]), index):
        kind = token.token_type if token else None
        after = following.token_type if following else None
        depth += (kind in _OPENING) - (kind in _CLOSING)
        ends = after is None or after is TokenType.COMMA or after in _AFTER_ITEMS or after in _CLOSING
        if depth == 0 and ends and not (kind is TokenType.DISTINCT and after is TokenType.FROM):
            if first > place:
                return  # nothing stands behind a comma
            end = following.start if following and commented else len(sql) if commented else tokens[place].end + 1
            yield sql[tokens[first].start : end].rstrip("; \t\n\r" if commented else None)
            if after is not TokenType.COMMA:
                return
            first = place + 2


def entitle(root: exp.Expr, texts: Sequence[tuple[str, ...]]) -> None:
    """Writes down with each computed column the text it has."""
    known = {f"{_NUMBER}{number}" for number in range(len(texts))}
    for select in root.find_all(exp.Select):
        items = next((texts[int(text.removeprefix(_NUMBER))] for text in select.comments or () if text in known), ())
        if len(items) == len(select.expressions):
            for item, text in zip(select.expressions, items, strict=True):
                if _unnamed(item):
                    item.meta[_TITLE] = text


def _unnamed(item: exp.Expr) -> bool:
    named = isinstance(item, (exp.Alias, exp.Star)) or (isinstance(item, exp.Column) and slot_number(item) is None)
    value = item.expression if isinstance(item, exp.Introducer) else item
    return not named and not (isinstance(value, exp.Literal) and value.is_string)


def conceal(node: exp.Expr) -> None:
    """Marks what the guard put into the statement: no column is called by its text, which would tell the policy's row filter."""
    node.meta[_CONCEALED] = True


def retitle(written: exp.Expr, asked: exp.Expr, dialect: DialectName) -> bool:
    """Gives every computed column of `written` that would be called otherwise than in `asked` the name it has there; whether there was one.

    `written` is the same tree as `asked`, read from the text that would be sent, with the texts of its columns.
    """
    changed, record = False, RECORDS[dialect]
    for select, sent in zip([*asked.find_all(exp.Select)], [*written.find_all(exp.Select)], strict=True):
        if not _gives_columns(select):
            continue
        for place, (item, other) in enumerate(zip(select.expressions, sent.expressions, strict=True), 1):
            title = item.meta.get(_TITLE, "") if _unnamed(item) else ""
            if _unnamed(item) and any(node.meta.get(_CONCEALED) for node in item.find_all(exp.Subquery)):
                title = title if _is_name(title) else f"column {place}"
            elif record.titles_by_value and (isinstance(item, exp.Boolean) or _SIGNED.match(title)):
                continue  # by its value
            elif record.titles_respelt or not _is_name(title) or not _differs(title, other.meta.get(_TITLE, "")):
                other.meta[_TITLE] = title  # for the next text
                continue
            other.replace(exp.Alias(this=other.copy(), alias=exp.to_identifier(title, quoted=True)))
            changed = True
    return changed


def _is_name(title: str) -> bool:
    return 0 < len(title) <= _MAX_LENGTH and title.translate(_SPACES).isprintable()


def _differs(title: str, written: str) -> bool:
    """Return True if the default name of a column differs from the wanted one. A name that contains a placeholder never counts as
    different."""
    return SLOT not in written and title != written.replace(CALL, "")


def _gives_columns(select: exp.Expr) -> bool:
    """Return True if the column names of a query are visible: to the caller, or to a query around it."""
    node = select
    while isinstance(node.parent, (exp.SetOperation, exp.Subquery)):
        if (
            isinstance(node.parent, exp.SetOperation)
            and node.parent.this is not node
            and not node.parent.args.get("by_name")
        ):
            return False
        node = node.parent
    return node.parent is None or isinstance(node.parent, (exp.CTE, exp.From, exp.Join, exp.Lateral))


# by what is computed

_TYPES: Final[Mapping[str, str]] = {
    "INT": "int4", "BIGINT": "int8", "SMALLINT": "int2", "CHAR": "bpchar", "BOOLEAN": "bool", "DOUBLE": "float8", "FLOAT": "float4",
    "DECIMAL": "numeric", "VARBINARY": "bytea",
}  # fmt: skip
_CERTAIN: Final[Mapping[type[exp.Expr], str]] = {
    exp.Exists: "exists", exp.Array: "array", exp.Tuple: "row", exp.Extract: "extract", exp.Substring: "substring", exp.Overlay: "overlay",
    exp.StrPosition: "position", exp.AtTimeZone: "timezone", exp.Overlaps: "overlaps", exp.JSONObject: "json_object",
    exp.Explode: "unnest", exp.Unnest: "unnest", exp.CurrentDate: "current_date", exp.CurrentTime: "current_time",
    exp.CurrentTimestamp: "current_timestamp", exp.Localtime: "localtime", exp.Localtimestamp: "localtimestamp",
}  # fmt: skip
_TRIMS: Final = {"LEADING": "ltrim", "TRAILING": "rtrim"}


def named_query(select: exp.Select) -> exp.Expr | None:
    """The common table expression or the subquery that a query is, or is an operand of, in parentheses or not; None for the statement."""
    around = select.find_ancestor(exp.CTE, exp.Subquery) if select.parent is not None else None
    while (
        isinstance(around, exp.Subquery)
        and not around.alias
        and isinstance(around.parent, (exp.SetOperation, exp.Subquery, exp.CTE))
    ):
        around = around.find_ancestor(exp.CTE, exp.Subquery)
    return around


def names_by_place(select: exp.Select, around: exp.Expr | None) -> list[str]:
    """The names in lower case that the columns of a query have for the query around it, by their places; [] for their own.

    Later operands of UNION give their columns the names of the first one. A `*` there has any number of columns: ["*"].
    """
    if around is None:
        return []
    if renamed := around.alias_column_names:
        return [name.lower() for name in renamed]
    first = around.this
    while isinstance(first, (exp.SetOperation, exp.Subquery)):
        first = first.this
    if first is select or not isinstance(first, exp.Select):
        return []
    return (
        ["*"]
        if any(item.is_star for item in first.expressions)
        else [computed_title(item).lower() for item in first.expressions]
    )


def computed_title(node: exp.Expr) -> str:
    """PostgreSQL's name for a column: FigureColname of its src/backend/parser/parse_target.c."""
    return _figured(node)[0] or "?column?"


def _figured(node: object) -> tuple[str, bool]:
    """A name, and whether it is a certain one; "" for none."""
    match node:
        case exp.Column():
            return ("", False) if slot_number(node) is not None else (node.name, True)
        case exp.Alias():
            return node.alias, True
        case exp.Dot():
            return node.expression.name, True
        case exp.Anonymous() if is_sign(node):
            return "", False
        case exp.Anonymous():
            return node.name.removeprefix(CALL).lower(), True
        case exp.Paren() | exp.Window() | exp.Filter() | exp.WithinGroup() | exp.Collate() | exp.Bracket():
            return _figured(node.this)
        case exp.Cast() | exp.TryCast():
            name, certain = _figured(node.this)
            return (name, True) if certain else (_type_name(node.to), False)
        case exp.Case():
            name, certain = _figured(node.args.get("default"))
            return (name, True) if certain else ("case", False)
        case exp.Subquery() | exp.SetOperation():
            return _figured(node.this)
        case exp.Select():
            return (computed_title(node.expressions[0]), True) if node.expressions else ("", False)
        case exp.Trim():
            return _TRIMS.get(str(node.args.get("position")), "btrim"), True
        case exp.Interval():
            return "interval", False
        case exp.Boolean():
            return "bool", False
        case _:
            certain_name = _CERTAIN.get(type(node)) if isinstance(node, exp.Expr) else None
            return certain_name or "", bool(certain_name)


def _type_name(kind: exp.DataType) -> str:
    element = kind.expressions[0] if kind.this is exp.DataType.Type.ARRAY and kind.expressions else kind
    name = getattr(element.this, "name", "")
    return _TYPES.get(name, name.lower())


_Row: TypeAlias = tuple[tuple[str, str], ...]
"""Name and type of each column, "" for a type nobody knows."""
_Relations: TypeAlias = Mapping[str, _Row]

_AFFINITIES: Final = (
    ("INT", "integer"),
    ("CHAR", "text"),
    ("CLOB", "text"),
    ("TEXT", "text"),
    ("BLOB", "blob"),
    ("REAL", "real"),
    ("FLOA", "real"),
    ("DOUB", "real"),
)
_RESULTS: Final = {
    **dict.fromkeys(
        ("count", "length", "octet_length", "instr", "unicode", "sign", "row_number", "rank", "dense_rank", "ntile", "unixepoch"),
        "integer",
    ),
    **dict.fromkeys(("avg", "total", "julianday", "percent_rank", "cume_dist", "sqrt", "ln", "exp", "round"), "real"),
    **dict.fromkeys(
        ("upper", "lower", "substr", "substring", "trim", "ltrim", "rtrim", "replace", "printf", "format", "char", "hex"), "text"
    ),
    **dict.fromkeys(("group_concat", "string_agg", "strftime", "date", "time", "datetime", "quote", "typeof", "concat"), "text"),
    **dict.fromkeys(("json_object", "json_array", "json_group_array", "json_group_object"), "text"),
}  # fmt: skip
_LIKE_AN_ARGUMENT: Final = {
    **dict.fromkeys(("sum", "min", "max", "abs", "lag", "lead", "first_value", "last_value", "nth_value", "nullif"), 0),
    **dict.fromkeys(("coalesce", "ifnull"), 0),
    "iif": 1,
}
_ARITHMETIC: Final = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)


def value_types(root: exp.Expr, database: Database) -> tuple[str, ...]:
    """A type for each column of a resolved query: a storage class, a declared type that is none, or ""."""
    named = {node.name.lower() for node in root.find_all(exp.Table)}
    tables = {
        name: tuple((column.name.lower(), declared_type(column.type)) for column in table.columns)
        for table in database.tables
        if (name := table.name.lower()) in named
    }
    return tuple(kind for _, kind in _query(root, {}, tables))


@lru_cache(maxsize=1_000)
def declared_type(declared: str) -> str:
    """The storage class that a column of this declared type has for sure (section 3.1), otherwise the declared type."""
    upper = declared.upper()
    return next((kind for word, kind in _AFFINITIES if word in upper), declared.lower())


def _query(node: object, ctes: _Relations, tables: _Relations) -> _Row:
    match node:
        case exp.Select():
            known = _with(node, ctes, tables)
            scope = _sources(node, known, tables)
            items = [_item(item, scope, known, tables) for item in node.expressions]
            return tuple(column for item in items for column in item)
        case exp.SetOperation():
            known = _with(node, ctes, tables)
            left, right = _query(node.this, known, tables), _query(node.expression, known, tables)
            return tuple((name, mine or other) for (name, mine), (_, other) in zip(left, right, strict=False))
        case exp.Subquery():
            return _query(node.this, _with(node, ctes, tables), tables)
        case exp.Values():
            first = node.expressions[0] if node.expressions else None
            values: list[object] = [*first.expressions] if isinstance(first, exp.Tuple) else [first]
            return tuple((f"column{place}", _kind(item, {}, ctes, tables)) for place, item in enumerate(values, 1))
    return ()


def _with(node: exp.Expr, ctes: _Relations, tables: _Relations) -> _Relations:
    clause = node.args.get("with_")
    known = dict(ctes)
    for cte in clause.expressions if clause is not None else ():
        body = cte.this
        if isinstance(body, exp.SetOperation):  # a recursive one: the second branch knows the first
            known[cte.alias.lower()] = _renamed(_query(body.this, known, tables), cte)
        known[cte.alias.lower()] = _renamed(_query(body, known, tables), cte)
    return known


def _renamed(row: _Row, node: exp.Expr) -> _Row:
    names = [name.lower() for name in node.alias_column_names]
    return tuple((names[place] if place < len(names) else name, kind) for place, (name, kind) in enumerate(row))


def _sources(select: exp.Select, ctes: _Relations, tables: _Relations) -> _Relations:
    found: dict[str, _Row] = {}
    clause = select.args.get("from_")
    waiting: list[exp.Expr] = [clause.this] if clause is not None else []
    waiting += [join.this for join in select.args.get("joins") or ()]
    while waiting:
        node = waiting.pop(0)
        waiting[:0] = [join.this for join in node.args.get("joins") or ()]
        match node:
            case exp.Table() if isinstance(node.this, exp.Identifier):
                name = node.name.lower()
                row = tables.get(name, ()) if node.args.get("db") is not None else ctes.get(name, tables.get(name, ()))
                found[node.alias_or_name.lower()] = _renamed(row, node)
            case exp.Subquery() if isinstance(node.this, exp.Table):
                waiting.insert(0, node.this)
            case exp.Subquery() | exp.Values():
                found[node.alias.lower() or f" {len(found)}"] = _renamed(_query(node, ctes, tables), node)
    return found


def _item(node: exp.Expr, scope: _Relations, ctes: _Relations, tables: _Relations) -> _Row:
    """The columns that one item of a SELECT list gives. With NATURAL or USING a `*` gives fewer, and then nothing is told in the end."""
    if isinstance(node, exp.Star):
        return tuple(column for row in scope.values() for column in row)
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        return scope.get(node.table.lower(), ())
    return ((node.alias_or_name.lower(), _kind(node, scope, ctes, tables)),)


def _kind(node: object, scope: _Relations, ctes: _Relations, tables: _Relations) -> str:
    def of(inner: object) -> str:
        return _kind(inner, scope, ctes, tables)

    match node:
        case exp.Alias() | exp.Paren() | exp.Window() | exp.Filter() | exp.Neg() | exp.Collate():
            return of(node.this)
        case exp.Column():
            return _column(node, scope)
        case exp.Literal():
            return "text" if node.is_string else "integer" if node.this.isdigit() else "real"
        case exp.Boolean() | exp.Predicate() | exp.Connector() | exp.Not():
            return "integer"
        case exp.DPipe():
            return "text"
        case exp.HexString():
            return "blob"
        case exp.Cast():
            return declared_type(node.to.sql("sqlite"))
        case exp.Case():
            branches = [branch.args.get("true") for branch in node.args.get("ifs") or ()]
            return _first(of(branch) for branch in (*branches, node.args.get("default")))
        case exp.Subquery():
            return next((kind for _, kind in _query(node, ctes, tables)), "")
        case exp.Anonymous():
            return _result(called(node), [of(argument) for argument in node.expressions])
        case _ if isinstance(node, _ARITHMETIC):
            kinds = {of(node.this), of(node.expression)}
            return "real" if "real" in kinds else "integer" if kinds == {"integer"} else ""
    return ""


def _column(node: exp.Column, scope: _Relations) -> str:
    rows = [scope.get(node.table.lower(), ())] if node.table else list(scope.values())
    return _first(kind for row in rows for name, kind in row if name == node.name.lower())


def _result(name: str, arguments: list[str]) -> str:
    if name in _RESULTS:
        return _RESULTS[name]
    place = _LIKE_AN_ARGUMENT.get(name)
    return _first(arguments[place:]) if place is not None else ""


def _first(kinds: Iterable[str]) -> str:
    return next((kind for kind in kinds if kind), "")
