"""Questions of calls that continue without their callers: stored with the call, and answered at any worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from toolgen.core.errors import StateError
from toolgen.gateway.calls.json_body import encode
from toolgen.gateway.operations.waiting_calls import WaitingCalls
from toolgen.model.client_channel import Unasked
from toolgen.model.schema import Json, JsonObject
from toolgen.state.invocations import Invocation

__all__ = ["MAX_QUESTIONS", "CallerQuestions"]

MAX_QUESTIONS = 16
MAX_QUESTION_S = 600.0
_MAX_SIZE = 65_536
_TRIES = 100

Change = Callable[[Invocation], Invocation | None]


class CallerQuestions:
    """Questions of the calls stored in `calls` to callers that return for them."""

    def __init__(self, calls: WaitingCalls) -> None:
        self._calls = calls

    async def ask(self, call_id: str, key: str, method: str, params: JsonObject) -> Json:
        """Return the answer. Raises `Unasked` if there is none within ten minutes, the question is too large, too many
        wait already, or the process stops."""
        question = {"method": method, "params": dict(params)}
        if len(encode(question)) > _MAX_SIZE or self._calls.stopping.is_set():
            raise Unasked

        def asking(known: Invocation) -> Invocation | None:
            if known.status != "running" or known.cancel or len(known.asks) >= MAX_QUESTIONS:
                return None
            return msgspec.structs.replace(known, asks={**known.asks, key: question})

        try:
            if await self._change(call_id, asking) is None:
                raise Unasked
            async with asyncio.timeout(MAX_QUESTION_S):
                return await self._answer(call_id, key)
        except (StateError, TimeoutError):
            raise Unasked from None
        finally:
            with suppress(StateError):
                await self._change(call_id, lambda known: _without(known, key))

    async def _answer(self, call_id: str, key: str) -> Json:
        while True:
            news = self._calls.news.of(call_id)
            known = await self._calls.store.get(call_id)
            if known is None or known.status != "running":
                raise Unasked
            if key in known.replies:
                answer: Json = known.replies[key]
                return answer
            if self._calls.stopping.is_set():
                raise Unasked
            await news.wait()

    async def answer(self, known: Invocation, replies: Mapping[str, Mapping[str, Any]]) -> bool:
        """Store the answers to those questions that wait for one, each once; others are ignored. Returns False if no question was answered.

        Raises `StateError`.
        """

        def answering(now: Invocation) -> Invocation | None:
            new = {key: dict(reply) for key, reply in replies.items() if key in now.asks and key not in now.replies}
            if not new or now.status != "running":
                return None
            return msgspec.structs.replace(now, replies={**now.replies, **new})

        return await self._change(known.id, answering) is not None

    async def _change(self, call_id: str, change: Change) -> Invocation | None:
        """Change a stored call; None if it is missing, or there is nothing to change."""
        for _ in range(_TRIES):
            known = await self._calls.store.get(call_id)
            changed = None if known is None else change(known)
            if known is None or changed is None:
                return None
            changed = msgspec.structs.replace(changed, updated=await self._calls.store.now())
            if (kept := await self._calls.store.replace(known, changed)) is not None:
                self._calls.news.announce(call_id)
                return kept
        return None


def _without(known: Invocation, key: str) -> Invocation | None:
    """Return a running call without one of its questions and the reply to it; None if it does not have this question."""
    if known.status != "running" or key not in known.asks:
        return None
    asks = {name: question for name, question in known.asks.items() if name != key}
    replies = {name: reply for name, reply in known.replies.items() if name != key}
    return msgspec.structs.replace(known, asks=asks, replies=replies)
