"""Assembly of the authorization server of a project."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from toolgen.config.settings import Settings
from toolgen.connectors.executor import Permit
from toolgen.core.clock import Clock
from toolgen.gateway.accounts.assembled import account_keys, service_keys
from toolgen.gateway.identity.issued_tokens import IssuedToken
from toolgen.gateway.identity.jwt import RefusedTokenError, SignedToken, TokenRejected
from toolgen.gateway.sign_in.access_tokens import AccessTokens
from toolgen.gateway.sign_in.authorization import Authorization
from toolgen.gateway.sign_in.client_documents import ClientDocuments
from toolgen.gateway.sign_in.clients import Clients
from toolgen.gateway.sign_in.identity_assertions import IdentityAssertions
from toolgen.gateway.sign_in.records import SignInGrant
from toolgen.gateway.sign_in.resources import Resources
from toolgen.gateway.sign_in.server import PATHS, SignInServer
from toolgen.gateway.sign_in.sign_in_log import SignInLog
from toolgen.gateway.sign_in.sign_ins import SignIns
from toolgen.gateway.sign_in.signing_keys import SigningKeys
from toolgen.gateway.sign_in.token_endpoint import TokenEndpoint, TokenEndpointDependencies
from toolgen.gateway.state.shared_state import sign_in_rows
from toolgen.model.call import Principal
from toolgen.state.sign_in import SignInStore
from toolgen.state.wrapped_keys import WrappedKeys

__all__ = ["make_sign_in", "sign_in_store"]


class CallerLookup(Protocol):
    """Lookup of callers, as far as the authorization server needs it. A protocol, because gateway/calls is beside this package."""

    def person_of(self, issued: IssuedToken) -> Principal | TokenRejected: ...

    async def check_signature(self, token: SignedToken) -> None: ...


def make_sign_in(
    project: Settings,
    *,
    permit: Permit,
    callers: CallerLookup,
    record: Callable[[Mapping[str, Any]], Awaitable[object]],
    clock: Clock,
) -> SignInServer | None:
    """Return the authorization server; None if the project has no sign-in through the gateway. Nothing is opened yet."""
    settings = project.sign_in
    if settings is None:
        return None
    issuer, store, log = project.url, sign_in_store(project, clock, permit), SignInLog(record, clock)
    documents = ClientDocuments(settings.clients, permit, clock)
    clients = Clients(settings.clients, store, documents, clock)
    resources = Resources(issuer, project.mcp_servers, settings.resources)
    keys = SigningKeys(store, clock, after_s=settings.access_s)
    tokens = AccessTokens(issuer, settings, resources, keys, store, clock)

    def admit(grant: SignInGrant) -> Principal | TokenRejected:
        try:
            return callers.person_of(tokens.identified(grant))
        except RefusedTokenError as error:
            return error.unaccepted

    parts = TokenEndpointDependencies(
        settings=settings,
        audiences=(f"{issuer}{PATHS['token_endpoint']}", issuer),
        clients=clients,
        resources=resources,
        keys=keys,
        tokens=tokens,
        store=store,
        log=log,
        clock=clock,
        admit=admit,
        assertions=IdentityAssertions(issuer, settings, resources, callers.check_signature, clock),
    )
    return SignInServer(
        issuer=issuer,
        settings=settings,
        clients=clients,
        keys=keys,
        tokens=tokens,
        authorization=Authorization(issuer, clients, resources, store, log, clock),
        endpoint=TokenEndpoint(parts),
        log=log,
        store=store,
        sign_ins=SignIns(store, clients, log, clock.now),
    )


def sign_in_store(project: Settings, clock: Clock, permit: Permit | None = None) -> SignInStore:
    """Return the store of the sign-ins of a project. Its key-encryption keys are those of accounts; with a key service, they are stored
    beside the records, and the service wraps them. `permit` is asked about the address of the service."""
    rows, keys = sign_in_rows(project, clock), account_keys(project)
    service = service_keys(project, clock, permit)
    return SignInStore(rows, keys if service is None else WrappedKeys(rows, service, keys, clock))
