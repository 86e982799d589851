"""What can be written in several ways is given the one way it is written out; then text and tree say the same."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

__all__ = ["NUMERIC", "settle"]

_Kind = exp.DataType.Type
_AFFINITIES = (
    (frozenset({_Kind.VARCHAR, _Kind.CHAR, _Kind.NCHAR, _Kind.NVARCHAR}), _Kind.TEXT),
    (frozenset({_Kind.BIGINT, _Kind.SMALLINT, _Kind.TINYINT, _Kind.MEDIUMINT, _Kind.INT128}), _Kind.INT),
)
_NUMERIC = frozenset({_Kind.DECIMAL, _Kind.BOOLEAN})
NUMERIC = "UNSIGNED"
"""A type name that SQLite takes for NUMERIC, and that is read again as it was written."""


def settle(root: exp.Expr, dialect: str) -> None:
    """Changes a tree in place to the form whose text is read as the same tree again. Its meaning stays."""
    for raw in list(root.find_all(exp.RawString)):
        raw.replace(exp.Literal.string(raw.this))
    for frame in root.find_all(exp.WindowSpec):
        if frame.args.get("end") is None:
            frame.set("end", "CURRENT ROW")  # SQL:2016, 7.15: what a frame with one bound means
    if dialect != "duckdb":
        for node in list(root.find_all(exp.Lambda)):
            _arrow(node, dialect)
    if dialect == "mysql":
        _settle_mysql(root)
    if dialect == "sqlite":
        _settle_types(root)


def _arrow(node: exp.Lambda, dialect: str) -> None:
    """`f(document -> 'key' …)`: the parser takes the arrow for a lambda's, which only DuckDB has."""
    names = node.expressions
    if len(names) != 1 or not isinstance(names[0], exp.Identifier):
        return
    name = names[0]
    leaf = node.this
    while isinstance(leaf, (exp.Binary, exp.In, exp.Between)):
        leaf = leaf.this
    if not isinstance(leaf, (exp.Literal, exp.Column, exp.Paren, exp.Neg)):
        return
    for identifier in list(node.this.find_all(exp.Identifier)):
        # The parser took the columns of this name for the lambda's variable.
        if identifier.name == name.name and not isinstance(identifier.parent, exp.Column):
            identifier.replace(exp.Column(this=identifier.copy()))
    document = exp.Column(this=name.copy())
    path = Dialect.get_or_raise(dialect).to_json_path(leaf.copy())
    extract = exp.JSONExtract(this=document, expression=path)
    if dialect == "postgres":
        extract.set("only_json_types", True)
    if leaf is node.this:
        node.replace(extract)
    else:
        leaf.replace(extract)
        node.replace(node.this)


def _settle_mysql(root: exp.Expr) -> None:
    """`TIMESTAMP '…'` is a DATETIME (https://dev.mysql.com/doc/refman/8.4/en/date-and-time-literals.html); an index is a name."""
    for cast in root.find_all(exp.Cast):
        written = cast.this
        if cast.to.this is _Kind.TIMESTAMPTZ and isinstance(written, exp.Literal):
            digits = len(written.name.partition(".")[2])
            size = [exp.DataTypeParam(this=exp.Literal.number(min(digits, 6)))] if digits else []
            cast.set("to", exp.DataType(this=_Kind.DATETIME, expressions=size, nested=False))
    for hint in root.find_all(exp.IndexTableHint):
        for name in hint.expressions:
            name.set("quoted", True)


def _settle_types(root: exp.Expr) -> None:
    """SQLite only looks for the affinity in a type's name (https://www.sqlite.org/datatype3.html, section 3.1).

    Whatever is none of the others is NUMERIC.
    """
    for node in list(root.find_all(exp.DataType)):
        kind = node.this
        if kind in _NUMERIC:
            node.set("this", _Kind.USERDEFINED)
            node.set("kind", NUMERIC)
            node.set("expressions", None)
        for kinds, settled in _AFFINITIES:
            if kind in kinds:
                node.set("this", settled)
                node.set("expressions", None)
