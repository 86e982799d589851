"""`toolgen mock`: serves a description from its examples and schemas."""

from __future__ import annotations

from pathlib import Path

import click

from toolgen.mock.app import MockApp
from toolgen.mock.description import Description
from toolgen.mock.server import serve_mock


@click.command()
@click.argument("spec", metavar="SPEC")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="HOST", help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8900,
    show_default=True,
    help="Port to listen on, 0 for a free one.",
)
def command(spec: str, host: str, port: int) -> None:
    """Serve the OpenAPI description SPEC without the system it describes.

    Answers are the description's examples, or else values its schemas accept, and the same on every run. Required parameters and bodies
    are checked. A request's `Prefer: code=429` chooses the answer, `Prefer: example=NAME` the example. Point `server:` in toolgen.yaml at
    the address and say `auth: none` there, and every tool can be tried, governed and without credentials.
    """
    description = Description(Path(spec))
    if description.skipped:
        click.echo(f"warning: {description.skipped} operation(s) are too broken to be served", err=True)
    serve_mock(MockApp(description), host=host, port=port, title=f"{description.size} operations of {spec}")
