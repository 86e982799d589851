"""Client of Snowflake's SQL API: statements over HTTPS, signed in with a key pair, with checked addresses and bounded answers.

https://docs.snowflake.com/en/developer-guide/sql-api/reference. A statement is submitted with `async=true`, so that its handle is known
while it runs and it can be cancelled. All requests go to one host; partitions of a result are read from it too.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import math
import re
import time
import uuid
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import httpcore
import httpx
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from msgspec import Struct, field

from toolgen.connectors.http.connector import EgressRefusal
from toolgen.connectors.http.outbound.request import OutboundError, RefusedError
from toolgen.connectors.http.outbound.transport import RoutedTransport
from toolgen.connectors.secrets import Secret
from toolgen.connectors.sql.execution.server_address import Reach
from toolgen.connectors.sql.execution.session_pool import AnswerTooLargeError, DatabaseUnreachableError
from toolgen.core.errors import ConfigError
from toolgen.model.database_url import ServerLocation
from toolgen.model.verdict import Deny

__all__ = [
    "TRANSPORT_ERRORS",
    "ApiAccount",
    "ApiColumn",
    "ApiConnection",
    "ApiStatement",
    "FailedStatementError",
    "api_account",
    "connect",
]

TRANSPORT_ERRORS: Final = (httpx.HTTPError, httpcore.NetworkError, httpcore.ProtocolError, OSError, OutboundError)
"""Errors of a connection that was lost, or of a server that speaks another protocol."""

_DOMAINS: Final = (".snowflakecomputing.com", ".snowflakecomputing.cn")
_PATH: Final = "/api/v2/statements"
_HANDLE: Final = re.compile(r"[0-9A-Za-z-]{1,64}")
_TOKEN_S: Final = 300
_TOKEN_USED_S: Final = 120  # seconds for which a connection sends the same token
_LONGEST_S: Final = 604_800
_SMALL: Final = 1_000_000  # bytes of an answer without rows
_FIRST_POLL_S: Final = 0.05
_SLOWEST_POLL_S: Final = 1.0
_DONE, _RUNNING, _TIMED_OUT, _FAILED = 200, 202, 408, 422
_CANCELLED: Final = frozenset({"000604", "000630"})  # cancelled, and over its time limit
_REFUSED: Final = {
    401: ("Snowflake does not accept the key of this user", "check account, user and private key, and the clock of this machine"),
    403: ("Snowflake does not let this user use the SQL API", "check the network policy and the role of the user"),
    404: ("there is no SQL API at this host", "check the host of its location"),
}  # fmt: skip
_BUSY: Final = frozenset({429, 500, 502, 503, 504})


class FailedStatementError(Exception):
    """Statement that the engine rejected or that failed. The engine's text is not kept, because it may quote data."""

    def __init__(self, code: str, state: str) -> None:
        super().__init__("the statement failed")
        self.code = code
        self.state = state


class ApiAccount(Struct, frozen=True, kw_only=True):
    """Account and context of statements, from the location of a source. `authorities` are certificates to trust besides the system's."""

    url: str
    account: str
    user: str
    database: str
    role: str
    warehouse: str = ""
    authorities: str = ""


class ApiStatement(Struct, frozen=True, kw_only=True):
    """Statement with its bindings and limits. `most` is the maximum number of bytes of one partition."""

    sql: str
    bindings: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    timeout_s: float
    max_rows: int
    most: int = _SMALL


class ApiColumn(Struct, frozen=True, kw_only=True):
    """Column of a result, as the API describes it."""

    name: str
    type: str
    precision: int = 0
    scale: int = 0


def api_account(location: ServerLocation) -> ApiAccount:
    """Return the account of a location. Raises `ConfigError` for one that cannot be reached safely."""
    options, host = location.own_options, location.host
    if not host or location.socket or {"sslcert", "sslkey"} & set(location.certificates):
        raise ConfigError("a Snowflake location has a host, and neither a socket nor a client certificate")
    if "account" not in options and not host.lower().endswith(_DOMAINS):
        raise ConfigError(
            "the host is not one of Snowflake's, so the name of the account is unknown",
            suggestion="write ORGANIZATION-ACCOUNT.snowflakecomputing.com, or add ?account=",
        )
    names = {"role": options.get("role", ""), "warehouse": options.get("warehouse", ""), "database": location.database}
    if not names["role"]:
        raise ConfigError(
            "a Snowflake location needs the role of its statements", suggestion="add ?role= with a role that only reads"
        )
    if any(sign in '"\\' for name in names.values() for sign in name):
        raise ConfigError("a name in the Snowflake location contains a quote or a backslash")
    plain = location.sslmode == "disable"
    if plain and not _is_loopback(host):
        raise ConfigError("sslmode=disable is only for an emulator of Snowflake on this machine")
    shown = f"[{host}]" if ":" in host else host
    return ApiAccount(
        url=f"{'http' if plain else 'https'}://{shown}:{location.port}",
        account=options.get("account", host.partition(".")[0]).upper(),
        user=location.user.upper(),
        authorities=_authorities(location.certificates.get("sslrootcert", "")),
        **names,
    )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _authorities(path: str) -> str:
    if not path:
        return ""
    try:
        return Path(path).read_text(encoding="ascii")
    except (OSError, ValueError):
        raise ConfigError("the certificates of sslrootcert cannot be read", suggestion="check its path") from None


async def connect(location: ServerLocation, reach: Reach, secret: Secret | None) -> ApiConnection:
    """Return a connection, which is dialled at its first request. `secret` is the private key of its user in PEM.

    Raises `DatabaseUnreachableError` for a location or a key that cannot be used, and `EgressRefusal`.
    """
    try:
        account = api_account(location)
    except ConfigError as error:
        raise DatabaseUnreachableError(error.message, error.suggestion) from None
    key = _private_key(secret)
    refusals: list[Deny] = []
    via = reach.via(location, authorities=account.authorities, refusals=refusals)
    try:
        transport = RoutedTransport.of(via, account.url)
    except RefusedError:
        raise EgressRefusal(refusals[-1]) from None
    except OutboundError as error:
        raise DatabaseUnreachableError(str(error)) from None
    client = httpx.AsyncClient(
        transport=transport,
        trust_env=False,
        follow_redirects=False,
        timeout=httpx.Timeout(None, connect=location.connect_timeout_s),
    )
    return ApiConnection(account, key, client, refusals)


def _private_key(secret: Secret | None) -> RSAPrivateKey:
    if secret is None:
        raise DatabaseUnreachableError(
            "the Snowflake source has no private key", "write auth: {password: ${file:…}} with the key of its user"
        )
    try:
        key = load_pem_private_key(secret.reveal().encode(), password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, RSAPrivateKey):
        raise DatabaseUnreachableError(
            "the secret of the Snowflake source is not an RSA private key",
            "store the key in PEM without a passphrase, as its user's RSA_PUBLIC_KEY requires",
        ) from None
    return key


class ApiConnection:
    """Connection to the API for one statement at a time. `running` is the handle of a statement that may still run, or ""."""

    def __init__(
        self, account: ApiAccount, key: RSAPrivateKey, client: httpx.AsyncClient, refusals: Sequence[Deny]
    ) -> None:
        self._account = account
        self._key = key
        self._client = client
        self._refusals = refusals
        self._token = ("", 0.0)  # with the time of its signature
        self.running = ""

    @property
    def account(self) -> ApiAccount:
        """Account of the connection."""
        return self._account

    async def close(self) -> None:
        """Close the connection."""
        await self._client.aclose()

    async def execute(self, statement: ApiStatement) -> tuple[list[ApiColumn], AsyncIterator[Sequence[str | None]]]:
        """Run a statement. Return its columns, and its rows as they are read, one partition after the other.

        Raises `FailedStatementError`, `TimeoutError`, `AnswerTooLargeError`, `DatabaseUnreachableError`, `EgressRefusal` and
        `TRANSPORT_ERRORS`.
        """
        account = self._account
        body: dict[str, object] = {
            "statement": statement.sql,
            "timeout": min(max(math.ceil(statement.timeout_s), 1), _LONGEST_S),
            "database": account.database,
            "role": account.role,
            "bindings": statement.bindings,
            "parameters": {
                "multi_statement_count": 1,
                "rows_per_resultset": statement.max_rows,
                "query_tag": "toolgen",
                "timezone": "UTC",
            },
        }
        if account.warehouse:
            body["warehouse"] = account.warehouse
        path = f"{_PATH}?requestId={uuid.uuid4()}&async=true"
        answer = await self._ask("POST", path, statement.most, json.dumps(body).encode())
        handle = answer.get("statementHandle")
        if not isinstance(handle, str) or not _HANDLE.fullmatch(handle):
            raise httpx.RemoteProtocolError("the answer has no handle of a statement")
        self.running = handle
        wait_s = _FIRST_POLL_S
        while "resultSetMetaData" not in answer:
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _SLOWEST_POLL_S)
            answer = await self._ask("GET", f"{_PATH}/{handle}", statement.most)
        self.running = ""
        columns, partitions = _described(answer)
        return columns, self._rows(handle, answer, partitions, len(columns), statement.most)

    async def ask(self, sql: str, timeout_s: float) -> list[dict[str, str | None]]:
        """Return the rows of a statement of our own, by the names of their columns in lower case."""
        columns, rows = await self.execute(
            ApiStatement(sql=sql, timeout_s=timeout_s, max_rows=100_000, most=50_000_000)
        )
        names = [column.name.lower() for column in columns]
        return [dict(zip(names, row, strict=True)) async for row in rows]

    async def cancel(self) -> bool:
        """Cancel the statement that may still run, over another connection of the same account. Return True if none runs any more."""
        if self.running and await self._status("POST", f"{_PATH}/{self.running}/cancel") == _DONE:
            self.running = ""
        return not self.running

    async def ended(self) -> bool:
        """Return True if the statement of this connection has ended."""
        return not self.running or await self._status("GET", f"{_PATH}/{self.running}") in {_DONE, _TIMED_OUT, _FAILED}

    async def _rows(
        self, handle: str, answer: Mapping[str, Any], partitions: int, width: int, most: int
    ) -> AsyncIterator[Sequence[str | None]]:
        for number in range(partitions):
            if number:
                answer = await self._ask("GET", f"{_PATH}/{handle}?partition={number}", most)
            for row in answer.get("data") or ():
                if not isinstance(row, list) or len(row) != width or not all(_is_cell(cell) for cell in row):
                    raise httpx.RemoteProtocolError("a row of the answer does not match its columns")
                yield row

    async def _ask(self, method: str, path: str, most: int, body: bytes = b"") -> Mapping[str, Any]:
        """Return the answer of a request that succeeded or whose statement still runs."""
        status, content = await self._exchange(method, path, most, body)
        if status in _REFUSED:
            raise DatabaseUnreachableError(*_REFUSED[status])
        if status in _BUSY:
            raise DatabaseUnreachableError(f"Snowflake takes no statement now ({status})", "call again later")
        if status == _TIMED_OUT:
            self.running = ""
            raise TimeoutError
        answer = _object(content)
        if status == _FAILED:
            self.running = ""
            code, state = str(answer.get("code", "")), str(answer.get("sqlState", ""))
            if code in _CANCELLED:
                raise TimeoutError
            raise FailedStatementError(code, state)
        if status not in {_DONE, _RUNNING}:
            raise httpx.RemoteProtocolError(f"the API answered {status}")
        return answer

    def _signed_in(self, now: float) -> str:
        token, signed = self._token
        if not token or not 0 <= now - signed < _TOKEN_USED_S:
            token = _token(self._account, self._key, now)
            self._token = (token, now)
        return token

    async def _status(self, method: str, path: str) -> int:
        try:
            status, _ = await self._exchange(method, path, _SMALL)
        except AnswerTooLargeError:  # of a statement that has ended
            return _DONE
        return status

    async def _exchange(self, method: str, path: str, most: int, body: bytes = b"") -> tuple[int, bytes]:
        request = self._client.build_request(
            method,
            f"{self._account.url}{path}",
            content=body,
            headers={
                "Authorization": f"Bearer {self._signed_in(time.time())}",
                "X-Snowflake-Authorization-Token-Type": "KEYPAIR_JWT",
                "Accept": "application/json",
                "Accept-Encoding": "identity",
                "Content-Type": "application/json",
                "User-Agent": "toolgen/1.0",
            },
        )
        try:
            response = await self._client.send(request, stream=True)
        except RefusedError:
            raise EgressRefusal(self._refusals[-1]) from None
        try:
            return response.status_code, await _bounded(response, most)
        finally:
            await response.aclose()


def _token(account: ApiAccount, key: RSAPrivateKey, now: float) -> str:
    """Return a token of a few minutes, signed with the key of the user.

    https://docs.snowflake.com/en/developer-guide/sql-api/authenticating#using-key-pair-authentication
    """
    import jwt  # noqa: PLC0415 - where there is such a source

    public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    fingerprint = base64.b64encode(hashlib.sha256(public).digest()).decode("ascii")
    name = f"{account.account}.{account.user}"
    claims = {"iss": f"{name}.SHA256:{fingerprint}", "sub": name, "iat": int(now), "exp": int(now) + _TOKEN_S}
    return jwt.encode(claims, key, algorithm="RS256")


async def _bounded(response: httpx.Response, most: int) -> bytes:
    """Return the body, which the server may compress with gzip. Raises `AnswerTooLargeError` for more than `most` bytes of either form."""
    encoding = response.headers.get("content-encoding", "identity").lower()
    if encoding not in {"identity", "gzip"}:
        raise httpx.RemoteProtocolError("the answer has an unknown encoding")
    inflate = zlib.decompressobj(wbits=31) if encoding == "gzip" else None
    parts: list[bytes] = []
    left = most
    async for part in response.aiter_raw():
        try:
            plain = part if inflate is None else inflate.decompress(part, left + 1)
        except zlib.error:
            raise httpx.RemoteProtocolError("the answer is not compressed as it says") from None
        left -= len(plain)
        if left < 0:
            raise AnswerTooLargeError
        parts.append(plain)
    if inflate is not None and not inflate.eof:
        raise httpx.RemoteProtocolError("the compressed answer is incomplete")
    return b"".join(parts)


def _object(content: bytes) -> Mapping[str, Any]:
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise httpx.RemoteProtocolError("the answer is no JSON object")
    return answer


def _described(answer: Mapping[str, Any]) -> tuple[list[ApiColumn], int]:
    """Return the columns of a result and the number of its partitions."""
    described = answer["resultSetMetaData"]
    try:
        columns = [
            ApiColumn(
                name=str(one["name"]),
                type=str(one["type"]).upper(),
                precision=int(one.get("precision") or 0),
                scale=int(one.get("scale") or 0),
            )
            for one in described["rowType"]
        ]
        return columns, max(len(described.get("partitionInfo") or ()), 1)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise httpx.RemoteProtocolError("the description of the result is incomplete") from None


def _is_cell(value: object) -> bool:
    return value is None or isinstance(value, str)
