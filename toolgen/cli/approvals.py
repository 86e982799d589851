"""`toolgen approvals`: answers for calls that wait for a person, on the gateway's machine or over its REST interface."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

import click
import httpx

from toolgen.cli.lazy import CommandGroup
from toolgen.cli.options import as_json, config, default_principal, json_object
from toolgen.cli.output import print_json, printable
from toolgen.errors import ConfigError, ToolgenError, connection_failure
from toolgen.gateway.approval_requests import listed
from toolgen.gateway.approval_terms import AS_ASKED, Terms
from toolgen.gateway.approvals import MAX_NOTE_LENGTH
from toolgen.gateway.protocol import Administration
from toolgen.gateway.service import Gateway
from toolgen.model.result import Error
from toolgen.sources.references import is_loopback

__all__ = ["command"]

KEY = "TOOLGEN_KEY"
_TIMEOUT_S = 30.0
_MAX_WAIT_S = 3.0
_HEAD = ("id", "tool", "effect", "principal", "on_behalf_of", "rule", "asked", "expires", "session", "client", "parent")

_url = click.option("--url", metavar="URL", help=f"A gateway elsewhere; the key is taken from {KEY}.")
_as = click.option("--as", "principal", metavar="PRINCIPAL", help="Who answers, on the gateway's own machine.")
_note = click.option(
    "--note", default="", help=f"Why, for the audit log and the caller; up to {MAX_NOTE_LENGTH} characters."
)


@click.group(cls=CommandGroup)
def command() -> None:
    """List calls that wait for approval, and approve or deny them."""


@command.command("list")
@_as
@_url
@as_json
@config
def list_approvals(principal: str | None, url: str | None, as_json: bool, config_path: str) -> None:
    """List the calls that wait, with their exact arguments and what would be sent; with --as, those that PRINCIPAL may answer for."""
    if url is not None:
        _alone(principal)
        found = _request("GET", url, "/v1/approvals")["approvals"]
    else:
        gateway = Gateway.load(config_path)
        found = asyncio.run(_waiting(gateway, principal))
    if as_json:
        print_json(found)
    else:
        _print(found)


@command.command("approve")
@click.argument("call_id", metavar="ID")
@click.option(
    "--args", "given", metavar="JSON|@FILE|-", help="Other arguments, with which the call is made in place of its own."
)
@click.option("--digest", default="", help="The digest that you were shown; an edited call takes it.")
@_note
@_as
@_url
@config
def approve(
    call_id: str,
    given: str | None,
    digest: str,
    note: str,
    principal: str | None,
    url: str | None,
    config_path: str,
) -> None:
    """Agree to the call ID: the gateway carries it out once enough people have, once."""
    arguments = None if given is None else json_object(given, "--args")
    terms = Terms(arguments=arguments, digest=digest)
    _decide(call_id, "approve", note, principal, url, config_path, terms)


@command.command("deny")
@click.argument("call_id", metavar="ID")
@_note
@_as
@_url
@config
def deny(call_id: str, note: str, principal: str | None, url: str | None, config_path: str) -> None:
    """Deny the call ID; its caller is told, with the note."""
    _decide(call_id, "deny", note, principal, url, config_path)


def _decide(
    call_id: str,
    decision: str,
    note: str,
    principal: str | None,
    url: str | None,
    config_path: str,
    terms: Terms = AS_ASKED,
) -> None:
    if len(note) > MAX_NOTE_LENGTH:
        raise click.BadParameter(f"has more than {MAX_NOTE_LENGTH} characters", param_hint="--note")
    if url is not None:
        _alone(principal)
        body: dict[str, object] = {
            "decision": decision,
            "note": note,
            "digest": terms.digest,
        }
        body |= {} if terms.arguments is None else {"arguments": terms.arguments}
        status = str(_request("POST", url, f"/v1/approvals/{quote(call_id, safe='')}", body)["status"])
    else:
        gateway = Gateway.load(config_path)
        who = default_principal(_approvers(gateway), principal)
        status = asyncio.run(_answer(gateway, call_id, decision, note, who, terms))
    if decision == "deny":
        click.echo("denied; the caller is told")
    elif status == "pending":
        click.echo("agreed; it takes somebody else's yes too")
    elif status == "approved" and url is None:
        click.echo(
            "approved; a gateway of this project carries it out as soon as one runs and nothing about it is paused"
        )
    else:
        click.echo("approved; the gateway carries it out")


async def _waiting(gateway: Administration, principal: str | None) -> list[dict[str, object]]:
    queue = gateway.tool_calls.approvals
    try:
        if principal is not None:
            found = await queue.answerable(gateway.callers.named(principal))
        else:
            found = tuple(item for item in await queue.store.unfinished() if item.status == "pending")
        return await listed(queue, found)
    finally:
        await queue.store.close()


async def _answer(gateway: Administration, call_id: str, decision: str, note: str, who: str, terms: Terms) -> str:
    """How the call stands after the answer: an approved one is watched for a moment, as a running gateway begins with it at once."""
    queue = gateway.tool_calls.approvals
    async with gateway.short_session():
        answer = await queue.decide(
            call_id, approve=decision == "approve", note=note, principal=gateway.callers.named(who), terms=terms
        )
        if isinstance(answer, Error):
            raise ToolgenError(answer.message, suggestion=answer.suggestion)
        loop = asyncio.get_running_loop()
        until = loop.time() + _MAX_WAIT_S
        while answer.status == "approved" and loop.time() < until:
            await asyncio.sleep(0.1)
            answer = await queue.store.get(call_id) or answer
    return answer.status


def _approvers(gateway: Administration) -> tuple[str, ...]:
    return tuple(
        name
        for name in gateway.callers.principals
        if gateway.tool_calls.approvals.may_answer(gateway.callers.named(name))
    )


def _alone(principal: str | None) -> None:
    if principal is not None:
        raise click.UsageError(f"with --url the key in {KEY} says who answers, and --as nothing")


def _request(method: str, url: str, path: str, body: object = None) -> Any:
    """A request to a gateway's REST interface. The key goes where the URL says, and nowhere else: no proxy, no redirect."""
    key = os.environ.get(KEY, "")
    if not key or not key.isascii() or not key.isprintable():
        raise ConfigError(f"the environment has no usable key in {KEY}", suggestion="set it to your own key")
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError as error:
        raise ConfigError("--url is not a URL") from error
    if parts.scheme not in {"http", "https"} or not host or parts.username or parts.query or parts.fragment:
        raise ConfigError("--url must be like https://gateway.example, without user, query and fragment")
    if parts.scheme == "http" and not is_loopback(host):
        raise ConfigError("a key is not sent over plain http", suggestion="use https")
    try:
        tls = ssl.create_default_context()
        with httpx.Client(verify=tls, trust_env=False, follow_redirects=False, timeout=_TIMEOUT_S) as client:
            answer = client.request(
                method, url.rstrip("/") + path, json=body, headers={"authorization": f"Bearer {key}"}
            )
        told = answer.json()
    except httpx.HTTPError as error:
        reason, suggestion = connection_failure(error)
        raise ConfigError(f"the gateway cannot be reached: {reason}", where=url, suggestion=suggestion) from error
    except ValueError as error:
        raise ConfigError("what answers there is no gateway", where=url) from error
    if answer.status_code != 200:
        refusal = told.get("error") if isinstance(told, dict) else None
        said = refusal if isinstance(refusal, dict) else {}
        message = printable(str(said.get("message", f"the gateway answered {answer.status_code}")))
        raise ToolgenError(message, suggestion=printable(str(said.get("suggestion", ""))))
    return told


def _print(approvals: Sequence[Mapping[str, Any]]) -> None:
    """One block a call. What a caller wrote is shown as JSON, without anything a terminal would act on."""
    for number, item in enumerate(approvals):
        if number:
            click.echo()
        for name in _HEAD:
            if item.get(name):
                click.echo(f"{name:<12}  {printable(item[name])}")
        if item.get("original"):
            click.echo(f"{printable(item['edited_by'])} changed it; answer with --digest {printable(item['digest'])}")
        people = " and ".join(f"{one['people']} of {', '.join(one['roles'])}" for one in item.get("needs", ()))
        if item.get("agreed"):
            click.echo(f"{'agreed':<12}  {printable(', '.join(item['agreed']))}; it takes {printable(people)}")
        for name, value in item["arguments"].items():
            click.echo(f"  {printable(name)} = {printable(json.dumps(value, ensure_ascii=False))}")
        if item.get("sql"):
            click.echo(f"would run     {printable(item['sql'])}")
        elif "request" in item:
            click.echo(f"would send    {printable(json.dumps(item['request'], ensure_ascii=False))}")
        if "refusal" in item:
            click.echo(f"would not be sent: {printable(item['refusal']['message'])}")
    if not approvals:
        click.echo("nothing waits for an answer")
