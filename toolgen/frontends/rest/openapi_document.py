"""OpenAPI 3.1 document of the REST interface, served at /openapi.json."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version

from toolgen.frontends.rest.approvals import MAX_PAGE as MAX_PAGE_OF_APPROVALS
from toolgen.frontends.rest.audit import FILTERS, MAX_ENTRIES
from toolgen.frontends.rest.call_events import DEFAULT_WAIT_S, MAX_WAIT_S
from toolgen.frontends.rest.devices import MAX_WAIT_S as MAX_REQUESTS_WAIT_S
from toolgen.frontends.rest.openapi_accounts import account_paths
from toolgen.frontends.rest.openapi_context import context_paths, context_schemas
from toolgen.frontends.rest.openapi_grants import grant_paths
from toolgen.frontends.rest.openapi_operations import (
    ERRORS,
    answer,
    errors,
    get,
    path,
    post,
    query,
    responses,
    shaped,
    whole,
)
from toolgen.frontends.rest.openapi_schemas import TEXT, Node, ref, schemas
from toolgen.frontends.rest.tool_call_batches import MAX_NAME_LENGTH
from toolgen.frontends.rest.tools import DEFAULT_PAGE, MAX_PAGE
from toolgen.gateway.calls.json_body import encode
from toolgen.gateway.catalog.search_tools import DEFAULT_HITS, INPUTS
from toolgen.gateway.catalog.tool_lists import LISTED
from toolgen.gateway.metrics.prometheus import DETAILS
from toolgen.model.caller_requests import REQUEST_KINDS

__all__ = ["openapi_json"]


@cache
def openapi_json() -> bytes:
    """Return the bytes of the document; equal for all callers, so it names no tool."""
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
                "schemas": {**schemas(), **context_schemas()},
            },
        }
    )


def _paths() -> Node:
    return {
        **_tool_paths(),
        **_call_paths(),
        **_answer_paths(),
        **_waiting_paths(),
        **grant_paths(),
        **account_paths(),
        **_device_paths(),
        **context_paths(),
        **_audit_paths(),
        **_state_paths(),
    }


def _tool_paths() -> Node:
    formats: Node = {"enum": sorted(LISTED), "default": "manifest"}
    return {
        "/v1/tools": get(
            "listTools",
            "The tools this principal may call, in name order, or those that fit a request in words",
            responses(answer("A page of tools.", "Tools"), "403", "404", "429"),
            [
                query("format", formats),
                query("q", {"type": "string", "minLength": 1}),
                query("limit", whole(MAX_PAGE), f"{DEFAULT_PAGE} when it is left out, {DEFAULT_HITS} with `q`."),
                query("cursor", TEXT, "`next_cursor` of the page before."),
                query("toolset", TEXT, "Only tools of this toolset of the policy."),
                _STEP,
                *_CALLER,
            ],
            "Without `binding` and `origin`, but for principals with the role `reviewer`. "
            f"Where the whole catalog would cost a model too much, {', '.join(sorted(INPUTS))} are listed in its place. "
            "With `q`, the tools of the whole catalog that fit, best first.",
        ),
        "/v1/tools/{name}": get(
            "getTool",
            "One tool of the caller's, as `format=manifest` lists it and with every definition that its arguments lead to",
            responses(answer("The tool.", "Tool"), "403", "404"),
            [path("name", {"type": "string", "maxLength": MAX_NAME_LENGTH}), _STEP, *_CALLER],
            "Where thousands of definitions follow, the list has the first two levels of them; here are all, which may be megabytes.",
        ),
    }


def _call_paths() -> Node:
    name = path("name", {"type": "string", "maxLength": MAX_NAME_LENGTH})
    return {
        "/v1/tools/{name}/call": post(
            "callTool", "One call to one tool", _endings(), [name, *_OF_CALLS, *_CALLER], "CallBody"
        ),
        "/v1/tool_calls": post(
            "callTools",
            "The tool calls of one turn of a model, made at once, and their answers in the same order and form",
            responses(answer("One message a call, in order.", "ToolMessages"), "403", "404"),
            [_WAIT, _MAY_ASK, *_OF_CALLS, *_CALLER],
            "ToolCalls",
        ),
    }


def _answer_paths() -> Node:
    token: Node = {"type": "string", "pattern": "^[A-Za-z0-9_-]{64}$"}
    file: Node = {
        "description": "The bytes.",
        "content": {"*/*": {"schema": {"type": "string", "format": "binary"}}},
    }
    return {
        "/v1/answers/{name}/{token}": get(
            "getAnswer",
            "The bytes of a file that a call answered with a link, while they are stored",
            {**responses(file, "503"), "404": answer("There is nothing here for this caller.", "Refusal")},
            [path("name", {"type": "string", "maxLength": 128}), path("token", token)],
            "Only for the principal that made the call; `data.resource.path` of its envelope has this path.",
        ),
        "/v1/files": _upload(),
    }


def _upload() -> Node:
    binary: Node = {"schema": {"type": "string", "format": "binary"}}
    properties: Node = {"file": binary["schema"]}
    form: Node = {
        "schema": {"type": "object", "properties": properties, "required": ["file"], "additionalProperties": False}
    }
    kept: Node = {
        "type": "object",
        "properties": {
            "uri": {"type": "string"},
            "size": {"type": "integer"},
            "media_type": {"type": "string"},
            "sha256": {"type": "string"},
            "filename": {"type": "string"},
            "expires_s": {"type": "number"},
        },
        "required": ["uri", "size", "media_type", "sha256", "expires_s"],
    }
    operation: Node = {
        "operationId": "uploadFile",
        "summary": "Keeps a file for the caller, whose calls may send it by its URI in place of its content",
        "parameters": [query("filename", {"type": "string"}, "Name of the file, of which 200 characters are stored.")],
        "requestBody": {"content": {"*/*": binary, "multipart/form-data": form}},
        "responses": {"201": shaped("The file is stored.", kept), **errors("503")},
    }
    return {"post": operation}


def _waiting_paths() -> Node:
    call_id: Node = path("id", {"type": "string", "maxLength": 128})
    endings: Node = {**_endings(), "404": answer("The caller has no such call.", "Refusal")}
    events: Node = {"description": "Events.", "content": {"text/event-stream": {"schema": ref("CallEvent")}}}
    return {
        "/v1/calls/{id}": get(
            "getCall",
            "The state of the caller's own call that had to wait or runs in the background; its outcome is stored for an hour",
            endings,
            [call_id],
        ),
        "/v1/calls/{id}/cancel": post(
            "cancelCall",
            "Withdraws the caller's own waiting call, or ends a running one, and returns its state",
            endings,
            [call_id],
        ),
        "/v1/calls/{id}/answers": post(
            "answerCall",
            "Answers questions of the caller's own call, each once, and returns its outcome, its next questions or its state",
            {**endings, "409": answer("The call does not ask this now.", "Refusal")},
            [call_id],
            "CallAnswers",
            "`answers` has a result of MCP (`elicitation/create`, `sampling/createMessage`, `roots/list`) for each key of "
            "`data.questions`. `wait` is for how many seconds the call is waited for.",
        ),
        "/v1/calls/{id}/events": get(
            "followCall",
            "The progress of the caller's own call that had to wait or runs in the background, as Server-Sent Events",
            responses(events, "404", "429", "503"),
            [call_id, query("wait", whole(MAX_WAIT_S, DEFAULT_WAIT_S), "For how many seconds, at most.")],
            "`progress` (`call_id`, `tool`, `state`: pending, approved or running, and how far it has come) at once and at each change, "
            "`partial` (`call_id`, `number`, `data`: a piece of the answer), `done` with the envelope when it has ended, `error` where "
            "it cannot be known. Ends after `done`, or when `wait` is over.",
        ),
        "/v1/approvals": get(
            "listApprovals",
            "The calls this principal may answer for, the oldest first, with their exact arguments and the request as it would be sent",
            responses(answer("A page of the calls that wait.", "Approvals"), "403", "404", "503"),
            [
                query("limit", whole(MAX_PAGE_OF_APPROVALS, DEFAULT_PAGE)),
                query("cursor", TEXT, "`next_cursor` of the page before."),
            ],
        ),
        "/v1/approvals/{id}": post(
            "decide",
            "Answers for a call: one denial ends it; after enough approvals the gateway executes it once",
            responses(answer("The answer counts.", "Decided"), "400", "403", "404", "409", "503"),
            [call_id],
            "Decision",
        ),
    }


def _device_paths() -> Node:
    requests: Node = {
        "description": "Current requests for the device; Server-Sent Events if `Accept` requests them.",
        "content": {
            "application/json": {"schema": ref("DeviceRequests")},
            "text/event-stream": {"schema": ref("DeviceEvent")},
        },
    }
    return {
        "/v1/device/requests": get(
            "listDeviceRequests",
            "What the device of this user is asked, the oldest first: JSON-RPC requests, and beside each what the device may show",
            responses(requests, "403", "429", "503"),
            [
                query(
                    "wait",
                    whole(MAX_REQUESTS_WAIT_S),
                    "For how many seconds; without it, what is asked now. Events go on without it.",
                ),
                query("cursor", TEXT, "`cursor` of the answer before: waits until something else is asked."),
            ],
            "A request is asked until it is answered, withdrawn or expired. As events: `request` for each, `withdrawn` with its `id` where "
            "it is not asked any more, `error` where that cannot be known.",
        ),
        "/v1/tool-messages": post(
            "answerDeviceRequest",
            "What the device answers: a JSON-RPC response, whose `id` is the request's. The first one counts",
            responses(
                answer("It was taken, and the call has ended.", "DeviceTaken"), "403", "404", "409", "410", "503"
            ),
            [],
            "DeviceAnswer",
        ),
    }


def _audit_paths() -> Node:
    page = [
        query("limit", whole(MAX_ENTRIES, 50)),
        query("cursor", TEXT, "`next_cursor` of the page before."),
        *(query(name, {"type": "string", "format": "date-time", "maxLength": 40}) for name in ("since", "until")),
        *(query(name, {"type": "string", "maxLength": 1000}, _FOUND_BY.get(name, "")) for name in FILTERS),
    ]
    entries = [
        *(query(name, {"type": "string", "maxLength": 1000}) for name in ("event", "stream")),
        query("before", whole(2**40 - 1), "Only numbers below this."),
    ]
    stream = query("stream", TEXT, "Which stream's, where several have an entry of this number.")
    return {
        "/v1/audit": get(
            "listAudit",
            "Audit entries of all streams, newest first; filtered by what calls are like, newest call first",
            responses(answer("Entries.", "AuditEntries"), "403", "404", "503"),
            [*page, *entries],
        ),
        "/v1/audit/calls": get(
            "listAuditedCalls",
            "Calls, newest first: what was intended, and how it ended",
            responses(answer("Calls.", "AuditCalls"), "403", "404", "503"),
            page,
        ),
        "/v1/audit/{seq}": get(
            "getAuditEntry",
            "One audit entry, held against the log",
            responses(answer("The entry.", "AuditEntry"), "403", "404", "503"),
            [path("seq", {"type": "integer", "minimum": 0}), stream],
        ),
    }


def _state_paths() -> Node:
    """Return the paths that need no credential."""
    counters: Node = {"description": "Counters.", "content": {"text/plain": {"schema": TEXT}}}
    alive, ready = {"200": answer("Alive.", "State")}, answer("Takes calls.", "State")
    summary = "Metrics of this process, for Prometheus: sums for all callers, names for principals that may read the audit log"
    words = f"What to tell by name, with commas between: {', '.join(DETAILS)}, or all. It needs a credential."
    word = f"({'|'.join((*DETAILS, 'all'))})"
    detail = query("detail", {"type": "string", "pattern": f"^{word}(,{word})*$"}, words)
    answers = responses(counters, "403")
    return {
        "/healthz": {"get": {"operationId": "health", "security": [], "responses": alive}},
        "/metrics": {
            "get": {
                "operationId": "metrics",
                "summary": summary,
                "security": [{}, {"bearer": []}],
                "parameters": [detail],
                "responses": answers,
            }
        },
        "/readyz": {
            "get": {
                "operationId": "ready",
                "security": [],
                "responses": {"200": ready, "503": answer("Does not.", "State")},
            }
        },
    }


_FOUND_BY = {
    "tool": "A name, or a glob like `shop__*`.",
    "text": "Text in an entry of the call, ignoring case; searched without an index.",
}
_ENDINGS = {
    "200": "The call succeeded.",
    "202": "The call waits for a person, an account or a device.",
    "403": "It was refused.",
    "404": "There is no such tool for this principal.",
    "429": "Too many calls; see Retry-After.",
    "500": "The tool or the gateway failed.",
    "502": "The system behind the tool failed.",
    "503": "The gateway accepts no calls or cannot use its state now, or the system behind the tool is down; see Retry-After.",
    "504": "The system behind the tool did not answer in time.",
}
_STEP: Node = {
    "name": "X-Conversation-Id",
    "in": "header",
    "description": "The conversation whose tools are meant, where a middleware shows others in another step.",
    "schema": {"type": "string", "pattern": "^[\\x21-\\x7e]{0,128}$"},
}
_CONVERSATION: Node = {
    "name": "X-Conversation-Id",
    "in": "header",
    "description": "The conversation this call belongs to: its turns are counted, and rules about earlier calls of a session use it.",
    "schema": {"type": "string", "pattern": "^[\\x21-\\x7e]{0,128}$"},
}
_WAIT = query(
    "wait",
    {"type": "number", "minimum": 0, "maximum": 300},
    "Maximum seconds of waiting for each call; a call that has not ended by then continues in the background.",
)
_MAY_ASK = query(
    "may_ask",
    {"type": "string"},
    f"Kinds of questions that the calls may ask their caller, separated by commas: {', '.join(REQUEST_KINDS)}.",
)
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


def _endings() -> Node:
    """Return the statuses of an envelope, and those of a request that is refused before there is one; most may be either."""
    either: Node = {"anyOf": [ref("Envelope"), ref("Refusal")]}
    ended: Node = {"200": answer(_ENDINGS["200"], "Envelope"), "202": answer(_ENDINGS["202"], "Envelope")}
    refused = {status: shaped(text, either) for status, text in _ENDINGS.items() if status not in ended}
    return {**errors(), **ended, **refused, "400": shaped(ERRORS["400"], either)}
