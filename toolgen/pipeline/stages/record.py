"""Audit record of calls: no record, no call. The intent is durable before anything else happens, the outcome before it is returned.

Values that the policy, or a schema, calls sensitive are recorded as digests. The record also has the results of users' claims, because
later it could not be explained otherwise why a rule applied to them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Container, Mapping
from typing import Any, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from toolgen.core.canonical import digest as digest_of
from toolgen.core.canonical import encodable
from toolgen.core.clock import Clock
from toolgen.core.errors import AuditError, CanonicalError, place_of
from toolgen.model.argument_names import listed_arguments, own_arguments
from toolgen.model.call import Call, Principal
from toolgen.model.file_arguments import recorded_files, takes_files
from toolgen.model.manifest import Manifest
from toolgen.model.result import Cancelled, Failed, Pending, Refused, Result, Shape, Success
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import Tool
from toolgen.pipeline.middleware import CallContext, Next
from toolgen.pipeline.stages.broken_off import UNAVAILABLE, cut_off, failed_inside, unrecorded, unusable
from toolgen.pipeline.stages.record_templates import MAX_NAME_LENGTH, RecordTemplates
from toolgen.policy.arguments import excess, meant_names
from toolgen.policy.document.context_selectors import context_tools
from toolgen.policy.document.policy import Policy
from toolgen.policy.members import pointer_step
from toolgen.policy.recorded_message import recorded_message
from toolgen.policy.redact import all_but, replace_at, replace_places
from toolgen.policy.rules import DecisionNote
from toolgen.policy.sensitive_arguments import (
    Concealer,
    conceal_at,
    conceal_values,
    conceal_written,
    concealed_whole,
    found_at,
    has_secrets,
    union,
)

__all__ = ["AuditRedaction", "Counts", "Journal", "Record", "UserRecorder"]

_MAX_COUNT = 10_000
_STATEMENT = "sql"
_logger = logging.getLogger(__name__)


class UserRecorder(Struct, frozen=True, kw_only=True):
    """Recorder of callers that are not `named` by the policy. `conceal` replaces sensitive values in their data."""

    named: Container[str]
    conceal: Callable[[JsonObject], JsonObject]
    _told: OrderedDict[str, Principal] = field(default_factory=OrderedDict)

    def news(self, call: Call) -> tuple[Principal, ...]:
        """Return the parties of a call whose recorded data is out of date, and mark them as recorded."""
        user = call.principal.on_behalf_of
        if user is None and call.principal.id in self.named:
            return ()
        return tuple(party for party in (call.principal, user) if party is not None and self._is_new(party))

    def forget(self, principal: Principal) -> None:
        """Forget that a principal was recorded, because its entry could not be written."""
        self._told.pop(principal.id, None)

    def entry(self, call: Call, party: Principal) -> dict[str, object]:
        """Return the entry with the roles and attributes of a party, valid from the call with this id on."""
        said = self.conceal({"roles": sorted(party.roles), "attributes": dict(party.attributes)})
        return {"event": "identity", "call_id": call.id, "principal": party.id, "arguments": said}

    def _is_new(self, party: Principal) -> bool:
        told = self._told.get(party.id)
        if party.id in self.named or told is party:
            return False
        if told is not None and (told.roles, told.attributes) == (party.roles, party.attributes):
            return False
        self._told[party.id] = party
        if len(self._told) > _MAX_COUNT:
            self._told.popitem(last=False)
        return True


class Journal(Protocol):
    """Destination of audit entries. `append` returns stream and number once the entry is durable.

    A protocol, because tests of the stage use a destination in memory that fails at a chosen entry.
    """

    async def append(self, fields: Mapping[str, Any]) -> tuple[str, int]: ...


class Counts(Protocol):
    """Counter of calls: started, and ended; a call that was broken off has no result."""

    def begin(self) -> None: ...

    def end(self, call: Call, result: Result | None, seconds: float) -> None: ...


class _Secrets(Struct, frozen=True, kw_only=True):
    """Concealed arguments of one tool: by its schema, and by the paths that the policy and its source name."""

    by_schema: Concealer | None
    named: tuple[str, ...]
    files: bool


class AuditRedaction:
    """Redaction of audit entries by one policy. `digest` makes the replacement of a value.

    A digest is always of the value that was sent: values that were concealed earlier keep it (`Placeholder`).
    """

    def __init__(self, policy: Policy, manifest: Manifest, digest: Callable[[Json], Json]) -> None:
        self._policy = policy
        self._tools = {**manifest.tools, **context_tools(manifest)} if manifest.has_context else manifest.tools
        self._sources = manifest.sources
        self._keyed = digest
        self._secrets: dict[str, _Secrets] = {}

    def arguments(self, call: Call) -> JsonObject:
        """Return the call's arguments for the audit log. For a tool that does not exist, all of them are sensitive, because no schema
        describes them; a tool that exists but is hidden from the caller has a schema."""
        return _recorded(self._concealed(call) if call.restored else self._by_policy(call))

    def is_plain(self, tool: Tool) -> bool:
        """Return True if nothing in the arguments of a tool is concealed, whatever their values."""
        known = self._tools.get(tool.name)
        if known is not tool or self._policy.plain is not None:
            return False
        secrets = self._secrets.get(tool.digest) or self._secrets_of(tool)
        return not (secrets.files or secrets.by_schema or secrets.named)

    def dropped(self, call: Call) -> JsonObject:
        """Return the values of unknown arguments for the audit log, by the names in `call.dropped`.

        A value is a digest if its name, or the name that was probably meant, is sensitive. All are digests if the schema of the tool
        contains a secret or takes files, if the policy lists plain arguments, and if they are too large to inspect.
        """
        tool, dropped = self._tools.get(call.tool.name), call.dropped
        if (
            tool is None
            or self._policy.plain is not None
            or has_secrets(tool.input_schema)
            or takes_files(tool.input_schema)
        ):
            return {name: self._digest(value) for name, value in dropped.items()}
        if excess(dropped) is not None:
            return dict.fromkeys(dropped)
        meant = meant_names(tool.input_schema, dropped, call.bound)
        values = {value for _, _, value in call.restored}
        return {
            name: encodable(
                self._digest(value)
                if self._is_sensitive(name, value) or self._is_sensitive(_beside(name, meant[name]), value)
                else conceal_values(value, values, self._digest)
            )
            for name, value in dropped.items()
        }

    def _is_sensitive(self, name: str, value: Json) -> bool:
        """Test whether the policy calls anything sensitive in an argument, or in a member that a JSON pointer names."""
        given: Json = value
        for step in reversed(name.split("/")[1:] or [name]):
            given = {step.replace("~1", "/").replace("~0", "~"): given}
        return conceal_at(_object(given), self._policy.sensitive, self._digest) != given

    def shown(self, call: Call) -> JsonObject:
        """Return the call's arguments for its approvers: unchanged except for sensitive values."""
        return self._concealed(call)

    def request(self, call: Call, request: Json) -> str:
        """Return the digest of a request that a call made: a keyed one if the request contains concealed values."""
        return digest_of(request) if self._concealed(call) == call.arguments else str(self._keyed(request))

    def statement(self, call: Call, statement: Json) -> Json:
        """Return the statement that ran. It contains text of the agent, so it is as plain as the argument that this came from."""
        argument = call.arguments.get(_STATEMENT)
        if argument is None or (self._policy.plain is None and not self._policy.sensitive and not call.restored):
            return statement
        return statement if self._concealed(call).get(_STATEMENT) == argument else self._keyed(statement)

    def message(self, call: Call, text: str) -> str:
        """Return the message of an error without concealed arguments of the call; "" if they cannot be separated."""
        if not text:
            return ""
        if call.restored or not self.is_plain(call.tool):
            if excess(call.arguments) is not None or excess(call.dropped) is not None:
                return ""
            try:
                recorded = (self._concealed(call), self.dropped(call) if call.dropped else {})
                text = recorded_message(text, (call.arguments, call.dropped), recorded)
            except Exception as error:  # noqa: BLE001 - what cannot be concealed is not recorded
                _logger.error("the message of call %s could not be concealed: %s", call.id, place_of(error))  # noqa: TRY400
                return ""
        return text.encode("utf-8", "replace").decode()  # an argument's name may contain half a surrogate pair

    def said(self, said: JsonObject) -> JsonObject:
        """Return the data of a user with sensitive values concealed."""
        paths = self._policy.sensitive
        own = replace_at(said, (), self._digest)  # a copy
        return _recorded(_object(replace_places(own, found_at(own, paths), self._digest)))

    def _digest(self, value: Json) -> Json:
        return concealed_whole(value, self._keyed)

    def _concealed(self, call: Call) -> JsonObject:
        concealed = self._by_policy(call)
        if not call.restored:
            return concealed
        return _object(conceal_values(concealed, {value for _, _, value in call.restored}, self._digest))

    def _by_policy(self, call: Call) -> JsonObject:
        tool = self._tools.get(call.tool.name)
        if tool is None:
            return all_but(call.arguments, call.arguments, (), self._digest)
        secrets = self._secrets.get(tool.digest) or self._secrets_of(tool)
        arguments = call.arguments
        if secrets.files:
            arguments = recorded_files(tool.input_schema, arguments)
        concealed = self._by_name(arguments, tool, secrets) if secrets.by_schema or secrets.named else arguments
        if self._policy.plain is None:
            return concealed
        plainly = all_but(arguments, concealed, self._plain(tool), self._digest)
        return _object(union(plainly, concealed, self._keyed))

    def _plain(self, tool: Tool) -> tuple[str, ...]:
        return tuple(path for item in self._policy.plain or () if item.covers(tool.name) for path in item.fields)

    def _by_name(self, arguments: JsonObject, tool: Tool, secrets: _Secrets) -> JsonObject:
        """Return the arguments with digests in place of the values that `sensitive:` names and that the tool's schema calls secret."""
        concealer, named = secrets.by_schema, secrets.named
        concealed: Json = arguments
        sensitive = self._policy.sensitive
        if named:
            if not (tool.takes_documents or tool.selects_fields):
                concealed = conceal_at(arguments, sensitive, self._digest)
            elif self._fits(arguments, tool):
                # The arguments of other tools are concealed by their own schemas.
                paths = named if tool.takes_documents else sensitive
                own = replace_at(conceal_written(arguments, tool, named, self._keyed), (), self._digest)  # a copy
                concealed = replace_places(own, found_at(own, paths), self._digest)
            else:
                concealed = all_but(arguments, arguments, (), self._digest)
            concealed = self._by_own_name(concealed, arguments, tool)
        if concealer is None:
            return _object(concealed)
        by_schema = concealer(arguments)
        if not isinstance(by_schema, Mapping):
            by_schema = {name: self._digest(item) for name, item in arguments.items()}
        return _object(union(concealed, by_schema, self._keyed))

    def _by_own_name(self, concealed: Json, arguments: JsonObject, tool: Tool) -> Json:
        """Replace further values that `sensitive:` names as the description does, if arguments are listed under other names."""
        own = own_arguments(tool, arguments)
        if own is arguments:
            return concealed
        by_name = _object(conceal_at(own, self._policy.sensitive, self._digest))
        listed, _ = listed_arguments(tool, by_name)
        return union(concealed, listed, self._keyed)

    def _fits(self, arguments: JsonObject, tool: Tool) -> bool:
        """Return True if the GraphQL that an agent wrote uses only names of the schema; secrets in other places would not be recognized."""
        binding, graph = tool.binding, self._sources[tool.source].graph
        text = arguments.get(binding.code_argument)
        variables = arguments.get("variables") if tool.takes_documents else None
        start = "" if graph is None else binding.answer_type(graph)
        if text is None:
            return variables is None
        from toolgen.connectors.graphql.hidden_fields import fits  # noqa: PLC0415 - where there is GraphQL

        return isinstance(text, str) and (graph is None or fits(graph, text, variables, start))

    def _secrets_of(self, tool: Tool) -> _Secrets:
        """Return the possible secrets in the arguments of a tool, prepared at its first call."""
        by_schema = Concealer(tool.input_schema, self._digest) if has_secrets(tool.input_schema) else None
        named = self._policy.sensitive
        if tool.takes_documents or tool.selects_fields:
            graph = self._sources[tool.source].graph  # its scalars identify secrets in an agent's document
            named = (*named, *(f"$..{name}" for name in graph.secrets)) if graph is not None else named
        found = self._secrets[tool.digest] = _Secrets(
            by_schema=by_schema, named=named, files=takes_files(tool.input_schema)
        )
        return found


def _recorded(arguments: JsonObject) -> JsonObject:
    """Encode arguments so that the record's own forms differ from equal values that were sent. Argument names are left as they are."""
    recorded: dict[str, Json] = {}
    for name, item in arguments.items():
        recorded[name] = encodable(item)
    return recorded


def _beside(name: str, meant: str) -> str:
    """Return the name that was probably meant, or the pointer to it."""
    parent, slash, _ = name.rpartition("/")
    return f"{parent}{slash}{pointer_step(meant)}" if name.startswith("/") else meant


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, Mapping) else {}


class Record(Struct, frozen=True, kw_only=True):
    """Outermost stage, and the boundary that catches every error: any failure inside becomes a result and is recorded.

    `conceal` replaces sensitive values in arguments and statements by keyed digests.
    """

    journal: Journal
    clock: Clock
    policy_digest: str
    conceal: AuditRedaction
    users: UserRecorder
    counts: Counts
    templates: RecordTemplates | None = None

    def for_plan(self, tool: Tool) -> Record:
        """Return this stage for calls to a tool, with prepared text for the parts of entries that are equal in all of them.

        There are no templates if the record of an argument depends on its value.
        """
        if not self.conceal.is_plain(tool):
            return self
        return replace(self, templates=RecordTemplates(tool, self.policy_digest))

    async def __call__(self, call: Call, call_context: CallContext, proceed: Next) -> Result:
        told: Result | None = None
        started, templates = self.clock.monotonic(), self.templates
        self.counts.begin()
        try:
            try:
                if call.principal.id not in self.users.named:
                    templates = None  # the caller's data is recorded with the intent
                entry = None if templates is None else templates.intent(call)
                if entry is None:
                    fault = await self._append_intent(call, self._who(call))
                else:
                    fault = None
                    await self.journal.append(entry)
            except AuditError:
                told = UNAVAILABLE
                return told
            if fault is None:
                try:
                    result = await proceed(call, call_context)
                except asyncio.CancelledError:  # it has its own task, which only the end of the process cancels
                    result = cut_off(call)
                except Exception as error:  # noqa: BLE001 - the outermost boundary, which a call never gets past as an exception
                    result = failed_inside(call, error)
            else:
                result = unusable(fault)
            seconds = self.clock.monotonic() - started
            entry = (
                None if templates is None else templates.outcome(call, call_context, result, round(seconds * 1000, 3))
            )
            ending: Mapping[str, Any] = (
                await self._outcome(call, call_context, result, started) if entry is None else entry
            )
            told = await self._append_outcome(call, call_context, result, ending)
        finally:
            self.counts.end(call, told, self.clock.monotonic() - started)
        return told

    async def _outcome(self, call: Call, call_context: CallContext, result: Result, started: float) -> dict[str, Any]:
        """Return the outcome of a call, after the details that are entries of their own."""
        who = self._who(call)
        retried = result.delivery.retried if isinstance(result, Success | Failed) else ()
        if call_context.notes or retried:
            await self._append_details(who, call_context.notes, retried)
        ending = {"event": "outcome", **who, **_ending(result, call_context)}
        if call.hidden:
            ending["hidden"] = True
        if ending.get("sql"):
            ending["sql"] = self.conceal.statement(call, ending["sql"])
        if not isinstance(result, Success):
            ending["message"] = self.conceal.message(call, own_message(result))
        ending["duration_ms"] = round((self.clock.monotonic() - started) * 1000, 3)
        return ending

    async def complete(self, call: Call, call_context: CallContext, result: Result, duration_ms: float) -> Result:
        """Record the outcome of a call whose answer came after its pipeline had ended.

        It is recorded as a call of its own, because intent and outcome are in one stream. Return the result, or its replacement. Raises
        `AuditError` if not even the intent can be recorded.
        """
        who = self._who(call)
        await self._append_intent(call, who)
        if call_context.notes:
            await self._append_details(who, call_context.notes, ())
        ending = {"event": "outcome", **who, **_ending(result, call_context), "duration_ms": round(duration_ms, 3)}
        if not isinstance(result, Success):
            ending["message"] = self.conceal.message(call, own_message(result))
        return await self._append_outcome(call, call_context, result, ending)

    async def _append_outcome(
        self, call: Call, call_context: CallContext, result: Result, ending: Mapping[str, Any]
    ) -> Result:
        try:
            _, call_context.outcome_seq = await self.journal.append(ending)
        except (AuditError, CanonicalError):
            _logger.critical("the outcome of call %s could not be recorded", call.id)
            return unrecorded(result)
        return result

    async def _append_intent(self, call: Call, who: dict[str, Any]) -> str | None:
        """Record the intent, without its arguments if they cannot be recorded; in that case the call ends with the reason."""
        intent = {"event": "intent", **who, **self._intent(call)}
        fault = excess(call.arguments)
        for party in self.users.news(call):
            await self._append_user(call, party)
        if fault is None:
            try:
                if call.dropped:
                    values = iter(self.conceal.dropped(call).values())
                    changes = [
                        {**one, "value": next(values)} if one["change"] == "dropped" else one
                        for one in intent["repaired"]
                    ]
                    await self.journal.append(
                        {**intent, "repaired": changes, "arguments": self.conceal.arguments(call)}
                    )
                else:
                    await self.journal.append({**intent, "arguments": self.conceal.arguments(call)})
            except CanonicalError as error:
                fault = error.message
            except AuditError:
                raise
            except Exception as error:  # noqa: BLE001 - what cannot be concealed is not recorded
                message = "the arguments of call %s could not be concealed: %s"
                _logger.error(message, call.id, place_of(error))  # noqa: TRY400 - its text may quote them
                fault = f"they cannot be recorded ({type(error).__name__})"
            else:
                return None
        await self.journal.append(intent)
        return fault

    async def _append_user(self, call: Call, party: Principal) -> None:
        """Record the result of a party's claims, which the record does not have yet. Raises `AuditError`."""
        try:
            await self.journal.append({**self.users.entry(call, party), "policy_digest": self.policy_digest})
        except (AuditError, CanonicalError) as error:
            self.users.forget(party)
            raise AuditError(error.message) from error

    async def _append_details(
        self, who: dict[str, Any], notes: tuple[DecisionNote, ...], retried: tuple[Mapping[str, str | float], ...]
    ) -> None:
        """Record details of the decision besides its verdict, and the outcome of every attempt but the last. If this cannot be written,
        the outcome that follows fails too."""
        details: list[dict[str, Any]] = [
            {
                "event": "decision",
                "verdict": note.verdict,
                "rule": note.rule,
                "status": note.status,
                "policy_digest": note.digest,
                "arguments": note.arguments,
                "labels": note.labels,
            }
            for note in notes
        ]
        details += [{"event": "attempt", "status": "error", **one, "attempts": n} for n, one in enumerate(retried, 1)]
        for detail in details:
            with contextlib.suppress(AuditError):
                await self.journal.append({**detail, **who})

    def _who(self, call: Call) -> dict[str, Any]:
        user = call.principal.on_behalf_of
        return {
            "call_id": call.id,
            "principal": call.principal.id,
            "on_behalf_of": "" if user is None else user.id,
            "tool": call.tool.name[:MAX_NAME_LENGTH],
        }

    def _intent(self, call: Call) -> dict[str, Any]:
        changes: list[dict[str, Json]] = []
        for change, names in (("parsed", call.repaired), ("dropped", call.dropped), ("left_out", call.left_out)):
            for name in names:
                changes.append({"argument": name[:MAX_NAME_LENGTH], "change": change})  # noqa: PERF401 - a call less
        for name, token, _ in call.restored:
            changes.append({"argument": name[:MAX_NAME_LENGTH], "change": f"restored {token}"})
        return {
            "tool_digest": call.tool.digest,
            "policy_digest": self.policy_digest,
            "repaired": changes,
            "bound": [*call.bound],
            "session": call.session[:MAX_NAME_LENGTH],
            "client": call.client[:MAX_NAME_LENGTH],
            "parent": call.parent[:MAX_NAME_LENGTH] or ("" if call.trace is None else call.trace.recorded),
        }


def own_message(result: Result) -> str:
    """Return the gateway's own message about a call that did not succeed; "" for a call that still waits. Text of another system or a
    function is left out: it may contain any data."""
    match result:
        case Refused(error=error) | Cancelled(error=error):
            return error.message
        case Failed(error=error, quotes=False):
            return error.message.partition(":")[0]
        case _:
            return ""


def _ending(result: Result, call_context: CallContext) -> dict[str, Any]:
    """Return the fields of an entry about the outcome of a call. Fields without a value are dropped when the entry is sealed."""
    ending: dict[str, Any] = {
        "verdict": call_context.verdict,
        "rule": call_context.rule,
        "status": result.status,
        "labels": call_context.labels,
        "parent": call_context.replays,
    }
    match result:
        case Refused(error=error):
            return ending | {"verdict": "deny", "rule": error.rule or call_context.rule, "code": error.code}
        case Pending(error=error) | Cancelled(error=error):
            return ending | {"code": error.code, "sql": call_context.sql}
        case Success(delivery=delivery, shape=shape):
            # For a reused answer: its origin. For an answer with errors beside data: that it is partial.
            code = delivery.cache or ("partial" if shape is Shape.GRAPHQL else "")
        case Failed(error=error, delivery=delivery):
            code = error.code
    return ending | {
        "code": code,
        "sql": delivery.sql or call_context.sql,
        "rows": delivery.rows,
        "bytes": delivery.bytes,
        "attempts": delivery.attempts,
    }
