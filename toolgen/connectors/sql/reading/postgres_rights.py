"""Rights of a PostgreSQL role, including its memberships and the rights of PUBLIC."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

import psycopg

from toolgen.connectors.sql.reading.no_session import no_session
from toolgen.connectors.sql.reading.postgres import begin, connect, unreadable
from toolgen.model.database_rights import Power, Rights, Sequence, TablePrivilege
from toolgen.model.database_url import ServerLocation

__all__ = ["postgres_rights"]

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
# Calls of these have the rights of their owner, or of the server's process, for every caller.
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
# Functions without public execution by default, for which it was granted: pg_read_file, lo_import, pg_ls_dir, …
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

_BOUNDS: Final = (
    "SELECT rolconnlimit < 0, current_setting('temp_file_limit') = '-1' FROM pg_roles WHERE rolname = current_user"
)


def postgres_rights(location: ServerLocation, password: str) -> Rights:
    """Read the rights. Raises `DescriptionError` when the server cannot be reached or refuses the role."""
    try:
        with connect(location, password) as connection:
            begin(connection)
            return _postgres_rights(connection, location.user)
    except psycopg.OperationalError as error:
        raise (
            unreadable(error) if error.sqlstate else no_session(location, socket_file=f".s.PGSQL.{location.port}")
        ) from None
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
        # A superuser has all grants. Rights of PUBLIC are reported too, because they apply to other roles.
        powers.extend(power for power in _beyond_tables(connection) if power.remedy)
        return Rights(account=role, powers=tuple(powers), sequences=sequences, unlimited=True)
    powers.extend(_beyond_tables(connection))
    grants = {
        TablePrivilege(table=str(table), privilege=str(privilege))
        for _, table, privilege in connection.execute(_RELATIONS)
    }
    grants |= {
        TablePrivilege(table=str(table), privilege=str(privilege), column=str(column))
        for table, privilege, column in connection.execute(_COLUMNS)
    }
    (unbounded,) = connection.execute(_BOUNDS).fetchall()
    return Rights(
        account=role,
        grants=(*sorted(grants), *usable),
        powers=tuple(powers),
        sequences=sequences,
        unbounded=tuple(
            what for what, any_amount in zip(("sessions", "temporary files"), unbounded, strict=True) if any_amount
        ),
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


def _sequences(connection: _Connection) -> tuple[tuple[Sequence, ...], tuple[TablePrivilege, ...]]:
    """Return the sequences whose use requires a grant for INSERT, and all grants of use."""
    needed: list[Sequence] = []
    usable: list[TablePrivilege] = []
    for name, table, kind, may_use in connection.execute(_SEQUENCES):
        if kind == "a":  # of serial; the sequence of an identity column needs no grant
            needed.append(Sequence(name=str(name), table=str(table)))
        if may_use:
            usable.append(TablePrivilege(table=str(name), privilege="USAGE"))
    return tuple(needed), tuple(usable)
