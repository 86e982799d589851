"""REST for files of callers: POST /v1/files."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from email.message import Message

from toolgen.frontends.http.request import Rejected, Request, Response, json_response
from toolgen.gateway.calls.file_reading import CallerFiles
from toolgen.gateway.calls.file_uploads import TOO_LARGE
from toolgen.model.call import Principal
from toolgen.model.result import Error

__all__ = ["RestFiles"]

_FRAMING = 64 * 1024
"""Maximum bytes of a form around its file."""
_MAX_HEAD_SIZE = 16 * 1024
_UNSAID = frozenset({"", "application/x-www-form-urlencoded"})
"""Media types that clients send if they do not know the type."""
_BOUNDARY = re.compile(r"[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]\Z")


class RestFiles:
    """Route /v1/files."""

    def __init__(self, files: CallerFiles) -> None:
        self._files = files

    async def take(self, request: Request, principal: Principal) -> Response:
        """Answer POST /v1/files: store a file, which is the body itself, or the only file of a form."""
        request.take("POST")
        uploads = self._files.uploads
        given = request.parameters("filename")
        if b"content-encoding" in request.headers and request.text(b"content-encoding").lower() != "identity":
            raise Rejected(415, "bad_request", "a compressed body is not accepted")
        header = _header("Content-Type", request.text(b"content-type"))
        media_type, most = header.get_content_type() if header["Content-Type"] else "", uploads.largest
        filename = given.get("filename") or _filename(
            _header("Content-Disposition", request.text(b"content-disposition"))
        )
        if media_type == "multipart/form-data":
            form = _Form(request.pieces(most + _FRAMING), str(header.get_param("boundary") or ""))
            await form.begin()
            pieces, media_type, filename = form.content(), form.media_type, filename or form.filename
        else:
            pieces = request.pieces(most)
            media_type = "" if media_type in _UNSAID else media_type
        kept = await uploads.take(principal, pieces, media_type=media_type, filename=filename or "")
        if isinstance(kept, Error):
            raise Rejected.of(_status_of(kept), kept)
        info = kept.info
        answer: dict[str, object] = {
            "uri": kept.uri,
            "size": info.size,
            "media_type": info.media_type,
            "sha256": info.sha256,
        }
        answer |= {"filename": info.filename} if info.filename else {}
        return json_response({**answer, "expires_s": kept.expires_s}, status=201)


def _status_of(error: Error) -> int:
    if error.retry_after_s is not None:
        return 503
    if error.code != "validation":
        return 500
    return 413 if error.rule == TOO_LARGE else 415


class _Form:
    """Form with one file (RFC 7578), read while it arrives. Its headers are known after `begin`."""

    def __init__(self, pieces: AsyncIterator[bytes], boundary: str) -> None:
        if not _BOUNDARY.match(boundary):
            raise _malformed()
        self._pieces = pieces
        self._mark = b"\r\n--" + boundary.encode("ascii")
        self._held = b"\r\n"
        self.media_type = self.filename = ""

    async def begin(self) -> None:
        """Read up to the content of the file. Raises `Rejected`."""
        while (end := self._held.find(b"\r\n\r\n", len(self._mark))) < 0:
            if len(self._held) > _MAX_HEAD_SIZE or not await self._more():
                raise _malformed()
        head, self._held = self._held[:end], self._held[end + 4 :]
        if not head.startswith(self._mark + b"\r\n"):
            raise _malformed()
        message = Message()
        for line in head[len(self._mark) + 2 :].decode("utf-8", "replace").split("\r\n"):
            name, colon, value = line.partition(":")
            if not colon:
                raise _malformed()
            message[name.strip()] = value.strip()
        filename = _filename(message)
        if filename is None:
            raise Rejected(
                400, "bad_request", "the form has a field that is not a file", suggestion="send only one file"
            )
        self.filename = filename
        self.media_type = message.get_content_type() if message["Content-Type"] else ""

    async def content(self) -> AsyncIterator[bytes]:
        """Yield the bytes of the file. Raises `Rejected` if the form ends before it, or continues after it."""
        mark = self._mark
        while (end := self._held.find(mark)) < 0:
            if ready := self._held[: -len(mark)]:
                yield ready
            self._held = self._held[-len(mark) :]
            if not await self._more():
                raise _malformed()
        if end:
            yield self._held[:end]
        self._held = self._held[end + len(mark) :]
        while len(self._held) <= len(mark) and await self._more():
            pass
        if not self._held.startswith(b"--"):
            raise Rejected(400, "bad_request", "the form has more than one part", suggestion="send only one file")
        while await self._more():
            self._held = b""

    async def _more(self) -> bool:
        piece = await anext(self._pieces, None)
        self._held += piece or b""
        return piece is not None


def _header(name: str, value: str) -> Message:
    message = Message()
    if value:
        message[name] = value
    return message


def _filename(message: Message) -> str | None:
    """Return the name of a file, None if there is none. Raises `Rejected` for one in an unsupported character set."""
    try:
        return message.get_filename()
    except ValueError:
        raise Rejected(
            400, "bad_request", "the filename cannot be decoded", suggestion="write filename* in UTF-8"
        ) from None


def _malformed() -> Rejected:
    return Rejected(
        400, "bad_request", "the body is not a form with one file", suggestion="send the file as the body itself"
    )
