"""What a source's own account may do in its database, whatever the policy says: asked of the database, through the source's credentials.

What a user of MySQL or MariaDB may do, roles it may take included: read from the GRANTs the server writes out for it.

What a PostgreSQL role may do, its memberships and what everybody may do included.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias, assert_never

import psycopg
import pymysql
from pymysql.cursors import Cursor

from toolgen.errors import ConfigError, DescriptionError
from toolgen.model.database import Grant, Power, Rights, Sequence
from toolgen.model.database_url import FileLocation, ServerLocation, parse_location
from toolgen.sources.base import SourceConfig
from toolgen.sources.sql.mysql import reading, texts
from toolgen.sources.sql.postgres import begin, connect, unreachable, unreadable

__all__ = ["parse_grants", "read_rights"]


def read_rights(config: SourceConfig, password: str = "") -> Rights:
    """Reads catalogs alone, in a session that only reads.

    Raises `DescriptionError` for a database that cannot be reached and an engine whose driver is not installed.
    """
    try:
        location = parse_location(config.location)
        return _rights(location, password)
    except (ConfigError, DescriptionError) as error:
        where = error.where or f"sources.{config.name}"
        raise DescriptionError(error.message, where=where, suggestion=error.suggestion) from error


def _rights(location: FileLocation | ServerLocation, password: str) -> Rights:
    # The engines with a driver of their own are extras, so their readers are imported when there is such a source.
    match location:
        case FileLocation(path=path):
            return _file_rights(path)
        case ServerLocation(dialect="postgres"):
            return postgres_rights(location, password)
        case ServerLocation():
            return mysql_rights(location, password)
        case _:
            assert_never(location)


def _file_rights(path: Path) -> Rights:
    """A file has no accounts: what the gateway's process may do with it is what the operating system lets it."""
    if not path.is_file():
        raise DescriptionError("there is no such database file", suggestion="check the path of the source")
    powers = []
    if os.access(path, os.W_OK):
        message = (
            "this process may write the database file; the gateway opens it read-only unless a change was approved"
        )
        powers.append(Power(code="file-writable", message=message, harmless=True))
    if os.access(path.parent, os.W_OK):
        message = "this process may write the folder of the database file, and so put another file in its place"
        powers.append(Power(code="folder-writable", message=message, harmless=True))
    return Rights(account="", powers=tuple(powers))


_MAX_ROLES: Final = 50
_NAME: Final = r"`(?:[^`]|``)*`"
# Only these four shapes are read, and whatever is none of them is told as not understood: it may be anything.
_ON: Final = re.compile(
    rf"GRANT (?P<what>.+?) ON (?:(?P<kind>FUNCTION|PROCEDURE|PACKAGE|PACKAGE BODY|TABLE) )?"
    rf"(?P<schema>\*|{_NAME})\.(?P<table>\*|{_NAME}) TO (?P<rest>.*)",
    re.DOTALL,
)
_ROLE: Final = re.compile(rf"GRANT (?P<role>{_NAME}(?:@{_NAME})?(?:,{_NAME}@{_NAME})*) TO ", re.DOTALL)
_PROXY: Final = re.compile(r"GRANT PROXY ON ")
_DEFAULT_ROLE: Final = re.compile(r"SET DEFAULT ROLE ")
_PRIVILEGE: Final = re.compile(
    rf"(?P<name>[A-Z][A-Z_ ]*[A-Z])(?: \((?P<columns>(?:{_NAME}|[^`,()]+)(?:, ?(?:{_NAME}|[^`,()]+))*)\))?(?:, ?|\Z)"
)
_EVERY: Final = "ALL PRIVILEGES"
_GLOBAL: Final = {
    "FILE": "reads and writes files of the server",
    "SUPER": "changes the server's settings and ends other sessions",
    "PROCESS": "reads the statements of other sessions",
    "CREATE USER": "makes users and gives them rights",
    "SHUTDOWN": "stops the server",
    "RELOAD": "flushes logs and locks every table",
    "SELECT": "reads every table of every database",
}


def mysql_rights(location: ServerLocation, password: str) -> Rights:
    """Raises `DescriptionError` when the server cannot be reached or does not let the user in."""
    return reading(location, password, lambda cursor: parse_grants(_lines(cursor), location.user, location.database))


def _lines(cursor: Cursor) -> list[str]:
    """The GRANTs of the user and, taking them one after the other, of every role it may take, and those of everybody."""
    lines = _shown(cursor, "SHOW GRANTS")
    with contextlib.suppress(pymysql.MySQLError):  # there in MariaDB 10.11 and later alone
        lines += _shown(cursor, "SHOW GRANTS FOR PUBLIC")
    taken: set[str] = set()
    waiting = [role for line in lines for role in _roles(line)]
    while waiting and len(taken) < _MAX_ROLES:
        role = waiting.pop()
        if role in taken:
            continue
        taken.add(role)
        try:
            cursor.execute(f"SET ROLE {role}")
        except pymysql.MySQLError:
            continue  # a role of a role: it came with the one above it
        found = _shown(cursor, "SHOW GRANTS")
        lines += found
        waiting += [other for line in found for other in _roles(line)]
    return lines


def _shown(cursor: Cursor, question: str) -> list[str]:
    cursor.execute(question)
    return [line for (line,) in texts(cursor)]


def _roles(line: str) -> list[str]:
    found = _ROLE.match(line)
    return re.findall(rf"{_NAME}(?:@{_NAME})?", found["role"]) if found else []


def parse_grants(lines: list[str], user: str, database: str) -> Rights:
    """Pure: what a server's GRANT statements say, for a session in `database`.

    Their text goes no further: it may hold the hash of a password.
    """
    grants: set[Grant] = set()
    powers: set[Power] = set()
    for line in lines:
        for found in _read(line, database):
            match found:
                case Grant():
                    grants.add(found)
                case Power():
                    powers.add(found)
    return Rights(
        account=user,
        grants=tuple(sorted(grants)),
        powers=tuple(sorted(powers)),
        unlimited=any(power.code == "superuser" for power in powers),
    )


def _read(line: str, database: str) -> Iterator[Grant | Power]:
    if _DEFAULT_ROLE.match(line) or _ROLE.match(line):
        return
    if _PROXY.match(line):
        yield Power(code="proxy", message="may act as another user (PROXY)")
        return
    found = _ON.fullmatch(line)
    privileges = list(_privileges(found["what"])) if found else []
    if found is None or not privileges:
        yield Power(code="not-understood", message="has a grant that is not understood; look at it with SHOW GRANTS")
        return
    schema, table = _plain(found["schema"]), _plain(found["table"])
    if found["rest"].rstrip().endswith("WITH GRANT OPTION"):
        yield Power(code="grant-option", message=f"may give others its rights on {schema}.{table} (GRANT OPTION)")
    for name, columns in privileges:
        if name == "USAGE":
            continue
        if found["kind"] not in {None, "TABLE"}:
            yield Power(code="function", message=f"may call the {found['kind'].lower()} {schema}.{table}")
        elif schema == "*":
            yield _global(name)
        elif table == "*":
            yield Power(code="database", message=f"has {name} on every table of database {schema}")
        else:
            full = table if schema == database else f"{schema}.{table}"
            for column in columns or [""]:
                yield Grant(table=full, privilege=name, column=column)


def _global(name: str) -> Power:
    if name == _EVERY:
        return Power(code="superuser", message="has every privilege on the server")
    does = _GLOBAL.get(name, "holds on the whole server")
    return Power(code="global", message=f"has {name}, which {does}")


def _privileges(text: str) -> Iterator[tuple[str, list[str]]]:
    """Privileges with the columns they are limited to; nothing for a text that is not wholly understood."""
    found, end = [], 0
    for part in _PRIVILEGE.finditer(text):
        if part.start() != end:
            return
        end = part.end()
        columns = re.findall(rf"{_NAME}|[^`,() ]+", part["columns"] or "")
        found.append((part["name"], [_plain(column) for column in columns]))
    if end == len(text):
        yield from found


def _plain(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


_Connection: TypeAlias = psycopg.Connection[tuple[object, ...]]

_ROLES: Final = """
SELECT r.rolname, r.rolname = current_user, r.rolsuper, r.rolbypassrls, r.rolcreaterole, r.rolcreatedb, r.rolreplication
FROM pg_roles r WHERE r.rolname = current_user OR (pg_has_role(r.oid, 'MEMBER') AND r.rolname <> 'pg_database_owner') ORDER BY 2 DESC, 1
"""
_ATTRIBUTES: Final = (
    ("superuser", "is a superuser: no grant and no row security holds it"),
    ("bypass-rls", "reads past every row security policy (BYPASSRLS)"),
    ("create-role", "may make roles and give memberships (CREATEROLE)"),
    ("create-database", "may make databases (CREATEDB)"),
    ("replication", "may copy the whole server (REPLICATION)"),
)
# https://www.postgresql.org/docs/current/predefined-roles.html
_PREDEFINED: Final = {
    "pg_read_all_data": "reads every table",
    "pg_write_all_data": "writes every table",
    "pg_read_server_files": "reads files of the server",
    "pg_write_server_files": "writes files of the server",
    "pg_execute_server_program": "runs programs on the server",
    "pg_signal_backend": "ends other sessions",
    "pg_monitor": "reads what other sessions do",
    "pg_read_all_stats": "reads what other sessions do",
    "pg_read_all_settings": "reads settings that may hold secrets",
    "pg_maintain": "locks and rewrites every table",
    "pg_create_subscription": "makes the server connect to others",
}
_RELATIONS: Final = """
SELECT c.oid::int8, CASE n.nspname WHEN 'public' THEN c.relname ELSE n.nspname || '.' || c.relname END, p.privilege
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) AS p (privilege)
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT IN ('information_schema', 'pg_catalog') AND n.nspname !~ '^pg_(toast|temp)'
  AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, p.privilege)
"""
_COLUMNS: Final = """
SELECT CASE n.nspname WHEN 'public' THEN c.relname ELSE n.nspname || '.' || c.relname END, p.privilege, a.attname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'REFERENCES']) AS p (privilege)
  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT IN ('information_schema', 'pg_catalog') AND n.nspname !~ '^pg_(toast|temp)'
  AND has_schema_privilege(n.oid, 'USAGE') AND NOT has_table_privilege(c.oid, p.privilege)
  AND has_column_privilege(c.oid, a.attnum, p.privilege)
"""
_OWNED: Final = """
SELECT 'the ' || CASE c.relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'view' WHEN 'S' THEN 'sequence' ELSE 'table' END
  || ' ' || n.nspname || '.' || c.relname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND n.nspname !~ '^pg_' AND pg_has_role(c.relowner, 'MEMBER')
UNION ALL SELECT 'the schema ' || nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND pg_has_role(nspowner, 'MEMBER')
UNION ALL SELECT 'the function ' || n.nspname || '.' || p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
  WHERE n.nspname !~ '^pg_' AND pg_has_role(p.proowner, 'MEMBER')
UNION ALL SELECT 'the database ' || datname FROM pg_database WHERE datname = current_database() AND pg_has_role(datdba, 'MEMBER')
ORDER BY 1 LIMIT 100
"""
# A call of these does what their owner may do, or what the operating system lets the server do, whoever calls.
_FUNCTIONS: Final = """
SELECT p.oid::regprocedure::text, p.prosecdef, coalesce(e.extname, ''),
  p.proacl IS NULL OR EXISTS (SELECT FROM aclexplode(p.proacl) a WHERE a.grantee = 0 AND a.privilege_type = 'EXECUTE'),
  CASE p.prokind WHEN 'p' THEN 'PROCEDURE' ELSE 'FUNCTION' END
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
  LEFT JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
  LEFT JOIN pg_extension e ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass
WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND has_schema_privilege(n.oid, 'USAGE')
  AND has_function_privilege(p.oid, 'EXECUTE')
  AND (p.prosecdef OR e.extname IN ('dblink', 'adminpack', 'file_fdw', 'pageinspect', 'plperlu', 'plpython3u')) ORDER BY 1 LIMIT 100
"""
# What the server's makers took from everybody, and somebody gave back: pg_read_file, lo_import, pg_ls_dir, …
_RESTRICTED: Final = """
SELECT DISTINCT p.proname FROM pg_proc p
WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proacl IS NOT NULL AND has_function_privilege(p.oid, 'EXECUTE')
  AND NOT EXISTS (SELECT FROM pg_init_privs i CROSS JOIN LATERAL aclexplode(i.initprivs) a
    WHERE i.classoid = 'pg_proc'::regclass AND i.objoid = p.oid AND a.grantee = 0)
ORDER BY 1 LIMIT 100
"""
_ELSEWHERE: Final = """
SELECT 'create-schema', 'may make schemas in the database', false, '' WHERE has_database_privilege(current_database(), 'CREATE')
UNION ALL SELECT 'temporary', 'may make temporary tables, as everybody may by default', true,
  format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database()) WHERE has_database_privilege(current_database(), 'TEMPORARY')
UNION ALL SELECT 'create', 'may make tables and functions in schema ' || nspname, false,
  CASE WHEN EXISTS (SELECT FROM aclexplode(nspacl) a WHERE a.grantee = 0 AND a.privilege_type = 'CREATE')
    THEN format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC', nspname) ELSE '' END
  FROM pg_namespace WHERE nspname !~ '^pg_' AND has_schema_privilege(oid, 'CREATE')
UNION ALL SELECT 'server', 'may use the foreign server ' || srvname, false, '' FROM pg_foreign_server
  WHERE has_server_privilege(oid, 'USAGE')
UNION ALL SELECT 'passwords', 'may read the password hashes of roles (pg_authid)', false, ''
  WHERE has_table_privilege('pg_authid', 'SELECT')
UNION ALL SELECT 'language', 'may write functions in the untrusted language ' || lanname, false, '' FROM pg_language
  WHERE NOT lanpltrusted AND lanname NOT IN ('c', 'internal') AND has_language_privilege(oid, 'USAGE')
"""
_SEQUENCES: Final = """
SELECT s.oid::regclass::text, CASE n.nspname WHEN 'public' THEN t.relname ELSE n.nspname || '.' || t.relname END, d.deptype::text,
  has_sequence_privilege(s.oid, 'USAGE') OR has_sequence_privilege(s.oid, 'UPDATE')
FROM pg_class s JOIN pg_namespace sn ON sn.oid = s.relnamespace
  LEFT JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = s.oid AND d.refobjsubid > 0 AND d.deptype IN ('a', 'i')
  LEFT JOIN pg_class t ON t.oid = d.refobjid LEFT JOIN pg_namespace n ON n.oid = t.relnamespace
WHERE s.relkind = 'S' AND sn.nspname !~ '^pg_' AND has_schema_privilege(sn.oid, 'USAGE') ORDER BY 1
"""


def postgres_rights(location: ServerLocation, password: str) -> Rights:
    """Raises `DescriptionError` when the server cannot be reached or does not let the role in."""
    try:
        with connect(location, password) as connection:
            begin(connection)
            return _postgres_rights(connection, location.user)
    except psycopg.OperationalError:
        raise unreachable() from None  # libpq quotes host, user and options
    except psycopg.Error as error:
        raise unreadable(error) from None


def _postgres_rights(connection: _Connection, role: str) -> Rights:
    powers: list[Power] = []
    for name, own, *attributes in connection.execute(_ROLES):
        if not own:
            does = _PREDEFINED.get(str(name), "")
            if does or str(name).startswith("pg_"):
                powers.append(Power(code="member", message=f"is a member of {name}, which {does or 'is predefined'}"))
        powers.extend(
            Power(code=code, message=power if own else f"may become {name}, which {power}")
            for (code, power), has in zip(_ATTRIBUTES, attributes, strict=True)
            if has
        )
    sequences, usable = _sequences(connection)
    if any(power.code == "superuser" for power in powers):
        # To a superuser everything is granted. What everybody may do is told all the same: another role could do it too.
        powers.extend(power for power in _beyond_tables(connection) if power.remedy)
        return Rights(account=role, powers=tuple(powers), sequences=sequences, unlimited=True)
    powers.extend(_beyond_tables(connection))
    grants = {
        Grant(table=str(table), privilege=str(privilege)) for _, table, privilege in connection.execute(_RELATIONS)
    }
    grants |= {
        Grant(table=str(table), privilege=str(privilege), column=str(column))
        for table, privilege, column in connection.execute(_COLUMNS)
    }
    return Rights(
        account=role, grants=(*sorted(grants), *usable), powers=tuple(powers), sequences=sequences, unlimited=False
    )


def _beyond_tables(connection: _Connection) -> Iterator[Power]:
    for (what,) in connection.execute(_OWNED):
        yield Power(code="owner", message=f"owns {what}, so no grant holds it there")
    for signature, definer, extension, everybody, routine in connection.execute(_FUNCTIONS):
        reason = "which runs with its owner's rights" if definer else f"which reaches beyond the database ({extension})"
        remedy = f"REVOKE EXECUTE ON {routine} {signature} FROM PUBLIC" if everybody else ""
        yield Power(code="function", message=f"may call {signature}, {reason}", remedy=remedy)
    restricted = [str(name) for (name,) in connection.execute(_RESTRICTED)]
    if restricted:
        yield Power(code="server-function", message=f"may call {', '.join(restricted)}, which are for administrators")
    for code, message, harmless, cure in connection.execute(_ELSEWHERE):
        yield Power(code=str(code), message=str(message), harmless=bool(harmless), remedy=str(cure))


def _sequences(connection: _Connection) -> tuple[tuple[Sequence, ...], tuple[Grant, ...]]:
    """The sequences whose use an INSERT needs a grant for, and the grants of use there are on any."""
    needed: list[Sequence] = []
    usable: list[Grant] = []
    for name, table, kind, may_use in connection.execute(_SEQUENCES):
        if kind == "a":  # of serial; one of an identity column needs no grant
            needed.append(Sequence(name=str(name), table=str(table)))
        if may_use:
            usable.append(Grant(table=str(name), privilege="USAGE"))
    return tuple(needed), tuple(usable)
