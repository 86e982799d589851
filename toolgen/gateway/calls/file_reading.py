"""Tool `read_file`: it shows a file by its URI, as much as a model can read at once."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence

from toolgen.core.clock import Clock
from toolgen.core.errors import StateError
from toolgen.gateway.calls.answer_files import HeldFile, KeptFile
from toolgen.gateway.calls.file_links import READ_FILE, SCHEME, UPLOADS
from toolgen.gateway.calls.file_uploads import FileUploads, GatewayFiles
from toolgen.gateway.calls.json_body import ended
from toolgen.gateway.calls.response_shaping import ResponseShaper
from toolgen.gateway.policies.compiled_policy import CompiledPolicy, CurrentPolicy
from toolgen.model.call import Principal
from toolgen.model.media import SHOWN, begins_as_text, shown_type
from toolgen.model.prompt_injection import visible
from toolgen.model.result import Envelope, Error, Refused, Shape, Success, file_data
from toolgen.model.schema import JsonObject, Schema
from toolgen.model.tool import Effect, NoBinding, Tool, seal
from toolgen.model.unavailable import fault_error
from toolgen.pipeline.middleware import CallContext, CallerConnection
from toolgen.pipeline.responses.encoded_files import declared_names
from toolgen.policy.arguments import Validator, excess, repair
from toolgen.policy.null_arguments import without_null

__all__ = ["CallerFiles", "with_file_tool"]

_MAX_BLOCK = 4 * 1024 * 1024
_RANGE = re.compile(r"(?:([0-9]{1,15})-([0-9]{0,15})|-([0-9]{1,15}))\Z")
_INPUT: Schema = {
    "type": "object",
    "properties": {
        "uri": {"type": "string", "minLength": 1, "maxLength": 400, "description": "As in the answer."},
        "range": {
            "type": "string",
            "pattern": "^([0-9]+-[0-9]*|-[0-9]+)$",
            "maxLength": 32,
            "description": "Which bytes of a text to read, like 0-65535, 65536- (the rest) or -1000 (the last). "
            "Without it the file is read from its beginning.",
        },
    },
    "required": ["uri"],
}
_NO_UPLOAD = Error(
    code="expired",
    message="this file does not exist (any more): an upload is stored for some time, for the caller that sent it",
    suggestion="upload it again",
)
_TOOL = seal(
    Tool(
        name=READ_FILE,
        title="Read a file",
        description="Reads a file that a tool answered with, by the URI in that answer: a text as text, a picture as a picture. For other "
        "bytes it returns their type and their download path. A long text comes in parts, and each part names the start of the next.",
        input_schema=_INPUT,
        output_schema=None,
        effect=Effect.READ,
        idempotent=True,
        source="",
        origin="",
        binding=NoBinding(),
    )
)


def with_file_tool(offered: tuple[Tool, ...], catalog: Sequence[Tool]) -> tuple[Tool, ...]:
    """Return the listed tools, with `read_file` added if a tool of the catalog may answer with files."""
    if any(tool.name == READ_FILE for tool in catalog) or not (
        any(map(_answers_files, catalog)) or any(map(_declares_bytes, catalog))
    ):
        return offered
    return tuple(sorted((*offered, _TOOL), key=lambda tool: tool.name))


def _answers_files(tool: Tool) -> bool:
    """Return True if an answer may contain bytes, according to the description of the tool."""
    return tool.binding.answers_files


def _declares_bytes(tool: Tool) -> bool:
    """Return True if the output schema declares base64 members."""
    return tool.sends_request and bool(declared_names(tool.output_schema))


class CallerFiles:
    """Files of a gateway's callers. `sent` are uploaded files, `resource_links`: MCP clients get links as blocks too."""

    def __init__(
        self,
        answering: ResponseShaper,
        current: CurrentPolicy,
        clock: Clock,
        *,
        uploads: FileUploads,
        sent: GatewayFiles,
        resource_links: bool,
    ) -> None:
        self._answering = answering
        self._sent = sent
        self.uploads = uploads
        self._current = current
        self._clock = clock
        self._validator = Validator(_INPUT)
        self.resource_links = resource_links

    async def fetch(self, principal: Principal, name: str, token: str) -> KeptFile | Error:
        """Return a file that the tool `name` answered this principal with, or the reason why there is none."""
        return await self._answering.fetch(self._current.compiled_policy, principal, name, token)

    async def read(
        self, principal: Principal, uri: str, *, session: str = "", caller_connection: CallerConnection | None = None
    ) -> tuple[KeptFile | HeldFile, ...] | Error:
        """Read a URI from an answer to this principal: a file, or the current content of an MCP server's resource."""
        return await self._read(self._current.compiled_policy, principal, uri, session, caller_connection)

    async def _read(
        self,
        compiled_policy: CompiledPolicy,
        principal: Principal,
        uri: str,
        session: str,
        caller_connection: CallerConnection | None,
    ) -> tuple[KeptFile | HeldFile, ...] | Error:
        if uri.startswith(UPLOADS):
            try:
                sent = await self._sent.open(principal, uri)
            except StateError as error:
                return fault_error(error)
            return _NO_UPLOAD if sent is None else (sent,)
        return await self._answering.read(
            compiled_policy, principal, uri, session=session, caller_connection=caller_connection
        )

    async def with_media(self, principal: Principal, envelope: Envelope) -> Envelope:
        """Return the envelope of a call that ended before, with the stored pictures and recordings that its data names."""
        return await self._answering.files.with_media(self._current.compiled_policy, principal, envelope)

    async def call(
        self,
        compiled_policy: CompiledPolicy,
        arguments: JsonObject,
        principal: Principal,
        session: str,
        caller_connection: CallerConnection | None = None,
    ) -> Envelope:
        """Answer a call of `read_file`."""
        started = self._clock.monotonic()
        result = await self._called(compiled_policy, arguments, principal, session, caller_connection)
        call_id = f"call_{secrets.token_hex(12)}"
        return ended(READ_FILE, call_id, result, CallContext(), (self._clock.monotonic() - started) * 1000)

    async def _called(
        self,
        compiled_policy: CompiledPolicy,
        arguments: JsonObject,
        principal: Principal,
        session: str,
        caller_connection: CallerConnection | None,
    ) -> Success | Refused:
        fault = excess(arguments)
        given = arguments if fault else repair(_INPUT, without_null(_INPUT, arguments)).arguments
        if faults := (fault,) if fault else self._validator.faults(given):
            return Refused(error=_invalid("; ".join(faults)))
        found = await self._read(compiled_policy, principal, str(given["uri"]), session, caller_connection)
        if isinstance(found, Error):
            return Refused(error=found)
        span = given.get("range")
        try:
            return await _shown(await _joined(found), str(given["uri"]), None if span is None else str(span))
        except StateError as error:
            return Refused(error=fault_error(error))


async def _shown(file: KeptFile | HeldFile, uri: str, span: str | None) -> Success | Refused:
    size, media_type = file.info.size, file.info.media_type
    head = await file.read(0, min(size, SHOWN))
    if span is None and size <= _MAX_BLOCK and (kind := shown_type(head, media_type)):
        whole = file_data(head if size <= SHOWN else await file.read(), kind)
        return Success(data=[whole, f"[{kind}, {size} bytes]"], shape=Shape.PARTS)
    if not begins_as_text(head):
        return Success(data=_described(file, uri))
    start, end = (0, size) if span is None else _places(span, size)
    if start > size or end < start:
        return Refused(error=_invalid(f"/range: the file has {size} bytes"))
    end = min(end, size, start + SHOWN)
    body = await file.read(start, min(size, end + 4))
    first, last = _boundary(body, 0), _boundary(body, end - start)
    text = visible(body[first:last].decode("utf-8", "replace"))
    note = f"[Bytes {start + first} to {start + last} of {size}, {media_type}."
    if start + last < size:
        note += f" Read on with range {start + last}-" + (f" and uri {file.uri}." if file.uri else ".")
    return Success(data=[text, f"{note}]"], shape=Shape.PARTS)


def _places(span: str, size: int) -> tuple[int, int]:
    """Return the first byte, and the one after the last, of an HTTP range (RFC 9110, section 14.1.2)."""
    found = _RANGE.match(span)
    if found is None:
        return size + 1, 0
    if found[3] is not None:
        return max(0, size - int(found[3])), size
    return int(found[1]), int(found[2]) + 1 if found[2] else size


def _described(file: KeptFile | HeldFile, uri: str) -> str:
    """Return a text about a file that a model cannot read, with its download path."""
    info = file.info
    name = f" {info.filename}" if info.filename else ""
    where = file.uri or uri
    path = f"/v1/answers/{where.removeprefix(SCHEME)}" if where.startswith(SCHEME) else ""
    served = f" Over REST it is downloaded from {path}." if path else ""
    return (
        f"[File{name}: {info.media_type}, {info.size} bytes, SHA-256 {info.sha256}. It is neither text nor a picture and cannot be shown."
        f"{served} Tools that take a file take its uri.]"
    )


async def _joined(files: Sequence[KeptFile | HeldFile]) -> KeptFile | HeldFile:
    """Return several files as one text, which names those that are not text."""
    if len(files) == 1:
        return files[0]
    texts = []
    for one in files:
        body = await one.read(0, SHOWN)
        is_text = begins_as_text(body)
        texts.append(body.decode("utf-8", "ignore") if is_text else f"[{one.info.media_type}, {one.info.size} bytes]")
    return HeldFile("\n\n".join(texts).encode("utf-8"), "text/plain")


def _boundary(body: bytes, at: int) -> int:
    """Return the end of the character at a position (UTF-8: its further bytes begin with the bits 10)."""
    while at < len(body) and body[at] & 0xC0 == 0x80:
        at += 1
    return at


def _invalid(message: str) -> Error:
    return Error(
        code="validation", message=message, suggestion="correct the arguments and call again", rule="arguments"
    )
