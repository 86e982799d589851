"""Schema of a database as a build read it: the tables and columns that statements are resolved against."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

import msgspec

__all__ = [
    "MYSQL_CASCADES",
    "MYSQL_CASCADES_OF",
    "MYSQL_TABLE_NAMES",
    "POSTGRES_CASCADES",
    "UNSEEN",
    "Cascade",
    "Column",
    "Database",
    "DialectName",
    "Index",
    "Table",
    "mysql_table_names",
    "set_off",
]


class Cascade(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, order=True):
    """Change caused by a statement. `on` is the kind of statement (insert, update, delete), `by` the trigger, rule or foreign key, in words
    for the operator.

    `columns`: an update causes it only if it sets one of them; none means any.
    """

    on: str
    by: str
    columns: tuple[str, ...] = ()


def set_off(cascades: Iterable[Cascade], kind: str, sets: Iterable[str]) -> tuple[Cascade, ...]:
    """Return the cascades that a statement of this kind starts; `sets` are the columns an update sets, as the database spells them."""
    changed = frozenset(sets)
    return tuple(one for one in cascades if one.on == kind and (not one.columns or not changed.isdisjoint(one.columns)))


UNSEEN: Final = "what the account may not see; it would need REFERENCES on *.* and, in MySQL, TRIGGER on the database"

# Parameter: an array of tables (quoted names). Columns: the table's oid, the kind, the object, the columns.
# An update of a partitioned table may be a deletion and an insertion in its partitions. A default that calls a volatile user-defined
# function may do anything; a function of an extension is assumed to be known.
# https://www.postgresql.org/docs/current/catalog-pg-trigger.html has the bits of tgtype.
POSTGRES_CASCADES: Final = """
WITH RECURSIVE asked (root, kind) AS (
  SELECT c.oid, c.relkind FROM pg_catalog.pg_class c WHERE c.oid = ANY(%s::text[]::regclass[]::oid[])),
family (root, kind, member) AS (
  SELECT root, kind, root FROM asked
  UNION SELECT f.root, f.kind, i.inhrelid FROM family f JOIN pg_catalog.pg_inherits i ON i.inhparent = f.member),
kinds (name, bit, action, event) AS (VALUES ('insert', 4, '', '3'), ('delete', 8, 'd', '4'), ('update', 16, 'u', '2')),
found (root, kind, name, what, relation, numbers) AS (
  SELECT f.root, f.kind, k.name, 'trigger ' || t.tgname, f.member, CASE k.name WHEN 'update' THEN t.tgattr::int2[] ELSE '{}' END
  FROM family f JOIN pg_catalog.pg_trigger t ON t.tgrelid = f.member JOIN kinds k ON t.tgtype & k.bit <> 0
  WHERE NOT t.tgisinternal AND t.tgenabled <> 'D'
  UNION ALL
  SELECT f.root, f.kind, k.name, 'foreign key ' || c.conname || ' of ' || c.conrelid::regclass::text, f.member,
    CASE k.name WHEN 'update' THEN c.confkey ELSE '{}' END
  FROM family f JOIN pg_catalog.pg_constraint c ON c.confrelid = f.member AND c.contype = 'f' CROSS JOIN kinds k
  WHERE (k.action = 'd' AND c.confdeltype IN ('c', 'n', 'd')) OR (k.action = 'u' AND c.confupdtype IN ('c', 'n', 'd'))
  UNION ALL
  SELECT f.root, f.kind, k.name, 'rule ' || r.rulename, f.member, '{}'
  FROM family f JOIN pg_catalog.pg_rewrite r ON r.ev_class = f.member JOIN kinds k ON r.ev_type::text = k.event
  WHERE r.ev_enabled <> 'D'
  UNION ALL
  SELECT f.root, f.kind, 'insert', 'default of ' || a.attname || ' by ' || p.proname, f.member, '{}'
  FROM family f JOIN pg_catalog.pg_attrdef d ON d.adrelid = f.member
    JOIN pg_catalog.pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
    JOIN pg_catalog.pg_depend u ON u.classid = 'pg_catalog.pg_attrdef'::regclass AND u.objid = d.oid
      AND u.refclassid = 'pg_catalog.pg_proc'::regclass
    JOIN pg_catalog.pg_proc p ON p.oid = u.refobjid AND p.provolatile = 'v' AND p.pronamespace <> 'pg_catalog'::regnamespace
  WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_depend e
    WHERE e.classid = 'pg_catalog.pg_proc'::regclass AND e.objid = p.oid AND e.deptype = 'e')),
told (root, name, what, relation, numbers) AS (
  SELECT root, name, what, relation, numbers FROM found
  UNION SELECT root, 'update', what, relation, '{}' FROM found WHERE kind = 'p' AND name <> 'update')
SELECT t.root::int8, t.name, t.what, ARRAY(
  SELECT a.attname::text FROM pg_catalog.pg_attribute a WHERE a.attrelid = t.relation AND a.attnum = ANY(t.numbers) ORDER BY a.attnum)
FROM told t ORDER BY 1, 2, 3, 4
"""

# Columns: the table ('' may be any), the kind, the object, one column or ''. Objects that the account may not see are reported as unseen.
# MariaDB lists foreign keys of tables the account has no grant on where it has one of these privileges everywhere, and lists every trigger.
# A foreign key refers to columns with an index, so no other update can have an action.
_MYSQL: Final = """
SELECT event_object_table, lower(event_manipulation), concat('trigger ', trigger_name), '' FROM information_schema.triggers
WHERE event_object_schema = DATABASE(){of_trigger}
UNION ALL
SELECT coalesce(c.referenced_table_name, ''), 'delete', concat('foreign key ', c.constraint_name, ' of ', c.table_name), ''
FROM information_schema.referential_constraints c
WHERE c.unique_constraint_schema = DATABASE(){of_key} AND c.delete_rule IN ('CASCADE', 'SET NULL', 'SET DEFAULT')
UNION ALL
SELECT coalesce(c.referenced_table_name, ''), 'update', concat('foreign key ', c.constraint_name, ' of ', c.table_name),
  coalesce(k.referenced_column_name, '')
FROM information_schema.referential_constraints c LEFT JOIN information_schema.key_column_usage k
  ON k.constraint_schema = c.constraint_schema AND k.constraint_name = c.constraint_name AND k.table_name = c.table_name
WHERE c.unique_constraint_schema = DATABASE(){of_key} AND c.update_rule IN ('CASCADE', 'SET NULL', 'SET DEFAULT')
UNION ALL
SELECT '', 'delete', '{unseen}', '' FROM DUAL WHERE NOT {keys}
UNION ALL
SELECT s.table_name, 'update', '{unseen}', s.column_name FROM information_schema.statistics s
WHERE s.table_schema = DATABASE(){of_index} AND NOT {keys}
UNION ALL
SELECT '', kinds.name, '{unseen}', '' FROM (SELECT 'insert' AS name UNION ALL SELECT 'update' UNION ALL SELECT 'delete') kinds
WHERE NOT {triggers}
"""
_ME: Final = "grantee = concat('''', replace(current_user(), '@', '''@'''), '''')"
_KEYS: Final = """EXISTS (SELECT 1 FROM information_schema.user_privileges
  WHERE {me} AND privilege_type IN ('REFERENCES', 'TRIGGER', 'INSERT', 'UPDATE', 'DELETE'))"""
_TRIGGERS: Final = """(locate('MariaDB', version()) > 0
  OR EXISTS (SELECT 1 FROM information_schema.user_privileges WHERE {me} AND privilege_type = 'TRIGGER')
  OR EXISTS (SELECT 1 FROM information_schema.schema_privileges
    WHERE {me} AND table_schema = DATABASE() AND privilege_type = 'TRIGGER'))"""
_SIGHT: Final = {"keys": _KEYS.format(me=_ME), "triggers": _TRIGGERS.format(me=_ME), "unseen": UNSEEN}
MYSQL_CASCADES: Final = _MYSQL.format(of_trigger="", of_key="", of_index="", **_SIGHT)
# The same query for one table, whose name is sent four times.
MYSQL_CASCADES_OF: Final = _MYSQL.format(
    of_trigger=" AND event_object_table = ?",
    of_key=" AND (c.referenced_table_name = ? OR c.referenced_table_name IS NULL)",
    of_index=" AND s.table_name = ?",
    **_SIGHT,
)


GATHERED_SETTING: Final = "toolgen.gathered"
"""Setting of a transaction in which PostgreSQL adds up aggregated values. The error of the failing cast contains this name too."""

MYSQL_TABLE_NAMES = "SELECT @@lower_case_table_names"


class Column(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Column with the engine's name and type. `computed`: an update may change it without setting it (GENERATED, ON UPDATE). `invisible`:
    `*` omits it (MariaDB, MySQL).

    `labels` are the only values of an enum, and `enum` is its name with its schema if `type` is something else. `default` is the expression
    for a missing value in an INSERT.
    """

    name: str
    type: str
    nullable: bool = True
    comment: str = ""
    computed: bool = False
    default: str = ""
    labels: tuple[str, ...] = ()
    invisible: bool = False
    enum: str = ""


class Index(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, order=True):
    """Index over columns, except the primary key's. `unique`: no two rows share their values."""

    columns: tuple[str, ...]
    unique: bool = False


class Table(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Table or view. `references` maps a column to `table.column`; `cascades` is read for sources that write. `checks` are expressions
    that hold for every row. `writes` are the kinds of changes that a caller may make, and `writable` the columns they may set: only
    in a description for a caller. `row_note` is the policy's note about hidden rows: likewise.
    """

    name: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()
    references: dict[str, str] = {}
    view: bool = False
    schema: str = ""
    comment: str = ""
    cascades: tuple[Cascade, ...] = ()
    indexes: tuple[Index, ...] = ()
    checks: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    row_note: str = ""


DialectName: TypeAlias = str
"""Name of a SQL dialect, as in sqlglot. `connectors/sql/engines.py` lists them."""


class Database(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Physical schema of one database. `dialect` is sqlglot's name.

    `functions` are user-defined ones that a call without a schema finds, in lower case: one may replace a built-in one. `name` is the
    database's own, if statements may write it before a table (MySQL). `table_names` is the comparison of names of tables and aliases of a
    MySQL server: `exact`, `folded`, or "" if unknown (lower_case_table_names).
    """

    dialect: DialectName
    tables: tuple[Table, ...]
    functions: tuple[str, ...] = ()
    name: str = ""
    table_names: str = ""


def mysql_table_names(answered: object) -> str:
    """Return `Database.table_names` for a server's answer to MYSQL_TABLE_NAMES; it is set once for the complete server."""
    return "exact" if str(answered) == "0" else "folded"
