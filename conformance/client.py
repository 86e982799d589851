"""Client for the suites: a gateway that bridges the server at a URL, loads its skills and reads its list of tools.

`python -m conformance.client URL`, with the scenario in `MCP_CONFORMANCE_SCENARIO` and its credentials in `MCP_CONFORMANCE_CONTEXT`. Prints
what became of each file.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.calls.context_policy import Reader
from toolgen.model.result import Error

LISTS_ONLY = "sep-2640-client-no-prefetch"
POLICY = {
    "principals": {"host": {"roles": ["host"]}},
    "rules": [{"id": "skills", "to": ["host"], "resources": ["*"], "verdict": "allow"}],
    "egress": {"private_networks": "allow"},
}


def credentials(url: str, context: dict[str, str]) -> dict[str, Any]:
    """The settings of a source whose server takes OAuth tokens: an operator finds the token endpoint in the server's metadata."""
    if "client_id" not in context:
        return {}
    parts = urlsplit(url)
    resource = httpx.get(f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}").json()
    issuer = resource["authorization_servers"][0].rstrip("/")
    server = httpx.get(f"{issuer}/.well-known/oauth-authorization-server").json()
    secret = "private_key" if "private_key_pem" in context else "client_secret"
    os.environ["CONFORMANCE_SECRET"] = context.get("private_key_pem", "") or context["client_secret"]
    oauth = {
        "client_id": context["client_id"],
        secret: "${env:CONFORMANCE_SECRET}",
        "token_url": server["token_endpoint"],
        **({"issuer": issuer} if secret == "private_key" else {}),
    }
    return {"auth": {"bearer": oauth}}


async def load(config: Path, *, reads: bool) -> None:
    """List the skills, and load each: its document first, and its other files if that is as it was listed."""
    async with Gateway.load(config) as gateway:
        reader = Reader(principal=gateway.principal("host"))
        for skill in gateway.context.skills.list(reader.principal):
            print(f"listed {skill.uri}")
            uris = [skill.uri, *(file.uri for file in skill.entry.files if file.uri != skill.uri)]
            for uri in uris if reads else ():
                found = await gateway.context.read(uri, reader)
                if isinstance(found, Error):
                    print(f"not loaded: {found.message}")
                    break
                print(f"read {uri}")


def main(url: str, scenario: str, context: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as root:
        config = Path(root) / "toolgen.yaml"
        (Path(root) / "policies").mkdir()
        policy = POLICY if scenario.startswith("sep-2640") else {**POLICY, "rules": []}
        (Path(root) / "policies" / "policy.yaml").write_text(json.dumps(policy), encoding="utf-8")
        source = {"mcp": {"url": url}, **credentials(url, context)}
        settings = {"sources": {"far": source}, "policies": "policies/", "audit": {"dir": "audit"}}
        config.write_text(json.dumps(settings), encoding="utf-8")
        subprocess.run([sys.executable, "-m", "toolgen", "build", "--config", config], check=True)
        asyncio.run(load(config, reads=scenario != LISTS_ONLY))


if __name__ == "__main__":
    given = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    main(sys.argv[1], os.environ.get("MCP_CONFORMANCE_SCENARIO", ""), given)
