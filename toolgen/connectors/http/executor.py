"""HTTP executor: it binds the request, chooses credentials, checks the address, sends once, and reads within limits."""

from __future__ import annotations

import asyncio
import base64
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from toolgen.connectors.executor import Destination, FileSource, LocalApp, Permit
from toolgen.connectors.http.asgi_client import AppDialer
from toolgen.connectors.http.bodies import with_open_files
from toolgen.connectors.http.client import PLACES
from toolgen.connectors.http.connection import ORDINARY
from toolgen.connectors.http.connector import Dialer, EgressRefusal, Resolver, Route, Target, Timeouts, system_resolver
from toolgen.connectors.http.credentials import CredentialSelector, Provision, Security, Signed
from toolgen.connectors.http.downloads import AnswerDownload
from toolgen.connectors.http.message import UndecodableError
from toolgen.connectors.http.oauth.account_tokens import AccountRenewal, unlinked
from toolgen.connectors.http.oauth.bearer_challenge import demand_of
from toolgen.connectors.http.oauth.call_tokens import NoTokenError
from toolgen.connectors.http.parameter_styles import UnbindableError
from toolgen.connectors.http.redirects import MAX_HOPS, moved
from toolgen.connectors.http.reply import BodyListener, BrokenError, ProxyError, RawResponse, TimedOutError, UnsentError
from toolgen.connectors.http.request_builder import HttpRequest, bind, keyed, repeatable, traced
from toolgen.connectors.http.request_template import HttpRequestTemplate, http_request_template
from toolgen.connectors.http.response import (
    MAX_ANSWER_SIZE,
    TELLING,
    HttpResponse,
    decoded_in_turns,
    lifetime,
    result,
    retry_after,
    told,
)
from toolgen.connectors.http.scrubber import Scrubber, scrubber_of
from toolgen.connectors.http.streamed import Pieces
from toolgen.connectors.http.totals import TOTALS, total_in
from toolgen.connectors.rejection import rejection_in
from toolgen.connectors.secrets import SecretResolver
from toolgen.core.clock import Clock, SystemClock
from toolgen.core.error_codes import ErrorCode
from toolgen.core.errors import SecretError, StateError, ToolgenError, distrust_advice
from toolgen.core.json_codec import PART
from toolgen.model.account_need import AuthorizationRequiredError
from toolgen.model.call import Call
from toolgen.model.excerpt import bounded
from toolgen.model.file_arguments import with_files
from toolgen.model.files import OpenFile
from toolgen.model.manifest import SecurityScheme
from toolgen.model.media import is_binary, may_hold_files
from toolgen.model.result import UNTRIED, Delivery, Error, Failed, Shape, Success
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import HttpBinding, HttpBody, Tool
from toolgen.model.unavailable import fault_error
from toolgen.model.verdict import Allow

__all__ = ["HttpExecutor", "Reader", "pieces_of"]

_TIMEOUTS = Timeouts()
Reader = Callable[[HttpResponse, Scrubber, str, Delivery], Success | Failed]
_CLOCK = SystemClock()
_JSON = "application/json"
# Fact about a failure, for the decision about another attempt: no request was sent.
_UNSENT = Delivery(attempts=1, unsent=True)
_NO_RATES: Mapping[str, float] = MappingProxyType({})
_LIFETIMES = frozenset({"vary", "cache-control"})
_MAX_TEMPLATES = 20_000


class _HttpAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """Execution of one call, including redirects and new tokens. `harmless` is True if it may be aborted without an unknown outcome;
    `until` is its deadline (the loop's time).
    """

    call: Call
    binding: HttpBinding
    harmless: bool
    until: float


class HttpExecutor:
    """Executor of the calls of one source.

    `schemes` are the source's security schemes, `auth` its credentials as parsed from toolgen.yaml: a `SecretReference` per scheme, or a
    mapping of them (`username` and `password`, or `token`). `permit` decides about every address, and whether an answer may redirect to
    its own origin. `reader` makes a result of an answer. `listen` makes the listener for the body of a call's answer, if there is one.
    `files` are those that calls send; with `downloads` long files in answers are stored there. `app` is the application of this process
    that is the source, None for any other source.
    """

    def __init__(  # noqa: PLR0913 - everything a source is made of
        self,
        *,
        schemes: Mapping[str, SecurityScheme],
        auth: Mapping[str, object],
        secrets: SecretResolver,
        permit: Permit,
        provision: Provision | None = None,
        resolver: Resolver = system_resolver,
        timeouts: Timeouts = _TIMEOUTS,
        clock: Clock = _CLOCK,
        http2: bool = False,
        key_header: str = "",
        traces: bool = False,
        reader: Reader = result,
        largest: int = MAX_ANSWER_SIZE,
        listen: Callable[[Call, Scrubber], BodyListener | None] | None = None,
        files: FileSource | None = None,
        downloads: bool = False,
        app: LocalApp | None = None,
    ) -> None:
        self._templates: dict[tuple[str, Security], tuple[Tool, HttpRequestTemplate | None]] = {}
        self._files = files
        self._downloads = downloads
        self._largest = largest
        self._listen = listen
        self._reader = reader
        self._key_header = key_header
        self._traces = traces
        self._selector = CredentialSelector(
            schemes=schemes, auth=auth, secrets=secrets, provision=provision, clock=clock
        )
        self._dialer: Dialer | AppDialer
        if app is not None:
            self._dialer = AppDialer(app, timeouts)
        else:
            self._dialer = Dialer(permit=permit, resolver=resolver, timeouts=timeouts, clock=clock, http2=http2)
        self._places = asyncio.Semaphore(PLACES)
        self._clock = clock
        self._permit = permit
        self._total_s = timeouts.total_s
        self._query_names = frozenset(
            one.name for one in schemes.values() if one.type == "apiKey" and one.in_ == "query"
        )

    async def execute(self, call: Call) -> Success | Failed:
        """Execute the call. Never raises for faults of the other system. A request that cannot be bound is Failed with the code
        `validation`.

        Raises `AuthorizationRequiredError` if the person has to link an account, and nothing was sent.
        """
        binding = call.tool.binding
        if not isinstance(binding, HttpBinding):
            raise _unbound(call)
        try:
            if (body := binding.body) is not None and (body.file or body.parts or body.others is not None):
                call = await self._with_files(body, call)
            request = self._templated(binding, call)
        except UnbindableError as error:
            return _failed(error.code, error.message, error.suggestion)
        except StateError as error:
            return Failed(error=fault_error(error, "a file of the call cannot be read, so nothing was sent"))
        harmless = call.tool.idempotent or repeatable(call, self._key_header)
        ends = asyncio.get_running_loop().time() + self._total_s if harmless else math.inf
        course = _HttpAttempt(call=call, binding=binding, harmless=harmless, until=ends)
        for hop in range(MAX_HOPS + 1):
            try:
                outcome = await self._once(request, course)
            except AuthorizationRequiredError as error:
                if not hop:
                    raise
                outcome = unlinked(error)
            further = self._further(request, outcome) if hop < MAX_HOPS and outcome.delivery.location else None
            if further is None:
                break
            request = further
        return outcome if not hop else _redirected(outcome, hop, harmless=harmless)

    async def _with_files(self, body: HttpBody, call: Call) -> Call:
        """Return the call with the files that its arguments name: opened, and a short one with its content. Raises `UnbindableError` for a
        missing one, and `StateError`."""

        async def opened(uri: str) -> bytes | OpenFile:
            found = None if self._files is None else await self._files.open(call.principal, uri)
            if found is None:
                raise UnbindableError(
                    "a file of the arguments is not here (any more)",
                    suggestion="make the call again that answered with it, or upload it again",
                )
            return await found.read() if found.info.size <= ORDINARY else found

        return replace(call, arguments=await with_open_files(body, call.arguments, opened))

    def _templated(self, binding: HttpBinding, call: Call) -> HttpRequest:
        """Return the unsigned request of a call, from the template of its tool if there is one. Raises `UnbindableError`."""
        tool = call.tool
        known = self._templates.get((tool.digest, binding.security))
        if known is None or known[0] is not tool:
            if len(self._templates) >= _MAX_TEMPLATES:
                self._templates.clear()
            known = self._templates[tool.digest, binding.security] = (tool, http_request_template(tool))
        request = None if known[1] is None else known[1].request(call.arguments)
        if request is None:
            return self._request(binding, call)
        if not tool.idempotent or binding.key:
            request = keyed(request, call, self._key_header)
        return traced(request, call) if self._traces else request

    def _request(self, binding: HttpBinding, call: Call) -> HttpRequest:
        """Return the unsigned request of a call. Raises `UnbindableError`."""
        request = keyed(bind(binding, call.arguments, call.tool.input_schema), call, self._key_header)
        return traced(request, call) if self._traces else request

    def _further(self, request: HttpRequest, outcome: Success | Failed) -> HttpRequest | None:
        """Return the request for a redirect, if the policy permits it."""
        status, location = outcome.delivery.status or 0, outcome.delivery.location
        further = moved(request, status, location, self._query_names)
        if further is None:
            return None
        target = Target.of(request.url)  # it was sent, so its URL has a target
        verdict = self._permit(Destination(host=target.host, port=target.port, service="redirect"))
        return further if isinstance(verdict, Allow) else None

    async def _once(
        self, request: HttpRequest, course: _HttpAttempt, *, renewed: bool = False, repeated: bool = False
    ) -> Success | Failed:
        """Send one request to its URL, with the credentials of its operation.

        A token that the server rejects (401: nothing was done) is replaced once, and the request is sent again with the new one. So is one
        whose proof had no nonce of the server, once, with the nonce (`repeated`).
        """
        prepared = await self._prepared(request, course)
        if isinstance(prepared, Failed):
            return prepared
        signed, target, addresses = prepared
        # No reference to the request is kept while its answer is awaited: each attempt takes its own from this list.
        requests, renewal, certificate = [signed.request] * len(addresses), signed.renewal, signed.certificate
        key = signed.key
        scrubber = scrubber_of(signed.secrets)
        listener = None if self._listen is None else self._listen(course.call, scrubber)
        del prepared, signed
        reply = unsent = download = None
        if self._downloads and self._files is not None:
            download = AnswerDownload(call=course.call, files=self._files, scrubber=scrubber)
        try:
            for address in addresses:
                client = self._dialer.client(target, address, len(addresses), certificate)
                try:
                    reply = await client.send(
                        requests.pop(), self._largest, self._places, course.until, listener, download
                    )
                    break
                except UnsentError as error:
                    unsent = error
                except (ValueError, TimedOutError, UndecodableError, BrokenError) as error:
                    return _unanswered(error, target, harmless=course.harmless)
            if reply is None:
                return _unreached(unsent, target)
            if download is not None and download.portions is not None:
                return await self._kept(reply, download)
            value: Json | UnsetType = UNSET
            if len(reply.body) > PART and not reply.truncated:
                value = await decoded_in_turns(reply.headers.get("content-type", ""), reply.body)
            outcome = self._outcome(reply, scrubber, request.method, course.call, value)
        finally:
            if download is not None and download.sink is not None:
                await download.stop()
        if key is not None and key.may_repeat(request.url, reply.status, reply.headers) and not repeated:
            again = await self._once(request, course, renewed=renewed, repeated=True)
            return replace(again, delivery=replace(again.delivery, attempts=2))
        if isinstance(renewal, AccountRenewal) and outcome.delivery.status in {401, 403}:
            await self._step_up(renewal, reply.headers.get("www-authenticate", ""))
        if renewed or renewal is None or outcome.delivery.status != 401 or not renewal.mends():
            return outcome
        again = await self._once(request, course, renewed=True, repeated=repeated)
        return replace(again, delivery=replace(again.delivery, attempts=2))

    async def _step_up(self, renewal: AccountRenewal, challenge: str) -> None:
        """Ask the person for the scopes or the authentication that the system refused a request for (RFC 6750 section 3.1, RFC 9470).
        Raises `AuthorizationRequiredError` if that may help."""
        demand = demand_of(challenge)
        with suppress(StateError, SecretError):  # the refusal of the system is reported instead
            if demand:
                await renewal.widen(demand)

    async def _prepared(
        self, request: HttpRequest, course: _HttpAttempt
    ) -> tuple[Signed, Target, tuple[Route, ...]] | Failed:
        """Return the request with its credentials, and the addresses to send it to, all of them permitted. Raises
        `AuthorizationRequiredError`."""
        binding = course.binding
        selector, principal = self._selector, course.call.principal
        try:
            signed = selector.signed_now(request, binding.security, principal)
            if signed is None:
                signed = await selector.sign(request, binding.security, principal)
            target = Target.of(signed.request.url)
            return signed, target, await self._dialer.addresses(target)
        except StateError as fault:
            return Failed(error=fault_error(fault, "the accounts of people cannot be read, so nothing was sent"))
        except (UnbindableError, SecretError, NoTokenError) as fault:
            return _failed(fault.code, fault.message, fault.suggestion)
        except ValueError:
            return _failed("validation", "the request's URL cannot be sent as it is described", "")
        except EgressRefusal as refusal:
            verdict = refusal.verdict
            error = Error(
                code="egress_refused", message=verdict.reason, suggestion=verdict.suggestion, rule=verdict.rule
            )
            return Failed(error=error)
        except TimeoutError:
            message = f"the name {_host(binding)} was not resolved in time; nothing was sent"
            return _failed("upstream_timeout", message, "try again later", _UNSENT)
        except OSError:
            message = f"the name {_host(binding)} cannot be resolved"
            return _failed("upstream_unavailable", message, "try again later", _UNSENT)

    async def _kept(self, reply: RawResponse, download: AnswerDownload) -> Success | Failed:
        """Return the outcome of a call whose answer is a file that was stored, completely or in part."""
        answer = self._read(reply, html=False)
        delivery = Delivery(attempts=1, status=answer.status, rates=answer.rates or None, lifetime_s=0.0)
        return await download.finish(reply.body, delivery)

    def preview(self, call: Call) -> JsonObject:
        """Return the request that `execute` would send, with `***` for every secret. Resolves no secret and uses no network.

        Raises `UnbindableError` (code `validation`) or `SecretError` where `execute` would return Failed with that code.
        """
        binding = call.tool.binding
        if not isinstance(binding, HttpBinding):
            raise _unbound(call)
        request = self._request(binding, replace(call, arguments=_named_files(binding, call)))
        return _shown(self._selector.mask(request, binding.security, call.principal))

    async def close(self) -> None:
        """Close every connection."""
        await self._selector.close()
        await self._dialer.close()

    def _outcome(
        self, reply: RawResponse, scrubber: Scrubber, method: str, call: Call, value: Json | UnsetType
    ) -> Success | Failed:
        binding = call.tool.binding
        answer = self._read(reply, html=isinstance(binding, HttpBinding) and binding.html is True, value=value)
        delivery = Delivery(
            attempts=1,
            bytes=len(answer.body),
            status=answer.status,
            rates=answer.rates or None,
            link=answer.headers.get("link", ""),
            total=None if TOTALS.isdisjoint(answer.headers) else total_in(answer.headers),
            location=answer.location,
            lifetime_s=answer.lifetime_s,
            files=not answer.content_type.startswith(_JSON) or may_hold_files(answer.body),
        )
        outcome = self._reader(answer, scrubber, method, delivery)
        data = outcome.data
        if (
            not delivery.files
            and isinstance(data, dict)
            and "base64" in data
            and is_binary(answer.body, answer.content_type)
        ):
            outcome = replace(outcome, delivery=replace(delivery, files=True))
        # Searched in C: most answers contain nothing that could be a rejection.
        if isinstance(outcome, Success) and isinstance(outcome.data, dict) and False in outcome.data.values():
            rejection = rejection_in(call.tool, outcome.data)
            if rejection is not None:
                return Failed(error=rejection, data=outcome.data, delivery=delivery, shape=Shape.WHOLE)
        return outcome

    def _read(self, reply: RawResponse, *, html: bool, value: Json | UnsetType = UNSET) -> HttpResponse:
        headers = reply.headers
        wait, now = headers.get("retry-after"), self._clock.now()
        return HttpResponse(
            status=reply.status,
            content_type=headers.get("content-type", ""),
            body=reply.body,
            truncated=reply.truncated,
            largest=self._largest,
            retry_after_s=retry_after(wait, now) if wait else None,
            rates=_NO_RATES if TELLING.isdisjoint(headers) else told(headers, reply.status, now),
            location=headers.get("location", "") if 300 <= reply.status < 400 else "",
            lifetime_s=None if _LIFETIMES.isdisjoint(headers) else lifetime(headers),
            headers=headers,
            html=html,
            value=value,
        )


def pieces_of(call: Call, scrubber: Scrubber) -> Pieces | None:
    """Return the listener that forwards parts of the response to the caller; None if the caller does not listen for them."""
    return None if call.line is None or not call.line.listens else Pieces(call.line, scrubber)


def _named_files(binding: HttpBinding, call: Call) -> JsonObject:
    """Return the arguments with a description in place of each file URI."""

    def named(file: Mapping[str, Json]) -> Mapping[str, Json]:
        if "uri" not in file:
            return file
        text = f"<{file.get('filename') or 'file'}, {file.get('size', '?')} bytes, sha256 {file.get('sha256', '?')}>"
        rest = {key: value for key, value in file.items() if key != "uri"}
        return {**rest, "base64": base64.b64encode(text.encode()).decode()}

    body = binding.body
    if body is None or not (body.file or body.parts or body.others is not None):
        return call.arguments
    return with_files(call.tool.input_schema, call.arguments, named)


def _redirected(outcome: Success | Failed, hops: int, *, harmless: bool) -> Success | Failed:
    """Return the outcome of a redirected call: its first request was sent, even if the last one failed."""
    delivery = replace(outcome.delivery, unsent=False, attempts=hops + 1)
    if isinstance(outcome, Failed) and not harmless and delivery.status is None:
        return _unknown("the redirect that was its answer could not be followed", delivery)
    return replace(outcome, delivery=delivery)


def _unbound(call: Call) -> ToolgenError:
    return ToolgenError(f"the tool {call.tool.name} is not bound to HTTP")


def _host(binding: HttpBinding) -> str:
    return binding.servers[0].partition("://")[2].partition("/")[0] if binding.servers else ""


def _failed(code: ErrorCode, message: str, suggestion: str, delivery: Delivery = UNTRIED) -> Failed:
    return Failed(error=Error(code=code, message=message, suggestion=suggestion), delivery=delivery)


def _unreached(cause: UnsentError | None, target: Target) -> Failed:
    """Return the outcome of a call that was sent to none of its addresses; `cause` is the error of the last one."""
    if isinstance(cause, ProxyError):
        code: ErrorCode = "upstream_timeout" if cause.late else cause.code
        advice = "try again later" if cause.late else "tell the operator of the gateway"
        return _failed(code, f"{bounded(cause.reason, 200)}; nothing was sent", advice, _UNSENT)
    place = f"{target.host}:{target.port}"
    if cause is not None and cause.late:
        message = f"{place} did not accept a connection in time; nothing was sent"
        return _failed("upstream_timeout", message, "try again later", _UNSENT)
    reason = f" ({bounded(cause.reason, 200)})" if cause is not None and cause.reason else ""
    suggestion = "try again later"
    if cause is not None and cause.distrusted:
        suggestion = f"tell the operator of the gateway: {distrust_advice(cause.reason)}"
    return _failed("upstream_unavailable", f"no connection to {place}{reason}; nothing was sent", suggestion, _UNSENT)


def _unanswered(error: Exception, target: Target, *, harmless: bool) -> Failed:
    """Return the outcome of a call that was sent, at least in part, and has no readable answer."""
    place, broken = f"{target.host}:{target.port}", Delivery(attempts=1, broken=True)
    match error:
        case UndecodableError(reason=reason):
            what = f"{place} answered, but the body {reason}"
            delivery = Delivery(attempts=1)
            return _failed("upstream_error", what, "find out what happened before trying again", delivery)
        case TimedOutError():
            what = f"{place} did not answer in time"
            return _failed("upstream_timeout", what, "try again later", broken) if harmless else _unknown(what, broken)
        case BrokenError():
            what = f"the connection to {place} broke before the answer was complete"
            return _failed("upstream_error", what, "try again", broken) if harmless else _unknown(what, broken)
        case _:
            return _failed("validation", "the request holds something HTTP cannot send", "")


def _unknown(what: str, delivery: Delivery) -> Failed:
    return _failed(
        "outcome_unknown",
        f"the request was sent, but {what}; it may or may not have taken effect",
        "find out what happened before trying again",
        delivery,
    )


def _shown(request: HttpRequest) -> JsonObject:
    shown: dict[str, Json] = {
        "method": request.method,
        "url": request.url,
        "headers": [list(pair) for pair in request.headers],
    }
    if request.body is None:
        shown["body"] = None
        return shown
    try:
        shown["body"] = request.body.decode("utf-8")
    except UnicodeDecodeError:
        shown["body"] = None
        shown["body_base64"] = base64.b64encode(request.body).decode()
    return shown
