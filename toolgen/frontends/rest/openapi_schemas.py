"""JSON Schemas of the bodies and answers of the REST interface, for its OpenAPI document."""

from __future__ import annotations

from typing import TypeAlias

from toolgen.frontends.rest.tool_call_batches import MAX_CALLS, MAX_ID_LENGTH, MAX_NAME_LENGTH
from toolgen.gateway.approvals.requests import MAX_NOTE_LENGTH
from toolgen.gateway.approvals.role_grants import MAX_REASON_LENGTH
from toolgen.gateway.operations.caller_questions import MAX_QUESTIONS
from toolgen.model.caller_requests import REQUEST_KINDS

__all__ = ["DURATION", "SOME_TEXT", "TEXT", "Node", "described", "ref", "schemas"]

DURATION = "^[1-9][0-9]{0,5}[smh]$"
"""Duration of a grant, in a body."""
SOME_TEXT = "[^\\s]"

Node: TypeAlias = dict[str, object]
TEXT: Node = {"type": "string"}
_TEXTS: Node = {"type": "array", "items": TEXT}
_ANYTHING: Node = {"type": "object"}
_PAGED: Node = {"next_cursor": TEXT, "warnings": _TEXTS}


def schemas() -> Node:
    return {
        **_envelope_schemas(),
        **_message_schemas(),
        **_approval_schemas(),
        **_grant_schemas(),
        **_account_schemas(),
        **_device_schemas(),
        "CallBody": {
            **described(
                {
                    "arguments": _ANYTHING,
                    "wait": {"type": "number", "minimum": 0, "maximum": 300},
                    "account": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,31}$"},
                    "idempotency_key": {"type": "string", "minLength": 1, "maxLength": 128},
                    "may_ask": {"type": "array", "items": {"enum": list(REQUEST_KINDS)}},
                }
            ),
            "additionalProperties": False,
        },
        "CallAnswers": {
            **described(
                {
                    "answers": {
                        "type": "object",
                        "additionalProperties": {"type": "object"},
                        "minProperties": 1,
                        "maxProperties": MAX_QUESTIONS,
                    },
                    "wait": {"type": "number", "minimum": 0, "maximum": 300, "default": 30},
                },
                "answers",
            ),
            "additionalProperties": False,
        },
        "Tool": _ANYTHING,
        "Tools": described({"tools": {"type": "array", "items": _ANYTHING}, "next_cursor": TEXT}, "tools"),
        "AuditEntry": _ANYTHING,
        "CallEvent": described(
            {"event": {"enum": ["progress", "partial", "done", "error"]}, "data": TEXT}, "event", "data"
        ),
        "AuditEntries": described({"entries": {"type": "array", "items": ref("AuditEntry")}, **_PAGED}, "entries"),
        "AuditCalls": described({"calls": {"type": "array", "items": _ANYTHING}, **_PAGED}, "calls"),
        "State": described({"status": TEXT, "reasons": _TEXTS, "warnings": _TEXTS}, "status"),
    }


def _envelope_schemas() -> Node:
    texts: Node = dict.fromkeys(("code", "message", "suggestion", "help_url", "rule", "pointer"), TEXT)
    meta: Node = {
        "duration_ms": {"type": "number"},
        "truncated": {"type": "boolean"},
        "next_cursor": TEXT,
        "audit_seq": {"type": "integer"},
        "age_s": {"type": "number"},
        "partial": {"type": "array", "items": {"type": "object"}},
        "dropped": {"type": "array", "items": described({"argument": TEXT, "nearest": TEXT}, "argument")},
        "note": TEXT,
        "joined": {"type": "boolean"},
        "more": _ANYTHING,
        "row_notes": _TEXTS,
        "unread_fields": {"type": "object", "additionalProperties": {"type": "integer"}},
    }
    envelope: Node = {
        "status": {"enum": ["ok", "error", "refused", "pending", "cancelled"]},
        "tool": TEXT,
        "call_id": TEXT,
        "data": True,
        "error": ref("Error"),
        "meta": described(meta, "duration_ms", "truncated"),
    }
    return {
        "Error": described({**texts, "retry_after_s": {"type": "number"}}, "code", "message"),
        "Envelope": described(envelope, "status", "tool", "call_id", "meta"),
        "Refusal": described({"status": {"const": "refused"}, "error": ref("Error")}, "status", "error"),
    }


def _message_schemas() -> Node:
    """Return the schemas of calls and answers by form; other fields of OpenAI and Anthropic are accepted and ignored."""
    calls, answers = _call_forms(), _answer_forms()
    call_form: Node = {"oneOf": [ref(form) for form in calls]}
    return {
        **calls,
        **answers,
        "ToolCalls": {"type": "array", "minItems": 1, "maxItems": MAX_CALLS, "items": call_form},
        "ToolMessages": {"type": "array", "items": {"oneOf": [ref(form) for form in answers]}},
    }


def _call_forms() -> Node:
    name: Node = {"type": "string", "minLength": 1, "maxLength": MAX_NAME_LENGTH}
    id_: Node = {"type": "string", "minLength": 1, "maxLength": MAX_ID_LENGTH}
    written: Node = {"type": "string", "description": "A JSON object as text, as the model wrote it."}
    made_up: Node = {
        **id_,
        "type": ["string", "null"],
        "description": "Made up, and answered with, where it is left out.",
    }
    langchain: Node = {
        "id": made_up,
        "name": name,
        "args": _ANYTHING,
        "type": {"const": "tool_call"},
        "index": {"type": ["integer", "string", "null"]},
        "extras": {"type": ["object", "null"]},
    }
    function = described({"name": name, "arguments": written}, "name")
    chat: Node = {"id": id_, "type": {"const": "function"}, "function": function}
    response: Node = {"type": {"const": "function_call"}, "call_id": id_, "name": name, "arguments": written}
    anthropic: Node = {"type": {"const": "tool_use"}, "id": id_, "name": name, "input": _ANYTHING}
    return {
        "LangChainToolCall": {**described(langchain, "name"), "additionalProperties": False},
        "ChatToolCall": described(chat, *chat),
        "FunctionCall": described(response, "type", "call_id", "name"),
        "ToolUse": described(anthropic, "type", "id", "name"),
    }


def _answer_forms() -> Node:
    tool: Node = {"role": {"const": "tool"}, "tool_call_id": TEXT, "content": TEXT}
    message: Node = {**tool, "name": TEXT, "status": {"enum": ["success", "error"]}}
    output: Node = {"type": {"const": "function_call_output"}, "call_id": TEXT, "output": TEXT}
    result: Node = {
        "type": {"const": "tool_result"},
        "tool_use_id": TEXT,
        "content": TEXT,
        "is_error": {"type": "boolean"},
    }
    return {
        "LangChainToolMessage": described(message, *message),
        "ChatToolMessage": {**described(tool, *tool), "additionalProperties": False},
        "FunctionCallOutput": described(output, *output),
        "ToolResult": described(result, *result),
    }


def _device_schemas() -> Node:
    """Return the schemas of JSON-RPC 2.0 in both directions."""
    version: Node = {"const": "2.0"}
    request = described(
        {"jsonrpc": version, "id": TEXT, "method": TEXT, "params": _ANYTHING}, "jsonrpc", "id", "method", "params"
    )
    asked: Node = {"request": request, "display": TEXT, "tool": TEXT, "effect": TEXT, "asked": TEXT, "expires": TEXT}
    error = described(
        {"code": {"type": "integer"}, "message": {"type": "string", "maxLength": 4096}, "data": True}, "code", "message"
    )
    id_: Node = {"type": "string", "minLength": 1, "maxLength": 128}
    answer: Node = {"jsonrpc": version, "id": id_, "result": True, "error": {**error, "additionalProperties": False}}
    taken: Node = {"id": TEXT, "status": {"enum": ["ok", "error", "refused", "cancelled"]}}
    return {
        "DeviceRequests": described(
            {
                "requests": {
                    "type": "array",
                    "items": described(asked, "request", "tool", "effect", "asked", "expires"),
                },
                "cursor": TEXT,
            },
            "requests",
            "cursor",
        ),
        "DeviceEvent": described({"event": {"enum": ["request", "withdrawn", "error"]}, "data": TEXT}, "event", "data"),
        "DeviceAnswer": {
            **described(answer, "jsonrpc", "id"),
            "additionalProperties": False,
            "oneOf": [{"required": ["result"]}, {"required": ["error"]}],
        },
        "DeviceTaken": described(taken, "id", "status"),
    }


def _approval_schemas() -> Node:
    status: Node = {"enum": ["approved", "ended", "pending"]}
    decided: Node = {"id": TEXT, "decision": {"enum": ["approve", "deny"]}, "status": status}
    granted: Node = {"grant": {**TEXT, "description": "Id of the grant that the answer brought."}}
    return {
        "Approval": described(_approval(), "id", "principal", "tool", "arguments", "expires"),
        "Approvals": described(
            {"approvals": {"type": "array", "items": ref("Approval")}, "next_cursor": TEXT}, "approvals"
        ),
        "Decision": {**described(_decision(), "decision"), "additionalProperties": False},
        "Decided": described(decided | granted, *decided),
    }


def _approval() -> Node:
    """Properties of a call that waits for approval."""
    texts = ("id", "principal", "on_behalf_of", "tool", "effect", "sql", "rule", "digest", "asked", "expires")
    approval: Node = dict.fromkeys((*texts, "session", "client", "parent"), TEXT)
    refusal = described({"code": TEXT, "message": TEXT}, "code", "message")
    need = described({"roles": {"type": "array", "items": TEXT}, "people": {"type": "integer"}}, "roles", "people")
    row: Node = {
        "name": TEXT,
        "text": {**TEXT, "description": "JSON of the value, cut where it is long, with what is not seen as escapes."},
        "length": {"type": "integer", "description": "Characters of a value that is cut."},
        "whole": {**TEXT, "description": "The text that is cut, whole."},
        "note": {**TEXT, "description": "Who set the value, or that the schema does not know it."},
    }
    rows: Node = {"type": "array", "items": described(row, "name", "text")}
    return {
        **approval,
        "arguments": _ANYTHING,
        "request": {**_ANYTHING, "description": "What would be sent now, secrets masked, as a dry run shows it."},
        "refusal": {**refusal, "description": "In place of `request`: why the call would not be sent now."},
        "original": {
            **_ANYTHING,
            "description": "The arguments as they were asked for, where an approver changed them.",
        },
        "edited_by": TEXT,
        "needs": {"type": "array", "items": need, "description": "People who have to approve."},
        "agreed": {"type": "array", "items": TEXT, "description": "Who did so far."},
        "shown": {**TEXT, "description": "Digest of `request` or `refusal`, which an answer may carry."},
        "rows": {
            **described({"arguments": rows, "request": rows}),
            "description": "The call as people are shown it: a row for each value, in the schema's order, short ones first.",
        },
    }


def _decision() -> Node:
    """Properties of an answer to a call that waits for approval."""
    replaced = "In place of those that were asked for: checked, and put to the policy again."
    decision: Node = {
        "decision": {"enum": ["approve", "deny"]},
        "note": {"type": "string", "maxLength": MAX_NOTE_LENGTH},
        "arguments": {"type": ["object", "null"], "description": replaced},
        "digest": {
            "type": "string",
            "maxLength": 100,
            "description": "Digest of the call as it was shown; required for an edited call.",
        },
        "shown": {
            "type": "string",
            "maxLength": 100,
            "description": "Of the request as it was shown; the answer is refused where another one would be sent.",
        },
    }
    count: Node = {"type": "integer", "minimum": 1, "maximum": 10_000}
    remember: Node = {
        "for": {"type": ["string", "null"], "pattern": DURATION, "description": "Like 15m."},
        "calls": {**count, "type": ["integer", "null"], "description": "So many later calls."},
        "session": {"type": "boolean", "description": "Only later calls of the same session."},
        "any_arguments": {"type": "boolean", "description": "Whatever their arguments, where the policy lets it."},
    }
    decision["remember"] = {
        "anyOf": [{**described(remember), "additionalProperties": False}, {"type": "null"}],
        "description": "For which later calls the answer counts too, as far as the policy lets it.",
    }
    return decision


def _account_schemas() -> Node:
    """Return the schemas of accounts that people link; they never contain a token."""
    scopes: Node = {"type": "array", "items": TEXT}
    linked: Node = {"type": "string", "format": "date-time"}
    yes: Node = {"type": "boolean"}
    account: Node = {"source": TEXT, "name": TEXT, "default": yes, "usable": yes, "scopes": scopes, "linked": linked}
    source: Node = {"type": "string", "minLength": 1, "maxLength": 20}
    wish: Node = {"source": source, "name": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,31}$"}}
    listed: Node = {"accounts": {"type": "array", "items": ref("Account")}, "sources": scopes}
    return {
        "Account": described(account, *account),
        "Accounts": described(listed, *listed),
        "AccountWish": {**described(wish, "source"), "additionalProperties": False},
        "AccountPage": described({"page": TEXT}, "page"),
        "AccountUnlinked": described({"source": TEXT, "name": TEXT, "revoked": yes}, "source", "name", "revoked"),
    }


def _grant_schemas() -> Node:
    grant: Node = {
        **dict.fromkeys(("id", "principal", "on_behalf_of", "tool", "effect", "session", "call_id"), TEXT),
        "kind": {"enum": ["approval"]},
        "any_arguments": {"type": "boolean"},
        "arguments": {**_ANYTHING, "description": "What is sensitive is a digest."},
        "calls": {"type": "integer"},
        "used": {"type": "integer"},
        "rules": {"type": "array", "items": TEXT},
        "approvers": {"type": "array", "items": TEXT},
        "created": TEXT,
        "expires": TEXT,
    }
    ended: Node = {"id": TEXT, "status": {"enum": ["ended"]}}
    role: Node = {
        **dict.fromkeys(("id", "role", "principal", "reason", "asked_by", "agreed_by", "created", "expires"), TEXT),
        "kind": {"enum": ["role"]},
        "break_glass": {"type": "boolean", "description": "True if it needs two people."},
        "status": {"enum": ["pending", "in_force", "ended"]},
    }
    name: Node = {"type": "string", "minLength": 1, "maxLength": 256}
    grant_request: Node = {
        "role": name,
        "to": {**name, "description": "The principal that is to have it."},
        "for": {"type": "string", "pattern": DURATION, "description": "Like 2h."},
        "reason": {"type": "string", "minLength": 1, "maxLength": MAX_REASON_LENGTH, "pattern": SOME_TEXT},
    }
    return {
        "Grant": described(grant, "kind", "id", "principal", "expires"),
        "RoleGrant": described(role, "kind", "id", "role", "principal", "status", "expires"),
        "RoleWish": {**described(grant_request, *grant_request), "additionalProperties": False},
        "GrantAnswer": {
            **described({"decision": {"enum": ["approve", "deny"]}}, "decision"),
            "additionalProperties": False,
        },
        "Grants": described(
            {"grants": {"type": "array", "items": {"anyOf": [ref("Grant"), ref("RoleGrant")]}}}, "grants"
        ),
        "GrantEnded": described(ended, *ended),
    }


def described(properties: Node, *required: str) -> Node:
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def ref(name: str) -> Node:
    return {"$ref": f"#/components/schemas/{name}"}
