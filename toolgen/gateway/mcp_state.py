"""MCP's `requestState`: what a call that waits for an answer is, sealed, so that any worker may go on with it and nobody can change it."""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from toolgen.canonical import digest, encodable
from toolgen.clock import Clock
from toolgen.errors import CanonicalError, StateError
from toolgen.model.call import Principal, parties
from toolgen.model.schema import JsonObject
from toolgen.state.seal import Seal

__all__ = ["LONGEST_STATE", "RequestState", "States"]

LONGEST_STATE = 262_144
_ABOUT = "toolgen mcp requestState"
_EXPIRES_S = 3600.0


class RequestState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One round of a call: whose it is, of which tool, with what (a digest), until when; `nonce` names the round.

    `answers` are those given so far. `call_id` is the call that waits for approval, "" where a function asked.
    """

    caller: tuple[str, ...]
    tool: str
    arguments: str
    expires: float
    nonce: str
    answers: dict[str, Any] = {}
    call_id: str = ""


class States:
    """Makes and opens them. `seal` is the same in every worker."""

    def __init__(self, seal: Callable[[], Seal], clock: Clock) -> None:
        self._seal = seal
        self._clock = clock

    def close(
        self, principal: Principal, name: str, arguments: JsonObject, *, answers: Mapping[str, Any], call_id: str = ""
    ) -> str:
        """The text a client gives back. Raises `StateError` where the key cannot be had, `CanonicalError` for odd arguments."""
        state = RequestState(
            caller=parties(principal),
            tool=name,
            arguments=digest(encodable(arguments)),
            expires=self._clock.now() + _EXPIRES_S,
            nonce=secrets.token_hex(16),
            answers=dict(answers),
            call_id=call_id,
        )
        box = self._seal().close(msgspec.json.encode(state), _ABOUT)
        return base64.urlsafe_b64encode(box).decode("ascii")

    def open(self, text: str, principal: Principal, name: str, arguments: JsonObject) -> RequestState | None:
        """The state, if we made it, for this caller, this tool and these arguments, and its time is not over; None otherwise."""
        try:
            box = base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True)
            state = msgspec.json.decode(self._seal().open(box, _ABOUT), type=RequestState)
            same = (state.caller, state.tool, state.arguments) == (
                parties(principal),
                name,
                digest(encodable(arguments)),
            )
        except (UnicodeError, binascii.Error, StateError, CanonicalError, msgspec.MsgspecError):
            return None
        return state if same and state.expires > self._clock.now() else None
