"""Common base of the framework adapters: the calling principal, tool metadata, and the text of results."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from toolgen.core.errors import ConfigError, StateError
from toolgen.gateway.calls.answer_text import notes_of
from toolgen.gateway.calls.content_blocks import Block, content_blocks, text_block, whole_text
from toolgen.gateway.calls.file_links import linked_file
from toolgen.gateway.calls.json_body import encode
from toolgen.gateway.calls.linked_resources import links_in
from toolgen.gateway.protocol import AgentGateway
from toolgen.generator.emit.schema_budget import listed
from toolgen.model.call import Principal
from toolgen.model.result import Envelope, Error, Meta
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import Effect, Tool
from toolgen.model.unavailable import fault_error

__all__ = [
    "AdapterCaller",
    "MediaPart",
    "Party",
    "media_in",
    "metadata_of",
    "schema_of",
    "text_of",
    "waits_for_person",
    "waits_for_somebody",
    "whole_data",
]

Party: TypeAlias = str | Principal
"""Calling principal: its id in the policy, or a principal that acts for a user (`gateway.principal("bot", "ann")`)."""
_GONE = Error(
    code="expired",
    message="this call has ended, and its outcome is not stored any more",
    suggestion="check what it should have changed before you make it again",
)


class AdapterCaller(Struct, frozen=True, kw_only=True):
    """Principal that an agent calls tools as. It is looked up in the policy in force, because an agent can outlive a policy.

    `session` is the conversation its calls belong to, whose turns are counted; "" for none.
    """

    gateway: AgentGateway
    party: Party
    client: str
    session: str = ""

    def principal(self) -> Principal:
        """Return the principal as defined by the policy now. Raises `ConfigError` if the policy does not have it any more."""
        if isinstance(self.party, str):
            return self.gateway.callers.named(self.party)
        found = self.gateway.callers.current(self.party)
        if found is None:
            raise ConfigError(f"the policy does not know the principal {self.party.id} (any more)")
        return found

    def offered(self) -> tuple[Tool, ...]:
        """Return the tools listed to this principal: its catalog, or the search tools in place of a long one. Raises `ConfigError`."""
        return self.gateway.tool_calls.offered(self.principal(), self.session)

    async def call(self, name: str, arguments: JsonObject, *, connection: str = "", key: str = "") -> Envelope:
        """Call a tool through all pipeline stages. Without a session, rules about earlier calls use `connection`.

        Raises `ConfigError` if the program did not open the gateway: revocations and approved calls would not be processed.
        """
        if not self.gateway.entered:
            raise ConfigError(
                "the gateway is not open, so nothing was called",
                suggestion="run the agent inside of `async with toolgen.Gateway.load() as gateway:`",
            )
        try:
            principal = self.principal()
        except ConfigError as error:
            return _refused(name, Error(code="forbidden", message=error.message, rule="default"))
        return await self.gateway.tool_calls.call(
            name,
            arguments,
            principal=principal,
            session=self.session,
            connection=connection,
            client=self.client,
            idempotency_key=key,
        )

    async def standing(self, name: str, call_id: str, wait_s: float) -> Envelope:
        """Return the state of a waiting call, or its outcome within `wait_s` seconds. Never raises."""
        try:
            found = await self.gateway.tool_calls.approvals.calls.outcome(call_id, self.principal(), wait_s)
        except ConfigError as error:
            return _refused(name, Error(code="forbidden", message=error.message, rule="default"))
        except StateError as error:
            return _refused(name, fault_error(error), call_id)
        return found or _refused(name, _GONE, call_id)

    async def withdraw(self, call_id: str) -> None:
        """Withdraw a waiting call. Raises `ToolgenError`."""
        await self.gateway.tool_calls.approvals.calls.cancel(call_id, self.principal())

    def changes_or_waits(self, name: str) -> bool:
        """Return True if a call of this tool may change something or may have to wait, so that repeating it is not harmless."""
        compiled_policy = self.gateway.current.compiled_policy
        tool = compiled_policy.tool(name)
        if tool is None or tool.effect is not Effect.READ or tool.runs_on_device:
            return True
        try:
            party: Principal | None = self.principal()
        except ConfigError:
            return True
        while party is not None:
            if any(compiled.rule.verdict == "ask" for compiled in compiled_policy.access.considered(party, tool)):
                return True
            party = party.on_behalf_of
        return False


def waits_for_person(envelope: Envelope) -> bool:
    """Return True if the call waits for approval by a person."""
    return envelope.status == "pending" and envelope.error is not None and envelope.error.code == "approval_required"


def waits_for_somebody(envelope: Envelope) -> bool:
    """Return True if the call waits for approval by a person or for the answer of the user's device."""
    return waits_for_person(envelope) or (
        envelope.status == "pending" and envelope.error is not None and envelope.error.code == "deferred"
    )


def schema_of(tool: Tool) -> dict[str, Any]:
    """Return the arguments of a tool as JSON Schema, in a copy, because frameworks change it."""
    schema: dict[str, Any] = msgspec.json.decode(encode(listed(tool).input_schema))
    return schema


def metadata_of(tool: Tool) -> dict[str, Any]:
    """Return the tool metadata that a framework can filter by; models do not see it."""
    return {"effect": str(tool.effect), "idempotent": tool.idempotent, "source": tool.source}


class MediaPart(Struct, frozen=True, kw_only=True):
    """Picture or recording in an answer. `kind` is image or audio."""

    kind: str
    media_type: str
    base64: str

    @property
    def named(self) -> str:
        """Return the text for a framework without a form for this kind."""
        return f"[{self.media_type}, which cannot be played here]"


def text_of(envelope: Envelope) -> str:
    """Return the text of a result for the model, identical to that over MCP and REST."""
    return whole_text(envelope)


def media_in(envelope: Envelope) -> list[str | MediaPart]:
    """Return the texts, pictures and recordings of an answer, in their order; empty if it is only text."""
    if envelope.status != "ok":
        return []
    parts = [_part(block) for block in content_blocks(envelope)]
    return parts if any(isinstance(part, MediaPart) for part in parts) else []


def whole_data(envelope: Envelope) -> Json:
    """Return the data of a success; its text if that contains more, for example if the answer was shortened or has no body."""
    more = (
        notes_of(envelope) or linked_file(envelope) is not None or links_in(envelope.content) or envelope.empty_status
    )
    return text_of(envelope) if more else envelope.data


def _part(block: Block) -> str | MediaPart:
    if block["type"] in {"image", "audio"}:
        return MediaPart(kind=block["type"], media_type=block["mimeType"], base64=block["data"])
    return text_block(block)


def _refused(name: str, error: Error, call_id: str = "") -> Envelope:
    meta = Meta(duration_ms=0.0, truncated=False)
    return Envelope(status="refused", tool=name, call_id=call_id, data=None, error=error, meta=meta)
