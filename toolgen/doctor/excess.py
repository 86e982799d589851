"""Where a database's account could do more than the policy, one finding a thing: pure, from its rights and what the policy needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from toolgen.model.database import Database, Table
from toolgen.model.rights import Grant, Rights
from toolgen.policy.sql.grants import SqlScope, find_table, full_name

__all__ = ["Finding", "cascading", "excess", "lacking"]

_MOST_NAMES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing about an account. `too_much` is what makes doctor fail; the rest only needs to be known."""

    code: str
    message: str
    too_much: bool = True
    remedy: str = ""

    def to_dict(self) -> dict[str, object]:
        """The JSON form."""
        told: dict[str, object] = {
            "level": "too-much" if self.too_much else "note",
            "code": self.code,
            "message": self.message,
        }
        return told | ({"remedy": self.remedy} if self.remedy else {})


def excess(rights: Rights, needed: frozenset[Grant], database: Database) -> list[Finding]:
    """What the account can do and need not: powers first, then grants by table and privilege."""
    found = [
        Finding(code=power.code, message=power.message, too_much=not power.harmless, remedy=power.remedy)
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
            Finding(
                code=f"grant-{privilege.lower().replace(' ', '-')}",
                message=f"may {privilege} {table}{what}, which the policy does not open",
            )
        )
    return found


def _beyond(grant: Grant, needed: frozenset[Grant], table: Table | None, owners: dict[str, str]) -> Iterator[str]:
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


def lacking(rights: Rights, needed: frozenset[Grant]) -> list[Finding]:
    """What the policy opens and the account cannot do: a statement of it fails at the database."""
    wide = rights.unlimited or any(power.code in {"database", "global"} for power in rights.powers)
    missing: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    held = {*rights.grants}
    for need in sorted(needed):
        whole = Grant(table=need.table, privilege=need.privilege)
        if not wide and need not in held and whole not in held:
            missing[need.table, need.privilege].append(need.column)
    return [
        Finding(
            code="lacking",
            message=f"may not {privilege} {table}{f' ({_listed(names)})' if any(names) else ''}, which the policy opens",
            too_much=False,
        )
        for (table, privilege), names in missing.items()
    ]


def cascading(database: Database, scope: SqlScope) -> list[Finding]:
    """What statements that the policy opens set off in the database, as the build found it: refused, or run uncounted or unfiltered."""
    found = []
    for name, entry in scope.tables.items():
        table = find_table(database, name)
        own = sorted({one.by for one in table.cascades if one.on in entry.writes}) if table is not None else []
        if own:
            done = "the policy opens with cascades: true" if entry.cascades else "such statements are refused"
            found.append(
                Finding(code="cascades", message=f"changing {name} sets off {_listed(own)}: {done}", too_much=False)
            )
    return found


def _listed(names: Iterable[str]) -> str:
    shown = [*names]
    more = f", and {len(shown) - _MOST_NAMES} more" if len(shown) > _MOST_NAMES else ""
    return ", ".join(shown[:_MOST_NAMES]) + more
