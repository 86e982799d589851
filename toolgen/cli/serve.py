"""Command `toolgen serve`: the gateway with MCP and REST."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from urllib.parse import urlsplit

import click

from toolgen.cli.caller_options import CommandCaller, caller
from toolgen.cli.greeting import greeting
from toolgen.cli.install import note_client
from toolgen.cli.options import config, logs
from toolgen.config.gateway import mount_of
from toolgen.config.settings import ListenerSettings, load_tenants
from toolgen.core.errors import ConfigError
from toolgen.frontends.python.gateway import Gateway
from toolgen.frontends.server.http import (
    Front,
    check_reach,
    say_ready,
    serve,
    serve_site,
    serve_stdio,
    tenants_site,
)
from toolgen.frontends.server.logs import Logs
from toolgen.frontends.server.supervisor import check_workers, serve_workers
from toolgen.frontends.server.tenants import shared_keys
from toolgen.gateway.protocol import Administration


@click.command()
@click.option("--stdio", is_flag=True, help="Serve MCP over standard input and output instead of HTTP.")
@click.option("--client", default="", hidden=True, help="Client for which `toolgen install` wrote this command.")
@caller
@click.option("--host", metavar="HOST", help="Address to listen on; default: gateway.host.")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Port to listen on, 0 for a free one; default: gateway.port."
)
@click.option("--workers", type=int, help="Processes that share the port; default: gateway.workers.")
@logs
@config
def command(
    stdio: bool,
    client: str,
    caller: CommandCaller,
    host: str | None,
    port: int | None,
    workers: int | None,
    logs: Logs,
    config_path: str,
) -> None:
    """Serve the project's tools over MCP (/mcp) and REST (/v1). With --stdio, --as names the principal of the client."""
    over_http = not (stdio or caller.name or caller.user)
    if over_http and (tenants := load_tenants(config_path)) is not None:
        _listen_for(tenants, host, port, workers, logs)
        return
    gateway = Gateway.load(config_path, serving=True)
    for warning in gateway.settings.warnings:
        click.echo(f"warning: {warning}", err=True)
    if stdio and workers is not None:
        raise click.UsageError("--workers needs a port, and --stdio has none")
    if stdio:
        note_client(gateway.settings, client)
        serve_stdio(gateway, caller.principal(gateway))
    elif caller.name or caller.user:
        raise click.UsageError("--as and --on-behalf-of are only for --stdio; over HTTP each caller sends its own key")
    else:
        _listen(gateway, host, port, workers, logs)


def _listen(gateway: Administration, host: str | None, port: int | None, workers: int | None, logs: Logs) -> None:
    settings = gateway.settings
    if urlsplit(settings.url).path and not mount_of(settings.url):
        raise ConfigError(
            "gateway.url: is the address of a tenant, and this command serves the project alone",
            where=str(settings.path),
            suggestion="serve the file that lists it under `tenants`, or remove the path of the address",
        )
    host, port = host or settings.host, settings.port if port is None else port
    count = settings.workers if workers is None else workers
    check_workers(count)
    if count == 1:
        ready = partial(_greet, gateway) if logs[0] == "text" else say_ready
        serve(gateway, host=host, port=port, front=Front.of(settings), ready=ready)
        return
    check_reach(gateway, host)
    if not serve_workers(settings, host=host, port=port, count=count, logs=logs):
        raise SystemExit(1)


def _listen_for(tenants: ListenerSettings, host: str | None, port: int | None, workers: int | None, logs: Logs) -> None:
    """Serve all tenants of a file."""
    host, port = host or tenants.host, tenants.port if port is None else port
    count = tenants.workers if workers is None else workers
    check_workers(count)
    site = tenants_site(tenants, host)
    projects = {name: gateway.settings for name, gateway in site.gateways.items()}
    for warning in _warnings(site.gateways):
        click.echo(f"warning: {warning}", err=True)
    if count > 1:
        del site  # this process only supervises
        if not serve_workers(tenants, host=host, port=port, count=count, projects=projects, logs=logs):
            raise SystemExit(1)
    else:
        serve_site(site, host=host, port=port, front=Front.of(tenants), ready=partial(_greet_tenants, tuple(projects)))


def _warnings(gateways: Mapping[str, Gateway]) -> Iterator[str]:
    """Yield the warnings of all tenants, and keys that two of them know."""
    for name, gateway in gateways.items():
        yield from (f"tenant {name}: {warning}" for warning in gateway.settings.warnings)
    yield from shared_keys(gateways)


def _greet_tenants(names: tuple[str, ...], url: str) -> None:
    say_ready(url)
    for name in names:
        click.echo(f"  tenant      {url}/t/{name}/mcp", err=True)


def _greet(gateway: Administration, url: str) -> None:
    """Print the start message; programs wait for its first line."""
    for line in greeting(gateway, url):
        click.echo(line, err=True)
