"""Comparison of what a client gave its model with what the gateway had to say: one cell for each property, empty if it holds."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tests.frameworks.context import PROMPT, RESOURCE_TEXTS, RESOURCES
from tests.services.all_kinds import ASKED, Case

__all__ = ["CANNOT", "CANNOT_ASK", "CANNOT_CANCEL", "NOT_READ", "PROPERTIES", "Cells", "Expected", "cells"]

PROPERTIES = (
    "loads",
    "data",
    "once",
    "errors",
    "pending",
    "long",
    "picture",
    "person",
    "cancel",
    "context",
    "catalog",
    "search",
)
CANCEL_S = 1.0
CANNOT_ASK, CANNOT_CANCEL, NOT_READ = "asks nobody", "cancels nothing", "prompts and resources were not tried"
CANNOT = ([CANNOT_ASK], [CANNOT_CANCEL], [NOT_READ])
"""What a client cannot do, or was not tried with: nothing went wrong."""
_PNG = "iVBORw0KGgo"
_ENVELOPE = re.compile(r"call_id[\"']?:|duration_ms|audit_seq")

Parts = Sequence[Mapping[str, str]]
Cells = dict[str, list[str]]


class Expected(NamedTuple):
    """What every client is held against: cases, names of the tools that the gateways list, and what the protocol carries for each case.

    `zen` is the tool of GitHub's catalog that is searched for and called.
    """

    cases: Sequence[Case]
    listed: Sequence[str]
    catalog: Sequence[str]
    raw: Mapping[str, Parts]
    zen: str = ""


def cells(report: Mapping[str, Any], expected: Expected) -> Cells:
    """Return what is wrong with each property of a client, `CASE: what` for each case."""
    cases, listed, catalog, raw, zen = expected
    given = {case.name: report["given"].get(case.name, {}) for case in (*cases, ASKED)}
    plain = [case for case in cases if not case.code and not case.picture]
    return {
        "loads": _loads(report, listed),
        "data": _faults(plain, given, lambda case, parts: data_fault(case, parts, raw.get(case.name, ()))),
        "once": _faults(cases, given, once_fault),
        "errors": _faults([case for case in cases if case.code], given, words_fault),
        "pending": _faults([ASKED], given, pending_fault),
        "long": _long(report),
        "picture": _faults([case for case in cases if case.picture], given, picture_fault),
        "person": _person(report),
        "cancel": _cancel(report),
        "context": _context(report),
        "catalog": _catalog(report, catalog),
        "search": _search(report, zen) if catalog else [],
    }


def _faults(cases: Sequence[Case], given: Mapping[str, Mapping[str, Any]], fault: Any) -> list[str]:
    found = []
    for case in cases:
        answer = given[case.name]
        if case.code == "validation" and answer.get(
            "raised"
        ):  # the client checks arguments itself, and tells its model so
            answer = {"parts": [{"type": "text", "text": answer["raised"]}]}
        what = answer.get("raised") or ("not called" if not answer else fault(case, answer["parts"]))
        if what:
            found.append(f"{case.name}: {_short(what)}")
    return found


def data_fault(case: Case, parts: Parts, raw: Parts) -> str:
    """What is missing of the data, or what of the gateway's own bookkeeping is there."""
    told = joined(parts)
    if _ENVELOPE.search(told):
        return "the envelope is there"
    wanted = [json.dumps(case.data, ensure_ascii=False)] if case.data is not None else []
    wanted += [case.text, *case.words]
    if case.name == "300 KB":
        wanted.append(joined(raw))
    return next((f"without {one[:40]!r}" for one in wanted if squeezed(one) not in squeezed(told)), "")


def once_fault(case: Case, parts: Parts) -> str:
    """How often the mark is there, if not once."""
    count = joined(parts).count(case.mark) if case.mark else 1
    return "" if count == 1 else f"{count} times"


def words_fault(case: Case, parts: Parts) -> str:
    """The code with which the gateway's text begins, or a word of it, that is missing."""
    told = joined(parts)
    if (
        case.code == "validation" and f"{case.code}: " not in told
    ):  # the client itself checks arguments, and sends nothing
        return "" if re.search("answer|level|schema|validation", told) else f"without {case.words[0]!r}"
    wanted = [f"{case.code}: ", *case.words]
    return next((f"without {one!r}" for one in wanted if squeezed(one) not in squeezed(told)), "")


def pending_fault(case: Case, parts: Parts) -> str:
    """What of a waiting call's text is missing: its code, that nothing has been carried out, its id."""
    return words_fault(case, parts) or ("" if re.search(r"call_[0-9a-f]{24}", joined(parts)) else "without the call id")


def picture_fault(case: Case, parts: Parts) -> str:
    """Why the picture is none for the model."""
    pictures = [part["data"] for part in parts if part["type"] == "image"]
    encoded = base64.b64encode(case.picture).decode()
    if encoded in pictures or _size(encoded) in map(_size, pictures):
        return words_fault(case, parts) if case.code else _missing(case.words, parts)
    told = joined(parts).replace("\\", "")
    return "as text" if encoded in told or _PNG in told else "no picture"


def _size(encoded: str) -> bytes:
    """Width and height of a PNG in base64, as some clients write pictures anew; b"" of anything else."""
    return base64.b64decode(encoded)[16:24] if encoded.startswith(_PNG) else encoded.encode()


def joined(parts: Parts) -> str:
    """All texts that the model reads."""
    return "\n".join(part["text"] for part in parts if part["type"] == "text")


def squeezed(value: str) -> str:
    """A text without what differs between JSON, Python's repr and text inside of either: blanks, quotes, escapes, spellings."""
    plain = re.sub(r"\\u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), value)
    plain = re.sub(r"\\+[nrt]", "", plain)
    plain = re.sub(r"[A-Za-z0-9_-]{64,}|call_[0-9a-f]{24}", "", plain)
    plain = re.sub(r"[\s\\\"']", "", plain)
    return plain.replace("True", "true").replace("False", "false").replace("None", "null")


def _missing(words: Sequence[str], parts: Parts) -> str:
    return next((f"without {word!r}" for word in words if word not in joined(parts)), "")


def _loads(report: Mapping[str, Any], listed: Sequence[str]) -> list[str]:
    if "loaded" not in report:
        return [_short(report.get("_kinds", "no report"))]
    refused: Mapping[str, str] = report["refused"]
    known = {
        name.replace("__", "_") for name in (*report["loaded"], *refused)
    }  # CrewAI writes one line where there are two
    missing = [name for name in listed if name.replace("__", "_") not in known]
    return [f"{name}: {_short(why)}" for name, why in refused.items()] + [f"{name}: left out" for name in missing]


def _person(report: Mapping[str, Any]) -> list[str]:
    """A client that asked must be answered by the call itself if the person agreed, and that nothing was sent if not."""
    asked = report.get("asked")
    if asked is None or "_asked" in report:
        return [_short(report.get("_asked", "not called"))]
    if not asked[0]["questions"]:
        return [CANNOT_ASK]
    wanted = ("made", "approval_denied")
    return [
        _short(f"without {word!r}: {one['given']['raised'] or joined(one['given']['parts'])}")
        for word, one in zip(wanted, asked, strict=True)
        if word not in (one["given"]["raised"] or joined(one["given"]["parts"]))
    ]


def _long(report: Mapping[str, Any]) -> list[str]:
    """A call that takes long must be answered as pending with its id, and the tool that reads its end must answer with it."""
    found = report.get("long")
    if found is None or "_long" in report:
        return [_short(report.get("_long", "not called"))]
    wanted = ("deferred: ", "mark-late")
    faults = [
        _short(f"without {word!r}: {one['raised'] or joined(one['parts']) or 'nothing given'}")
        for word, one in zip(wanted, found, strict=False)
        if word not in (one["raised"] or joined(one["parts"]))
    ]
    return faults if len(found) == len(wanted) or faults else ["without the call id"]


def _cancel(report: Mapping[str, Any]) -> list[str]:
    cancel = report.get("cancel")
    if cancel is None:
        return [_short(report.get("_cancelled", "not called"))]
    if not cancel["possible"]:
        return [CANNOT_CANCEL]
    if not cancel["begun"]:
        return ["never began"]
    if not cancel["closed"]:
        return ["the call goes on"]
    return [] if cancel["seconds"] < CANCEL_S else ["closed late"]


def _context(report: Mapping[str, Any]) -> list[str]:
    """What a client is given of prompts and resources must be what the gateway's functions return."""
    if report.get("_context"):
        return [_short(report["_context"])]
    found = report.get("context")
    if not found:
        return [NOT_READ]
    wanted = {"prompt": (PROMPT,), "resources": (RESOURCES[0],), "resource": RESOURCE_TEXTS}
    faults = [f"no {name}" for name in wanted if name not in found]
    for name, given in found.items():
        faults += [f"{name}: {_short(str(given))}" for word in wanted[name] if word not in str(given)]
    return faults


def _catalog(report: Mapping[str, Any], catalog: Sequence[str]) -> list[str]:
    if not catalog:
        return []
    found = report.get("catalog")
    if found is None:
        return [_short(report.get("_catalog", "not called"))]
    faults = [f"{len(found['refused'])} tools refused"] if found["refused"] else []
    left_out = len(catalog) - found["loaded"] - len(found["refused"])
    if left_out:
        faults.append(f"{left_out} of {len(catalog)} tools left out")
    answer = found["given"]
    if answer["raised"] or "mark-catalog" not in joined(answer["parts"]):
        faults.append(_short(answer["raised"] or joined(answer["parts"]) or "nothing given"))
    return faults


def _search(report: Mapping[str, Any], zen: str) -> list[str]:
    """A search must name the tool that is then called; the call's own answer must come back."""
    found = report.get("search")
    if found is None:
        return [_short(report.get("_search", "not called"))]
    wanted = (zen, "mark-catalog")
    return [
        _short(f"{word}: {answer['raised'] or joined(answer['parts']) or 'nothing given'}")
        for word, answer in zip(wanted, found, strict=True)
        if word not in joined(answer["parts"])
    ]


def _short(text: str) -> str:
    """An exception's first line, without what differs from run to run."""
    line = text.strip().partition("\n")[0]
    return re.sub(r"call_[0-9a-f]{24}|0x[0-9a-f]+|127\.0\.0\.1:\d+", "…", line)[:160]
