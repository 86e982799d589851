"""Reads of a context source: prompts of files, and files of its folder."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

from toolgen.connectors.context.file_types import type_by_name
from toolgen.core.errors import ToolgenError
from toolgen.core.files import open_inside
from toolgen.model.call import Call
from toolgen.model.media import media_type_of
from toolgen.model.prompt_injection import visible
from toolgen.model.result import Delivery, Error, Failed, Refused, Success, file_data, text_in
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import FolderBinding, TextPromptBinding

__all__ = ["PLACEHOLDER", "ContextExecutor"]

PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_-]*)\s*\}\}")
_MAX_SIZE = 8 * 1024 * 1024
_GONE = Error(
    code="upstream_error", message="the file of this resource cannot be read now", suggestion="try again later"
)


class ContextExecutor:
    """Reads the prompts and resources of one source. `folder` has its resources; None where there are none."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    async def execute(self, call: Call) -> Success | Failed | Refused:
        """The messages of a prompt, or the content of a file."""
        match call.tool.binding:
            case TextPromptBinding(messages=messages):
                made = [{"role": one.role, "content": _filled(one.text, call.arguments)} for one in messages]
                return Success(data={"messages": made})
            case FolderBinding(path=path):
                return await asyncio.to_thread(self._read, path, str(call.arguments["uri"]))
            case _:
                raise ToolgenError(f"{call.tool.name} is neither a prompt nor a file")

    def _read(self, path: str, uri: str) -> Success | Failed:
        """The file: no step of its path may be a link, also one that was put there since the build."""
        if self._folder is None:
            return Failed(error=_GONE)
        place = Path(path)
        if place.is_absolute() or ".." in place.parts:
            return Failed(error=_GONE)
        try:
            with open_inside(self._folder, place) as (descriptor, size):
                if size > _MAX_SIZE:
                    message = f"the file has {size} bytes, and {_MAX_SIZE} are the most"
                    return Failed(error=Error(code="response_too_large", message=message))
                body = _whole(descriptor)
        except OSError:
            return Failed(error=_GONE)
        if body is None:
            message = f"the file has more than {_MAX_SIZE} bytes"
            return Failed(error=Error(code="response_too_large", message=message))
        kind, text = type_by_name(path) or media_type_of(body), text_in(body)
        data: Json = file_data(body, kind) if text is None else {"uri": uri, "media_type": kind, "text": visible(text)}
        return Success(data=data, delivery=Delivery(bytes=len(body)))

    def preview(self, call: Call) -> JsonObject:
        """The file or prompt that would be read."""
        binding = call.tool.binding
        return {"file": binding.path} if isinstance(binding, FolderBinding) else {"prompt": call.tool.name}

    async def close(self) -> None:
        """Nothing is open."""


def _whole(descriptor: int) -> bytes | None:
    """The bytes of a file; None if it has become too long meanwhile."""
    parts, left = [], _MAX_SIZE + 1
    while left > 0 and (part := os.read(descriptor, min(left, 1_048_576))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts) if left > 0 else None


def _filled(text: str, arguments: JsonObject) -> str:
    """The text with arguments in place of their names. An argument is never read as a template itself."""
    return PLACEHOLDER.sub(lambda found: str(arguments.get(found[1], "")), text)
