"""The whole examination of a project: the trials, then every database's account against the policy."""

from __future__ import annotations

from dataclasses import dataclass

from toolgen.doctor.excess import Finding, cascading, excess, lacking
from toolgen.doctor.grants import fitting_account, password_hint, row_hints
from toolgen.doctor.needs import needs
from toolgen.doctor.references import ReferenceReport, check_references
from toolgen.doctor.trial import Trial
from toolgen.doctor.trials import run_trials
from toolgen.errors import ToolgenError
from toolgen.gateway.service import Gateway
from toolgen.model.database import Database
from toolgen.model.location import ServerLocation, parse_location
from toolgen.policy.sql.grants import SqlScope
from toolgen.settings import SourceSettings, password_of
from toolgen.sources.sql.rights import read_rights

__all__ = ["DatabaseReport", "Report", "examine"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseReport:
    """One source: what its account can do beyond the policy, and how one is made that cannot.

    `account` is "" for a file. `public` takes from everybody what no account's own grants can be without; `unread` says why nothing
    could be found out.
    """

    source: str
    dialect: str
    account: str = ""
    findings: tuple[Finding, ...] = ()
    grants: tuple[str, ...] = ()
    public: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    unread: str = ""

    @property
    def ok(self) -> bool:
        return not self.unread and not any(finding.too_much for finding in self.findings)

    def to_dict(self) -> dict[str, object]:
        """The JSON form."""
        return {
            "source": self.source,
            "dialect": self.dialect,
            "account": self.account,
            "ok": self.ok,
            "findings": [finding.to_dict() for finding in self.findings],
            "grants": list(self.grants),
            "public": list(self.public),
            "hints": list(self.hints),
            **({"unread": self.unread} if self.unread else {}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What an examination found."""

    trials: tuple[Trial, ...]
    databases: tuple[DatabaseReport, ...]
    references: tuple[
        ReferenceReport, ...
    ] = ()  # no fault of the project's: secrets may be where only the gateway runs

    @property
    def ok(self) -> bool:
        return all(trial.ok for trial in self.trials) and all(one.ok for one in self.databases)

    def to_dict(self) -> dict[str, object]:
        """The JSON form."""
        return {
            "ok": self.ok,
            "trials": [trial.to_dict() for trial in self.trials],
            "databases": [one.to_dict() for one in self.databases],
            "references": [one.to_dict() for one in self.references],
        }


async def examine(gateway: Gateway) -> Report:
    """Examines a project whose gateway is not open. Never raises for what is wrong with a database: that is in the report."""
    trials = await run_trials(gateway)
    databases = [
        _database(source, database, gateway.policy.sql.get(name, SqlScope()))
        for name, source in gateway.settings.sources.items()
        if (database := gateway.manifest.sources[name].database) is not None
    ]
    return Report(trials=tuple(trials), databases=tuple(databases), references=await check_references(gateway))


def _database(source: SourceSettings, database: Database, scope: SqlScope) -> DatabaseReport:
    name, dialect = source.config.name, database.dialect
    try:
        rights = read_rights(source.config, password_of(source))
    except ToolgenError as error:
        return DatabaseReport(source=name, dialect=dialect, unread=str(error))
    needed = needs(database, scope)
    findings = (*excess(rights, needed, database), *cascading(database, scope))
    location = parse_location(source.config.location)
    if not isinstance(location, ServerLocation):
        return DatabaseReport(source=name, dialect=dialect, findings=findings)
    account = f"toolgen_{name}"
    return DatabaseReport(
        source=name,
        dialect=dialect,
        account=rights.account,
        findings=(*findings, *lacking(rights, needed)),
        grants=tuple(fitting_account(location, database, needed, rights.sequences, account)),
        public=tuple(power.remedy for power in rights.powers if power.remedy),
        hints=(password_hint(dialect, account), *row_hints(database, scope)),
    )
