"""Authorization server of a gateway: its metadata, its endpoints, and the tokens that it issued."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from toolgen.config.sign_in import SignInSettings
from toolgen.gateway.sign_in.access_tokens import AccessTokens
from toolgen.gateway.sign_in.authorization import Authorization
from toolgen.gateway.sign_in.client_metadata import METHODS
from toolgen.gateway.sign_in.clients import Clients
from toolgen.gateway.sign_in.records import SCOPE
from toolgen.gateway.sign_in.sign_in_log import SignInLog
from toolgen.gateway.sign_in.sign_ins import SignIns
from toolgen.gateway.sign_in.signing_keys import ALGORITHM, SigningKeys
from toolgen.gateway.sign_in.token_endpoint import TokenEndpoint
from toolgen.state.sign_in import SignInStore

__all__ = ["PATHS", "SignInServer", "server_metadata"]

_ID_JAG = "urn:ietf:params:oauth:grant-profile:id-jag"
PATHS: Mapping[str, str] = {
    "authorization_endpoint": "/oauth/authorize",
    "token_endpoint": "/oauth/token",
    "registration_endpoint": "/oauth/register",
    "revocation_endpoint": "/oauth/revoke",
    "introspection_endpoint": "/oauth/introspect",
    "jwks_uri": "/oauth/jwks",
}


class SignInServer(Struct, frozen=True, kw_only=True):
    """Parts of the authorization server at `issuer`, the origin of the gateway."""

    issuer: str
    settings: SignInSettings
    clients: Clients
    keys: SigningKeys
    tokens: AccessTokens
    authorization: Authorization
    endpoint: TokenEndpoint
    log: SignInLog
    store: SignInStore
    sign_ins: SignIns

    async def close(self) -> None:
        """Close open connections."""
        await self.clients.close()
        await self.store.close()


def server_metadata(issuer: str, settings: SignInSettings) -> dict[str, Any]:
    """Return the metadata of the server (RFC 8414 section 2), and the additional members of OpenID Connect Discovery."""
    offered = {
        "registration_endpoint": settings.clients.registration,
        "introspection_endpoint": bool(settings.introspection),
    }
    algorithms = ["RS256", "PS256", "ES256", "EdDSA"]
    return {
        "issuer": issuer,
        **{name: f"{issuer}{path}" for name, path in PATHS.items() if offered.get(name, True)},
        "scopes_supported": [SCOPE],
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": list(settings.grant_types),
        **({"authorization_grant_profiles_supported": [_ID_JAG]} if settings.identity_assertions else {}),
        "token_endpoint_auth_methods_supported": list(METHODS),
        "token_endpoint_auth_signing_alg_values_supported": algorithms,
        "revocation_endpoint_auth_methods_supported": list(METHODS),
        "revocation_endpoint_auth_signing_alg_values_supported": algorithms,
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": settings.clients.metadata_documents,
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": [ALGORITHM],
    }
