"""Token of a call: the principal that it is for, and the endpoint that may be asked for it."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urljoin, urlsplit

from toolgen.connectors.executor import Destination
from toolgen.connectors.http.oauth.dpop import ProofKey
from toolgen.connectors.http.oauth.identity_assertion import subject_fault
from toolgen.connectors.http.oauth.tokens import OAuthClient, OAuthClients
from toolgen.core.error_codes import ErrorCode
from toolgen.core.errors import SecretError, ToolgenError
from toolgen.model.auth import OAuth
from toolgen.model.call import Principal, parties
from toolgen.model.excerpt import bounded
from toolgen.model.manifest import SecurityScheme
from toolgen.model.secret import Secret, Unprinted
from toolgen.model.verdict import Allow

__all__ = ["CallTokens", "NoTokenError", "Renewal"]

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class NoTokenError(ToolgenError):
    """Caller without a token that can be exchanged."""

    code: ErrorCode = "forbidden"


class Renewal(Unprinted, frozen=True, kw_only=True):
    """Token that was sent and that its OAuth client can replace, if the system does not accept it. `key` is the one that it is bound to."""

    grant: OAuthClient
    who: str
    subject: Secret | None
    token: str
    key: ProofKey | None = None

    def mends(self) -> bool:
        """Return True if signing the request again with a new token may help."""
        return self.grant.reject(self.who, self.subject, self.token)


class CallTokens:
    """Tokens of one source, by scheme and by the called origin. Without `grants` no token can be requested."""

    def __init__(self, schemes: Mapping[str, SecurityScheme], grants: OAuthClients | None) -> None:
        self._schemes = schemes
        self._grants = grants
        self._bound: dict[tuple[str, str], OAuthClient] = {}

    async def renewal(self, name: str, form: OAuth, url: str, principal: Principal | None) -> Renewal:
        """Return the token for a request to a URL, obtained as the credentials `form` of the scheme `name` say. Raises `SecretError` and
        `NoTokenError`.
        """
        grant = self._grant(name, form, url)
        who, subject = "", None
        if form.grant == "token_exchange":
            who, subject = _subject(principal, form)
            if form.authorization_server is not None and (fault := subject_fault(form, subject.reveal())):
                raise NoTokenError(
                    f"this tool acts upstream as the user it is called for, who {fault}; nothing was sent",
                    suggestion="call with a token of the identity provider that is the issuer: of the source's credential",
                )
        token = grant.known(who, subject) or await grant.fetch(who, subject)
        return Renewal(grant=grant, who=who, subject=subject, token=token, key=grant.proof_key(who, subject))

    def _grant(self, name: str, form: OAuth, url: str) -> OAuthClient:
        origin = url[: url.find("/", url.find("://") + 3)] if url.find("/", url.find("://") + 3) > 0 else url
        found = self._bound.get((name, origin))
        if found is None:
            if self._grants is None:
                raise SecretError(f"a token for {name} is only requested for a call, and this is not a call")
            endpoint = form.token_url or self._described(name, origin, self._grants)
            found = self._bound[name, origin] = self._grants.grant(form, endpoint)
        return found

    def _described(self, name: str, origin: str, grants: OAuthClients) -> str:
        """Return the token endpoint of the description, if it is at the API's own origin or at a host that the policy lists.

        A description may come from a third party, and the client's secret would be sent to the server that it names. Raises `SecretError`.
        """
        written = self._schemes[name].token_url
        if not written:
            raise SecretError(
                f"the description names no token endpoint for {name}", suggestion="set token_url: beside it"
            )
        endpoint = urljoin(f"{origin}/", written)
        try:
            to, here = urlsplit(endpoint), urlsplit(origin)
            port = to.port or {"https": 443, "http": 80}[to.scheme]
            same = (to.scheme, to.hostname, port) == (
                here.scheme,
                here.hostname,
                here.port or {"https": 443, "http": 80}[here.scheme],
            )
        except (ValueError, KeyError):
            raise SecretError(
                f"the token endpoint that the description names for {name} is not an http(s) URL"
            ) from None
        near = to.hostname in _LOOPBACK and here.hostname in _LOOPBACK
        if same or near or (to.hostname and self._listed(to.hostname, port, grants)):
            return endpoint
        raise SecretError(
            f"the description names a token endpoint for {name} at {bounded(to.hostname or '', 100)}, which is not the host of the API",
            suggestion="if it is the right one, set token_url: beside the client's credentials",
        )

    def _listed(self, host: str, port: int, grants: OAuthClients) -> bool:
        verdict = grants.permit(Destination(host=host, port=port))
        return isinstance(verdict, Allow) and verdict.rule == "egress.allow"


def _subject(principal: Principal | None, form: OAuth) -> tuple[str, Secret]:
    """Return the identity of a call and its token: that of the user on whose behalf the caller acts, or else the caller's own. There is no
    fallback from the first to the second. Raises `NoTokenError`.
    """
    party = principal
    while party is not None and party.on_behalf_of is not None:
        party = party.on_behalf_of
    if party is not None and party.origin is not None and party.origin.sign_in:
        _check_signed_in(party, form)
    if party is not None and party.token is None and party.proof is not None and party.proof.issuer:
        # The token may have expired since, and an attacker who reads the stored calls that wait could act as their callers.
        raise NoTokenError(
            "this tool needs its caller's own token, which is not stored while a call waits for a person; nothing was sent",
            suggestion="the author of the policy can allow it without approval, or give its callers a credential of the system's own",
        )
    if principal is None or party is None or party.token is None:
        raise NoTokenError(
            "this tool acts as the user it is called for, whose call has no token of an identity provider",
            suggestion="call with a token of an issuer of the policy, not with an API key",
        )
    return "\0".join(parties(principal)), party.token


def _check_signed_in(party: Principal, form: OAuth) -> None:
    """Raise `NoTokenError` for a person of a hosted client or of the console without a valid id token, or if another token is exchanged."""
    if form.subject_token_type != "id_token":  # noqa: S105 - a type
        raise NoTokenError(
            "this tool exchanges its caller's access token, and the sign-in of its caller gave an id token alone; nothing was sent",
            suggestion="exchange id tokens (subject_token_type: id_token), or call with a token of the identity provider itself",
        )
    if party.token is None:
        raise NoTokenError(
            "this tool acts as the person who signed in, whose id token has expired, or is not kept while a call waits; nothing was sent",
            suggestion="sign in again: in the console, or by disconnecting the gateway in the client",
        )
