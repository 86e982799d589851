"""Rights of a MySQL or MariaDB user, including roles it may take, read from the server's GRANT statements."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Final

import msgspec
import pymysql
from pymysql.cursors import Cursor

from toolgen.connectors.sql.reading.mysql import reading, texts
from toolgen.model.database_rights import Power, Rights, TablePrivilege
from toolgen.model.database_url import ServerLocation

__all__ = ["mysql_rights", "parse_grants"]

_MAX_ROLES: Final = 50
_NAME: Final = r"`(?:[^`]|``)*`"
# Only these four forms are parsed; any other is reported as not understood, because it may mean anything.
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
    """Read the rights. Raises `DescriptionError` when the server cannot be reached or refuses the user."""

    def read(cursor: Cursor) -> Rights:
        rights = parse_grants(_lines(cursor), location.user, location.database)
        unbounded = _shown(cursor, "SELECT CAST(@@max_user_connections AS CHAR)") == ["0"]
        return msgspec.structs.replace(rights, unbounded=("sessions",) if unbounded and not rights.unlimited else ())

    return reading(location, password, read)


def _lines(cursor: Cursor) -> list[str]:
    """Return the GRANTs of the user, of PUBLIC, and of every role it may take, which are set one after the other."""
    lines = _shown(cursor, "SHOW GRANTS")
    with contextlib.suppress(pymysql.MySQLError):  # only in MariaDB 10.11 and later
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
            continue  # a role of a role: it was listed with the outer role
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
    """Parse a server's GRANT statements for a session in `database`.

    Their text is not passed on, because it may contain the hash of a password.
    """
    grants: set[TablePrivilege] = set()
    powers: set[Power] = set()
    for line in lines:
        for found in _read(line, database):
            match found:
                case TablePrivilege():
                    grants.add(found)
                case Power():
                    powers.add(found)
    return Rights(
        account=user,
        grants=tuple(sorted(grants)),
        powers=tuple(sorted(powers)),
        unlimited=any(power.code == "superuser" for power in powers),
    )


def _read(line: str, database: str) -> Iterator[TablePrivilege | Power]:
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
                yield TablePrivilege(table=full, privilege=name, column=column)


def _global(name: str) -> Power:
    if name == _EVERY:
        return Power(code="superuser", message="has every privilege on the server")
    does = _GLOBAL.get(name, "holds on the whole server")
    return Power(code="global", message=f"has {name}, which {does}")


def _privileges(text: str) -> Iterator[tuple[str, list[str]]]:
    """Return privileges with the columns they are limited to; nothing for a text that is not completely understood."""
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
