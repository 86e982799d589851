"""Fetches the key set of an identity provider: its address checked as every other, nothing followed, within a size and a time."""

from __future__ import annotations

import asyncio

from toolgen.execute.base import Destination, Permit
from toolgen.execute.dns import Resolver, system_resolver
from toolgen.execute.outbound.client import ask
from toolgen.execute.outbound.request import Asked, RareError, Via
from toolgen.files import read_file

__all__ = ["fetch_key_set"]

_TOTAL_S = 5.0
_ACCEPTED = {"accept": "application/jwk-set+json, application/json"}


async def fetch_key_set(location: str, largest: int, *, permit: Permit, resolver: Resolver = system_resolver) -> bytes:
    """The bytes at a URL, or of the file at an absolute path. Raises `OSError` when they cannot be had, or are more than `largest`."""
    if "://" not in location:
        found = await asyncio.to_thread(read_file, location, largest)
    else:
        destination = Destination(host="", port=0, service="keys")
        via = Via(permit=permit, destination=destination, resolver=resolver, total_s=_TOTAL_S)
        try:
            answer = await ask(Asked(method="GET", url=location, headers=_ACCEPTED), via)
        except RareError as error:
            raise OSError(str(error)) from None
        if answer.status != 200:
            raise OSError(f"the answer is {answer.status}, not 200")
        found = answer.body
    if len(found) > largest:
        raise OSError(f"it is larger than {largest} bytes")
    return found
