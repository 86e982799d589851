"""Command `toolgen mock`: it serves a description from its examples and schemas."""

from __future__ import annotations

from pathlib import Path

import click

from toolgen.cli.options import config
from toolgen.config.settings import from_specs
from toolgen.config.settings import load as load_settings
from toolgen.connectors.mock_service import MockService
from toolgen.connectors.registry import CONNECTORS
from toolgen.core.errors import ConfigError
from toolgen.core.spelling import nearest
from toolgen.frontends.server.applications import serve_application
from toolgen.model.names import SOURCE_NAME


@click.command()
@click.argument("spec", metavar="SPEC|SOURCE")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="HOST", help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8900,
    show_default=True,
    help="Port to listen on, 0 for a free one.",
)
@config
def command(spec: str, host: str, port: int, config_path: str) -> None:
    """Serve the OpenAPI description SPEC, or that of a SOURCE of toolgen.yaml, without the system it describes.

    A source is served with its overlays and its pinned documents, like in the build of its tools.

    Answers are the description's examples, or otherwise values that its schemas accept, and the same on every run. Required parameters and
    bodies are checked. A request's `Prefer: code=429` chooses the answer, `Prefer: example=NAME` the example. Set `server:` in toolgen.yaml
    to the address with `auth: none` to try every tool under the policy, without credentials.
    """
    mock = _mock(spec, config_path)
    if mock.skipped:
        click.echo(f"warning: {mock.skipped} operation(s) are invalid and not served", err=True)

    def ready(url: str) -> None:
        click.echo(f"toolgen mocks {mock.size} operations of {spec} on {url}", err=True)

    serve_application(mock, host=host, port=port, ready=ready)


def _mock(spec: str, config_path: str) -> MockService:
    """Return the mock of a source, or of a description. A name that is a file is a description."""
    if Path(spec).exists() or not SOURCE_NAME.match(spec):
        (source,) = from_specs((spec,), Path.cwd()).values()
    else:
        sources = load_settings(config_path).sources
        if spec not in sources:
            known = nearest(spec, sources) or f"; the sources are: {', '.join(sources)}"
            raise ConfigError(f"{spec!r} is neither a file nor a source{known}", where=config_path)
        source = sources[spec]
    mock = CONNECTORS[source.config.kind].mock(source.config)
    if mock is None:
        raise ConfigError(f"{spec} is {source.config.kind}; only OpenAPI descriptions can be served", where=spec)
    return mock
