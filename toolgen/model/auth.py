"""Configuration of a security scheme's credentials: a value, or a mapping that says how to obtain a credential. Parsed once, and
strictly."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from toolgen.core.errors import SecretError
from toolgen.core.spelling import nearest
from toolgen.model.excerpt import bounded
from toolgen.model.secret import SecretReference, parse_reference

__all__ = [
    "ID_JAG",
    "AuthError",
    "Basic",
    "CertificateSecrets",
    "EndpointTls",
    "Form",
    "OAuth",
    "ResourceAuthorizationServer",
    "SigV4",
    "UserAccount",
    "Value",
    "is_exchange",
    "literals",
    "parsed_auth",
    "read_form",
]

PLAIN = frozenset(
    {
        "account",
        "audience",
        "authentication",
        "authorization_url",
        "device_url",
        "in",
        "issuer",
        "key_id",
        "name",
        "provider",
        "region",
        "resource",
        "revocation_url",
        "service",
        "subject_token",
        "subject_token_type",
        "token_type",
        "token_url",
    }
)
"""Keys with literal text, never a reference."""
UNSECRET = frozenset({"username", "client_id", "access_key_id"})
"""Keys whose value may be a reference or literal text."""
_METHODS = ("client_secret_basic", "client_secret_post", "private_key_jwt", "tls_client_auth", "none")
_CLIENT = frozenset(
    {
        "client_id",
        "client_secret",
        "private_key",
        "key_id",
        "authentication",
        "tls",
        "token_url",
        "scopes",
        "audience",
        "resource",
        "dpop",
    }
)
_ACCOUNT_URLS = ("issuer", "authorization_url", "token_url", "revocation_url", "device_url")
_ACCOUNT = frozenset({"account", "provider", *_ACCOUNT_URLS})
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_TLS = frozenset({"certificate", "key", "authorities"})
_EXCHANGE = frozenset({"subject_token", "subject_token_type", "token_type", "issuer", "authorization_server"})
_SUBJECT_TYPES = ("access_token", "id_token")
_RESOURCE_SERVER = frozenset(
    {"issuer", "token_url", "client_id", "client_secret", "private_key", "key_id", "authentication"}
)
ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
"""Type of a token that one application presents to the authorization server of another (identity assertion authorization grant)."""


class Value(Struct, frozen=True, kw_only=True):
    """Credential that is sent unchanged: a key, or a token that another program refreshes."""

    value: SecretReference


class Basic(Struct, frozen=True, kw_only=True):
    """Basic authentication (RFC 7617)."""

    username: SecretReference
    password: SecretReference


class EndpointTls(Struct, frozen=True, kw_only=True):
    """TLS of a connection to a token endpoint: the client certificate with its key, and additional certificate authorities; all PEM."""

    certificate: SecretReference | None = None
    key: SecretReference | None = None
    authorities: SecretReference | None = None


class ResourceAuthorizationServer(Struct, frozen=True, kw_only=True):
    """Authorization server of an API, with the client that the gateway is there. It takes assertions of the identity provider (RFC 7523).

    `token_url` "" means the one in its metadata (RFC 8414).
    """

    issuer: str
    client_id: SecretReference
    authentication: str
    token_url: str = ""
    client_secret: SecretReference | None = None
    private_key: SecretReference | None = None
    key_id: str = ""


class OAuth(Struct, frozen=True, kw_only=True):
    """OAuth client that requests a token at a token endpoint (RFC 6749).

    `grant` is client_credentials, refresh_token, token_exchange (RFC 8693, for the caller's own token) or jwt_bearer (RFC 7523, for the
    `assertion` of a workload). `dpop`: tokens are bound to a key (RFC 9449). `token_url` "" means the
    description's, if that may decide it. `authentication` is the client's authentication method. With an `authorization_server`, the
    exchange at the identity provider `issuer` gives an assertion, which that server exchanges for the token. Without one, `issuer` is the
    audience of the assertion that a client with a private key signs.
    """

    grant: str
    authentication: str
    token_url: str = ""
    client_id: SecretReference | None = None
    client_secret: SecretReference | None = None
    private_key: SecretReference | None = None
    key_id: str = ""
    refresh_token: SecretReference | None = None
    assertion: SecretReference | None = None
    scopes: tuple[str, ...] = ()
    audience: str = ""
    resource: str = ""
    token_type: str = ""  # type of the token that an exchange requests
    subject_token_type: str = "access_token"  # noqa: S105 - a type
    issuer: str = ""
    authorization_server: ResourceAuthorizationServer | None = None
    tls: EndpointTls | None = None
    dpop: bool = False


class UserAccount(Struct, frozen=True, kw_only=True):
    """Account of the calling person at the authorization server of the system (RFC 6749 section 4.1, RFC 7636).

    `provider` names a preset, `issuer` a server with metadata (RFC 8414); explicit values take precedence over both. `dpop`: the tokens of
    each account are bound to a key of its own (RFC 9449).
    """

    client_id: SecretReference
    authentication: str
    authentication_given: bool = False
    client_secret: SecretReference | None = None
    private_key: SecretReference | None = None
    key_id: str = ""
    provider: str = ""
    issuer: str = ""
    authorization_url: str = ""
    token_url: str = ""
    revocation_url: str = ""
    device_url: str = ""
    scopes: tuple[str, ...] = ()
    audience: str = ""
    resource: str = ""
    tls: EndpointTls | None = None
    dpop: bool = False


class CertificateSecrets(Struct, frozen=True, kw_only=True):
    """Client certificate with its key, both PEM, and additional authorities for the server's own certificate."""

    certificate: SecretReference
    key: SecretReference
    authorities: SecretReference | None = None


class SigV4(Struct, frozen=True, kw_only=True):
    """AWS Signature Version 4."""

    access_key_id: SecretReference
    secret_access_key: SecretReference
    session_token: SecretReference | None
    region: str
    service: str


Form: TypeAlias = Value | Basic | OAuth | UserAccount | CertificateSecrets | SigV4


class AuthError(Exception):
    """Invalid reference. `path` leads to it from the scheme, "" for the scheme's own value."""

    def __init__(self, path: tuple[str, ...], message: str, suggestion: str) -> None:
        super().__init__(message)
        self.path = path
        self.message = message
        self.suggestion = suggestion


def parsed_auth(written: object) -> SecretReference | Mapping[str, object]:
    """Parse the configuration of a scheme in a project file, with its references. Raises `AuthError`."""
    if isinstance(written, str):
        return _parsed((), written)
    if not isinstance(written, Mapping):
        raise AuthError((), "must be text or a mapping", "")
    return MappingProxyType(
        {
            str(key): _inner(str(key), value) if isinstance(value, str | Mapping) and key not in PLAIN else value
            for key, value in written.items()
        }
    )


def _inner(key: str, value: str | Mapping[object, object]) -> object:
    if isinstance(value, str):
        return _parsed((key,), value)
    return {
        str(name): _parsed((key, str(name)), text) if isinstance(text, str) and name not in PLAIN else text
        for name, text in value.items()
    }


def literals(parsed: SecretReference | Mapping[str, object]) -> list[tuple[str, ...]]:
    """Return the places of literal secrets."""
    if isinstance(parsed, SecretReference):
        return [()] if parsed.provider == "literal" else []
    inner = [
        ((key, *path), value)
        for key, found in parsed.items()
        for path, value in (
            [((str(name),), text) for name, text in found.items()] if isinstance(found, Mapping) else [((), found)]
        )
    ]
    return [
        path
        for path, value in inner
        if isinstance(value, SecretReference) and value.provider == "literal" and path[-1] not in UNSECRET
    ]


def _parsed(path: tuple[str, ...], text: str) -> SecretReference:
    try:
        return parse_reference(text)
    except SecretError as error:
        raise AuthError(path, error.message, error.suggestion) from error


def read_form(written: object) -> Form:
    """Return the form of a scheme's configuration. Raises `ValueError` with a sentence about a key for an invalid combination."""
    if isinstance(written, SecretReference):
        return Value(value=written)
    if not isinstance(written, Mapping):
        raise ValueError("takes a value or a mapping")  # noqa: TRY004 - a fault of a file, as all the others here
    keys = {str(key) for key in written}
    if "value" in keys:  # a description without security schemes, for which `name` and `in` define one
        _only(keys, {"name", "in", "value"})
        return Value(value=_reference(written, "value"))
    if "token" in keys:
        _only(keys, {"token"})
        return Value(value=_reference(written, "token"))
    if "account" in keys:
        return _account(written, keys)
    if keys & {"username", "password"}:
        _only(keys, {"username", "password"})
        return Basic(username=_reference(written, "username"), password=_reference(written, "password"))
    if keys & _TLS:
        _only(keys, _TLS)
        return CertificateSecrets(
            certificate=_reference(written, "certificate"),
            key=_reference(written, "key"),
            authorities=_optional(written, "authorities"),
        )
    if keys & {"access_key_id", "secret_access_key"}:
        _only(keys, {"access_key_id", "secret_access_key", "session_token", "region", "service"})
        return SigV4(
            access_key_id=_reference(written, "access_key_id"),
            secret_access_key=_reference(written, "secret_access_key"),
            session_token=_optional(written, "session_token"),
            region=_text(written, "region", needed=True),
            service=_text(written, "service", needed=True),
        )
    return _oauth(written, keys)


def is_exchange(form: Form) -> bool:
    """Return True if the credential is obtained in exchange for the token of the caller."""
    return isinstance(form, OAuth) and form.grant == "token_exchange"


def _account(written: Mapping[str, object], keys: set[str]) -> UserAccount:
    _only(keys, _CLIENT | _ACCOUNT)
    if _text(written, "account") != "user":
        raise ValueError("account: takes the word user, for the account of the calling person")
    urls = {name: _address(written, name) for name in _ACCOUNT_URLS}
    both = bool(urls["authorization_url"]) and bool(urls["token_url"])
    if not (_text(written, "provider") or urls["issuer"] or both):
        raise ValueError("account: takes a provider, an issuer, or authorization_url and token_url beside it")
    secret, private, tls = _optional(written, "client_secret"), _optional(written, "private_key"), _tls(written)
    shown = tls is not None and tls.certificate is not None
    return UserAccount(
        client_id=_reference(written, "client_id"),
        authentication=_method(
            written, client=True, secret=secret is not None, private=private is not None, shown=shown
        ),
        authentication_given="authentication" in keys,
        client_secret=secret,
        private_key=private,
        key_id=_text(written, "key_id"),
        provider=_text(written, "provider"),
        scopes=_scopes(written),
        audience=_text(written, "audience"),
        resource=_text(written, "resource"),
        tls=tls,
        dpop=_flag(written, "dpop"),
        **urls,
    )


def _address(written: Mapping[str, object], name: str) -> str:
    """Return an address of an authorization server: https, because people sign in there and tokens come from it; http only for loopback."""
    text = _url(written, name)
    parts = urlsplit(text)
    if text and (not text.isascii() or not text.isprintable() or " " in text or "\\" in text):
        raise ValueError(f"{name}: contains a character that is not allowed in a URL")
    if text and parts.scheme != "https" and parts.hostname not in _LOOPBACK:
        raise ValueError(f"{name}: must be https; http is accepted only for loopback")
    return text


def _oauth(written: Mapping[str, object], keys: set[str]) -> OAuth:
    signs = "private_key" in keys and not keys & (_EXCHANGE - {"issuer"})
    exchange = bool(keys & _EXCHANGE) and not signs
    grant = _grant_of(keys, exchange=exchange)
    own = {
        "refresh_token": {"refresh_token"},
        "jwt_bearer": {"assertion"},
        "token_exchange": set(_EXCHANGE),
    }.get(grant, set())
    _only(keys, _CLIENT | own | ({"issuer"} if signs else set()))
    _address(written, "issuer")
    secret, private = _optional(written, "client_secret"), _optional(written, "private_key")
    if grant == "token_exchange" and _text(written, "subject_token") != "principal":
        raise ValueError("subject_token: takes the word principal, for the caller's own token")
    server = _resource_server(written, keys) if grant == "token_exchange" else None
    client, tls = _optional(written, "client_id"), _tls(written)
    shown = tls is not None and tls.certificate is not None
    if client is None and (grant == "client_credentials" or secret or private):
        raise ValueError("client_id: is missing")
    if (
        grant == "client_credentials"
        and secret is None
        and private is None
        and not (shown and "authentication" in keys)
    ):
        raise ValueError("client_secret: is missing")
    if grant == "refresh_token" and _flag(written, "dpop") and secret is None and private is None:
        raise ValueError(
            "dpop: the refresh token of a client without a secret is bound to the key that it was given for"
        )
    return OAuth(
        grant=grant,
        authentication=_method(
            written, client=client is not None, secret=secret is not None, private=private is not None, shown=shown
        ),
        token_url=_url(written),
        client_id=client,
        client_secret=secret,
        private_key=private,
        key_id=_text(written, "key_id"),
        refresh_token=_optional(written, "refresh_token"),
        assertion=_optional(written, "assertion"),
        scopes=_scopes(written),
        audience=_text(written, "audience") if server is None else server.issuer,
        resource=_text(written, "resource"),
        token_type=_text(written, "token_type") if server is None else ID_JAG,
        subject_token_type=_subject_type(written, usual="access_token" if server is None else "id_token"),
        issuer=_text(written, "issuer"),
        authorization_server=server,
        tls=tls,
        dpop=_flag(written, "dpop"),
    )


def _grant_of(keys: set[str], *, exchange: bool) -> str:
    if "refresh_token" in keys:
        return "refresh_token"
    if "assertion" in keys:
        return "jwt_bearer"
    return "token_exchange" if exchange else "client_credentials"


def _flag(written: Mapping[str, object], name: str) -> bool:
    value = written.get(name, False)
    if not isinstance(value, bool):
        raise ValueError(f"{name}: must be true or false")  # noqa: TRY004 - a fault of a file, as all the others here
    return value


def _subject_type(written: Mapping[str, object], usual: str) -> str:
    given = _text(written, "subject_token_type") or usual
    if given not in _SUBJECT_TYPES:
        raise ValueError(f"subject_token_type: '{bounded(given, 40)}' is none of {', '.join(_SUBJECT_TYPES)}")
    return given


def _resource_server(written: Mapping[str, object], keys: set[str]) -> ResourceAuthorizationServer | None:
    """Return the authorization server of the API that takes assertions of the identity provider, if one is configured."""
    given = written.get("authorization_server")
    if given is None:
        if "issuer" in keys:
            raise ValueError("issuer: belongs to an exchange with an authorization_server")
        return None
    if not isinstance(given, Mapping):
        raise ValueError("authorization_server: must be a mapping of issuer, client_id and its credential")  # noqa: TRY004
    if misplaced := sorted(keys & {"audience", "token_type"}):
        raise ValueError(f"{misplaced[0]}: is decided by the authorization_server")
    for name in ("issuer", "token_url"):
        if not _address(written, name):
            raise ValueError(f"{name}: is missing; it is that of the identity provider")
    inner = {str(key) for key in given}
    _only(inner, _RESOURCE_SERVER)
    if not _address(given, "issuer"):
        raise ValueError("authorization_server: issuer: is missing")
    secret, private = _optional(given, "client_secret"), _optional(given, "private_key")
    return ResourceAuthorizationServer(
        issuer=_address(given, "issuer"),
        token_url=_address(given, "token_url"),
        client_id=_reference(given, "client_id"),
        authentication=_method(given, client=True, secret=secret is not None, private=private is not None, shown=False),
        client_secret=secret,
        private_key=private,
        key_id=_text(given, "key_id"),
    )


def _tls(written: Mapping[str, object]) -> EndpointTls | None:
    given = written.get("tls")
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise ValueError("tls: must be a mapping of certificate and key, of authorities, or of all three")  # noqa: TRY004
    keys = {str(key) for key in given}
    _only(keys, _TLS)
    if not keys or ("certificate" in keys) != ("key" in keys):
        raise ValueError("tls: takes a certificate with its key, authorities, or all three")
    if str(written.get("token_url", "")).startswith("http://"):
        raise ValueError("tls: belongs to a token_url of https")
    return EndpointTls(
        certificate=_optional(given, "certificate"),
        key=_optional(given, "key"),
        authorities=_optional(given, "authorities"),
    )


def _method(written: Mapping[str, object], *, client: bool, secret: bool, private: bool, shown: bool) -> str:
    if secret and private:
        raise ValueError("client_secret and private_key: a client has only one authentication method")
    usual = "private_key_jwt" if private else "client_secret_basic" if secret else "none"
    given = _text(written, "authentication") or usual
    if given not in _METHODS:
        raise ValueError(
            f"authentication: '{bounded(given, 40)}' is not one of {', '.join(_METHODS)}{nearest(given, _METHODS)}"
        )
    if given == "tls_client_auth":  # RFC 8705, section 2
        if secret or private or not (client and shown):
            raise ValueError(
                "authentication: tls_client_auth takes a client_id and a certificate under tls:, and no secret"
            )
        return given
    needs = {
        "private_key_jwt": "private_key",
        "client_secret_basic": "client_secret",
        "client_secret_post": "client_secret",
    }
    if (needs.get(given, "") or "none") != ("private_key" if private else "client_secret" if secret else "none"):
        raise ValueError(f"authentication: {given} does not fit the given keys; it takes {needs.get(given, 'neither')}")
    return given if client else "none"


def _only(keys: set[str], known: set[str] | frozenset[str]) -> None:
    if unknown := sorted(keys - known):
        raise ValueError(f"{bounded(unknown[0], 40)}: does not belong here{nearest(unknown[0], sorted(known))}")


def _reference(written: Mapping[str, object], name: str) -> SecretReference:
    found = _optional(written, name)
    if found is None:
        raise ValueError(f"{name}: is missing")
    return found


def _optional(written: Mapping[str, object], name: str) -> SecretReference | None:
    value = written.get(name)
    if isinstance(value, str) and name in UNSECRET:
        return SecretReference("literal", value)
    if value is None or isinstance(value, SecretReference):
        return value
    raise ValueError(f"{name}: must be text")


def _text(written: Mapping[str, object], name: str, *, needed: bool = False) -> str:
    value = written.get(name, "")
    if not isinstance(value, str) or (needed and not value):
        raise ValueError(f"{name}: {'must be text' if value else 'is missing'}")
    if "${" in value:
        raise ValueError(f"{name}: is not a secret, so it cannot be a reference")
    return value


def _scopes(written: Mapping[str, object]) -> tuple[str, ...]:
    value = written.get("scopes", [])
    if isinstance(value, str):
        value = value.split()
    # RFC 6749 section 3.3: a scope has visible ASCII characters except quotes and backslashes.
    if not isinstance(value, (list, tuple)) or not all(_is_scope(item) for item in value):
        raise ValueError("scopes: must be a list of scopes, or a text with spaces between them")
    return tuple(value)


def _is_scope(item: object) -> bool:
    return isinstance(item, str) and bool(item) and all("!" <= one <= "~" and one not in '"\\' for one in item)


def _url(written: Mapping[str, object], name: str = "token_url") -> str:
    text = _text(written, name)
    try:
        parts = urlsplit(text)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0 and not parts.fragment
    except ValueError:
        usable = False
    if text and (not usable or parts.username or parts.password):
        raise ValueError(f"{name}: is not an http(s) URL without user name and fragment")
    return text
