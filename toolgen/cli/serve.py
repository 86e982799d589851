"""`toolgen serve`: the gateway behind MCP and REST."""

from __future__ import annotations

import click

from toolgen.cli.options import config, default_principal
from toolgen.gateway.service import Gateway
from toolgen.serve import serve, serve_stdio


@click.command()
@click.option("--stdio", is_flag=True, help="Speak MCP over standard input and output instead of HTTP.")
@click.option("--as", "principal", metavar="PRINCIPAL", help="With --stdio: whom the client is.")
@click.option("--on-behalf-of", metavar="PRINCIPAL", help="With --stdio: whom the client acts for.")
@click.option("--host", metavar="HOST", help="Address to listen on; gateway.host by default.")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Port to listen on, 0 for a free one; gateway.port by default."
)
@config
def command(
    stdio: bool, principal: str | None, on_behalf_of: str | None, host: str | None, port: int | None, config_path: str
) -> None:
    """Serve the project's tools over MCP (/mcp) and REST (/v1)."""
    gateway = Gateway.load(config_path)
    for warning in gateway.settings.warnings:
        click.echo(f"warning: {warning}", err=True)
    if stdio:
        serve_stdio(gateway, gateway.principal(default_principal(gateway.principals, principal), on_behalf_of))
    elif principal or on_behalf_of:
        raise click.UsageError("--as and --on-behalf-of go with --stdio; over HTTP each caller shows its own key")
    else:
        settings = gateway.settings
        serve(
            gateway,
            host=host or settings.host,
            port=settings.port if port is None else port,
            certificates=settings.client_certificates,
        )
