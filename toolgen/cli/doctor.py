"""Command `toolgen doctor`: it tests the protection of a project, and compares database accounts with the policy."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING

import click

from toolgen.cli.install import connections
from toolgen.cli.options import as_json, config
from toolgen.cli.output import no_warnings, print_json
from toolgen.core.units import in_words
from toolgen.frontends.python.gateway import Gateway
from toolgen.quality.doctor.examination import DoctorReport, examine

if TYPE_CHECKING:
    from toolgen.model.account_report import DatabaseReport

_SHOWN = 40


@click.command()
@as_json
@config
def command(as_json: bool, config_path: str) -> None:
    """Test that forbidden actions fail, and compare the account of every database with the policy.

    Tries calls that rules, schema, SQL's guard, limits, pauses or approvals must stop, forged keys and tokens, forbidden addresses and
    redirects, forged forms, and changed copies of the audit log; each trial first shows that it fails without its guard. Only loopback
    addresses are connected to, and all but one call is made in a separate gateway. Then it asks each database, with the source's own
    credentials, what its account may do, and prints the statements that create one which fits the policy. References to secrets that do not
    resolve here are listed, but are no failure, because secrets may exist only where the gateway runs. Also listed are tools that cannot be
    called (without a server, a credential, or a value for a required argument), webhooks that the policy does not open or with messages
    that could not be delivered, and destinations of the audit log that lack entries. For refresh tokens that a service rotates it prints
    the age of the newest, and for clients of `toolgen install` whether they connected. The refused call is in the project's audit log.
    Exits 1 if a test failed or an account can do more than the policy opens.
    """
    gateway = Gateway.load(config_path)
    with no_warnings():
        report = asyncio.run(examine(gateway))
    clients = list(connections(gateway.settings))
    if as_json:
        print_json({**report.to_dict(), "clients": clients})
    else:
        _print(report)
        for client in clients:
            click.echo(f"client: {_clean(client)}")
    sys.exit(0 if report.ok else 1)


def _print(report: DoctorReport) -> None:
    for trial in report.trials:
        click.echo(f"{'ok' if trial.ok else 'FAILED'}: {trial.name}: {_clean(trial.detail)}")
    for reference in report.references:
        if reference.fault:
            click.echo(f"note: {reference.where}: {_clean(reference.fault)}")
    if report.references and not any(reference.fault for reference in report.references):
        count = len(report.references)
        said = "the only reference to a secret resolves" if count == 1 else f"all {count} references to secrets resolve"
        click.echo(f"ok: {said} here")
    for token in report.rotated:
        age = in_words(max(0.0, time.time() - token.at))
        click.echo(f"ok: {token.source}: {_clean(token.host)} replaced the configured refresh token {age} ago")
    if report.uncallable:
        click.echo(f"note: {len(report.uncallable)} reasons why tools cannot be called:")
    for reason in report.uncallable[:_SHOWN]:
        click.echo(f"  {_clean(reason)}")
    for fault in (*report.webhooks, *report.streams):
        click.echo(f"note: {_clean(fault)}")
    for database in report.databases:
        _print_database(database)


def _print_database(database: DatabaseReport) -> None:
    who = f"account {database.account} " if database.account else ""
    what = f"{database.source} ({database.dialect}): {who}"
    if database.unread:
        click.echo(f"FAILED: {what}could not be examined: {_clean(database.unread)}")
        return
    if database.ok:
        click.echo(
            f"ok: {what}{'can do nothing that the policy does not open' if who else 'a file, which has no accounts'}"
        )
    else:
        click.echo(f"FAILED: {what}can do more than the policy opens")
    for finding in database.findings[:_SHOWN]:
        click.echo(f"  {'too much' if finding.too_much else 'note'}: {_clean(finding.message)}")
    if len(database.findings) > _SHOWN:
        click.echo(f"  … and {len(database.findings) - _SHOWN} more; see them all with --json")
    if database.grants and any(finding.too_much or finding.code == "lacking" for finding in database.findings):
        _print_grants(database)


def _print_grants(database: DatabaseReport) -> None:
    click.echo("  an account that fits the policy:")
    for statement in database.grants:
        click.echo(f"    {_clean(statement)};")
    for hint in database.hints:
        click.echo(f"    -- {_clean(hint)}")
    if database.public:
        click.echo("  all accounts have these privileges; to revoke them from all:")
        for statement in database.public:
            click.echo(f"    {_clean(statement)};")


def _clean(text: str) -> str:
    """Return text without control sequences of a terminal, for content from a database."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)
