"""Calls that need an account of the person: the client shows the page for that by URL-mode elicitation, and gets the end of the call,
which goes on by itself.

The revisions do this in different ways: client/elicitation of MCP 2025-11-25 (a request, error -32042 and
notifications/elicitation/complete), and `input_required` of 2026-07-28.
"""

from __future__ import annotations

import asyncio
import secrets
from asyncio import QueueFull
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from toolgen.frontends.mcp.bridged_calls import Wanted
from toolgen.frontends.mcp.client_channel import MAX_QUESTION_S, PendingReplies
from toolgen.frontends.mcp.messages import (
    INVALID_PARAMS,
    META_ACCOUNT,
    META_CAPABILITIES,
    Caller,
    ProtocolStyle,
    RpcFault,
)
from toolgen.frontends.mcp.shown_pages import ShownPages
from toolgen.gateway.accounts.accounts import Accounts
from toolgen.gateway.calls.json_body import encode
from toolgen.gateway.operations.waiting_calls import WaitingCalls
from toolgen.model.account_need import ACCOUNT_NAME
from toolgen.model.call import parties, with_account
from toolgen.model.result import Envelope
from toolgen.model.tool import Tool

__all__ = ["ACCOUNT", "AccountLinks", "AccountNeeded", "choosing_account", "without_pages"]

ACCOUNT: Final = "account"
"""Key of the question in `inputRequests` (2026-07-28)."""
_PAGES_REQUIRED: Final = -32042
_CAPABILITY: Final = "elicitation_url"
_ELICIT: Final = "elicitation/create"
_LOOK_S: Final = 5.0
_LINKED_S: Final = 300.0  # how long a client of 2026-07-28 waits whose person was shown the page


class AccountNeeded(Struct, frozen=True, kw_only=True):
    """Outcome of a call for which the person has no account: the page for that, and the result for a client that shows none. `call_id` is
    that of a call that is kept until the account is linked."""

    call_id: str
    source: str
    page: str
    result: dict[str, object]


class AccountLinks:
    """Asks the person at a caller's client to link an account. `waiting` has the calls that are kept until then, and `pages` are
    those that clients were shown."""

    def __init__(self, accounts: Accounts, waiting: WaitingCalls, mailbox: PendingReplies, pages: ShownPages) -> None:
        self._accounts, self._waiting, self._mailbox, self._pages = accounts, waiting, mailbox, pages

    def may_ask(self, tool: Tool, capabilities: frozenset[str]) -> bool:
        """Return True if calls of a tool may need an account, and the client can show a page."""
        return _CAPABILITY in capabilities and tool.source in self._accounts.sources

    async def needed(
        self,
        envelope: Envelope,
        tool: Tool | None,
        capabilities: frozenset[str],
        caller: Caller,
        result: dict[str, object] | RpcFault,
    ) -> dict[str, object] | RpcFault | AccountNeeded:
        """Return that a call needs an account, if the client can show its person the page for that; otherwise its result. Raises
        `StateError`."""
        error = envelope.error
        if error is None or error.code != "authorization_required" or tool is None or isinstance(result, RpcFault):
            return result
        if not error.help_url or not self.may_ask(tool, capabilities):
            return result
        known = await self._waiting.own(envelope.call_id, caller.principal)
        call_id = "" if known is None else known.id
        return AccountNeeded(source=tool.source, page=error.help_url, result=result, call_id=call_id)

    async def outcome(self, call_id: str, answer: object, caller: Caller) -> Envelope | None:
        """Return how a kept call ended whose person was shown the page, or how it stands after five minutes, or once the client has
        disconnected. A call whose person declined is withdrawn. None for a call that is not kept. Raises `StateError` and `AuditError`."""
        if not _accepts(answer):
            return await self._waiting.cancel(call_id, caller.principal)
        loop, connection = asyncio.get_running_loop(), caller.caller_connection
        until = loop.time() + _LINKED_S
        while True:
            left = max(0.0, min(_LOOK_S, until - loop.time()))
            envelope = await connection.awaiting(self._waiting.outcome(call_id, caller.principal, left))
            if envelope is None or envelope.status != "pending" or not left or connection.disconnected():
                return envelope

    async def settled(
        self, needed: AccountNeeded, answers: object, style: ProtocolStyle, caller: Caller
    ) -> dict[str, object] | RpcFault | Wanted | None:
        """Ask the person, or take the answer that a client of 2026-07-28 came back with. Return None once an account is linked, what is to
        be asked by a result, or the answer to a client whose person links none. Raises `StateError`.

        A client of 2026-07-28 comes back here only for a call that is not kept."""
        if isinstance(answers, Mapping) and ACCOUNT in answers:
            return None if await self._awaited(answers[ACCOUNT], needed, caller) else needed.result
        params: dict[str, Any] = {"mode": "url", "message": self._message(needed), "url": needed.page}
        if style is ProtocolStyle.STATELESS:
            return Wanted({ACCOUNT: {"method": "elicitation/create", "params": params}})
        params["elicitationId"] = page = secrets.token_hex(16)
        self._pages.shown(caller.principal, caller.connection, _ELICIT, params, caller.send)
        if caller.send is None:
            self._done_later(needed, page, caller)
            return RpcFault(code=_PAGES_REQUIRED, message=self._message(needed), data={"elicitations": [params]})
        refused = await self._shown(needed, params, caller)
        if refused is None:
            self._pages.done(page)
        self._pages.close(caller.principal, caller.connection, caller.send)
        if refused:
            await self._waiting.cancel(needed.call_id, caller.principal)
        elif refused is not None:
            self._done_later(needed, page, caller)
        return None if refused is None else needed.result

    def _done_later(self, needed: AccountNeeded, page: str, caller: Caller) -> None:
        """Tell the client, which does not wait, when the account is linked: it may make the call again then."""
        if caller.connection:
            linked = self._accounts.linked(
                caller.principal, needed.source, within=MAX_QUESTION_S, left=lambda: False, since=self._accounts.now()
            )
            self._pages.done_after(page, linked)

    async def _awaited(self, answer: object, needed: AccountNeeded, caller: Caller) -> bool:
        """Wait until the person whose client accepted to show the page has linked an account, for five minutes at most."""
        if not _accepts(answer):
            return False
        left = caller.caller_connection.disconnected
        return await self._accounts.linked(caller.principal, needed.source, within=_LINKED_S, left=left)

    async def _shown(self, needed: AccountNeeded, params: dict[str, Any], caller: Caller) -> bool | None:
        """Have the client show the page, and wait for the account itself: the answer may come to another worker, and proves nothing. Return
        None once it is linked, True if the person declined, and False if nothing was linked in time."""
        if caller.send is None:
            return False
        question, answer = self._mailbox.open(parties(caller.principal))
        disconnected, since = caller.caller_connection.disconnected, self._accounts.now()

        def left() -> bool:
            return disconnected() or (answer.done() and not _accepted(answer))

        try:
            caller.send(encode({"jsonrpc": "2.0", "id": question, "method": _ELICIT, "params": params}))
            linked = await self._accounts.linked(
                caller.principal, needed.source, within=MAX_QUESTION_S, left=left, since=since
            )
            return None if linked else answer.done() and not _accepted(answer)
        except QueueFull:
            return False
        finally:
            self._mailbox.close(question)

    def _message(self, needed: AccountNeeded) -> str:
        return f"Link your account at {self._accounts.title(needed.source)}: your agent needs it for this call."


def choosing_account(caller: Caller, meta: Mapping[str, Any]) -> tuple[Caller | RpcFault, Mapping[str, Any]]:
    """Return the caller with the account chosen that the `_meta` of its request names, or the fault of a name that is none; and the rest of
    `_meta`."""
    name = meta[META_ACCOUNT]
    rest = {key: value for key, value in meta.items() if key != META_ACCOUNT}
    if not isinstance(name, str) or not ACCOUNT_NAME.match(name):
        message = f"params._meta.{META_ACCOUNT} must be a name of up to 32 lower-case letters, digits, - and _"
        return RpcFault(code=INVALID_PARAMS, message=message), rest
    return msgspec.structs.replace(caller, principal=with_account(caller.principal, name)), rest


def without_pages(
    meta: Mapping[str, Any], style: ProtocolStyle, caller: Caller
) -> tuple[Mapping[str, Any], ProtocolStyle, Caller]:
    """Return a request as one whose client shows no pages: it is not asked twice. A client of 2026-07-28 says in `_meta` what it can."""
    caller = msgspec.structs.replace(caller, capabilities=caller.capabilities - {_CAPABILITY})
    given = meta.get(META_CAPABILITIES)
    modes = given.get("elicitation") if isinstance(given, Mapping) else None
    if not isinstance(given, Mapping) or not isinstance(modes, Mapping) or "url" not in modes:
        return meta, style, caller
    others = {mode: value for mode, value in modes.items() if mode != "url"}
    kept = {name: value for name, value in given.items() if name != "elicitation"}
    changed = {**meta, META_CAPABILITIES: {**kept, **({"elicitation": others} if others else {})}}
    return changed, style, caller


def _accepted(answer: asyncio.Future[Any]) -> bool:
    return _accepts(answer.result())


def _accepts(answer: object) -> bool:
    return isinstance(answer, Mapping) and answer.get("action") == "accept"
