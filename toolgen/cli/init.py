"""`toolgen init`: a working project to start from."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import sqlite3
import tempfile
from pathlib import Path

import click

from toolgen.audit.keys import PRIVATE, make_key, public_path, signing_key
from toolgen.builder.build import build_sources
from toolgen.config.settings import from_specs
from toolgen.errors import ConfigError
from toolgen.model.manifest import Manifest, SecurityScheme
from toolgen.model.tool import Effect

_PROJECT = """\
# A toolgen project: what there is to call. policies/ says who may call it.
sources:
{sources}
policies: policies/
generated: generated/
gateway: {{host: 127.0.0.1, port: 8080}}
audit: {{dir: var/audit}}
"""

_POLICY = """\
# Who may do what. Whatever no rule allows is denied.
principals:
  agent:
    api_key: "sha256:{digest}"
    roles: [agent]

rules:{rules}
{more}
limits:
  - {{id: per-agent, per: [principal], rate: 60/min, burst: 20}}

# Loopback and private addresses are closed, unless this says allow or lists their host:port under allow.
egress: {{private_networks: {private}, redirects: none}}
"""

_RULE = """
  - {{id: agent-reads, to: [agent], tools: ["{source}__*"], effects: [read], verdict: allow}}
"""

_NOTES = """
CREATE TABLE notes (id INTEGER PRIMARY KEY, title TEXT NOT NULL, body TEXT NOT NULL);
INSERT INTO notes (title, body) VALUES ('Welcome', 'This table is open to the agent.'), ('Next', 'Edit policies/policy.yaml.');
CREATE TABLE private_notes (id INTEGER PRIMARY KEY, body TEXT NOT NULL);
INSERT INTO private_notes (body) VALUES ('No policy opens this table.');
"""


@click.command()
@click.argument("directory", default=".", metavar="[DIR]")
@click.option(
    "--openapi", metavar="FILE", type=click.Path(exists=True, dir_okay=False), help="Start from this description."
)
@click.option("--server", metavar="URL", help="With --openapi: base URL of the API (default: from the document).")
def command(directory: str, openapi: str | None, server: str | None) -> None:
    """Make a working project in DIR: toolgen.yaml, specs/ and policies/, with one principal and its key."""
    root = Path(directory)
    for name in ("toolgen.yaml", "policies"):
        if (root / name).exists():
            raise ConfigError("already exists", where=str(root / name), suggestion="init an empty folder")
    if server and not openapi:
        raise click.UsageError("--server goes with --openapi")
    key = secrets.token_urlsafe(24)
    source, sources, policy = _of_description(Path(openapi), server) if openapi else _of_notes()
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".toolgen-init-", dir=root) as folder:
            staged = Path(folder)
            (staged / "policies").mkdir()
            text = policy.format(digest=hashlib.sha256(key.encode()).hexdigest())
            (staged / "policies" / "policy.yaml").write_text(text, encoding="utf-8")
            (staged / "toolgen.yaml").write_text(_PROJECT.format(sources=sources.rstrip()), encoding="utf-8")
            if openapi:
                shutil.copyfile(openapi, staged / "spec")
            else:
                _write_notes(staged / "spec")
            _put_in_place(staged, root, Path(openapi).name if openapi else "notes.db")
        public = _sign_from_the_start(root / "var" / "audit")
    except (OSError, sqlite3.Error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"the project cannot be written: {reason}", where=str(root)) from error
    click.echo(f"made {root / 'toolgen.yaml'}, {root / 'specs'}/ and {root / 'policies'}/ with the source {source}")
    click.echo(f"the key of the principal 'agent', shown this once: {key}")
    click.echo(f"the audit log is signed from its first entry; give this public key to those who verify it: {public}")


def _sign_from_the_start(directory: Path) -> Path:
    """The public half of the key that signs the audit log: a new one, unless there is one already."""
    signing = signing_key(directory / PRIVATE)
    return public_path(directory, signing.id) if signing else make_key(directory / PRIVATE, directory)[1]


def _put_in_place(staged: Path, root: Path, name: str) -> None:
    """Moves the finished parts where they belong; toolgen.yaml, which makes a folder a project, comes last."""
    (root / "specs").mkdir(exist_ok=True)
    spec = root / "specs" / name
    if not spec.exists():
        os.replace(staged / "spec", spec)
    elif spec.read_bytes() != (staged / "spec").read_bytes():
        raise ConfigError("already exists and is another file", where=str(spec), suggestion="move it away")
    os.replace(staged / "policies", root / "policies")
    os.replace(staged / "toolgen.yaml", root / "toolgen.yaml")


def _of_notes() -> tuple[str, str, str]:
    sources = "  notes:\n    sql: sqlite:///specs/notes.db\n"
    more = "sql:\n  notes: {tables: {notes: {}}, max_rows: 100}\n"
    return "notes", sources, _filled(_RULE.format(source="notes"), more, "deny")


def _of_description(path: Path, server: str | None) -> tuple[str, str, str]:
    """What the files say for a description: its credentials by their schemes, and a rule for what only reads."""
    resolved = path.resolve()
    manifest: Manifest = build_sources(from_specs((resolved.name,), resolved.parent)).manifest
    name, info = next(iter(manifest.sources.items()))
    lines = [f"  {name}:", f"    openapi: {_quoted(f'specs/{path.name}')}"]
    if server:
        lines.append(f"    server: {_quoted(server)}")
    if info.security_schemes:
        lines.append("    auth:  # from the environment; name what you have, and take out what you do not")
        lines += [
            f"      {_quoted(scheme)}: {_credential(found, _variable(name, scheme))}"
            for scheme, found in info.security_schemes.items()
        ]
    reads = any(tool.effect is Effect.READ for tool in manifest.tools.values())
    rules = _RULE.format(source=name) if reads else " []\n"
    return name, "\n".join(lines) + "\n", _filled(rules, "", "allow" if _is_local(server) else "deny")


def _filled(rules: str, more: str, private: str) -> str:
    """The policy, with everything but the key's digest in it."""
    text = _POLICY.format(digest="\0", rules=rules, more=more, private=private)
    return text.replace("{", "{{").replace("}", "}}").replace("\0", "{digest}")


def _credential(scheme: SecurityScheme, variable: str) -> str:
    """How toolgen.yaml names a credential of this kind."""
    match scheme.type:
        case "oauth2" | "openIdConnect":
            return f'{{token: "${{env:{variable}}}"}}'
        case "http" if scheme.scheme.lower() == "basic":
            return f'{{username: "${{env:{variable}_USER}}", password: "${{env:{variable}_PASSWORD}}"}}'
        case _:
            return f'"${{env:{variable}}}"'


def _quoted(text: str) -> str:
    """Text as YAML reads it back: bare where that is plain, in JSON's quotes otherwise."""
    return (
        text
        if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_./:-]*[A-Za-z0-9_/]", text) and ": " not in text
        else json.dumps(text)
    )


def _variable(source: str, scheme: str) -> str:
    letters = "".join(character if character.isalnum() and character.isascii() else "_" for character in scheme)
    return f"{source}_{letters}".upper()


def _is_local(server: str | None) -> bool:
    return bool(server) and any(mark in str(server) for mark in ("://127.", "://localhost", "://[::1]"))


def _write_notes(path: Path) -> None:
    connection = sqlite3.connect(path)
    try:
        connection.executescript(_NOTES)
    finally:
        connection.close()
