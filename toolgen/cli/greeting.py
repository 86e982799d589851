"""Start message of a gateway: its URL, the principals and how they authenticate, its tools, and what to do next."""

from __future__ import annotations

import json
import os
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from toolgen.cli.build_summary import tokens_of
from toolgen.cli.options import KEY_VARIABLE
from toolgen.cli.output import printable
from toolgen.gateway.protocol import Project
from toolgen.model.manifest import Manifest
from toolgen.model.secret import SecretReference, Unprinted
from toolgen.policy.credentials import PrincipalEntry

__all__ = ["ShownKey", "greeting", "snippet", "source_lines", "unaddressed"]

_NO_ADDRESS = {"no_endpoint": "endpoint", "no_server": "server"}
_MAX_PRINCIPALS = 8
_MAX_COUNTED = 400  # maximum tools of a source whose tokens are counted, because counting takes time


class ShownKey(Unprinted, frozen=True):
    """Key that may be shown, with its owner and a text about its lifetime."""

    principal: str
    key: str
    until: str


def greeting(
    gateway: Project, url: str, *, keys: Sequence[ShownKey] = (), mocked: Container[str] = ()
) -> Iterator[str]:
    """Return the lines of the message. `mocked` are the sources that a mock answers for."""
    settings = gateway.settings
    yield f"toolgen is listening on {url}"
    yield f"  MCP         {url}/mcp"
    yield f"  REST        {url}/v1   (described at /openapi.json)"
    yield f"  console     {url}/console"
    yield f"  record      {_short(settings.audit_dir)}"
    yield from _listed("sources", source_lines(gateway, mocked))
    yield from _listed("principals", _principals(gateway, {shown.principal for shown in keys}))
    for shown in keys:
        yield f"  key         {shown.key}   ({shown.principal}, {shown.until})"
    yield from _listed("not set", _unset(gateway))
    yield "  next        toolgen install claude-code, or: toolgen audit tail -f"


def snippet(url: str) -> str:
    """Return the settings that most MCP clients accept, with the key as a variable reference."""
    server = {"type": "http", "url": f"{url}/mcp", "headers": {"Authorization": f"Bearer ${{{KEY_VARIABLE}}}"}}
    return json.dumps({"mcpServers": {"toolgen": server}})


def _listed(title: str, lines: Iterable[str]) -> Iterator[str]:
    for index, line in enumerate(lines):
        yield f"  {title if index == 0 else '':<10}  {line}"


def source_lines(gateway: Project, mocked: Container[str] = ()) -> Iterator[str]:
    """Return a line for each source: its number of tools, and about how many tokens they cost."""
    for name in gateway.manifest.sources:
        tools = [tool for tool in gateway.manifest.tools.values() if tool.source == name]
        count = f"{len(tools)} tool{'' if len(tools) == 1 else 's'}"
        tokens = f", {tokens_of(tools):,} tokens" if len(tools) <= _MAX_COUNTED else ""
        yield f"{name}: {count}{tokens}{', answered by a mock' if name in mocked else ''}"


def _principals(gateway: Project, shown: Container[str]) -> Iterator[str]:
    credentials = gateway.policy.credentials
    gone = credentials.keys_revoked()
    entries = [credentials.principals[name] for name in sorted(credentials.principals)]
    for entry in entries[:_MAX_PRINCIPALS]:
        if entry.id not in shown:
            yield printable(f"{entry.id}: {_how(entry, gone)}")
    if len(entries) > _MAX_PRINCIPALS:
        yield f"… and {len(entries) - _MAX_PRINCIPALS} more: toolgen keys list"
    for name in credentials.issuers:
        yield f"{name}: tokens of {credentials.issuers[name].token.issuer}"


def _how(entry: PrincipalEntry, gone: frozenset[str]) -> str:
    """Credential of a principal, and its place in the policy."""
    keys = [key for key in entry.keys if key.sha256 not in gone]
    ways = [f"key {key.id} ({key.where.rpartition(':')[0] or key.where})" for key in keys[:2]]
    ways += [f"{len(keys) - 2} more keys"] if len(keys) > 2 else []
    ways += [f"tokens of {entry.token.issuer}"] if entry.token is not None else []
    ways += ["a client certificate"] if entry.certificate is not None else []
    return ", ".join(ways) or f"no key to show; `toolgen keys new {entry.id}` makes one"


def _unset(gateway: Project) -> Iterator[str]:
    """Yield base URLs that no description states, and missing environment variables of credentials."""
    yield from unaddressed(gateway.manifest)
    for name, source in gateway.settings.sources.items():
        values = [
            part for one in source.auth.values() for part in (one.values() if isinstance(one, Mapping) else [one])
        ]
        wanted = [one.locator for one in values if isinstance(one, SecretReference) and one.provider == "env"]
        if unset := sorted(variable for variable in wanted if variable not in os.environ):
            yield f"{', '.join(unset)}: calls to {name} that need it are refused"


def unaddressed(manifest: Manifest) -> Iterator[str]:
    """Yield the settings that are missing for each source without a base URL."""
    for problem in manifest.problems:
        if problem.code in _NO_ADDRESS:
            key = _NO_ADDRESS[problem.code]
            yield f"{key} of {problem.source} in toolgen.yaml, and its host under egress.allow: no description has its base URL"


def _short(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
