"""What the stdio tests start as a subprocess: the fake gateway on standard input and output, with a tool that prints and reads."""

from __future__ import annotations

import sys

from tests.gateway.gateways import BOT, FakeGateway
from toolgen.frontends.server.http import serve_stdio
from toolgen.model.result import Envelope
from toolgen.model.schema import JsonObject


class PrintingGateway(FakeGateway):
    """A gateway whose code prints and reads in the middle of a call, as somebody's function will."""

    def _answer(self, name: str, arguments: JsonObject) -> Envelope:
        if name == "test__slow":
            print("a stray line")
            assert sys.stdin.read() == ""
        return super()._answer(name, arguments)


def main() -> None:
    """Serves until the input ends."""
    gateway = PrintingGateway()
    gateway.gate.set()
    serve_stdio(gateway, BOT)


if __name__ == "__main__":
    main()
