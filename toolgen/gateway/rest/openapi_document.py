"""The REST interface as an OpenAPI 3.1 document, served at /openapi.json."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from typing import TypeAlias

from toolgen.gateway.approvals import MAX_NOTE_LENGTH, MAX_WAITING
from toolgen.gateway.json_body import encode
from toolgen.gateway.rest.audit import FILTERS, MAX_ENTRIES
from toolgen.gateway.rest.calls import DEFAULT_WAIT_S, MAX_WAIT_S
from toolgen.gateway.rest.tool_call_batches import MAX_CALLS, MAX_ID_LENGTH, MAX_NAME_LENGTH
from toolgen.gateway.rest.tools import DEFAULT_PAGE, MAX_PAGE
from toolgen.gateway.search_tools import DEFAULT_HITS, INPUTS
from toolgen.gateway.tool_lists import LISTED

__all__ = ["openapi_json"]

Node: TypeAlias = dict[str, object]


@cache
def openapi_json() -> bytes:
    """The document's bytes; the same for everybody, so it names no tool."""
    return encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "toolgen",
                "version": version("toolgen"),
                "description": "Tools for agents, and calls to them.",
            },
            "security": [{"bearer": []}],
            "paths": _paths(),
            "components": {
                "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
                "schemas": _schemas(),
            },
        }
    )


def _paths() -> Node:
    return {**_tool_paths(), **_call_paths(), **_answer_paths(), **_waiting_paths(), **_audit_paths(), **_state_paths()}


def _tool_paths() -> Node:
    formats: Node = {"enum": sorted(LISTED), "default": "manifest"}
    return {
        "/v1/tools": {
            "get": {
                "operationId": "listTools",
                "summary": "The tools this principal may call, in name order, or those that fit a request in words",
                "description": (
                    f"Where the whole catalog would cost a model too much, {', '.join(sorted(INPUTS))} are listed in its place. "
                    "With `q`, the tools of the whole catalog that fit, best first."
                ),
                "parameters": [
                    _query("format", formats),
                    _query("q", {"type": "string", "minLength": 1}),
                    _query(
                        "limit",
                        {"type": "integer", "minimum": 1, "maximum": MAX_PAGE},
                        f"{DEFAULT_PAGE} when it is left out, {DEFAULT_HITS} with `q`.",
                    ),
                    _query("cursor", {"type": "string"}, "`next_cursor` of the page before."),
                    _query("toolset", {"type": "string"}, "Only tools of this toolset of the policy."),
                    *_CALLER,
                ],
                "responses": _responses(_answer("A page of tools.", "Tools"), "403", "404", "429"),
            }
        }
    }


def _call_paths() -> Node:
    return {
        "/v1/tools/{name}/call": {
            "post": {
                "operationId": "callTool",
                "summary": "One call to one tool",
                "parameters": [_path("name", {"type": "string", "maxLength": MAX_NAME_LENGTH}), *_OF_CALLS, *_CALLER],
                "requestBody": _body("CallBody"),
                "responses": _endings(),
            }
        },
        "/v1/tool_calls": {
            "post": {
                "operationId": "callTools",
                "summary": "The tool calls of one turn of a model, made at once, and their answers in the same order and form",
                "parameters": [*_OF_CALLS, *_CALLER],
                "requestBody": _body("ToolCalls"),
                "responses": _responses(_answer("One message a call, in order.", "ToolMessages"), "403", "404"),
            }
        },
    }


def _answer_paths() -> Node:
    token: Node = {"type": "string", "pattern": "^[A-Za-z0-9_-]{64}$"}
    file: Node = {
        "description": "The bytes.",
        "content": {"*/*": {"schema": {"type": "string", "format": "binary"}}},
    }
    endings: Node = {**_responses(file), "404": _answer("There is nothing here for this caller.", "Refusal")}
    return {
        "/v1/answers/{name}/{token}": {
            "get": {
                "operationId": "getAnswer",
                "summary": "The bytes of a file that a call answered with a link, for as long as they are kept",
                "description": "For the principal alone that made the call; `data.resource.path` of its envelope leads here.",
                "parameters": [_path("name", {"type": "string", "maxLength": 128}), _path("token", token)],
                "responses": endings,
            }
        }
    }


def _waiting_paths() -> Node:
    call_id: Node = _path("id", {"type": "string", "maxLength": 128})
    endings: Node = {**_endings(), "404": _answer("The caller has no such call.", "Refusal")}
    return {
        "/v1/calls/{id}": {
            "get": {
                "operationId": "getCall",
                "summary": "How the caller's own call stands that had to wait, or how it ended, for an hour",
                "parameters": [call_id],
                "responses": endings,
            }
        },
        "/v1/calls/{id}/cancel": {
            "post": {
                "operationId": "cancelCall",
                "summary": "Withdraws the caller's own call, unless it is being carried out, and says how it stands",
                "parameters": [call_id],
                "responses": endings,
            }
        },
        "/v1/calls/{id}/events": {
            "get": {
                "operationId": "followCall",
                "summary": "How the caller's own call goes on that had to wait, as Server-Sent Events",
                "description": (
                    "`progress` (`call_id`, `tool` and `state`: pending, approved or running) at once and at each change, `done` with the "
                    "envelope when it has ended, `error` where it cannot be known. Ends after `done`, or when `wait` is over."
                ),
                "parameters": [
                    call_id,
                    _query(
                        "wait",
                        {"type": "integer", "minimum": 1, "maximum": MAX_WAIT_S, "default": DEFAULT_WAIT_S},
                        "For how many seconds, at most.",
                    ),
                ],
                "responses": _responses(
                    {"description": "Events.", "content": {"text/event-stream": {"schema": _ref("CallEvent")}}},
                    "404",
                    "429",
                    "503",
                ),
            }
        },
        "/v1/approvals": {
            "get": {
                "operationId": "listApprovals",
                "summary": "The calls this principal may answer for, the oldest first, with their exact arguments",
                "parameters": [
                    _query("limit", {"type": "integer", "minimum": 1, "maximum": MAX_WAITING, "default": DEFAULT_PAGE})
                ],
                "responses": _responses(_answer("Calls that wait.", "Approvals"), "403", "503"),
            }
        },
        "/v1/approvals/{id}": {
            "post": {
                "operationId": "decide",
                "summary": "Answers for a call; the first answer counts, and an approved call is carried out once, by the gateway",
                "parameters": [call_id],
                "requestBody": _body("Decision"),
                "responses": _responses(_answer("The answer counts.", "Decided"), "403", "404", "409", "503"),
            }
        },
    }


def _audit_paths() -> Node:
    page = [
        _query("limit", {"type": "integer", "minimum": 1, "maximum": MAX_ENTRIES, "default": 50}),
        _query("cursor", {"type": "string"}, "`next_cursor` of the page before."),
        *(_query(name, {"type": "string", "format": "date-time", "maxLength": 40}) for name in ("since", "until")),
        *(_query(name, {"type": "string", "maxLength": 1000}, _FOUND_BY.get(name, "")) for name in FILTERS),
    ]
    entries = [
        *(_query(name, {"type": "string", "maxLength": 1000}) for name in ("event", "stream")),
        _query("before", {"type": "integer", "minimum": 1, "maximum": 2**40 - 1}, "Only numbers below this."),
    ]
    stream = _query("stream", {"type": "string"}, "Which stream's, where several have an entry of this number.")
    return {
        "/v1/audit": {
            "get": {
                "operationId": "listAudit",
                "summary": "Audit entries of all streams, newest first; filtered by what calls are like, newest call first",
                "parameters": [*page, *entries],
                "responses": _responses(_answer("Entries.", "AuditEntries"), "403", "404", "503"),
            }
        },
        "/v1/audit/calls": {
            "get": {
                "operationId": "listAuditedCalls",
                "summary": "Calls, newest first: what was intended, and how it ended",
                "parameters": page,
                "responses": _responses(_answer("Calls.", "AuditCalls"), "403", "404", "503"),
            }
        },
        "/v1/audit/{seq}": {
            "get": {
                "operationId": "getAuditEntry",
                "summary": "One audit entry, held against the log",
                "parameters": [_path("seq", {"type": "integer", "minimum": 0}), stream],
                "responses": _responses(_answer("The entry.", "AuditEntry"), "403", "404", "503"),
            }
        },
    }


def _state_paths() -> Node:
    return {
        "/healthz": {
            "get": {"operationId": "health", "security": [], "responses": {"200": _answer("Alive.", "State")}}
        },
        "/metrics": {
            "get": {
                "operationId": "metrics",
                "summary": "What this process counted, for Prometheus: sums without names",
                "security": [],
                "responses": {
                    "200": {"description": "Counters.", "content": {"text/plain": {"schema": {"type": "string"}}}}
                },
            }
        },
        "/readyz": {
            "get": {
                "operationId": "ready",
                "security": [],
                "responses": {"200": _answer("Takes calls.", "State"), "503": _answer("Does not.", "State")},
            }
        },
    }


def _schemas() -> Node:
    return {
        **_envelope_schemas(),
        **_message_schemas(),
        **_approval_schemas(),
        "CallBody": {
            **_object(
                {
                    "arguments": _ANYTHING,
                    "wait": {"type": "number", "minimum": 0, "maximum": 300},
                    "idempotency_key": {"type": "string", "minLength": 1, "maxLength": 128},
                }
            ),
            "additionalProperties": False,
        },
        "Tools": _object({"tools": {"type": "array", "items": _ANYTHING}, "next_cursor": _TEXT}, "tools"),
        "AuditEntry": _ANYTHING,
        "CallEvent": _object({"event": {"enum": ["progress", "done", "error"]}, "data": _TEXT}, "event", "data"),
        "AuditEntries": _object({"entries": {"type": "array", "items": _ref("AuditEntry")}, **_PAGED}, "entries"),
        "AuditCalls": _object({"calls": {"type": "array", "items": _ANYTHING}, **_PAGED}, "calls"),
        "State": _object({"status": _TEXT, "reasons": _TEXTS, "warnings": _TEXTS}, "status"),
    }


def _envelope_schemas() -> Node:
    texts: Node = dict.fromkeys(("code", "message", "suggestion", "help_url", "rule", "pointer"), _TEXT)
    meta: Node = {
        "duration_ms": {"type": "number"},
        "truncated": {"type": "boolean"},
        "next_cursor": _TEXT,
        "audit_seq": {"type": "integer"},
        "age_s": {"type": "number"},
        "dropped": {"type": "array", "items": _object({"argument": _TEXT, "nearest": _TEXT}, "argument")},
    }
    envelope: Node = {
        "status": {"enum": ["ok", "error", "refused", "pending", "cancelled"]},
        "tool": _TEXT,
        "call_id": _TEXT,
        "data": True,
        "error": _ref("Error"),
        "meta": _object(meta, "duration_ms", "truncated"),
    }
    return {
        "Error": _object({**texts, "retry_after_s": {"type": "number"}}, "code", "message"),
        "Envelope": _object(envelope, "status", "tool", "call_id", "meta"),
        "Refusal": _object({"status": {"const": "refused"}, "error": _ref("Error")}, "status", "error"),
    }


def _message_schemas() -> Node:
    """Calls and answers by form; what else OpenAI and Anthropic put into theirs is taken and ignored."""
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
    function = _object({"name": name, "arguments": written}, "name")
    chat: Node = {"id": id_, "type": {"const": "function"}, "function": function}
    response: Node = {"type": {"const": "function_call"}, "call_id": id_, "name": name, "arguments": written}
    anthropic: Node = {"type": {"const": "tool_use"}, "id": id_, "name": name, "input": _ANYTHING}
    tool: Node = {"role": {"const": "tool"}, "tool_call_id": _TEXT, "content": _TEXT}
    message: Node = {**tool, "name": _TEXT, "status": {"enum": ["success", "error"]}}
    output: Node = {"type": {"const": "function_call_output"}, "call_id": _TEXT, "output": _TEXT}
    result: Node = {
        "type": {"const": "tool_result"},
        "tool_use_id": _TEXT,
        "content": _TEXT,
        "is_error": {"type": "boolean"},
    }
    calls: Node = {
        "LangChainToolCall": {**_object(langchain, "name"), "additionalProperties": False},
        "ChatToolCall": _object(chat, *chat),
        "FunctionCall": _object(response, "type", "call_id", "name"),
        "ToolUse": _object(anthropic, "type", "id", "name"),
    }
    answers: Node = {
        "LangChainToolMessage": _object(message, *message),
        "ChatToolMessage": {**_object(tool, *tool), "additionalProperties": False},
        "FunctionCallOutput": _object(output, *output),
        "ToolResult": _object(result, *result),
    }
    call_form: Node = {"oneOf": [_ref(form) for form in calls]}
    return {
        **calls,
        **answers,
        "ToolCalls": {"type": "array", "minItems": 1, "maxItems": MAX_CALLS, "items": call_form},
        "ToolMessages": {"type": "array", "items": {"oneOf": [_ref(form) for form in answers]}},
    }


def _approval_schemas() -> Node:
    texts = ("id", "principal", "on_behalf_of", "tool", "effect", "sql", "rule", "asked", "expires")
    approval: Node = dict.fromkeys((*texts, "session", "client", "parent"), _TEXT)
    decision: Node = {
        "decision": {"enum": ["approve", "deny"]},
        "note": {"type": "string", "maxLength": MAX_NOTE_LENGTH},
    }
    decided: Node = {"id": _TEXT, "decision": {"enum": ["approve", "deny"]}, "status": {"enum": ["approved", "ended"]}}
    return {
        "Approval": _object({**approval, "arguments": _ANYTHING}, "id", "principal", "tool", "arguments", "expires"),
        "Approvals": _object({"approvals": {"type": "array", "items": _ref("Approval")}}, "approvals"),
        "Decision": {**_object(decision, "decision"), "additionalProperties": False},
        "Decided": _object(decided, *decided),
    }


_TEXT: Node = {"type": "string"}
_TEXTS: Node = {"type": "array", "items": _TEXT}
_ANYTHING: Node = {"type": "object"}
_PAGED: Node = {"next_cursor": _TEXT, "warnings": _TEXTS}
_FOUND_BY = {
    "tool": "A name, or a glob like `shop__*`.",
    "text": "What an entry of the call holds, letter case aside; searched without an index.",
}
_ENDINGS = {
    "200": "The call succeeded.",
    "202": "It waits for somebody.",
    "403": "It was refused.",
    "404": "There is no such tool for this principal.",
    "429": "Too many calls; see Retry-After.",
    "500": "The tool or the gateway failed.",
    "502": "The system behind the tool failed.",
    "503": "The gateway takes no calls, or the system behind the tool is down.",
    "504": "The system behind the tool did not answer in time.",
}
_ERRORS = {
    "400": "The request is malformed; the pointer names the part.",
    "401": "The credential is missing or wrong.",
    "403": "This principal may not.",
    "404": "There is none.",
    "409": "Somebody was quicker, or it is too late.",
    "413": "The body is too large.",
    "415": "The body is not JSON.",
    "429": "Too many; see Retry-After.",
    "503": "It cannot be read now.",
}
_CONVERSATION: Node = {
    "name": "X-Conversation-Id",
    "in": "header",
    "description": "The conversation this call belongs to: its turns are counted, and rules about earlier calls of a session look at it.",
    "schema": {"type": "string", "pattern": "^[\\x21-\\x7e]{0,128}$"},
}
_OF_CALLS: tuple[Node, ...] = (
    _CONVERSATION,
    {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "As `idempotency_key` in the body: the call is made once, however often it is sent.",
        "schema": {"type": "string", "pattern": "^[\\x21\\x23-\\x7e][\\x21-\\x7e]{0,127}$"},
    },
)
_CALLER: tuple[Node, ...] = (
    {
        "name": "X-Toolset",
        "in": "header",
        "description": "Only tools of this toolset of the policy are seen.",
        "schema": {"type": "string"},
    },
    {
        "name": "X-On-Behalf-Of",
        "in": "header",
        "description": "The user the caller acts for, by name or as a token of theirs, if the policy lets it. Both must be allowed.",
        "schema": {"type": "string"},
    },
)


def _object(properties: Node, *required: str) -> Node:
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def _ref(name: str) -> Node:
    return {"$ref": f"#/components/schemas/{name}"}


def _query(name: str, schema: Node, text: str = "") -> Node:
    return {"name": name, "in": "query", "schema": schema, **({"description": text} if text else {})}


def _path(name: str, schema: Node) -> Node:
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _body(schema: str) -> Node:
    return {"required": True, "content": {"application/json": {"schema": _ref(schema)}}}


def _answer(text: str, schema: str) -> Node:
    return _shaped(text, _ref(schema))


def _shaped(text: str, schema: Node) -> Node:
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _errors(*more: str) -> Node:
    return {
        status: _answer(text, "Refusal")
        for status, text in _ERRORS.items()
        if status in {"400", "401", "413", "415", *more}
    }


def _endings() -> Node:
    """The statuses of an envelope, and those of a request that is refused before there is one; most may be either."""
    either: Node = {"anyOf": [_ref("Envelope"), _ref("Refusal")]}
    ended: Node = {"200": _answer(_ENDINGS["200"], "Envelope"), "202": _answer(_ENDINGS["202"], "Envelope")}
    refused = {status: _shaped(text, either) for status, text in _ENDINGS.items() if status not in ended}
    return {**_errors(), **ended, **refused, "400": _shaped(_ERRORS["400"], either)}


def _responses(fine: Node, *more: str) -> Node:
    return {"200": fine, **_errors(*more)}
