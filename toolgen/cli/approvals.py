"""`toolgen approvals`: answers for calls that wait for a person, on the gateway's machine or over its REST interface."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

import click
import msgspec

from toolgen.cli.completed import PRINCIPAL_NAME
from toolgen.cli.lazy import CommandGroup
from toolgen.cli.options import as_json, config, json_object
from toolgen.cli.output import print_json, printable
from toolgen.cli.remote_gateway import alone, request, url_option
from toolgen.core.errors import ToolgenError
from toolgen.core.units import parse_duration
from toolgen.frontends.python.gateway import Gateway
from toolgen.frontends.rest.approvals import MAX_PAGE
from toolgen.gateway.approvals.listing import listed
from toolgen.gateway.approvals.requests import MAX_NOTE_LENGTH
from toolgen.gateway.approvals.terms import AS_ASKED, DecisionOptions, GrantRequest
from toolgen.gateway.operations.call_rows import ValueRow, argument_rows, escaped, isolated, request_rows
from toolgen.gateway.protocol import Administration
from toolgen.model.result import Error

__all__ = ["approvers", "command"]

_MAX_WAIT_S = 3.0
_HEAD = ("id", "tool", "effect", "principal", "on_behalf_of", "rule", "asked", "expires", "session", "client", "parent")

_as = click.option(
    "--as",
    "principal",
    type=PRINCIPAL_NAME,
    metavar="PRINCIPAL",
    help="Principal that answers; required without --url, where the key identifies it.",
)
_note = click.option(
    "--note", default="", help=f"Reason, for the audit log and the caller; up to {MAX_NOTE_LENGTH} characters."
)


@click.group(cls=CommandGroup)
def command() -> None:
    """List calls that wait for approval, and approve or deny them."""


@command.command("list")
@click.option("--whole", is_flag=True, help="Show long values completely, not only their beginnings.")
@_as
@url_option
@as_json
@config
def list_approvals(whole: bool, principal: str | None, url: str | None, as_json: bool, config_path: str) -> None:
    """List the calls that wait, with their exact arguments and requests; with --as, those that PRINCIPAL may answer for."""
    if url is not None:
        alone(principal)
        found = _all_waiting(url)
    else:
        gateway = Gateway.load(config_path)
        found = asyncio.run(_waiting(gateway, principal))
    if as_json:
        print_json(found)
    else:
        _print(found, whole=whole)


@command.command("approve")
@click.argument("call_id", metavar="ID")
@click.option("--args", "given", metavar="JSON|@FILE|-", help="Arguments that replace those of the call.")
@click.option("--digest", default="", help="Digest that you were shown; required for an edited call.")
@click.option(
    "--for",
    "time",
    metavar="TIME",
    help="Also approve later calls for this time (15m), within the bounds of the policy.",
)
@click.option("--calls", type=click.IntRange(1, 10_000), help="Also approve this number of later calls.")
@click.option("--session", is_flag=True, help="Also approve later calls, only of the same session.")
@click.option("--any-arguments", is_flag=True, help="Also approve later calls with other arguments.")
@_note
@_as
@url_option
@config
def approve(
    call_id: str,
    given: str | None,
    digest: str,
    time: str | None,
    calls: int | None,
    session: bool,
    any_arguments: bool,
    note: str,
    principal: str | None,
    url: str | None,
    config_path: str,
) -> None:
    """Approve the call ID: the gateway executes it, once, after enough people have approved it."""
    arguments = None if given is None else json_object(given, "--args")
    seconds = None if time is None else parse_duration(time)
    if time is not None and seconds is None:
        raise click.BadParameter("must be like 15m or 1h", param_hint="--for")
    grant_request = GrantRequest(seconds=seconds, calls=calls, session=session, any_arguments=any_arguments)
    terms = DecisionOptions(
        arguments=arguments, digest=digest, remember=None if grant_request == GrantRequest() else grant_request
    )
    _decide(call_id, "approve", note, principal, url, config_path, terms)


@command.command("deny")
@click.argument("call_id", metavar="ID")
@_note
@_as
@url_option
@config
def deny(call_id: str, note: str, principal: str | None, url: str | None, config_path: str) -> None:
    """Deny the call ID; its caller gets the note."""
    _decide(call_id, "deny", note, principal, url, config_path)


def _decide(
    call_id: str,
    decision: str,
    note: str,
    principal: str | None,
    url: str | None,
    config_path: str,
    terms: DecisionOptions = AS_ASKED,
) -> None:
    if len(note) > MAX_NOTE_LENGTH:
        raise click.BadParameter(f"has more than {MAX_NOTE_LENGTH} characters", param_hint="--note")
    if url is not None:
        alone(principal)
        body: dict[str, object] = {
            "decision": decision,
            "note": note,
            "digest": terms.digest,
        }
        body |= {} if terms.arguments is None else {"arguments": terms.arguments}
        body |= {} if terms.remember is None else {"remember": _wish_json(terms.remember)}
        told = request("POST", url, f"/v1/approvals/{quote(call_id, safe='')}", body)
        status, grant = str(told["status"]), str(told.get("grant", ""))
    else:
        gateway = Gateway.load(config_path)
        if principal is None:
            known = ", ".join(sorted(approvers(gateway))) or "none in this policy"
            raise click.UsageError(f"name the person who answers with --as (approvers: {known})")
        status, grant = asyncio.run(_answer(gateway, call_id, decision, note, principal, terms))
    if decision == "deny":
        click.echo("denied; the caller is informed")
    elif status == "pending":
        click.echo("approved; more approvals are required")
    elif status == "approved" and url is None:
        click.echo("approved; a running gateway of this project executes it when nothing about it is paused")
    else:
        click.echo("approved; the gateway executes it")
    if grant:
        click.echo(f"later calls are approved too; `toolgen grants revoke {printable(grant)}` ends that")
    elif terms.remember is not None and status != "pending":
        click.echo(
            "later calls are not approved: too few people agreed on the same terms, or too many grants are in force"
        )


def _wish_json(grant_request: GrantRequest) -> dict[str, object]:
    given = {} if grant_request.seconds is None else {"for": f"{int(grant_request.seconds)}s"}
    counted = {} if grant_request.calls is None else {"calls": grant_request.calls}
    return {**given, **counted, "session": grant_request.session, "any_arguments": grant_request.any_arguments}


def _all_waiting(url: str) -> list[dict[str, object]]:
    """Return the calls of every page of a running gateway."""
    page = request("GET", url, f"/v1/approvals?limit={MAX_PAGE}")
    found: list[dict[str, object]] = page["approvals"]
    while cursor := page.get("next_cursor"):
        page = request("GET", url, f"/v1/approvals?{urlencode({'limit': MAX_PAGE, 'cursor': cursor})}")
        found += page["approvals"]
    return found


async def _waiting(gateway: Administration, principal: str | None) -> list[dict[str, object]]:
    queue = gateway.tool_calls.approvals
    try:
        if principal is not None:
            await gateway.role_grants.look()
            found = await queue.answerable(gateway.callers.named(principal))
        else:
            found = tuple(item for item in await queue.calls.store.unfinished() if item.status == "pending")
        return await listed(queue, found)
    finally:
        await queue.calls.store.close()


async def _answer(
    gateway: Administration, call_id: str, decision: str, note: str, who: str, terms: DecisionOptions
) -> tuple[str, str]:
    """Return the state of the call after the answer, and the id of its grant. An approved call is observed for a moment, because a running
    gateway starts it at once."""
    queue, terms = gateway.tool_calls.approvals, msgspec.structs.replace(terms, channel="cli")
    async with gateway.short_session():
        answer = await queue.decide(
            call_id, approve=decision == "approve", note=note, principal=gateway.callers.named(who), terms=terms
        )
        if isinstance(answer, Error):
            raise ToolgenError(answer.message, suggestion=answer.suggestion)
        grant, loop = answer.approval.grant, asyncio.get_running_loop()
        until = loop.time() + _MAX_WAIT_S
        while answer.status == "approved" and loop.time() < until:
            await asyncio.sleep(0.1)
            answer = await queue.calls.store.get(call_id) or answer
    return answer.status, grant


def approvers(gateway: Administration) -> tuple[str, ...]:
    return tuple(
        name
        for name in gateway.callers.principals
        if gateway.tool_calls.approvals.may_answer(gateway.callers.named(name))
    )


def _print(approvals: Sequence[Mapping[str, Any]], *, whole: bool) -> None:
    """Print a block for each call, with a line for each value of its arguments and its request. Text of callers is printed without control
    characters."""
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
        _print_rows(_rows(item, "arguments"), whole=whole)
        if item.get("sql"):
            click.echo("would run")
            _print_rows(request_rows({"sql": item["sql"]}), whole=whole)
        elif "request" in item:
            click.echo("would send")
            _print_rows(_rows(item, "request"), whole=whole)
        if "refusal" in item:
            click.echo(f"would not be sent: {printable(item['refusal']['message'])}")
    if not approvals:
        click.echo("no call waits for an answer")


def _rows(item: Mapping[str, Any], part: str) -> tuple[ValueRow, ...]:
    """Return the rows of a listed call's arguments or request; computed here if an older gateway listed it."""
    if part in item.get("rows", {}):
        return msgspec.convert(item["rows"][part], tuple[ValueRow, ...])
    return request_rows(item[part]) if part == "request" else argument_rows(item[part], None)


def _print_rows(rows: Sequence[ValueRow], *, whole: bool) -> None:
    for row in rows:
        open_it = ["--whole shows the complete value"] if row.whole and not whole else []
        about = "; ".join([*([row.about] if row.about else []), *open_it])
        name, text = (row.name, row.whole or row.text) if whole else (row.label, row.text)
        click.echo(f"  {isolated(escaped(name))} = {isolated(escaped(text))}" + (f" ({about})" if about else ""))
