"""Upload of a few bytes to a place that the operator configured: its address is checked like every other, redirects are not followed,
within a time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from toolgen.connectors.executor import Destination, Permit
from toolgen.connectors.http.connector import Dialer, EgressRefusal, Resolver, Target, Timeouts, system_resolver
from toolgen.connectors.http.message import UndecodableError
from toolgen.connectors.http.reply import BrokenError, TimedOutError, UnsentError
from toolgen.connectors.http.request_builder import HttpRequest
from toolgen.connectors.http.sigv4 import AwsKey, sign_aws
from toolgen.connectors.secrets import SecretReference, SecretResolver
from toolgen.core.clock import Clock
from toolgen.core.errors import SecretError
from toolgen.model.verdict import Verdict

__all__ = ["UploadRequest", "upload"]

_MAX_ANSWER_SIZE = 4096
_TIMEOUTS = Timeouts(connect_s=5.0, first_byte_s=10.0, total_s=15.0)


class UploadRequest(Struct, frozen=True, kw_only=True):
    """Request that uploads a body. Secrets among its headers are resolved when it is sent."""

    method: str
    url: str
    headers: Mapping[str, SecretReference]
    content_type: str
    body: bytes
    region: str = ""
    aws: Mapping[str, SecretReference] = {}

    def request(self, secrets: SecretResolver, now: float) -> HttpRequest:
        """Return the HTTP request with its secrets, signed for S3 if it has a region. Raises `SecretError`."""
        headers = {name: secrets.resolve(it).reveal() for name, it in self.headers.items()}
        made = HttpRequest(
            method=self.method,
            url=self.url,
            headers=(("Content-Type", self.content_type), *headers.items()),
            body=self.body,
        )
        if not self.region:
            return made
        parts = {name: secrets.resolve(it).reveal() for name, it in self.aws.items()}
        key = AwsKey(
            access_key_id=parts["access_key_id"],
            secret_access_key=parts["secret_access_key"],
            session_token=parts.get("session_token", ""),
            region=self.region,
            service="s3",
        )
        return sign_aws(made, key, now)


async def upload(
    outgoing: UploadRequest, *, permit: Permit, clock: Clock, resolver: Resolver = system_resolver
) -> None:
    """Send the bytes, and return after the other side confirmed them (any 2xx). Raises `OSError`, with a text without secrets."""

    def permitted(destination: Destination) -> Verdict:
        return permit(replace(destination, service="keys"))

    dialer = Dialer(permit=permitted, resolver=resolver, timeouts=_TIMEOUTS, clock=clock)
    try:
        sent = outgoing.request(SecretResolver(permit=permitted), clock.now())
        async with asyncio.timeout(_TIMEOUTS.total_s):
            target = Target.of(outgoing.url)
            addresses = await dialer.addresses(target)
            reply = await dialer.client(target, addresses[0]).send(sent, _MAX_ANSWER_SIZE, asyncio.Semaphore())
            if not 200 <= reply.status < 300:
                raise OSError(f"the answer is {reply.status}")
    except EgressRefusal as refusal:
        raise OSError(refusal.verdict.reason) from None
    except TimeoutError:
        raise OSError("it did not answer in time") from None
    except SecretError as error:
        raise OSError(str(error)) from None
    except (UnsentError, BrokenError, TimedOutError, UndecodableError) as error:
        raise OSError(f"it cannot be reached: {type(error).__name__}") from None
    except ValueError as error:
        raise OSError(f"it cannot be sent: {type(error).__name__}") from error
    finally:
        await dialer.close()
