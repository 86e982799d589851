"""Client for the suites: a gateway that bridges the server at a URL, loads its skills, reads its list of tools and calls them.

`python -m conformance.client URL`, with the scenario in `MCP_CONFORMANCE_SCENARIO` and its credentials in `MCP_CONFORMANCE_CONTEXT`. Prints
what became of each file and call.
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
from urllib.parse import parse_qsl, urlsplit

import httpx
from msgspec.structs import replace

from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.calls.context_policy import Reader
from toolgen.model.call import Principal
from toolgen.model.result import Error
from toolgen.model.secret import Secret

LISTS_ONLY = "sep-2640-client-no-prefetch"
PERSON = "person"
SKILLS = {"resources": ["*"]}
TOOLS = {"tools": ["*"], "effects": ["read", "write", "destructive"]}
POLICY = {"principals": {"host": {"roles": ["host"]}}, "egress": {"private_networks": "allow"}}
_STREAM = {"application/json": {}, "text/event-stream": {}}
"""Media types of the answers of an MCP server over HTTP."""


def servers(url: str) -> tuple[str, str]:
    """Return the issuer and the token endpoint of the authorization server, which an operator finds in the metadata of the server."""
    parts = urlsplit(url)
    resource = httpx.get(f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}").json()
    issuer = resource["authorization_servers"][0].rstrip("/")
    return issuer, httpx.get(f"{issuer}/.well-known/oauth-authorization-server").json()["token_endpoint"]


def secret(name: str, value: str) -> str:
    """Put a secret into the environment, and return its reference."""
    os.environ[name] = value
    return f"${{env:{name}}}"


def credentials(url: str, scenario: str, context: dict[str, str]) -> dict[str, Any]:
    """Return the credential of a scenario as a source has it, {} without one."""
    if not scenario.startswith("auth/"):
        return {}
    issuer, token_url = servers(url)
    client = {"client_id": context.get("client_id", "conformance-client"), "token_url": token_url}
    match scenario.removeprefix("auth/"):
        case "client-credentials-jwt":
            key = secret("CONFORMANCE_KEY", context["private_key_pem"])
            return {**client, "private_key": key, "issuer": issuer}
        case "dpop" | "dpop-nonce":
            return {**client, "client_secret": secret("CONFORMANCE_SECRET", "conformance"), "dpop": True}
        case "wif-jwt-bearer":
            return {**client, "assertion": secret("CONFORMANCE_ASSERTION", context["valid_jwt"])}
        case "enterprise-managed-authorization":
            at_server = {"client_id": context["client_id"], "token_url": token_url, "issuer": issuer}
            shown = secret("CONFORMANCE_SECRET", context["client_secret"])
            secret("TOOLGEN_SUBJECT_TOKEN", context["idp_id_token"])
            return {
                "subject_token": "principal",
                "issuer": context["idp_issuer"],
                "token_url": context["idp_token_endpoint"],
                "client_id": context["idp_client_id"],
                "resource": url,
                "authorization_server": {**at_server, "client_secret": shown},
            }
        case _:
            return {**client, "client_secret": secret("CONFORMANCE_SECRET", context["client_secret"])}


def of_a_person(url: str, root: Path) -> dict[str, Any]:
    """Return a source that is called with the account of a person: MCP's requests to the server, described as an HTTP API."""
    parts, issuer = urlsplit(url), servers(url)[0]
    operation = {
        "operationId": "send",
        "summary": "Send a message",
        "requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}},
        "responses": {"200": {"description": "ok", "content": _STREAM}},
    }
    api = {"openapi": "3.1.0", "info": {"title": "x", "version": "1"}, "paths": {parts.path: {"post": operation}}}
    (root / "person.json").write_text(json.dumps(api), encoding="utf-8")
    account = {"account": "user", "client_id": "conformance-client", "issuer": issuer, "dpop": True}
    return {"openapi": "person.json", "server": f"{parts.scheme}://{parts.netloc}", "auth": {"bearer": account}}


async def load(gateway: Gateway, principal: Principal, *, reads: bool) -> None:
    """List the skills, and load each: its document first, and its other files if that is as it was listed."""
    reader = Reader(principal=principal)
    for skill in gateway.context.skills.list(reader.principal):
        print(f"listed {skill.uri}")
        uris = [skill.uri, *(file.uri for file in skill.entry.files if file.uri != skill.uri)]
        for uri in uris if reads else ():
            found = await gateway.context.read(uri, reader)
            if isinstance(found, Error):
                print(f"not loaded: {found.message}")
                break
            print(f"read {uri}")


async def link(gateway: Gateway, principal: Principal) -> None:
    """Link the account of a person who agrees, as their browser would."""
    ticket = (await gateway.accounts.page(principal, PERSON)).rpartition("/")[2]
    url, attempt = await gateway.accounts.begin(ticket, principal, session="browser")
    async with httpx.AsyncClient() as browser:
        location = (await browser.get(url)).headers["location"]
    answer = dict(parse_qsl(urlsplit(location).query))
    await gateway.accounts.finish(attempt, PERSON, answer, principal, session="browser")


async def call(gateway: Gateway, principal: Principal) -> None:
    """Call each tool."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    for name, tool in gateway.manifest.tools.items():
        arguments = {"body": message} if tool.source == PERSON else {}
        found = await gateway.call(name, arguments, principal=principal)
        print(f"called {name}: {found}")


async def main(url: str, scenario: str, context: dict[str, str], root: Path) -> None:
    config = root / "toolgen.yaml"
    (root / "policies").mkdir()
    selected = SKILLS if scenario.startswith("sep-2640") else TOOLS
    policy = {**POLICY, "rules": [{"id": "all", "to": ["host"], "verdict": "allow", **selected}]}
    (root / "policies" / "policy.yaml").write_text(json.dumps(policy), encoding="utf-8")
    given = credentials(url, scenario, context)
    sources = {"far": {"mcp": {"url": url}, **({"auth": {"bearer": given}} if given else {})}}
    bound = given.get("dpop") is True
    if bound:
        sources[PERSON] = of_a_person(url, root)
    settings = {"sources": sources, "policies": "policies/", "audit": {"dir": "audit"}}
    config.write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "toolgen", "build", "--config", config]
    await asyncio.to_thread(subprocess.run, command, check=True)
    async with Gateway.load(config) as gateway:
        principal = gateway.principal("host")
        if token := context.get("idp_id_token"):
            principal = replace(
                principal, token=Secret(token)
            )  # an identity provider of the suite has no keys to verify it
        if bound:
            await link(gateway, principal)
        if given:
            await call(gateway, principal)
        await load(gateway, principal, reads=scenario != LISTS_ONLY)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(
            main(
                sys.argv[1],
                os.environ.get("MCP_CONFORMANCE_SCENARIO", ""),
                json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}")),
                Path(folder),
            )
        )
