"""The REST interface as an OpenAPI 3.1 document, served at /openapi.json."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.metadata import version

from toolgen.gateway.approval_grants import MAX_GRANTS
from toolgen.gateway.approvals import MAX_WAITING
from toolgen.gateway.json_body import encode
from toolgen.gateway.prometheus import DETAILS
from toolgen.gateway.rest.audit import FILTERS, MAX_ENTRIES
from toolgen.gateway.rest.calls import DEFAULT_WAIT_S, MAX_WAIT_S
from toolgen.gateway.rest.devices import MAX_WAIT_S as MAX_REQUESTS_WAIT_S
from toolgen.gateway.rest.openapi_schemas import TEXT, Node, ref, schemas
from toolgen.gateway.rest.tool_call_batches import MAX_NAME_LENGTH
from toolgen.gateway.rest.tools import DEFAULT_PAGE, MAX_PAGE
from toolgen.gateway.search_tools import DEFAULT_HITS, INPUTS
from toolgen.gateway.tool_lists import LISTED

__all__ = ["openapi_json"]


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
                "schemas": schemas(),
            },
        }
    )


def _paths() -> Node:
    return {
        **_tool_paths(),
        **_call_paths(),
        **_answer_paths(),
        **_waiting_paths(),
        **_grant_paths(),
        **_device_paths(),
        **_audit_paths(),
        **_state_paths(),
    }


def _tool_paths() -> Node:
    formats: Node = {"enum": sorted(LISTED), "default": "manifest"}
    return {
        "/v1/tools": _get(
            "listTools",
            "The tools this principal may call, in name order, or those that fit a request in words",
            _responses(_answer("A page of tools.", "Tools"), "403", "404", "429"),
            [
                _query("format", formats),
                _query("q", {"type": "string", "minLength": 1}),
                _query("limit", _whole(MAX_PAGE), f"{DEFAULT_PAGE} when it is left out, {DEFAULT_HITS} with `q`."),
                _query("cursor", TEXT, "`next_cursor` of the page before."),
                _query("toolset", TEXT, "Only tools of this toolset of the policy."),
                *_CALLER,
            ],
            f"Where the whole catalog would cost a model too much, {', '.join(sorted(INPUTS))} are listed in its place. "
            "With `q`, the tools of the whole catalog that fit, best first.",
        ),
        "/v1/tools/{name}": _get(
            "getTool",
            "One tool of the caller's, as `format=manifest` lists it and with every definition that its arguments lead to",
            _responses(_answer("The tool.", "Tool"), "403", "404"),
            [_path("name", {"type": "string", "maxLength": MAX_NAME_LENGTH}), *_CALLER],
            "Where thousands of definitions follow, the list has the first two levels of them; here are all, which may be megabytes.",
        ),
    }


def _call_paths() -> Node:
    name = _path("name", {"type": "string", "maxLength": MAX_NAME_LENGTH})
    return {
        "/v1/tools/{name}/call": _post(
            "callTool", "One call to one tool", _endings(), [name, *_OF_CALLS, *_CALLER], "CallBody"
        ),
        "/v1/tool_calls": _post(
            "callTools",
            "The tool calls of one turn of a model, made at once, and their answers in the same order and form",
            _responses(_answer("One message a call, in order.", "ToolMessages"), "403", "404"),
            [*_OF_CALLS, *_CALLER],
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
        "/v1/answers/{name}/{token}": _get(
            "getAnswer",
            "The bytes of a file that a call answered with a link, for as long as they are kept",
            {**_responses(file), "404": _answer("There is nothing here for this caller.", "Refusal")},
            [_path("name", {"type": "string", "maxLength": 128}), _path("token", token)],
            "For the principal alone that made the call; `data.resource.path` of its envelope leads here.",
        )
    }


def _waiting_paths() -> Node:
    call_id: Node = _path("id", {"type": "string", "maxLength": 128})
    endings: Node = {**_endings(), "404": _answer("The caller has no such call.", "Refusal")}
    events: Node = {"description": "Events.", "content": {"text/event-stream": {"schema": ref("CallEvent")}}}
    return {
        "/v1/calls/{id}": _get(
            "getCall",
            "How the caller's own call stands that had to wait or was left, or how it ended, for an hour",
            endings,
            [call_id],
        ),
        "/v1/calls/{id}/cancel": _post(
            "cancelCall",
            "Withdraws the caller's own call, or ends it where it is being carried out, and says how it stands",
            endings,
            [call_id],
        ),
        "/v1/calls/{id}/events": _get(
            "followCall",
            "How the caller's own call goes on that had to wait or was left, as Server-Sent Events",
            _responses(events, "404", "429", "503"),
            [call_id, _query("wait", _whole(MAX_WAIT_S, DEFAULT_WAIT_S), "For how many seconds, at most.")],
            "`progress` (`call_id`, `tool`, `state`: pending, approved or running, and how far it has come) at once and at each change, "
            "`partial` (`call_id`, `number`, `data`: a piece of the answer), `done` with the envelope when it has ended, `error` where "
            "it cannot be known. Ends after `done`, or when `wait` is over.",
        ),
        "/v1/approvals": _get(
            "listApprovals",
            "The calls this principal may answer for, the oldest first, with their exact arguments and the request as it would be sent",
            _responses(_answer("Calls that wait.", "Approvals"), "403", "503"),
            [_query("limit", _whole(MAX_WAITING, DEFAULT_PAGE))],
        ),
        "/v1/approvals/{id}": _post(
            "decide",
            "Answers for a call: one no ends it, and once enough people said yes it is carried out once, by the gateway",
            _responses(_answer("The answer counts.", "Decided"), "400", "403", "404", "409", "503"),
            [call_id],
            "Decision",
        ),
    }


def _grant_paths() -> Node:
    end = "Ends a grant, for every gateway at once"
    return {
        "/v1/grants": _get(
            "listGrants",
            "What approvers allowed for some time that this principal may end, by when it expires",
            _responses(_answer("Grants in force.", "Grants"), "403", "404", "503"),
            [_query("limit", _whole(MAX_GRANTS, DEFAULT_PAGE))],
        ),
        "/v1/grants/{id}": {
            "delete": {
                "operationId": "endGrant",
                "summary": end,
                "parameters": [_path("id", {"type": "string", "maxLength": 128})],
                "responses": _responses(_answer("It is in force no more.", "GrantEnded"), "403", "404", "503"),
            }
        },
    }


def _device_paths() -> Node:
    requests: Node = {
        "description": "What the device is asked now; Server-Sent Events where `Accept` asks for them.",
        "content": {
            "application/json": {"schema": ref("DeviceRequests")},
            "text/event-stream": {"schema": ref("DeviceEvent")},
        },
    }
    return {
        "/v1/device/requests": _get(
            "listDeviceRequests",
            "What the device of this user is asked, the oldest first: JSON-RPC requests, and beside each what the device may show",
            _responses(requests, "403", "429", "503"),
            [
                _query(
                    "wait",
                    _whole(MAX_REQUESTS_WAIT_S),
                    "For how many seconds; without it, what is asked now. Events go on without it.",
                ),
                _query("cursor", TEXT, "`cursor` of the answer before: waits until something else is asked."),
            ],
            "A request is asked until it is answered, withdrawn or expired. As events: `request` for each, `withdrawn` with its `id` where "
            "it is not asked any more, `error` where that cannot be known.",
        ),
        "/v1/tool-messages": _post(
            "answerDeviceRequest",
            "What the device answers: a JSON-RPC response, whose `id` is the request's. The first one counts",
            _responses(
                _answer("It was taken, and the call has ended.", "DeviceTaken"), "403", "404", "409", "410", "503"
            ),
            [],
            "DeviceAnswer",
        ),
    }


def _audit_paths() -> Node:
    page = [
        _query("limit", _whole(MAX_ENTRIES, 50)),
        _query("cursor", TEXT, "`next_cursor` of the page before."),
        *(_query(name, {"type": "string", "format": "date-time", "maxLength": 40}) for name in ("since", "until")),
        *(_query(name, {"type": "string", "maxLength": 1000}, _FOUND_BY.get(name, "")) for name in FILTERS),
    ]
    entries = [
        *(_query(name, {"type": "string", "maxLength": 1000}) for name in ("event", "stream")),
        _query("before", _whole(2**40 - 1), "Only numbers below this."),
    ]
    stream = _query("stream", TEXT, "Which stream's, where several have an entry of this number.")
    return {
        "/v1/audit": _get(
            "listAudit",
            "Audit entries of all streams, newest first; filtered by what calls are like, newest call first",
            _responses(_answer("Entries.", "AuditEntries"), "403", "404", "503"),
            [*page, *entries],
        ),
        "/v1/audit/calls": _get(
            "listAuditedCalls",
            "Calls, newest first: what was intended, and how it ended",
            _responses(_answer("Calls.", "AuditCalls"), "403", "404", "503"),
            page,
        ),
        "/v1/audit/{seq}": _get(
            "getAuditEntry",
            "One audit entry, held against the log",
            _responses(_answer("The entry.", "AuditEntry"), "403", "404", "503"),
            [_path("seq", {"type": "integer", "minimum": 0}), stream],
        ),
    }


def _state_paths() -> Node:
    """What anybody may ask."""
    counters: Node = {"description": "Counters.", "content": {"text/plain": {"schema": TEXT}}}
    alive, ready = {"200": _answer("Alive.", "State")}, _answer("Takes calls.", "State")
    summary = "What this process counted, for Prometheus: sums for anybody, names for who may read the record"
    words = f"What to tell by name, with commas between: {', '.join(DETAILS)}, or all. It takes a credential."
    word = f"({'|'.join((*DETAILS, 'all'))})"
    detail = _query("detail", {"type": "string", "pattern": f"^{word}(,{word})*$"}, words)
    answers = _responses(counters, "403")
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
                "responses": {"200": ready, "503": _answer("Does not.", "State")},
            }
        },
    }


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
    "410": "It is not asked any more: its time is over, or it was withdrawn.",
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


def _get(name: str, summary: str, responses: Node, parameters: Sequence[Node], text: str = "") -> Node:
    described: Node = {"description": text} if text else {}
    head: Node = {"operationId": name, "summary": summary, **described}
    return {"get": {**head, "parameters": parameters, "responses": responses}}


def _post(name: str, summary: str, responses: Node, parameters: Sequence[Node], body: str = "") -> Node:
    taken: Node = {"requestBody": _body(body)} if body else {}
    head: Node = {"operationId": name, "summary": summary, "parameters": parameters, **taken}
    return {"post": {**head, "responses": responses}}


def _whole(most: int, default: int | None = None) -> Node:
    """A whole number from 1 on."""
    return {"type": "integer", "minimum": 1, "maximum": most, **({} if default is None else {"default": default})}


def _query(name: str, schema: Node, text: str = "") -> Node:
    return {"name": name, "in": "query", "schema": schema, **({"description": text} if text else {})}


def _path(name: str, schema: Node) -> Node:
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _body(schema: str) -> Node:
    return {"required": True, "content": {"application/json": {"schema": ref(schema)}}}


def _answer(text: str, schema: str) -> Node:
    return _shaped(text, ref(schema))


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
    either: Node = {"anyOf": [ref("Envelope"), ref("Refusal")]}
    ended: Node = {"200": _answer(_ENDINGS["200"], "Envelope"), "202": _answer(_ENDINGS["202"], "Envelope")}
    refused = {status: _shaped(text, either) for status, text in _ENDINGS.items() if status not in ended}
    return {**_errors(), **ended, **refused, "400": _shaped(_ERRORS["400"], either)}


def _responses(fine: Node, *more: str) -> Node:
    return {"200": fine, **_errors(*more)}
