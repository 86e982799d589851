"""XML of PostgreSQL: documents that a statement makes, and paths in documents of columns.

https://www.postgresql.org/docs/current/functions-xml.html. The XPath library cannot be interrupted, and expands the entities of a document.
So a path must be a literal with few steps, a searched document must be a column, and a text that becomes a document must be a literal
without declarations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from sqlglot import exp
from sqlglot.generator import Generator
from sqlglot.tokenizer_core import Token, TokenType

from toolgen.connectors.sql.guard.marks import CALL, SLOT
from toolgen.connectors.sql.guard.refusal import refuse

__all__ = [
    "check_xml_call",
    "check_xml_table",
    "check_xml_text",
    "declare_counters",
    "search_by_path",
    "write_column_definition",
]

_MAX_LENGTH: Final = 200
_MAX_STEPS: Final = 8
_NAME: Final = r"(?:[A-Za-z_][\w.-]*:)?(?:[A-Za-z_][\w.-]*|\*)"
_TEST: Final = rf"(?:@?{_NAME}|text\(\)|node\(\)|\.)"
_VALUE: Final = r"""(?:'[^'"<&]*'|"[^'"<&]*"|-?\d+(?:\.\d+)?)"""
_PREDICATE: Final = (
    rf"\[\s*(?:\d+|last\(\)|(?:@?{_NAME}|text\(\)|\.|position\(\))(?:\s*(?:=|!=|<|>|<=|>=)\s*{_VALUE})?)\s*\]"
)
_STEP: Final = rf"{_TEST}(?:{_PREDICATE}){{0,2}}"
_LOCATION: Final = rf"/{{0,2}}{_STEP}(?:/{{1,2}}{_STEP})*"
_PATH: Final = re.compile(
    rf"(?:{_LOCATION}|(?:string|number|count|sum|name|local-name|boolean|normalize-space)\({_LOCATION}\))"
)
_PATHS: Final = frozenset(CALL + name for name in ("xpath", "xpath_exists"))
_COUNTER: Final = f"{SLOT}counter"
_EXISTS: Final = f"{CALL}xmlexists"
_ADVICE: Final = "write a path of names, as '/book/title/text()', with values compared in [ ]"


def _check_path(node: exp.Expr | None) -> None:
    text = node.name if isinstance(node, exp.Literal) and node.is_string else None
    if text is None:
        refuse("size", "a path in XML is computed by the statement", "write the path as a literal")
    if len(text) > _MAX_LENGTH or not _PATH.fullmatch(text) or text.count("/") > _MAX_STEPS or text.count("//") > 1:
        refuse(
            "size", "a path in XML could take any time, during which the server does not check its time limit", _ADVICE
        )


def _check_document(node: exp.Expr | None) -> None:
    while isinstance(node, exp.Paren):
        node = node.this
    column = isinstance(node, exp.Column) and not node.name.startswith(SLOT)
    written = isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal)
    if not column and not written:
        refuse("size", "a path is searched in XML that the statement makes", "search a column")


def check_xml_call(node: exp.Expr) -> None:
    """Refuse `xpath` with a path or a document that could take any time."""
    if node.this not in _PATHS:
        return
    arguments = node.expressions
    _check_path(arguments[0] if arguments else None)
    _check_document(arguments[1] if len(arguments) > 1 else None)
    names = (part for argument in arguments[2:] for part in argument.walk())
    if len(arguments) > 3 or not all(isinstance(part, (exp.Array, exp.Literal)) for part in names):
        refuse("size", "names of XML are computed by the statement", "write ARRAY[ARRAY['prefix', 'address']]")


def check_xml_table(node: exp.Expr) -> None:
    """Refuse an XMLTABLE with paths or a document that could take any time."""
    _check_path(node.this)
    passed = node.args.get("passing") or []
    _check_document(passed[0] if len(passed) == 1 else None)
    for constraint in node.find_all(exp.PathColumnConstraint):
        _check_path(constraint.this)
    for default in node.find_all(exp.DefaultColumnConstraint):
        if not isinstance(default.this, (exp.Literal, exp.Null, exp.Boolean)):
            refuse(
                "syntax", "a default in XMLTABLE is computed", "write a number or a text, or coalesce(x, …) in SELECT"
            )


def check_xml_text(kind: exp.Expr) -> None:
    """Refuse a conversion to XML of anything but a literal text without entity declarations."""
    cast = kind.parent
    value = cast.this if isinstance(cast, exp.Cast) else None
    if isinstance(cast, exp.ColumnDef) and isinstance(cast.parent, exp.XMLTable):
        return
    if not (isinstance(value, exp.Literal) and value.is_string and "<!" not in value.name):
        refuse(
            "type",
            "something other than a literal text is converted to XML",
            "write the XML in quotes, or use a column of XML",
        )


def search_by_path(root: exp.Expr) -> None:
    """Rewrite `XMLEXISTS('/a' PASSING x)`, which the parser reads as `xmlexists('/a', x)`, as `xpath_exists('/a', x)`."""
    for call in list(root.find_all(exp.Anonymous)):
        if not (isinstance(call.this, str) and call.this.lower() == _EXISTS):
            continue
        call.set("this", f"{CALL}xpath_exists")
        if isinstance(call.parent, exp.Select) and any(item is call for item in call.parent.expressions):
            call.replace(exp.Alias(this=call.copy(), alias=exp.to_identifier("xmlexists")))


def declare_counters(tokens: Sequence[Token]) -> Iterator[Token]:
    """Rewrite `n FOR ORDINALITY` of XMLTABLE as `n INT DEFAULT 'mark'`, which `write_column_definition` reverts."""
    index = 0
    while index < len(tokens):
        token = tokens[index]
        following = tokens[index + 1] if index + 1 < len(tokens) else None
        index += 1
        if token.token_type is not TokenType.FOR or following is None or following.text.upper() != "ORDINALITY":
            yield token
            continue
        index += 1
        for kind, text in ((TokenType.INT, "INT"), (TokenType.DEFAULT, "DEFAULT"), (TokenType.STRING, _COUNTER)):
            yield Token(kind, text, token.line, token.col, token.start, following.end, [])


def write_column_definition(generator: Generator, node: exp.Expr) -> str:
    """Return the SQL of a column of XMLTABLE, with FOR ORDINALITY for a column that counts rows."""
    if any(default.this.name == _COUNTER for default in node.find_all(exp.DefaultColumnConstraint)):
        return f"{generator.sql(node, 'this')} FOR ORDINALITY"
    return generator.columndef_sql(node)  # type: ignore[arg-type]  # the class of the key of writers
