"""A project over the library's GraphQL service: its trusted operations, its policy, and calls of its tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.services.library import SDL
from toolgen.config.settings import load as load_settings
from toolgen.frontends.python.gateway import Gateway
from toolgen.generator.build import build_sources
from toolgen.generator.emit.writer import MANIFEST, render_all
from toolgen.model.result import Envelope

OPERATIONS = '''
"""Finds one book."""
query FindBook($id: ID! @describe(as: "Its number"), $who: String @bind(to: "principal.attributes.tenant"), $first: Int = 1 @hidden)
@tool(title: "Find a book") { book(by: {id: $id}) { ...Short similar(first: $first) { edges { node { id } } } } echo(value: $who) }
fragment Short on Book { id title }
# Pages through the books.
query Page($first: Int, $after: String) {
  found: books(first: $first, after: $after) { edges { node { id } } pageInfo { hasNextPage endCursor } }
}
mutation Rename($title: String!) @tool(name: "rename_book", effect: WRITE) { addBook(title: $title) { id } }
'''
POLICY = """
principals:
  bot: {api_key: "sha256:%s", roles: [bot], attributes: {tenant: acme}}
  bare: {api_key: "sha256:%s", roles: [bot]}
  writer: {api_key: "sha256:%s", roles: [writer]}
rules:
  - {id: reads, to: [bot], tools: ["lib__*"], effects: [read], verdict: allow}
  - {id: unread, to: [bot], tools: [lib__get_hidden], verdict: deny}
  - id: no-secrets
    to: [bot]
    tools: [lib__get_book]
    arguments: {properties: {by: {required: [id], properties: {id: {const: "7"}}}}, required: [by]}
    verdict: deny
  - id: no-seventh
    to: [bot]
    tools: [lib__list_several]
    arguments: {properties: {ids: {contains: {const: "7"}}}, required: [ids]}
    verdict: deny
  - {id: asks, to: [bot], tools: [lib__add_book, lib__run_mutation], verdict: ask}
  - {id: writes, to: [writer], tools: ["lib__*"], effects: [read, write, destructive], verdict: allow}
egress: {private_networks: %s}
redact: [{tools: [lib__get_book, lib__list_books], fields: ["$..secret"], with: "[hidden]"}]
"""
HASHES = tuple(str(digit) * 64 for digit in (1, 2, 3))
_BUILT: dict[
    str, bytes
] = {}  # the manifests of what toolgen.yaml may say: each would take longer than most of the tests


def write_project(root: Path, origin: str, networks: str = "allow", **source: str) -> Path:
    """Where toolgen.yaml is, of a project over the library at this origin. It is built."""
    (root / "ops").mkdir(exist_ok=True)
    (root / "ops" / "books.graphql").write_text(OPERATIONS, encoding="utf-8")
    (root / "lib.graphql").write_text(SDL, encoding="utf-8")
    (root / "policies").mkdir(exist_ok=True)
    (root / "policies" / "p.yaml").write_text(POLICY % (*HASHES, networks), encoding="utf-8")
    keys = {
        "queries": "true",
        "scalars": "{Price: {type: integer, minimum: 0}}",
        "operations": "ops/*.graphql",
        "include": '{operations: ["*"]}',
        "subscriptions": "{transport: websocket, events: 2, seconds: 20}",
        **source,
    }
    said = "".join(f"\n    {key}: {value}" for key, value in keys.items())
    text = f"sources:\n  lib:\n    graphql: lib.graphql\n    endpoint: {origin}/graphql{said}\naudit: {{dir: audit}}\n"
    path = root / "toolgen.yaml"
    path.write_text(text, encoding="utf-8")
    if text not in _BUILT:
        settings = load_settings(path)
        _BUILT[text] = render_all(build_sources(settings.sources, settings.overrides).manifest, ())[MANIFEST]
    (root / "generated").mkdir(exist_ok=True)
    (root / "generated" / MANIFEST).write_bytes(_BUILT[text])
    return path


async def call(path: Path, name: str, arguments: dict[str, Any], principal: str = "bot") -> Envelope:
    async with Gateway.load(path) as gateway:
        return await gateway.call(f"lib__{name}", arguments, principal=principal)


def code(envelope: Envelope) -> str:
    return envelope.error.code if envelope.error is not None else ""
