"""A whole project whose tools run on its callers' own devices, and what a device does: it asks for its requests, and answers them."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from tests.gateway.clients import listening
from tests.gateway.governed import PRINCIPALS
from toolgen.audit.reader import entries
from toolgen.audit.verify import verify
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway

PHONE = """
title: Phone
version: "1"
tools:
  get_location:
    description: Where the user is now. Use it when an answer depends on the place.
    method: location.get
    effect: read
    arguments:
      properties:
        accuracy: {type: string, enum: [coarse, fine]}
        reason: {type: string, maxLength: 200}
      required: [reason]
    display: "Share your location? {reason}"
    params: {accuracy: $.accuracy}
    result:
      type: object
      properties:
        coords:
          type: object
          properties: {latitude: {type: number}, longitude: {type: number}}
          required: [latitude, longitude]
        owner: {type: string}
      required: [coords]
    transform: {latitude: $.coords.latitude, longitude: $.coords.longitude, owner: $.owner}
  copy_text:
    description: Puts a text into the clipboard of the user's device.
    method: clipboard.write
    effect: write
    timeout: 30s
    arguments:
      properties: {text: {type: string}, from: {type: string}}
      required: [text]
    params: {content: {text: $.text, kind: plain}, source: $.from}
    result: {type: "null"}
  ring:
    description: Lets the device ring.
    method: sound.ring
    effect: write
    result: {}
"""
ALLOW: dict[str, Any] = {
    "rules": [{"id": "phone", "to": ["bot", "user"], "tools": ["phone__*"], "verdict": "allow"}],
}


def device_project(
    root: Path, policy: dict[str, Any] | None = None, *, state: str = "memory", phone: str = PHONE
) -> Path:
    """Writes a project with the source `phone`; returns its toolgen.yaml."""
    (root / "policies").mkdir(parents=True)
    (root / "phone.tools.yaml").write_text(phone, encoding="utf-8")
    settings = root / "toolgen.yaml"
    settings.write_text(f"sources:\n  phone: {{device: phone.tools.yaml}}\nstate: {state}\n", encoding="utf-8")
    rewrite(root, policy or ALLOW)
    return settings


def rewrite(root: Path, policy: dict[str, Any]) -> None:
    """Another policy, with the principals that all tests have."""
    whole = {"principals": PRINCIPALS, **policy}
    (root / "policies" / "policy.yaml").write_text(json.dumps(whole), encoding="utf-8")


def recorded(settings: Path) -> list[dict[str, Any]]:
    """Every entry of a project's record, which verifies."""
    assert verify(settings.parent / "var" / "audit").faults == ()
    return [entry for entry in entries(settings.parent / "var" / "audit") if entry["event"] != "checkpoint"]


@dataclass
class Served:
    """A gateway that listens on a real port, and HTTP to it in anybody's name."""

    settings: Path

    async def __aenter__(self) -> Self:
        self._stack = AsyncExitStack()
        self.gateway = await self._stack.enter_async_context(Gateway.load(self.settings))
        self.app = App(self.gateway)
        self.url = await self._stack.enter_async_context(listening(self.app))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.app.end_streams()
        await self._stack.aclose()

    def http(self, who: str) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, headers={"authorization": f"Bearer key-of-{who}"}, timeout=120)

    async def post(self, path: str, who: str, body: Any) -> httpx.Response:
        async with self.http(who) as http:
            return await http.post(path, json=body)

    async def get(self, path: str, who: str) -> httpx.Response:
        async with self.http(who) as http:
            return await http.get(path)

    async def call(self, tool: str, arguments: dict[str, Any], who: str = "ann", wait: float = 0) -> dict[str, Any]:
        """The envelope of a call."""
        answer = await self.post(f"/v1/tools/{tool}/call", who, {"arguments": arguments, "wait": wait})
        found: dict[str, Any] = answer.json()
        return found

    async def asked(self, tool: str = "phone__get_location", who: str = "ann", **arguments: Any) -> str:
        """The id of a call that waits for a device."""
        usual = {"phone__get_location": {"reason": "to find a café"}, "phone__ring": {}}
        given = arguments or usual.get(tool, {"text": "x"})
        envelope = await self.call(tool, given, who)
        assert (envelope["status"], envelope["error"]["code"]) == ("pending", "deferred"), envelope
        return str(envelope["call_id"])

    async def requests(self, who: str = "ann") -> list[dict[str, Any]]:
        """What the device of somebody is asked now."""
        found: list[dict[str, Any]] = (await self.get("/v1/device/requests", who)).json()["requests"]
        return found

    async def answer(self, call_id: str, who: str = "ann", **answer: Any) -> httpx.Response:
        """What a device says: `result` or `error`."""
        return await self.post("/v1/tool-messages", who, {"jsonrpc": "2.0", "id": call_id, **answer})

    async def outcome(self, call_id: str, who: str = "ann") -> dict[str, Any]:
        """How a call stands."""
        found: dict[str, Any] = (await self.get(f"/v1/calls/{call_id}", who)).json()
        return found


HERE = {"coords": {"latitude": 48.1, "longitude": 11.6}, "owner": "Ann"}
