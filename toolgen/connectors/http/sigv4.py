"""AWS Signature Version 4 of a complete request, as AWS's "Create a signed AWS API request" describes it."""

from __future__ import annotations

import hashlib
import hmac
import re
from datetime import UTC, datetime
from functools import lru_cache
from urllib.parse import quote, unquote, urlsplit

from msgspec.structs import replace

from toolgen.connectors.http.request_builder import HttpRequest
from toolgen.model.secret import Unprinted

__all__ = ["AwsKey", "sign_aws"]

_ALGORITHM = "AWS4-HMAC-SHA256"
_SPACES = re.compile(r" +")
_SAFE = "-_.~"


class AwsKey(Unprinted, frozen=True, kw_only=True):
    """Resolved AWS access key, with its region and service. `session_token` is "" for a long-term key."""

    access_key_id: str
    secret_access_key: str
    session_token: str
    region: str
    service: str


def sign_aws(request: HttpRequest, key: AwsKey, now: float) -> HttpRequest:
    """Return the request with its signature. It must not be changed afterwards. `now` is in seconds since the epoch."""
    time = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    body = hashlib.sha256(request.body or b"").hexdigest() if request.stream is None else request.stream.sha256
    added = [("X-Amz-Date", time)]
    if key.service == "s3":
        added.append(("X-Amz-Content-SHA256", body))
    if key.session_token:
        added.append(("X-Amz-Security-Token", key.session_token))
    headers = (*request.headers, *added)
    signed, canonical_headers = _headers(request.url, headers)
    parts = urlsplit(request.url)
    canonical = "\n".join(
        [request.method, _path(parts.path, key.service), _query(parts.query), canonical_headers, signed, body]
    )
    scope = f"{time[:8]}/{key.region}/{key.service}/aws4_request"
    text = f"{_ALGORITHM}\n{time}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    signature = hmac.new(
        _signing_key(key.secret_access_key, time[:8], key.region, key.service), text.encode(), hashlib.sha256
    ).hexdigest()
    value = f"{_ALGORITHM} Credential={key.access_key_id}/{scope}, SignedHeaders={signed}, Signature={signature}"
    return replace(request, headers=(*headers, ("Authorization", value)))


def _headers(url: str, headers: tuple[tuple[str, str], ...]) -> tuple[str, str]:
    """Return the names of the signed headers, and their canonical lines: the host, the body's type, and the headers of AWS (`x-amz-*`).

    The rest is left out, for a proxy on the way may change it.
    """
    found: dict[str, list[str]] = {"host": [_host(url)]}
    for name, value in headers:
        lower = name.lower()
        if lower.startswith("x-amz-") or lower in {"content-type", "content-md5"}:
            found.setdefault(lower, []).append(_SPACES.sub(" ", value.strip()))
    names = sorted(found)
    return ";".join(names), "".join(f"{name}:{','.join(found[name])}\n" for name in names)


def _host(url: str) -> str:
    """Return the Host header as the client sends it: without the default port of the scheme."""
    parts = urlsplit(url)
    host = parts.netloc.lower()
    usual = {"http": ":80", "https": ":443"}[parts.scheme.lower()]
    return host.removesuffix(usual)


def _path(path: str, service: str) -> str:
    """Return the canonical path. S3 signs the path as it is sent; every other service normalises it, and encodes it once more."""
    if not path:
        return "/"
    if service == "s3":
        return quote(unquote(path), safe=f"/{_SAFE}")
    kept: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            del kept[-1:]
        elif segment not in {"", "."}:
            kept.append(segment)
    slash = "/" if path.endswith(("/", "/.", "/..")) and kept else ""
    return quote(f"/{'/'.join(kept)}{slash}", safe=f"/{_SAFE}")


def _query(query: str) -> str:
    """Return all parameters, sorted by name and then by value, in one encoding."""
    pairs = [pair.partition("=") for pair in query.split("&") if pair]
    encoded = [(_encoded(name), _encoded(value)) for name, _, value in pairs]
    return "&".join(f"{name}={value}" for name, value in sorted(encoded))


def _encoded(text: str) -> str:
    return quote(unquote(text), safe=_SAFE)


@lru_cache(maxsize=64)
def _signing_key(secret: str, day: str, region: str, service: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key
