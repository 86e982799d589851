"""`toolgen call`: one governed call from the command line.

Who a command acts as: the options that say it, and the principal they mean.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click
from msgspec import Struct

from toolgen.cli.completed import PRINCIPAL_NAME, TOOL_NAME
from toolgen.cli.options import as_json, config, default_principal, json_object
from toolgen.cli.output import print_json
from toolgen.core.spelling import nearest
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.calls.answer_text import dropped_text
from toolgen.gateway.policies.policy_replay import hidden_note
from toolgen.gateway.protocol import Administration, Project
from toolgen.model.argument_names import listed_arguments
from toolgen.model.call import Principal
from toolgen.model.result import Envelope
from toolgen.model.schema import JsonObject, Schema
from toolgen.policy.arguments import repair

__all__ = ["CommandCaller", "caller"]


class CommandCaller(Struct, frozen=True, kw_only=True):
    """Caller that a command acts as, as its options say it."""

    name: str | None
    user: str | None
    claims: Mapping[str, Any]
    user_claims: Mapping[str, Any]

    def principal(self, gateway: Project) -> Principal:
        """The principal that is meant. Raises `ConfigError` when there is none, or more than one could be."""
        name = default_principal(gateway.callers.principals, self.name)
        if self.user_claims and self.user is None:
            raise click.UsageError("--user-claims goes with --on-behalf-of")
        return gateway.callers.named(name, self.user, claims=self.claims, user_claims=self.user_claims)

    def by_now(self, gateway: Administration) -> Principal:
        """The principal that is meant, with the roles that it was given for some time: for commands that do not open the gateway."""
        asyncio.run(gateway.role_grants.look())
        return self.principal(gateway)


def caller(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--as` and `--on-behalf-of`, each with claims for users of an issuer; the command is given a `CommandCaller`."""

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
            help="Who calls; staff:ann is a user of an issuer.",
        ),
        click.option("--claims", metavar="JSON|@FILE|-", help="The claims of that user's token."),
        click.option("--on-behalf-of", metavar="PRINCIPAL", help="On whose behalf the call is made."),
        click.option("--user-claims", metavar="JSON|@FILE|-", help="The claims of the token of whom it acts for."),
    )
    for option in reversed(options):
        with_caller = option(with_caller)
    return with_caller


@click.command()
@click.argument("tool", type=TOOL_NAME)
@click.argument("pairs", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--args", "given", metavar="JSON|@FILE|-", help="All arguments as one JSON object.")
@caller
@click.option("--dry-run", is_flag=True, help="Print what would be sent, secrets masked, and send nothing.")
@as_json
@config
def command(
    tool: str,
    pairs: tuple[str, ...],
    given: str | None,
    caller: CommandCaller,
    dry_run: bool,
    as_json: bool,
    config_path: str,
) -> None:
    """Call TOOL. NAME=VALUE arguments take the types of the tool's schema; a name given twice makes a list."""
    gateway = Gateway.load(config_path)
    arguments = read_arguments(gateway, tool, given, pairs)
    who = caller.principal(gateway)
    envelope = asyncio.run(_call(gateway, tool, arguments, who, dry_run))
    if as_json and not (dry_run and envelope.status == "ok"):
        print_json(envelope.to_dict())
    elif envelope.error is None:
        print_json(envelope.data)
    else:
        _explain(envelope)
    if envelope.status != "refused" and (dropped := dropped_text(envelope)):
        click.echo(dropped, err=True)
    unknown = envelope.error is not None and envelope.error.code == "unknown_tool"
    if unknown and (note := hidden_note(gateway.current.compiled_policy, gateway.manifest, who, tool, arguments)):
        click.echo(f"for the operator: {note}", err=True)
    elif unknown and (near := nearest(tool, [one.name for one in gateway.tool_calls.catalog(who)])):
        click.echo(f" {near}", err=True)
    sys.exit(0 if envelope.status == "ok" else 1)


def read_arguments(gateway: Project, tool: str, given: str | None, pairs: tuple[str, ...]) -> dict[str, Any]:
    """The arguments of a command: those of `--args`, and NAME=VALUE typed by the tool's schema."""
    whole, values = json_object(given, "--args"), _values(pairs)
    known = gateway.manifest.tools.get(tool)
    schema: Schema = known.input_schema if known else {"type": "object", "additionalProperties": True}
    if known is not None:
        values = dict(listed_arguments(known, values)[0])
    return {**whole, **_typed(schema, values)}


async def _call(gateway: Administration, tool: str, arguments: JsonObject, who: Principal, dry_run: bool) -> Envelope:
    if dry_run:
        return await gateway.preview(tool, arguments, principal=who)
    async with gateway.short_session():
        with _warnings_unsaid():
            return await gateway.tool_calls.call(tool, arguments, principal=who, client="toolgen-cli")


@contextmanager
def _warnings_unsaid() -> Iterator[None]:
    """Silence log warnings about circuit breakers and limits during one call: its result says the same."""
    loggers = [logging.getLogger(name) for name in ("toolgen.connectors", "toolgen.pipeline")]
    before = [one.level for one in loggers]
    for one in loggers:
        one.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for one, level in zip(loggers, before, strict=True):
            one.setLevel(level)


def _explain(envelope: Envelope) -> None:
    error = envelope.error
    if error is None:
        return
    rule = f" (rule {error.rule})" if error.rule else ""
    click.echo(f"{envelope.status}: {error.code}: {error.message}{rule}", err=True)
    if error.suggestion:
        click.echo(f"  {error.suggestion}", err=True)
    if envelope.data is not None:
        print_json(envelope.data)


def _values(pairs: tuple[str, ...]) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise click.BadParameter(f"'{pair}' is not like name=value", param_hint="NAME=VALUE")
        values.setdefault(name, []).append(value)
    return values


def _typed(schema: Schema, values: dict[str, list[str]]) -> JsonObject:
    properties = schema.get("properties", {})
    lists = {
        name: _items(properties.get(name, {}), texts)
        for name, texts in values.items()
        if len(texts) > 1 or _takes_list(properties.get(name, {}), texts[0])
    }
    # Here a text is all a person can type, so it is parsed as the gateway would repair it; what the schema does not know goes as it is.
    single = {name: texts[0] for name, texts in values.items() if name not in lists}
    return {**single, **repair({**schema, "additionalProperties": True}, single).arguments, **lists}


def _takes_list(declared: Schema, text: str) -> bool:
    return declared.get("type") == "array" and not text.lstrip().startswith("[")


def _items(declared: Schema, texts: list[str]) -> list[Any]:
    item = {"properties": {"item": declared.get("items", {})}}
    return [repair(item, {"item": text}).arguments.get("item", text) for text in texts]
