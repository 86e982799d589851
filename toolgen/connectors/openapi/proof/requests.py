"""Proof of one HTTP tool: its arguments are bound to a request, and a server must read the same arguments from that request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote_plus, unquote, unquote_plus

import msgspec
from msgspec import Struct

from toolgen.connectors.http.parameter_styles import UnbindableError
from toolgen.connectors.http.request_builder import HttpRequest, bind, keyed
from toolgen.connectors.openapi.proof.bodies import FORM, media_of, same_body, same_form
from toolgen.connectors.openapi.proof.bound_arguments import no_key, unbound
from toolgen.connectors.openapi.proof.judge import RequestJudge, RequestJudgement, unable, unable_body
from toolgen.connectors.openapi.proof.known_differences import TOKENS
from toolgen.connectors.openapi.proof.reader import ABSENT, Absent, Undefined, equal, is_json, same_parameter, style_of
from toolgen.connectors.openapi.proof.received import BODY, AmbiguousError, Received, UnreadableError, receive
from toolgen.connectors.openapi.proof.refusals import may_be_refused
from toolgen.connectors.openapi.proof.second_judge import accepts, plainly_wrong
from toolgen.connectors.openapi.proof.spec_operation import SERVER, SpecOperation
from toolgen.connectors.proof.examples import Examples, valid_for
from toolgen.connectors.proof.verdicts import FailedTool, ProvenTool, Unproven, Verdict, shrink
from toolgen.model.call import Call, Principal
from toolgen.model.http import GATEWAY_HEADERS
from toolgen.model.idempotency_keys import written
from toolgen.model.manifest import SecurityScheme
from toolgen.model.tool import HttpBinding, HttpKey, Tool

__all__ = ["ToolProof", "prove_request"]

_SENT_ANYWAY = GATEWAY_HEADERS | {"user-agent"}  # set by the gateway, whatever the arguments are
_NOTHING = "nothing to read"
_CALL = f"call_{'0a' * 12}"
_NOBODY = Principal(id="verify")


class _ProofLedger(Struct, kw_only=True):
    """Results of a proof, argument by argument."""

    seen: set[str] = set()  # argument of a request that was judged
    read: set[str] = set()  # parsed by our own reader
    core: set[str] = set()  # parsed by openapi-core
    unable: dict[str, str] = {}  # reason why openapi-core could not judge it
    undefined: dict[str, str] = {}  # reason why the specification does not define how it is sent
    disputed: dict[str, str] = {}  # complaints of only one judge
    refused: dict[str, str] = {}  # refusal -> text of an example
    examples: int = 0


def prove_request(
    tool: Tool,
    described: SpecOperation,
    schemes: Mapping[str, SecurityScheme],
    *,
    examples: int,
    seed: str,
    key_header: str = "",
) -> Verdict:
    """Prove one tool with up to `examples` generated calls. `key_header` is the configured header of idempotency keys."""
    binding = tool.binding
    if not isinstance(binding, HttpBinding):
        return Unproven(reasons=("the tool is not bound to HTTP",))
    if lost := unbound(tool, binding, described, schemes) or no_key(binding, described, key_header):
        return FailedTool(arguments={}, reason=lost, sent="")
    proof = ToolProof(tool, msgspec.structs.replace(binding, servers=(SERVER,)), described)
    made = Examples(tool.input_schema, seed=f"{seed}:{tool.name}")
    for arguments in made.take(examples):
        if proof.run(arguments) is not None:
            return proof.failed(arguments)
    for name in proof.untried():
        for arguments in made.with_argument(name):
            if proof.run(arguments) is not None:
                return proof.failed(arguments)
            if name not in proof.untried():
                break
    return proof.verdict(made.left_out)


class ToolProof:
    """Proof of one tool."""

    def __init__(self, tool: Tool, binding: HttpBinding, described: SpecOperation) -> None:
        self._tool = tool
        self._binding = binding
        self._described = described
        self._judge = RequestJudge(described)
        self._valid = valid_for(tool.input_schema)
        self._ledger = _ProofLedger()
        self._listed = {one["name"]: _listed(described, one) for one in described.parameters if one["in"] == "path"}

    def run(self, arguments: Mapping[str, Any]) -> str | None:
        """Return the fault in the request of these arguments, or None."""
        ledger = self._ledger
        try:
            request = self._request(arguments)
        except UnbindableError as error:
            if may_be_refused(self._described, self._sent(arguments)):
                ledger.refused[str(error)] = repr(arguments)[:200]
                return None
            return f"is refused, though it could be sent: {error}"
        try:
            received = receive(
                request.url,
                request.headers,
                request.body,
                server=SERVER,
                path=self._described.path,
                queried={one["name"] for one in self._described.parameters if one["in"] == "query"},
                listed=self._listed,
            )
        except AmbiguousError as error:
            ledger.refused[str(error)] = repr(arguments)[:200]
            return None
        except UnreadableError as error:
            return str(error)
        if request.method.upper() != self._described.method.upper():
            return f"is sent with {request.method}, not {self._described.method}"
        ledger.examples += 1
        ledger.seen |= arguments.keys()
        sent = self._sent(arguments)
        judged = self._judge.read(received)
        for where, complaint in self._read(received, sent):
            if where is None or self._agreed(where, sent.get(where, ("", ABSENT)), complaint, judged, received):
                return complaint
        return self._ask(judged, received, sent)

    def _request(self, arguments: Mapping[str, Any]) -> HttpRequest:
        """Build the request that would be sent, with the idempotency key that the gateway adds. Raises `UnbindableError`."""
        tool = msgspec.structs.replace(self._tool, binding=self._binding)
        request = bind(self._binding, arguments, self._tool.input_schema)
        return keyed(request, Call(id=_CALL, tool=tool, arguments=arguments, principal=_NOBODY), "")

    def failed(self, arguments: Mapping[str, Any]) -> FailedTool:
        """Return the smallest arguments that fail in the same way."""

        def fails(smaller: Mapping[str, Any]) -> bool:
            return self._valid.is_valid(dict(smaller)) and self.run(smaller) is not None

        smallest = shrink(arguments, fails)
        reason = self.run(smallest) or ""
        try:
            sent = _shown(self._request(smallest))
        except UnbindableError:
            sent = ""
        return FailedTool(arguments=smallest, reason=reason, sent=sent)

    def untried(self) -> list[str]:
        """Return the arguments without a judged request. An example with all of them may be refused because of one."""
        return sorted(set(self._tool.input_schema.get("properties") or ()) - self._ledger.seen)

    def verdict(self, left_out: set[str]) -> Verdict:
        ledger = self._ledger
        reasons = [f"{name}: {reason}" for name, reason in sorted({**ledger.undefined, **ledger.disputed}.items())]
        if not ledger.examples:
            why = next(iter(ledger.refused), "no valid arguments could be generated")
            reasons.append(f"no example could be judged: {why}")
        else:
            reasons += [f"{name}: no valid value could be generated" for name in self.untried()]
        if reasons:
            return Unproven(reasons=tuple(reasons))
        alone = {name: ledger.unable.get(name, _NOTHING) for name in sorted(ledger.seen - ledger.core)}
        return ProvenTool(examples=ledger.examples, openapi_core=tuple(sorted(ledger.core)), reader=alone)

    def _sent(self, arguments: Mapping[str, Any]) -> dict[tuple[str, str], tuple[str, Any]]:
        """Return (place, wire name) -> (argument, value). A complete body has the place `BODY`."""
        sent = {
            (one.in_, one.name): (one.argument, _decoded(value) if one.allow_reserved else value)
            for one in self._binding.parameters
            for value in (arguments.get(one.argument, ABSENT),)
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
        self, received: Received, sent: Mapping[tuple[str, str], tuple[str, Any]]
    ) -> Iterator[tuple[tuple[str, str] | None, str]]:
        """Yield each complaint of our own reader about the request with its place; the place is None for a name that is not described."""
        ledger = self._ledger
        spread = False
        for parameter in self._described.parameters:
            where = (parameter["in"], parameter["name"])
            argument, value = sent.get(where, ("", ABSENT))
            if parameter["in"] == "header" and parameter["name"].lower() in _SENT_ANYWAY and isinstance(value, Absent):
                continue
            if media := _form_in(parameter):
                found: str | Undefined | None = same_form(self._described, media, _written(parameter, received), value)
            else:
                found = same_parameter(self._described, parameter, received, value)
            spread = spread or isinstance(value, Mapping)
            if isinstance(found, str):
                yield where, f"{argument or parameter['name']} ({parameter['in']} {parameter['name']!r}) {found}"
            elif isinstance(found, Undefined):
                ledger.undefined[argument] = found.reason
            elif not isinstance(value, Absent):
                ledger.read.add(argument)
        if stray := self._stray(received, spread):
            yield None, stray
        argument, body = sent.get(BODY, ("", ABSENT))
        body_arguments = self._binding.body.properties if self._binding.body is not None else {}
        wrong = same_body(self._described, received, body)
        if isinstance(wrong, Undefined):
            members = {name: key for key, name in body_arguments.items()}
            ledger.undefined[members.get(wrong.property, argument or "body")] = wrong.reason
        elif wrong:
            yield BODY, wrong

    def _agreed(
        self,
        where: tuple[str, str],
        given: tuple[str, Any],
        complaint: str,
        judged: RequestJudgement,
        received: Received,
    ) -> bool:
        """Return True if another judge confirms a complaint of our own reader: openapi-core if it can read the place, else the judge that
        searches the place for the texts of the value."""
        argument, value = given
        why = judged.broken or self._unable(where, received, value)
        if not why and (where in judged.complaints or not equal(judged.values.get(where, ABSENT), value)):
            return True
        if why and plainly_wrong(self._described, received, where, value):
            return True
        self._ledger.disputed[argument or "/".join(where).strip("/")] = (
            f"{complaint}, but {why or 'openapi-core reads the given value'}"
        )
        return False

    def _unable(self, where: tuple[str, str], received: Received, value: Any) -> str:
        """Return the reason why openapi-core cannot judge the value sent in one place, or ""."""
        if where == BODY:
            return unable_body(self._described, received.content_type, value)
        for one in self._described.parameters:
            if (one["in"], one["name"]) == where:
                return unable(self._described, one, value)
        return "the description does not declare it"

    def _stray(self, received: Received, spread: bool) -> str | None:
        """Return the complaint about a name that was sent and is not in the description. A spread object brings names of its own."""
        for place, pairs in (("query", received.query), ("cookie", received.cookies)):
            known = {one["name"] for one in self._described.parameters if one["in"] == place}
            open_ = spread or any(one["in"] == "querystring" for one in self._described.parameters)
            for name, _ in pairs:
                if name not in known and not open_ and name.partition("[")[0] not in known:
                    return f"the {place} holds {name!r}, which the description does not know"
        return None

    def _ask(
        self, judged: RequestJudgement, received: Received, sent: Mapping[tuple[str, str], tuple[str, Any]]
    ) -> str | None:
        """Return the complaint of openapi-core about the request, if openapi-core can judge the place and another judge agrees."""
        ledger = self._ledger
        if judged.broken:
            ledger.unable.update({name: judged.broken for argument, _ in sent.values() for name in argument.split(",")})
            return None
        for where, (argument, value) in sent.items():
            names = [name for name in argument.split(",") if name]
            complaint = judged.complaints.get(where, "")
            reason = self._unable(where, received, value)
            if not reason and "could not be resolved" in complaint:
                # Value of a discriminator that names no schema (3.1.1, section 4.8.25.2).
                reason = "openapi-core looks for a schema that a discriminator's value does not name"
            if not reason and complaint and where == BODY and isinstance(value, Mapping):
                schema = self._schema(where, received)
                filled = dict.fromkeys(TOKENS & (self._named(schema) - value.keys()), "token")
                if filled and self._binding.security and accepts(self._described, schema, {**value, **filled}):
                    reason = "the description requires in the body the token that the gateway sends in a header"
            if reason:
                if reason != _NOTHING:
                    ledger.unable.update(dict.fromkeys(names, reason))
                continue
            read = judged.values.get(where, ABSENT)
            if complaint and accepts(self._described, self._schema(where, received), value) is False:
                return f"openapi-core refuses {where[0]} {where[1]!r}: {complaint}"
            if complaint or not equal(read, value):
                what = f"refuses it: {complaint}" if complaint else f"reads {read!r}"
                ledger.disputed[argument] = (
                    f"openapi-core {what[:300]}, but the reader written from the specification reads the given value"
                )
                continue
            ledger.core.update(names)
        return None

    def _named(self, schema: Any) -> set[str]:
        return {*(self._described.schema(schema).get("properties") or ())}

    def _schema(self, where: tuple[str, str], received: Received) -> Any:
        """Return the schema of a place of the request in the operation's document."""
        if where == BODY:
            return (media_of(self._described, received.content_type) or {}).get("schema", {})
        one = next(one for one in self._described.parameters if (one["in"], one["name"]) == where)
        content = one.get("content")
        return next(iter(content.values())).get("schema", {}) if content else one.get("schema", {})


def _listed(described: SpecOperation, parameter: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the permitted texts of a path variable if its schema lists them."""
    schema = described.schema(parameter.get("schema"))
    values = schema.get("enum") if isinstance(schema, Mapping) and style_of(parameter)[0] == "simple" else None
    return tuple(values) if isinstance(values, list) and all(isinstance(one, str) for one in values) else ()


def _decoded(value: Any) -> Any:
    """Return a value decoded as `allowReserved` requires: percent-encoded characters in it stay as they are (RFC 6570, section 3.2.3)."""
    if isinstance(value, str):
        return unquote(value)
    if isinstance(value, Mapping):
        return {unquote(name): _decoded(item) for name, item in value.items()}
    return [_decoded(item) for item in value] if isinstance(value, list) else value


def _form_in(parameter: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the Media Type Object of a query parameter that is a form, or of a complete query string that is one."""
    if parameter["in"] not in {"query", "querystring"} or not parameter.get("content"):
        return None
    kind, media = next(iter(parameter["content"].items()))
    form: Mapping[str, Any] | None = media if kind.partition(";")[0].strip().lower() == FORM else None
    return form


def _written(parameter: Mapping[str, Any], received: Received) -> bytes:
    if parameter["in"] == "querystring":
        return "&".join(f"{quote_plus(name)}={value}" for name, value in received.query).encode("ascii")
    return "&".join(unquote_plus(value) for name, value in received.query if name == parameter["name"]).encode()


def _shown(request: HttpRequest) -> str:
    """Return a request as short text for a person."""
    headers = "; ".join(f"{name}: {value}" for name, value in request.headers if name not in {"Accept", "User-Agent"})
    body = "" if request.body is None else f" body {request.body[:300]!r}"
    return f"{request.method} {request.url[len(SERVER) :]}{' ' + headers if headers else ''}{body}"
