"""National ids of countries, by format and check digit (extra `national-ids`).

The package idnumbers has the formats (`###.###.###-##`) and computes the check digits. One number in ten has a valid check digit by chance,
so digits alone, or with spaces between them, are an id only after a word for one, such as the name of a field. Ids without a check digit
are not detected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from toolgen.core.errors import ConfigError
from toolgen.core.spelling import nearest
from toolgen.model.detection import Finding
from toolgen.model.excerpt import bounded

__all__ = ["NationalIds", "countries_known"]

_COMMAND: Final = "pip install 'toolgen[national-ids]'"
_NO_PERSON: Final = re.compile(
    "Entity|Business|UnifiedId|VAT|TaxNumber"
)  # parts of class names for companies, and for tax numbers in general
_PIECES: Final = {"#": "[0-9]", "L": "[A-Z]", "X": "[0-9A-Z]", "*": r"[0-9A-Z+\-]", " ": " "}
_START: Final = re.compile(r"(?<!\w)(?<!\d[.\-/])(?=[A-Z]{0,6}-?[0-9][0-9A-Z .+\-/]{3})")
_PLAIN: Final = re.compile(r"[0-9 ]+\Z")
_BEFORE: Final = 60  # distance in characters within which the word is searched for
_WORDS: Final = (
    r"(?:national|personal|identity|citizen|civil|tax(?:payer)?|social|insurance|resident|fiscal|population|birth)"
    r"[ _-]?(?:id\b|identi|insurance|security|card|code|number|no\b|nr\b|num\b)",
    r"\bid[ _-]?(?:card|number|no|nr|code)\b",
    r"\b(?:ssn|tin|nin)\b",
)


class NationalIds:
    """Detector of the ids of some countries (ISO 3166-1, two letters). Raises `ConfigError` if the extra is missing or a country is not
    known."""

    def __init__(self, countries: Sequence[str], where: str) -> None:
        kinds = [kind for country in countries for kind in _kinds(country, where)]
        forms: dict[str, list[Callable[[str], bool]]] = {}
        for kind in kinds:
            for mask in kind.METADATA.masks:
                forms.setdefault(mask, []).append(kind.validate)
        # Longest first, because a part of a longer id is not an id.
        masks = sorted(forms, key=lambda mask: (-len(mask), mask))
        self._digits, self._letters = (
            [(_form(mask), forms[mask]) for mask in masks if mask[0] in first] for first in ("#X*", "LX*")
        )
        self._word = re.compile("|".join((*_WORDS, *_names(kinds))), re.IGNORECASE)

    def find(self, text: str) -> Iterator[Finding]:
        """Yield a finding for each national id."""
        last = 0
        for start in _START.finditer(text):
            at = start.start()
            if at >= last and (end := self._id(text, at)):
                last = end
                yield Finding(at, end, "national_id")

    def _id(self, text: str, at: int) -> int:
        """Return the end of the id that begins here, 0 for none."""
        named: bool | None = None
        for form, holds in self._letters if text[at].isalpha() else self._digits:
            found = form.match(text, at)
            if found is None or not any(one(found[0]) for one in holds):
                continue
            if not _PLAIN.match(found[0]):
                return found.end()
            if named is None:
                named = self._word.search(text, max(0, at - _BEFORE), at) is not None
            if named:
                return found.end()
        return 0


def countries_known() -> list[str]:
    """Return the countries whose ids have check digits. Raises `ConfigError` if the extra is missing."""
    return sorted(country for country, kinds in _known("national_ids").items() if kinds)


def _known(where: str) -> dict[str, list[Any]]:
    try:
        from idnumbers import list_supported_countries  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        raise ConfigError("idnumbers is not installed", where=where, suggestion=_COMMAND) from error
    return {
        one.alpha2: [
            kind
            for kind in one.id_types
            if kind.METADATA.checksum and not kind.METADATA.deprecated and not _NO_PERSON.search(kind.__name__)
        ]
        for one in list_supported_countries()
    }


def _kinds(country: str, where: str) -> list[Any]:
    known = _known(where)
    if known.get(country):
        return known[country]
    usable = countries_known()
    told = "ids of {} have no check digit" if country in known else "no ids of {} are known"
    raise ConfigError(
        told.format(f"'{bounded(country, 20)}'") + nearest(country, usable),
        where=where,
        suggestion=f"use {', '.join(usable)}",
    )


def _form(mask: str) -> re.Pattern[str]:
    pieces = "".join(_PIECES.get(one, re.escape(one)) for one in mask)
    blanks = r"(?<!\d )", r"(?! \d)"  # digits in groups: not preceded or followed by more groups
    before, behind = blanks if " " in mask else ("", "")
    return re.compile(rf"{before}{pieces}(?!\w)(?![.\-/]\d){behind}")


def _names(kinds: Iterable[Any]) -> Iterator[str]:
    for kind in kinds:
        for name in kind.METADATA.names:
            if len(name) >= 3:
                yield r"\b" + re.sub(r"\s+", "[ _-]?", re.escape(name).replace(r"\ ", " ")) + r"(?!\w)"
