"""Waiting calls as people saw them before they answered, made again from the record and compared with the digests of what was shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from toolgen.core.canonical import decoded, digest, texts
from toolgen.core.errors import CanonicalError, ConfigError
from toolgen.frontends.console.http import Visit
from toolgen.frontends.console.records import Row as Entry
from toolgen.gateway.approvals.view import arguments_as_shown, recorded_rows, request_now, without_bound
from toolgen.gateway.operations.call_rows import ValueRow

__all__ = ["SeenCall", "seen_calls"]

_HIDDEN = "hmac-sha256:"
_CHANNELS = {
    "console": "in the console",
    "cli": "on the command line",
    "rest": "over REST",
    "mcp": "at the caller's own client",
    "python": "in a Python program",
}
State = Literal["same", "other", "hidden", "none"]
"""Result of making the shown data again: it has the recorded digest, it has another one, it cannot be made because sensitive values are
missing, or it was not shown."""


class SeenCall(Struct, frozen=True, kw_only=True):
    """Call as a person saw it before a recorded answer. `hidden`: some sensitive arguments are replaced by digests."""

    by: str
    verdict: str
    where: str
    arguments: tuple[ValueRow, ...]
    as_shown: bool
    hidden: bool
    request: tuple[ValueRow, ...]
    request_state: State


async def seen_calls(visit: Visit, call: Entry, entries: tuple[Entry, ...]) -> tuple[SeenCall, ...]:
    """Return the call as each approver saw it, in the order of their answers."""
    arguments: Any = None
    found: list[SeenCall] = []
    for entry in entries:
        said = entry.get("arguments")
        if entry.get("event") == "intent" and isinstance(said, Mapping):
            call, arguments = {**call, "bound": (), **entry}, said
        if entry.get("status") == "narrowed" and isinstance(said, Mapping):  # a project's check changed the arguments
            arguments = said
        if entry.get("event") != "decision" or not isinstance(said, Mapping) or not isinstance(arguments, Mapping):
            continue
        shown = said.get("shown")
        if isinstance(shown, Mapping):
            found.append(await _seen(visit, {**call, "arguments": arguments}, entry, said))
        if isinstance(said.get("edited"), Mapping):
            arguments = said["edited"]
    return tuple(found)


async def _seen(visit: Visit, call: Entry, entry: Entry, said: Mapping[str, Any]) -> SeenCall:
    bound = tuple(map(str, call.get("bound") or ()))
    arguments = arguments_as_shown(call["arguments"], said, bound)
    tool = visit.gateway.manifest.tools.get(str(call.get("tool", "")))
    schema = None if tool is None or tool.digest != call.get("tool_digest") else tool.input_schema
    state, request = await _request(visit, call, said, bound)
    channel = str(said.get("channel", ""))
    return SeenCall(
        by=str(entry.get("principal") or ""),
        verdict=str(entry.get("verdict") or ""),
        where=_CHANNELS.get(channel, channel),
        arguments=recorded_rows(arguments, schema, () if channel == "mcp" else bound),
        as_shown=_digest(arguments) == said["shown"].get("arguments"),
        hidden=_conceals(arguments),
        request=request,
        request_state=state,
    )


async def _request(
    visit: Visit, call: Entry, said: Mapping[str, Any], bound: tuple[str, ...]
) -> tuple[State, tuple[ValueRow, ...]]:
    """Return the request, made again by a dry run under the policy in force now."""
    wanted = said["shown"].get("request")
    if not wanted:
        return "none", ()
    if _conceals(call["arguments"]):
        return "hidden", ()
    compiled_policy, name = visit.gateway.current.compiled_policy, str(call.get("tool", ""))
    try:
        who = visit.gateway.callers.named(str(call.get("principal", "")), str(call.get("on_behalf_of") or "") or None)
    except ConfigError:
        return "other", ()
    given = without_bound({key: decoded(item) for key, item in call["arguments"].items()}, bound)
    session, client, parent = (str(call.get(word) or "") for word in ("session", "client", "parent"))
    made = replace(compiled_policy.call(name, given, who, session, client, parent), id=str(call.get("call_id", "")))
    again = await request_now(made, compiled_policy)
    return ("same", again.request) if again.digest == wanted else ("other", ())


def _conceals(arguments: Mapping[str, Any]) -> bool:
    return any(_HIDDEN in text for text in texts(arguments))


def _digest(arguments: Mapping[str, Any]) -> str:
    try:
        return digest(arguments)
    except CanonicalError:  # the log was written by another program
        return ""
