"""Client channel of a call that runs after its approval: its questions are stored with the call, for a caller that returns."""

from __future__ import annotations

from toolgen.gateway.operations.call_reports import CallReports
from toolgen.gateway.operations.caller_questions import CallerQuestions
from toolgen.model.caller_requests import request_kind
from toolgen.model.client_channel import Unasked
from toolgen.model.schema import Json, JsonObject
from toolgen.pipeline.middleware import CallerConnection

__all__ = ["UNREACHABLE", "ReturningCaller"]

UNREACHABLE = "the call waited for approval, and its caller has no way to be asked since"


class ReturningCaller(CallReports):
    """Channel to the caller of the call `call_id`, whose client answers requests of these `capabilities`."""

    __slots__ = ("_call_id", "_capabilities", "_questions", "_used")

    def __init__(
        self,
        caller_connection: CallerConnection,
        questions: CallerQuestions,
        call_id: str,
        capabilities: frozenset[str],
    ) -> None:
        super().__init__(caller_connection)
        self._questions, self._call_id, self._capabilities = questions, call_id, capabilities
        self._used: dict[str, int] = {}

    @property
    def capabilities(self) -> frozenset[str]:
        """Requests that the client answers."""
        return self._capabilities

    @property
    def listens(self) -> bool:
        """Return False: the progress of the call is not reported."""
        return False

    async def ask(self, key: str, method: str, params: JsonObject) -> Json:
        """Return the answer to a question after the caller has returned and answered it. Raises `Unasked`."""
        if request_kind(method, params) not in self._capabilities or self.disconnected():
            raise Unasked
        self._used[key] = number = self._used.get(key, 0) + 1
        name = key if number == 1 else f"{key}-{number}"  # no key means two questions of one call
        return await self._questions.ask(self._call_id, name, method, params)
