"""Inspection of answers before they are returned: findings become labels of the session, are redacted, replaced by tokens, or withheld.

Values that a call received in place of tokens are first replaced by their tokens, and detectors ignore these: text beside a token does not
change the findings. The same applies to values that earlier calls of the principal received, because a service may have stored them with
text beside them.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from toolgen.core.errors import StateError, place_of
from toolgen.model.call import Call, parties
from toolgen.model.media import INLINE, begins_as_text
from toolgen.model.result import Cancelled, Error, Failed, Pending, Refused, Result, Shape, Success, file_bytes
from toolgen.model.schema import Json
from toolgen.model.tool import Tool
from toolgen.pipeline.call_plan import GENERAL, Prepared
from toolgen.pipeline.middleware import CallContext, Next
from toolgen.pipeline.responses.encoded_files import declared_names, taken_out
from toolgen.pipeline.stages.middleware import Labelling, withheld
from toolgen.policy.detectors.classifier import threads
from toolgen.policy.detectors.inspector import DetectorWatch, InspectedAnswer, Inspector, OverloadError
from toolgen.policy.detectors.restored_values import CallMasking, changed_texts
from toolgen.policy.detectors.tokens import Signer, unmarked
from toolgen.policy.rules import DecisionNote
from toolgen.state.value_vault import TokenScope, ValueVault

__all__ = ["ResultsStage", "told"]

T = TypeVar("T")
_logger = logging.getLogger(__name__)
_BLOCK_BYTES = frozenset({"blob", "data"})  # members of MCP's content blocks that are base64
_LONG = 8 * 1024  # answers of this many bytes or more are inspected in a thread
_FAILED = "the content of this answer cannot be inspected, so it is withheld"


class ResultsStage(Struct, frozen=True, kw_only=True):
    """Inspects every answer and every error message. An answer that cannot be inspected, or whose label or values cannot be stored for
    other processes, is withheld. `vault` keeps the values behind tokens, `key` signs tokens for workflows and code."""

    inspector: Inspector
    label: Labelling
    vault: ValueVault
    key: Callable[[], bytes]

    async def __call__(self, call: Call, call_context: CallContext, proceed: Next) -> Result:
        call_context.redacts = call_context.inspected = (
            True  # progress texts are not inspected: only the numbers are forwarded
        )
        return await self.answered(call, await proceed(call, call_context), call_context)

    async def answered(self, call: Call, result: Result, call_context: CallContext) -> Result:
        """Return a result as its caller may see it, also one that came after the pipeline of its call had ended."""
        if not isinstance(result, Success | Failed) or result.shape is Shape.STORED:
            return result
        try:
            return await self._looked(call, call_context, result)
        except (OverloadError, StateError, RecursionError) as error:
            _logger.error("the answer to call %s is withheld: %s", call.id, type(error).__name__)  # noqa: TRY400
        except Exception as error:  # noqa: BLE001 - a detector may be the project's own code
            _logger.error("the answer to call %s is withheld: %s", call.id, place_of(error))  # noqa: TRY400
        call_context.notes += (DecisionNote(rule="inspect_results", verdict="deny", status="raised"),)
        return withheld(result, _FAILED, "", "inspect_results")

    def masking(self, call: Call) -> CallMasking:
        """Return the masking of texts for the caller of this call."""
        return CallMasking(call.restored, call.arguments, call.bound, self.inspector.of(call.tool.name))

    def idle(self, tool: Tool) -> bool:
        """Return True if no detector inspects answers of this tool."""
        if self.inspector.tokens is not None:  # in every answer, text that looks like a token has to be escaped
            return False
        if tool.takes_documents:  # its document determines the tools that it calls
            return self.inspector.is_empty
        return not self.inspector.of(tool.name)

    def prepared(self, tool: Tool) -> Prepared:
        """Return None if no detector inspects answers of the tool."""
        return None if self.idle(tool) else GENERAL

    async def _looked(self, call: Call, call_context: CallContext, result: Success | Failed) -> Success | Failed:
        long = (result.delivery.bytes or 0) > _LONG
        files = await _run(lambda: _texts_of_files(call.tool, result), apart=long)
        said = await _run(lambda: self._marked(call, _said(result, files)), apart=long)
        seen = await self._seen(call, said, apart=long)
        stored = await self._stored(call, said, apart=long)
        if stored is not None:
            said = await _run(lambda: stored.masked(said), apart=long)
            seen.add(await self._seen(call, said, apart=long))
            seen.resembling = True
        if not seen.watches and not seen.resembling:
            return result
        labels = sorted({watch.label for watch in seen.watches if watch.label})
        call_context.notes += tuple(_note(watch, seen) for watch in seen.watches)
        await self.label(call, labels)
        if blocking := next((watch for watch in seen.watches if watch.then == "block"), None):
            told = (
                f"the answer contains data that must not be passed on ({', '.join(sorted(seen.kinds[blocking.name]))})"
            )
            return withheld(result, told, "", _rule(blocking))
        if seen.has("redact"):
            said = await _run(lambda: self.inspector.replaced(said, seen), apart=long)
        elif not seen.has("tokenise") and not seen.resembling:
            return result
        shown = await self._tokenised(call, said, seen, apart=long)
        return _with(result, shown if stored is None else _quoting(shown, stored), files)

    async def _seen(self, call: Call, said: Json, *, apart: bool) -> InspectedAnswer:
        """Return the findings of the detectors in an answer."""
        name = call.tool.name
        others = () if call.document is None else tuple(tool.name for tool in call.document.tools)
        if self.inspector.takes_long(name, *others):
            came = time.monotonic()
            return await asyncio.get_running_loop().run_in_executor(
                threads(), lambda: self.inspector.look(name, said, *others, came=came)
            )
        return await _run(lambda: self.inspector.look(name, said, *others), apart=apart)

    async def _stored(self, call: Call, said: Json, *, apart: bool) -> CallMasking | None:
        """Return the masking of values in an answer that are known from earlier answers to this principal; None if there are none."""
        tokens = self.inspector.tokens
        if tokens is None:
            return None
        scope = TokenScope(parties(call.principal), call.session)
        kinds = {value: kind for kind, value in await self.vault.given(scope)}
        if not kinds:
            return None
        searched = CallMasking([("", "", value) for value in kinds], {})
        found = [(kinds[value], value) for value in await _run(lambda: searched.present(said), apart=apart)]
        if not found:
            return None
        kept = [value for value in found if value[0] in tokens.kinds]
        numbers = await self.vault.keep(scope, kept) if kept and call.session else {}
        return CallMasking(
            [("", _token(kind, numbers.get((kind, value))), value) for kind, value in found], call.arguments, call.bound
        )

    def _marked(self, call: Call, said: Json) -> Json:
        """Replace the values that the call was given, and the tokens that its own calls returned, by marks.

        Tokens in a function's answer become plain text, because the function may have made more of them than its calls returned.
        """
        tokens = self.inspector.tokens
        if tokens is None:
            return said
        if call.restored:
            said = self.masking(call).masked(said)
        if call.tool.runs_function or call.tool.binding.makes_calls:
            signer = Signer(self.key(), parties(call.principal), call.session)
            change = tokens.plain if call.tool.runs_function else tokens.marked
            said = changed_texts(said, lambda text: change(text, signer))
        return said

    async def _tokenised(self, call: Call, said: Json, seen: InspectedAnswer, *, apart: bool) -> Json:
        """Replace values and marks by tokens, and remove other texts that look like tokens."""
        values = await _run(lambda: self.inspector.values(said, seen), apart=apart)
        numbers = (
            await self.vault.keep(TokenScope(parties(call.principal), call.session), values)
            if values and call.session
            else {}
        )
        shown = await _run(lambda: self.inspector.tokenised(said, seen, numbers), apart=apart)
        if not values:
            return shown
        known = [("", _token(kind, numbers.get((kind, value))), value) for kind, value in values]
        return _quoting(shown, CallMasking(known, call.arguments, call.bound))


def _token(kind: str, number: int | None) -> str:
    return f"[{kind}]" if number is None else f"<{kind}:{number}>"


def told(result: Result, masking: CallMasking) -> Result:
    """Return a result without the values that its call received in place of tokens."""
    match result:
        case Success():
            data = masking.masked(result.data)
            return result if data is result.data else replace(result, data=changed_texts(data, unmarked))
        case Failed():
            data = changed_texts(masking.masked(result.data), masking.message)
            return replace(result, data=data, error=_said_of(result.error, masking))
        case Refused(error=error) | Pending(error=error) | Cancelled(error=error):
            return replace(result, error=_said_of(error, masking))


def _said_of(error: Error, masking: CallMasking) -> Error:
    return replace(error, message=masking.message(error.message), suggestion=masking.message(error.suggestion))


async def _run(work: Callable[[], T], *, apart: bool) -> T:
    return await asyncio.to_thread(work) if apart else work()


def _quoting(shown: Json, masking: CallMasking) -> Json:
    """Return the answer of a call with values masked in its message, which may quote the answer in another form or in part."""
    if not isinstance(shown, Mapping) or "message" not in shown:
        return shown
    return {**shown, **{name: masking.message(str(shown[name])) for name in ("message", "suggestion")}}


def _texts_of_files(tool: Tool, result: Success | Failed) -> Mapping[str, str]:
    """Return the texts of files that are base64 in the data, by their encoded form: they are stored, and read as text."""
    if not result.delivery.files or file_bytes(result.data) is not None:
        return {}
    blocks = _BLOCK_BYTES if result.shape is Shape.CONTENT else frozenset()
    _, found = taken_out(result.data, declared_names(tool.output_schema) | blocks)
    return {file.written: file.body.decode("utf-8", "replace") for file in found if begins_as_text(file.body)}


def _said(result: Success | Failed, files: Mapping[str, str]) -> Json:
    data = _text_of(result.data)
    read = {"files": list(files.values())} if files else {}
    if isinstance(result, Success):
        return {"data": data, "cursor": result.next_cursor, **read}
    error = result.error
    return {"data": data, "message": error.message, "suggestion": error.suggestion, **read}


def _text_of(data: Json) -> Json:
    """Return the text of the data: for a file the text that it contains, because models also read base64; None if it is no text.

    A file that begins as text is read as text to its end, so it is inspected even if it contains other bytes.
    """
    body = file_bytes(data)
    if body is None:
        return data
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return body.decode("utf-8", "replace") if begins_as_text(body) else None


def _file_of(data: Json, text: Json) -> Json:
    """Return the data with another text in it."""
    if isinstance(data, Mapping) and isinstance(text, str) and file_bytes(data) is not None:
        return (
            data
            if text == _text_of(data)
            else {**data, "base64": base64.b64encode(text.encode("utf-8")).decode("ascii")}
        )
    return data if text is None else text


def _rewritten(data: Json, files: Mapping[str, str], texts: Json) -> Json:
    """Return the data with other texts in its files."""
    given = texts if isinstance(texts, list | tuple) else ()
    changed = {
        written: _prefix_of(written) + base64.b64encode(str(text).encode("utf-8", "replace")).decode("ascii")
        for (written, before), text in zip(files.items(), given, strict=True)
        if text != before
    }

    def rewritten(text: str) -> str:
        for written, other in changed.items() if len(text) > INLINE else ():
            text = text.replace(written, other)
        return text

    return changed_texts(data, rewritten) if changed else data


def _prefix_of(written: str) -> str:
    """Return the text before the base64 in a `data:` URL, or "" for other texts."""
    return written[: written.find(",") + 1] if written[:5].lower() == "data:" else ""


def _with(result: Success | Failed, said: Json, files: Mapping[str, str]) -> Success | Failed:
    if not isinstance(said, Mapping) or "data" not in said:
        return result
    data = _file_of(result.data, said["data"])
    if files:
        data = _rewritten(data, files, said["files"])
    if isinstance(result, Success):
        return replace(result, data=data)
    error = replace(result.error, message=str(said["message"]), suggestion=str(said["suggestion"]))
    return replace(result, data=data, error=error)


def _rule(watch: DetectorWatch) -> str:
    return f"inspect_results:{watch.name}"


def _note(watch: DetectorWatch, seen: InspectedAnswer) -> DecisionNote:
    status = {"label": "labelled", "redact": "redacted", "tokenise": "tokenised", "block": "blocked"}[watch.then]
    return DecisionNote(
        rule=_rule(watch),
        verdict="deny" if watch.then == "block" else "",
        status=f"{status}: {', '.join(sorted(seen.kinds[watch.name]))}",
        digest=watch.digest,
        labels=(watch.label,) if watch.label else (),
    )
