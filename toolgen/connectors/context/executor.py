"""Reads of a context source: prompts of files, and files of its folder."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from toolgen.connectors.context.file_types import type_by_name
from toolgen.connectors.context.folders import MAX_FILE_SIZE, whole_file
from toolgen.core.errors import ToolgenError
from toolgen.core.files import open_inside
from toolgen.model.call import Call
from toolgen.model.media import media_type_of
from toolgen.model.prompt_injection import visible
from toolgen.model.result import Delivery, Error, Failed, Refused, Success, file_data, text_in
from toolgen.model.schema import Json, JsonObject
from toolgen.model.skills import SkillFile
from toolgen.model.tool import FolderBinding, SkillFileBinding, TextPromptBinding

__all__ = ["PLACEHOLDER", "ContextExecutor"]

PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_-]*)\s*\}\}")
_GONE = Error(
    code="upstream_error", message="the file of this resource cannot be read now", suggestion="try again later"
)
_CHANGED = Refused(
    error=Error(
        code="forbidden",
        message="this file of a skill changed since the build; it was not passed on",
        suggestion="tell the operator of the gateway: `toolgen build` accepts the file as it is now",
        rule="pin",
    )
)


class ContextExecutor:
    """Reads the prompts, resources and skills of one source. `folder` has its resources and `skills` its skills; None where there are
    none."""

    def __init__(self, folder: Path | None, skills: Path | None = None) -> None:
        self._folder, self._skills = folder, skills

    async def execute(self, call: Call) -> Success | Failed | Refused:
        """The messages of a prompt, or the content of a file."""
        match call.tool.binding:
            case TextPromptBinding(messages=messages):
                made = [{"role": one.role, "content": _filled(one.text, call.arguments)} for one in messages]
                return Success(data={"messages": made})
            case FolderBinding(path=path):
                return await asyncio.to_thread(_resource, self._folder, path, str(call.arguments["uri"]))
            case SkillFileBinding(path=path, digest=digest, size=size):
                known = SkillFile(uri=str(call.arguments["uri"]), digest=digest, size=size)
                return await asyncio.to_thread(_skill_file, self._skills, path, known)
            case _:
                raise ToolgenError(f"{call.tool.name} is neither a prompt nor a file")

    def preview(self, call: Call) -> JsonObject:
        """The file or prompt that would be read."""
        match call.tool.binding:
            case FolderBinding(path=path) | SkillFileBinding(path=path):
                return {"file": path}
            case _:
                return {"prompt": call.tool.name}

    async def close(self) -> None:
        """Nothing is open."""


def _resource(folder: Path | None, path: str, uri: str) -> Success | Failed:
    """The file of a folder, without characters that nobody sees."""
    body = _body(folder, path)
    if not isinstance(body, bytes):
        return body
    text = text_in(body)
    return _answer(body, path, uri, None if text is None else visible(text))


def _skill_file(folder: Path | None, path: str, known: SkillFile) -> Success | Failed | Refused:
    """The file of a skill as it was built, whose digest hosts compare. A file that changed since is not read."""
    body = _body(folder, path)
    if not isinstance(body, bytes):
        return body
    return _answer(body, path, known.uri, text_in(body)) if known.fits(body) else _CHANGED


def _body(folder: Path | None, path: str) -> bytes | Failed:
    """The bytes of a file: no step of its path may be a link, also one that was put there since the build."""
    place = Path(path)
    if folder is None or place.is_absolute() or ".." in place.parts:
        return Failed(error=_GONE)
    try:
        with open_inside(folder, place) as (descriptor, size):
            body = None if size > MAX_FILE_SIZE else whole_file(descriptor)
    except OSError:
        return Failed(error=_GONE)
    if body is None:
        message = f"the file has more than {MAX_FILE_SIZE} bytes"
        return Failed(error=Error(code="response_too_large", message=message))
    return body


def _answer(body: bytes, path: str, uri: str, text: str | None) -> Success:
    kind = type_by_name(path) or media_type_of(body)
    data: Json = file_data(body, kind) if text is None else {"uri": uri, "media_type": kind, "text": text}
    return Success(data=data, delivery=Delivery(bytes=len(body)))


def _filled(text: str, arguments: JsonObject) -> str:
    """The text with arguments in place of their names. An argument is never read as a template itself."""
    return PLACEHOLDER.sub(lambda found: str(arguments.get(found[1], "")), text)
