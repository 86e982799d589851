"""One policy in force: everything that is made of it, and replaced whole when its files change."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from toolgen.audit.entry import keyed_digest
from toolgen.audit.log import AuditLog
from toolgen.clock import Clock
from toolgen.execute.base import Executor
from toolgen.gateway.identity import Identity, KeySets
from toolgen.model.call import Call, Principal, parties
from toolgen.model.manifest import Manifest
from toolgen.model.result import Result
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import GraphQLBinding, GraphQLDocumentBinding, Tool, absent
from toolgen.model.verdict import Deny, Verdict
from toolgen.pipeline.approve import ApproveStage, Desk
from toolgen.pipeline.chain import Trail
from toolgen.pipeline.deliver import Deliver, Preview
from toolgen.pipeline.documents import GuardParts, document_guards
from toolgen.pipeline.earlier import Earlier
from toolgen.pipeline.inspection import destination_of, sql_verdict
from toolgen.pipeline.intake import Meant, meant
from toolgen.pipeline.limiting import LimitStage, MeterStage
from toolgen.pipeline.order import Parts, dry_road, road
from toolgen.pipeline.pause import PauseStage
from toolgen.pipeline.record import Record
from toolgen.pipeline.stages import (
    AccessStage,
    ArgumentsStage,
    InspectStage,
    RedactStage,
)
from toolgen.policy.access import Access
from toolgen.policy.binding import Bound
from toolgen.policy.document import Policy
from toolgen.policy.limits import Limits
from toolgen.policy.redact import conceal, conceal_texts, has_secrets, redactor, replace_at
from toolgen.policy.rules import Note
from toolgen.settings import Settings
from toolgen.sources.graph_options import DEFAULT_MAX_PAGE
from toolgen.state.buckets import Buckets
from toolgen.state.history import Histories
from toolgen.state.pauses import Pauses
from toolgen.state.upstreams import Upstreams

__all__ = ["Governance", "Runtime"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """What outlives a policy: the project, its log and executors, and everything that is counted."""

    settings: Settings
    manifest: Manifest
    clock: Clock
    log: AuditLog
    executors: Mapping[str, Executor]
    buckets: Buckets
    upstreams: Upstreams
    histories: Histories
    pauses: Pauses
    desk: Desk
    key_sets: KeySets


class Governance:
    """What a policy says, compiled. A call that began under it ends under it, whatever replaces it meanwhile."""

    def __init__(self, policy: Policy, runtime: Runtime) -> None:
        self.policy = policy
        self.identity = Identity(policy.credentials, runtime.clock, runtime.key_sets)
        self.access = Access(policy.rules, runtime.manifest.tools, policy.toolsets)
        self.earlier = Earlier(histories=runtime.histories, clock=runtime.clock, labels=policy.labels)
        self._tools = runtime.manifest.tools
        self._sources = runtime.manifest.sources
        self._log = runtime.log
        self._catalogs: dict[tuple[frozenset[str], ...], tuple[Tool, ...]] = {}
        self._secretive: dict[str, bool] = {}
        parts = self._parts(runtime)
        self._road = road(parts)
        self.dry_road = dry_road(parts)

    async def run(self, call: Call) -> tuple[Result, Trail]:
        """The call through every stage, and what they left for its record."""
        trail = Trail()
        return await self._road(call, trail), trail

    def catalog(self, principal: Principal) -> tuple[Tool, ...]:
        """The tools this principal may call, in name order. The same object every time."""
        user = principal.on_behalf_of
        key = (principal.toolsets, principal.roles, *(() if user is None else (user.roles,)))
        found = self._catalogs.get(key)
        if found is None:
            visible = (tool for tool in self._tools.values() if self.access.visible(principal, tool))
            found = self._catalogs[key] = tuple(self.access.shown(principal, tool) for tool in visible)
        return found

    def call(
        self,
        name: str,
        arguments: JsonObject,
        principal: Principal,
        session: str = "",
        client: str = "",
        parent: str = "",
    ) -> Call:
        """The call as the stages see it. A tool this principal may not see is the same as one that does not exist, from here on."""
        tool = self._tools.get(name)
        if tool is None or not self.access.visible(principal, tool):
            tool, seen = absent(name), Meant(arguments=arguments)
            bound = Bound(arguments=arguments)
        else:
            seen = meant(tool.input_schema, arguments)
            bound = self.access.bind(principal, tool, seen.arguments)
        return Call(
            id=f"call_{secrets.token_hex(12)}",
            tool=tool,
            arguments=bound.arguments,
            principal=principal,
            session=session,
            client=client,
            parent=parent,
            repaired=seen.repaired,
            dropped=seen.dropped,
            left_out=seen.left_out,
            bound=bound.names,
            denied=bound.denied,
        )

    def tool(self, name: str) -> Tool | None:
        """The catalog's tool of this name, whoever may see it."""
        return self._tools.get(name)

    def _decide_root(self, call: Call, tool: Tool, arguments: JsonObject, notes: list[Note]) -> Verdict:
        """The verdict on a root field of a document, as on a call of its tool; nothing can be set inside of what an agent wrote."""
        if self.access.bound(call.principal, tool):
            return Deny(
                rule="graphql",
                reason="the gateway sets arguments of a field in this document",
                suggestion=f"call {tool.name} instead",
            )
        judgement = self.access.judge(call.principal, tool, arguments, self.earlier.circumstances(call))
        notes += judgement.notes
        if not isinstance(judgement.verdict, Deny):
            self.earlier.add(call, tool, arguments)
        return judgement.verdict

    def _answerable(self, principal: Principal) -> bool:
        """Whether the policy has somebody who could answer for a call of this principal's: one of its own, or a user of an issuer."""
        approval, credentials = self.policy.approval, self.policy.credentials
        if any(not approval.roles.isdisjoint(issuer.all_roles) for issuer in credentials.issuers.values()):
            return True
        involved = parties(principal)
        people = credentials.principals.values()
        return any(approval.may_answer(person.id, person.roles, involved) for person in people)

    def _parts(self, runtime: Runtime) -> Parts:
        policy, manifest = self.policy, runtime.manifest
        guards = {
            source: partial(sql_verdict, database=info.database, scope=policy.sql[source])
            for source, info in manifest.sources.items()
            if info.database is not None and source in policy.sql
        }
        documents = GuardParts(
            decide=self._decide_root,
            visible=self.access.visible,
            redacted=lambda tool: redactor(policy.redactions, tool) is not None,
            max_pages={
                name: source.config.graph.max_page or DEFAULT_MAX_PAGE
                for name, source in runtime.settings.sources.items()
            },
        )
        limits = Limits(policy.limits, runtime.clock)
        return Parts(
            record=Record(journal=runtime.log, clock=runtime.clock, policy_digest=policy.digest, conceal=self._conceal),
            pause=PauseStage(pauses=runtime.pauses),
            limit=LimitStage(limits=limits, buckets=runtime.buckets),
            access=AccessStage(access=self.access, earlier=self.earlier),
            arguments=ArgumentsStage(),
            inspect=InspectStage(
                guards=guards,
                destination=partial(destination_of, policy.egress),
                documents=document_guards(manifest, documents),
            ),
            approve=ApproveStage(
                policy_digest=policy.digest,
                roles=policy.approval.roles,
                expires_s=policy.approval.expires_s,
                answerable=self._answerable,
                desk=runtime.desk,
            ),
            meter=MeterStage(limits=limits, buckets=runtime.buckets, upstreams=runtime.upstreams),
            redact=RedactStage(redactor=partial(redactor, policy.redactions)),
            deliver=Deliver(executors=runtime.executors),
            preview=Preview(executors=runtime.executors),
        )

    def _conceal(self, call: Call) -> JsonObject:
        """The call's arguments as the record keeps them."""
        secret = self._secretive.get(call.tool.digest)
        if secret is None:
            secret = self._secretive[call.tool.digest] = has_secrets(call.tool.input_schema)
        concealed: Json = call.arguments
        sensitive = self.policy.sensitive
        if written := (*sensitive, *self._secrets_written(call.tool)):
            concealed = conceal_texts(call.arguments, call.tool, written, self._digest_of)
            # The arguments of other tools are concealed by their own schemas.
            paths = written if isinstance(call.tool.binding, GraphQLDocumentBinding) else sensitive
            concealed = replace_at(concealed, paths, self._digest_of)
        if secret:
            concealed = conceal(concealed, call.tool.input_schema, self._digest_of)
        return concealed if isinstance(concealed, Mapping) else {}

    def _secrets_written(self, tool: Tool) -> tuple[str, ...]:
        """Where secrets stand in what an agent writes for a GraphQL tool, as the scalars of its source say."""
        if not isinstance(tool.binding, GraphQLDocumentBinding | GraphQLBinding):
            return ()
        graph = self._sources[tool.source].graph
        return tuple(f"$..{name}" for name in graph.secrets) if graph is not None else ()

    def _digest_of(self, value: Json) -> Json:
        return keyed_digest(self._log.key, value)
