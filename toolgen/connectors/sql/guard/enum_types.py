"""Casts to enum types of a database: `'paid'::order_status`, with the labels of visible columns only.

The name of the type is replaced by the one of the catalog, with its schema: a search path cannot change the type. Only literal labels and
parameters are cast, so a type with its own input function gets no other values than those of its columns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct
from sqlglot import exp

from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.guard.grants import ByIdentity, visible
from toolgen.connectors.sql.guard.identifiers import DEFAULT_SCHEMA
from toolgen.connectors.sql.guard.placeholders import slot_number
from toolgen.connectors.sql.guard.refusal import refuse, shown
from toolgen.model.database import Database
from toolgen.model.sql_scope import SqlScope

__all__ = ["EnumTypes"]

_NAME: Final = r'([a-z_][a-z0-9_$]*|"(?:[^"]|"")+")'
_QUALIFIED: Final = re.compile(rf"{_NAME}\.{_NAME}(?:\([0-9, ]*\))?")
_PLAIN: Final = re.compile(r"[a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*", re.IGNORECASE)
_MAX_TOLD: Final = 20


class EnumType(Struct, frozen=True, kw_only=True):
    """Enum type of the catalog, and its labels."""

    schema: str
    name: str
    labels: frozenset[str]

    def identifier(self) -> exp.Expr:
        """Name of the type in the rendered statement."""
        parts = (exp.to_identifier(part, quoted=True) for part in (self.schema, self.name))
        return exp.Dot(this=next(parts), expression=next(parts))

    def plain_name(self) -> str:
        """Name of the type for a dialect whose parser leaves names of types unquoted; "" if the name needs quotes."""
        name = f"{self.schema}.{self.name}"
        return name if _PLAIN.fullmatch(name) else ""


class EnumTypes:
    """Enum types of the columns that a scope opens."""

    def __init__(self, database: Database, scope: SqlScope) -> None:
        self._database = database
        self._scope = scope

    def accepts(self, node: exp.Expr) -> bool:
        """Return True for the name of an enum type in a cast of its labels, which becomes the full name. Raises `StatementRefusal`."""
        keeps_case = RECORDS[self._database.dialect].keeps_quoted_case
        kind = node.args.get("kind")
        found = self._known().get(_written(kind, keeps_case=keeps_case))
        if found is None or (isinstance(kind, str) and not found.plain_name()):
            return False
        cast = node.parent
        listed = isinstance(cast, exp.DataType) and cast.this in {exp.DType.ARRAY, exp.DType.LIST}
        if listed:
            cast = cast.parent if cast is not None else None
        if not isinstance(cast, exp.Cast) or not _is_of(cast.this, found.labels, listed=listed):
            told = ", ".join(f"'{shown(label)}'" for label in sorted(found.labels)[:_MAX_TOLD])
            refuse(
                "type",
                f"a value that is not a label is converted to {shown(found.name)}",
                f"write one of {told}, or compare column::text with a text",
            )
        node.set("kind", found.plain_name() if isinstance(kind, str) else found.identifier())
        return True

    def _known(self) -> Mapping[tuple[str, str], EnumType]:
        known = _KNOWN.get(self._database, self._scope)
        if known is None:
            known = MappingProxyType(_enum_types(self._database, self._scope))
            _KNOWN.put(self._database, self._scope, known)
        return known


_KNOWN: Final[ByIdentity[Mapping[tuple[str, str], EnumType]]] = ByIdentity(200)


def _enum_types(database: Database, scope: SqlScope) -> dict[tuple[str, str], EnumType]:
    """Return types by schema and name, and by name only in the default schema. Types of the engine have no schema."""
    found: dict[tuple[str, str], EnumType] = {}
    if not RECORDS[database.dialect].named_enums:
        return found
    for table in visible(database, scope).tables:
        for column in table.columns:
            if not column.labels or (match := _QUALIFIED.fullmatch(column.enum or column.type)) is None:
                continue
            schema, name = (part[1:-1].replace('""', '"') if part.startswith('"') else part for part in match.groups())
            known = EnumType(schema=schema, name=name, labels=frozenset(column.labels))
            if not RECORDS[database.dialect].keeps_quoted_case:
                schema, name = schema.lower(), name.lower()
            found[schema, name] = known
            if schema == DEFAULT_SCHEMA[database.dialect]:
                found["", name] = known
    return found


def _written(kind: object, *, keeps_case: bool) -> tuple[str, str]:
    """Return the schema and the name of a type as the engine folds them."""
    match kind:
        case exp.Identifier():
            return "", _folded(kind, keeps_case=keeps_case)
        case exp.Dot(this=exp.Identifier() as schema, expression=exp.Identifier() as name):
            return _folded(schema, keeps_case=keeps_case), _folded(name, keeps_case=keeps_case)
        case str():
            schema_name, _, type_name = kind.rpartition(".")
            return schema_name.lower(), type_name.lower()
    return "", ""


def _folded(name: exp.Identifier, *, keeps_case: bool) -> str:
    return str(name.name) if name.args.get("quoted") and keeps_case else str(name.name).lower()


def _is_of(value: exp.Expr, labels: frozenset[str], *, listed: bool) -> bool:
    """Return True if a value is a parameter or a label, or a list of labels if `listed`."""
    if isinstance(value, exp.Paren):
        return _is_of(value.this, labels, listed=listed)
    if isinstance(value, exp.Column):
        return slot_number(value) is not None
    if isinstance(value, exp.Null):
        return True
    if isinstance(value, exp.Cast) and not listed:  # `'paid'::text::order_status`
        return (
            isinstance(value.to.this, exp.DType)
            and value.to.is_type(*exp.DataType.TEXT_TYPES)
            and _is_of(value.this, labels, listed=False)
        )
    if isinstance(value, exp.Literal) and value.is_string:
        if not listed:
            return value.name in labels
        text = value.name.strip()
        inner = text[1:-1].split(",") if text.startswith("{") and text.endswith("}") else ["\0"]
        return text == "{}" or all(part.strip().strip('"') in labels for part in inner)
    if isinstance(value, exp.Array) and listed:
        return all(_is_of(one, labels, listed=False) for one in value.expressions)
    return False
