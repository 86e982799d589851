"""Routes below /v1/grants in the OpenAPI document."""

from __future__ import annotations

from toolgen.frontends.rest.openapi_operations import answer, get, path, post, query, responses, whole
from toolgen.frontends.rest.openapi_schemas import Node
from toolgen.frontends.rest.tools import DEFAULT_PAGE
from toolgen.gateway.approvals.grants import MAX_GRANTS

__all__ = ["grant_paths"]


def grant_paths() -> Node:
    grant_id = path("id", {"type": "string", "maxLength": 128})
    given = answer("The grant, in force or waiting for the second person.", "RoleGrant")
    return {
        "/v1/grants": {
            **get(
                "listGrants",
                "What was granted for some time that this principal may end: calls, and roles",
                responses(answer("Grants in force, and roles that wait for a second person.", "Grants"), "403", "503"),
                [query("limit", whole(MAX_GRANTS, DEFAULT_PAGE))],
            ),
            **post(
                "giveRole",
                "Gives a temporary role, or requests one that needs two people",
                responses(given, "403", "409", "429", "503"),
                [],
                "RoleWish",
            ),
        },
        "/v1/grants/{id}": {
            **post(
                "answerRoleGrant",
                "The second person's answer to a request for a role that needs two people",
                responses(given, "403", "404", "409", "503"),
                [grant_id],
                "GrantAnswer",
            ),
            "delete": {
                "operationId": "endGrant",
                "summary": "Ends a grant, for every gateway at once",
                "parameters": [grant_id],
                "responses": responses(answer("It is in force no more.", "GrantEnded"), "403", "404", "409", "503"),
            },
        },
    }
