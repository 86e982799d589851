"""Trials of the console: forms that another site sends in the name of the signed-in person."""

from __future__ import annotations

import hashlib
from collections.abc import MutableMapping
from http.cookies import SimpleCookie
from typing import Any, Final
from urllib.parse import urlencode

from toolgen.frontends.console import app as console_app
from toolgen.frontends.console.app import console_of
from toolgen.frontends.http.app import App
from toolgen.quality.doctor.scratch_gateway import scratch
from toolgen.quality.doctor.trial import RefusalChecks, UselessError

__all__ = ["CONSOLE_ATTEMPTS"]

CONSOLE_ATTEMPTS: Final = RefusalChecks()


_KEY: Final = "admins-own-key"


_ADMIN: Final = {"api_key": f"sha256:{hashlib.sha256(_KEY.encode()).hexdigest()}", "roles": ["admin"]}


_FORGED: Final = {
    "/console/pauses": {"principal": "admin", "reason": "forged"},
    "/console/sign-out": {},
}


@CONSOLE_ATTEMPTS.add(
    "CSRF",
    "forms without the token of their session were refused",
    console_app,
    "_check_form",
    lambda _, form: dict(form),
)
async def _forged_forms() -> str:
    policy: dict[str, Any] = {"principals": {"admin": _ADMIN}, "rules": [], "approvals": None}
    async with scratch(policy=policy, console={"admins": ["admin"]}) as place:
        app = App(place.gateway)
        app.open_console(lambda authentication: console_of(place.gateway, authentication))
        browser = _Browser(app)
        try:
            await browser.sign_in(_KEY)
            for path, form in _FORGED.items():
                for token in ({}, {"form_token": ""}, {"form_token": "forged"}):
                    status, _ = await browser.post(path, {**form, **token})
                    if status != 403:
                        return f"a form without its session's token was taken at {path} (status {status})"
        finally:
            await app.close()
    return ""


class _Browser:
    """Client of an application in this process that keeps its cookies."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._cookies: dict[str, str] = {}

    async def sign_in(self, key: str) -> None:
        """Sign in. Raises `UselessError` if the key does not open the console."""
        _, page = await self._ask("GET", "/console/sign-in", {})
        token = page.partition('name="form_token" value="')[2].partition('"')[0]
        status, _ = await self.post("/console/sign-in", {"credential": key, "form_token": token})
        shown, _ = await self._ask("GET", "/console/pauses", {})
        if (status, shown) != (200, 200):
            raise UselessError(f"nobody could sign in to the console (status {status}, then {shown})")

    async def post(self, path: str, form: dict[str, str]) -> tuple[int, str]:
        """Return the status and the page of the answer to a form."""
        return await self._ask("POST", path, form)

    async def _ask(self, method: str, path: str, form: dict[str, str]) -> tuple[int, str]:
        body = urlencode(form).encode()
        cookie = "; ".join(f"{name}={value}" for name, value in self._cookies.items())
        headers = [(b"host", b"localhost"), (b"content-type", b"application/x-www-form-urlencoded")]
        headers += [(b"content-length", str(len(body)).encode()), (b"cookie", cookie.encode())]
        scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": headers}
        sent: list[MutableMapping[str, Any]] = []

        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        await self._app({**scope, "client": ("127.0.0.1", 1)}, receive, send)
        for name, value in sent[0]["headers"]:
            if name == b"set-cookie":
                self._cookies |= {one.key: one.value for one in SimpleCookie(value.decode()).values()}
        page = b"".join(message.get("body", b"") for message in sent[1:])
        return int(sent[0]["status"]), page.decode("utf-8", "replace")
