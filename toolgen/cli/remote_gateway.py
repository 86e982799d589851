"""Client of the REST interface of a remote gateway, with the key of its user."""

from __future__ import annotations

import os
import ssl
from typing import Any
from urllib.parse import urlsplit

import click
import httpx

from toolgen.cli.output import printable
from toolgen.connectors.references import is_loopback
from toolgen.core.errors import ConfigError, ToolgenError, connection_failure

__all__ = ["KEY", "alone", "request", "url_option"]

KEY = "TOOLGEN_KEY"
_TIMEOUT_S = 30.0

url_option = click.option("--url", metavar="URL", help=f"URL of a remote gateway; the key is read from {KEY}.")


def alone(principal: str | None) -> None:
    if principal is not None:
        raise click.UsageError(f"with --url the key in {KEY} identifies the principal, so --as is not allowed")


def request(method: str, url: str, path: str, body: object = None) -> Any:
    """Send a request to a gateway's REST interface. The key is only sent to this URL: no proxy, no redirect."""
    key = os.environ.get(KEY, "")
    if not key or not key.isascii() or not key.isprintable():
        raise ConfigError(f"the environment has no usable key in {KEY}", suggestion="set it to your own key")
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError as error:
        raise ConfigError("--url is not a URL") from error
    if parts.scheme not in {"http", "https"} or not host or parts.username or parts.query or parts.fragment:
        raise ConfigError("--url must be like https://gateway.example, without user, query and fragment")
    if parts.scheme == "http" and not is_loopback(host):
        raise ConfigError("a key is not sent over plain http", suggestion="use https")
    try:
        tls = ssl.create_default_context()
        with httpx.Client(verify=tls, trust_env=False, follow_redirects=False, timeout=_TIMEOUT_S) as client:
            answer = client.request(
                method, url.rstrip("/") + path, json=body, headers={"authorization": f"Bearer {key}"}
            )
        told = answer.json()
    except httpx.HTTPError as error:
        reason, suggestion = connection_failure(error)
        raise ConfigError(f"the gateway cannot be reached: {reason}", where=url, suggestion=suggestion) from error
    except ValueError as error:
        raise ConfigError("the server at this URL is not a gateway", where=url) from error
    if answer.status_code != 200:
        refusal = told.get("error") if isinstance(told, dict) else None
        said = refusal if isinstance(refusal, dict) else {}
        message = printable(str(said.get("message", f"the gateway answered {answer.status_code}")))
        raise ToolgenError(message, suggestion=printable(str(said.get("suggestion", ""))))
    return told
