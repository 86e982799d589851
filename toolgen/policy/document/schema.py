"""Schema of policy files: keys and types (docs/reference/policy-keys.md); other modules define their meaning."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from toolgen.core.yaml_file import apart
from toolgen.model.caller_requests import RequestKind
from toolgen.model.credential_keys import CredentialKeys
from toolgen.model.sql_section import SqlShape
from toolgen.model.tool import Effect
from toolgen.policy.caller_requests import DEFAULT_MAX_TOKENS, DEFAULT_PER_CALL

__all__ = [
    "AllowanceShape",
    "ApprovalShape",
    "ApproversShape",
    "AssignmentShape",
    "CertificateShape",
    "DisclosureShape",
    "EarlierShape",
    "EgressShape",
    "FileShape",
    "IssuerShape",
    "JwtShape",
    "KeyShape",
    "LabelShape",
    "LimitShape",
    "ManagedKeyShape",
    "PlainShape",
    "PrincipalShape",
    "RedactShape",
    "RequestsShape",
    "RevokedShape",
    "RuleShape",
    "SelectorShape",
    "TestShape",
    "ToolsetShape",
    "UserShape",
]


_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)]
DEFAULT_WAITING = 2_000
_Names: TypeAlias = Annotated[list[str], msgspec.Meta(min_length=1)]
_AccountName: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[a-z0-9][a-z0-9_-]{0,31}$")]
_Accounts: TypeAlias = Annotated[list[_AccountName], msgspec.Meta(min_length=1)]
_Text: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=2048)]
_Scope: TypeAlias = Annotated[
    str, msgspec.Meta(pattern=r"\A[\x21\x23-\x5b\x5d-\x7e]{1,128}\Z")
]  # RFC 6749, section 3.3
# Equal to the list in policy/credentials.py; a test compares them.
_Algorithm: TypeAlias = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]


class KeyShape(msgspec.Struct, forbid_unknown_fields=True):
    hash: str
    expires: str | None = None
    toolsets: list[str] = []


class ManagedKeyShape(msgspec.Struct, forbid_unknown_fields=True):
    principal: str
    hash: str
    created: str | None = None
    expires: str | None = None
    toolsets: list[str] = []


class JwtShape(msgspec.Struct, forbid_unknown_fields=True):
    issuer: _Text
    audience: _Text | Annotated[list[_Text], msgspec.Meta(min_length=1)]
    jwks: _Text
    sign_in: _Text | Annotated[list[_Text], msgspec.Meta(min_length=1)] | None = None
    subject: _Text | None = None
    algorithms: Annotated[list[_Algorithm], msgspec.Meta(min_length=1)] | None = None
    scopes: list[_Scope] = []


class CertificateShape(msgspec.Struct, forbid_unknown_fields=True):
    fingerprint: str | _Names | None = None
    subject: _Text | None = None
    issuer: _Text | None = None


class IssuerShape(msgspec.Struct, forbid_unknown_fields=True):
    jwt: JwtShape
    roles: list[str] = []
    grants: dict[_Text, dict[str, str | _Names]] = {}
    attributes: dict[str, _Text] = {}


class RevokedCertificateShape(msgspec.Struct, forbid_unknown_fields=True):
    fingerprint: str | None = None
    serial: str | None = None
    subject: _Text | None = None
    issuer: _Text | None = None


class RevokedShape(msgspec.Struct, forbid_unknown_fields=True):
    key: str | None = None
    of: _Text | None = None
    principal: _Text | None = None
    certificate: RevokedCertificateShape | None = None
    issuer: _Text | None = None
    jwt_id: _Text | None = None
    subject: _Text | None = None
    before: str | None = None


class PrincipalShape(msgspec.Struct, forbid_unknown_fields=True):
    api_key: str | list[str | KeyShape] | None = None
    jwt: JwtShape | None = None
    mtls: CertificateShape | None = None
    roles: list[str] = []
    attributes: dict[str, Any] = {}
    acts_for: list[str] = []


class ApproversShape(msgspec.Struct, forbid_unknown_fields=True):
    any: _Text


class SelectorShape(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    tools: list[str] | msgspec.UnsetType = msgspec.UNSET
    tags: _Names | msgspec.UnsetType = msgspec.UNSET
    operations: _Names | msgspec.UnsetType = msgspec.UNSET
    paths: _Names | msgspec.UnsetType = msgspec.UNSET
    methods: _Names | msgspec.UnsetType = msgspec.UNSET


class AllowanceShape(msgspec.Struct, forbid_unknown_fields=True):
    per_call: Annotated[int, msgspec.Meta(ge=1, le=32)] = DEFAULT_PER_CALL
    rate: str | None = None
    max_tokens: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = DEFAULT_MAX_TOKENS
    hosts: _Names | msgspec.UnsetType = msgspec.UNSET


class RequestsShape(msgspec.Struct, forbid_unknown_fields=True):
    sampling: AllowanceShape | None = None
    elicitation: AllowanceShape | None = None
    elicitation_url: AllowanceShape | None = None
    roots: AllowanceShape | None = None


class RuleShape(SelectorShape, forbid_unknown_fields=True, kw_only=True):
    id: str
    prompts: _Names | msgspec.UnsetType = msgspec.UNSET
    resources: _Names | msgspec.UnsetType = msgspec.UNSET
    to: list[str]
    verdict: Literal["allow", "deny", "ask"]
    effects: list[Effect] | msgspec.UnsetType = msgspec.UNSET
    arguments: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    when: str | msgspec.UnsetType = msgspec.UNSET
    accounts: _Accounts | msgspec.UnsetType = msgspec.UNSET
    bind: dict[str, str] = {}
    tell: list[str] = []
    shadow: bool = False
    approvers: ApproversShape | None = None
    pending_after: str | None = None
    allow: list[RequestKind] | RequestsShape = []


class LabelShape(msgspec.Struct, forbid_unknown_fields=True):
    tools: _Names
    add: _Names


class ToolsetShape(SelectorShape, forbid_unknown_fields=True, kw_only=True):
    prompts: _Names | msgspec.UnsetType = msgspec.UNSET
    resources: _Names | msgspec.UnsetType = msgspec.UNSET
    effects: list[Effect] | msgspec.UnsetType = msgspec.UNSET
    to: list[str] = []


class DisclosureShape(msgspec.Struct, forbid_unknown_fields=True):
    to: _Names
    tools: _Names
    text: Annotated[str, msgspec.Meta(max_length=300)] = ""


class EarlierShape(msgspec.Struct, forbid_unknown_fields=True):
    call: str
    arguments: dict[str, Any] = {}
    outcome: Literal["ok", "failed", "running"] = "ok"
    session: bool = True


class LimitShape(SelectorShape, forbid_unknown_fields=True, kw_only=True):
    id: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    rate: str | None = None
    per: list[str] = []
    burst: _Count | None = None
    cost: dict[str, Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)] | str] = {}
    concurrency: _Count | None = None
    wait: str | None = None
    on_failure: Literal["refuse", "share"] = "refuse"


class EgressShape(msgspec.Struct, forbid_unknown_fields=True):
    allow: list[str] = []
    private_networks: Literal["deny", "allow"] = "deny"
    redirects: Literal["none", "same-origin"] = "none"
    sources: dict[str, list[str]] = {}
    proxy: str = ""
    ca: str = ""
    resolve: Literal["proxy", "local"] = "proxy"
    direct: list[str] = []


class RedactShape(msgspec.Struct, forbid_unknown_fields=True):
    tools: _Names
    fields: _Names
    with_: str = msgspec.field(name="with", default="[redacted]")


class TokensShape(msgspec.Struct, forbid_unknown_fields=True):
    to: _Names
    tools: _Names
    kinds: _Names
    arguments: list[str] = []


class PlainShape(msgspec.Struct, forbid_unknown_fields=True):
    tools: _Names
    fields: _Names


class UserShape(msgspec.Struct, forbid_unknown_fields=True):
    issuer: str
    subject: str
    claims: dict[str, Any] = {}


class TestShape(msgspec.Struct, forbid_unknown_fields=True):
    as_: str | UserShape = msgspec.field(name="as")
    expect: Literal["allow", "deny", "ask"]
    call: str = ""
    prompt: str = ""
    resource: str = ""
    arguments: dict[str, Any] = {}
    rule: str | None = None
    on_behalf_of: str | UserShape | None = None
    at: str | None = None
    after: list[EarlierShape] = []
    toolset: str = ""


class EscalateShape(msgspec.Struct, forbid_unknown_fields=True):
    after: str
    to: _Names


class RememberShape(msgspec.Struct, forbid_unknown_fields=True):
    max_duration: str = "1h"
    max_calls: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 20
    any_arguments: bool = False


class ApprovalShape(msgspec.Struct, forbid_unknown_fields=True):
    approvers: _Names = msgspec.field(default_factory=list)
    expires: str = "1h"
    elicitation: str = ""
    quorum: Annotated[int, msgspec.Meta(ge=1, le=10)] = 1
    escalate: EscalateShape | None = None
    remember: RememberShape | None = None
    remind: str | None = None
    text: Annotated[str, msgspec.Meta(max_length=300)] = ""
    max_waiting: Annotated[int, msgspec.Meta(ge=1, le=20_000)] = DEFAULT_WAITING


class RoleGrantShape(msgspec.Struct, forbid_unknown_fields=True):
    role: _Text
    by: _Names
    to: _Names
    max_duration: str
    break_glass: bool = False


class AssignmentShape(msgspec.Struct, forbid_unknown_fields=True):
    to: _Names
    source: str
    use: Annotated[dict[str, str | Annotated[Any, apart(CredentialKeys)]], msgspec.Meta(min_length=1)]


class FileShape(msgspec.Struct, forbid_unknown_fields=True):
    principals: dict[str, Annotated[Any, apart(PrincipalShape)]] = {}
    issuers: dict[str, Annotated[Any, apart(IssuerShape)]] = {}
    keys: list[Annotated[Any, apart(ManagedKeyShape)]] = []
    revoked: list[Annotated[Any, apart(RevokedShape)]] = []
    rules: list[Annotated[Any, apart(RuleShape)]] = []
    approvals: ApprovalShape | None = None
    role_grants: list[Annotated[Any, apart(RoleGrantShape)]] = []
    labels: list[Annotated[Any, apart(LabelShape)]] = []
    toolsets: dict[str, Annotated[Any, apart(ToolsetShape)]] = {}
    disclose: list[Annotated[Any, apart(DisclosureShape)]] = []
    limits: list[Annotated[Any, apart(LimitShape)]] = []
    sql: dict[str, Annotated[Any, apart(SqlShape)]] = {}
    egress: EgressShape | None = None
    credentials: list[Annotated[Any, apart(AssignmentShape)]] = []
    sensitive: list[str] = []
    plain: list[Annotated[Any, apart(PlainShape)]] | None = None
    redact: list[Annotated[Any, apart(RedactShape)]] = []
    tokens: list[Annotated[Any, apart(TokensShape)]] = []
    tests: list[Annotated[Any, apart(TestShape)]] = []
