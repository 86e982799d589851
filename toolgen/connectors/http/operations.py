"""Long-running operations that a response refers to: the URL of their status, their state and their result. Pure functions, for RFC 9110,
section 15.3.3 (202 with a monitor), Azure's `Operation-Location`, Google's AIP-151 and similar services, as toolgen.yaml configures them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from enum import StrEnum

from msgspec import Struct

from toolgen.connectors.http.parameter_styles import percent
from toolgen.connectors.http.redirects import resolved
from toolgen.connectors.poll_settings import AnswerPlace, PollConfig
from toolgen.model.excerpt import bounded
from toolgen.model.result import Success
from toolgen.model.schema import Json

__all__ = [
    "OperationProgress",
    "OperationRequest",
    "OperationState",
    "begun",
    "leads",
    "progress_of",
    "state_of",
    "value_at",
    "word",
]

_MAX_VALUE_LENGTH = 1024
_MAX_MESSAGE_LENGTH = 200
_NUMBER = re.compile(r"\d{1,3}(?:\.\d{1,6})?\Z", re.ASCII)
# Values of the service that may be put into a path: names, and paths of names.
_NAMES = re.compile(r"[A-Za-z0-9._~:@=+-]+(?:/[A-Za-z0-9._~:@=+-]+)*\Z")
_ACCEPTED = 202
_ITSELF = AnswerPlace()


class OperationState(StrEnum):
    """State of an operation. UNCLEAR: its status has no state, or one that toolgen.yaml does not name."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    UNCLEAR = "unclear"


class OperationProgress(Struct, frozen=True, kw_only=True):
    """Progress of an operation: its message, and a share of 100 if it states one."""

    percent: float | None
    message: str


class OperationRequest(Struct, frozen=True, kw_only=True):
    """Request that may have begun an operation: its URL, the server of its description, and the names of credentials in queries."""

    url: str
    server: str
    hidden: Collection[str]


def begun(poll: PollConfig, asked: OperationRequest, answer: Success) -> tuple[str, OperationState] | None:
    """Return the URL of the operation's status ("" if requests to it are not permitted) and its state; None if the answer began no
    operation. An answer whose header has the status URL does not state the status itself."""
    for place in poll.url:
        if place == _ITSELF and answer.delivery.status != _ACCEPTED:
            continue
        if (url := leads(poll, place, asked, answer)) is not None:
            return url, OperationState.RUNNING if place.header else state_of(poll, answer, first=True)
    return None


def leads(poll: PollConfig, place: AnswerPlace, asked: OperationRequest, answer: Success) -> str | None:
    """Return the URL at a place of an answer, without repeated credentials; "" for a URL that is not permitted, None without one."""
    if place.header:
        said: Json = (answer.delivery.headers or {}).get(place.header)
        # The Location of any other answer is the created resource (RFC 9110, section 10.2.2).
        if place.header == "location" and answer.delivery.status != _ACCEPTED:
            return None
    elif place.template:
        said = _filled(place, asked.server, answer.data)
    elif place.path:
        said = value_at(answer.data, place.path)
    else:
        said = asked.url
    if not isinstance(said, str) or (not said and not place.template):
        return None
    return said and (resolved(asked.url, said, asked.hidden, poll.origins) or "")


def state_of(poll: PollConfig, answer: Success, *, first: bool = False) -> OperationState:
    """Return the state of the operation in an answer. The `first` answer need not contain it."""
    status = answer.delivery.status
    if not poll.state:
        return OperationState.RUNNING if first or status == _ACCEPTED else OperationState.DONE
    said = word(value_at(answer.data, poll.state))
    if said in poll.done:
        return OperationState.DONE
    if said in poll.failed:
        return OperationState.FAILED
    if not said:
        # AIP-151 leaves `done` out while it is false.
        goes_on = first or status == _ACCEPTED or (not poll.running and isinstance(answer.data, Mapping))
        return OperationState.RUNNING if goes_on else OperationState.UNCLEAR
    return OperationState.RUNNING if not poll.running or said in poll.running else OperationState.UNCLEAR


def progress_of(poll: PollConfig, answer: Success) -> OperationProgress:
    """Read the progress of the operation from its status."""
    said = value_at(answer.data, poll.percent) if poll.percent else None
    if isinstance(said, str) and _NUMBER.match(said.removesuffix("%")):
        said = float(said.removesuffix("%"))
    share = None
    if isinstance(said, int | float) and not isinstance(said, bool) and math.isfinite(said):
        share = min(100.0, max(0.0, float(said)))
    message = value_at(answer.data, poll.message) if poll.message else None
    return OperationProgress(
        percent=share, message=bounded(message, _MAX_MESSAGE_LENGTH) if isinstance(message, str) else ""
    )


def value_at(data: Json, path: tuple[str, ...]) -> Json:
    """Return the value at a path of members; None if there is none."""
    for name in path:
        if not isinstance(data, Mapping):
            return None
        data = data.get(name)
    return data


def word(value: Json) -> str:
    """Return a state in the form for comparison: `Succeeded` is `succeeded`, true is `true`; "" for any other value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return value.strip().casefold()[:_MAX_VALUE_LENGTH] if isinstance(value, str) else ""


def _filled(place: AnswerPlace, server: str, data: Json) -> str | None:
    """Return the URL of a template filled from an answer, below the server; "" if a value could change the route, None if one is
    missing."""
    built = []
    for piece in place.template:
        if isinstance(piece, str):
            built.append(piece)
            continue
        value = value_at(data, piece)
        if value is None:
            return None
        text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
        if not _NAMES.match(text) or len(text) > _MAX_VALUE_LENGTH or {".", ".."} & {*text.split("/")}:
            return ""
        built.append(percent(text, keep="/:@=+~"))
    return server + "".join(built)
