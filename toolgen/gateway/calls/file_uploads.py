"""Files of callers: uploaded to the gateway, or returned by one tool and sent with another.

A URI is the key of its file, and is valid for the principal that the file was given to, and for the user that it acts for.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolgen.core.canonical import digest
from toolgen.core.errors import AuditError, StateError
from toolgen.core.files import open_inside
from toolgen.gateway.calls.answer_files import AnswerFiles, KeptFile, bound_to, owner_of, token_of
from toolgen.gateway.calls.file_links import SCHEME, UPLOADS, parse_uri
from toolgen.gateway.policies.compiled_policy import CurrentPolicy
from toolgen.model.call import Call, Principal, parties
from toolgen.model.excerpt import bounded
from toolgen.model.file_arguments import file_places, is_file_schema, is_text_file, replaced_at, takes_files
from toolgen.model.files import INLINE_UPLOAD, FileInfo, FileTooLargeError
from toolgen.model.media import agrees, is_media_type, media_type_of, settled_type
from toolgen.model.result import Error
from toolgen.model.schema import Json
from toolgen.model.tool import Tool
from toolgen.model.unavailable import fault_error
from toolgen.model.verdict import Deny
from toolgen.state.pauses import Pauses, SharedPauses
from toolgen.state.stored_files import KEY_BYTES, FileWriter

__all__ = ["TOO_LARGE", "FileArguments", "FileUploads", "GatewayFiles", "Uploaded", "sends_files"]

TOO_LARGE = "files.largest"
"""Rule of a refusal that is about the size of a file."""
_RULE = "files"
_MAX_FILES = 20
_MAX_NAME_LENGTH = 200
_SAMPLE = 8_192
_STEP = 256 * 1024
_MAX_TOOLS = 4_096
_Roots = Callable[[], Awaitable[tuple[Path, ...]]]
_Note = Callable[[Mapping[str, Any]], Awaitable[object]]


class AnsweredFile:
    """File in the answer of a call, while it arrives."""

    def __init__(self, writer: FileWriter, call_id: str) -> None:
        self._writer = writer
        self._call_id = call_id

    async def write(self, data: bytes) -> None:
        """Append data, as `FileWriter.write` does."""
        await self._writer.write(data)

    async def end(self, media_type: str) -> str:
        """Return the token of the complete file, in the form of URIs. Raises `StateError`."""
        key, _ = await self._writer.finish(media_type=media_type, call_id=self._call_id)
        return token_of(key)

    async def discard(self) -> None:
        """Delete the file, as `FileWriter.discard` does."""
        await self._writer.discard()


class GatewayFiles:
    """File store for executors: it reads the files in arguments and stores the files in answers."""

    def __init__(self, files: AnswerFiles, current: CurrentPolicy, pauses: Pauses | SharedPauses) -> None:
        self.shown = files.shown
        self.largest = files.store.largest
        self.without: set[str] = set()
        self._files = files
        self._current = current
        self._pauses = pauses

    def begin(self, call: Call) -> AnsweredFile:
        """Begin a file in the answer of a call. Raises `StateError`."""
        bound = bound_to(self._current.compiled_policy, call.principal, call.tool, None)
        return AnsweredFile(self._files.store.begin(owner=owner_of(call.principal), bound=bound), call.id)

    async def open(self, principal: Principal, uri: str) -> KeptFile | None:
        """Open the file of a URI; None if this principal has no such file (any more), or the tool that answered with it is paused. Raises
        `StateError`."""
        compiled_policy = self._current.compiled_policy
        if uri.startswith(UPLOADS):
            key = _key_of(uri.removeprefix(UPLOADS))
            return None if key is None else await self._files.open(key, upload_bound(principal))
        place = parse_uri(uri) if uri.startswith(SCHEME) else None
        if place is None or place.link is not None:
            return None
        tool = compiled_policy.tool(place.tool)
        key = _key_of(place.token)
        if tool is None or key is None or not compiled_policy.access.visible(principal, tool):
            return None
        if self._pauses.stale and not await self._pauses.refresh():  # unreadable pauses count as paused
            return None
        if self._pauses.covering(parties(principal), tool.source, tool.name) is not None:
            return None
        return await self._files.open(key, bound_to(compiled_policy, principal, tool, None))


class Uploaded(Struct, frozen=True, kw_only=True):
    """Stored file: its URI, its metadata, and the seconds until it expires."""

    uri: str
    info: FileInfo
    expires_s: float


class FileUploads:
    """Uploads of callers. `record` makes an entry durable and raises `AuditError`."""

    def __init__(self, files: AnswerFiles, record: _Note) -> None:
        self._store = files.store
        self._record = record

    @property
    def largest(self) -> int:
        """Return the maximum size of a file."""
        return self._store.budget.largest

    async def take(
        self, principal: Principal, pieces: AsyncIterator[bytes], *, media_type: str = "", filename: str = ""
    ) -> Uploaded | Error:
        """Store a file that arrives in pieces. `media_type` is the type that its sender stated, or "".

        Errors of `pieces` are raised; then nothing is stored.
        """
        filename = bounded("".join(sign for sign in filename if sign.isprintable()), _MAX_NAME_LENGTH)
        try:
            writer = self._store.begin(owner=owner_of(principal), bound=upload_bound(principal))
        except StateError as error:
            return fault_error(error)
        head = b""
        try:
            async for piece in pieces:
                if len(head) < _SAMPLE:
                    head += piece[: _SAMPLE - len(head)]
                await writer.write(piece)
            found = media_type_of(head)
            if media_type and not (is_media_type(media_type) and agrees(media_type, found)):
                return Error(
                    code="validation",
                    message=f"the bytes of the file are {found}, which does not match its media type",
                    suggestion=f"send it as {found}, or leave the media type out",
                    rule=_RULE,
                )
            key, info = await writer.finish(media_type=settled_type(media_type, found), filename=filename)
            user = principal.on_behalf_of
            about = {"filename": info.filename, "media_type": info.media_type, "size": info.size, "sha256": info.sha256}
            await self._record(
                {
                    "event": "upload",
                    "call_id": f"file_{secrets.token_hex(12)}",
                    "principal": principal.id,
                    "on_behalf_of": "" if user is None else user.id,
                    "status": "ok",
                    "bytes": info.size,
                    "arguments": about,
                }
            )
        except FileTooLargeError as error:
            return too_large(error.most)
        except (StateError, AuditError) as error:
            return fault_error(error, "the file was not stored")
        finally:
            await writer.discard()
        return Uploaded(uri=f"{UPLOADS}{token_of(key)}", info=info, expires_s=self._store.budget.expires_s)

    async def take_path(self, principal: Principal, path: str, roots: tuple[Path, ...]) -> Uploaded | Error:
        """Store a file of this machine that is in one of these folders, after resolving links."""
        if not roots:
            return _refused("calls cannot use files of this machine", "set gateway.files.roots in toolgen.yaml")
        try:
            found = Path(path) if Path(path).is_absolute() else roots[0] / path
            real = found.resolve(strict=True)
            root = next(folder for root in roots if real.is_relative_to(folder := root.resolve()))
            with open_inside(root, real.relative_to(root)) as (descriptor, size):
                if size > self.largest:
                    return too_large(self.largest)
                pieces = _read(descriptor)
                return await self.take(principal, pieces, filename=real.name)
        except (OSError, ValueError, RuntimeError, StopIteration):
            return _refused("there is no file at this path in a folder that calls may use", "give another path")


class FileArguments:
    """Check of the files in the arguments of a call before it is judged."""

    def __init__(self, files: GatewayFiles, uploads: FileUploads, roots: tuple[Path, ...]) -> None:
        self._files = files
        self._uploads = uploads
        self._roots = roots
        self.without = files.without

    async def described(self, call: Call, *, local: bool = False, roots: _Roots | None = None) -> Call:
        """Return the call with size, digest and media type of each of its files, or a denial if one cannot be sent.

        `local`: the caller is on this machine, and may name files of open folders by their `path`, which becomes the URI of a copy. Open
        are the folders of toolgen.yaml, and those that `roots` requests from the client.
        """
        schema = call.tool.input_schema
        is_file = is_file_schema if sends_files(call.tool) else is_text_file
        if not takes_files(schema, is_file):
            if len(self.without) >= _MAX_TOOLS:
                self.without.clear()
            self.without.add(call.tool.digest)
            return call
        made: Any = call.arguments
        texts = {path for path, _ in file_places(schema, call.arguments, is_text_file)}
        for number, (path, file) in enumerate(list(file_places(schema, call.arguments, is_file))):
            if number >= _MAX_FILES:
                denied = _deny(f"the arguments contain more than {_MAX_FILES} files", "make several calls")
                return replace(call, denied=call.denied or denied)
            found: Mapping[str, Json] | str | Deny
            if path in texts and "text" in file:
                found = _encoded(file)
            else:
                found = await self._one(call.principal, file, local=local, roots=roots)
                if path in texts and isinstance(found, Mapping) and isinstance(text := found.get("base64"), str):
                    found = text
            if isinstance(found, Deny):
                where = "".join(f"/{step}" for step in path)
                return replace(call, denied=call.denied or replace(found, reason=f"{where}: {found.reason}"))
            made = replaced_at(made, path, found)
        return call if made is call.arguments else replace(call, arguments=made)

    async def _one(
        self, principal: Principal, file: Mapping[str, Json], *, local: bool, roots: _Roots | None
    ) -> Mapping[str, Json] | Deny:
        """Return a file argument in the form that policy rules see, or a denial."""
        forms = ("uri", "base64", "path") if local else ("uri", "base64")
        given = [key for key in forms if file.get(key) is not None]
        if len(given) != 1:
            return _deny(f"a file has one of {', '.join(forms)}", _FORMS)
        rest = {key: value for key, value in file.items() if key not in {"size", "sha256", "uri", "path", "base64"}}
        value = file[given[0]]
        if not isinstance(value, str):
            return _deny(f"{given[0]} of a file must be a text", _FORMS)
        if given[0] == "base64":
            return _inline(value, rest)
        uri = value
        if given[0] == "path":
            folders = self._roots if roots is None else (*self._roots, *await roots())
            kept = await self._uploads.take_path(principal, value, folders)
            if isinstance(kept, Error):
                return Deny(rule=_RULE, code=kept.code, reason=kept.message, suggestion=kept.suggestion)
            uri = kept.uri
        try:
            found = await self._files.open(principal, uri)
        except StateError as error:
            fault = fault_error(error)
            return Deny(rule=_RULE, code=fault.code, reason=fault.message, suggestion=fault.suggestion)
        if found is None:
            return _deny(
                "there is no such file now: it is stored for some time, for the caller that got it, and not sent while its tool is paused",
                "make the call again that answered with it, or upload it again",
            )
        info = found.info
        kind = _kind_of(rest, info.media_type)
        if isinstance(kind, Deny):
            return kind
        named = {"filename": info.filename} if info.filename and not rest.get("filename") else {}
        return {"uri": uri, **rest, **named, **kind, "size": info.size, "sha256": info.sha256}


def sends_files(tool: Tool) -> bool:
    """Return True if the tool sends file arguments as files. Otherwise a JSON object that looks like a file is sent as it is, unless it
    replaces a base64 text."""
    return tool.binding.sends_files


def _encoded(file: Mapping[str, Json]) -> str | Deny:
    """Return the base64 of a plain text that was sent in place of base64. The call has the encoded argument from then on."""
    text = file["text"]
    if not isinstance(text, str) or file.keys() & {"uri", "base64", "path"}:
        return _deny('a plain text is sent alone, as {"text": "…"}', "send the text, or one of uri and base64")
    return base64.b64encode(text.encode("utf-8")).decode("ascii")


_FORMS = 'send {"uri": "toolgen://…"}, or {"base64": "…"} for up to 64 KiB'


def _inline(value: str, rest: Mapping[str, Json]) -> Mapping[str, Json] | Deny:
    try:
        body = base64.b64decode(value, validate=True)
    except (ValueError, binascii.Error):
        return _deny("base64 of a file is not valid base64", _FORMS)
    if len(body) > INLINE_UPLOAD:
        return _deny(
            f"a file in base64 has at most {INLINE_UPLOAD} bytes, and this one has {len(body)}",
            "upload it (POST /v1/files) and send its uri, or send the uri of a file that a tool answered with",
        )
    kind = _kind_of(rest, media_type_of(body))
    if isinstance(kind, Deny):
        return kind
    return {"base64": value, **rest, **kind, "size": len(body), "sha256": sha256(body).hexdigest()}


def _kind_of(rest: Mapping[str, Json], found: str) -> Mapping[str, Json] | Deny:
    """Return the media type of a file: its bytes decide, and the sender's statement may be more specific."""
    said = rest.get("media_type")
    if said is not None and not isinstance(said, str):
        return _deny("media_type of a file must be a text", "leave media_type out")
    if said and not agrees(said, found):
        return _deny(f"the bytes of the file are {found}, and not {bounded(said, 100)}", "leave media_type out")
    return {"media_type": settled_type(said or "", found)}


def upload_bound(principal: Principal) -> bytes:
    """Return the digest that binds an upload to its sender and the user it acts for."""
    return digest(["upload", *parties(principal)]).encode()


def too_large(most: int) -> Error:
    """Return the refusal of a file that is larger than the gateway stores."""
    return Error(
        code="validation",
        message=f"the file is longer than {most} bytes, the maximum of this gateway",
        suggestion="send a shorter file, or ask the operator to raise gateway.files.largest",
        rule=TOO_LARGE,
    )


def _key_of(token: str) -> bytes | None:
    try:
        key = base64.b64decode(token, altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        return None
    return key if len(key) == KEY_BYTES else None


async def _read(descriptor: int) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(os.read, descriptor, _STEP):
        yield piece


def _deny(reason: str, suggestion: str) -> Deny:
    return Deny(rule=_RULE, code="validation", reason=reason, suggestion=suggestion)


def _refused(message: str, suggestion: str) -> Error:
    return Error(code="validation", message=message, suggestion=suggestion, rule=_RULE)
