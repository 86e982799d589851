"""Descriptions for a model: Markdown and HTML flattened, hidden characters removed, cut at a sentence, never empty."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from toolgen.connectors.naming import ABBREVIATIONS, from_identifier, from_route, words
from toolgen.connectors.openapi.framework_names import framework_names
from toolgen.connectors.openapi.markup import lines_of, single_line
from toolgen.connectors.openapi.operation import Operation
from toolgen.connectors.openapi.route_titles import is_of_route, route_title
from toolgen.model.prompt_injection import holds_invisible
from toolgen.model.short_text import MAX_DESCRIPTION_LENGTH, SENTENCE_END, cut

__all__ = [
    "MAX_ARGUMENT_LENGTH",
    "MAX_LENGTH",
    "MAX_NESTED_OUTPUT_LENGTH",
    "MAX_OUTPUT_LENGTH",
    "brief",
    "describe",
    "flatten",
    "help_url",
    "suspicion",
    "title",
    "with_hint",
    "with_own_words",
]

MAX_LENGTH = 4_000
"""Maximum length of the full text about a tool. Texts in lists are shorter (`toolgen.model.short_text`)."""
MAX_ARGUMENT_LENGTH = 2_000
"""Maximum length of the full text about an argument or one of its properties."""
MAX_OUTPUT_LENGTH = 160
"""Maximum length of the text about an answer."""
MAX_NESTED_OUTPUT_LENGTH = 100
_MARKUP = re.compile(
    r"[<&*_`#\[\]|\\>~!\r\n\t\x00-\x1f\x7f-\x9f\u00ad\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)
_ORDERS = re.compile(
    r"\b(?:ignore|disregard|forget)\b.{0,40}\b(?:previous|prior|above|earlier|all|any)\b.{0,40}\b(?:instruction|prompt|rule|context)"
    r"|\byou are now\b|\bsystem prompt\b|<\s*/?\s*(?:system|important|instructions?)\s*>"
    r"|\bdo not (?:tell|inform|mention|reveal)\b.{0,40}\buser\b|\bwithout (?:telling|informing|asking) the user\b",
    re.IGNORECASE | re.DOTALL,
)
# Each matching text contains one of these words in lower case. Searching for them first takes a fraction of the time.
_ORDER_WORDS = ("ignore", "disregard", "forget", "you are now", "system prompt", "<", "do not ", "without ")
_LINKED = re.compile(r"\ue000[^\ue000\ue001]*\ue001|https?://[^\s<>\"]+")
_NEXT_SENTENCE = re.compile(
    r"(?<=[.!?…])[\"”')\]\ue001]*[ \t]+(?=[A-Z\"“'(\[\ue000])|(?<=[。！？｡])[」』”）】]*(?![」』”）】])|(?=\n)"
)
_POINTER = re.compile(
    r"\W*(?:(?:for|to (?:find|get|see)) (?:more|further|additional|full|complete)\b|(?:to )?(?:learn|read) more\b|more (?:info|details)"
    r"|see\b|refer to\b|check out\b|please (?:see|refer)\b"
    r"|(?:for|to|if)\b.*\b(?:see|refer to|visit|read)(?: also)?(?: the| our)?\W*\ue000)",
    re.IGNORECASE,
)
_MAX_BESIDE_A_LINK = 100
# Sentences about the account and credential of the API, or about the format of answers. The gateway handles both, so the model does not
# need them.
# Each pattern comes with lower-case words, one of which is in every matching sentence. Searching for them first is fast.
_SETTLED: tuple[tuple[tuple[str, ...], re.Pattern[str]], ...] = tuple(
    (needed, re.compile(pattern, re.IGNORECASE | re.DOTALL))
    for needed, pattern in (
        (
            ("token", "oauth", "api key", "credential", "scope"),
            r"(?=.*\b(?:tokens?|OAuth|API keys?|credentials?|scopes?)\b)"
            r".*\b(?:needs?|requires?d?|must|granted|have|works?|supported|can use)\b"
            r".*\b(?:scopes?|permissions?|endpoint|required|access)\b",
        ),
        (
            ("authenticated user", "anyone", "only"),
            r".*\b(?:authenticated users?|anyone|only)\b.*\b(?:access|permissions?|administrators?|admins?|owners?|roles?)\b"
            r".*\b(?:endpoint|operation)\b",
        ),
        (("authenticated user",), r".*\bauthenticated users? must (?:also )?(?:have|be)\b"),
        (("scope",), r".*\bscopes?\W? (?:is|are) (?:\w+ )?required\b"),
        (("you must use a",), r"you must use an? .{1,40} to access this endpoint"),
        (
            ("available",),
            r".*\b(?:is|are) (?:only )?available (?:in|with|for|on)\b"
            r".*\b(?:Free|Pro|Premium|Business|Enterprise)\b.*\b(?:plans?|Cloud|and)\b",
        ),
        (("following",), r".*\bfollowing (?:custom )?media types\b"),
        (("following",), r".*\bfollowing (?:credential|(?:fine-grained )?token) types\b"),
    )
)
_ANSWER_FORM = re.compile(
    r"^[^\w\n]{0,12}(?:application|text|image)/[\w.+*-]+\W*(?:[:(-].*)?$", re.MULTILINE | re.IGNORECASE
)
# A table of fields with their types repeats the schemas.
_FIELDS = re.compile(
    r"^[ \t]*\|[^\n]*\btype\b[^\n]*\|[ \t]*\n(?:[ \t]*\|[^\n]*(?:\n|\Z))+", re.MULTILINE | re.IGNORECASE
)
# A longer code block is a program that calls the API; a shorter block is an example of a value.
_PROGRAM = re.compile(r"```[^\n`]*\n[^`]{300,}```")
# A statement that any spelling is accepted requires nothing of the caller.
_ANY_CASE = re.compile(
    r"\W*(?:the|this)(?: \w+){1,3} (?:is|are) (?:not case[- ]sensitive|case[- ]insensitive)\.?\s*\Z", re.IGNORECASE
)
_MAX_URL_LENGTH = 300
_WEB_ADDRESS = re.compile(r"https?://[A-Za-z0-9.-]+(?::[0-9]{1,5})?(?:[/?#][!-~]*)?")
_MAX_READ_LENGTH = 12_288
_MAX_IDLE_LENGTH = 80
_MAX_SENTENCE_LENGTH = 500  # A longer text is not a sentence, and would make the patterns above slow.
_WORD = re.compile(r"\w+")
_PLAIN_WORD = re.compile(r"[a-z]+ [a-z]")
_ENDING = re.compile(r"(?:ies|es|s|y|e)\Z")
_LITTLE = frozenset({"a", "an", "the", "of", "for", "to", "in", "on", "by", "from", "with", "and", "all", "this"})
_ARTICLE = re.compile(r"(?:The|An?(?! (?:or|and|if|in|of|to|is|for)\b))\s+(?=[a-z])")
# Words that only say that the value exists.
_EMPTY_WORDS = (
    "be being desired entity fetch field given id identified identifier identify is it its name number object of parameter record requested"
    " resource result retrieve return returned s specified specify that unique uniquely used uuid value wanted which"
)
_ENDS = (*".!?…:।؟۔。！？｡：",)


@lru_cache(maxsize=4_096)
def flatten(text: str, limit: int) -> str:
    """Return plain text on one line, at most `limit` characters, cut after a sentence if one ends in its second half."""
    if _MARKUP.search(text) or holds_invisible(text) or "://" in text or "case" in text:
        text = _plain(text[: limit * 8 + 4096], _idle)
    return cut(text.strip(), limit)


@lru_cache(maxsize=8_192)
def brief(text: str, limit: int, name: str = "") -> str:
    """Return a value's description, flattened and without its article; "" if it adds nothing to the value's `name`."""
    text = flatten(text, limit)
    if name and len(text) <= _MAX_IDLE_LENGTH and _says_only(text, _meanings(name)):
        return ""
    if article := _ARTICLE.match(text):
        return text[article.end()].upper() + text[article.end() + 1 :]
    return text


@lru_cache(maxsize=4_096)
def _meanings(name: str) -> frozenset[str]:
    """Return the stems of the words of a name and of their long forms, and of words without information about any value."""
    own = words(name)
    return _EMPTY_STEMS | _stems(" ".join((*own, *(long for long, short in ABBREVIATIONS.items() if short in own))))


def _plain(text: str, needless: Callable[[str], bool]) -> str:
    """Return the text without its markup."""
    return single_line(_without(lines_of(text), needless))


def _without(text: str, needless: Callable[[str], bool]) -> str:
    """Return the text without its needless sentences, or the complete text if no sentence would remain."""
    kept: list[str] = []
    start = 0
    for end in (*(match.end() for match in _NEXT_SENTENCE.finditer(text)), len(text)):
        sentence = text[start:end]
        if len(sentence) > _MAX_SENTENCE_LENGTH or not needless(sentence):
            kept.append(sentence)
        start = end
    without = "".join(kept)
    return without if without.strip() else text


def _points_elsewhere(sentence: str) -> bool:
    """Return True if a sentence only refers the reader to another page. A model cannot open it, and pays for every word."""
    if not _POINTER.match(sentence):
        return False
    around = _LINKED.sub("", sentence)
    return around != sentence and len(around) <= _MAX_BESIDE_A_LINK


@lru_cache(maxsize=4_096)
def _idle(sentence: str) -> bool:
    """Return True if a sentence contains no information and no instruction for the model."""
    return _points_elsewhere(sentence) or _ANY_CASE.match(sentence) is not None


@lru_cache(maxsize=4_096)
def _settled(sentence: str) -> bool:
    """Return True if a sentence contains no information, or is about something that the gateway handles."""
    if _idle(sentence):
        return True
    lower = sentence.lower() if sentence.isascii() else ""
    return any(
        (not lower or any(one in lower for one in needed)) and pattern.match(sentence) is not None
        for needed, pattern in _SETTLED
    )


def _may_match(text: str, needed: tuple[str, ...]) -> bool:
    """Return True if a text contains one of these words in either case, or a non-ASCII character, whose case folding is uncertain."""
    if not text.isascii():
        return True
    lower = text.lower()
    return any(one in lower for one in needed)


@lru_cache(maxsize=4_096)
def suspicion(text: str) -> str:
    """Return the reason why a text seems to address the model and not a human reader, or ""."""
    if holds_invisible(text):
        return "contains invisible characters"
    if _may_match(text, _ORDER_WORDS) and _ORDERS.search(text):
        return "reads like an instruction to the model"
    return ""


def help_url(raw: Mapping[str, Any]) -> str:
    """Return the URL of an operation's documentation (`externalDocs`), or "" if it is not a plain web address, because agents are told to
    read it.
    """
    written = raw.get("externalDocs")
    url = written.get("url") if isinstance(written, dict) else None
    return url if isinstance(url, str) and len(url) <= _MAX_URL_LENGTH and _WEB_ADDRESS.fullmatch(url) else ""


def title(operation: Operation) -> str:
    """Return a short title for a person: the summary, or the words of the tool's name. A non-ASCII identifier is used unchanged."""
    own = operation.identifier or operation.path
    foreign = "" if own.isascii() else flatten(operation.identifier or f"{operation.method} {own}", 80)
    if text := flatten(operation.summary, 100).rstrip(".。"):
        return f"{text} ({foreign})" if foreign and foreign not in text else text
    if foreign:
        return foreign
    made = framework_names(operation.identifier, operation.method, operation.path, operation.tags)
    of_route = not made and is_of_route(operation.identifier, operation.method, operation.path)
    if of_route and (told := route_title(operation.method, operation.path)):
        return told
    found = (
        made or from_identifier(operation.identifier, operation.tags) or from_route(operation.method, operation.path)
    )
    return " ".join(found[0]).capitalize()


# First sentences about permissions or warnings, which do not describe the operation.
_PREAMBLE = re.compile(
    r"(?:any(?:one| user)|users? |you (?:can|may|must|need)|note\b|warning\b|important\b|caution\b|deprecated\b|by default|if |when |"
    r"to use this|this (?:endpoint|api|method|operation|resource) (?:is|requires|supports|works|only|will))",
    re.IGNORECASE,
)


_SAYS_DEPRECATED = re.compile(r"(?:\A|[.!]\s+)deprecated\b|\bthis \w+ (?:is|has been) deprecated\b", re.IGNORECASE)


def describe(operation: Operation, filled: str = "") -> str:
    """Return the summary as a sentence and then the description, or a text about method, path and parameters if there is neither.

    `filled` is a header that the gateway fills in.
    """
    summary = flatten(operation.summary, MAX_LENGTH)
    more = _purpose(operation.description)
    first = _first_sentence(more)
    if more.lower().startswith(summary.rstrip(".。").lower()) or (_says(first, summary) and not _PREAMBLE.match(first)):
        summary = ""
    parts = [_sentence(part) for part in (summary, more) if part]
    if not parts:
        needs = [
            parameter.name for parameter in operation.parameters if parameter.required and parameter.name != filled
        ]
        parts.append(f"{title(operation)} ({operation.method} {operation.path}).")
        if needs:
            parts.append(f"Needs {', '.join(needs)}.")
    # "Deprecated." is put after the first sentence, because searches look for the action of the tool in that sentence.
    if operation.deprecated and not _SAYS_DEPRECATED.search(" ".join(parts)):
        first = _first_sentence(parts[0])
        parts[0] = f"{first.rstrip()} Deprecated.{f' {rest}' if (rest := parts[0][len(first) :].strip()) else ''}"
    return cut(" ".join(parts), MAX_LENGTH)


def with_hint(description: str, hint: str) -> str:
    """Return a description with a sentence about sibling operations, which is inserted near the beginning of a long one."""
    if not hint:
        return description
    if len(description) + len(hint) < MAX_DESCRIPTION_LENGTH:
        return f"{description} {hint}"
    first = _first_sentence(description)
    return cut(f"{first.rstrip()} {hint} {description[len(first) :].strip()}".rstrip(), MAX_LENGTH)


def _purpose(text: str) -> str:
    """Return an operation's description without sentences about topics that the gateway handles."""
    text = text[:_MAX_READ_LENGTH]
    read = _ANSWER_FORM.sub("", text) if "/" in text else text
    read = _FIELDS.sub("", read) if "|" in read else read
    text = (_PROGRAM.sub(" ", read) if "```" in read else read) or text
    return cut(_plain(text, _settled).strip(), MAX_LENGTH)


def _says(longer: str, shorter: str) -> bool:
    """Return True if one text contains every meaningful word of the other, in any form: `List pets`, `Lists all pets.`"""
    if not shorter:
        return False
    stems, lower = _stems(shorter), longer.lower()
    # A stem is the beginning of its word, so a text without the stem has no such word: most texts end here.
    return all(one in lower for one in stems) and stems <= _stems(longer)


def _says_only(text: str, stems: frozenset[str]) -> bool:
    """Return True if every meaningful word of a text has one of these stems."""
    return all(word in _LITTLE or _stem(word) in stems for word in _WORD.findall(text.lower()))


def _first_sentence(text: str) -> str:
    end = SENTENCE_END.search(text)
    return text[: end.end()] if end else text


def _stems(text: str) -> frozenset[str]:
    return frozenset([_stem(word) for word in _WORD.findall(text.lower()) if word not in _LITTLE])


@lru_cache(maxsize=8_192)
def _stem(word: str) -> str:
    return _ENDING.sub("", word)


_EMPTY_STEMS = _stems(_EMPTY_WORDS)


def _sentence(text: str) -> str:
    if _PLAIN_WORD.match(text):
        text = text[0].upper() + text[1:]
    return text if text.endswith(_ENDS) else f"{text}."


def with_own_words(name: str, schema: Any) -> Any:
    """Return the schema of a property with its description as `brief` returns it, and without one that only repeats the name."""
    text = schema.get("description") if isinstance(schema, dict) else None
    if not isinstance(text, str) or (shorter := brief(text, len(text), name)) == text:
        return schema
    return (
        {**schema, "description": shorter} if shorter else {key: schema[key] for key in schema if key != "description"}
    )
