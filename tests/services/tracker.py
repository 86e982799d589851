"""An issue tracker on loopback, run by graphql-core: changes that fail at every depth or are rejected, reads that fail in part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec
from graphql import ExecutionResult, GraphQLError, GraphQLObjectType, GraphQLSchema, build_schema, graphql_sync
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

__all__ = ["CHANGED", "SDL", "Answer", "answer", "application", "schema_of"]

SDL = """
interface Node { id: ID! }
type Query implements Node { id: ID!  issue(id: ID!): Issue  issues(first: Int, after: String): Issues!  viewer: User!  strict: Strict! }
type Mutation {
  create(title: String!): CreatePayload
  createStrictly(title: String!): CreatePayload!
  createAll(titles: [String!]!): [Issue!]
  rename(id: ID!, title: String!): Issue
  refuse: CreatePayload
  nothing: CreatePayload!
  many: ManyPayload
  deleteAll: Query!
  reset: Reset
  note(text: String!): String!
  update(id: ID!): UpdatePayload!
  updateAll(ids: [ID!]!): [UpdatePayload!]!
}
type UpdatePayload { success: Boolean!  lastSyncId: Float  message: String  issue: Issue }
type CreatePayload { ok: Boolean  issue: Issue  watchers: [User!]!  userErrors: [UserError!]!  related: [Issue!] }
type ManyPayload { made: [Issue!]  errors: [String!]! }
union Reset = Query | User
type UserError { message: String!  field: [String!]  code: String }
type Issue implements Node { id: ID!  title: String!  state: String  owner: User  boss: User!  votes: Int  secret: String
  tags: [String!]  parent: Issue  children(first: Int, after: String): Issues! }
type Issues { nodes: [Issue!]!  totalCount: Int!  pageInfo: PageInfo! }
type PageInfo { hasNextPage: Boolean!  endCursor: String }
type User implements Node { id: ID!  name: String!  email: String }
type Strict { id: ID!  name: String!  salary: Int! }
"""

CHANGED: list[str] = []
Answer = dict[str, Any]
_PRIVATE = "Resource not accessible by integration"


def _private(*_: Any, **__: Any) -> Any:
    raise GraphQLError(_PRIVATE, extensions={"code": "FORBIDDEN"})


def _issue(id: str, title: str = "An issue") -> Answer:  # noqa: A002 - the field's name
    return {"__typename": "Issue", "id": id, "title": title, "state": "OPEN", "owner": {"id": "u1", "name": "Ann", "email": _private},
            "boss": None, "votes": None, "secret": _private, "tags": ["a"], "parent": None, "children": _issues}  # fmt: skip


def _issues(_: Any, first: int | None = None, **__: Any) -> Answer:
    count = 500 if first is None else first
    return {
        "nodes": [_issue(str(number)) for number in range(count)],
        "totalCount": 500,
        "pageInfo": {"hasNextPage": True, "endCursor": "c"},
    }


def _payload(**given: Any) -> Answer:
    return {"ok": True, "issue": None, "watchers": [], "userErrors": [], "related": None, **given}


def _create(_: Any, title: str) -> Answer:
    if title == "":
        errors = [{"message": "can't be blank", "field": ["input", "title"], "code": "BLANK"}]
        return _payload(ok=False, userErrors=errors)
    CHANGED.append(title)
    if title == "half":
        return _payload(issue=_issue("7"), userErrors=[{"message": "no notice was sent", "field": None, "code": None}])
    watchers = [{"id": "u1"}, {"id": None}] if title == "bubbles" else []
    return _payload(issue=_issue("7", title), watchers=watchers)


def _create_all(_: Any, titles: list[str]) -> list[Answer]:
    CHANGED.extend(titles)
    return [_issue(str(number), title) for number, title in enumerate(titles)]


def _rename(_: Any, id: str, title: str) -> Answer:  # noqa: A002 - as above
    CHANGED.append(title)
    return _issue(id, title)


def _refuse(*_: Any) -> Any:
    raise GraphQLError("you may not", extensions={"code": "FORBIDDEN"})


def _nothing(*_: Any) -> None:
    CHANGED.append("nothing")


def _many(*_: Any) -> Answer:
    return {"made": [], "errors": ["title is taken", "body is missing"]}


def _update(_: Any, id: str) -> Answer:  # noqa: A002 - as above
    if id.startswith("no"):
        message = "the issue is archived" if id == "no-archived" else None
        return {"success": False, "lastSyncId": 7, "message": message, "issue": None}
    CHANGED.append(id)
    return {"success": True, "lastSyncId": 8, "message": "done", "issue": _issue(id)}


def _note(_: Any, text: str) -> Any:
    CHANGED.append(text)
    return {"no": "text"}


_ROOT: Mapping[str, Callable[..., Any]] = {
    "issue": lambda _, **given: _issue(given["id"]),
    "issues": _issues,
    "viewer": lambda *_: {"id": "u1", "name": "Ann", "email": "ann@example.com"},
    "strict": lambda *_: {"id": "s1", "name": "Sue", "salary": _private},
    "create": _create,
    "createStrictly": _create,
    "createAll": _create_all,
    "rename": _rename,
    "refuse": _refuse,
    "nothing": _nothing,
    "many": _many,
    "deleteAll": lambda *_: CHANGED.append("deleted") or {"id": "root"},
    "reset": lambda *_: CHANGED.append("reset") or {"__typename": "Query", "id": "root"},
    "note": _note,
    "update": _update,
    "updateAll": lambda info, ids: [_update(info, one) for one in ids],
}


def _resolve(make: Callable[..., Any], _: Any, info: Any, **arguments: Any) -> Any:
    return make(info, **arguments)


def schema_of(sdl: str = SDL) -> GraphQLSchema:
    schema = build_schema(sdl)
    for root in (schema.query_type, schema.mutation_type):
        for name, field in root.fields.items() if isinstance(root, GraphQLObjectType) else ():
            field.resolve = partial(_resolve, _ROOT[name]) if name in _ROOT else None
    return schema


_SCHEMA = schema_of()


def answer(query: str, variables: Mapping[str, Any] | None = None, schema: GraphQLSchema = _SCHEMA) -> Answer:
    """The response to a request, as graphql-core makes it."""
    result = graphql_sync(schema, query, variable_values=dict(variables or {}))
    assert isinstance(result, ExecutionResult)
    made: Answer = dict(result.formatted)
    return (
        made if result.data is not None or any(one.path for one in result.errors or ()) else {"errors": made["errors"]}
    )


def application() -> tuple[Starlette, list[Any]]:
    """The service, and the requests it was sent."""
    seen: list[Any] = []

    async def serve(request: Request) -> Response:
        asked = msgspec.json.decode(await request.body())
        seen.append(asked)
        return Response(
            msgspec.json.encode(answer(asked["query"], asked.get("variables"))), media_type="application/json"
        )

    return Starlette(routes=[Route("/graphql", serve, methods=["POST"])]), seen
