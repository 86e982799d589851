"""Bucket of S3 for entries: each batch is one object with a retention (object lock), so that it cannot be overwritten or removed."""

from __future__ import annotations

import base64
import hashlib
import os
from datetime import UTC, datetime
from urllib.parse import quote

from toolgen.audit.entry_stream import BatchSize
from toolgen.config.audit_stream import S3Target
from toolgen.connectors.cloud_secrets import CloudRequests, aws_key
from toolgen.connectors.executor import Permit
from toolgen.connectors.http.outbound.request import OutboundError, OutboundRequest
from toolgen.connectors.http.request_builder import HttpRequest
from toolgen.connectors.http.sigv4 import AwsKey, sign_aws
from toolgen.core.clock import Clock
from toolgen.gateway.audit.destinations.base import EntryHttp, OutgoingEntry, RefusedEntriesError, Rhythm

__all__ = ["S3Bucket"]

_SIZE = BatchSize(entries=50_000, bytes=8 * 1024 * 1024)
_DAY_S = 86_400


class S3Bucket:
    """Bucket. The key of an object has the stream, the numbers of its first and last entry, and the first digits of the last hash.

    Without `aws:` the credentials are those of the environment.
    """

    def __init__(self, target: S3Target, http: EntryHttp, *, permit: Permit, clock: Clock) -> None:
        self._target, self._http, self._clock = target, http, clock
        self._outbound = CloudRequests(environment=os.environ, permit=permit, clock=clock)
        self.rhythm = Rhythm(size=_SIZE, every_s=target.every_s)

    async def send(self, stream: str, entries: tuple[OutgoingEntry, ...]) -> None:
        """Return once the bucket has stored the entries with their retention. Raises `OSError`."""
        body = b"".join(one.body + b"\n" for one in entries)
        first, last = entries[0].entry, entries[-1].entry
        name = f"{self._target.prefix}{stream}/{first.seq:012d}-{last.seq:012d}-{last.mark}.jsonl"
        headers = [
            ("Content-Type", "application/x-ndjson"),
            (
                "x-amz-sdk-checksum-algorithm",
                "SHA256",
            ),  # S3 takes no object with a retention without it, or Content-MD5
            ("x-amz-checksum-sha256", base64.b64encode(hashlib.sha256(body).digest()).decode("ascii")),
        ]
        if self._target.mode:
            until = datetime.fromtimestamp(int(self._clock.now()) + self._target.days * _DAY_S, UTC)
            headers.append(("x-amz-object-lock-mode", self._target.mode.upper()))
            headers.append(("x-amz-object-lock-retain-until-date", f"{until:%Y-%m-%dT%H:%M:%SZ}"))
        request = HttpRequest(method="PUT", url=self._url(name), headers=tuple(headers), body=body)
        signed = sign_aws(request, await self._key(), self._clock.now())
        try:
            await self._http.send(
                OutboundRequest(method="PUT", url=signed.url, headers=dict(signed.headers), body=body, reads=False)
            )
        except RefusedEntriesError as error:  # S3 does not look at what is stored: the bucket or the request is wrong
            raise OSError(f"{error}; has the bucket object lock?") from None

    def _url(self, name: str) -> str:
        target = self._target
        path = quote(name, safe="/-_.~")
        if target.endpoint:
            return f"{target.endpoint}/{target.bucket}/{path}"
        if "." in target.bucket:  # such a name does not match the certificate of the host
            return f"https://s3.{self._region()}.amazonaws.com/{target.bucket}/{path}"
        return f"https://{target.bucket}.s3.{self._region()}.amazonaws.com/{path}"

    def _region(self) -> str:
        found = self._target.region or os.environ.get("AWS_REGION", "") or os.environ.get("AWS_DEFAULT_REGION", "")
        if not found:
            raise OSError("AWS_REGION is not set")
        return found

    async def _key(self) -> AwsKey:
        if self._target.aws:
            parts = await self._http.revealed(self._target.aws)
            found = (parts["access_key_id"], parts["secret_access_key"], parts.get("session_token", ""))
        else:
            try:
                found = await aws_key(self._outbound)
            except OutboundError as error:
                raise OSError(str(error)) from None
        return AwsKey(
            access_key_id=found[0],
            secret_access_key=found[1],
            session_token=found[2],
            region=self._region(),
            service="s3",
        )

    async def close(self) -> None:
        """Do nothing: each request has its own connection."""
