"""Cost of adding a credential to a request: a static key, a key in a file, a cached token, an AWS signature.

`python -m bench.credentials [ROUNDS]` prints CPU microseconds a request for each, the rounds interleaved and their median taken. Exit 1
if a cached token costs more than twice as much as a static key: then something is resolved without need.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time

from toolgen.connectors.http.credentials import CredentialSelector, Provision
from toolgen.connectors.http.oauth.tokens import BearerToken, OAuthClients
from toolgen.connectors.http.request_builder import HttpRequest
from toolgen.connectors.secrets import SecretReference, SecretResolver
from toolgen.core.clock import SystemClock
from toolgen.model.auth import OAuth, read_form
from toolgen.model.call import Principal
from toolgen.model.manifest import SecurityScheme
from toolgen.model.verdict import Allow

REQUESTS = 5_000
KEY = SecretReference("env", "KEY")
CLIENT = {"client_id": SecretReference("literal", "bench"), "client_secret": KEY}
SCHEMES = {
    "key": SecurityScheme(type="apiKey", in_="header", name="X-Key"),
    "file": SecurityScheme(type="apiKey", in_="header", name="X-Key"),
    "token": SecurityScheme(type="oauth2", token_url="/token"),
    "aws": SecurityScheme(type="apiKey", in_="header", name="Authorization"),
}
REQUEST = HttpRequest(
    method="GET", url="http://api.test/a/b?c=1", headers=(("Accept", "*/*"), ("User-Agent", "toolgen")), body=None
)


def selector(path: str) -> CredentialSelector:
    """Credentials of each kind, and a token that is good for a day."""
    secrets, clock = SecretResolver({"KEY": "k" * 40}), SystemClock()
    grants = OAuthClients(secrets=secrets, permit=lambda _: Allow(rule="bench"), clock=clock)
    form = read_form(CLIENT)
    assert isinstance(form, OAuth)
    until = clock.monotonic() + 86_400
    grants.grant(form, "http://api.test/token")._own.token = BearerToken(value="t" * 40, ahead=until, until=until)
    auth = {
        "key": KEY,
        "file": SecretReference("file", path),
        "token": CLIENT,
        "aws": {"access_key_id": KEY, "secret_access_key": KEY, "region": "eu-west-1", "service": "execute-api"},
    }
    provision = Provision(grants=grants, assigned=lambda _: None)
    return CredentialSelector(schemes=SCHEMES, auth=auth, secrets=secrets, provision=provision)


async def measure(rounds: int) -> dict[str, float]:
    """Medians in microseconds, by kind."""
    taken: dict[str, list[float]] = {name: [] for name in SCHEMES}
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("k" * 40)
        file.flush()
        held, principal = selector(file.name), Principal(id="bench")
        for _ in range(rounds):
            for name, found in taken.items():
                began = time.process_time()
                for _ in range(REQUESTS):
                    await held.sign(REQUEST, ((name,),), principal)
                found.append((time.process_time() - began) / REQUESTS * 1e6)
    return {name: statistics.median(found) for name, found in taken.items()}


def main(arguments: list[str]) -> int:
    medians = asyncio.run(measure(int(arguments[0]) if arguments else 9))
    for name, microseconds in medians.items():
        print(f"{name:6} {microseconds:6.2f} us")
    return 0 if medians["token"] <= 2 * medians["key"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
