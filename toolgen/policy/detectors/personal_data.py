"""Detector of personal data in answers: e-mail addresses, phone numbers, and numbers with a valid checksum (IBAN, cards, national ids)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date

from toolgen.model.detection import Finding
from toolgen.policy.detectors.gate import Gate

__all__ = ["PersonalData"]

_EMAIL = re.compile(
    r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9](?:[A-Za-z0-9._%+'-]{0,62}[A-Za-z0-9_+])?@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.){1,6}[A-Za-z]{2,24}"
    r"(?![A-Za-z0-9-]|\.[A-Za-z0-9])"
)
# The minimum number of digits. Digits of other scripts count by their value.
_RUN = re.compile(r"\d[\d ().\-/]{5,60}\d[\dA-Z ]{0,24}", re.ASCII)
_NUMBER = re.compile(r"(?<![\w.,#/+(-])[+(]{0,2}\d(?:[ ().\-/]{0,2}\d){6,18}(?![\w])(?![.,-]\d)")
_SPELLED_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![A-Za-z0-9])")
_IBAN_LENGTHS = {
    "AD": 24,
    "AE": 23,
    "AL": 28,
    "AT": 20,
    "AZ": 28,
    "BA": 20,
    "BE": 16,
    "BG": 22,
    "BH": 22,
    "BR": 29,
    "BY": 28,
    "CH": 21,
    "CR": 22,
    "CY": 28,
    "CZ": 24,
    "DE": 22,
    "DK": 18,
    "DO": 28,
    "EE": 20,
    "EG": 29,
    "ES": 24,
    "FI": 18,
    "FO": 18,
    "FR": 27,
    "GB": 22,
    "GE": 22,
    "GI": 23,
    "GL": 18,
    "GR": 27,
    "GT": 28,
    "HR": 21,
    "HU": 28,
    "IE": 22,
    "IL": 23,
    "IQ": 23,
    "IS": 26,
    "IT": 27,
    "JO": 30,
    "KW": 30,
    "KZ": 20,
    "LB": 28,
    "LC": 32,
    "LI": 21,
    "LT": 20,
    "LU": 20,
    "LV": 21,
    "MC": 27,
    "MD": 24,
    "ME": 22,
    "MK": 19,
    "MR": 27,
    "MT": 31,
    "MU": 30,
    "NL": 18,
    "NO": 15,
    "PK": 24,
    "PL": 28,
    "PS": 29,
    "PT": 25,
    "QA": 29,
    "RO": 24,
    "RS": 22,
    "SA": 24,
    "SC": 31,
    "SE": 24,
    "SI": 19,
    "SK": 24,
    "SM": 27,
    "SV": 28,
    "TL": 23,
    "TN": 24,
    "TR": 26,
    "UA": 29,
    "VA": 22,
    "VG": 24,
    "XK": 20,
}  # ISO 13616, the registry of SWIFT
_CARDS = re.compile(
    r"(?:4\d{12}(?:\d{3}){0,2}|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}"
    r"|3(?:0[0-5]|[68]\d)\d{11}|6(?:011|5\d\d|4[4-9]\d)\d{12}|35(?:2[89]|[3-8]\d)\d{12})\Z"
)
_ISO_DATE = re.compile(r"(?:19|20)\d\d[-/. ]?(?:0[1-9]|1[0-2])[-/. ]?(?:0[1-9]|[12]\d|3[01])")
_NANP = re.compile(r"(?:1[ .-])?(?:\([2-9]\d\d\) ?|[2-9]\d\d[ .-])[2-9]\d\d[ .-]\d{4}\Z")
_NATIONAL_NUMBER = re.compile(r"\(?0\d{1,4}\)?[ /-](?:\d{1,4}[ /-]?){1,5}\d{2,}\Z")
_MAX_PHONE = 15
_NO_DIGITS = re.compile("[^0-9]+")
_NUMBERS = frozenset({"phone", "iban", "card", "national_id"})
_ADDRESSES_OF_NOBODY = ("example.com", "example.org", "example.net", ".invalid", ".test", ".localhost")


_GATE = Gate((r"[A-Za-z0-9_+]@[A-Za-z0-9-]{1,63}\.", r"\d(?:[ ().\-/]{0,2}\d){6}", r"\d{2} ?\d{2} ?\d{2}", r"\d{7}"))
_IBAN_GATE = Gate((r"[A-Z]{2}\d{2} ?[A-Z0-9]{4}",))


class PersonalData:
    """Detector of the selected kinds of personal data."""

    def __init__(self, kinds: frozenset[str]) -> None:
        self._kinds = kinds

    def find(self, text: str) -> Iterator[Finding]:
        """Yield the findings. A number that is a card number is not reported as a phone number too."""
        if not _GATE.opens(text):
            return
        if "email" in self._kinds and "@" in text:
            yield from _emails(text)
        kinds = self._kinds if _IBAN_GATE.opens(text) else self._kinds - {"iban"}
        if kinds.isdisjoint(_NUMBERS):
            return
        last = 0
        for run in _RUN.finditer(text):
            # Context of a match: the letters before the digits of an IBAN or a national number, and the characters that may follow.
            start, end = max(last, run.start() - 14), min(len(text), run.end() + 24)
            for found in _numbers(kinds, text, start, end):
                if found.start < run.end():  # otherwise the next run includes it
                    last = max(last, found.end)
                    yield found


def _numbers(kinds: frozenset[str], text: str, start: int, end: int) -> list[Finding]:
    taken: list[Finding] = []
    if "iban" in kinds:
        for found in _SPELLED_IBAN.finditer(text, start, end):
            if length := _iban(found[0]):
                taken.append(Finding(found.start(), found.start() + length, "iban"))  # noqa: PERF401 - it is rare
    if "national_id" in kinds:
        taken += _national(text, start, end)
    if "card" in kinds or "phone" in kinds:
        for found in _NUMBER.finditer(text, start, end):
            begin, close = found.span()
            if taken and any(one.start < close and begin < one.end for one in taken):
                continue
            kind = _number(found[0], text[max(0, begin - 2) : begin])
            if kind in kinds:
                taken.append(Finding(begin, close, kind))
    return taken


def _emails(text: str) -> Iterator[Finding]:
    """Return e-mail addresses, except for the user name of a URL."""
    at, last = text.find("@"), 0
    while at >= 0:
        start = max(last, at - 65)
        found = _EMAIL.search(text, start, min(len(text), at + 256))
        if found is not None and found.start() < at < found.end():
            last = found.end()
            before = text[max(0, found.start() - 80) : found.start()]
            if "://" not in before or any(map(str.isspace, before.rpartition("://")[2])):
                yield Finding(found.start(), found.end(), "email")
        at = text.find("@", at + 1)


def _number(text: str, before: str) -> str:
    digits = _NO_DIGITS.sub("", text)
    if _CARDS.match(digits) and luhn(digits) and len(set(digits)) > 1 and not set(text) & set("(+/."):
        return "card"
    if not 8 <= len(digits) <= _MAX_PHONE or _ISO_DATE.match(text):
        return ""
    if text[0] == "+" or text[:2] == "(+":
        return "phone" if digits[0] != "0" and len(digits) >= 9 else ""
    if before[1:] == " " and (before[0].isdigit() or before[0].isupper()):
        return ""  # part of a longer code
    if _NANP.match(text) or (_NATIONAL_NUMBER.match(text) and 9 <= len(digits) <= 12):
        return "phone"
    return "phone" if text.startswith("00") and len(digits) >= 11 and digits[2] != "0" and not text.isdigit() else ""


def luhn(digits: str) -> bool:
    """Return True if the Luhn checksum is valid (ISO/IEC 7812-1, annex B)."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        number = int(digit) * (1 + place % 2)
        total += number - 9 if number > 9 else number
    return total % 10 == 0


def _iban(text: str) -> int:
    """Return the number of characters of a text that are an IBAN, 0 for none: the following text may look like a part of it."""
    want = _IBAN_LENGTHS.get(text[:2], 0)
    places = [place for place, one in enumerate(text, 1) if one != " "]
    if not want or len(places) < want:
        return 0
    end = places[want - 1]
    plain = text[:end].replace(" ", "")
    return end if int("".join(str(int(one, 36)) for one in plain[4:] + plain[:4])) % 97 == 1 else 0


def _national(text: str, start: int, end: int) -> Iterator[Finding]:
    for pattern, holds in _NATIONAL:
        for found in pattern.finditer(text, start, end):
            if holds(found[0]):
                yield Finding(found.start(), found.end(), "national_id")


def _dni(text: str) -> bool:
    """Spain: the letter is the number modulo 23."""
    plain = text.replace("-", "").upper()
    number = plain[:-1].translate(str.maketrans("XYZ", "012"))
    return "TRWAGMYFPDXBNJZSQVHLCKE"[int(number) % 23] == plain[-1]


def _nir(text: str) -> bool:
    """Check the number of France: 97 minus the number modulo 97; departments of Corsica count as 19 and 18."""
    plain = text.replace(" ", "").upper()
    number = int(plain[:13].replace("2A", "19").replace("2B", "18"))
    return 97 - number % 97 == int(plain[13:])


def _ahv(text: str) -> bool:
    """Check the number of Switzerland: an EAN-13."""
    digits = [int(one) for one in text if one.isdigit()]
    return sum(digit * (1 + 2 * (place % 2)) for place, digit in enumerate(digits)) % 10 == 0


def _pesel(text: str) -> bool:
    """Check the number of Poland: weights 1, 3, 7, 9, and a valid date of birth."""
    digits = [int(one) for one in text]
    if sum(d * w for d, w in zip(digits, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1), strict=True)) % 10:
        return False
    month = digits[2] * 10 + digits[3]
    century = {4: 1800, 0: 1900, 1: 2000, 2: 2100, 3: 2200}[month // 20 if month < 80 else 4]
    try:
        date(century + digits[0] * 10 + digits[1], month % 20, digits[4] * 10 + digits[5])
    except ValueError:
        return False
    return True


_NATIONAL: tuple[tuple[re.Pattern[str], Callable[[str], bool]], ...] = (
    (re.compile(r"(?<![\w-])(?!000|666|9\d\d)\d{3}-(?!00)\d\d-(?!0000)\d{4}(?![\w-])"), lambda _: True),  # US, SSN
    (
        re.compile(
            r"(?<!\w)(?!BG|GB|KN|NK|NT|TN|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d\d ?\d\d ?\d\d ?[A-D](?!\w)"
        ),
        lambda _: True,
    ),  # UK
    (re.compile(r"(?<!\w)(?:\d{8}|[XYZ]\d{7})-?[A-HJ-NP-TV-Z](?!\w)"), _dni),
    (re.compile(r"(?<!\w)[12] ?\d\d ?(?:0[1-9]|1[0-2]) ?(?:\d\d|2[AB]) ?\d{3} ?\d{3} ?\d\d(?!\w)"), _nir),
    (re.compile(r"(?<![\w.])756\.\d{4}\.\d{4}\.\d\d(?![\w.])"), _ahv),
    (re.compile(r"(?<![\w.-])\d{11}(?![\w.-])"), _pesel),
)
