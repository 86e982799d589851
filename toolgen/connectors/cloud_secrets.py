"""Secrets of cloud providers over their HTTP interfaces: AWS Secrets Manager, Google Secret Manager and Azure Key Vault.

Each is configured as the provider's own tools are, by variables of the environment. What was read is remembered for five minutes.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections import OrderedDict
from collections.abc import Mapping
from typing import Protocol
from urllib.parse import quote, urlencode, urlsplit

from msgspec import Struct

from toolgen.connectors.executor import Destination, Permit
from toolgen.connectors.http.outbound.client import ask
from toolgen.connectors.http.outbound.request import OutboundError, OutboundRequest, OutboundResponse, Via
from toolgen.core.clock import Clock
from toolgen.core.errors import SecretError
from toolgen.core.files import read_file
from toolgen.model.secret import Unprinted

__all__ = ["CLOUDS", "CloudRequests", "CloudSecrets", "aws_key", "aws_request", "google_token", "token_of"]

CLOUDS = frozenset({"aws", "gcp", "azure"})
_TTL_S = 300.0
_FAILED_S = 5.0
_EARLY_S = 60.0  # before the end of a token, when another one is asked for
_MAX_SECRETS = 1024
_MAX_FILE_SIZE = 65_536
_TITLES = {"aws": "AWS Secrets Manager", "gcp": "Google Secret Manager", "azure": "Azure Key Vault"}
_GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class _CloudSecret(Unprinted, frozen=True):
    """Text of a secret, or a sentence about why there is none, for a time."""

    text: str
    fault: str
    until: float


class _CloudToken(Unprinted, frozen=True):
    """Access token of the gateway at a provider, for a time."""

    text: str
    until: float


class CloudSecrets:
    """Secrets of the providers that references name. Concurrent readers of one secret share a request."""

    def __init__(self, environment: Mapping[str, str], *, permit: Permit | None, clock: Clock) -> None:
        self._outbound = CloudRequests(environment=environment, permit=permit, clock=clock)
        self._environment, self._clock = environment, clock
        self._known: OrderedDict[tuple[str, str], _CloudSecret] = OrderedDict()
        self._reading: dict[tuple[str, str], asyncio.Task[_CloudSecret]] = {}
        self._tokens: dict[str, _CloudToken] = {}

    def __repr__(self) -> str:
        return "CloudSecrets(***)"

    def known(self, provider: str, locator: str) -> str | None:
        """Return the remembered value of a reference; None if there is none. Raises `SecretError` if reading it failed a moment ago."""
        name, _, key = locator.partition("#")
        found = self._known.get((provider, name))
        if found is None or found.until <= self._clock.monotonic():
            return None
        return _member(found, provider, name, key)

    async def read(self, provider: str, locator: str) -> str:
        """Return the value of a reference. Raises `SecretError`."""
        name, _, key = locator.partition("#")
        task = self._reading.get((provider, name))
        if task is None:
            task = self._reading[provider, name] = asyncio.create_task(self._read(provider, name))
            task.add_done_callback(lambda _: self._reading.pop((provider, name), None))
        return _member(await asyncio.shield(task), provider, name, key)

    async def _read(self, provider: str, name: str) -> _CloudSecret:
        try:
            match provider:
                case "aws":
                    text = await self._aws(name)
                case "gcp":
                    text = await self._google(name)
                case _:
                    text = await self._azure(name)
            found = _CloudSecret(text, "", self._clock.monotonic() + _TTL_S)
        except OutboundError as error:
            found = _CloudSecret("", str(error), self._clock.monotonic() + _FAILED_S)
        self._known[provider, name] = found
        self._known.move_to_end((provider, name))
        if len(self._known) > _MAX_SECRETS:
            self._known.popitem(last=False)
        return found

    async def _aws(self, name: str) -> str:
        answer = await aws_request(
            self._outbound, "secretsmanager", "secretsmanager.GetSecretValue", {"SecretId": name}
        )
        text = answer.get("SecretString")
        return text if isinstance(text, str) else _decoded(answer.get("SecretBinary"))

    async def _google(self, name: str) -> str:
        project, _, rest = name.partition("/")
        secret, _, version = rest.partition("@")
        base = self._environment.get("CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER", "").rstrip("/")
        path = f"projects/{quote(project, safe='')}/secrets/{quote(secret, safe='')}/versions/{quote(version or 'latest', safe='')}"
        url = f"{base or 'https://secretmanager.googleapis.com'}/v1/{path}:access"
        token = await self._token("gcp", "", self._google_token)
        answer = await self._outbound.json("GET", url, {"Authorization": f"Bearer {token}"})
        payload = answer.get("payload")
        return _decoded(payload.get("data") if isinstance(payload, Mapping) else None)

    async def _google_token(self, _: str) -> Mapping[str, object]:
        return await google_token(self._outbound, _GOOGLE_SCOPE)

    async def _azure(self, name: str) -> str:
        vault, _, rest = name.partition("/")
        secret, _, version = rest.partition("@")
        base = self._environment.get("TOOLGEN_AZURE_VAULT_URL", "") or "https://{vault}.vault.azure.net"
        base = base.replace("{vault}", vault).rstrip("/")
        host = urlsplit(base).hostname or ""
        scope = f"https://{host.partition('.')[2] or host}/.default"
        token = await self._token("azure", scope, self._azure_token)
        path = "/".join(["secrets", quote(secret, safe=""), *([quote(version, safe="")] if version else [])])
        answer = await self._outbound.json(
            "GET", f"{base}/{path}?api-version=7.4", {"Authorization": f"Bearer {token}"}
        )
        text = answer.get("value")
        return text if isinstance(text, str) else ""

    async def _azure_token(self, scope: str) -> Mapping[str, object]:
        """Ask for a token: with a client secret, or the token of a workload (AZURE_FEDERATED_TOKEN_FILE)."""
        tenant, client = self._outbound.given("AZURE_TENANT_ID"), self._outbound.given("AZURE_CLIENT_ID")
        host = (self._environment.get("AZURE_AUTHORITY_HOST", "") or "https://login.microsoftonline.com").rstrip("/")
        form = {"grant_type": "client_credentials", "client_id": client, "scope": scope}
        if file := self._environment.get("AZURE_FEDERATED_TOKEN_FILE", ""):
            form |= {
                "client_assertion_type": _ASSERTION,
                "client_assertion": self._outbound.file(file, "AZURE_FEDERATED_TOKEN_FILE"),
            }
        else:
            form["client_secret"] = self._outbound.given("AZURE_CLIENT_SECRET")
        return await self._outbound.json("POST", f"{host}/{quote(tenant, safe='')}/oauth2/v2.0/token", {}, form)

    async def _token(self, provider: str, scope: str, fetch: _FetchToken) -> str:
        known = self._tokens.get(f"{provider} {scope}")
        if known is not None and self._clock.monotonic() < known.until:
            return known.text
        text, lasts = token_of(await fetch(scope))
        self._tokens[f"{provider} {scope}"] = _CloudToken(text, self._clock.monotonic() + lasts)
        return text


class _FetchToken(Protocol):
    """Function that asks for a token for a scope."""

    async def __call__(self, scope: str, /) -> Mapping[str, object]: ...


class CloudRequests(Struct, frozen=True, kw_only=True):
    """Requests to providers. Each address is put to the egress rules of the policy."""

    environment: Mapping[str, str]
    permit: Permit | None
    clock: Clock

    def __repr__(self) -> str:
        return "CloudRequests(***)"

    def given(self, name: str) -> str:
        """Return a variable. Raises `OutboundError`."""
        if value := self.environment.get(name, ""):
            return value
        raise OutboundError(f"{name} is not set")

    def file(self, path: str, name: str) -> str:
        """Return the text of the file that a variable names. Raises `OutboundError`."""
        try:
            return read_file(path, _MAX_FILE_SIZE).decode("utf-8").strip()
        except (OSError, ValueError):
            raise OutboundError(f"the file that {name} names cannot be read") from None

    async def json(
        self, method: str, url: str, headers: Mapping[str, str], form: Mapping[str, str] | None = None
    ) -> Mapping[str, object]:
        """Return the JSON object of an answer 200. Raises `OutboundError`, without anything that the provider wrote."""
        given = {"Accept": "application/json", **headers}
        body = b""
        if form is not None:
            given["Content-Type"] = "application/x-www-form-urlencoded"
            body = urlencode(form).encode()
        return await self.answer(OutboundRequest(method=method, url=url, headers=given, body=body))

    async def answer(self, request: OutboundRequest) -> Mapping[str, object]:
        """Return the JSON object of an answer 200. Raises `OutboundError`."""
        if urlsplit(request.url).scheme not in {"http", "https"}:
            raise OutboundError("its address is no URL")
        via = Via(permit=self.permit, destination=Destination(host="", port=0, service="keys"))
        return _object(await ask(request, via))


async def aws_request(
    outbound: CloudRequests, service: str, target: str, members: Mapping[str, object]
) -> Mapping[str, object]:
    """Send a request of AWS's JSON protocol, signed with the credentials of the environment. Raises `OutboundError`."""
    from toolgen.connectors.http.request_builder import HttpRequest  # noqa: PLC0415 - where a reference names AWS
    from toolgen.connectors.http.sigv4 import AwsKey, sign_aws  # noqa: PLC0415

    environment = outbound.environment
    region = environment.get("AWS_REGION", "") or outbound.given("AWS_DEFAULT_REGION")
    variable = f"AWS_ENDPOINT_URL_{'SECRETS_MANAGER' if service == 'secretsmanager' else service.upper()}"
    given = environment.get(variable, "") or environment.get("AWS_ENDPOINT_URL", "")
    key = await aws_key(outbound)
    headers = (("Content-Type", "application/x-amz-json-1.1"), ("X-Amz-Target", target))
    url = f"{given.rstrip('/') or f'https://{service}.{region}.amazonaws.com'}/"
    request = HttpRequest(method="POST", url=url, headers=headers, body=json.dumps(members).encode())
    signing = AwsKey(
        access_key_id=key[0], secret_access_key=key[1], session_token=key[2], region=region, service=service
    )
    signed = sign_aws(request, signing, outbound.clock.now())
    return await outbound.answer(
        OutboundRequest(method="POST", url=url, headers=dict(signed.headers), body=signed.body or b"")
    )


async def aws_key(outbound: CloudRequests) -> tuple[str, str, str]:
    """Return an access key: that of the environment, or the one of the container (ECS, EKS Pod Identity). Raises `OutboundError`."""
    environment = outbound.environment
    url = environment.get("AWS_CONTAINER_CREDENTIALS_FULL_URI", "")
    if not url or environment.get("AWS_ACCESS_KEY_ID", ""):
        secret = outbound.given("AWS_SECRET_ACCESS_KEY")
        return outbound.given("AWS_ACCESS_KEY_ID"), secret, environment.get("AWS_SESSION_TOKEN", "")
    headers = {}
    if file := environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", ""):
        headers["Authorization"] = outbound.file(file, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
    answer = await outbound.json("GET", url, headers)
    found = tuple(answer.get(name) for name in ("AccessKeyId", "SecretAccessKey", "Token"))
    if not all(isinstance(one, str) and one.isascii() and one.isprintable() for one in found):
        raise OutboundError("the container has no credentials")
    return str(found[0]), str(found[1]), str(found[2])


async def google_token(outbound: CloudRequests, scope: str, key: str = "") -> Mapping[str, object]:
    """Ask Google for a token: with this key of a service account, that of the environment, or at the metadata server of the machine, whose
    tokens have the scopes of the machine.

    Raises `OutboundError`.
    """
    file = "" if key else outbound.environment.get("GOOGLE_APPLICATION_CREDENTIALS", "")
    if key or file:
        account = _json(key or outbound.file(file, "GOOGLE_APPLICATION_CREDENTIALS"))
        url = str(account.get("token_uri") or "https://oauth2.googleapis.com/token")
        assertion = _google_assertion(account, url, scope, outbound.clock.now())
        return await outbound.json("POST", url, {}, {"grant_type": _JWT_BEARER, "assertion": assertion})
    host = outbound.environment.get("GCE_METADATA_HOST", "") or "metadata.google.internal"
    url = f"http://{host}/computeMetadata/v1/instance/service-accounts/default/token"
    return await outbound.json("GET", url, {"Metadata-Flavor": "Google"})


def token_of(answer: Mapping[str, object]) -> tuple[str, float]:
    """Return the token of an answer, and the seconds until another one is asked for. Raises `OutboundError`."""
    text, seconds = answer.get("access_token"), answer.get("expires_in")
    if not isinstance(text, str) or not text or not text.isascii() or not text.isprintable():
        raise OutboundError("the answer for a token has none")
    lasts = float(seconds) if isinstance(seconds, int | float) and not isinstance(seconds, bool) else 0.0
    return text, max(0.0, lasts - _EARLY_S)


def _google_assertion(account: Mapping[str, object], audience: str, scope: str, now: float) -> str:
    """Return the signed statement that a service account asks for a token with (RFC 7523)."""
    import jwt  # noqa: PLC0415 - where a reference names Google

    issuer, key = account.get("client_email"), account.get("private_key")
    if not isinstance(issuer, str) or not isinstance(key, str):
        raise OutboundError("what should be the key of a service account is none")
    claims = {"iss": issuer, "scope": scope, "aud": audience, "iat": int(now), "exp": int(now) + 3600}
    try:
        return jwt.encode(claims, key, algorithm="RS256")
    except (ValueError, TypeError, jwt.PyJWTError):
        raise OutboundError("the key of the service account cannot be used") from None


def _object(reply: OutboundResponse) -> Mapping[str, object]:
    if reply.status != 200:
        why = {
            401: "it does not know this gateway",
            403: "this gateway may not read it",
            404: "there is no such secret",
        }
        raise OutboundError(why.get(reply.status, f"it answered {reply.status}"))
    return _json(reply.body)


def _json(text: str | bytes) -> Mapping[str, object]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise OutboundError("what it answered is no JSON object")
    return value


def _decoded(value: object) -> str:
    try:
        return base64.b64decode(value, validate=True).decode("utf-8") if isinstance(value, str) else ""
    except (binascii.Error, ValueError):
        return ""


def _member(found: _CloudSecret, provider: str, name: str, key: str) -> str:
    reference = f"${{{provider}:{name}{f'#{key}' if key else ''}}}"
    if found.fault:
        raise SecretError(
            f"{reference} cannot be read from {_TITLES[provider]}: {found.fault}",
            suggestion="see docs/how-to/credentials.md for the variables that it is configured by",
        )
    value: object = found.text
    if key:
        try:
            value = _json(found.text).get(key)
        except OutboundError:
            value = None
    if not isinstance(value, str) or not value:
        raise SecretError(
            f"{reference}: the secret has no text{' under this name' if key else ''}", suggestion="set it there"
        )
    return value
