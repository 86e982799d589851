"""Which credentials a request needs, and putting them on it: as late as possible, and masked for a dry run."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import unquote_plus

from toolgen.errors import SecretError
from toolgen.execute.http.styles import UnbindableError, percent
from toolgen.execute.http.wire import Request
from toolgen.execute.secrets import MASK, SecretReference, Secrets
from toolgen.model.manifest import SecurityScheme

__all__ = ["Credentials", "Signed"]

_HEADER_UNSAFE = re.compile(r"[^\x21-\x7e\x80-\uffff \t]")
_COOKIE_UNSAFE = re.compile(r'[\x00-\x20\x7f",;\\]|[^\x00-\x7f]')
_BETWEEN = re.compile(r"[\s;,=]+")
_SHORTEST_PART = 8  # shorter ones are words like Bearer
_TOKEN_SCHEMES = frozenset({"oauth2", "openIdConnect"})

Reveal = Callable[[SecretReference], str]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Signed:
    """A request with its credentials. `secrets` is every form in which an answer could echo one; none of it is ever printed."""

    request: Request
    secrets: tuple[str, ...]

    def __repr__(self) -> str:
        return "Signed(***)"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class _Shown:
    """One credential where it goes: `place` is header, query or cookie."""

    place: str
    name: str
    value: str
    secrets: tuple[str, ...]


class Credentials:
    """The credentials of one source. `auth` maps a scheme's name to a `SecretReference` or a mapping of them, as toolgen.yaml has it."""

    def __init__(self, *, schemes: Mapping[str, SecurityScheme], auth: Mapping[str, object], secrets: Secrets) -> None:
        self._schemes = schemes
        self._auth = auth
        self._secrets = secrets

    def choose(self, security: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
        """The first alternative whose schemes are all configured; `()` where none is needed, and for `{}` among them where none is.

        Their order means nothing (3.1.1, section 4.8.30), so a credential that is configured is sent. Raises `SecretError`, naming the
        schemes, when there is none.
        """
        if not security:
            return ()
        for option in security:
            if option and all(self._configured(name) for name in option):
                return option
        if () in security:
            return ()
        wanted = " or ".join(" and ".join(option) for option in security)
        raise SecretError(
            f"the operation needs a credential for {wanted}, and none that toolgen can send is configured",
            suggestion="set it under `auth:` of the source in toolgen.yaml",
        )

    def sign(self, request: Request, option: tuple[str, ...]) -> Signed:
        """Resolves the secrets and puts them on the request.

        Raises `SecretError`, and `UnbindableError` where an argument already says what a credential says.
        """
        return self._sign(request, option, lambda reference: self._secrets.resolve(reference).reveal())

    def mask(self, request: Request, option: tuple[str, ...]) -> Request:
        """The same request with `***` for every secret; nothing is resolved."""
        return self._sign(request, option, lambda _: MASK).request

    def _configured(self, name: str) -> bool:
        scheme, written = self._schemes.get(name), self._auth.get(name)
        if scheme is None or written is None:
            return False
        if scheme.type == "apiKey":
            return _value(written) is not None
        if scheme.type == "http" and scheme.scheme == "basic":
            return _field(written, "username") is not None and _field(written, "password") is not None
        if scheme.type in _TOKEN_SCHEMES or (scheme.type == "http" and scheme.scheme == "bearer"):
            return _value(written) is not None
        return False

    def _sign(self, request: Request, option: tuple[str, ...], reveal: Reveal) -> Signed:
        secrets: list[str] = []
        seen: set[tuple[str, str]] = set()
        for name in option:
            shown = self._show(name, reveal)
            place = (shown.place, shown.name.lower() if shown.place == "header" else shown.name)
            if place in seen:
                raise SecretError(f"two security schemes of one operation both send the {shown.place} {shown.name}")
            seen.add(place)
            request = _put(request, shown)
            secrets.extend(shown.secrets)
        return Signed(request=request, secrets=tuple(dict.fromkeys(secret for secret in secrets if secret)))

    def _show(self, name: str, reveal: Reveal) -> _Shown:
        scheme, written = self._schemes[name], self._auth[name]
        if scheme.type == "http" and scheme.scheme == "basic":
            user, password = (
                _revealed(_field(written, "username"), reveal),
                _revealed(_field(written, "password"), reveal),
            )
            if MASK in (user, password):
                return _Shown(place="header", name="Authorization", value=f"Basic {MASK}", secrets=())
            if ":" in user:
                raise SecretError(f"the username for {name} holds a colon, which Basic authentication cannot send")
            token = base64.b64encode(f"{user}:{password}".encode()).decode()
            return _Shown(
                place="header",
                name="Authorization",
                value=f"Basic {token}",
                secrets=(password, percent(password), token),
            )
        secret = _revealed(_value(written), reveal)
        forms: tuple[str, ...] = (secret, percent(secret)) if secret != MASK else ()
        if scheme.type == "apiKey":
            _sendable(secret, scheme.in_, name)
            if scheme.in_ == "header":
                # Of `token abc` and `session=abc; other=def`, an answer may repeat a part.
                forms += tuple(part for part in _BETWEEN.split(secret) if len(part) >= _SHORTEST_PART)
            return _Shown(place=scheme.in_, name=scheme.name, value=secret, secrets=forms)
        _sendable(secret, "header", name)
        return _Shown(place="header", name="Authorization", value=f"Bearer {secret}", secrets=forms)


def _value(written: object) -> SecretReference | None:
    """A bare reference, or `{token: …}`."""
    return written if isinstance(written, SecretReference) else _field(written, "token")


def _field(written: object, name: str) -> SecretReference | None:
    value = written.get(name) if isinstance(written, Mapping) else None
    if isinstance(value, str) and name == "username":
        return SecretReference("literal", value)
    return value if isinstance(value, SecretReference) else None


def _revealed(reference: SecretReference | None, reveal: Reveal) -> str:
    if reference is None:
        raise SecretError("a credential is not configured")
    return reveal(reference)


def _sendable(secret: str, place: str, name: str) -> None:
    unsafe = {"header": _HEADER_UNSAFE, "cookie": _COOKIE_UNSAFE}.get(place)
    if (unsafe and unsafe.search(secret)) or (place == "header" and secret != secret.strip()):
        raise SecretError(f"the secret for {name} holds a character that cannot be sent in a {place}")


def _put(request: Request, shown: _Shown) -> Request:
    """Adds a credential. An argument that already says the same name is refused: the server might believe either."""
    taken = UnbindableError(
        f"an argument sets the {shown.place} {shown.name!r}, which belongs to the gateway's credential"
    )
    match shown.place:
        case "header":
            if any(name.lower() == shown.name.lower() for name, _ in request.headers):
                raise taken
            return replace(request, headers=(*request.headers, (shown.name, shown.value)))
        case "query":
            _, _, query = request.url.partition("?")
            if any(
                unquote_plus(pair.partition("=")[0]).casefold() == shown.name.casefold() for pair in query.split("&")
            ):
                raise taken
            value = shown.value if shown.value == MASK else percent(shown.value)
            separator = "&" if query else "" if request.url.endswith("?") else "?"
            return replace(request, url=f"{request.url}{separator}{percent(shown.name)}={value}")
        case _:
            cookies = [value for name, value in request.headers if name == "Cookie"]
            pairs = [pair for value in cookies for pair in value.split("; ")]
            if any(pair.partition("=")[0] == shown.name for pair in pairs):
                raise taken
            others = tuple(header for header in request.headers if header[0] != "Cookie")
            return replace(request, headers=(*others, ("Cookie", "; ".join([*pairs, f"{shown.name}={shown.value}"]))))
