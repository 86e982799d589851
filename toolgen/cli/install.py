"""Command `toolgen install`: the gateway in the settings of an MCP client, and the report of `doctor` about it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import click

from toolgen.audit.index.row import RecordFilter
from toolgen.cli.bundle import bundle_of
from toolgen.cli.bundled_project import databases_of
from toolgen.cli.clients import CLIENTS, Server, contains, edited
from toolgen.cli.completed import PRINCIPAL_NAME
from toolgen.cli.options import KEY_VARIABLE, config, default_principal
from toolgen.config.settings import Settings
from toolgen.config.settings import load as load_settings
from toolgen.core.descriptors import replace_file
from toolgen.core.errors import ConfigError, ToolgenError
from toolgen.core.files import read_file
from toolgen.gateway.audit.reader import index_of
from toolgen.model.secret import SecretReference
from toolgen.policy.document.policy import load_credentials

__all__ = ["connections", "note_client"]

_MAX_SIZE = 4 * 1024 * 1024
_FOLDER = "clients"
_BUNDLED = "claude-desktop"


@click.command()
@click.argument("client", type=click.Choice(list(CLIENTS)), metavar="|".join(CLIENTS))
@click.option(
    "--as",
    "principal",
    type=PRINCIPAL_NAME,
    metavar="PRINCIPAL",
    help="Principal of the client; default: the policy's only principal.",
)
@click.option(
    "--url", default="", metavar="URL", help="URL of a running gateway; without it the client starts its own."
)
@click.option("--name", default="toolgen", show_default=True, help="Name of the server in the client.")
@click.option("--file", "path", metavar="FILE", help="Settings file of the client, if it is not at its usual place.")
@click.option("--print", "only_print", is_flag=True, help="Print the new content of the file, and change nothing.")
@click.option("--uninstall", is_flag=True, help="Remove the entry.")
@click.option(
    "--bundle", metavar="FILE", help="Write a bundle (.mcpb) that Claude Desktop installs, and change no settings."
)
@config
def command(
    client: str,
    principal: str | None,
    url: str,
    name: str,
    path: str | None,
    only_print: bool,
    uninstall: bool,
    bundle: str | None,
    config_path: str,
) -> None:
    """Add the gateway to the servers of an MCP client.

    The client starts `toolgen serve --stdio` by its absolute path. With --url it uses a running gateway, with a key that it reads from the
    variable TOOLGEN_KEY (VS Code asks for it). No key is written, other entries stay, and the former file is kept.
    """
    chosen = CLIENTS[client]
    if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
        raise click.BadParameter("must be letters, digits, - and _", param_hint="--name")
    if bundle is not None:
        if client != _BUNDLED or url or path or only_print or uninstall:
            raise click.UsageError(f"--bundle is only for {_BUNDLED}, with --as")
        _bundle(load_settings(config_path), principal, Path(bundle))
        return
    file = Path(path) if path else chosen.path()
    settings = None if uninstall else load_settings(config_path)
    server = None if settings is None else _server(settings, client, principal, url.rstrip("/").removesuffix("/mcp"))
    before = _text(file)
    try:
        after = edited(chosen, before, name, server, str(file))
    except ConfigError as error:
        if not only_print or server is None:
            raise
        click.echo(f"{error.where}: cannot be edited here; put this into the file", err=True)
        after = edited(chosen, "", name, server, str(file))
    if only_print:
        click.echo(after, nl=False)
        return
    if after == before or (uninstall and not contains(chosen, before, name)):
        click.echo(f"{file} is up to date: nothing was changed", err=True)
    else:
        backup = _write(file, after)
        click.echo(f"wrote {file}" + (f"; former content: {backup}" if backup else ""), err=True)
    if settings is not None:
        _remember(
            settings, client, {"file": str(file.resolve()), "name": name, "url": url, "as": _who(settings, principal)}
        )
        if chosen.note:
            click.echo(chosen.note, err=True)
        if url:
            click.echo(f"the key is read from {KEY_VARIABLE}: `toolgen keys new PRINCIPAL` makes one", err=True)
        click.echo(f"next: restart {chosen.title}; then `toolgen doctor` shows if it connected", err=True)


def _bundle(settings: Settings, principal: str | None, path: Path) -> None:
    bundle = bundle_of(settings, _who(settings, principal), _BUNDLED)
    try:
        path.write_bytes(bundle)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", where=str(path)) from error
    for name in databases_of(settings):
        click.echo(f"sources.{name}: the bundle has a copy of the database", err=True)
    click.echo(f"wrote {path}; open it with {CLIENTS[_BUNDLED].title}, on any machine", err=True)


def note_client(settings: Settings, client: str) -> None:
    """Note for `doctor` that this client started a gateway. A failed note does not prevent serving."""
    file = settings.state_dir / _FOLDER / f"{client}.json"
    if client in CLIENTS and file.is_file():
        _remember(settings, client, {**_remembered(file), "seen": _now()})


def connections(settings: Settings) -> Iterator[str]:
    """Return a sentence for each client that was installed for this project."""
    for client, chosen in CLIENTS.items():
        said = _remembered(settings.state_dir / _FOLDER / f"{client}.json")
        if not said:
            continue
        file = Path(said.get("file", ""))
        if not contains(chosen, _text(file), said.get("name", "")):
            yield f"{chosen.title}: no longer in {file}"
        elif seen := said.get("seen") or (_last_call(settings, said.get("as", "")) if said.get("url") else ""):
            yield f"{chosen.title}: connected at {seen}"
        else:
            yield f"{chosen.title}: configured in {file}, not yet seen"


def _server(settings: Settings, client: str, principal: str | None, url: str) -> Server:
    who = _who(settings, principal)
    if url:
        if not url.startswith(("http://", "https://")):
            raise click.BadParameter("must be an http(s) URL", param_hint="--url")
        return Server(url=url, key=KEY_VARIABLE)
    program = Path(sys.executable).with_name("toolgen")
    start = [str(program)] if program.is_file() else [sys.executable, "-m", "toolgen"]
    arguments = ["serve", "--stdio", "--as", who, "--client", client, "--config", str(settings.path)]
    return Server(command=(*start, *arguments), variables=tuple(_variables(settings)))


def _who(settings: Settings, principal: str | None) -> str:
    known = load_credentials(settings.policies).principals
    if principal is not None and principal not in known:
        raise ConfigError(f"the policy has no principal '{principal[:60]}'", suggestion="see `toolgen keys list`")
    return default_principal(tuple(known), principal)


def _variables(settings: Settings) -> Iterator[str]:
    """Return the environment variables that the project's credentials are read from."""
    found = dict.fromkeys(
        one.locator
        for source in settings.sources.values()
        for value in source.auth.values()
        for one in (value.values() if isinstance(value, Mapping) else (value,))
        if isinstance(one, SecretReference) and one.provider == "env"
    )
    yield from found


def _text(file: Path) -> str:
    try:
        return read_file(file, _MAX_SIZE).decode("utf-8-sig")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ConfigError(f"cannot be read: {reason}", where=str(file)) from error


def _write(file: Path, text: str) -> Path | None:
    """Replace a file atomically, with its mode, through links; return the copy of the former file, None if there was none."""
    target = file.resolve()
    backup = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        staged = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        staged.touch(mode=0o600)
        if target.exists():
            if not os.access(target, os.W_OK):
                raise ConfigError(
                    "is read-only, so nothing was changed",
                    where=str(file),
                    suggestion="make it writable, or paste the output of --print",
                )
            backup = target.with_name(f"{target.name}.{datetime.now(UTC):%Y%m%dT%H%M%S%f}.bak")
            shutil.copy2(target, backup)
            shutil.copymode(target, staged)
        staged.write_text(text, encoding="utf-8")
        replace_file(staged, target)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", where=str(file)) from error
    return backup


def _remember(settings: Settings, client: str, said: Mapping[str, str]) -> None:
    folder = settings.state_dir / _FOLDER
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (folder / f"{client}.json").write_text(json.dumps(said), encoding="utf-8")
    except OSError:
        return


def _remembered(file: Path) -> dict[str, str]:
    try:
        said = json.loads(_text(file) or "{}")
    except (ValueError, ToolgenError):
        return {}
    return {str(key): str(value) for key, value in said.items()} if isinstance(said, dict) else {}


def _last_call(settings: Settings, principal: str) -> str:
    """Return the time of the newest recorded call of a principal that did not come from the command line; "" for never."""
    try:
        with index_of(settings) as index:
            index.fill()
            rows = index.entries(RecordFilter(principal=principal, event="intent"), limit=100).rows
    except ToolgenError:
        return ""
    return max((str(row["time"]) for row in rows if row.get("client", "") != "toolgen-cli"), default="")


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
