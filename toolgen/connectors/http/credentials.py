"""Credentials of a request: their choice, their addition to the request as late as possible, and their masking for a dry run."""

from __future__ import annotations

import base64
import re
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeAlias, assert_never
from urllib.parse import unquote_plus

from msgspec import Struct
from msgspec.structs import replace

from toolgen.connectors.http.oauth.account_tokens import AccountRenewal, AccountTokens
from toolgen.connectors.http.oauth.call_tokens import CallTokens, Renewal
from toolgen.connectors.http.oauth.dpop import DPOP_HEADER, ProofKey
from toolgen.connectors.http.oauth.tokens import OAuthClients
from toolgen.connectors.http.parameter_styles import UnbindableError, percent
from toolgen.connectors.http.request_builder import Headers, HttpRequest
from toolgen.connectors.http.sigv4 import AwsKey, sign_aws
from toolgen.connectors.http.tls import ClientCertificate, client_certificate
from toolgen.connectors.secrets import MASK, SecretReference, SecretResolver
from toolgen.core.clock import Clock, SystemClock
from toolgen.core.errors import SecretError
from toolgen.model.auth import Basic, CertificateSecrets, Form, OAuth, SigV4, UserAccount, Value, read_form
from toolgen.model.auth_schemes import chosen, fits
from toolgen.model.call import Principal
from toolgen.model.excerpt import bounded
from toolgen.model.manifest import SecurityScheme
from toolgen.model.parameter_names import NameSet
from toolgen.model.secret import Unprinted

__all__ = ["Assigned", "CredentialSelector", "Provision", "Security", "Signed", "SourceCredentials"]

_HEADER_UNSAFE = re.compile("[\x00-\x08\x0a-\x1f\x7f\U00010000-\U0010ffff]")
_COOKIE_UNSAFE = re.compile(r'[\x00-\x20\x7f",;\\]|[^\x00-\x7f]')
_BETWEEN = re.compile(r"[\s;,=]+")
_MIN_PART_LENGTH = 8  # shorter parts are words like Bearer
_CLOCK = SystemClock()
_MAX_COUNT = 256
_MAX_ACCOUNT_HEADERS = 4096

Assigned: TypeAlias = Callable[[Principal], Mapping[str, object] | None]
"""Function that returns the credentials that the policy in force assigns to a caller in place of a source's `auth:`; always the same
object, and None if it assigns none."""
Security: TypeAlias = tuple[tuple[str, ...], ...]


class Signed(Unprinted, frozen=True, kw_only=True):
    """Request with its credentials. `secrets` is every form in which an answer could echo one; none of it is ever printed.

    `certificate` is presented by the connection, `renewal` is the token in the request that can be refreshed. `key` is the one that the
    token is bound to, which signed the proof in the request.
    """

    request: HttpRequest
    secrets: tuple[str, ...]
    certificate: ClientCertificate | None = None
    renewal: Renewal | AccountRenewal | None = None
    key: ProofKey | None = None


class _Shown(Unprinted, frozen=True, kw_only=True):
    """Credential at its place in the request: `place` is header, query or cookie."""

    place: str
    name: str
    value: str
    secrets: tuple[str, ...]


class _SignedHeaders(Unprinted, frozen=True, kw_only=True):
    """Headers of the last request of an operation's security, without and with its credentials, and the secrets in them."""

    values: list[str | None]
    unsigned: Headers
    headers: Headers
    secrets: tuple[str, ...]


class SourceCredentials:
    """Credentials for one source. `auth` maps a scheme's name to a `SecretReference`, or a mapping of them, from toolgen.yaml or a policy.

    `grants` requests OAuth tokens, and `accounts` has those of the person who calls; without them, there are none.
    """

    def __init__(
        self,
        *,
        schemes: Mapping[str, SecurityScheme],
        auth: Mapping[str, object],
        secrets: SecretResolver,
        grants: OAuthClients | None = None,
        accounts: AccountTokens | None = None,
        clock: Clock = _CLOCK,
    ) -> None:
        self._schemes = schemes
        self._secrets = secrets
        self._accounts = accounts
        self._account_forms: dict[Security, tuple[str, UserAccount] | None] = {}
        self._account_headers: OrderedDict[tuple[str, str], _SignedHeaders] = OrderedDict()
        self._tokens = CallTokens(schemes, grants)
        self._clock = clock
        self._forms: dict[str, Form] = {}
        self._owned = NameSet(_names_of(schemes.values()))
        self._chosen: dict[Security, tuple[str, ...]] = {}
        self._references: dict[Security, tuple[tuple[str, SecretReference], ...] | None] = {}
        self._signed_headers: dict[Security, _SignedHeaders] = {}
        for name, written in auth.items():
            scheme, form = schemes.get(name), _form(written)
            if scheme is not None and form is not None and fits(scheme, form):
                self._forms[name] = form
        if any(_is_bound(form) for form in self._forms.values()):
            self._owned = NameSet((*_names_of(schemes.values()), DPOP_HEADER))

    def choose(self, security: Security) -> tuple[str, ...]:
        """Choose the first alternative with complete credentials, as `toolgen.model.auth_schemes.chosen` does.

        Raises `SecretError`, which names the schemes, if there is none.
        """
        option = self._chosen.get(security)
        if option is not None:
            return option
        option = chosen(security, self._forms)
        if option is not None:
            self._chosen[security] = option
            return option
        wanted = " or ".join(" and ".join(option) for option in security)
        raise SecretError(
            f"the operation needs a credential for {wanted}, and none that toolgen can send is configured",
            suggestion="set it under `auth:` of the source in toolgen.yaml, or in Python with credentials=",
        )

    async def sign(self, request: HttpRequest, option: tuple[str, ...], principal: Principal | None = None) -> Signed:
        """Resolve the secrets and add them to the request.

        Raises `SecretError`, `UnbindableError` if an argument sets the same place as a credential, and a `forbidden` error for a caller
        without a token to exchange.
        """
        if request.free_names:
            self._check_names(request)
        shown: list[_Shown] = []
        certificate: ClientCertificate | None = None
        renewal: Renewal | AccountRenewal | None = None
        key: AwsKey | None = None
        for name in option:
            form = self._forms[name]
            match form:
                case Value(value=reference):
                    shown.append(_valued(self._schemes[name], name, await self._revealed(reference)))
                case Basic(username=user, password=password):
                    shown.append(_basic(name, await self._revealed(user), await self._revealed(password)))
                case OAuth():
                    renewal = await self._tokens.renewal(name, form, request.url, principal)
                    shown += self._with_proof(request, renewal, name)
                case UserAccount():
                    renewal = await self._account(form, principal)
                    shown += self._with_proof(request, renewal, name)
                case CertificateSecrets():
                    certificate = client_certificate(
                        await self._revealed(form.certificate),
                        await self._revealed(form.key),
                        "" if form.authorities is None else await self._revealed(form.authorities),
                    )
                case SigV4():
                    key = await self._aws_key(form)
                case _:
                    assert_never(form)
        request, secrets = _together(request, shown)
        if key is not None:
            request, secrets = self._aws_signed(request, key), (*secrets, *_aws_secrets(key))
        bound = None if renewal is None else renewal.key
        return Signed(request=request, secrets=secrets, certificate=certificate, renewal=renewal, key=bound)

    def _with_proof(self, request: HttpRequest, renewal: Renewal | AccountRenewal, name: str) -> list[_Shown]:
        """Return a token as it is sent: alone, or with a new proof for this method and URL by the key that it is bound to (RFC 9449
        section 7)."""
        if renewal.key is None:
            return [_bearer(renewal.token, name)]
        proof = renewal.key.proof(request.method, request.url, self._clock.now(), renewal.token)
        shown = _bearer(renewal.token, name, "DPoP")
        return [shown, _Shown(place="header", name=DPOP_HEADER, value=proof, secrets=(proof,))]

    async def _account(self, form: UserAccount, principal: Principal | None) -> AccountRenewal:
        """Return the token of the caller's account. Raises as `AccountTokens.fetch`."""
        if self._accounts is None or principal is None:
            raise SecretError("a token of a person's account is only available when that person calls")
        token = self._accounts.known(form, principal) or await self._accounts.fetch(form, principal)
        key = self._accounts.proof_key(form, principal, token) if form.dpop else None
        if form.dpop and key is None:
            raise SecretError(
                "the token of the account is bound to no key, and the source sends no bearer tokens (dpop)"
            )
        return AccountRenewal(tokens=self._accounts, form=form, principal=principal, token=token, key=key)

    def account_signed_now(self, request: HttpRequest, security: Security, principal: Principal) -> Signed | None:
        """Return the result of `sign` if the only credential is the caller's account with a token that can be sent at once; else None.

        The signed headers of a token are cached, like those of a value.
        """
        if self._accounts is None or request.free_names:
            return None
        if security not in self._account_forms:
            option = self.choose(security)
            form = self._forms[option[0]] if len(option) == 1 else None
            cached = isinstance(form, UserAccount) and not form.dpop  # each request has a proof of its own
            self._account_forms[security] = (option[0], form) if cached and isinstance(form, UserAccount) else None
        found = self._account_forms[security]
        if found is None:
            return None
        name, form = found
        token = self._accounts.known(form, principal)
        if token is None:
            return None
        kept = self._account_headers.get((name, token))
        if kept is None or kept.unsigned != request.headers:
            signed, secrets = _together(request, [_bearer(token, name)])
            kept = _SignedHeaders(values=[], unsigned=request.headers, headers=signed.headers, secrets=secrets)
            self._account_headers[name, token] = kept
            if len(self._account_headers) > _MAX_ACCOUNT_HEADERS:
                self._account_headers.popitem(last=False)
        renewal = AccountRenewal(tokens=self._accounts, form=form, principal=principal, token=token)
        return Signed(request=replace(request, headers=kept.headers), secrets=kept.secrets, renewal=renewal)

    def signed_now(self, request: HttpRequest, security: Security) -> Signed | None:
        """Return the result of `sign` if every credential is the value of a header and can be resolved without waiting; else None.

        Most requests of a source have the same headers and secrets, so the signed headers are cached until one of them changes.
        """
        if request.free_names:
            return None
        if security not in self._references:
            self._references[security] = self._header_references(self.choose(security))
        references = self._references[security]
        if not references:
            return None if references is None else Signed(request=request, secrets=())
        values: list[str | None] = []
        for _, reference in references:
            values.append(self._secrets.revealed(reference))
        kept = self._signed_headers.get(security)
        if kept is None or kept.values != values or kept.unsigned != request.headers:
            shown: list[_Shown] = []
            for (name, _), value in zip(references, values, strict=True):
                if value is None:
                    return None
                shown.append(_valued(self._schemes[name], name, value))
            signed, secrets = _together(request, shown)
            kept = _SignedHeaders(values=values, unsigned=request.headers, headers=signed.headers, secrets=secrets)
            self._signed_headers[security] = kept
        return Signed(request=replace(request, headers=kept.headers), secrets=kept.secrets)

    def _header_references(self, option: tuple[str, ...]) -> tuple[tuple[str, SecretReference], ...] | None:
        """Return the scheme and the secret of each credential; None unless all of them are single values in headers."""
        found: list[tuple[str, SecretReference]] = []
        for name in option:
            form, scheme = self._forms[name], self._schemes[name]
            if isinstance(form, Value) and (scheme.type != "apiKey" or scheme.in_ == "header"):
                found.append((name, form.value))
        return tuple(found) if len(found) == len(option) else None

    def mask(self, request: HttpRequest, option: tuple[str, ...]) -> HttpRequest:
        """Return the request with `***` for every secret. Resolves no secret and requests no token."""
        self._check_names(request)
        shown: list[_Shown] = []
        amazon = False
        for name in option:
            match self._forms[name]:
                case Value():
                    shown.append(_valued(self._schemes[name], name, MASK))
                case Basic():
                    shown.append(_Shown(place="header", name="Authorization", value=f"Basic {MASK}", secrets=()))
                case OAuth(dpop=bound) | UserAccount(dpop=bound):
                    value = f"{'DPoP' if bound else 'Bearer'} {MASK}"
                    shown.append(_Shown(place="header", name="Authorization", value=value, secrets=()))
                    if bound:
                        shown.append(_Shown(place="header", name=DPOP_HEADER, value=MASK, secrets=()))
                case CertificateSecrets():
                    pass  # the TLS connection presents it, not the request
                case SigV4():
                    amazon = True
        request, _ = _together(request, shown)
        if amazon:
            value = f"AWS4-HMAC-SHA256 {MASK}"
            return _put(request, _Shown(place="header", name="Authorization", value=value, secrets=()))
        return request

    def _check_names(self, request: HttpRequest) -> None:
        """Refuse arguments with the name of a credential, at any place of the request, even if the credential is not sent with this
        call."""
        for name in request.free_names:
            if self._owned.find(name) is not None:
                raise UnbindableError(
                    f"an argument holds the name {bounded(name, 80)!r}, which some services read as a credential's",
                    suggestion="leave it out; credentials are the gateway's to send",
                )

    async def _revealed(self, reference: SecretReference) -> str:
        known = self._secrets.revealed(reference)
        return (await self._secrets.fetch(reference)).reveal() if known is None else known

    async def _aws_key(self, form: SigV4) -> AwsKey:
        return AwsKey(
            access_key_id=await self._revealed(form.access_key_id),
            secret_access_key=await self._revealed(form.secret_access_key),
            session_token="" if form.session_token is None else await self._revealed(form.session_token),
            region=form.region,
            service=form.service,
        )

    def _aws_signed(self, request: HttpRequest, key: AwsKey) -> HttpRequest:
        own = {"authorization", "x-amz-date", "x-amz-security-token", "x-amz-content-sha256"}
        for name, _ in request.headers:
            if name.lower() in own:
                raise UnbindableError(
                    f"an argument sets the header {name!r}, which belongs to the gateway's credential"
                )
        for secret in (key.access_key_id, key.session_token):
            _sendable(secret, "header", "aws")
        return sign_aws(request, key, self._clock.now())


def _form(written: object) -> Form | None:
    try:
        return read_form(written)
    except ValueError:
        return None  # toolgen.yaml and policies refuse it when they are read


def _is_bound(form: Form) -> bool:
    return isinstance(form, OAuth | UserAccount) and form.dpop


def _names_of(schemes: Iterable[SecurityScheme]) -> Iterator[str]:
    """Yield the names of credentials in requests; `access_token` is a bearer token's in a query or a form (RFC 6750, section 2)."""
    for scheme in schemes:
        if scheme.type == "apiKey":
            yield scheme.name
        elif scheme.type != "mutualTLS":
            yield from ("Authorization", "access_token")


def _together(request: HttpRequest, shown: list[_Shown]) -> tuple[HttpRequest, tuple[str, ...]]:
    seen: set[tuple[str, str]] = set()
    secrets: list[str] = []
    for one in shown:
        place = (one.place, one.name.lower() if one.place == "header" else one.name)
        if place in seen:
            raise SecretError(f"two security schemes of one operation both send the {one.place} {one.name}")
        seen.add(place)
        request = _put(request, one)
        secrets.extend(one.secrets)
    return request, tuple(dict.fromkeys(filter(None, secrets)))


def _aws_secrets(key: AwsKey) -> tuple[str, ...]:
    return tuple(secret for secret in (key.secret_access_key, key.session_token, key.access_key_id) if secret)


def _basic(name: str, user: str, password: str) -> _Shown:
    if ":" in user:
        raise SecretError(f"the username for {name} holds a colon, which Basic authentication cannot send")
    token = base64.b64encode(f"{user}:{password}".encode()).decode()
    return _Shown(
        place="header",
        name="Authorization",
        value=f"Basic {token}",
        secrets=(password, percent(password), token),
    )


@lru_cache(maxsize=64)
def _valued(scheme: SecurityScheme, name: str, secret: str) -> _Shown:
    if scheme.type != "apiKey":
        return _bearer(secret, name)
    forms: tuple[str, ...] = (secret, percent(secret)) if secret != MASK else ()
    if forms and scheme.in_ in {"query", "cookie"}:  # other text may surround it
        forms += _inside(secret, range(3)) + _inside(forms[1], range(3))
    _sendable(secret, scheme.in_, name)
    if scheme.in_ == "header" and secret != MASK:
        # An answer may repeat only a part of `token abc` or of `session=abc; other=def`.
        for part in _BETWEEN.split(secret):
            if len(part) >= _MIN_PART_LENGTH:
                forms += (part,)
    return _Shown(place=scheme.in_, name=scheme.name, value=secret, secrets=forms)


def _bearer(secret: str, name: str, scheme: str = "Bearer") -> _Shown:
    _sendable(secret, "header", name)
    forms = (secret, percent(secret), *_inside(secret, [len(scheme) + 1])) if secret != MASK else ()
    return _Shown(place="header", name="Authorization", value=f"{scheme} {secret}", secrets=forms)


def _inside(secret: str, before: Iterable[int]) -> tuple[str, ...]:
    """Return the base64 characters that encode only bytes of the secret, for each number of bytes that may precede it in a longer text."""
    raw = secret.encode()
    found: list[str] = []
    for shift in {count % 3 for count in before}:
        whole = base64.b64encode(bytes(shift) + raw).decode()[-(-8 * shift // 6) : 8 * (shift + len(raw)) // 6]
        found += [whole, whole.replace("+", "-").replace("/", "_")]
    return tuple(form for form in found if len(form) >= _MIN_PART_LENGTH)


def _sendable(secret: str, place: str, name: str) -> None:
    unsafe = {"header": _HEADER_UNSAFE, "cookie": _COOKIE_UNSAFE}.get(place)
    if (unsafe and unsafe.search(secret)) or (place == "header" and secret != secret.strip()):
        raise SecretError(f"the secret for {name} holds a character that cannot be sent in a {place}")


def _put(request: HttpRequest, shown: _Shown) -> HttpRequest:
    """Add a credential. An argument that may have the same name is refused, because the server might use either."""
    match shown.place:
        case "header":
            if _header_is_taken(shown.name, tuple(dict(request.headers))):
                raise _taken(shown)
            return replace(request, headers=(*request.headers, (shown.name, shown.value)))
        case "query":
            _, _, query = request.url.partition("?")
            if _is_taken(shown.name, (unquote_plus(pair.partition("=")[0]) for pair in query.split("&") if pair)):
                raise _taken(shown)
            value = shown.value if shown.value == MASK else percent(shown.value)
            separator = "&" if query else "" if request.url.endswith("?") else "?"
            return replace(request, url=f"{request.url}{separator}{percent(shown.name)}={value}")
        case _:
            cookies = [value for name, value in request.headers if name == "Cookie"]
            pairs = [pair for value in cookies for pair in value.split("; ")]
            if _is_taken(shown.name, (pair.partition("=")[0] for pair in pairs)):
                raise _taken(shown)
            others = tuple(header for header in request.headers if header[0] != "Cookie")
            return replace(request, headers=(*others, ("Cookie", "; ".join([*pairs, f"{shown.name}={shown.value}"]))))


def _is_taken(credential: str, names: Iterable[str]) -> bool:
    """Return True if one of the names may be the same as the credential's name."""
    owned = NameSet((credential,))
    return any(owned.find(name) is not None for name in names)


# Names of headers are from descriptions, so they are few and cached; names that an agent may choose are not.
_header_is_taken = lru_cache(maxsize=1024)(_is_taken)


def _taken(shown: _Shown) -> UnbindableError:
    return UnbindableError(
        f"an argument sets the {shown.place} {shown.name!r}, which belongs to the gateway's credential",
        suggestion="leave it out",
    )


class Provision(Struct, frozen=True, kw_only=True):
    """OAuth tokens that the gateway requests for a source, the credentials that the policy assigns to callers, and the tokens of callers'
    own accounts."""

    grants: OAuthClients
    assigned: Assigned
    accounts: AccountTokens | None = None


class CredentialSelector:
    """Credentials of one source, for each of its callers."""

    def __init__(
        self,
        *,
        schemes: Mapping[str, SecurityScheme],
        auth: Mapping[str, object],
        secrets: SecretResolver,
        provision: Provision | None = None,
        clock: Clock = _CLOCK,
    ) -> None:
        self._schemes = schemes
        self._secrets = secrets
        self._grants = provision.grants if provision is not None else None
        self._assigned = provision.assigned if provision is not None else None
        self._accounts = provision.accounts if provision is not None else None
        self._clock = clock
        self._own = self._made(auth)
        self._others: dict[int, tuple[Mapping[str, object], SourceCredentials]] = {}

    def sign(self, request: HttpRequest, security: Security, principal: Principal) -> Coroutine[Any, Any, Signed]:
        """Return the request with the caller's credentials for the first sufficient alternative. Raises as `SourceCredentials.sign`."""
        credentials = self._of(principal)
        return credentials.sign(request, credentials.choose(security), principal)

    def signed_now(self, request: HttpRequest, security: Security, principal: Principal) -> Signed | None:
        """Return the result of `sign` if it needs no waiting; else None. Raises as `sign` does."""
        credentials = self._own if self._assigned is None else self._of(principal)
        if self._accounts is not None:
            found = credentials.account_signed_now(request, security, principal)
            if found is not None:
                return found
        return credentials.signed_now(request, security)

    def mask(self, request: HttpRequest, security: Security, principal: Principal) -> HttpRequest:
        """Return the request with `***` for every secret of the caller's credentials."""
        credentials = self._of(principal)
        return credentials.mask(request, credentials.choose(security))

    async def close(self) -> None:
        """Cancel token requests in progress."""
        if self._grants is not None:
            await self._grants.close()

    def _of(self, principal: Principal) -> SourceCredentials:
        given = None if self._assigned is None else self._assigned(principal)
        if given is None:
            return self._own
        # By identity, which the policy guarantees: hashing the mapping at every call would cost more.
        found = self._others.get(id(given))
        if found is None:
            if len(self._others) >= _MAX_COUNT:
                self._others.clear()
            found = self._others[id(given)] = (given, self._made(given))
        return found[1]

    def _made(self, auth: Mapping[str, object]) -> SourceCredentials:
        return SourceCredentials(
            schemes=self._schemes,
            auth=auth,
            secrets=self._secrets,
            grants=self._grants,
            accounts=self._accounts,
            clock=self._clock,
        )
