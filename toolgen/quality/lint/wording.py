"""Rules for names and descriptions: an agent must understand the purpose of a tool and of its arguments."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from toolgen.connectors.naming import words
from toolgen.quality.lint.rule import Level, LintRule, LintTool, RuleHit, SourceView

__all__ = ["SOURCE_WORDING", "TOOL_WORDING"]

_MIN_WORDS = 3
_EMPTY_WORDS = frozenset(
    {
        "a",
        "an",
        "the",
        "to",
        "of",
        "for",
        "by",
        "this",
        "endpoint",
        "api",
        "operation",
        "method",
        "request",
        "call",
        "todo",
    }
)
_SNAKE = re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)+\Z")
_CAMEL = re.compile(r"[a-z][a-z0-9]*(?:[A-Z][a-z0-9]*)+\Z")
_KEBAB = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)+\Z")
_STYLES = {"snake_case": _SNAKE, "camelCase": _CAMEL, "kebab-case": _KEBAB}


def _no_identifier(view: LintTool) -> Iterator[RuleHit]:
    if view.written is not None and not view.written.identifier:
        yield RuleHit(message="has no operationId, so its tool is named after its path")


def _no_description(view: LintTool) -> Iterator[RuleHit]:
    text = view.tool.description if view.written is None else view.written.text
    if not text.strip():
        yield RuleHit(message="says nowhere what it does")


def _useless_description(view: LintTool) -> Iterator[RuleHit]:
    text = view.tool.description if view.written is None else view.written.text
    if not text.strip() or view.tool.asks_database:
        return
    said = [word.lower() for word in re.findall(r"[^\W_]+", text)]
    if len(said) < _MIN_WORDS:
        yield RuleHit(message=f"is described in {len(said)} word(s): {text.strip()[:60]!r}")
        return
    known = {word.lower() for word in words(view.tool.name)} | _EMPTY_WORDS
    if view.written is not None:
        known |= {word.lower() for word in words(view.written.identifier)}
    if (http := view.tool.http) is not None:
        known |= {word.lower() for word in words(http.path)} | {http.method.lower()}
    known |= {f"{word}s" for word in known} | {word.removesuffix("s") for word in known}
    if all(word in known for word in said):
        yield RuleHit(message=f"its description only repeats its name: {text.strip()[:60]!r}")


def _undescribed_arguments(view: LintTool) -> Iterator[RuleHit]:
    for argument in view.arguments:
        if not argument.schema.get("description") and not argument.schema.get("title"):
            need = "required argument" if argument.required else "argument"
            yield RuleHit(
                message=f"the {need} {argument.name!r} is not described", origin=argument.origin, about=argument.name
            )


def _duplicate_identifiers(view: SourceView) -> Iterator[RuleHit]:
    holders: dict[str, list[LintTool]] = defaultdict(list)
    for tool in view.tools:
        if tool.written is not None and tool.written.identifier:
            holders[tool.written.identifier].append(tool)
    for identifier, tools in holders.items():
        for tool in tools[1:]:
            first = tools[0].tool.origin
            yield RuleHit(
                message=f"the operationId {identifier[:80]!r} is that of {first} too", origin=tool.tool.origin
            )


def _mixed_names(view: SourceView) -> Iterator[RuleHit]:
    styles: dict[str, set[str]] = {
        style: {one.name for tool in view.tools for one in tool.arguments if pattern.match(one.name)}
        for style, pattern in _STYLES.items()
    }
    counts = Counter({style: len(names) for style, names in styles.items() if names})
    if len(counts) > 1:
        (usual, most), *others = counts.most_common()
        for style, few in others:
            shown = ", ".join(sorted(styles[style])[:3])
            yield RuleHit(
                message=f"{most} argument names are {usual} and {few} are {style}, such as {shown}", about=style
            )


TOOL_WORDING: tuple[LintRule[LintTool], ...] = (
    LintRule(
        id="operation-id-missing",
        level=Level.WARNING,
        advice="Give the operation an operationId of a verb and a noun; tools, policies and records are named after it.",
        check=_no_identifier,
    ),
    LintRule(
        id="description-missing",
        level=Level.WARNING,
        advice="Say in a sentence what it does and when to use it; an agent chooses by nothing else.",
        check=_no_description,
    ),
    LintRule(
        id="description-useless",
        level=Level.WARNING,
        advice="Say what the name does not: what comes back, when to use it, what it needs first.",
        check=_useless_description,
    ),
    LintRule(
        id="argument-undescribed",
        level=Level.INFO,
        advice="Describe it in a few words, with its unit or an example.",
        check=_undescribed_arguments,
    ),
)

SOURCE_WORDING: tuple[LintRule[SourceView], ...] = (
    LintRule(
        id="operation-id-duplicate",
        level=Level.ERROR,
        advice="Make every operationId unique (OpenAPI 3.1.1, section 4.8.10); links and policies cannot tell the two apart.",
        check=_duplicate_identifiers,
    ),
    LintRule(
        id="names-inconsistent",
        level=Level.INFO,
        advice="Write argument names one way; agents carry the habit of one tool over to the next.",
        check=_mixed_names,
    ),
)
