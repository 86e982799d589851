"""Client of BigQuery's REST interface: one service, one project and one dataset, over connections whose addresses the policy has checked.

https://cloud.google.com/bigquery/docs/reference/rest. Google's own client library is not used: it opens connections by itself, to addresses
that nobody has checked, reads answers of any size, and cannot be stopped inside of a request (docs/how-to/databases/bigquery.md).
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolgen.connectors.cloud_secrets import CloudRequests, google_token, token_of
from toolgen.connectors.executor import Destination, Permit
from toolgen.connectors.failure_settings import Timeouts
from toolgen.connectors.http.connector import Dialer
from toolgen.connectors.http.message import UndecodableError
from toolgen.connectors.http.outbound.request import OutboundError
from toolgen.connectors.http.reply import BrokenError, RawResponse, TimedOutError, UnsentError
from toolgen.connectors.http.request_builder import HttpRequest
from toolgen.connectors.http.target import Target
from toolgen.connectors.resolver import system_resolver
from toolgen.connectors.sql.execution.server_address import Reach
from toolgen.connectors.sql.execution.session_pool import AnswerTooLargeError, DatabaseUnreachableError
from toolgen.core.clock import Clock
from toolgen.core.errors import ConfigError
from toolgen.model.database_url import ServerLocation
from toolgen.model.verdict import Allow, Verdict

__all__ = ["VIEWS", "WRITING", "BigqueryService", "LostAnswerError", "Place", "ServiceError", "place_of", "reason_of"]

WRITING: Final = (
    "bigquery.tables.delete",
    "bigquery.tables.setIamPolicy",
    "bigquery.tables.update",
    "bigquery.tables.updateData",
)
"""Permissions on a table that an account for reading must not have."""

VIEWS: Final = frozenset({"VIEW", "MATERIALIZED_VIEW"})
"""Types of tables that are queries of other tables."""

_SCOPE: Final = "https://www.googleapis.com/auth/bigquery"
_API: Final = "/bigquery/v2"
_MAX_BYTES_BILLED: Final = 1_000_000_000
_SMALL: Final = 1_000_000  # bytes of an answer without rows
_REQUEST_S: Final = 60.0
# Names that Google allows, and that have one meaning in a path and in SQL.
_PROJECT: Final = re.compile(r"[a-z][a-z0-9-]{4,28}[a-z0-9]\Z")
_DATASET: Final = re.compile(r"\w{1,1024}\Z", re.ASCII)
_REGION: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{1,40}\Z")
_REASON: Final = re.compile(r"[A-Za-z]{1,60}\Z")


class ServiceError(Exception):
    """Refusal by the service: the status of its answer, and the reason, a word of its own list of errors. Its texts are not kept."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"{status} {reason}")
        self.status = status
        self.reason = reason


class LostAnswerError(Exception):
    """Request without a complete answer: the service may have carried it out."""


class Place(Struct, frozen=True, kw_only=True):
    """Place of a source: project and dataset, the region of its jobs or "", and the bytes that one statement may be billed for.

    `emulator`: the service is an emulator on this machine. It gets no token, and need not say what a statement reads or what its account
    may do.
    """

    project: str
    dataset: str
    region: str = ""
    most_billed: int = _MAX_BYTES_BILLED
    emulator: bool = False

    @property
    def path(self) -> str:
        return f"{_API}/projects/{self.project}"


def place_of(location: ServerLocation) -> Place:
    """Return the place of a location. Raises `ConfigError`."""
    options = location.own_options
    service = options.get("service", "")
    if service not in {"", "emulator"}:
        raise ConfigError("service of a BigQuery database is not emulator", suggestion="leave it out for Google's own")
    if service and not _is_this_machine(location.host):
        raise ConfigError("service=emulator is for a service at 127.0.0.1 or ::1", suggestion="leave the option out")
    if location.socket or location.sslmode != "prefer" or location.certificates:
        raise ConfigError(
            "socket and the ssl options are not for BigQuery",
            suggestion="leave them out: it is always asked over HTTPS",
        )
    if not _PROJECT.match(location.user) or not _DATASET.match(location.database):
        raise ConfigError(
            "the location has no valid project or dataset",
            suggestion="write bigquery://PROJECT@bigquery.googleapis.com/DATASET",
        )
    region, billed = options.get("region", ""), options.get("maximum_bytes_billed", str(_MAX_BYTES_BILLED))
    if region and not _REGION.match(region):
        raise ConfigError("region of a BigQuery database is not a location such as EU or europe-west1")
    if not (billed.isascii() and billed.isdigit() and len(billed) < 16 and int(billed) > 0):
        raise ConfigError("maximum_bytes_billed of a BigQuery database is not a number of bytes")
    return Place(
        project=location.user,
        dataset=location.database,
        region=region,
        most_billed=int(billed),
        emulator=bool(service),
    )


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _AccessToken(Struct):
    text: str = ""
    until: float = 0.0

    def __repr__(self) -> str:
        return "_AccessToken(***)"


class BigqueryService:
    """Client of the service at a location."""

    def __init__(
        self, location: ServerLocation, reach: Reach, clock: Clock, environment: Mapping[str, str] = os.environ
    ) -> None:
        """Create a client, without a connection. Raises `ConfigError`."""
        self.place = place_of(location)
        host = f"[{location.host}]" if ":" in location.host else location.host
        self._origin = f"{'http' if self.place.emulator else 'https'}://{host}:{location.port}"
        self._target = Target.of(f"{self._origin}/")
        self._reach = reach
        self._clock = clock
        self._outbound = CloudRequests(environment=environment, permit=reach.permit, clock=clock)
        self._token = _AccessToken()
        self._asking = asyncio.Lock()
        self._places = asyncio.Semaphore(location.pool_size)
        timeouts = Timeouts(connect_s=float(location.connect_timeout_s), first_byte_s=_REQUEST_S, total_s=_REQUEST_S)
        self._dialer = Dialer(
            permit=_as_database(reach.permit), resolver=system_resolver, timeouts=timeouts, clock=clock
        )

    async def close(self) -> None:
        """Close every connection."""
        await self._dialer.close()

    async def get(self, path: str, limit: int = _SMALL, **query: str) -> dict[str, Any]:
        """Return the answer to a GET below the project. Raises as `_ask` does."""
        return await self._ask("GET", path, query, None, limit)

    async def post(self, path: str, body: Mapping[str, object] | None = None, **query: str) -> dict[str, Any]:
        """Return the answer to a POST below the project. Raises as `_ask` does."""
        return await self._ask("POST", path, query, msgspec.json.encode(body) if body is not None else b"", _SMALL)

    async def permissions(self, table: str, asked: Sequence[str]) -> frozenset[str]:
        """Return those of the permissions that the account has on a table. Raises as `_ask` does."""
        path = f"datasets/{self.place.dataset}/tables/{quote(table, safe='')}:testIamPermissions"
        found = (await self.post(path, {"permissions": [*asked]})).get("permissions") or []
        if not isinstance(found, list) or not {*found} <= {*asked}:
            raise LostAnswerError
        return frozenset(found)

    async def _ask(
        self, method: str, path: str, query: Mapping[str, str], body: bytes | None, limit: int
    ) -> dict[str, Any]:
        """Return the JSON object of an answer 200.

        Raises `ServiceError`, `LostAnswerError`, `AnswerTooLargeError` for more than `limit` bytes, `DatabaseUnreachableError` if nothing
        was sent, `EgressRefusal` and `SecretError`.
        """
        asked = urlencode({name: value for name, value in query.items() if value}, quote_via=quote)
        url = f"{self._origin}{self.place.path}/{path}{'?' if asked else ''}{asked}"
        for again in (False, True):
            answer = await self._sent(
                HttpRequest(method=method, url=url, headers=await self._headers(body), body=body), limit
            )
            if answer.status == 401 and not again and not self.place.emulator:
                self._token.until = 0.0  # it was revoked, or its key was replaced
                continue
            break
        if answer.truncated:
            raise AnswerTooLargeError
        value = _decoded(answer.body)
        if answer.status != 200:
            raise ServiceError(answer.status, _reason(value))
        if value is None:
            raise LostAnswerError
        return value

    async def _sent(self, request: HttpRequest, limit: int) -> RawResponse:
        try:
            routes = await self._dialer.addresses(self._target)
        except (OSError, TimeoutError) as error:
            raise DatabaseUnreachableError(
                "the name of the service cannot be resolved", "the operator should check its host"
            ) from error
        reason = ""
        for route in routes:
            client = self._dialer.client(self._target, route, len(routes))
            try:
                return await client.send(request, limit, self._places)
            except UnsentError as error:
                reason = error.reason or reason
            except (BrokenError, TimedOutError, UndecodableError) as error:
                raise LostAnswerError from error
        raise DatabaseUnreachableError(
            f"the service cannot be reached{f' ({reason})' if reason else ''}",
            "the operator should check host and egress",
        )

    async def _headers(self, body: bytes | None) -> tuple[tuple[str, str], ...]:
        given: tuple[tuple[str, str], ...] = (("Accept", "application/json"),)
        if body is not None:
            given = (*given, ("Content-Type", "application/json"))
        return given if self.place.emulator else (*given, ("Authorization", f"Bearer {await self._access()}"))

    async def _access(self) -> str:
        """Return a token of the account. The key is read each time one is asked for."""
        async with self._asking:
            if self._clock.monotonic() >= self._token.until:
                key = await self._reach.password()
                try:
                    answer = await google_token(self._outbound, _SCOPE, key.reveal() if key is not None else "")
                    text, lasts = token_of(answer)
                except OutboundError as error:
                    raise DatabaseUnreachableError(
                        f"Google gives no token for the account of the source: {error}",
                        "the operator should check the key of the service account, and egress",
                    ) from None
                self._token = _AccessToken(text, self._clock.monotonic() + lasts)
            return self._token.text


def _as_database(permit: Permit | None) -> Permit:
    """Return the permit for a database: its address is in toolgen.yaml and nowhere else."""

    def asked(destination: Destination) -> Verdict:
        return Allow(rule="operator") if permit is None else permit(replace(destination, service="database"))

    return asked


def _decoded(body: bytes) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    return value if isinstance(value, dict) else None


def _reason(answer: Mapping[str, Any] | None) -> str:
    """Return the reason of an error: `{"error": {"errors": [{"reason": …}]}}`."""
    error = answer.get("error") if answer is not None else None
    listed = error.get("errors") if isinstance(error, dict) else None
    return reason_of(listed[0]) if isinstance(listed, list) and listed else ""


def reason_of(error: object) -> str:
    """Return the reason of an ErrorProto, or "" if it is no word."""
    reason = error.get("reason") if isinstance(error, dict) else None
    return reason if isinstance(reason, str) and _REASON.match(reason) else ""
