"""Client channel of a call whose policy hides something: it drops what could hold that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from toolgen.model.client_channel import ClientChannel, Unasked
from toolgen.model.excerpt import Masking
from toolgen.model.schema import Json, JsonObject

__all__ = ["INSPECTED", "REDACTED", "STRANGER", "ChannelFilter", "FilteredChannel", "masked"]


class ChannelFilter(Struct, frozen=True, kw_only=True):
    """Messages that a filtered channel forwards: the `texts` of progress, and `questions`."""

    texts: bool
    questions: bool


REDACTED = ChannelFilter(texts=True, questions=True)
"""For the project's own functions: what the policy hides is found in the whole answer alone."""
INSPECTED = ChannelFilter(texts=False, questions=True)
"""For the project's own functions whose answers detectors look at: a text of progress could contain what these hide."""
STRANGER = ChannelFilter(texts=False, questions=False)
"""For programs that are not the project's own."""


class FilteredChannel:
    """Client channel that forwards to `line` what a filter lets through. Questions have tokens in place of values if there is a `mask`."""

    __slots__ = ("_filter", "_line", "_mask")

    def __init__(self, line: ClientChannel, channel_filter: ChannelFilter, mask: Masking | None = None) -> None:
        self._line, self._filter, self._mask = line, channel_filter, mask

    @property
    def capabilities(self) -> frozenset[str]:
        """Capabilities of the wrapped channel; none where questions are not forwarded."""
        return self._line.capabilities if self._filter.questions else frozenset()

    @property
    def listens(self) -> bool:
        """True if the client of the wrapped channel wants progress."""
        return self._line.listens

    def disconnected(self) -> bool:
        """Return True if the client of the wrapped channel has disconnected."""
        return self._line.disconnected()

    def progress(self, done: float, total: float | None, message: str) -> None:
        """Forward the numbers, and the text if the filter lets it through."""
        self._line.progress(done, total, message if self._filter.texts else "")

    def partial(self, data: Json) -> None:
        """Drop the partial answer."""

    def log(self, level: str, text: str) -> None:
        """Drop the message, which may hold what the policy hides."""

    async def ask(self, key: str, method: str, params: JsonObject) -> Json:
        """Pass the question on, masked. Raises `Unasked` where questions are not forwarded."""
        if not self._filter.questions:
            raise Unasked
        return await self._line.ask(key, method, params if self._mask is None else masked(params, self._mask))


def masked(params: Any, mask: Masking) -> Any:
    """Return the params of a request with tokens in place of values."""
    match params:
        case str():
            return mask.message(params)
        case Mapping():
            return {name: masked(item, mask) for name, item in params.items()}
        case list() | tuple():
            return [masked(item, mask) for item in params]
        case _:
            return params
