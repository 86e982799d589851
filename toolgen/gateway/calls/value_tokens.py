"""Tokens in the arguments of callers (`<email:1>`): they are replaced by the values of the session if the policy gives the tool those
values.

This happens before the call is made: rules, guards and approvers judge the values. The audit log has digests in place of them.

A caller writes tokens as text. In calls of workflows, code and functions only signed tokens count, which they get from the answers of such
calls and from their caller's own arguments. Text that a service wrote, or that was joined from parts, is not a token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolgen.core.errors import PolicyError, StateError
from toolgen.model.call import Call, Principal, parties
from toolgen.model.result import Envelope
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import (
    Tool,
)
from toolgen.model.verdict import Deny
from toolgen.policy.detectors.restored_values import changed_texts
from toolgen.policy.detectors.tokens import Signer, TokenMatch, Tokens
from toolgen.policy.value_tokens import TokenGrant, may_have
from toolgen.state.value_vault import TokenScope, ValueVault

__all__ = ["NONE", "RestoredArguments", "ValueTokens"]

_RULE = "tokens"
_MAX_TOKENS = 1_000  # maximum in one call: each may stand for thousands of characters
_UNREAD = Deny(
    rule=_RULE,
    code="upstream_unavailable",
    reason="the values of tokens cannot be read now, so nothing was sent",
    suggestion="if this goes on, tell the operator of the gateway",
    retry_after_s=1.0,
)
_TOO_MANY = Deny(
    rule=_RULE,
    code="validation",
    reason=f"the arguments contain more than {_MAX_TOKENS:,} tokens",
    suggestion="make several calls",
)


class RestoredArguments(Struct, frozen=True, kw_only=True):
    """Arguments with values in place of tokens.

    `values` are those of `Call.restored`, `sent` that of `Call.sent`; `denied` is the reason for a refusal.
    """

    arguments: JsonObject
    values: tuple[tuple[str, str, str], ...] = ()
    sent: JsonObject = {}
    denied: Deny | None = None

    def of(self, call: Call) -> Call:
        """Return the call with these arguments."""
        if not self.values and self.denied is None:
            return call
        return replace(call, restored=(*call.restored, *self.values), sent=self.sent, denied=call.denied or self.denied)


NONE = RestoredArguments(arguments={})
"""Result for a project without tokens."""


class ValueTokens:
    """Tokens under one policy. Raises `PolicyError` if the policy returns values of a kind that has no tokens."""

    def __init__(
        self, tokens: Tokens | None, grants: tuple[TokenGrant, ...], vault: ValueVault, key: Callable[[], bytes]
    ) -> None:
        self._tokens, self._grants, self._vault, self._key = tokens, grants, vault, key
        for grant in grants:
            if unknown := grant.kinds - (frozenset() if tokens is None else tokens.kinds):
                raise PolicyError(
                    f"tokens: no detector has tokens of the kind '{min(unknown)}'",
                    where=grant.where,
                    suggestion="list it under inspect_results: with then: tokenise",
                )

    async def restored(
        self, tool: Tool, arguments: JsonObject, principal: Principal, session: str, *, signed: bool = False
    ) -> RestoredArguments:
        """Return the arguments of a call with values in place of tokens; for an inner call, only of signed ones.

        Workflows and code get tokens unchanged: each call that they make is judged separately.
        """
        tokens = self._tokens
        if tokens is None:
            return RestoredArguments(arguments=arguments)
        signer = self._signer(principal, session) if signed else None
        if tool.binding.makes_calls:
            return RestoredArguments(arguments=arguments if signer is None else _outward(arguments, tokens, signer))
        if signer is not None:  # names of fields are never replaced by values
            arguments = _named_plainly(arguments, tokens, signer)
        where: dict[str, set[TokenMatch]] = {}
        resembling, count = False, 0
        for name, value in arguments.items():
            for text in _texts(value):
                if "<" in text:
                    resembling = True
                    if found := tokens.found(text, signer):
                        where.setdefault(name, set()).update(found)
                        count += len(found)
        if not resembling:
            return RestoredArguments(arguments=arguments)
        if count > _MAX_TOKENS:
            return RestoredArguments(arguments=arguments, denied=_TOO_MANY)
        if denied := self._denied(tool, where, principal):
            return RestoredArguments(arguments=arguments, denied=denied)
        wanted = {one for found in where.values() for one in found}
        values: dict[TokenMatch, str] = {}
        if wanted and session:
            asked = sorted((one.kind, one.number) for one in wanted)
            scope = TokenScope(parties(principal), session)
            try:
                kept = await self._vault.find(scope, asked)
                await self._vault.give(scope, [(kind, value) for (kind, _), value in kept.items()])
            except StateError:
                return RestoredArguments(arguments=arguments, denied=_UNREAD)
            values = {TokenMatch(*token): value for token, value in kept.items()}
        if missing := wanted - values.keys():
            return RestoredArguments(arguments=arguments, denied=_unknown(min(missing, key=str)))
        return RestoredArguments(
            arguments={
                name: _put(value, lambda text: tokens.replaced(text, values, signer))
                for name, value in arguments.items()
            },
            sent={name: arguments[name] for name in where},
            values=tuple(
                (name, str(one), values[one]) for name, found in sorted(where.items()) for one in sorted(found, key=str)
            ),
        )

    def received(self, call: Call) -> JsonObject:
        """Return the arguments of a workflow or of code with the tokens of its caller signed. Raises `StateError`."""
        tokens = self._tokens
        if tokens is None:
            return call.arguments
        signer = self._signer(call.principal, call.session)
        if call.tool.binding.takes_code:
            return _mapped(call.arguments, lambda text: tokens.signed_source(text, signer))
        return _mapped(call.arguments, lambda text: tokens.inward(text, signer))

    def handed(self, envelope: Envelope, principal: Principal, session: str) -> Envelope:
        """Return the answer of an inner call for the workflow, code or function that made it: with signed tokens. Raises `StateError`."""
        tokens = self._tokens
        if tokens is None:
            return envelope
        signer, error = self._signer(principal, session), envelope.error

        def change(text: str) -> str:
            return tokens.inward(text, signer)

        if error is not None:
            error = replace(error, message=change(error.message), suggestion=change(error.suggestion))
        content = None if envelope.content is None else changed_texts(envelope.content, change)
        return replace(envelope, data=changed_texts(envelope.data, change), error=error, content=content)

    def _signer(self, principal: Principal, session: str) -> Signer:
        return Signer(self._key(), parties(principal), session)

    def _denied(self, tool: Tool, where: Mapping[str, set[TokenMatch]], principal: Principal) -> Deny | None:
        written = tool.binding.code_argument
        for name, found in sorted(where.items()):
            for one in sorted(found, key=str):
                if name == written:
                    return Deny(
                        rule=_RULE,
                        reason=f"{name}: {one} is in code, where tokens are not replaced",
                        suggestion="use a parameter or a variable, and pass the token as its value",
                    )
                if not may_have(self._grants, principal, tool, name, one.kind):
                    return Deny(
                        rule=_RULE,
                        reason=f"{name}: the policy does not give this tool the value of {one}",
                        suggestion=f"leave it out; to send these characters as they are, write <\\{str(one)[1:]}",
                    )
        return None


def _unknown(token: TokenMatch) -> Deny:
    return Deny(
        rule=_RULE,
        code="validation",
        reason=f"{token} has no value in this session",
        suggestion="use a token from an answer in this session, or repeat the call that returned it",
    )


def _texts(value: Json) -> list[str]:
    found: list[str] = []
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            found.append(one)
        elif isinstance(one, Mapping):
            waiting.extend(one.values())
        elif isinstance(one, list | tuple):
            waiting.extend(one)
    return found


def _mapped(arguments: JsonObject, change: Callable[[str], str]) -> JsonObject:
    return {change(name): changed_texts(value, change) for name, value in arguments.items()}


def _outward(arguments: JsonObject, tokens: Tokens, signer: Signer) -> JsonObject:
    return _mapped(arguments, lambda text: tokens.outward(text, signer))


def _named_plainly(value: Json, tokens: Tokens, signer: Signer) -> Any:
    if isinstance(value, Mapping):
        return {tokens.plain(name, signer): _named_plainly(item, tokens, signer) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_named_plainly(item, tokens, signer) for item in value]
    return value


def _put(value: Json, replaced: Callable[[str], str]) -> Json:
    """Replace values only: a token in the name of a field is never replaced."""
    if isinstance(value, str):
        return replaced(value)
    if isinstance(value, Mapping):
        return {name: _put(item, replaced) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_put(item, replaced) for item in value]
    return value
