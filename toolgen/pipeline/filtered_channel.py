"""Client channel of a call with redaction: it drops messages that could contain hidden values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from toolgen.model.client_channel import ClientChannel, ForwardingChannel, Unasked
from toolgen.model.excerpt import Masking
from toolgen.model.schema import Json, JsonObject

__all__ = ["EXTERNAL", "INSPECTED", "REDACTED", "ChannelFilter", "FilteredChannel", "masked"]


class ChannelFilter(Struct, frozen=True, kw_only=True):
    """Messages that a filtered channel forwards: the `texts` of progress, and `questions`."""

    texts: bool
    questions: bool


REDACTED = ChannelFilter(texts=True, questions=True)
"""Filter for the project's own functions: redaction applies to the whole answer only."""
INSPECTED = ChannelFilter(texts=False, questions=True)
"""Filter for the project's own functions whose answers detectors inspect: a progress text could contain values that these hide."""
EXTERNAL = ChannelFilter(texts=False, questions=False)
"""Filter for programs outside the project."""


class FilteredChannel(ForwardingChannel):
    """Client channel that forwards only messages that its filter permits. With a `mask`, questions have tokens in place of values."""

    __slots__ = ("_filter", "_mask")

    def __init__(self, line: ClientChannel, channel_filter: ChannelFilter, mask: Masking | None = None) -> None:
        self._line, self._filter, self._mask = line, channel_filter, mask
        self._capabilities = line.capabilities if channel_filter.questions else frozenset()

    def progress(self, done: float, total: float | None, message: str) -> None:
        """Forward the numbers, and the text if the filter permits it."""
        self._line.progress(done, total, message if self._filter.texts else "")

    def partial(self, data: Json) -> None:
        """Drop the partial answer."""

    def log(self, level: str, text: str) -> None:
        """Drop the message, which may contain hidden values."""

    async def ask(self, key: str, method: str, params: JsonObject) -> Json:
        """Forward the question, masked. Raises `Unasked` if questions are not forwarded."""
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
