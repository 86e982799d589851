"""Settings of toolgen.yaml for operations that go on behind an answer."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["AnswerPlace", "PollConfig", "StatusPost"]


class AnswerPlace(Struct, frozen=True, kw_only=True):
    """Place of a URL in an answer: in a header (lower case), at a path of members of its body, or in members that a template below the
    server is filled with. With none of these it is the URL of the request."""

    header: str = ""
    path: tuple[str, ...] = ()
    template: tuple[str | tuple[str, ...], ...] = ()


class StatusPost(Struct, frozen=True, kw_only=True):
    """A status that is had by a POST with a JSON object, which changes nothing. `body` has its members: a value, or a path in the answer
    that began the operation. `headers` go with it."""

    body: tuple[tuple[str, str | int | float | bool | tuple[str, ...]], ...]
    headers: tuple[tuple[str, str], ...] = ()
    media_type: str = "application/json"


class PollConfig(Struct, frozen=True, kw_only=True):
    """Settings of polling for an operation that goes on behind an answer. With no `url` there is none.

    `url` has the places of its status, the first that is there counts. `state` is where the status has a word for how it stands, which is
    one of `done`, `failed` or `running` (any other one where that is empty); without it the HTTP status says so. `error`, `result`,
    `percent` and `message` are paths in the status, `result_url` is where its result is fetched. `post` is for a status had by a POST.
    `cancel` is the method that ends an operation, at `cancel_url` or the status itself. `origins` are asked besides that of the call,
    without its credentials.
    """

    url: tuple[AnswerPlace, ...]
    state: tuple[str, ...] = ()
    done: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()
    running: frozenset[str] = frozenset()
    error: tuple[str, ...] = ()
    result: tuple[str, ...] = ()
    result_url: AnswerPlace | None = None
    percent: tuple[str, ...] = ()
    message: tuple[str, ...] = ()
    interval_s: float = 2.0
    longest_interval_s: float = 60.0
    total_s: float = 1800.0
    cancel: str = ""
    cancel_url: AnswerPlace | None = None
    post: StatusPost | None = None
    origins: frozenset[tuple[str, str, int]] = frozenset()
