"""Detector of instructions to the model in data (indirect prompt injection), by rules in six languages.

All rules are tried at once, and one by one only after a match. Invisible characters and look-alike letters (fullwidth, mathematical) do not
prevent a match: the text is checked as written and as displayed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from toolgen.core.errors import ConfigError
from toolgen.core.yaml_file import read
from toolgen.model.detection import Finding
from toolgen.model.prompt_injection import INVISIBLE, holds_invisible
from toolgen.policy.detectors.gate import Gate

__all__ = ["Instructions"]

_FILE = Path(__file__).with_suffix(".yaml")


# Each rule is tried near its word: no rule matches text that is further than this before or after the beginning of the word.
_BEFORE, _BEHIND = 120, 220
_STEP = 200  # words within this distance of each other are tried in one piece of the text


@cache
def _rules() -> tuple[Gate, Mapping[str, tuple[re.Pattern[str], ...]]]:
    """Return all rules in one pattern, and each rule by a lower-case text that must occur where it matches."""
    data = read(_FILE, _FILE.name, ConfigError).data
    found: dict[str, tuple[re.Pattern[str], ...]] = {}
    rules: list[str] = []
    for one in data["rules"]:
        rule = "".join(one["rule"])
        for name, pieces in data["parts"].items():
            rule = rule.replace(f"{{{name}}}", "".join(pieces))
        rules.append(rule)
        pattern = re.compile(rule, re.IGNORECASE | re.DOTALL)
        for word in one["words"]:
            found[word] = (*found.get(word, ()), pattern)
    return Gate(rules, ignore_case=True), found


class Instructions:
    """Detector of the first instruction in a text: one is enough to warn the reader."""

    def kinds(self, text: str) -> frozenset[str]:
        """Return the kinds that `find` would find, faster and without positions."""
        gate = _rules()[0]
        found = gate.opens(text) or (not text.isascii() and any(map(gate.opens, _looks(text))))
        return frozenset({"instruction"} if found else ())

    def find(self, text: str) -> Iterator[Finding]:
        """Yield at most one finding. The finding covers the whole text if only the normalized form matches."""
        gate, rules = _rules()
        if gate.opens(text):
            yield _first(text, rules)
        elif not text.isascii() and any(map(gate.opens, _looks(text))):
            yield Finding(0, len(text), "instruction")


def _first(text: str, rules: Mapping[str, tuple[re.Pattern[str], ...]]) -> Finding:
    lower = text.lower()
    if len(lower) == len(text):  # otherwise a letter is longer in lower case, and positions of words differ
        for word, patterns in rules.items():
            at = lower.find(word)
            while at >= 0:
                for rule in patterns:
                    if (found := rule.search(text, max(0, at - _BEFORE), at + _STEP + _BEHIND)) is not None:
                        return Finding(found.start(), found.end(), "instruction")
                at = lower.find(word, at + _STEP)
    return Finding(0, len(text), "instruction")


def _looks(text: str) -> Iterator[str]:
    plain = unicodedata.normalize("NFKC", text)
    if holds_invisible(plain):
        yield INVISIBLE.sub("", plain)
        plain = INVISIBLE.sub(" ", plain)
    if plain != text:
        yield plain
