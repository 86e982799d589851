"""`toolgen call`: one governed call from the command line."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from toolgen.cli.caller_options import CommandCaller, caller
from toolgen.cli.completed import TOOL_NAME
from toolgen.cli.options import as_json, config, json_object
from toolgen.cli.output import print_json
from toolgen.core.spelling import nearest
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.calls.answer_text import dropped_text
from toolgen.gateway.policies.policy_replay import hidden_note
from toolgen.gateway.protocol import Administration, Project
from toolgen.model.account_need import chosen_account
from toolgen.model.argument_names import listed_arguments
from toolgen.model.call import Principal
from toolgen.model.result import Envelope
from toolgen.model.schema import JsonObject, Schema
from toolgen.policy.arguments import repair

__all__ = []

_LOOK_S = 0.25


@click.command()
@click.argument("tool", type=TOOL_NAME)
@click.argument("pairs", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--args", "given", metavar="JSON|@FILE|-", help="All arguments as one JSON object.")
@caller
@click.option("--account", metavar="NAME", default="", help="Name of the caller's account at the system.")
@click.option(
    "--wait",
    type=click.FloatRange(0, 3600),
    default=0.0,
    metavar="SECONDS",
    help="How long to wait for the end of a call that waits for a person, for an account, or for a device.",
)
@click.option("--dry-run", is_flag=True, help="Print the request with masked secrets, and send nothing.")
@as_json
@config
def command(
    tool: str,
    pairs: tuple[str, ...],
    given: str | None,
    caller: CommandCaller,
    account: str,
    wait: float,
    dry_run: bool,
    as_json: bool,
    config_path: str,
) -> None:
    """Call TOOL. NAME=VALUE arguments take the types of the tool's schema; a repeated name makes a list."""
    gateway = Gateway.load(config_path)
    arguments = read_arguments(gateway, tool, given, pairs)
    who = caller.principal(gateway)
    if account:
        who = chosen_account(who, account)
    envelope = asyncio.run(_call(gateway, tool, arguments, who, dry_run=dry_run, wait=wait))
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
    """Return the arguments of a command: those of `--args`, and NAME=VALUE typed by the tool's schema."""
    whole, values = json_object(given, "--args"), _values(pairs)
    known = gateway.manifest.tools.get(tool)
    schema: Schema = known.input_schema if known else {"type": "object", "additionalProperties": True}
    if known is not None:
        values = dict(listed_arguments(known, values)[0])
    return {**whole, **_typed(schema, values)}


async def _call(
    gateway: Administration, tool: str, arguments: JsonObject, who: Principal, *, dry_run: bool, wait: float
) -> Envelope:
    if dry_run:
        return await gateway.preview(tool, arguments, principal=who)
    async with gateway.short_session():
        with _warnings_unsaid():
            envelope = await gateway.tool_calls.call(tool, arguments, principal=who, client="toolgen-cli")
        if envelope.status == "pending" and wait:
            _explain(envelope)
            envelope = await _ended(gateway, envelope, who, wait)
        return envelope


async def _ended(gateway: Administration, envelope: Envelope, who: Principal, wait: float) -> Envelope:
    """Return the outcome of a call, or its state after `wait` seconds. A running gateway continues it."""
    loop, found = asyncio.get_running_loop(), envelope
    until = loop.time() + wait
    while found.status == "pending" and loop.time() < until:
        await asyncio.sleep(_LOOK_S)
        found = await gateway.tool_calls.approvals.calls.outcome(envelope.call_id, who) or envelope
    return found


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
            raise click.BadParameter(f"'{pair}' is not of the form name=value", param_hint="NAME=VALUE")
        values.setdefault(name, []).append(value)
    return values


def _typed(schema: Schema, values: dict[str, list[str]]) -> JsonObject:
    properties = schema.get("properties", {})
    lists = {
        name: _items(properties.get(name, {}), texts)
        for name, texts in values.items()
        if len(texts) > 1 or _takes_list(properties.get(name, {}), texts[0])
    }
    # Only text can be typed here, so it is parsed as the gateway would repair it; values without a schema are sent unchanged.
    single = {name: texts[0] for name, texts in values.items() if name not in lists}
    return {**single, **repair({**schema, "additionalProperties": True}, single).arguments, **lists}


def _takes_list(declared: Schema, text: str) -> bool:
    return declared.get("type") == "array" and not text.lstrip().startswith("[")


def _items(declared: Schema, texts: list[str]) -> list[Any]:
    item = {"properties": {"item": declared.get("items", {})}}
    return [repair(item, {"item": text}).arguments.get("item", text) for text in texts]
