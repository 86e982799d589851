"""Rights of a database's account compared with the policy: rights that it does not need, rights that it lacks, and missing limits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from toolgen.connectors.source import SourceSettings, password_of
from toolgen.connectors.sql.account_needs import needed_privileges
from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.engines import location_of
from toolgen.connectors.sql.fitting_account import account_hints, fitting_account, limit_statement
from toolgen.connectors.sql.guard.identifiers import find_table, full_name
from toolgen.connectors.sql.reading.read import read_rights
from toolgen.core.errors import ToolgenError
from toolgen.model.account_report import AccountFinding, DatabaseReport
from toolgen.model.database import Database, Table
from toolgen.model.database_rights import Rights, TablePrivilege
from toolgen.model.database_url import ServerLocation
from toolgen.model.sql_scope import SqlScope

__all__ = ["examined"]

_MAX_NAMES = 20
_TAKEN = {"sessions": "memory", "temporary files": "disk"}


def examined(source: SourceSettings, database: Database, opened: SqlScope | None) -> DatabaseReport:
    """Compare the rights of a source's account with the policy. Never raises for faults of the database."""
    scope = opened or SqlScope()
    name, dialect = source.config.name, database.dialect
    try:
        rights = read_rights(source.config, password_of(source))
    except ToolgenError as error:
        return DatabaseReport(source=name, dialect=dialect, unread=str(error))
    needed = needed_privileges(database, scope)
    findings = (*_excess(rights, needed, database), *_cascading(database, scope))
    location = location_of(source.config.location)
    if not isinstance(location, ServerLocation):
        return DatabaseReport(source=name, dialect=dialect, findings=findings)
    if RECORDS[dialect].accounts is None:
        lacking = _lacking(rights, needed)
        return DatabaseReport(source=name, dialect=dialect, account=rights.account, findings=(*findings, *lacking))
    account = f"toolgen_{name}"
    return DatabaseReport(
        source=name,
        dialect=dialect,
        account=rights.account,
        findings=(*findings, *_lacking(rights, needed), *_unbounded(rights, location)),
        grants=tuple(fitting_account(location, database, needed, rights.sequences, account)),
        public=tuple(power.remedy for power in rights.powers if power.remedy),
        hints=tuple(account_hints(location, database, scope, account)),
    )


def _excess(rights: Rights, needed: frozenset[TablePrivilege], database: Database) -> list[AccountFinding]:
    """Return the rights of the account that the policy does not need: powers first, then grants by table and privilege."""
    found = [
        AccountFinding(code=power.code, message=power.message, too_much=not power.harmless, remedy=power.remedy)
        for power in rights.powers
    ]
    tables = {full_name(table): table for table in database.tables}
    columns: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    owners = {sequence.name: sequence.table for sequence in rights.sequences}
    for grant in sorted(rights.grants):
        for column in _beyond(grant, needed, tables.get(grant.table), owners):
            columns[grant.table, grant.privilege].append(column)
    for (table, privilege), names in columns.items():
        what = f" ({_listed(names)})" if any(names) else ""
        found.append(
            AccountFinding(
                code=f"grant-{privilege.lower().replace(' ', '-')}",
                message=f"may {privilege} {table}{what}, which the policy does not open",
            )
        )
    return found


def _beyond(
    grant: TablePrivilege, needed: frozenset[TablePrivilege], table: Table | None, owners: dict[str, str]
) -> Iterator[str]:
    """Return the needless columns of a grant; "" for a grant without any needed column."""
    if grant.privilege == "USAGE":
        owner = owners.get(grant.table)
        if not any(need.table == owner and need.privilege == "INSERT" for need in needed):
            yield ""
        return
    mine = {need.column for need in needed if (need.table, need.privilege) == (grant.table, grant.privilege)}
    if grant.column:
        if not mine & {grant.column, ""}:
            yield grant.column
    elif not mine or table is None:
        yield ""
    elif "" not in mine:
        yield from (column.name for column in table.columns if column.name not in mine)


def _lacking(rights: Rights, needed: frozenset[TablePrivilege]) -> list[AccountFinding]:
    """Return the rights that the policy needs and the account lacks: such statements fail at the database."""
    wide = rights.unlimited or any(power.code in {"database", "global"} for power in rights.powers)
    missing: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    held = {*rights.grants}
    for need in sorted(needed):
        whole = TablePrivilege(table=need.table, privilege=need.privilege)
        if not wide and need not in held and whole not in held:
            missing[need.table, need.privilege].append(need.column)
    return [
        AccountFinding(
            code="lacking",
            message=f"may not {privilege} {table}{f' ({_listed(names)})' if any(names) else ''}, which the policy opens",
            too_much=False,
        )
        for (table, privilege), names in missing.items()
    ]


def _unbounded(rights: Rights, location: ServerLocation) -> Iterator[AccountFinding]:
    """Yield the resources without a limit for the account, so that an agent's statements could exhaust the server's memory and disk."""
    for what in rights.unbounded:
        yield AccountFinding(
            code="memory",
            message=f"may take any amount of {what}, and so of the server's {_TAKEN[what]}",
            too_much=False,
            remedy=limit_statement(location, rights.account, what),
        )


def _cascading(database: Database, scope: SqlScope) -> list[AccountFinding]:
    """Return the cascades and triggers that statements allowed by the policy start, as of the build. They are refused, or run uncounted or
    unfiltered."""
    found = []
    for name, entry in scope.tables.items():
        table = find_table(database, name)
        own = sorted({one.by for one in table.cascades if one.on in entry.writes}) if table is not None else []
        if own:
            done = "the policy opens with cascades: true" if entry.cascades else "such statements are refused"
            found.append(
                AccountFinding(
                    code="cascades", message=f"changing {name} triggers {_listed(own)}: {done}", too_much=False
                )
            )
    return found


def _listed(names: Iterable[str]) -> str:
    shown = [*names]
    more = f", and {len(shown) - _MAX_NAMES} more" if len(shown) > _MAX_NAMES else ""
    return ", ".join(shown[:_MAX_NAMES]) + more
