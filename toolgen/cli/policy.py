"""`toolgen policy`: what the policy says, checked."""

from __future__ import annotations

import sys

import click

from toolgen.cli.options import as_json, config
from toolgen.cli.output import print_json
from toolgen.gateway.service import Gateway


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
    if as_json:
        print_json(
            {
                "ok": not failed,
                "digest": gateway.policy.digest,
                "rules": len(gateway.policy.rules),
                "tests": [result.to_dict() for result in results],
            }
        )
    else:
        for result in failed:
            test = result.test
            wanted = f"{test.expect} by {test.rule}" if test.rule else test.expect
            click.echo(
                f"{test.where}: {test.principal} calling {test.tool}: {result.verdict} by {result.rule}, not {wanted}"
            )
        passed = len(results) - len(failed)
        click.echo(f"{len(gateway.policy.rules)} rules, {passed} tests passed, {len(failed)} failed")
    sys.exit(1 if failed else 0)
