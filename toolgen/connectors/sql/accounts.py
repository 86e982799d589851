"""Rights of a database's account beyond the policy, one finding a thing, from its rights and what the policy needs.

The statements that make an account which can do what the policy opens, and nothing else.

What a database's account needs for what the policy opens: no privilege on any table or column beyond these.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from toolgen.connectors.source import SourceSettings, password_of
from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.dialects.record import AccountStatements
from toolgen.connectors.sql.engines import location_of
from toolgen.connectors.sql.guard.filters import columns_of, read_filter
from toolgen.connectors.sql.guard.grants import find_table, fold_column, full_name, visible_columns
from toolgen.connectors.sql.reading.read import read_rights
from toolgen.core.errors import ToolgenError
from toolgen.model.account_report import AccountFinding, DatabaseReport
from toolgen.model.database import Database, DialectName, Table
from toolgen.model.database_rights import Rights, Sequence, TablePrivilege
from toolgen.model.database_url import ServerLocation
from toolgen.model.sql_scope import SqlScope, TableScope

__all__ = ["examined"]

_MAX_NAMES = 20
_PROCESSES = 5  # of gateways that use an account at once, each with its pool
_TAKEN = {"sessions": "memory", "temporary files": "disk"}


def examined(source: SourceSettings, database: Database, opened: SqlScope | None) -> DatabaseReport:
    """Compare the rights of a source's account with the policy. Never raises for faults of the database."""
    scope = opened or SqlScope()
    name, dialect = source.config.name, database.dialect
    try:
        rights = read_rights(source.config, password_of(source))
    except ToolgenError as error:
        return DatabaseReport(source=name, dialect=dialect, unread=str(error))
    needed = _needs(database, scope)
    findings = (*_excess(rights, needed, database), *_cascading(database, scope))
    location = location_of(source.config.location)
    if not isinstance(location, ServerLocation):
        return DatabaseReport(source=name, dialect=dialect, findings=findings)
    account = f"toolgen_{name}"
    return DatabaseReport(
        source=name,
        dialect=dialect,
        account=rights.account,
        findings=(*findings, *_lacking(rights, needed), *_unbounded(rights, location)),
        grants=tuple(_fitting_account(location, database, needed, rights.sequences, account)),
        public=tuple(power.remedy for power in rights.powers if power.remedy),
        hints=(
            _statements(location).password_hint(_quoted(account, dialect)),
            _statements(location).memory_hint(account),
            *_row_hints(database, scope, _statements(location).rows),
        ),
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
    """The columns of a grant that are not needed; "" for a grant that has no use for any column."""
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
    """Yield the resources that the account may use without limit, so that an agent's statements could exhaust the server's memory and
    disk."""
    for what in rights.unbounded:
        yield AccountFinding(
            code="memory",
            message=f"may take any amount of {what}, and so of the server's {_TAKEN[what]}",
            too_much=False,
            remedy=_statements(location).bound(what, _quoted(rights.account, location.dialect), _sessions(location)),
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
                    code="cascades", message=f"changing {name} sets off {_listed(own)}: {done}", too_much=False
                )
            )
    return found


def _listed(names: Iterable[str]) -> str:
    shown = [*names]
    more = f", and {len(shown) - _MAX_NAMES} more" if len(shown) > _MAX_NAMES else ""
    return ", ".join(shown[:_MAX_NAMES]) + more


_PRIVILEGES = ("SELECT", "INSERT", "UPDATE", "DELETE")


def _fitting_account(
    location: ServerLocation,
    database: Database,
    needed: frozenset[TablePrivilege],
    sequences: tuple[Sequence, ...],
    account: str,
) -> list[str]:
    """SQL for an administrator, in order. The account it makes has no password yet, and a comment says how it gets one."""
    terms, name = _statements(location), _quoted(account, database.dialect)
    opened = {grant.table for grant in needed}
    default = RECORDS[database.dialect].default_schema
    schemas = sorted({table.schema or default for table in database.tables if full_name(table) in opened})
    writes = any(grant.privilege != "SELECT" for grant in needed)
    statements = [*terms.make(name, location.database, schemas, writes, _sessions(location))]
    name = terms.rights(name)
    for table in database.tables:
        statements.extend(_on_table(table, location, database.dialect, needed, name))
    inserting = {grant.table for grant in needed if grant.privilege == "INSERT"}
    statements.extend(f"GRANT USAGE ON SEQUENCE {one.name} TO {name}" for one in sequences if one.table in inserting)
    return statements


def _statements(location: ServerLocation) -> AccountStatements:
    statements = RECORDS[location.dialect].accounts
    assert statements is not None  # noqa: S101 - a server has accounts
    return statements


def _sessions(location: ServerLocation) -> int:
    return _PROCESSES * location.pool_size


def _row_hints(database: Database, scope: SqlScope, means: str) -> Iterator[str]:
    """Row filters are the gateway's work; a sentence for each says what the database could hold as well."""
    for name, entry in scope.tables.items():
        table = find_table(database, name)
        if entry.rows is not None and table is not None:
            yield f"{full_name(table)}: rows where {entry.rows}; the gateway adds this itself, {means} can hold it in the database too"


def _on_table(
    table: Table, location: ServerLocation, dialect: DialectName, needed: frozenset[TablePrivilege], account: str
) -> Iterator[str]:
    columns: defaultdict[str, set[str]] = defaultdict(set)
    for grant in needed:
        if grant.table == full_name(table):
            columns[grant.privilege].add(grant.column)
    schema = table.schema or RECORDS[dialect].default_schema or location.database
    place = f"{_quoted(schema, dialect)}.{_quoted(table.name, dialect)}"
    for privilege in _PRIVILEGES:
        if privilege not in columns:
            continue
        named = [column.name for column in table.columns if column.name in columns[privilege]]
        whole = "" in columns[privilege] or len(named) == len(table.columns)
        listed = "" if whole else f" ({', '.join(_quoted(column, dialect) for column in named)})"
        yield f"GRANT {privilege}{listed} ON {place} TO {account}"


def _quoted(name: str, dialect: DialectName) -> str:
    mark = RECORDS[dialect].quote
    return f"{mark}{name.replace(mark, mark * 2)}{mark}"


_BY_COLUMN = {"insert": "INSERT", "update": "UPDATE"}


def _needs(database: Database, scope: SqlScope) -> frozenset[TablePrivilege]:
    """Return the privileges that a policy needs: one `TablePrivilege` for each column, and one for each table for DELETE."""
    found: set[TablePrivilege] = set()
    for name, table_scope in scope.tables.items():
        table = find_table(database, name)
        if table is not None:
            found |= _of_table(table, table_scope, database.dialect)
    return frozenset(found)


def _of_table(table: Table, scope: TableScope, dialect: DialectName) -> set[TablePrivilege]:
    """Reading takes the columns that are opened and those the row filter asks about; a masked one is never read."""
    name = full_name(table)
    opened = visible_columns(table, scope, dialect)
    asked = columns_of(read_filter(scope.rows, dialect)[0], table, dialect) if scope.rows else ()
    read = ({*opened} - {*scope.masks}) | {*asked}
    found = {TablePrivilege(table=name, privilege="SELECT", column=column) for column in read}
    for kind, privilege in _BY_COLUMN.items():
        if kind in scope.writes:
            # No statement sets a column that the row filter asks about; a new row gets the principal's own value there.
            set_by_statement = _settable(scope, opened, dialect) - {*asked}
            columns = set_by_statement | {*asked} if kind == "insert" else set_by_statement
            found |= {TablePrivilege(table=name, privilege=privilege, column=column) for column in columns}
    if "delete" in scope.writes:
        found.add(TablePrivilege(table=name, privilege="DELETE"))
    return found


def _settable(scope: TableScope, opened: tuple[str, ...], dialect: DialectName) -> set[str]:
    named = None if scope.writable is None else {fold_column(dialect, name, quoted=True) for name in scope.writable}
    return {
        column
        for column in opened
        if column not in scope.masks and (named is None or fold_column(dialect, column, quoted=True) in named)
    }
