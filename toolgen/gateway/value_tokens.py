"""Tokens in what a caller sends (`<email:1>`): the values of its session in their place, where the policy lets the tool have them.

It happens before the call is made: rules, guards and approvers judge what is sent. The record has digests in the place of the values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from toolgen.errors import PolicyError, StateError
from toolgen.model.call import Call, Principal, parties
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import (
    CodeBinding,
    GraphQLBinding,
    GraphQLDocumentBinding,
    SqlBinding,
    Tool,
    WorkflowBinding,
)
from toolgen.model.verdict import Deny
from toolgen.policy.detectors.tokens import Found, Tokens
from toolgen.policy.value_tokens import TokenGrant, may_have
from toolgen.state.value_vault import Scope, Vault

__all__ = ["NONE", "Restored", "ValueTokens"]

_RULE = "tokens"
_MAX_TOKENS = 1_000  # in one call: each may stand for thousands of characters
_UNREAD = Deny(
    rule=_RULE,
    code="upstream_unavailable",
    reason="what tokens stand for cannot be read now, so nothing was sent",
    suggestion="try again in a moment; if this goes on, tell the operator of the gateway",
    retry_after_s=1.0,
)
_TOO_MANY = Deny(
    rule=_RULE,
    code="validation",
    reason=f"the arguments hold more than {_MAX_TOKENS:,} tokens",
    suggestion="make several calls",
)


class Restored(Struct, frozen=True, kw_only=True):
    """Arguments with values in place of tokens. `values` are as `Call.restored`; `denied` says why there are none."""

    arguments: JsonObject
    values: tuple[tuple[str, str, str], ...] = ()
    denied: Deny | None = None

    def of(self, call: Call) -> Call:
        """The call that was made with these arguments."""
        if not self.values and self.denied is None:
            return call
        return replace(call, restored=(*call.restored, *self.values), denied=call.denied or self.denied)


NONE = Restored(arguments={})
"""Where a project has no tokens."""


class ValueTokens:
    """Under one policy. Raises `PolicyError` for one that gives back values of kinds that have no tokens."""

    def __init__(self, tokens: Tokens | None, grants: tuple[TokenGrant, ...], vault: Vault) -> None:
        self._tokens, self._grants, self._vault = tokens, grants, vault
        for grant in grants:
            if unknown := grant.kinds - (frozenset() if tokens is None else tokens.kinds):
                raise PolicyError(
                    f"tokens: no detector has tokens of the kind '{min(unknown)}'",
                    where=grant.where,
                    suggestion="list it under inspect_results: with then: tokenise",
                )

    async def restored(self, tool: Tool, arguments: JsonObject, principal: Principal, session: str) -> Restored:
        """What a call is made with. Workflows and code get tokens as they are: the calls that they make are judged each by itself."""
        tokens = self._tokens
        if tokens is None or isinstance(tool.binding, WorkflowBinding | CodeBinding):
            return Restored(arguments=arguments)
        where: dict[str, set[Found]] = {}
        resembling, count = False, 0
        for name, value in arguments.items():
            for text in _texts(value):
                if tokens.stand(text):
                    resembling = True
                    if found := tokens.found(text):
                        where.setdefault(name, set()).update(found)
                        count += len(found)
        if not resembling:
            return Restored(arguments=arguments)
        if count > _MAX_TOKENS:
            return Restored(arguments=arguments, denied=_TOO_MANY)
        if denied := self._denied(tool, where, principal):
            return Restored(arguments=arguments, denied=denied)
        wanted = {one for found in where.values() for one in found}
        values: dict[Found, str] = {}
        if wanted and session:
            asked = sorted((one.kind, one.number) for one in wanted)
            try:
                kept = await self._vault.find(Scope(parties(principal), session), asked)
            except StateError:
                return Restored(arguments=arguments, denied=_UNREAD)
            values = {Found(*token): value for token, value in kept.items()}
        if missing := wanted - values.keys():
            return Restored(arguments=arguments, denied=_unknown(min(missing, key=str)))
        return Restored(
            arguments={
                name: _put(value, lambda text: tokens.replaced(text, values)) for name, value in arguments.items()
            },
            values=tuple(
                (name, str(one), values[one]) for name, found in sorted(where.items()) for one in sorted(found, key=str)
            ),
        )

    def _denied(self, tool: Tool, where: Mapping[str, set[Found]], principal: Principal) -> Deny | None:
        written = _written(tool)
        for name, found in sorted(where.items()):
            for one in sorted(found, key=str):
                if name == written:
                    return Deny(
                        rule=_RULE,
                        reason=f"{name}: {one} stands in code, where no value is put",
                        suggestion="use a parameter or a variable, and give the token as its value",
                    )
                if not may_have(self._grants, principal, tool, name, one.kind):
                    return Deny(
                        rule=_RULE,
                        reason=f"{name}: the policy does not give this tool the value that {one} stands for",
                        suggestion=f"leave it out; to send these characters as they are, write <\\{str(one)[1:]}",
                    )
        return None


def _unknown(token: Found) -> Deny:
    return Deny(
        rule=_RULE,
        code="validation",
        reason=f"{token} stands for nothing in this session",
        suggestion="use a token as an answer in this session showed it, or make the call again that showed it",
    )


def _written(tool: Tool) -> str:
    """The argument that holds code of the agent's: a value in it could be read as code."""
    match tool.binding:
        case SqlBinding(operation=operation) if operation != "named":
            return "sql"
        case GraphQLDocumentBinding():
            return "query"
        case GraphQLBinding(fields=fields):
            return fields
        case _:
            return ""


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


def _put(value: Json, replaced: Callable[[str], str]) -> Json:
    """Values alone: a name of a field is never put in place of a token."""
    if isinstance(value, str):
        return replaced(value)
    if isinstance(value, Mapping):
        return {name: _put(item, replaced) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_put(item, replaced) for item in value]
    return value
