"""Files in answers of calls: stored for their callers, and named in the answers by references.

A model never reads a file as base64. The answer contains a reference (`{"resource": {"uri", "path", "media_type", "size", "expires_s"}}`),
and pictures and recordings that a model accepts are content blocks besides. All of this happens after the pipeline: the stored content was
redacted for this caller.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from toolgen.core.canonical import digest, encodable
from toolgen.core.errors import StateError
from toolgen.core.json_codec import decode_json, encode_json
from toolgen.gateway.calls.file_links import SCHEME, parse_uri, reference_text
from toolgen.gateway.policies.compiled_policy import CompiledPolicy
from toolgen.model.call import Call, Principal, parties
from toolgen.model.files import FileInfo, FileTooLargeError
from toolgen.model.mcp_content import blocks_of
from toolgen.model.media import INLINE, is_media_type, media_type_of, settled_type, shown_type
from toolgen.model.result import Envelope, Failed, Shape, Success, file_bytes, file_data
from toolgen.model.schema import Json
from toolgen.model.tool import Tool
from toolgen.pipeline.responses.encoded_files import EncodedFile, completed, declared_names, taken_out
from toolgen.state.stored_files import StoredFiles

__all__ = ["AnswerFiles", "HeldFile", "KeptFile", "Whose", "bound_to", "owner_of", "token_of", "uri_of"]

_Ended = TypeVar("_Ended", bound=Success | Failed)
_BLOCKS = frozenset({"image", "audio"})
_CONTENT_MEMBERS = frozenset({"text", "data", "blob", "type"})
_MAX_TOOLS = 4_096


class Whose(Struct, frozen=True, kw_only=True):
    """Owner of a file: the caller that it was given to, and the tool and the call that answered with it."""

    compiled_policy: CompiledPolicy
    principal: Principal
    tool: Tool
    call_id: str


class KeptFile:
    """Stored file. `uri` is "" if the URI by which it was requested reads it again."""

    uri = ""

    def __init__(self, store: StoredFiles, key: bytes, bound: bytes, info: FileInfo) -> None:
        self._store = store
        self._key = key
        self._bound = bound
        self.info = info

    def parts(self, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """Yield its bytes, in parts. Raises `StateError` if they cannot be read."""
        return self._store.read(self._key, self.info, bound=self._bound, start=start, end=end)

    async def read(self, start: int = 0, end: int | None = None) -> bytes:
        """Return its bytes from `start` up to `end`. Raises `StateError`."""
        return b"".join([part async for part in self.parts(start, end)])


class HeldFile:
    """File in memory, with the interface of `KeptFile`. `uri` reads it again, "" if nothing does."""

    def __init__(self, body: bytes, media_type: str) -> None:
        self.body = body
        self.uri = ""
        self.info = FileInfo(size=len(body), media_type=media_type, sha256=sha256(body).hexdigest())

    async def parts(self, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """Yield the bytes in parts, as `KeptFile.parts` does."""
        yield self.body[start:end]

    async def read(self, start: int = 0, end: int | None = None) -> bytes:
        """Return the bytes, as `KeptFile.read` does."""
        return self.body[start:end]


class AnswerFiles:
    """Files in answers. `shown` is the maximum size of a picture or a recording that is given to a model."""

    def __init__(self, store: StoredFiles, *, shown: int) -> None:
        self.store = store
        self.shown = shown
        self._declared: dict[str, frozenset[str]] = {}

    async def referenced(self, compiled_policy: CompiledPolicy, call: Call, result: _Ended) -> _Ended:
        """Return the result with references in place of the files in its data."""
        if result.shape is Shape.STORED and isinstance(result, Success) and isinstance(result.data, Mapping):
            token, media_type, size = (result.data.get(name) for name in ("token", "media_type", "size"))
            place = self.reference(call.tool, base64.urlsafe_b64decode(str(token)), str(media_type), size)
            return replace(result, data={"resource": place}, shape=Shape.WHOLE)
        whose = Whose(compiled_policy=compiled_policy, principal=call.principal, tool=call.tool, call_id=call.id)
        if (body := file_bytes(result.data)) is not None:
            assert isinstance(result.data, Mapping)  # noqa: S101 - a file is
            return await self._whole(whose, result, body, str(result.data["media_type"]))
        if result.shape is Shape.CONTENT:
            return await self._content(whose, result)
        media: dict[str, Json] = {}
        data = result.data
        if result.shape is Shape.PARTS and isinstance(data, list | tuple):
            parts = [await self._part(whose, part, media) for part in data]
            if any(made is not part for made, part in zip(parts, data, strict=True)):
                data = parts
        data, found = taken_out(data, self._names(call.tool))
        if found:
            await self._keep(whose, found, {})
            data = completed(data, reference_text)
        if media and isinstance(result, Success):
            result = replace(result, media={**(result.media or {}), **media})
        return result if data is result.data else replace(result, data=data)

    async def open(self, key: bytes, bound: bytes) -> KeptFile | None:
        """Open the file of a key; None for one that is not stored, or has another owner. Raises `StateError`."""
        info = await self.store.describe(key, bound=bound)
        return None if info is None else KeptFile(self.store, key, bound, info)

    async def keep(self, whose: Whose, body: bytes, media_type: str) -> dict[str, Json]:
        """Store a file and return its reference. Raises `StateError` and `FileTooLargeError`."""
        media_type = settled_type(media_type, media_type_of(body))
        key = await self.store.put(
            body,
            owner=owner_of(whose.principal),
            bound=bound_to(whose.compiled_policy, whose.principal, whose.tool, None),
            media_type=media_type,
            call_id=whose.call_id,
        )
        return self.reference(whose.tool, key, media_type, len(body))

    async def with_media(self, compiled_policy: CompiledPolicy, principal: Principal, envelope: Envelope) -> Envelope:
        """Return the envelope of a call that ended before, with the stored pictures and recordings that its data names."""
        tool = compiled_policy.tool(envelope.tool)
        if envelope.status != "ok" or tool is None:
            return envelope
        media: dict[str, Json] = {}
        for uri in _named_in(envelope):
            place = parse_uri(uri)
            if place is None or place.tool != tool.name or place.link is not None:
                continue
            with suppress(StateError, ValueError):
                key = base64.urlsafe_b64decode(place.token)
                file = await self.open(key, bound_to(compiled_policy, principal, tool, None))
                if file is not None and file.info.size <= self.shown:
                    block = self._block(await file.read(), file.info.media_type)
                    media |= {} if block is None else {uri: block}
        return replace(envelope, media=media) if media else envelope

    def reference(self, tool: Tool, key: bytes, media_type: str, size: Json) -> dict[str, Json]:
        """Return the reference that replaces a file in an answer."""
        uri = uri_of(tool, key)
        return {
            "uri": uri,
            "path": f"/v1/answers/{uri.removeprefix(SCHEME)}",
            "media_type": media_type,
            "size": size,
            "expires_s": self.store.budget.expires_s,
        }

    async def _whole(self, whose: Whose, result: _Ended, body: bytes, media_type: str) -> _Ended:
        place: dict[str, Json] = {"media_type": media_type, "size": len(body)}
        block = self._block(body, media_type)
        if block is not None and len(body) <= INLINE and not whose.tool.sends_request:
            return result
        media = dict(result.media or {}) if isinstance(result, Success) else {}
        try:
            place = await self.keep(whose, body, media_type)
        except (StateError, FileTooLargeError) as error:
            if block is not None:
                return result  # it is shown even so
            place["note"] = _not_kept(error)
        if block is not None:
            media[str(place["uri"])] = block
        result = replace(result, data={"resource": place})
        return replace(result, media=media) if media and isinstance(result, Success) else result

    async def _part(self, whose: Whose, part: Json, media: dict[str, Json]) -> Json:
        """Return a part of a function's answer, with a reference in place of a file; a picture for the model is added to `media`."""
        body = file_bytes(part)
        if body is None or not isinstance(part, Mapping):
            return part
        media_type = str(part["media_type"])
        block = self._block(body, media_type)
        if block is not None and len(body) <= INLINE:
            return part
        try:
            place = await self.keep(whose, body, media_type)
        except (StateError, FileTooLargeError) as error:
            return part if block is not None else {"resource": _unkept(body, media_type, error)}
        if block is not None:
            media[str(place["uri"])] = block
        return {"resource": place}

    async def _content(self, whose: Whose, result: _Ended) -> _Ended:
        """Return a result of MCP with references in place of the bytes in its blocks and in its structured content."""
        content = result.data
        if not isinstance(content, Mapping):
            return result
        media: dict[str, Json] = {}
        known: dict[str, dict[str, Json]] = {}
        blocks = [await self._bridged(whose, block, media, known) for block in blocks_of(content)]
        made = {**content, "content": blocks}
        if "structuredContent" in content:
            made["structuredContent"] = await self._without(whose, content["structuredContent"], known)
        if media and isinstance(result, Success):
            result = replace(result, media={**(result.media or {}), **media})
        return replace(result, data=made)

    async def _without(self, whose: Whose, value: Json, known: dict[str, dict[str, Json]]) -> Json:
        """Return a part of an MCP server's answer with references in place of its files. `known`: files that are also in other parts."""
        made, found = taken_out(value, self._names(whose.tool))
        if not found:
            return value
        await self._keep(whose, found, known)
        return completed(made, reference_text)

    async def _text_without(self, whose: Whose, text: str, known: dict[str, dict[str, Json]]) -> str:
        """Return a text with references in place of its files. JSON stays JSON, because it may repeat the structured content."""
        if len(text) <= INLINE:
            return text
        try:
            value = decode_json(text.encode())
        except ValueError:
            value = text
        made = await self._without(whose, value, known)
        if made is value:
            return text
        return made if isinstance(made, str) else encode_json(made).decode()

    async def _about_without(
        self, whose: Whose, block: Mapping[str, Json], known: dict[str, dict[str, Json]]
    ) -> Mapping[str, Json]:
        """Return a block with references in place of the files in the text about its content."""
        made: dict[str, Json] = {}
        for key, value in block.items():
            if key == "resource" and isinstance(value, Mapping):
                other: Json = await self._about_without(whose, value, known)
            elif key in _CONTENT_MEMBERS:
                continue
            else:
                other = await self._without(whose, value, known)
                if isinstance(value, str) and isinstance(other, Mapping):  # a name, or a URI: it stays a text
                    other = reference_text(_place_in(other))
            if other is not value:
                made[key] = other
        return {**block, **made} if made else block

    async def _bridged(
        self, whose: Whose, block: Json, media: dict[str, Json], known: dict[str, dict[str, Json]]
    ) -> Json:
        """Return a block of an MCP server's answer, with a reference in place of bytes, and without base64 in a text."""
        if not isinstance(block, Mapping):
            return block
        block = await self._about_without(whose, block, known)
        resource = block.get("resource")
        held = resource if isinstance(resource, Mapping) else block
        if isinstance(text := held.get("text"), str) and (held is resource or block.get("type") == "text"):
            shorter = await self._text_without(whose, text, known)
            if shorter is text:
                return block
            return {**block, "resource": {**held, "text": shorter}} if held is resource else {**block, "text": shorter}
        written = held.get("blob") if held is resource else held.get("data")
        if not isinstance(written, str) or not (held is resource or block.get("type") in _BLOCKS):
            return block
        try:
            body = base64.b64decode(written, validate=True)
        except ValueError:
            return {"type": "text", "text": "[a file that is not valid base64]"}
        if len(body) <= INLINE:
            return block
        media_type = str(held.get("mimeType") or "")
        if not is_media_type(media_type):
            media_type = media_type_of(body)
        shown = self._block(body, media_type) if block.get("type") in _BLOCKS else None
        try:
            place = await self.keep(whose, body, media_type)
        except (StateError, FileTooLargeError) as error:
            return block if shown is not None else {"type": "resource", "resource": _unkept(body, media_type, error)}
        if shown is not None:
            media[str(place["uri"])] = shown
        if isinstance(uri := held.get("uri"), str):
            place["name"] = uri
        rest = {key: value for key, value in block.items() if key in {"annotations", "_meta"}}
        return {"type": "resource", "resource": place, **rest}

    async def _keep(self, whose: Whose, found: Sequence[EncodedFile], known: dict[str, dict[str, Json]]) -> None:
        """Store files, each once, and put references in their places. `known` are those that are stored already, by their digests."""
        for file in found:
            name = f"{sha256(file.body).hexdigest()} {file.media_type}"
            if name not in known:
                try:
                    known[name] = await self.keep(whose, file.body, file.media_type)
                except (StateError, FileTooLargeError) as error:
                    known[name] = {"note": _not_kept(error)}
            file.place.update(known[name])
            if file.filename and "uri" in file.place:
                file.place["filename"] = file.filename

    def _block(self, body: bytes, media_type: str) -> Json:
        """Return the bytes as data if a model gets them directly; None if not."""
        if len(body) > self.shown or not (kind := shown_type(body, media_type)):
            return None
        return file_data(body, kind)

    def _names(self, tool: Tool) -> frozenset[str]:
        """Return the members of the tool's answers that are declared to be base64."""
        names = self._declared.get(tool.digest)
        if names is None:
            if len(self._declared) >= _MAX_TOOLS:
                self._declared.clear()
            names = self._declared[tool.digest] = declared_names(tool.output_schema)
        return names


def _place_in(reference: Mapping[str, Json]) -> Mapping[str, Json]:
    place = reference["resource"]
    return place if isinstance(place, Mapping) else reference


def _named_in(envelope: Envelope) -> Iterator[str]:
    """Return the URIs of pictures and recordings that an answer names in place of content blocks."""
    data = envelope.data
    parts = data if envelope.parts and isinstance(data, list | tuple) else [data]
    for part in (*parts, *blocks_of(envelope.content)):
        reference = part.get("resource") if isinstance(part, Mapping) else None
        if isinstance(reference, Mapping) and str(reference.get("media_type")).startswith(("image/", "audio/")):
            yield str(reference.get("uri"))


def bound_to(
    compiled_policy: CompiledPolicy, principal: Principal, tool: Tool, arguments: Mapping[str, Json] | None
) -> bytes:
    """Return a digest of the caller and the user it acts for, the tool, the policy scope and the arguments, which have to stay equal while
    an answer is read on."""
    about = {
        "parties": parties(principal),
        "tool": [tool.name, tool.digest],
        "concern": compiled_policy.scope_hash(principal, tool),
        "arguments": arguments,
    }
    return digest(encodable(about)).encode()


def owner_of(principal: Principal) -> str:
    """Return the id whose storage budget a file of this principal uses."""
    return digest(list(parties(principal)))


def token_of(key: bytes) -> str:
    """Return the form of a key in URIs."""
    return base64.urlsafe_b64encode(key).decode().rstrip("=")


def uri_of(tool: Tool, key: bytes) -> str:
    """Return the URI of a file in a tool's answer."""
    return f"{SCHEME}{tool.name}/{token_of(key)}"


def _unkept(body: bytes, media_type: str, error: Exception) -> dict[str, Json]:
    return {"media_type": media_type, "size": len(body), "note": _not_kept(error)}


def _not_kept(error: Exception) -> str:
    reason = (
        "it is larger than the gateway stores" if isinstance(error, FileTooLargeError) else "it could not be written"
    )
    return f"this file is not available: {reason}"
