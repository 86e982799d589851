"""Pages of the policies that decided recorded calls: their times, and the changes between them.

Every gateway of this machine stores the text of a policy when it comes into force, without its secrets.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml
from msgspec import Struct

from toolgen.frontends.console.http import Visit
from toolgen.frontends.http.request import Rejected, Response

__all__ = ["DiffLine", "Known", "changes", "listed", "one"]

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")
_CONTEXT = 3
_MAX_LINES = 5000


class Known(Struct, frozen=True, kw_only=True):
    """Policy with its time of use. `first` and `last` are when it came into force or decided calls, in seconds since the epoch; `kept` says
    whether its content is stored."""

    digest: str
    first: float
    last: float
    calls: int
    kept: bool

    @property
    def short(self) -> str:
        """Return the beginning of its digest, by which people distinguish policies."""
        return self.digest.removeprefix("sha256:")[:12]


class DiffLine(Struct, frozen=True, kw_only=True):
    """Line of a difference: in both policies (`same`), only in the older (`gone`) or newer one (`new`), or the name of the next file
    (`file`)."""

    kind: str
    text: str

    @property
    def sign(self) -> str:
        """Sign before the line, for readers who do not see colors."""
        return {"gone": "−", "new": "+"}.get(self.kind, " ")


async def listed(visit: Visit) -> Response:
    """GET /console/policies/history"""
    visit.request.parameters()
    return visit.page(
        "policy_history.html", at="policies", policies=await _known(visit), digest=visit.gateway.policy.digest
    )


async def one(visit: Visit) -> Response:
    """GET /console/policies/history/DIGEST?from=DIGEST: its text, and the difference from the policy before, or from another one."""
    other = visit.request.parameters("from").get("from", "")
    if other and not _DIGEST.match(other):
        raise Rejected(400, "validation", "`from` is not the digest of a policy")
    policies = await _known(visit)
    at = next((index for index, known in enumerate(policies) if known.digest == visit.part), None)
    if at is None:
        raise Rejected(404, "not_found", "the audit log has no call under this policy, and it was not in force here")
    before = other or (policies[at + 1].digest if at + 1 < len(policies) else "")
    history = visit.gateway.monitoring.history.seen
    files, earlier = await history.files(visit.part), await history.files(before) if before else {}
    return visit.page(
        "policy_version.html",
        at="policies",
        known=policies[at],
        in_force=visit.gateway.policy.digest == visit.part,
        before=next((known for known in policies if known.digest == before), None),
        others=[known for known in policies if known.digest != visit.part],
        files=None if files is None else {name: _yaml(data) for name, data in sorted(files.items())},
        changes=None if files is None or earlier is None else changes(earlier, files),
    )


async def _known(visit: Visit) -> tuple[Known, ...]:
    """Return the policies of the audit log and of the history of this machine, the latest first."""
    await visit.gateway.monitoring.history.note()
    kept = {seen.digest: seen for seen in await visit.gateway.monitoring.history.seen.policies()}
    used = {use.digest: use for use in await visit.context.records.policies()}
    found = []
    for digest in kept.keys() | used.keys():
        times = [time for seen in (kept.get(digest),) if seen is not None for time in (seen.first, seen.last)]
        times += [time / 1e6 for use in (used.get(digest),) if use is not None for time in (use.first, use.last)]
        calls = used[digest].calls if digest in used else 0
        found.append(Known(digest=digest, first=min(times), last=max(times), calls=calls, kept=digest in kept))
    return tuple(sorted(found, key=lambda known: (known.first, known.last, known.digest), reverse=True))


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[DiffLine, ...]:
    """Return the difference between two versions of a policy's files, file by file as YAML; empty if they are equal."""
    found: list[DiffLine] = []
    for name in sorted(before.keys() | after.keys()):
        lines = [_yaml(files[name]).splitlines() if name in files else [] for files in (before, after)]
        if lines[0] != lines[1]:
            found += [DiffLine(kind="file", text=name), *_lines(*lines)]
    return tuple(found[:_MAX_LINES])


def _lines(before: list[str], after: list[str]) -> Iterator[DiffLine]:
    for line in list(difflib.unified_diff(before, after, lineterm="", n=_CONTEXT))[2:]:
        if line.startswith("@@"):
            yield DiffLine(kind="gap", text="…")
        else:
            yield DiffLine(kind={"-": "gone", "+": "new"}.get(line[0], "same"), text=line[1:])


def _yaml(data: Any) -> str:
    """Return the data as YAML. Comments are absent, because they are not stored."""
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=110)
