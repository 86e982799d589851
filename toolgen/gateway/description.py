"""The REST interface as an OpenAPI 3.1 document, served at /openapi.json."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from typing import TypeAlias

from toolgen.gateway.wire import encode

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
    call_answers = {
        status: _answer(text, "Envelope")
        for status, text in {
            "200": "The call succeeded.",
            "202": "It waits for somebody.",
            "403": "It was refused.",
            "404": "There is no such tool for this principal.",
            "429": "Too many calls; see Retry-After.",
            "500": "The tool or the gateway failed.",
            "502": "The system behind the tool failed.",
            "503": "The gateway takes no calls, or the system behind the tool is down.",
            "504": "The system behind the tool did not answer in time.",
        }.items()
    }
    return {
        "/v1/tools": {
            "get": {
                "operationId": "listTools",
                "summary": "The tools this principal may call, in name order",
                "parameters": [
                    _query("format", {"enum": ["manifest", "mcp", "openai", "anthropic"], "default": "manifest"}),
                    _query("limit", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}),
                    _query("cursor", {"type": "string"}),
                ],
                "responses": _responses(_answer("A page of tools.", "Tools")),
            }
        },
        "/v1/tools/{name}/call": {
            "post": {
                "operationId": "callTool",
                "summary": "One call to one tool",
                "parameters": [_path("name", {"type": "string", "maxLength": 128}), _CONVERSATION],
                "requestBody": _body("CallBody"),
                "responses": {**_errors(), **call_answers},
            }
        },
        "/v1/tool_calls": {
            "post": {
                "operationId": "callTools",
                "summary": "LangGraph tool calls in, tool messages out",
                "parameters": [_CONVERSATION],
                "requestBody": _body("ToolCalls"),
                "responses": _responses(_answer("One message a call, in order.", "ToolMessages")),
            }
        },
        "/v1/audit": {
            "get": {
                "operationId": "listAudit",
                "summary": "Audit entries, newest first",
                "parameters": [
                    _query("limit", {"type": "integer", "minimum": 1, "maximum": 500, "default": 50}),
                    _query("before", {"type": "integer", "minimum": 1}),
                ],
                "responses": _responses(_answer("Entries.", "AuditEntries"), "403", "503"),
            }
        },
        "/v1/audit/{seq}": {
            "get": {
                "operationId": "getAuditEntry",
                "summary": "One audit entry",
                "parameters": [_path("seq", {"type": "integer", "minimum": 0})],
                "responses": _responses(_answer("The entry.", "AuditEntry"), "403", "404", "503"),
            }
        },
        "/healthz": {
            "get": {"operationId": "health", "security": [], "responses": {"200": _answer("Alive.", "State")}}
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
    text, anything, number = {"type": "string"}, {"type": "object"}, {"type": "number"}
    error = _object(
        {
            "code": text,
            "message": text,
            "suggestion": text,
            "help_url": text,
            "retry_after_s": number,
            "rule": text,
            "pointer": text,
        },
        "code",
        "message",
    )
    meta = _object(
        {
            "duration_ms": number,
            "truncated": {"type": "boolean"},
            "next_cursor": text,
            "audit_seq": {"type": "integer"},
        },
        "duration_ms",
        "truncated",
    )
    status = {"enum": ["ok", "error", "refused", "pending", "cancelled"]}
    call = {
        **_object({"id": text, "name": text, "args": anything, "type": {"const": "tool_call"}}, "id", "name"),
        "additionalProperties": False,
    }
    message = _object(
        {
            "role": {"const": "tool"},
            "tool_call_id": text,
            "name": text,
            "content": text,
            "status": {"enum": ["success", "error"]},
        },
        "role",
        "tool_call_id",
        "name",
        "content",
        "status",
    )
    return {
        "Error": error,
        "Envelope": _object(
            {
                "status": status,
                "tool": text,
                "call_id": text,
                "data": True,
                "error": _ref("Error"),
                "meta": meta,
            },
            "status",
            "tool",
            "call_id",
            "meta",
        ),
        "Refusal": _object({"status": {"const": "refused"}, "error": _ref("Error")}, "status", "error"),
        "CallBody": {
            **_object(
                {
                    "arguments": anything,
                    "wait": {"type": "number", "minimum": 0, "maximum": 300},
                    "idempotency_key": {"type": "string", "minLength": 1, "maxLength": 128},
                }
            ),
            "additionalProperties": False,
        },
        "ToolCalls": {"type": "array", "minItems": 1, "maxItems": 64, "items": call},
        "ToolMessages": {"type": "array", "items": message},
        "Tools": _object({"tools": {"type": "array", "items": anything}, "next_cursor": text}, "tools"),
        "AuditEntry": anything,
        "AuditEntries": _object({"entries": {"type": "array", "items": _ref("AuditEntry")}}, "entries"),
        "State": _object({"status": text, "reasons": {"type": "array", "items": text}}, "status"),
    }


_CONVERSATION: Node = {
    "name": "X-Conversation-Id",
    "in": "header",
    "description": "The conversation a turn limit counts.",
    "schema": {"type": "string", "maxLength": 128},
}


def _object(properties: Node, *required: str) -> Node:
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def _ref(name: str) -> Node:
    return {"$ref": f"#/components/schemas/{name}"}


def _query(name: str, schema: Node) -> Node:
    return {"name": name, "in": "query", "schema": schema}


def _path(name: str, schema: Node) -> Node:
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _body(schema: str) -> Node:
    return {"required": True, "content": {"application/json": {"schema": _ref(schema)}}}


def _answer(text: str, schema: str) -> Node:
    return {"description": text, "content": {"application/json": {"schema": _ref(schema)}}}


def _errors(*more: str) -> Node:
    known = {
        "400": "The request is malformed; the pointer names the part.",
        "401": "The credential is missing or wrong.",
        "403": "This principal may not.",
        "404": "There is none.",
        "413": "The body is too large.",
        "415": "The body is not JSON.",
        "503": "It cannot be read now.",
    }
    return {
        status: _answer(text, "Refusal")
        for status, text in known.items()
        if status in {"400", "401", "413", "415", *more}
    }


def _responses(fine: Node, *more: str) -> Node:
    return {"200": fine, **_errors(*more)}
