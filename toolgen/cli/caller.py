"""Who a command acts as: the options that say it, and the principal they mean."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import click

from toolgen.cli.options import default_principal, json_object
from toolgen.gateway.service import Gateway
from toolgen.model.call import Principal

__all__ = ["Caller", "caller"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who a command acts as, as its options say it."""

    name: str | None
    user: str | None
    claims: Mapping[str, Any]
    user_claims: Mapping[str, Any]

    def principal(self, gateway: Gateway) -> Principal:
        """The principal that is meant. Raises `ConfigError` when there is none, or more than one could be."""
        name = default_principal(gateway.principals, self.name)
        if self.user_claims and self.user is None:
            raise click.UsageError("--user-claims goes with --on-behalf-of")
        return gateway.principal(name, self.user, claims=self.claims, user_claims=self.user_claims)


def caller(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--as` and `--on-behalf-of`, each with the claims that make somebody of a user of an issuer; the command is given a `Caller`."""

    @functools.wraps(function)
    def with_caller(
        *given: Any,
        principal: str | None,
        claims: str | None,
        on_behalf_of: str | None,
        user_claims: str | None,
        **others: Any,
    ) -> Any:
        who = Caller(
            name=principal,
            user=on_behalf_of,
            claims=json_object(claims, "--claims"),
            user_claims=json_object(user_claims, "--user-claims"),
        )
        return function(*given, caller=who, **others)

    options = (
        click.option("--as", "principal", metavar="PRINCIPAL", help="Who calls; staff:ann is a user of an issuer."),
        click.option("--claims", metavar="JSON|@FILE|-", help="The claims of that user's token."),
        click.option("--on-behalf-of", metavar="PRINCIPAL", help="Whom the caller acts for."),
        click.option("--user-claims", metavar="JSON|@FILE|-", help="The claims of the token of whom it acts for."),
    )
    for option in reversed(options):
        with_caller = option(with_caller)
    return with_caller
