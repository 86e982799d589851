"""Long files in answers of a service: stored while they are read, so that only a part of them is in memory."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from toolgen.connectors.executor import FileSink, FileSource
from toolgen.connectors.http.connection import ORDINARY
from toolgen.connectors.http.item_lists import LISTED
from toolgen.connectors.http.scrubber import PortionScrubber, Scrubber
from toolgen.core.errors import StateError
from toolgen.model.call import Call
from toolgen.model.files import FileTooLargeError
from toolgen.model.media import begins_as_text, is_binary, is_media_type, media_type_of, settled_type
from toolgen.model.media_types import JSON, TEXT
from toolgen.model.result import Delivery, Error, Failed, Shape, Success
from toolgen.model.schema import Json
from toolgen.model.tool import Effect
from toolgen.model.unavailable import fault_error

__all__ = ["AnswerDownload"]

_UNKNOWN = "application/octet-stream"


class AnswerDownload(Struct):
    """File that the answer to one call may be. `stop` must be called at the end."""

    call: Call
    files: FileSource
    scrubber: Scrubber
    media_type: str = _UNKNOWN
    sink: FileSink | None = None
    portions: PortionScrubber | None = None
    error: Error | None = None
    size: int = 0
    says_text: str = ""

    @property
    def after(self) -> int:
        """Return the size from which a file is stored while it is read: a shorter one may be a picture for a model."""
        return max(self.files.shown, ORDINARY)

    @property
    def most(self) -> int:
        """Return the maximum size of a file."""
        return self.files.largest

    def wants(self, status: int, headers: Mapping[str, str]) -> bool:
        """Return True if a response with this head may be a file: it succeeded, and it is not data or text.

        Data and text are files only if they are attachments, or if their bytes turn out to be no text.
        """
        if not 200 <= status < 300 or self.call.storable == "none":
            return False
        media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        self.media_type = media_type if is_media_type(media_type) else _UNKNOWN
        if headers.get("content-disposition", "").strip().lower().startswith("attachment"):
            return True
        if media_type in LISTED:
            return False
        if JSON.match(media_type) or TEXT.match(media_type):
            self.says_text = headers["content-type"]
        return bool(media_type)

    def begin(self, body: bytes) -> bool:
        """Begin the file, as `Sink` describes. Returns False for text that must be inspected, and for text that is not an attachment."""
        if self.says_text and not is_binary(body, self.says_text):
            return False
        if self.call.storable == "binary" and begins_as_text(body):
            return False
        found = media_type_of(body)  # where texts are inspected, the media type of the service does not count
        self.media_type = (
            settled_type(self.media_type, found) if self.call.storable == "all" and not self.says_text else found
        )
        self.portions = self.scrubber.portions()
        try:
            self.sink = self.files.begin(self.call)
        except StateError as error:
            self.error = self._not_kept(error)
        return True

    async def write(self, data: bytes) -> bool:
        """Write the next bytes, as `Sink` describes."""
        return self.portions is not None and await self._write(self.portions.feed(data))

    async def finish(self, rest: bytes, delivery: Delivery) -> Success | Failed:
        """Return the outcome of the call; `rest` are the last bytes of the file."""
        if (
            self.portions is not None
            and self.sink is not None
            and await self._write(self.portions.feed(rest, last=True))
        ):
            try:
                token = await self.sink.end(self.media_type)
            except StateError as error:
                self.error = self._not_kept(error)
            else:
                file: Json = {"token": token, "media_type": self.media_type, "size": self.size}
                return Success(data=file, shape=Shape.STORED, delivery=replace(delivery, bytes=self.size))
        assert self.error is not None  # noqa: S101 - else it would have been kept
        return Failed(error=self.error, delivery=delivery)

    async def stop(self) -> None:
        """Remove an unfinished file."""
        if self.sink is not None:
            await self.sink.discard()

    async def _write(self, data: bytes) -> bool:
        if self.error is None and self.sink is not None:
            try:
                await self.sink.write(data)
            except FileTooLargeError as error:
                self.error = Error(
                    code="response_too_large",
                    message=f"the server answered with a file of more than {error.most} bytes, which is not kept",
                    suggestion="ask for less: a part of the file, or a smaller one",
                )
            except StateError as error:
                self.error = self._not_kept(error)
            else:
                self.size += len(data)
        return self.error is None

    def _not_kept(self, error: StateError) -> Error:
        reason = f"the server answered with a file that cannot be kept: {error.message}"
        if self.call.tool.effect is Effect.READ:
            return fault_error(error, reason)
        return Error(
            code="internal",
            message=reason,
            suggestion="tell the operator of the gateway; a change that was asked for has been made, so do not repeat it for this",
        )
