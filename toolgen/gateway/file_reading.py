"""Files that calls answered with links to: whole, and as the tool `read_file` shows them, as much as a model can read at once."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from toolgen.clock import Clock
from toolgen.gateway.compiled_policy import CurrentPolicy, Governance
from toolgen.gateway.content_blocks import is_picture
from toolgen.gateway.file_links import READ_FILE
from toolgen.gateway.json_body import ended
from toolgen.gateway.response_shaping import SHOWN, Answering, Fetched
from toolgen.model.call import Principal
from toolgen.model.prompt_injection import visible
from toolgen.model.result import Envelope, Error, Refused, Shape, Success, file_data, text_in
from toolgen.model.schema import Json, JsonObject, Schema
from toolgen.model.tool import Effect, HttpBinding, McpBinding, NoBinding, Tool, seal
from toolgen.pipeline.middleware import Presence, Trail
from toolgen.policy.arguments import Validator, excess, repair

__all__ = ["Files", "with_file_tool"]

_MAX_PICTURE = 4 * 1024 * 1024
_INPUT: Schema = {
    "type": "object",
    "properties": {
        "uri": {"type": "string", "minLength": 1, "maxLength": 400, "description": "As the answer said it."},
        "offset": {"type": "integer", "minimum": 0, "description": "The first byte to read; 0 without it."},
        "length": {"type": "integer", "minimum": 1, "maximum": SHOWN, "description": "How many bytes to read."},
    },
    "required": ["uri"],
}
_TOOL = seal(
    Tool(
        name=READ_FILE,
        title="Read a file",
        description="Reads a file that a tool answered with, by the URI in that answer: text, a picture, or other bytes in base64. "
        "A long file comes in parts, and each part says where the next one begins.",
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
    """What is listed of a catalog, with `read_file` among it where a tool of the catalog may answer with files."""
    if not any(map(_answers_files, catalog)) or any(tool.name == READ_FILE for tool in catalog):
        return offered
    return tuple(sorted((*offered, _TOOL), key=lambda tool: tool.name))


def _answers_files(tool: Tool) -> bool:
    binding = tool.binding
    return isinstance(binding, McpBinding) or (isinstance(binding, HttpBinding) and binding.files is True)


class Files:
    """The files of one gateway's callers. `resource_links`: MCP clients are given links as blocks too."""

    def __init__(self, answering: Answering, current: CurrentPolicy, clock: Clock, *, resource_links: bool) -> None:
        self._answering = answering
        self._current = current
        self._clock = clock
        self._validator = Validator(_INPUT)
        self.resource_links = resource_links

    async def fetch(self, principal: Principal, name: str, token: str) -> Fetched | Error:
        """The bytes of an answer of the tool `name` that this principal was given a link to, or why it has none."""
        return await self._answering.fetch(self._current.governance, principal, name, token)

    async def read(
        self, principal: Principal, uri: str, *, session: str = "", presence: Presence | None = None
    ) -> tuple[Fetched, ...] | Error:
        """What a URI leads to that an answer had for this principal: a file, or what a resource of an MCP server holds by now."""
        return await self._answering.read(self._current.governance, principal, uri, session=session, presence=presence)

    async def call(
        self,
        governance: Governance,
        arguments: JsonObject,
        principal: Principal,
        session: str,
        presence: Presence | None = None,
    ) -> Envelope:
        """A call of `read_file`."""
        started = self._clock.monotonic()
        result = await self._called(governance, arguments, principal, session, presence)
        call_id = f"call_{secrets.token_hex(12)}"
        return ended(READ_FILE, call_id, result, Trail(), (self._clock.monotonic() - started) * 1000)

    async def _called(
        self,
        governance: Governance,
        arguments: JsonObject,
        principal: Principal,
        session: str,
        presence: Presence | None,
    ) -> Success | Refused:
        fault = excess(arguments)
        given = arguments if fault else repair(_INPUT, arguments).arguments
        if faults := (fault,) if fault else self._validator.faults(given):
            return Refused(error=_invalid("; ".join(faults)))
        found = await self._answering.read(governance, principal, str(given["uri"]), session=session, presence=presence)
        if isinstance(found, Error):
            return Refused(error=found)
        offset, length = given.get("offset") or 0, given.get("length")
        assert isinstance(offset, int) and isinstance(length, int | None)  # noqa: S101, PT018 - the schema says so
        return _part(_joined(found), offset, length)


def _part(file: Fetched, offset: int, length: int | None) -> Success | Refused:
    size = len(file.body)
    if offset > size:
        return Refused(error=_invalid(f"/offset: the file has {size} bytes"))
    whole = file_data(file.body, file.media_type)
    if offset == 0 and length is None and size <= _MAX_PICTURE and is_picture(whole):
        return Success(data=[whole, f"[{file.media_type}, {size} bytes]"], shape=Shape.PARTS)
    end = min(size, offset + (SHOWN if length is None else length))
    if text_in(file.body) is None:
        shown: Json = file_data(file.body[offset:end], file.media_type)
    else:
        offset, end = _boundary(file.body, offset), _boundary(file.body, end)
        shown = visible(file.body[offset:end].decode("utf-8"))
    note = f"[Bytes {offset} to {end} of {size}, {file.media_type}."
    if end < size:
        note += f" Read on with offset {end}" + (f" and uri {file.uri}." if file.uri else ".")
    return Success(data=[shown, f"{note}]"], shape=Shape.PARTS)


def _joined(files: Sequence[Fetched]) -> Fetched:
    """Several as one text, in which those that are no text are named."""
    if len(files) == 1:
        return files[0]
    texts = [text_in(one.body) or f"[{one.media_type}, {len(one.body)} bytes]" for one in files]
    return Fetched(media_type="text/plain", body="\n\n".join(texts).encode("utf-8"))


def _boundary(body: bytes, at: int) -> int:
    """The end of the character that a place is in (UTF-8: its further bytes begin with the bits 10)."""
    while at < len(body) and body[at] & 0xC0 == 0x80:
        at += 1
    return at


def _invalid(message: str) -> Error:
    return Error(
        code="validation", message=message, suggestion="correct the arguments and call again", rule="arguments"
    )
