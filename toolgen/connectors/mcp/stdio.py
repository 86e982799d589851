"""A server that is a command: its messages, and what its answers are for the calls behind them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from toolgen.connectors.failure_settings import Timeouts
from toolgen.connectors.http.response import HttpResponse, decode
from toolgen.connectors.mcp.command import NOT_SENT, Command, CommandSpec, LocalCommand
from toolgen.connectors.mcp.messages import Agreed, failed, harmless, too_deep, too_large, unreadable
from toolgen.connectors.mcp.notices import NoticeListener
from toolgen.connectors.mcp.process import CommandFault
from toolgen.connectors.secrets import SecretResolver
from toolgen.core.error_codes import ErrorCode
from toolgen.core.errors import SecretError
from toolgen.core.json_codec import decode_json
from toolgen.model.call import Call
from toolgen.model.result import Delivery, Failed, Success
from toolgen.model.schema import JsonObject

__all__ = ["StdioWire"]

_TIMEOUTS = Timeouts()


class StdioWire:
    """Wire to an MCP server that runs as a command, shared by all callers. Its environment has little besides what the source declares.

    The server is offered no sampling, no elicitation and no roots; requests for them are answered with an error. `command` is used if
    another process runs the command; without it, this process starts the command.
    """

    def __init__(
        self,
        spec: CommandSpec,
        *,
        secrets: SecretResolver,
        timeouts: Timeouts = _TIMEOUTS,
        command: Command | None = None,
    ) -> None:
        self._spec = spec
        self._secrets = secrets
        self._timeouts = timeouts
        self._command = command or LocalCommand(spec)

    def ready(self) -> int | None:
        """Return the number of the process while it runs and its liveness is not in doubt; otherwise None."""
        return self._command.ready()

    async def begin(self) -> int | Failed:
        """Starts the command where it does not run."""
        epoch = await self._command.begin(None if self._spec.environment else {})
        if epoch is not None:
            return epoch
        try:
            values = {name: (await self._secrets.fetch(one)).reveal() for name, one in self._spec.environment.items()}
        except SecretError as error:
            return failed(error.code, error.message, error.suggestion)
        epoch = await self._command.begin(values)
        assert epoch is not None  # noqa: S101 - it was given what it needs
        return epoch

    async def ask(self, message: JsonObject, agreed: Agreed, call: Call) -> Success | Failed:
        """Sends a request and waits for its answer."""
        method = str(message["method"])
        delivery = Delivery(attempts=1)
        reply = await self._command.ask(message, call.line)
        match reply.fault:
            case CommandFault.NOT_SENT:
                return failed("upstream_unavailable", "the command has ended; nothing was sent", "try again", NOT_SENT)
            case CommandFault.UNREAD:
                said = "the command does not read what it is sent; nothing more was sent"
                return failed("upstream_unavailable", said, "try again later", NOT_SENT)
            case CommandFault.ENDED:
                return _untold(reply.reason, "upstream_error" if harmless(call, method) else "outcome_unknown")
            case CommandFault.TOO_LONG:
                return too_large(delivery)
            case CommandFault.TOO_DEEP:
                return too_deep(delivery)
            case CommandFault.UNREADABLE:
                return unreadable(call, method, delivery)
        delivery = Delivery(attempts=1, bytes=len(reply.line))
        scrubber = self._command.scrubber
        if method == "tools/list":  # with all that nobody sees: its reader has to know that it is there
            return Success(data=decode_json(scrubber.raw(reply.line)), delivery=delivery)
        answer = HttpResponse(status=200, content_type="application/json", body=reply.line, truncated=False, headers={})
        return Success(data=decode(answer, scrubber), delivery=delivery)

    def doubt(self) -> None:
        """Asks the command for a sign of life; one that gives none is ended once nobody else waits for it."""
        self._command.doubt()

    async def tell(self, message: JsonObject, agreed: Agreed, call: Call) -> None:
        """Sends a notification; what became of it shows with the next request."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._timeouts.total_s):
                await self._command.tell(message)

    def hears_cancellation(self, agreed: Agreed) -> bool:
        """Always."""
        return True

    def stale(self) -> bool:
        """Return True if the server has announced a changed tool list since the last call."""
        return self._command.stale()

    def watch(self, listener: NoticeListener) -> Callable[[], None]:
        """Have a listener told of each notice of the command, until the returned function is called."""
        return self._command.watch(listener)

    def preview(self, message: JsonObject, call: Call) -> JsonObject:
        """Return the command and the message that would be written to it."""
        return {"command": list(self._spec.words), "message": message}

    async def close(self) -> None:
        """Ends the command, and whatever it started."""
        await self._command.close()


def _untold(what: str, code: ErrorCode) -> Failed:
    more = "; it may or may not have taken effect" if code == "outcome_unknown" else ""
    return failed(code, f"the server's command {what}{more}", "", Delivery(attempts=1, broken=True))
