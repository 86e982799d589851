"""Cost of authentication: CPU of an API key, of a known token, and of a new one, by algorithm.

`python -m bench.identity` prints medians. The budgets are 1 us for a key and 2 us for a known token; the others have none.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import statistics
import time
from collections.abc import Callable

from tests.gateway.issuer import ALGORITHM, AUDIENCE, ISSUER, jwk, token
from toolgen.core.clock import SystemClock
from toolgen.gateway.identity import Identity, KeySets
from toolgen.model.call import Principal
from toolgen.policy.credentials import ALGORITHMS, ApiKey, IssuerEntry, PolicyCredentials, PrincipalEntry, TokenRule

KEY = "tgk_" + "k" * 43
_TIMES = 10_000
_ROUNDS = 15


def identity() -> Identity:
    """Principal with a key, and an issuer with three keys."""
    rule = TokenRule(issuer=ISSUER, audience=frozenset({AUDIENCE}), jwks="x://", algorithms=frozenset(ALGORITHMS))
    bot = PrincipalEntry(
        id="bot",
        keys=(ApiKey(sha256=hashlib.sha256(KEY.encode()).hexdigest()),),
        roles=frozenset({"bot"}),
        attributes={},
        acts_for=frozenset(),
    )
    staff = IssuerEntry(
        name="staff",
        token=rule,
        roles=frozenset({"staff"}),
        grants={"groups": {"eng": frozenset({"bot"})}},
        attributes={"tenant": "/org/id"},
    )

    async def keys(_location: str, _largest: int) -> bytes:
        return json.dumps({"keys": [jwk(name) for name in ALGORITHM]}).encode()

    clock = SystemClock()
    credentials = PolicyCredentials(
        principals={"bot": bot}, issuers={"staff": staff}, revocations=(), revoked_keys=frozenset()
    )
    return Identity(credentials, clock, KeySets(keys, clock))


def seen(who: Identity, credential: str) -> float:
    """Microseconds for a credential that was accepted before, as a request asks for it."""
    recognised: Callable[[str], Principal | None] = who.recognised
    rounds = []
    for _ in range(_ROUNDS):
        began = time.process_time_ns()
        for _ in range(_TIMES):
            recognised(credential)
        rounds.append((time.process_time_ns() - began) / _TIMES / 1000)
    if recognised(credential) is None:
        raise SystemExit("the credential is not accepted")
    return statistics.median(rounds)


async def unseen(who: Identity, name: str) -> float:
    """Microseconds for tokens nobody has shown before."""
    times = []
    for number in range(300):
        text = token(name, jti=str(number), groups=["eng"], org={"id": "acme"})
        began = time.process_time_ns()
        principal = await who.authenticate(text)
        times.append((time.process_time_ns() - began) / 1000)
        if not isinstance(principal, Principal):
            raise SystemExit(principal.reason)
    return statistics.median(times)


async def main() -> None:
    """Prints one line a kind of credential."""
    who = identity()
    known = token(groups=["eng"], org={"id": "acme"})
    for credential in (KEY, known):
        await who.authenticate(credential)
    print(f"API key                {seen(who, KEY):8.2f} us")
    print(f"token, seen before     {seen(who, known):8.2f} us")
    for name, algorithm in ALGORITHM.items():
        print(f"token, {algorithm:6} unseen   {await unseen(who, name):8.1f} us")


if __name__ == "__main__":
    asyncio.run(main())
