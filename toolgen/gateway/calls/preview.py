"""Preview of calls (`toolgen.preview`): the request that a call would send, for programs that have a manifest and no project."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from toolgen.connectors.document_guard import DocumentRules
from toolgen.connectors.executor import Destination
from toolgen.connectors.registry import CONNECTORS
from toolgen.connectors.secrets import MASK, SecretReference
from toolgen.connectors.source import SourceSettings
from toolgen.core.errors import ToolgenError
from toolgen.core.spelling import nearest
from toolgen.gateway.calls.executors import make_executors
from toolgen.model.call import Call, DatabaseDescription, Principal, Statement
from toolgen.model.database import Database
from toolgen.model.manifest import Manifest, SecurityScheme
from toolgen.model.result import Envelope, Error, Meta
from toolgen.model.tool import Tool
from toolgen.model.verdict import Allow, Deny, Verdict
from toolgen.pipeline.input_validation import meant
from toolgen.pipeline.stages.deliver import failure
from toolgen.policy.access import strictest
from toolgen.policy.arguments import Validator, excess, unknown_arguments

__all__ = ["preview"]

_NOBODY = Principal(id="preview")
_MASKED = SecretReference("literal", MASK)


def preview(manifest: Manifest, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the request that `toolgen call --dry-run` prints, or an error envelope. Sends nothing, needs no policy, never raises.

    Every credential of a tool's source is assumed to be configured and shown as `***`; every table of a database is open.
    """
    try:
        return _preview(manifest, name, arguments)
    except ToolgenError as error:
        return _refused(name, failure(error))
    except Exception as error:  # noqa: BLE001 - the boundary: a manifest is a file, and may hold what no build writes
        return _refused(name, Error(code="internal", message=f"the call cannot be prepared: {type(error).__name__}"))


def _preview(manifest: Manifest, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    tool = manifest.tools.get(name)
    if tool is None:
        return _refused(
            name, Error(code="unknown_tool", message=f"there is no tool {name}{nearest(name, manifest.tools)}")
        )
    if too_much := excess(arguments):
        return _refused(name, Error(code="validation", message=too_much))
    seen = meant(tool, arguments)
    repaired = seen.arguments
    validator = Validator(tool.input_schema, formats=tool.checks_formats)
    faults = unknown_arguments(tool, seen.dropped) or validator.faults(repaired)
    if faults:
        return _refused(name, Error(code="validation", message="; ".join(faults)))
    call = Call(id="preview", tool=tool, arguments=repaired, principal=_NOBODY)
    if tool.asks_database:
        call_or_denied = _inspected(call, manifest)
        if isinstance(call_or_denied, Deny):
            return _refused(
                name, Error(code=call_or_denied.code, message=call_or_denied.reason, rule=call_or_denied.rule)
            )
        call = call_or_denied
    if tool.takes_documents or tool.shows_schema:
        call_or_denied = _documented(call, manifest)
        if isinstance(call_or_denied, Deny):
            return _refused(
                name, Error(code=call_or_denied.code, message=call_or_denied.reason, rule=call_or_denied.rule)
            )
        call = call_or_denied
    executor = make_executors({tool.source: _source(tool, manifest)}, manifest, _permit)[tool.source]
    return executor.preview(call)


def _inspected(call: Call, manifest: Manifest) -> Call | Deny:
    info = manifest.sources[call.tool.source]
    database, guard = info.database, CONNECTORS[info.kind].database_guard()
    if database is None or guard is None:
        return Deny(rule="sql", code="sql_refused", reason="the manifest has no tables for this source")
    answer = guard.inspect(call, database=database, scope=guard.open_scope(database))
    match answer:
        case Deny():
            return answer
        case Database():
            return replace(call, database=answer)
        case DatabaseDescription(database=shown, sampling=sampling, counting=counting):
            return replace(call, database=shown, sampling=sampling, counting=counting)
        case Statement():
            return replace(call, statement=answer)


def _documented(call: Call, manifest: Manifest) -> Call | Deny:
    """Return the call after the guard of documents, with everything open."""
    rules = DocumentRules(
        decide=lambda *_: Allow(rule="preview"),
        visible=lambda *_: True,
        bound=lambda *_: False,
        redacted=lambda _: False,
        strictest=strictest,
        validator=lambda tool: Validator(tool.input_schema, formats=False),
    )
    source = call.tool.source
    guard = CONNECTORS[manifest.sources[source].kind].document_guard(None, source, manifest, rules)
    if guard is None:
        return Deny(rule="graphql", reason="the manifest has no index of this schema")
    if call.tool.shows_schema:
        return replace(call, graph=guard.part(call))
    answer = guard.check(call, [])
    return answer if isinstance(answer, Deny) else answer[0]


def _source(tool: Tool, manifest: Manifest) -> SourceSettings:
    info = manifest.sources[tool.source]
    config = CONNECTORS[info.kind].preview_config(tool.source, info)
    if tool.is_bridged:  # its schemes are those that `auth:` can name, and not its server's
        (location,) = tool.binding.addresses
        return SourceSettings(config=replace(config, location=location), auth={})
    return SourceSettings(config=config, auth={name: _masked(item) for name, item in info.security_schemes.items()})


def _masked(scheme: SecurityScheme) -> SecretReference | Mapping[str, Any]:
    if scheme.type == "http" and scheme.scheme.lower() == "basic":
        return {"username": _MASKED, "password": _MASKED}
    return {"token": _MASKED} if scheme.type in {"oauth2", "openIdConnect"} else _MASKED


def _permit(destination: Destination, source: str = "") -> Verdict:
    return Allow(rule="preview")


def _refused(name: str, error: Error) -> Mapping[str, Any]:
    envelope = Envelope(
        status="refused",
        tool=name,
        call_id="preview",
        data=None,
        error=error,
        meta=Meta(duration_ms=0.0, truncated=False),
    )
    return envelope.to_dict()
