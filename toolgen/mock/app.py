"""The mock as an ASGI application: one request in, one described answer out."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from toolgen.mock.answers import Reply, preference, problem, reply
from toolgen.mock.description import Description
from toolgen.mock.requests import Request, faults, unsupported

__all__ = ["MockApp"]

_LARGEST_BODY = 10 * 1024 * 1024


class MockApp:
    """Serves one description. Nothing is kept between requests: the same request always gets the same answer."""

    def __init__(self, description: Description) -> None:
        self._description = description

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = HttpRequest(scope, receive)
        try:
            body = await _body(request)
        except ClientDisconnect:
            return
        if body is None:
            answer = problem(413, "Too large", f"a mock takes at most {_LARGEST_BODY >> 20} MiB")
        else:
            answer = self._answer(request, body)
        await _response(answer)(scope, receive, send)

    def _answer(self, http: HttpRequest, body: bytes) -> Reply:
        query = parse_qsl(http.url.query, keep_blank_values=True)
        path = http.scope.get("raw_path") or http.url.path.encode()
        found = self._description.find(path.decode("ascii", "replace").partition("?")[0], query)
        if not found:
            return problem(404, "Not found", "no path of the description matches")
        meant = next((one for one in found if one[0].operation.method.upper() == http.method), None)
        if meant is None:
            return _not_allowed({endpoint.operation.method.upper() for endpoint, _ in found})
        endpoint, captured = meant
        request = Request(path=captured, query=query, headers=_headers(http), cookies=http.cookies, body=body)
        wanted = preference(", ".join(http.headers.getlist("prefer")))
        if not wanted.code:
            if unsupported(endpoint, request):
                return problem(415, "Unsupported media type", f"this takes {', '.join(endpoint.accepts)}")
            if wrong := faults(self._description, endpoint, request):
                detail = "the request is not what the description asks for"
                return problem(400, "Bad request", detail, [fault.to_dict() for fault in wrong])
        return reply(self._description, endpoint, wanted, ", ".join(http.headers.getlist("accept")))


def _not_allowed(methods: set[str]) -> Reply:
    allowed = ", ".join(sorted(methods))
    return replace(problem(405, "Method not allowed", f"this path takes {allowed}"), headers={"Allow": allowed})


async def _body(request: HttpRequest) -> bytes | None:
    """The whole body, or None when it is too large."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > _LARGEST_BODY:
            return None
        parts.append(part)
    return b"".join(parts)


def _headers(request: HttpRequest) -> dict[str, str]:
    return dict(request.headers.items())


def _response(answer: Reply) -> Response:
    headers = {**answer.headers, "Content-Type": answer.media_type} if answer.media_type else dict(answer.headers)
    return Response(answer.body, status_code=answer.status, headers=headers)
