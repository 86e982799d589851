"""External decision points that are asked before every call: AuthZEN 1.0, OPA's data API, and Cedar in this process.

Anything except a clear "yes" is a "no": no answer, another form of answer, an error. Answers are cached for some time by the digest of the
question.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from toolgen.connectors.http.outbound.client import ask
from toolgen.connectors.http.outbound.request import OutboundError, OutboundRequest, Via
from toolgen.connectors.secrets import SecretResolver
from toolgen.core.canonical import digest, encodable
from toolgen.core.clock import Clock
from toolgen.core.errors import CanonicalError, SecretError
from toolgen.core.json_codec import encode_json
from toolgen.model.excerpt import bounded
from toolgen.model.middleware import Before, CallView, Middleware, PrincipalView, Refuse
from toolgen.model.secret import SecretReference

__all__ = ["AuthZen", "CedarPoint", "DecisionPointMiddleware", "Opa", "Point"]

_MAX_KEPT = 10_000
_MAX_REASON = 300


class Point(Protocol):
    """External decision point: `question` makes the question about a call, `decided` returns True if it may be made, and a reason or
    "". Raises `OSError`."""

    def question(self, call: CallView) -> Mapping[str, Any]: ...

    async def decided(self, question: Mapping[str, Any]) -> tuple[bool, str]: ...


@dataclass(slots=True, kw_only=True)
class DecisionPointMiddleware(Middleware):
    """Refuses calls that its decision point does not allow. A decision is reused for `cache_s` seconds for an identical question."""

    point: Point
    cache_s: float
    clock: Clock
    _kept: OrderedDict[str, tuple[float, bool, str]] = field(default_factory=OrderedDict)

    async def before(self, call: CallView) -> Before:
        """Decide about a call. Raises `OSError` without a decision, and errors of making the question: the call is refused then."""
        question = self.point.question(call)
        try:
            key = digest(encodable(question))
        except CanonicalError as error:
            raise OSError("there is no digest of the question") from error
        now = self.clock.monotonic()
        kept = self._kept.get(key)
        if kept is not None and kept[0] > now:
            _, allowed, reason = kept
        else:
            allowed, reason = await self.point.decided(question)
            if self.cache_s:
                self._kept.pop(key, None)
                self._kept[key] = (now + self.cache_s, allowed, reason)
                if len(self._kept) > _MAX_KEPT:
                    self._kept.popitem(last=False)
        if allowed:
            return None
        told = f": {reason}" if reason else ""
        return Refuse(message=f"the decision point does not allow this call{told}")


class _Remote(Struct, frozen=True, kw_only=True):
    url: str
    via: Via
    secrets: SecretResolver
    token: SecretReference | None

    async def asked(self, body: Mapping[str, Any]) -> Any:
        """Return the JSON of an answer with status 200. Raises `OSError` for any other, without data that was sent or received."""
        headers = {"content-type": "application/json", "accept": "application/json"}
        try:
            if self.token is not None:
                headers["authorization"] = f"Bearer {(await self.secrets.fetch(self.token)).reveal()}"
            sent = OutboundRequest(method="POST", url=self.url, headers=headers, body=encode_json(body))
            answer = await ask(sent, self.via)
        except SecretError as error:
            raise OSError(error.message) from None
        except OutboundError as error:
            raise OSError(str(error)) from None
        if answer.status != 200:
            raise OSError(f"the answer is {answer.status}, not 200")
        try:
            return json.loads(answer.body, object_pairs_hook=_once)
        except (ValueError, RecursionError):
            raise OSError("the answer is not JSON, or has a member twice") from None


def _once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Raise `ValueError` for a duplicate member: programs differ in which of the two counts (RFC 8259, section 4)."""
    made = dict(members)
    if len(made) != len(members):
        raise ValueError
    return made


def _reason(said: object) -> str:
    return bounded(" ".join(said.split()), _MAX_REASON) if isinstance(said, str) else ""


def _person(principal: PrincipalView | None) -> dict[str, Any] | None:
    if principal is None:
        return None
    return {
        "id": principal.id,
        "roles": sorted(principal.roles),
        "attributes": dict(principal.attributes),
        "on_behalf_of": _person(principal.on_behalf_of),
    }


class AuthZen(_Remote, frozen=True):
    """OpenID AuthZEN Authorization API 1.0, the access evaluation endpoint (section 6)."""

    def question(self, call: CallView) -> Mapping[str, Any]:
        """Subject, action, resource and context of a call."""
        subject = _person(call.principal) or {}
        name = subject.pop("id")
        tool = call.tool
        return {
            "subject": {"type": "principal", "id": name, "properties": subject},
            "action": {"name": "call", "properties": {"effect": tool.effect}},
            "resource": {
                "type": "tool",
                "id": tool.name,
                "properties": {"source": tool.source, "digest": tool.digest, "arguments": dict(call.arguments)},
            },
            "context": {"session": call.session, "labels": list(call.labels)},
        }

    async def decided(self, question: Mapping[str, Any]) -> tuple[bool, str]:
        """Return `decision`, and `reason_user` of the context, "" if it has none. A call without a true `decision` is refused."""
        said = await self.asked(question)
        if not isinstance(said, Mapping) or not isinstance(said.get("decision"), bool):
            raise OSError("the answer has no decision")
        context = said.get("context")
        reason = context.get("reason_user") if isinstance(context, Mapping) else None
        if isinstance(reason, Mapping):
            reason = reason.get("en") or next(iter(reason.values()), "")
        return said["decision"], _reason(reason)


class Opa(_Remote, frozen=True):
    """Open Policy Agent: a document of its data API, which is true or has `allow`, and may have a `reason`."""

    def question(self, call: CallView) -> Mapping[str, Any]:
        """Return the `input` of a call."""
        tool = call.tool
        return {
            "input": {
                "principal": _person(call.principal),
                "tool": {"name": tool.name, "source": tool.source, "effect": tool.effect, "digest": tool.digest},
                "arguments": dict(call.arguments),
                "session": {"id": call.session, "labels": list(call.labels)},
            }
        }

    async def decided(self, question: Mapping[str, Any]) -> tuple[bool, str]:
        """Return the decision. An undefined document has no `result`, and is a no."""
        said = await self.asked(question)
        result = said.get("result", False) if isinstance(said, Mapping) else None
        if isinstance(result, bool):
            return result, ""
        if isinstance(result, Mapping) and isinstance(result.get("allow", False), bool):
            return result.get("allow", False), _reason(result.get("reason"))
        raise OSError("the answer is not a decision")


Authorize = Callable[[dict[str, Any], str, list[Any]], Any]


class CedarPoint(Struct, frozen=True, kw_only=True):
    """Policies in Cedar, judged by `authorize` (cedarpy) in a thread. The files are read again when they change.

    A principal is `Principal::"id"` in the groups `Role::"name"`, a tool `Tool::"name"` in `Source::"name"`; the action is
    `Action::"call:read"`, `"call:write"` or `"call:destructive"`. The context has `arguments`, `session`, `labels` and, where there
    is one, `on_behalf_of`.
    """

    policies: Path
    entities: Path | None
    authorize: Authorize
    run: Callable[[Callable[[], Any]], Awaitable[Any]] = asyncio.to_thread

    def question(self, call: CallView) -> Mapping[str, Any]:
        """Request and entities of a call, with the current content of the files."""
        tool, person = call.tool, call.principal
        context: dict[str, Any] = {
            "arguments": _plain(call.arguments),
            "session": call.session,
            "labels": list(call.labels),
        }
        if person.on_behalf_of is not None:
            context["on_behalf_of"] = {"__entity": {"type": "Principal", "id": person.on_behalf_of.id}}
        entities = [entity for party in _chain(person) for entity in _principal_entities(party)]
        entities += [
            _entity("Tool", tool.name, {"effect": tool.effect, "digest": tool.digest}, [("Source", tool.source)]),
            _entity("Source", tool.source),
            _entity("Action", f"call:{tool.effect}"),
        ]
        return {
            "request": {
                "principal": f"Principal::{json.dumps(person.id)}",
                "action": f"Action::{json.dumps(f'call:{tool.effect}')}",
                "resource": f"Tool::{json.dumps(tool.name)}",
                "context": context,
            },
            "entities": entities,
            "files": [_state(self.policies), _state(self.entities)],
        }

    async def decided(self, question: Mapping[str, Any]) -> tuple[bool, str]:
        """Return the decision: only Cedar's Allow, without an error in any policy, is a yes."""
        policies = self.policies.read_text(encoding="utf-8")
        own: list[Any] = [] if self.entities is None else json.loads(self.entities.read_text(encoding="utf-8"))
        named = {(one["uid"]["type"], one["uid"]["id"]) for one in own}
        entities = [*own, *(one for one in question["entities"] if (one["uid"]["type"], one["uid"]["id"]) not in named)]
        said = await self.run(lambda: self.authorize(dict(question["request"]), policies, entities))
        if said.diagnostics.errors:
            raise OSError("a policy of Cedar cannot be evaluated for this call")
        return said.allowed is True, ""


def _chain(person: PrincipalView | None) -> list[PrincipalView]:
    found: list[PrincipalView] = []
    while person is not None:
        found.append(person)
        person = person.on_behalf_of
    return found


def _principal_entities(person: PrincipalView) -> list[dict[str, Any]]:
    roles = sorted(person.roles)
    return [
        _entity("Principal", person.id, _plain(person.attributes), [("Role", role) for role in roles]),
        *(_entity("Role", role) for role in roles),
    ]


def _entity(
    kind: str, name: str, attributes: Mapping[str, Any] | None = None, parents: list[tuple[str, str]] | None = None
) -> dict[str, Any]:
    return {
        "uid": {"type": kind, "id": name},
        "attrs": dict(attributes or {}),
        "parents": [{"type": above, "id": id_} for above, id_ in parents or []],
    }


def _plain(value: Any) -> Any:
    """Return values in the form of Cedar: without null, and with fractional numbers as text, which it compares as text."""
    match value:
        case Mapping():
            # A member of this name has a meaning in Cedar, which an agent must not control.
            return {
                name: _plain(item) for name, item in value.items() if item is not None and not name.startswith("__")
            }
        case list() | tuple():
            return [_plain(item) for item in value if item is not None]
        case float():
            return str(value)
    return value


def _state(path: Path | None) -> list[int] | None:
    if path is None:
        return None
    found = path.stat()
    return [found.st_mtime_ns, found.st_size, found.st_ino]
