"""Call and caller, frozen after a front end has parsed them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolgen.model.client_channel import ClientChannel
from toolgen.model.database import Database
from toolgen.model.graphql_schema import Graph
from toolgen.model.result import Error
from toolgen.model.schema import Json, JsonObject
from toolgen.model.secret import Secret
from toolgen.model.tool import Tool
from toolgen.model.trace_context import Trace
from toolgen.model.verdict import Deny

__all__ = [
    "ANY_OF",
    "Call",
    "CredentialProof",
    "DatabaseDescription",
    "GraphQLDocument",
    "Origin",
    "Principal",
    "Sampling",
    "ShownCertificate",
    "Statement",
    "as_asked",
    "parties",
    "with_account",
]


_NOTHING: Mapping[str, Json] = MappingProxyType({})


class ShownCertificate(msgspec.Struct, frozen=True, kw_only=True):
    """Properties of a client certificate that a revocation can name: the hex SHA-256 of its DER, its serial number in hex without leading
    zeros, its names as RFC 4514 writes them, and the start of its validity (seconds since the epoch)."""

    fingerprint: str
    serial: str
    subject: str
    issuer: str
    issued: float | None = None


class CredentialProof(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Credential of a caller in a form that cannot authenticate, so that a waiting call ends when the credential is revoked.

    `key` is the hex SHA-256 of an API key, `certificate` a digest of the rule that a certificate matched and `shown` that certificate; the
    others are claims of a token. `client` is the OAuth client of a token that the gateway issued itself, "" for any other credential.
    """

    key: str = ""
    certificate: str = ""
    shown: ShownCertificate | None = None
    issuer: str = ""
    subject: str = ""
    jwt_id: str = ""
    issued: float | None = None
    client: str = ""


class Origin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Source of roles and attributes, so that another policy can derive them again: the claims that were read, and the issuer of the
    token.

    `issuer` is the `iss` of the token, `mapping` the digest of the policy's result for its claims; a claim that the token lacked is null
    in `claims`. `by_hand`: an operator entered the claims, and there are no others. `sign_in`: the token is valid for signing in to the
    console only.
    """

    issuer: str
    mapping: str = ""
    claims: dict[str, Any] = {}
    by_hand: bool = False
    sign_in: bool = False


ANY_OF = "|"
"""Separator of names of toolsets of which one is enough. No name of a toolset contains it."""


class Principal(Struct, frozen=True, kw_only=True, eq=False):
    """Caller with a verified credential, and the user it acts for. Both must be allowed, both are recorded.

    `toolsets` are the sets of tools that the caller is limited to: it sees tools that are in all of them; of sets joined with `ANY_OF`, one
    is enough. `account` is the name of the account that the caller chose for a call, "" for its default one. `proof` is None for a caller
    without a credential, and does not affect equality: a principal is the same with each of its keys. `token` is the caller's token, kept
    only if a source exchanges it (RFC 8693), only in this process and never written. `origin` is None if the policy itself defines its
    roles and attributes. `under` identifies the reading of the policy that created it; None outside of a gateway.
    """

    id: str
    roles: frozenset[str] = frozenset()
    attributes: Mapping[str, Json] = _NOTHING
    on_behalf_of: Principal | None = None
    toolsets: frozenset[str] = frozenset()
    account: str = ""
    proof: CredentialProof | None = None
    token: Secret | None = None
    origin: Origin | None = None
    under: object = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Principal) and self._itself() == other._itself()

    def __hash__(self) -> int:
        return hash(self._itself())

    def __repr__(self) -> str:
        return f"Principal{self._itself()}"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return list(zip(self.__struct_fields__, self._itself(), strict=False))

    def _itself(self) -> tuple[object, ...]:
        """Return the principal without its credential."""
        return self.id, self.roles, self.attributes, self.on_behalf_of, self.toolsets, self.account


def with_account(principal: Principal, name: str) -> Principal:
    """Return a principal, and the user that it acts for, with the account of this name chosen."""
    if principal.account == name:
        return principal
    user = principal.on_behalf_of
    return replace(principal, account=name, on_behalf_of=None if user is None else with_account(user, name))


def as_asked(found: Principal, asked: Principal) -> Principal:
    """Return a principal of the policy in force with what it had chosen when it called: toolsets and an account."""
    return with_account(replace(found, toolsets=asked.toolsets | found.toolsets), asked.account)


def parties(principal: Principal) -> tuple[str, ...]:
    """Return the ids of a principal and of the principal it acts for."""
    found, party = [principal.id], principal.on_behalf_of
    while party is not None:
        found.append(party.id)
        party = party.on_behalf_of
    return tuple(found)


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """SQL that a guard rendered from the checked tree: the only text that an executor may run.

    `parameters` are positional, in the order of the placeholders in `sql`. `tables` and `columns` (`table.column`) are all that it may
    read, `functions` all that it calls. `limited`: the policy's limit replaces a larger one or a missing one. `writes` is "" for a query,
    otherwise insert, update or delete: it changes its one table, in at most `max_changes` rows or not at all; an update sets the columns
    `sets`. `cascades`: triggers, rules and actions of foreign keys may change more. `page` is the suffix of a cursor of the next page, ""
    without pages; `skip` rows were on the pages before. `types` are those of its columns as far as the text determines them, for an engine
    that types values (SQLite) and has none to type. `table_names` is the guard's comparison of names of tables, as in `Database`: a session
    with another comparison does not run it. `advice` is the suggestion by kind of engine error; its text for `labels` goes with the answer,
    because most engines report no error for a wrong label. `parameter_types` are the declared JSON types of `parameters` ("" for an unknown
    one), or empty: an engine that infers types from values needs one for null. `counting` is the query that counts the rows of a change,
    without an effect; None for an INSERT, which contains its rows. `row_notes` are the policy's notes about rows of its tables that the
    caller does not see.
    """

    sql: str
    parameters: tuple[Json, ...]
    tables: frozenset[str]
    columns: frozenset[str]
    max_rows: int
    max_bytes: int
    max_cell_bytes: int
    timeout_s: float
    functions: frozenset[str] = frozenset()
    limited: bool = False
    writes: str = ""
    max_changes: int = 0
    sets: frozenset[str] = frozenset()
    cascades: bool = False
    page: str = ""
    skip: int = 0
    types: tuple[str, ...] = ()
    table_names: str = ""
    advice: dict[str, str] = {}
    parameter_types: tuple[str, ...] = ()
    counting: Statement | None = None
    row_notes: tuple[str, ...] = ()


class GraphQLDocument(Struct, frozen=True, kw_only=True):
    """GraphQL that a guard rendered from the checked tree: the only text of a caller's document that an executor may send.

    `tools` are the tools of its root fields, `roots` each such field with the arguments of its tool, `cost` an estimate of the number of
    fields, `rejections` as of a binding.
    """

    query: str
    variables: JsonObject
    operation_name: str | None
    tools: tuple[Tool, ...]
    cost: int
    roots: tuple[tuple[Tool, JsonObject], ...] = ()
    rejections: tuple[tuple[str, ...], ...] = ()


class Sampling(Struct, frozen=True, kw_only=True):
    """Rows to read for the description of a table, and the form of the values of their `columns`: `shapes`, or `values` if many rows
    share each.
    """

    statement: Statement
    columns: tuple[str, ...]
    shows: str


class DatabaseDescription(Struct, frozen=True, kw_only=True):
    """Part of a database that a principal may see; for a single table also the samples that the policy adds, and the statement that
    counts its rows."""

    database: Database
    sampling: Sampling | None = None
    counting: Statement | None = None


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A call to a tool, with the arguments that every stage sees. Changes to the sent arguments are in `repaired`, `dropped` (unknown ones,
    by name or JSON pointer, with their values) and `left_out` (null for "not given").

    `statement` and `database` (the part of the database this principal may see) are set by the inspect stage for SQL tools, `sampling` and
    `counting` for the description of a table, and `document` and `graph` (the part of the schema) for tools that take or describe GraphQL.
    `session`, `client` and `parent` are ids from the front end, or "". `bound` names the arguments that the policy set; `denied` is the
    reason if it could not, and then the arguments are as they were sent. `approval` is the digest of the content that a person approved;
    only the gateway sets it, when it executes a call that had to wait. `idempotency_key` is derived from the caller's key: a digest over
    the caller, the tool and that key, so that keys of two callers are never equal. `trace` is the request's trace context, None if its
    sender named none. `line` is the channel to the client that waits, for functions. `rule` is the rule that allowed the call, for devices,
    whose requests are stored. `restored` are the values that replaced tokens, each as its argument, its token and the value, and `sent` the
    arguments with those tokens, as their caller sent them. `withheld` is the reason why the call may not be sent any more, None if it may:
    for code that sends it later, or again. `hidden`: the tool exists, and this principal may not see it; only the audit log says so.
    `ancestry` are the tools of the calls that this call is nested in, the outermost first. `resume` is the state from which a call that
    waited for others continues. `storable` sets which long files of an answer may be stored while it is read: all, those that are no text
    if texts are inspected, or none if the answer is redacted. `equal` is the key, a keyed digest, that equal calls share, so that one of
    them may answer for the others; "" if none may.
    """

    id: str
    tool: Tool
    arguments: JsonObject
    principal: Principal
    session: str = ""
    client: str = ""
    parent: str = ""
    approval: str = ""
    idempotency_key: str = ""
    equal: str = ""
    trace: Trace | None = None
    repaired: tuple[str, ...] = ()
    dropped: JsonObject = _NOTHING
    left_out: tuple[str, ...] = ()
    restored: tuple[tuple[str, str, str], ...] = ()
    sent: JsonObject = _NOTHING
    bound: tuple[str, ...] = ()
    hidden: bool = False
    ancestry: tuple[str, ...] = ()
    resume: JsonObject | None = None
    denied: Deny | None = None
    statement: Statement | None = None
    database: Database | None = None
    document: GraphQLDocument | None = None
    graph: Graph | None = None
    sampling: Sampling | None = None
    counting: Statement | None = None
    line: ClientChannel | None = None
    rule: str = ""
    storable: Literal["all", "binary", "none"] = "all"
    withheld: Callable[[Call], Awaitable[Error | None]] | None = None
