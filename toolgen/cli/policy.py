"""`toolgen policy`: what the policy says, checked."""

from __future__ import annotations

import sys

import click
import msgspec

from toolgen.cli.options import as_json, config
from toolgen.cli.output import print_json
from toolgen.gateway.service import Gateway
from toolgen.queries import unopened

_UNAUTHENTICATED = (
    "unauthenticated"  # what a reviewer of the policy must know of a build: calls that nobody answers for
)
_SHOWN = 20


@click.group()
def command() -> None:
    """Check the policy."""


@command.command("check")
@as_json
@config
def check(as_json: bool, config_path: str) -> None:
    """Load the policy against the catalog and run the tests it carries."""
    gateway = Gateway.load(config_path)
    results = gateway.check_policy()
    failed = [result for result in results if not result.passed]
    warnings = [problem for problem in gateway.manifest.problems if problem.code == _UNAUTHENTICATED]
    closed = [*unopened(gateway.manifest, gateway.policy)]
    if as_json:
        print_json(
            {
                "ok": not failed,
                "digest": gateway.policy.digest,
                "rules": len(gateway.policy.rules),
                "tests": [result.to_dict() for result in results],
                "warnings": msgspec.to_builtins([*warnings, *closed]),
            }
        )
    else:
        for problem in [*warnings[:_SHOWN], *closed]:
            click.echo(
                f"{problem.level}: {problem.source} {problem.origin}: {problem.message} [{problem.code}]", err=True
            )
        if len(warnings) > _SHOWN:
            click.echo(f"... and {len(warnings) - _SHOWN} more operations without credentials", err=True)
        for result in failed:
            test = result.test
            wanted = f"{test.expect} by {test.rule}" if test.rule else test.expect
            click.echo(
                f"{test.where}: {test.principal} calling {test.tool}: {result.verdict} by {result.rule}, not {wanted}"
            )
        passed = len(results) - len(failed)
        click.echo(f"{len(gateway.policy.rules)} rules, {passed} tests passed, {len(failed)} failed")
    sys.exit(1 if failed else 0)
