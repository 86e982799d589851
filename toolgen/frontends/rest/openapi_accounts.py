"""Routes below /v1/accounts in the OpenAPI document."""

from __future__ import annotations

from toolgen.frontends.rest.openapi_operations import answer, get, path, post, responses
from toolgen.frontends.rest.openapi_schemas import Node

__all__ = ["account_paths"]


def account_paths() -> Node:
    """Return the operations about accounts that people link."""
    source = path("source", {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,20}$"})
    name = path("name", {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,31}$"})
    return {
        "/v1/accounts": {
            **get(
                "listAccounts",
                "Accounts of the caller, or of the user it acts for, at systems that are called with accounts of people",
                responses(answer("The accounts, without tokens, and the sources that use one.", "Accounts"), "503"),
                [],
            ),
            **post(
                "linkAccount",
                "Page at which the person links an account, signed in as themselves",
                responses(answer("The page, for ten minutes.", "AccountPage"), "404", "503"),
                [],
                "AccountWish",
            ),
        },
        "/v1/accounts/{source}/{name}": {
            "delete": {
                "operationId": "unlinkAccount",
                "summary": "Removes an account for every worker, and revokes its tokens at the system",
                "parameters": [source, name],
                "responses": responses(answer("It is removed.", "AccountUnlinked"), "403", "404", "503"),
            },
        },
    }
