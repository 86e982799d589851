"""Files as base64 texts, for systems that accept no other form (members of JSON, functions, bridged tools, devices)."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping

from msgspec.structs import replace

from toolgen.connectors.executor import FileSource
from toolgen.core.errors import StateError
from toolgen.model.call import Call
from toolgen.model.file_arguments import file_places, is_text_file, replaced_at, with_files
from toolgen.model.result import Error, Failed
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import Tool
from toolgen.model.unavailable import fault_error
from toolgen.policy.arguments import Validator

__all__ = ["MAX_TEXT_FILE", "named_texts", "written_texts"]

MAX_TEXT_FILE = 8 * 1024 * 1024
"""Maximum bytes of a file that is sent as a text."""


async def written_texts(files: FileSource, call: Call) -> Call | Failed:
    """Return the call with the text in place of each of these files. The text has to fit the tool's schema."""
    arguments, left = call.arguments, MAX_TEXT_FILE
    for path, file in list(file_places(call.tool.input_schema, call.arguments, is_text_file)):
        text = file.get("base64")
        if not isinstance(text, str):
            body = await _read(files, call, file, left)
            if isinstance(body, Failed):
                return body
            left -= len(body)
            text = base64.b64encode(body).decode("ascii")
        arguments = replaced_at(arguments, path, text)
    if arguments is call.arguments:
        return call
    if faults := await asyncio.to_thread(_faults, call.tool, arguments):  # validation of long texts is slow
        return _failed(f"the text of a file is not valid for the tool: {faults[0]}", "send another file")
    return replace(call, arguments=arguments)


def _faults(tool: Tool, arguments: JsonObject) -> tuple[str, ...]:
    return Validator(tool.input_schema).faults(arguments, limit=1)


async def _read(files: FileSource, call: Call, file: Mapping[str, Json], most: int) -> bytes | Failed:
    try:
        found = await files.open(call.principal, str(file.get("uri")))
        if found is None:
            return _failed(
                "a file of the arguments does not exist (any more)",
                "make the call again that answered with it, or upload it again",
            )
        if found.info.size > most:
            return _failed(
                f"files that are sent as texts have at most {MAX_TEXT_FILE} bytes together; a file of {found.info.size} bytes is too much",
                "send a shorter file",
            )
        return await found.read()
    except StateError as error:
        return Failed(error=fault_error(error, "a file of the call cannot be read, so nothing was sent"))


def named_texts(call: Call) -> Call:
    """Return the call with a text that names the file, in place of each file that is sent as a text."""

    def named(file: Mapping[str, Json]) -> Json:
        text = file.get("base64")
        if isinstance(text, str):
            return text
        return f"<{file.get('filename') or 'file'} in base64, {file.get('size', '?')} bytes, sha256 {file.get('sha256', '?')}>"

    arguments = with_files(call.tool.input_schema, call.arguments, named, is_text_file)
    return call if arguments is call.arguments else replace(call, arguments=arguments)


def _failed(message: str, suggestion: str) -> Failed:
    return Failed(error=Error(code="validation", message=message, suggestion=suggestion, rule="files"))
