"""Fetches the key set of an identity provider: its address checked as every other, nothing followed, within a size and a time."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from pyreqwest.client import Client
from pyreqwest.exceptions import PyreqwestError

from toolgen.clock import Clock
from toolgen.execute.base import Destination, Permit
from toolgen.execute.http.answers import read
from toolgen.execute.http.dial import Dialer, Refusal, Resolver, Target, Timeouts, system_resolver
from toolgen.files import read_file
from toolgen.model.verdict import Verdict

__all__ = ["fetch_key_set"]

_TIMEOUTS = Timeouts(connect_s=3.0, first_byte_s=5.0, total_s=5.0)


async def fetch_key_set(
    location: str, largest: int, *, permit: Permit, clock: Clock, resolver: Resolver = system_resolver
) -> bytes:
    """The bytes at a URL, or of the file at an absolute path. Raises `OSError` when they cannot be had, or are more than `largest`."""
    if "://" not in location:
        found = await asyncio.to_thread(read_file, location, largest)
        if len(found) > largest:
            raise OSError(f"it is larger than {largest} bytes")
        return found

    def permitted(destination: Destination) -> Verdict:
        return permit(replace(destination, service="keys"))

    dialer = Dialer(permit=permitted, resolver=resolver, timeouts=_TIMEOUTS, clock=clock)
    try:
        async with asyncio.timeout(_TIMEOUTS.total_s):
            target = Target.of(location)
            addresses = await dialer.addresses(target)
            async with dialer.client(target, addresses[0]) as client:
                return await _get(client, location, largest)
    except Refusal as refusal:
        raise OSError(refusal.verdict.reason) from None
    except TimeoutError:
        raise OSError("it did not arrive in time") from None
    except PyreqwestError as error:
        raise OSError(f"it cannot be fetched: {type(error).__name__}") from None
    except ValueError as error:
        raise OSError(f"it cannot be fetched: {error}") from None
    finally:
        await dialer.close()


async def _get(client: Client, url: str, largest: int) -> bytes:
    request = client.request("GET", url).header("accept", "application/jwk-set+json, application/json")
    async with request.build_streamed() as response:
        if response.status != 200:
            raise OSError(f"the answer is {response.status}, not 200")
        body, truncated = await read(response.body_reader, largest)
    if truncated:
        raise OSError(f"it is larger than {largest} bytes")
    return body
