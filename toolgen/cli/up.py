"""Command `toolgen up`: it makes a running gateway from a description in one step."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

import click
from msgspec.structs import replace

from toolgen.cli.build import build_project
from toolgen.cli.completed import PRINCIPAL_NAME
from toolgen.cli.greeting import ShownKey, greeting, snippet
from toolgen.cli.init import describe
from toolgen.cli.new_project import make_project
from toolgen.cli.options import KEY_VARIABLE, config, default_principal, logs
from toolgen.config.policies import SECTIONS
from toolgen.config.settings import Settings
from toolgen.config.settings import load as load_settings
from toolgen.connectors.registry import CONNECTORS
from toolgen.connectors.source import SourceSettings
from toolgen.core.errors import ConfigError
from toolgen.frontends.python.gateway import Gateway
from toolgen.frontends.server.applications import served_in_thread
from toolgen.frontends.server.http import Front, serve
from toolgen.frontends.server.logs import Logs
from toolgen.gateway.catalog.served_catalog import catalog_of
from toolgen.gateway.policies.policy_reloader import file_states
from toolgen.generator.build import build_sources
from toolgen.generator.starter import PRINCIPAL
from toolgen.model.manifest import Manifest
from toolgen.model.secret import Unprinted
from toolgen.policy.credentials import ApiKey, PrincipalEntry
from toolgen.policy.document.policy import Policy, PolicyReader, load_credentials
from toolgen.policy.document.policy_files import PolicyFiles, read_files
from toolgen.policy.egress import Place
from toolgen.policy.key_list import new_key

_REVIEWER = "reviewer"


@click.command()
@click.argument("specs", nargs=-1, metavar="[FILE|URL|DATABASE]...")
@click.option(
    "--mock", is_flag=True, help="Answer calls from the examples and schemas of descriptions, without the real systems."
)
@click.option(
    "--as",
    "principal",
    type=PRINCIPAL_NAME,
    metavar="PRINCIPAL",
    help="Principal of the key; default: the policy's only principal.",
)
@click.option("--host", metavar="HOST", help="Address to listen on; default: gateway.host.")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Port to listen on, 0 for a free one; default: gateway.port."
)
@logs
@config
def command(
    specs: tuple[str, ...],
    mock: bool,
    principal: str | None,
    host: str | None,
    port: int | None,
    logs: Logs,
    config_path: str,
) -> None:
    """Build the project and serve it, with a key that is valid while it runs.

    Without a project, one is made from the given descriptions, like by `toolgen init`. With --mock, OpenAPI sources are answered from their
    examples and schemas: no credential is sent, and no other address is contacted for them. The key of the run is in no file. If
    TOOLGEN_KEY has a key of the policy, that one is printed instead.
    """
    made = _made(specs, config_path, mock=mock)
    if not mock and not build_project(config_path):
        raise SystemExit(1)
    settings = load_settings(config_path)
    for warning in settings.warnings:
        click.echo(f"warning: {warning}", err=True)
    with contextlib.ExitStack() as stack:
        services = stack.enter_context(_mocks(settings)) if mock else {}
        keys = _keys(settings, principal, made)
        gateway = _gateway(settings, services, [key.entry for key in keys if not key.lasting])

        def ready(url: str) -> None:
            for line in greeting(gateway, url, keys=[key.shown for key in keys], mocked=services):
                click.echo(line, err=line.startswith("toolgen "))
            click.echo(f"\nfor MCP clients, with the key in {KEY_VARIABLE}:\n{snippet(url)}")

        port = settings.port if port is None else port
        serve(gateway, host=host or settings.host, port=port, front=Front.of(settings), ready=ready)


class _Key(Unprinted, frozen=True):
    """Key of this run. `lasting`: it is also in the policy's files."""

    principal: str
    key: str
    digest: str
    lasting: bool = False

    @property
    def shown(self) -> ShownKey:
        until = "shown only once" if self.lasting else "until this process ends"
        return ShownKey(self.principal, self.key, until)

    @property
    def entry(self) -> tuple[str, ApiKey]:
        return self.principal, ApiKey(sha256=self.digest, where="this run:0")


def _made(specs: Sequence[str], config_path: str, *, mock: bool) -> str:
    """Make a project if there is none; return the key of a new one. Raises `ConfigError` if there is another project."""
    there = Path(config_path).exists()
    if specs and there:
        raise ConfigError(
            "is a project already, with sources of its own",
            where=config_path,
            suggestion="run `toolgen up` without a description",
        )
    if not specs and not there:
        raise ConfigError(
            "there is no such file", where=config_path, suggestion="name what to serve: toolgen up FILE|URL|DATABASE"
        )
    if not specs:
        return ""
    made = make_project(Path(config_path).parent, specs)
    describe(made, wants=not mock)
    return made.key


@contextlib.contextmanager
def _mocks(settings: Settings) -> Iterator[Mapping[str, str]]:
    """Serve a mock of each source that can be mocked; return their URLs."""
    with contextlib.ExitStack() as stack:
        described = {
            name: mock
            for name, source in settings.sources.items()
            if (mock := CONNECTORS[source.config.kind].mock(source.config)) is not None
        }
        if not described:
            raise ConfigError(
                "no source has an OpenAPI description, and only these can be mocked", where=str(settings.path)
            )
        yield {name: stack.enter_context(served_in_thread(mock)) for name, mock in described.items()}


def _gateway(settings: Settings, services: Mapping[str, str], keys: Sequence[tuple[str, ApiKey]]) -> Gateway:
    """Return the gateway of this run."""
    state = file_states(settings)
    if services:
        sources = {
            name: _mocked(source, services[name]) if name in services else source
            for name, source in settings.sources.items()
        }
        settings = replace(settings, sources=MappingProxyType(sources))
        manifest = build_sources(settings.sources, settings.overrides).manifest
    else:
        manifest = catalog_of(settings)

    files = read_files(settings.policies)

    class RunPolicyReader(PolicyReader):
        """Reader of the project's policy that adds the keys of this run."""

        def read(self, files: PolicyFiles, manifest: Manifest) -> Policy:
            return _policy(super().read(files, manifest), settings, keys, services)

    reader, state = RunPolicyReader(settings.policies, settings.labels, SECTIONS), replace(state, files=files)
    return Gateway(
        settings=settings, manifest=manifest, policy=reader.read(files, manifest), state=state, reader=reader
    )


def _mocked(source: SourceSettings, url: str) -> SourceSettings:
    return replace(source, auth=MappingProxyType({}), config=replace(source.config, server=url, anonymous=True))


def _keys(settings: Settings, principal: str | None, made: str) -> Sequence[_Key]:
    """Return a key for the principal, unless it has one from `init` or the environment, and one for the user of the console."""
    found = load_credentials(settings.policies)
    viewers = [entry.id for entry in found.principals.values() if entry.roles & settings.console.viewers]
    callers = tuple(name for name in found.principals if name not in viewers) or tuple(found.principals)
    wanted = [next(iter(viewers), _REVIEWER)] if settings.console.viewers else []
    keys = [_Key(name, *new_key()) for name in wanted]
    if made:
        return [_Key(PRINCIPAL, made, _digest(made), lasting=True), *keys]
    shown = _digest(os.environ.get(KEY_VARIABLE, ""))
    if any(key.sha256 == shown for entry in found.principals.values() for key in entry.keys):
        return keys
    return [_Key(default_principal(callers, principal), *new_key()), *keys]


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def _policy(
    policy: Policy, settings: Settings, keys: Sequence[tuple[str, ApiKey]], services: Mapping[str, str]
) -> Policy:
    """Return the policy of the files with the keys of this run; a mocked source may connect only to its mock."""
    entries = dict(policy.credentials.principals)
    for name, key in keys:
        entry = entries.get(name) or _reviewer(name, settings.console.viewers)
        entries[name] = replace(entry, keys=(*entry.keys, key))
    credentials = replace(policy.credentials, principals=MappingProxyType(entries))
    places = {name: _place(url) for name, url in services.items()}
    egress = policy.egress
    if places:
        narrowed = {**egress.sources, **{name: frozenset({place}) for name, place in places.items()}}
        egress = replace(egress, allow=egress.allow | set(places.values()), sources=MappingProxyType(narrowed))
    return replace(policy, credentials=credentials, egress=egress)


def _place(url: str) -> Place:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or 0


def _reviewer(name: str, roles: frozenset[str]) -> PrincipalEntry:
    """Return the principal for the console of this run, which may call nothing."""
    return PrincipalEntry(id=name, keys=(), roles=roles, attributes=MappingProxyType({}), acts_for=frozenset())
