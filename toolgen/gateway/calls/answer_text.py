"""Text of an answer as an agent reads it, over every front end: the data and notes of a success, or an error that begins with its code."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

from toolgen.gateway.calls.file_links import linked_file, reading_hint
from toolgen.gateway.calls.json_body import encode
from toolgen.model.excerpt import bounded
from toolgen.model.result import SUCCESS_FLAGS, Envelope, Error, Meta, More
from toolgen.model.schema import Json
from toolgen.model.waiting import GET_CALL_RESULT
from toolgen.pipeline.responses.answer_argument import ARGUMENT

__all__ = ["data_text", "dropped_text", "error_text", "notes_of", "without_repetition", "written"]

_MAX_DATA_LENGTH = 4000
_ORDINARY = frozenset({200, 204})
_WORD = re.compile(r"\w+")
_WAITING = frozenset({"try again later", "wait before the next call"})
_NO_TYPE = "about:blank"  # type of problem details that state none (RFC 9457, section 4.2.1)


def written(data: object) -> str:
    """Return data as a text: a text unchanged, anything else as JSON."""
    return data if isinstance(data, str) else encode(data).decode("utf-8")


def data_text(envelope: Envelope, text: str | None = None) -> str:
    """Return the text of a success: its data and its notes. `text` is the text of the data, if it exists already."""
    said = written(envelope.data) if text is None else text
    if envelope.empty_status:
        said = _no_content(envelope.empty_status)
    if (
        isinstance(envelope.data, (dict, Mapping))  # dict first: the check is faster than that for Mapping
        and "resource" in envelope.data
        and (link := linked_file(envelope)) is not None
    ):
        said = f"The answer is a file of {link['size']} bytes ({link['mimeType']}). {reading_hint(link['uri'])}"
    notes = notes_of(envelope)
    if not notes:
        return said
    texts = [f"[{note}]" for note in notes]
    # The answer differs from the request, which an agent must know before it reads the data.
    return "\n\n".join((texts[0], said, *texts[1:]) if envelope.meta.dropped else (said, *texts))


def _no_content(status: int) -> str:
    """Return the text of a success without content; it names an HTTP status with a special meaning."""
    return "Done (no content)." if status in _ORDINARY else f"Done (status {status}, no content)."


def notes_of(envelope: Envelope) -> tuple[str, ...]:
    """Return the notes on a success, besides its data: dropped arguments first, then errors, an approver's note, cuts, and the next
    page."""
    meta = envelope.meta
    notes = []
    if meta.dropped:
        notes.append(dropped_text(envelope))
    if meta.joined:
        notes.append(_joined(envelope))
    if meta.partial:
        notes.append(f"A part of the answer is missing: {bounded(written(meta.partial), _MAX_DATA_LENGTH)}")
    if meta.note:
        notes.append(f"The approver of this call wrote: {meta.note}")
    if meta.row_notes:
        notes.append(_rows(meta))
    if meta.unread_fields:
        named = ", ".join(f"{count} of {type_}" for type_, count in meta.unread_fields.items())
        notes.append(
            f"More fields can be read: {named}; select them with the argument for fields (describe_types shows them)."
        )
    if meta.more is not None and (said := more_text(meta.more)):
        notes.append(said)
    if (meta.truncated or meta.next_cursor) and not (meta.more is not None and not meta.cut_at):
        where = f" at {meta.cut_at}" if meta.cut_at else ""
        note = f"The answer was cut short{where}." if meta.truncated else "There is more."
        if meta.next_cursor:
            note += f" The rest starts at the cursor {meta.next_cursor}"
            if meta.cut_at:
                note += f" (call again with the same arguments and {envelope.cursor_argument or ARGUMENT}.cursor)"
        notes.append(note)
    return tuple(notes)


def _rows(meta: Meta) -> str:
    return f"Only a part of the rows is shown here. {bounded('; '.join(meta.row_notes), _MAX_DATA_LENGTH)}"


def more_text(more: More) -> str:
    """Return the sentences about the remaining items of an answer."""
    said = []
    if more.shown is not None and more.read is not None:
        of = (
            f"{more.read} items that were read"
            if more.matching is None
            else f"{more.matching} matching items among {more.read} that were read"
        )
        said.append(f"{more.shown} of {of} {'is' if more.shown == 1 else 'are'} shown.")
    count = f" ({more.read} of {more.total} so far)" if more.total is not None and more.read is not None else ""
    count = count or (f" ({more.total} in all)" if more.total is not None else "")
    if more.arguments is not None:
        several = f" ({more.option}.pages reads several pages at once)" if more.option else ""
        said.append(
            f"There {'may be' if more.possible else 'is'} more{count}; read on with {written(more.arguments)}{several}."
        )
    elif more.advice:
        rows = (
            f"There are more rows than the {more.read} that were read"
            if more.read is not None
            else "Not all rows were read"
        )
        said.append(f"{rows}: {more.advice}.")
    return " ".join(said)


def error_text(envelope: Envelope, *, blocks_follow: bool = False) -> str:
    """Return the text of any result that is no success. It begins with the code, because some clients drop the error flag, and repeats
    nothing.

    `blocks_follow`: the answer of the other system follows in blocks.
    """
    error = envelope.error or Error(code="internal", message="the gateway gave no reason")
    if blocks_follow:
        message, data = _unquoted(error.message, envelope.content), None
    else:
        message, data = without_repetition(error.message, envelope.data)
    parts = [f"{error.code}: {message}"]
    if envelope.status == "pending":
        if error.code != "authorization_required":
            stands = (
                "The call has not been executed yet"
                if error.code == "approval_required"
                else "The call has not ended yet"
            )
            parts.append(f"{stands}; call id {envelope.call_id}.")
    elif error.code == "outcome_unknown" and envelope.call_id:
        parts.append(f"The call id is {envelope.call_id}.")
    if error.retry_after_s is not None:
        parts.append(f"Try again in {math.ceil(error.retry_after_s)} s.")
    if error.suggestion and not (error.retry_after_s is not None and error.suggestion in _WAITING):
        parts.append(f"What to do: {error.suggestion}")
    if error.help_url and error.help_url not in message:
        parts.append(f"More: {error.help_url}")
    if envelope.status != "refused" and (dropped := dropped_text(envelope)):  # nothing was sent without them
        parts.append(dropped)
    if envelope.meta.joined:
        parts.append(_joined(envelope))
    if envelope.meta.note:
        parts.append(f"The approver of this call wrote: {envelope.meta.note}")
    if envelope.meta.row_notes:
        parts.append(_rows(envelope.meta))
    if data is not None:
        parts.append(f"The system answered: {bounded(written(data), _MAX_DATA_LENGTH)}")
    return "\n".join(parts)


def _joined(envelope: Envelope) -> str:
    """Return the sentence about a call that was not made, because it joined an equal call."""
    return (
        f"This call already ran as {envelope.call_id}, and was not made again. To make another such call, read its result with "
        f"{GET_CALL_RESULT} first, or give an idempotency key"
    ) + "."


def without_repetition(message: str, data: Json) -> tuple[str, Json]:
    """Return an error's message and the answer of the other system, without text that is in both.

    The message quotes the system after its first colon (`Failed`). The data is None if the message contains all of it. Otherwise the
    message ends before a quotation that the data contains whole.
    """
    if data is None:
        return message, None
    said = " ".join(message.casefold().split())
    texts = data.splitlines() if isinstance(data, str) else _contents(data)
    if all(" ".join(text.casefold().split()) in said for text in texts):
        return message, None
    return (message if len(written(data)) > _MAX_DATA_LENGTH else _unquoted(message, data)), data


def _unquoted(message: str, data: Json) -> str:
    """Return a message without a quotation if the data contains every word of it."""
    ours, colon, quoted = message.partition(":")
    known = {word for text in (written(data), *_contents(data)) for word in _WORD.findall(text)}
    return ours if colon and known.issuperset(_WORD.findall(quoted)) else message


def _contents(data: Json, name: str = "") -> Iterator[str]:
    """Return the texts and numbers in data that carry information."""
    match data:
        case Mapping():
            for key, value in data.items():
                yield from _contents(value, key)
        case list() | tuple():
            for value in data:
                yield from _contents(value)
        case None:
            return
        case bool() if name in SUCCESS_FLAGS:  # the error itself shows that the call failed
            return
        case str() if not data.strip() or (name, data) == ("type", _NO_TYPE):
            return
        case str():
            yield data
        case _:
            yield encode(data).decode("utf-8")


def dropped_text(envelope: Envelope) -> str:
    """Return the sentence about unknown arguments; "" if there are none."""
    if not envelope.meta.dropped:
        return ""
    named = (
        f"'{one['argument']}'" + (f" (did you mean '{one['nearest']}'?)" if "nearest" in one else "")
        for one in envelope.meta.dropped
    )
    return f"Left out, as the tool has no such argument: {', '.join(named)}."
