"""MCP's `requestState`: the sealed state of a call that waits for an answer. Any worker can continue it; a client cannot change it."""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from toolgen.core.canonical import digest, encodable
from toolgen.core.clock import Clock
from toolgen.core.errors import CanonicalError, StateError
from toolgen.model.call import Principal, parties
from toolgen.model.schema import JsonObject
from toolgen.state.encryption import Seal

__all__ = ["MAX_STATE_LENGTH", "RequestState", "States"]

MAX_STATE_LENGTH = 262_144
_ABOUT = "toolgen mcp requestState"
_EXPIRES_S = 3600.0


class RequestState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """State of a round of a call, sealed for the client: caller, tool, digest of the arguments, and expiry; `nonce` identifies the round.

    `answers` are the answers so far. `call_id` is the call that waits for approval, "" if a function asked. `asks`: the call goes on, and
    waits for answers to what the server of its tool requests.
    """

    caller: tuple[str, ...]
    tool: str
    arguments: str
    expires: float
    nonce: str
    answers: dict[str, Any] = {}
    call_id: str = ""
    asks: bool = False


class States:
    """Makes and opens them. `seal` is the same in every worker."""

    def __init__(self, seal: Callable[[], Seal], clock: Clock) -> None:
        self._seal = seal
        self._clock = clock

    def close(
        self,
        principal: Principal,
        name: str,
        arguments: JsonObject,
        *,
        answers: Mapping[str, Any],
        call_id: str = "",
        asks: bool = False,
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
            asks=asks,
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
