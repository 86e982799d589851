"""Connection of the authorization server with an HTTP application."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from toolgen.frontends.http.app import App
from toolgen.gateway.protocol import Administration

if TYPE_CHECKING:
    from toolgen.gateway.sign_in.server import SignInServer

__all__ = ["open_sign_in"]


def open_sign_in(app: App, server: SignInServer | None, gateway: Administration) -> None:
    """Serve the authorization server of a gateway, if it has one."""
    if server is not None:
        from toolgen.frontends.sign_in.endpoints import sign_in_of  # noqa: PLC0415 - where people sign in through the gateway

        app.open_sign_in(partial(sign_in_of, server, gateway))
