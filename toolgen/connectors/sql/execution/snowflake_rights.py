"""Rights of a Snowflake role, read from SHOW GRANTS: a role that may do more than read is not used, nor a session that folds quoted names.

https://docs.snowflake.com/en/sql-reference/sql/show-grants. Statements run with one role. Privileges of other roles of the user count only
with secondary roles, which must be off: https://docs.snowflake.com/en/user-guide/security-access-control-overview.
"""

from __future__ import annotations

import json
from typing import Final

from msgspec import Struct

from toolgen.connectors.sql.execution.session_pool import DatabaseUnreachableError
from toolgen.connectors.sql.execution.snowflake_api import ApiConnection

__all__ = ["RolePrivilege", "RoleRights", "refuse_writers", "role_rights"]

_CONTEXT: Final = "SELECT CURRENT_ROLE() AS ROLE, CURRENT_SECONDARY_ROLES() AS SECONDARY"
# With this parameter "secret" is SECRET, and the guard would take a hidden table for an open one.
# https://docs.snowflake.com/en/sql-reference/parameters#quoted-identifiers-ignore-case
_FOLDING: Final = "SHOW PARAMETERS LIKE 'QUOTED_IDENTIFIERS_IGNORE_CASE' IN SESSION"
_READS: Final = frozenset({"SELECT", "REFERENCES"})
_USED: Final = frozenset({"DATABASE", "SCHEMA", "WAREHOUSE"})
_PUBLIC: Final = frozenset({"SELECT", "REFERENCES", "USAGE", "READ", "MONITOR"})
_CALLED: Final = frozenset({"FUNCTION"})


class RolePrivilege(Struct, frozen=True, kw_only=True, order=True):
    """Privilege on an object, as SHOW GRANTS lists it."""

    privilege: str
    kind: str
    name: str


class RoleRights(Struct, frozen=True, kw_only=True):
    """Rights of the role of a source. `secondary` is True if the session has other roles besides it, and `folds` if it ignores the case of
    names in quotes.
    """

    role: str
    secondary: bool
    folds: bool
    own: tuple[RolePrivilege, ...]
    public: tuple[RolePrivilege, ...]

    def excess(self) -> tuple[RolePrivilege, ...]:
        """Return the grants of the role, and of PUBLIC, that let statements do more than read."""
        own = (one for one in self.own if not _only_reads(one))
        return (*own, *(one for one in self.public if one.privilege not in _PUBLIC))

    def calls(self) -> tuple[RolePrivilege, ...]:
        """Return the functions that the role may call. The guard refuses those that the policy does not list."""
        return tuple(one for one in self.own if one.kind in _CALLED)


def _only_reads(grant: RolePrivilege) -> bool:
    if grant.privilege == "USAGE":
        return grant.kind in _USED or grant.kind in _CALLED
    return grant.privilege in _READS


async def role_rights(connection: ApiConnection, timeout_s: float) -> RoleRights:
    """Read the rights of the role of a connection."""
    context = (await connection.ask(_CONTEXT, timeout_s))[0]
    role = context.get("role") or ""
    return RoleRights(
        role=role,
        secondary=_has_roles(context.get("secondary")),
        folds=[row.get("value") for row in await connection.ask(_FOLDING, timeout_s)] != ["false"],
        own=await _grants(connection, connection.account.role, timeout_s),
        public=await _grants(connection, "PUBLIC", timeout_s),
    )


async def _grants(connection: ApiConnection, role: str, timeout_s: float) -> tuple[RolePrivilege, ...]:
    rows = await connection.ask(f'SHOW GRANTS TO ROLE "{role}"', timeout_s)
    return tuple(
        sorted(
            RolePrivilege(
                privilege=(row.get("privilege") or "").upper(),
                kind=(row.get("granted_on") or "").upper().replace(" ", "_"),
                name=row.get("name") or "",
            )
            for row in rows
        )
    )


def _has_roles(told: str | None) -> bool:
    """Return True unless CURRENT_SECONDARY_ROLES says that there is none: `{"roles":"","value":""}`."""
    try:
        found = json.loads(told or "null")
    except ValueError:
        return True
    return not isinstance(found, dict) or found.get("roles") != "" or found.get("value") not in {"", "NONE", None}


async def refuse_writers(connection: ApiConnection, timeout_s: float) -> None:
    """Raise `DatabaseUnreachableError` for a session that may do more than read."""
    rights = await role_rights(connection, timeout_s)
    if rights.role != connection.account.role:
        raise DatabaseUnreachableError("the session has another role than its location names", "tell the operator")
    if rights.secondary:
        raise DatabaseUnreachableError(
            "the user has secondary roles, whose rights are not checked",
            "the operator should run: ALTER USER … SET DEFAULT_SECONDARY_ROLES = ()",
        )
    if rights.folds:
        raise DatabaseUnreachableError(
            "the session ignores the case of names in quotes, or does not tell it",
            "the operator should run: ALTER USER … SET QUOTED_IDENTIFIERS_IGNORE_CASE = FALSE",
        )
    if rights.excess():
        raise DatabaseUnreachableError(
            "the role of the gateway may do more than read",
            "the operator should run `toolgen doctor`, and grant SELECT on tables and USAGE on database, schema and warehouse only",
        )
