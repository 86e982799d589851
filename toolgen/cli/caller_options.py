"""Options for the principal that a command acts as."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping
from typing import Any

import click
from msgspec import Struct

from toolgen.cli.completed import PRINCIPAL_NAME
from toolgen.cli.options import default_principal, json_object
from toolgen.gateway.protocol import Administration, Project
from toolgen.model.call import Principal

__all__ = ["CommandCaller", "caller"]


class CommandCaller(Struct, frozen=True, kw_only=True):
    """Caller that a command acts as, by its options."""

    name: str | None
    user: str | None
    claims: Mapping[str, Any]
    user_claims: Mapping[str, Any]

    def principal(self, gateway: Project) -> Principal:
        """Return the selected principal. Raises `ConfigError` if there is none, or more than one could be meant."""
        name = default_principal(gateway.callers.principals, self.name)
        if self.user_claims and self.user is None:
            raise click.UsageError("--user-claims goes with --on-behalf-of")
        return gateway.callers.named(name, self.user, claims=self.claims, user_claims=self.user_claims)

    def by_now(self, gateway: Administration) -> Principal:
        """Return the selected principal with its temporary roles: for commands that do not open the gateway."""
        asyncio.run(gateway.role_grants.look())
        return self.principal(gateway)


def caller(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--as` and `--on-behalf-of`, each with claims for users of an issuer; the command gets a `CommandCaller`."""

    @functools.wraps(function)
    def with_caller(
        *given: Any,
        principal: str | None,
        claims: str | None,
        on_behalf_of: str | None,
        user_claims: str | None,
        **others: Any,
    ) -> Any:
        who = CommandCaller(
            name=principal,
            user=on_behalf_of,
            claims=json_object(claims, "--claims"),
            user_claims=json_object(user_claims, "--user-claims"),
        )
        return function(*given, caller=who, **others)

    options = (
        click.option(
            "--as",
            "principal",
            type=PRINCIPAL_NAME,
            metavar="PRINCIPAL",
            help="Principal that calls; staff:ann is a user of an issuer.",
        ),
        click.option("--claims", metavar="JSON|@FILE|-", help="Claims of that user's token."),
        click.option("--on-behalf-of", metavar="PRINCIPAL", help="User that the principal acts for."),
        click.option("--user-claims", metavar="JSON|@FILE|-", help="Claims of the token of the user that it acts for."),
    )
    for option in reversed(options):
        with_caller = option(with_caller)
    return with_caller
