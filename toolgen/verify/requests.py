"""One HTTP tool proved: its arguments are bound, and what a server reads in the request must be those arguments again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_plus

import msgspec

from toolgen.execute.http.parameter_styles import UnbindableError
from toolgen.execute.http.request_builder import Request, bind, keyed
from toolgen.model.call import Call, Principal
from toolgen.model.http import GATEWAY_HEADERS, MEDIA_TYPE, is_gateway_header, written
from toolgen.model.manifest import SecurityScheme
from toolgen.model.parameter_names import described_override, may_be_one
from toolgen.model.tool import HttpBinding, HttpKey, Tool
from toolgen.verify.bodies import FORM, same_body, same_form
from toolgen.verify.examples import Examples, valid_for
from toolgen.verify.judge import Judge, unable, unable_body
from toolgen.verify.known_differences import GOOGLES, TOKENS
from toolgen.verify.reader import ABSENT, Absent, Undefined, equal, is_json, same_parameter
from toolgen.verify.received import BODY, Received, UnreadableError, receive
from toolgen.verify.refusals import may_be_refused
from toolgen.verify.spec_operation import SERVER, Described
from toolgen.verify.verdicts import Failed, Proven, Unproven, Verdict, shrink

__all__ = ["Proof", "prove_request"]

_SENT_ANYWAY = GATEWAY_HEADERS | {"user-agent"}  # by the gateway, whatever the arguments are
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_UNFIT = re.compile(r"[^A-Za-z0-9_.-]+")
_NAMED_AFTER = 40  # characters; longer names are cut, and end in what tells them apart
_NOTHING = "nothing to read"
_CALL = f"call_{'0a' * 12}"
_NOBODY = Principal(id="verify")


@dataclass(slots=True, kw_only=True)
class _Ledger:
    """What was judged, argument by argument."""

    seen: set[str] = field(default_factory=set)  # was in an example
    read: set[str] = field(default_factory=set)  # read back by our own reader
    core: set[str] = field(default_factory=set)  # read back by openapi-core
    unable: dict[str, str] = field(default_factory=dict)  # why openapi-core could not
    undefined: dict[str, str] = field(default_factory=dict)  # what the specification leaves open
    refused: dict[str, str] = field(default_factory=dict)  # refusal -> an example's text
    examples: int = 0


def prove_request(
    tool: Tool,
    described: Described,
    schemes: Mapping[str, SecurityScheme],
    *,
    examples: int,
    seed: str,
    key_header: str = "",
) -> Verdict:
    """Proves one tool with up to `examples` generated calls. `key_header` is the header of idempotency keys, as toolgen.yaml names it."""
    binding = tool.binding
    if not isinstance(binding, HttpBinding):
        return Unproven(reasons=("the tool is not bound to HTTP",))
    if lost := _unbound(tool, binding, described, schemes) or _no_key(binding, described, key_header):
        return Failed(arguments={}, reason=lost, sent="")
    proof = Proof(tool, msgspec.structs.replace(binding, servers=(SERVER,)), described)
    made = Examples(tool.input_schema, seed=f"{seed}:{tool.name}")
    for arguments in made.take(examples):
        reason = proof.run(arguments)
        if reason is not None:
            return proof.failed(arguments)
    return proof.verdict(made.left_out)


class Proof:
    """One tool under proof."""

    def __init__(self, tool: Tool, binding: HttpBinding, described: Described) -> None:
        self._tool = tool
        self._binding = binding
        self._described = described
        self._judge = Judge(described)
        self._valid = valid_for(tool.input_schema)
        self._ledger = _Ledger()

    def run(self, arguments: Mapping[str, Any]) -> str | None:
        """None, or what is wrong with the request of these arguments."""
        ledger = self._ledger
        try:
            request = self._request(arguments)
        except UnbindableError as error:
            if may_be_refused(self._described, self._sent(arguments)):
                ledger.refused[str(error)] = repr(arguments)[:200]
                return None
            return f"is refused, though it could be sent: {error}"
        try:
            received = receive(request.url, request.headers, request.body, server=SERVER, path=self._described.path)
        except UnreadableError as error:
            return str(error)
        if request.method.upper() != self._described.method.upper():
            return f"is sent with {request.method}, not {self._described.method}"
        ledger.examples += 1
        ledger.seen |= arguments.keys()
        sent = self._sent(arguments)
        return self._read(received, sent, arguments) or self._ask(received, sent)

    def _request(self, arguments: Mapping[str, Any]) -> Request:
        """What would be sent, with the idempotency key that the gateway adds. Raises `UnbindableError`."""
        tool = msgspec.structs.replace(self._tool, binding=self._binding)
        request = bind(self._binding, arguments, self._tool.input_schema)
        return keyed(request, Call(id=_CALL, tool=tool, arguments=arguments, principal=_NOBODY), "")

    def failed(self, arguments: Mapping[str, Any]) -> Failed:
        """The smallest arguments that fail like these."""

        def fails(smaller: Mapping[str, Any]) -> bool:
            return self._valid.is_valid(dict(smaller)) and self.run(smaller) is not None

        smallest = shrink(arguments, fails)
        reason = self.run(smallest) or ""
        try:
            sent = _shown(self._request(smallest))
        except UnbindableError:
            sent = ""
        return Failed(arguments=smallest, reason=reason, sent=sent)

    def verdict(self, left_out: set[str]) -> Verdict:
        ledger = self._ledger
        properties = self._tool.input_schema.get("properties") or {}
        reasons = [f"{name}: {reason}" for name, reason in sorted(ledger.undefined.items())]
        if not ledger.examples:
            why = next(iter(ledger.refused), "no valid arguments could be generated")
            reasons.append(f"no example could be judged: {why}")
        else:
            untried = set(properties) - ledger.seen
            reasons += [f"{name}: no valid value could be generated" for name in sorted(untried)]
        if reasons:
            return Unproven(reasons=tuple(reasons))
        alone = {name: ledger.unable.get(name, _NOTHING) for name in sorted(ledger.seen - ledger.core)}
        return Proven(examples=ledger.examples, openapi_core=tuple(sorted(ledger.core)), reader=alone)

    def _sent(self, arguments: Mapping[str, Any]) -> dict[tuple[str, str], tuple[str, Any]]:
        """(place, wire name) -> (argument, value). A body has the place `BODY`, whole."""
        sent = {
            (one.in_, one.name): (one.argument, arguments.get(one.argument, ABSENT)) for one in self._binding.parameters
        }
        sent |= {(one.parameter.in_, one.parameter.name): ("", one.value) for one in self._binding.constants or ()}
        key = self._binding.key
        if isinstance(key, HttpKey) and (key.required or not self._tool.idempotent):
            sent["header", key.header] = ("", written(self._binding, _CALL))
        body = self._binding.body
        if body is None:
            return sent
        if body.argument is not None:
            value = arguments.get(body.argument, ABSENT)
            absent = value is None and not body.required and not is_json(body.media_type)
            sent[BODY] = (body.argument, ABSENT if absent else value)
        else:
            members = {name: arguments[key] for key, name in body.properties.items() if key in arguments}
            given = ",".join(key for key in body.properties if key in arguments)
            sent[BODY] = (given, members if members or body.required else ABSENT)
        return sent

    def _read(
        self, received: Received, sent: Mapping[tuple[str, str], tuple[str, Any]], arguments: Mapping[str, Any]
    ) -> str | None:
        """What our own reader has against the request."""
        ledger = self._ledger
        spread = False
        for parameter in self._described.parameters:
            argument, value = sent.get((parameter["in"], parameter["name"]), ("", ABSENT))
            if parameter["in"] == "header" and parameter["name"].lower() in _SENT_ANYWAY and isinstance(value, Absent):
                continue
            if media := _whole_form(parameter):
                found: str | Undefined | None = same_form(self._described, media, _query(received), value)
            else:
                found = same_parameter(self._described, parameter, received, value)
            spread = spread or isinstance(value, Mapping)
            if isinstance(found, str):
                return f"{argument or parameter['name']} ({parameter['in']} {parameter['name']!r}) {found}"
            if isinstance(found, Undefined):
                ledger.undefined[argument] = found.reason
            elif not isinstance(value, Absent):
                ledger.read.add(argument)
        if stray := self._stray(received, spread):
            return stray
        argument, body = sent.get(BODY, ("", ABSENT))
        body_arguments = self._binding.body.properties if self._binding.body is not None else {}
        wrong = same_body(self._described, received, body)
        if isinstance(wrong, Undefined):
            members = {name: key for key, name in body_arguments.items()}
            ledger.undefined[members.get(wrong.property, argument or "body")] = wrong.reason
            return None
        return wrong

    def _stray(self, received: Received, spread: bool) -> str | None:
        """What was sent under a name the description does not have. A spread object brings names of its own."""
        for place, pairs in (("query", received.query), ("cookie", received.cookies)):
            known = {one["name"] for one in self._described.parameters if one["in"] == place}
            open_ = spread or any(one["in"] == "querystring" for one in self._described.parameters)
            for name, _ in pairs:
                if name not in known and not open_ and name.partition("[")[0] not in known:
                    return f"the {place} holds {name!r}, which the description does not know"
        return None

    def _ask(self, received: Received, sent: Mapping[tuple[str, str], tuple[str, Any]]) -> str | None:
        """What openapi-core has against the request, where it can judge."""
        ledger = self._ledger
        judged = self._judge.read(received)
        values, complaints = judged.values, judged.complaints
        if judged.broken:
            ledger.unable.update({name: judged.broken for argument, _ in sent.values() for name in argument.split(",")})
            return None
        wants = {(one["in"], one["name"]): one for one in self._described.parameters}
        for where, (argument, value) in sent.items():
            if where == BODY:
                reason = unable_body(self._described, received.content_type, value)
            elif where in wants:
                reason = unable(self._described, wants[where], value)
            else:
                reason = "the description does not declare it"
            names = [name for name in argument.split(",") if name]
            if reason:
                if reason != _NOTHING:
                    ledger.unable.update(dict.fromkeys(names, reason))
                continue
            if where in complaints and "could not be resolved" in complaints[where]:
                # A discriminator's value that names no schema (3.1.1, section 4.8.25.2).
                ledger.unable.update(
                    dict.fromkeys(names, "openapi-core looks for a schema that a discriminator's value does not name")
                )
                continue
            if where in complaints:
                return f"openapi-core refuses {where[0]} {where[1]!r}: {complaints[where]}"
            if where not in values or not equal(values[where], value):
                return f"openapi-core reads {where[0]} {where[1]!r} as {values.get(where, ABSENT)!r}"[:400]
            ledger.core.update(names)
        return None


def _whole_form(parameter: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The Media Type Object of a parameter that is the whole query string as a form."""
    if parameter["in"] != "querystring":
        return None
    kind, media = next(iter(parameter["content"].items()))
    form: Mapping[str, Any] | None = media if kind.partition(";")[0].strip().lower() == FORM else None
    return form


def _query(received: Received) -> bytes:
    return "&".join(f"{quote_plus(name)}={value}" for name, value in received.query).encode("ascii")


def _unbound(
    tool: Tool, binding: HttpBinding, described: Described, schemes: Mapping[str, SecurityScheme]
) -> str | None:
    """An argument that goes nowhere, or something described that no argument reaches."""
    body = binding.body
    bound = {one.argument: one.name for one in binding.parameters}
    if body is not None:
        bound.update({body.argument: ""} if body.argument is not None else body.properties)
    for argument in tool.input_schema.get("properties") or {}:
        if argument not in bound:
            return f"the argument {argument!r} is sent nowhere"
    wires = {one["name"] for one in described.parameters}
    for argument, wire in bound.items():
        if argument.startswith(_UNFIT.sub("_", wire).strip("_.-")[:_NAMED_AFTER]):
            continue
        if argument in wires and wire in wires:
            return f"the argument {argument!r} is sent as {wire!r}, which is another parameter"
    credentials = [(one.in_, one.name) for one in schemes.values() if one.name]
    tokens = any(one.type in {"http", "oauth2", "openIdConnect"} for one in schemes.values())
    places = {(one.in_, one.name) for one in binding.parameters}
    places |= {(one.parameter.in_, one.parameter.name) for one in binding.constants or ()}
    google = {one["name"] for one in described.parameters if one["in"] == "query"} >= {
        "alt",
        "prettyPrint",
        "quotaUser",
    }
    if isinstance(binding.key, HttpKey):
        places.add(("header", binding.key.header))
    for one in described.parameters:
        place, name = one["in"], one["name"]
        if (place, name) in places or any(place == in_ and may_be_one(own, name) for in_, own in credentials):
            continue
        if place == "query" and (described_override(name) or (google and name in GOOGLES)):
            continue
        if (
            tokens
            and name.lower().replace("_", "").replace("-", "") in TOKENS
            and place in {"query", "header", "cookie"}
        ):
            continue
        if place == "path" and f"{{{name}}}" not in described.path:
            continue
        if place in {"header", "cookie"} and (is_gateway_header(name) or not _TOKEN.match(name)):
            continue
        return f"no argument reaches the {place} parameter {name!r}"
    return "no argument reaches the body" if body is None and _takes_body(described) else None


def _no_key(binding: HttpBinding, described: Described, key_header: str) -> str | None:
    """A header that the gateway fills in, and that neither its name, its description nor toolgen.yaml calls an idempotency key."""
    if not isinstance(binding.key, HttpKey):
        return None
    name = binding.key.header
    if key_header.lower() == name.lower():
        return None
    for one in described.written:
        if one.get("in") == "header" and one.get("name") == name:
            said = f"{name} {one.get('description', '')}".lower()
            return (
                None if "idempot" in said else f"the gateway fills in the header {name!r}, which is no idempotency key"
            )
    return f"the gateway fills in the header {name!r}, which the description does not have"


def _takes_body(described: Described) -> bool:
    """Whether a body is described that anybody could send: one that is required, or has a media type that is one, and something in it."""
    if described.body is None:
        return False
    kinds = [
        kind
        for kind, media in described.body["content"].items()
        if not _is_nothing(described.schema(media.get("schema")))
    ]
    return described.body.get("required") is True or any(
        MEDIA_TYPE.match(kind.strip()) or "*" in kind for kind in kinds
    )


def _is_nothing(schema: Any) -> bool:
    """Whether an object has no properties and says so: there is nothing an agent could say."""
    words = {"allOf", "anyOf", "oneOf", "patternProperties"}
    if not isinstance(schema, Mapping) or schema.get("properties") != {} or words & schema.keys():
        return False
    return schema.get("additionalProperties") in (None, False)


def _types(schema: Any) -> tuple[str, ...]:
    written = schema.get("type", ()) if isinstance(schema, Mapping) else ()
    return (written,) if isinstance(written, str) else tuple(written)


def _shown(request: Request) -> str:
    """A request in a line or two, for a person."""
    headers = "; ".join(f"{name}: {value}" for name, value in request.headers if name not in {"Accept", "User-Agent"})
    body = "" if request.body is None else f" body {request.body[:300]!r}"
    return f"{request.method} {request.url[len(SERVER) :]}{' ' + headers if headers else ''}{body}"
