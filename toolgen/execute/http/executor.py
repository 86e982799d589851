"""The HTTP executor: bind, choose credentials, check the address, send once, read within limits."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from pyreqwest.client import Client
from pyreqwest.exceptions import (
    BuilderError,
    PoolTimeoutError,
    PyreqwestError,
    RequestTimeoutError,
)
from pyreqwest.request import StreamRequest
from pyreqwest.response import Response

from toolgen.clock import Clock, SystemClock
from toolgen.errors import SecretError, ToolgenError
from toolgen.execute.base import Permit
from toolgen.execute.http.answers import LARGEST_ANSWER, Answer, Scrubber, read, result, retry_after
from toolgen.execute.http.credentials import Credentials, Signed
from toolgen.execute.http.dial import Dialer, Refusal, Resolver, Target, Timeouts, system_resolver
from toolgen.execute.http.rates import told
from toolgen.execute.http.styles import UnbindableError
from toolgen.execute.http.wire import Request, bind
from toolgen.execute.secrets import Secrets
from toolgen.model.call import Call
from toolgen.model.manifest import SecurityScheme
from toolgen.model.result import Error, Failed, Success
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import HttpBinding

__all__ = ["HttpExecutor"]

_HEAD_HEADERS = ("content-type", "content-length", "etag", "last-modified", "accept-ranges", "cache-control", "link")
_TIMEOUTS = Timeouts()
_CLOCK = SystemClock()
# pyreqwest 0.15 calls every failure before the answer's head a ConnectError, also when the request was already on its way; what really
# happened stands in the causes that hyper reports, so only this one of them counts as "nothing was sent".
_CONNECTING = "client error (Connect)"


class _UnsentError(Exception):
    """The connection was not made, so another address may be tried and nothing has happened yet."""

    def __init__(self, cause: PyreqwestError) -> None:
        super().__init__()
        self.cause = cause


class HttpExecutor:
    """Sends the calls of one source.

    `schemes` are the source's security schemes, `auth` its credentials as parsed from toolgen.yaml: a `SecretReference` per scheme, or a
    mapping of them (`username` and `password`, or `token`). `permit` is asked about every address.
    """

    def __init__(
        self,
        *,
        schemes: Mapping[str, SecurityScheme],
        auth: Mapping[str, object],
        secrets: Secrets,
        permit: Permit,
        resolver: Resolver = system_resolver,
        timeouts: Timeouts = _TIMEOUTS,
        clock: Clock = _CLOCK,
    ) -> None:
        self._credentials = Credentials(schemes=schemes, auth=auth, secrets=secrets)
        self._dialer = Dialer(permit=permit, resolver=resolver, timeouts=timeouts, clock=clock)
        self._clock = clock

    async def execute(self, call: Call) -> Success | Failed:
        """Never raises for what the other system does. A request that cannot be bound is Failed with the code `validation`."""
        binding = _binding(call)
        try:
            request = bind(binding, call.arguments)
            signed = self._credentials.sign(request, self._credentials.choose(binding.security))
            target = Target.of(signed.request.url)
            addresses = await self._dialer.addresses(target)
        except (UnbindableError, SecretError) as error:
            return _failed(error.code, error.message, error.suggestion)
        except ValueError:
            return _failed("validation", "the request's URL cannot be sent as it is described", "")
        except Refusal as refusal:
            verdict = refusal.verdict
            return Failed(
                error=Error(
                    code="egress_refused", message=verdict.reason, suggestion=verdict.suggestion, rule=verdict.rule
                )
            )
        except OSError:
            return _failed("upstream_unavailable", f"the name {_host(binding)} cannot be resolved", "try again later")
        return await self._send(signed, target, addresses, idempotent=call.tool.idempotent)

    def preview(self, call: Call) -> JsonObject:
        """What `execute` would send, with `***` for every secret; resolves no secret and touches no network.

        Raises `UnbindableError` (code `validation`) or `SecretError` where `execute` would return Failed with that code.
        """
        binding = _binding(call)
        request = bind(binding, call.arguments)
        return _shown(self._credentials.mask(request, self._credentials.choose(binding.security)))

    async def close(self) -> None:
        """Closes every connection."""
        await self._dialer.close()

    async def _send(
        self, signed: Signed, target: Target, addresses: tuple[str, ...], *, idempotent: bool
    ) -> Success | Failed:
        place = f"{target.host}:{target.port}"
        cause: PyreqwestError | None = None
        for address in addresses:
            async with self._dialer.client(target, address) as client:
                try:
                    return await self._attempt(client, signed, place, idempotent=idempotent)
                except _UnsentError as error:
                    cause = error.cause
        if isinstance(cause, RequestTimeoutError):
            return _failed(
                "upstream_timeout", f"{place} did not accept a connection in time; nothing was sent", "try again later"
            )
        return _failed(
            "upstream_unavailable", f"no connection to {place}{_reason(cause)}; nothing was sent", "try again later"
        )

    async def _attempt(self, client: Client, signed: Signed, place: str, *, idempotent: bool) -> Success | Failed:
        request = signed.request
        facts: dict[str, Json] = {"attempts": 1}
        try:
            sending = _prepared(client, request)
        except ValueError:
            return _failed("validation", "the request holds something HTTP cannot send", "")
        try:
            async with sending as response:
                answer = await self._read(response)
        except PyreqwestError as error:
            if _unsent(error):
                raise _UnsentError(error) from None
            if isinstance(error, RequestTimeoutError):
                if idempotent:
                    return _failed("upstream_timeout", f"{place} did not answer in time", "try again later", facts)
                return _unknown(f"{place} did not answer in time", facts)
            # The library's text holds the URL, and a URL may hold a credential: it is never repeated.
            if idempotent:
                return _failed(
                    "upstream_error",
                    f"the connection to {place} broke before the answer was complete",
                    "try again",
                    facts,
                )
            return _unknown(f"the connection to {place} broke before the answer was complete", facts)
        facts |= {"bytes": len(answer.body), "upstream_status": answer.status}
        if answer.rates:
            facts["upstream_rates"] = answer.rates
        return result(answer, Scrubber(signed.secrets), request.method, facts)

    async def _read(self, response: Response) -> Answer:
        wait = response.get_header("retry-after")
        rates = told(response.get_header, response.status, self._clock.now())
        body, truncated = await read(response.body_reader, LARGEST_ANSWER)
        return Answer(
            status=response.status,
            content_type=response.get_header("content-type") or "",
            body=body,
            truncated=truncated,
            retry_after_s=retry_after(wait, self._clock.now()) if wait else None,
            rates=rates,
            headers={name: value for name in _HEAD_HEADERS if (value := response.get_header(name)) is not None},
        )


def _prepared(client: Client, request: Request) -> StreamRequest:
    builder = client.request(request.method, request.url)
    for name, value in request.headers:
        builder = builder.header(name, value, is_sensitive=True)
    if request.body is not None:
        builder = builder.body_bytes(request.body)
    return builder.build_streamed()


def _binding(call: Call) -> HttpBinding:
    binding = call.tool.binding
    if not isinstance(binding, HttpBinding):
        raise ToolgenError(f"the tool {call.tool.name} is not bound to HTTP")
    return binding


def _host(binding: HttpBinding) -> str:
    return binding.servers[0].partition("://")[2].partition("/")[0] if binding.servers else ""


def _causes(error: PyreqwestError | None) -> list[str]:
    details = getattr(error, "details", None)
    causes = details.get("causes") if isinstance(details, dict) else None
    return [str(cause.get("message", "")) for cause in causes or ()]


def _unsent(error: PyreqwestError) -> bool:
    """Whether it is certain that no byte of the request left; in doubt it did."""
    return isinstance(error, (PoolTimeoutError, BuilderError)) or _CONNECTING in _causes(error)


def _reason(error: PyreqwestError | None) -> str:
    """The innermost cause ("Connection refused"), which unlike the outer ones never holds the URL."""
    text = (_causes(error) or [""])[-1]
    return f" ({text[:200]})" if text and "://" not in text else ""


def _failed(code: str, message: str, suggestion: str, facts: Mapping[str, Json] | None = None) -> Failed:
    return Failed(error=Error(code=code, message=message, suggestion=suggestion), facts=facts or {})


def _unknown(what: str, facts: Mapping[str, Json]) -> Failed:
    return _failed(
        "outcome_unknown",
        f"the request was sent, but {what}; it may or may not have taken effect",
        "find out what happened before trying again",
        facts,
    )


def _shown(request: Request) -> JsonObject:
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
