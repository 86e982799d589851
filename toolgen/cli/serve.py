"""`toolgen serve`: the gateway behind MCP and REST."""

from __future__ import annotations

import click

from toolgen.cli.call import Caller, caller
from toolgen.cli.options import config
from toolgen.gateway.service import Gateway
from toolgen.server.http import Front, check_reach, serve, serve_stdio
from toolgen.server.supervisor import check_workers, serve_workers


@click.command()
@click.option("--stdio", is_flag=True, help="Speak MCP over standard input and output instead of HTTP.")
@caller
@click.option("--host", metavar="HOST", help="Address to listen on; gateway.host by default.")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Port to listen on, 0 for a free one; gateway.port by default."
)
@click.option("--workers", type=int, help="Processes that share the port; gateway.workers by default.")
@config
def command(
    stdio: bool, caller: Caller, host: str | None, port: int | None, workers: int | None, config_path: str
) -> None:
    """Serve the project's tools over MCP (/mcp) and REST (/v1). With --stdio, --as says whom the client is."""
    gateway = Gateway.load(config_path)
    for warning in gateway.settings.warnings:
        click.echo(f"warning: {warning}", err=True)
    if stdio and workers is not None:
        raise click.UsageError("--workers share a port, and --stdio has none")
    if stdio:
        serve_stdio(gateway, caller.principal(gateway))
    elif caller.name or caller.user:
        raise click.UsageError("--as and --on-behalf-of go with --stdio; over HTTP each caller shows its own key")
    else:
        _listen(gateway, host, port, workers)


def _listen(gateway: Gateway, host: str | None, port: int | None, workers: int | None) -> None:
    settings = gateway.settings
    host, port = host or settings.host, settings.port if port is None else port
    count = settings.workers if workers is None else workers
    check_workers(settings, count)
    if count == 1:
        serve(gateway, host=host, port=port, front=Front.of(settings))
        return
    check_reach(gateway, host)
    if not serve_workers(settings, host=host, port=port, count=count):
        raise SystemExit(1)
