"""What the serve tests start as a subprocess: the fake gateway behind the real server, on a port of the system's choice."""

from __future__ import annotations

import asyncio
import sys
from types import TracebackType

from tests.gateway.gateways import FakeGateway
from toolgen.frontends.server.http import serve
from toolgen.model.result import Envelope
from toolgen.model.schema import JsonObject


class Announcing(FakeGateway):
    """Says when a slow call begins and ends, and when the gateway is left."""

    async def run(self, name: str, arguments: JsonObject) -> Envelope:
        print(f"begin {name}", flush=True)
        if name == "test__slow":
            asyncio.get_running_loop().call_later(0.3, self.gate.set)
        result = await super().run(name, arguments)
        print(f"end {name}", flush=True)
        return result

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await super().__aexit__(kind, error, trace)
        print("left", flush=True)


if __name__ == "__main__":
    serve(Announcing(), host=sys.argv[1], port=int(sys.argv[2]))
