"""Pages of the sources: the systems of the tools, their health, their credentials, and the problems of the last build."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from toolgen.connectors.health import SystemHealth
from toolgen.connectors.registry import CONNECTORS
from toolgen.connectors.rotated_tokens import Rotated, rotated_tokens
from toolgen.connectors.source import SourceSettings
from toolgen.frontends.console.figures import Figures
from toolgen.frontends.console.http import Visit
from toolgen.frontends.console.records import Filters, Row
from toolgen.frontends.http.request import Rejected, Response
from toolgen.generator.emit.writer import MANIFEST
from toolgen.model.manifest import Manifest, Problem
from toolgen.model.secret import SecretReference

__all__ = ["Credential", "SourceSummary", "credentials_of", "health_of", "listed", "one"]

_DAY_S = 86_400.0
_STEPS = 48
_MAX_PROBLEMS = 300
_LEVELS = ("error", "warning", "info")


class Credential(Struct, frozen=True, kw_only=True):
    """Credential of a source. `kept` is where it is stored, never its value. `age` says how old it is: `file` was changed at `changed`, in
    seconds since the epoch; `started` was read when the gateway started; `rotated` is a refresh token that the service issued in place of
    the configured one; `read` is read again for each use. `fault` says why it cannot be read."""

    scheme: str
    kind: str
    kept: str
    age: Literal["", "file", "started", "read", "rotated"] = ""
    changed: float | None = None
    fault: str = ""


class SourceSummary(Struct, frozen=True, kw_only=True):
    """Source as a row of a page."""

    name: str
    kind: str
    title: str
    version: str
    location: str
    effects: Mapping[str, int]
    calls: int
    refused: int
    failed: int
    health: str
    systems: Sequence[SystemHealth]
    credentials: tuple[Credential, ...]
    problems: Mapping[str, int]
    paused: bool
    stale: bool
    counted: bool = True


async def listed(visit: Visit) -> Response:
    """GET /console/sources"""
    visit.request.parameters()
    figures = await _figures(visit)
    names = sorted(visit.gateway.manifest.sources)
    built = await asyncio.to_thread(_built, visit)
    views = [await asyncio.to_thread(_view, visit, name, figures, built) for name in names]
    return visit.page(
        "sources.html",
        at="sources",
        sources=views,
        built=built,
        digest=visit.gateway.manifest.digest,
    )


async def one(visit: Visit) -> Response:
    """GET /console/sources/NAME"""
    visit.request.parameters()
    if visit.part not in visit.gateway.manifest.sources:
        raise Rejected(404, "not_found", "there is no such source")
    figures = await _figures(visit)
    built = await asyncio.to_thread(_built, visit)
    view = await asyncio.to_thread(_view, visit, visit.part, figures, built)
    problems = [problem for problem in visit.gateway.manifest.problems if problem.source == visit.part]
    problems.sort(key=lambda problem: (_LEVELS.index(problem.level), problem.origin, problem.code))
    return visit.page(
        "source.html",
        at="sources",
        source=view,
        built=built,
        digest=visit.gateway.manifest.sources[visit.part].digest,
        problems=problems[:_MAX_PROBLEMS],
        more=max(0, len(problems) - _MAX_PROBLEMS),
        failed=await _failed(visit),
        began=visit.context.began,
    )


async def _failed(visit: Visit) -> tuple[Row, ...]:
    filters = Filters(tool=f"{visit.part}__*", status="error", since=visit.now - _DAY_S)
    return (await visit.context.records.calls(filters, limit=8)).rows


async def _figures(visit: Visit) -> Figures:
    step = _DAY_S / _STEPS
    until = (visit.now // step + 1) * step
    return await visit.context.records.figures(since=until - _DAY_S, until=until, steps=_STEPS)


def _built(visit: Visit) -> float | None:
    """Return the time at which the catalog was written; None if descriptions are read directly."""
    return _changed(visit.gateway.settings.generated / MANIFEST)


def _changed(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def _view(visit: Visit, name: str, figures: Figures, built: float | None) -> SourceSummary:
    manifest, settings = visit.gateway.manifest, visit.gateway.settings.sources.get(name)
    info = manifest.sources[name]
    tools = {tool.name: tool for tool in manifest.tools.values() if tool.source == name}
    shares = [share for share in figures.every_tool if share.name in tools]
    calls, refused, failed = (sum(getattr(share, part) for share in shares) for part in ("total", "refused", "failed"))
    systems = visit.gateway.monitoring.systems().get(name, ())
    return SourceSummary(
        name=name,
        kind=info.kind,
        title=info.title,
        version=info.version,
        location="" if settings is None else _location(settings, visit.gateway.settings.path.parent),
        effects=Counter(tool.effect.value for tool in tools.values()),
        calls=calls,
        refused=refused,
        failed=failed,
        health=health_of(systems, calls=calls, refused=refused, failed=failed),
        systems=systems,
        credentials=() if settings is None else _credentials(visit, settings),
        problems=_counted(manifest.problems, name),
        paused=any(pause.source == name for pause in visit.gateway.pausing.all()),
        stale=settings is not None and _is_stale(settings, built),
        counted=figures.counted,
    )


def health_of(systems: Sequence[SystemHealth], *, calls: int, refused: int, failed: int) -> str:
    """Return the health as one word, by the circuit breakers and the calls of the last day: `down`, `recovering`, `failing`, `ok`, or
    `quiet` without calls."""
    states = {system.breaker for system in systems}
    if "open" in states:
        return "down"
    if "half-open" in states:
        return "recovering"
    reached = calls - refused
    if not reached:
        return "quiet"
    return "failing" if failed * 2 >= reached else "ok"


def schemes_of(manifest: Manifest, name: str) -> Mapping[str, str]:
    """Return the kinds of a source's security schemes, by their names."""
    found = manifest.sources[name].security_schemes
    return {key: f"http {one.scheme}" if one.type == "http" else one.type for key, one in found.items()}


def _credentials(visit: Visit, settings: SourceSettings) -> tuple[Credential, ...]:
    name = settings.config.name
    kept = [one for one in rotated_tokens(visit.gateway.settings.oauth_dir) if one.source == name]
    return tuple(credentials_of(settings, schemes_of(visit.gateway.manifest, name), kept))


def credentials_of(
    settings: SourceSettings, schemes: Mapping[str, str], rotated: Sequence[Rotated] = ()
) -> Iterator[Credential]:
    """Yield the credentials of a source by toolgen.yaml, with their places, and their age if it is known. `rotated` are the refresh tokens
    that its services issued."""
    for scheme, written in settings.auth.items():
        kind = schemes.get(scheme, "")
        if isinstance(written, SecretReference):
            yield _credential(scheme, kind, written)
        elif isinstance(written, Mapping):
            for part, inner in written.items():
                if isinstance(inner, SecretReference):
                    found = _credential(f"{scheme}.{part}", kind, inner)
                    yield (
                        _as_rotated(found, str(written.get("token_url", "")), rotated)
                        if part == "refresh_token"
                        else found
                    )
    for variable, reference in settings.environment.items():
        yield _credential(variable, "variable of the command", reference)


def _as_rotated(configured: Credential, token_url: str, rotated: Sequence[Rotated]) -> Credential:
    """Return a refresh token with the time of the one that replaced it, if that endpoint issued one."""
    host = urlsplit(token_url).hostname
    times = [one.at for one in rotated if host is None or one.host == host]
    return replace(configured, age="rotated", changed=max(times)) if times else configured


def _credential(scheme: str, kind: str, reference: SecretReference) -> Credential:
    kept = f"${{{reference.provider}:{reference.locator}}}"
    match reference.provider:
        case "literal":
            fault = "in plain text in toolgen.yaml; replace it by ${env:NAME} or ${file:PATH}"
            return Credential(scheme=scheme, kind=kind, kept="toolgen.yaml", fault=fault)
        case "env":
            fault = "" if os.environ.get(reference.locator) else "this variable is not set"
            return Credential(scheme=scheme, kind=kind, kept=kept, age="started", fault=fault)
        case "file":
            changed = _changed(Path(reference.locator))
            fault = "" if changed is not None else "this file cannot be read"
            return Credential(scheme=scheme, kind=kind, kept=kept, age="file", changed=changed, fault=fault)
        case _:
            return Credential(scheme=scheme, kind=kind, kept=kept, age="read")


def _counted(problems: tuple[Problem, ...], source: str) -> Mapping[str, int]:
    found = Counter(problem.level for problem in problems if problem.source == source)
    return {level: found[level] for level in _LEVELS if found[level]}


def _location(settings: SourceSettings, root: Path) -> str:
    """Return a path relative to the project, or a URL without the parts that may be secret."""
    text = settings.config.location
    if "://" in text:
        scheme, _, rest = text.partition("://")
        return f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}"
    path = Path(text)
    return str(path.relative_to(root)) if path.is_relative_to(root) else text


def _is_stale(settings: SourceSettings, built: float | None) -> bool:
    """Return True if the description of the source was written after the catalog was built."""
    location = settings.config.location
    if built is None or "://" in location or not CONNECTORS[settings.config.kind].has_description:
        return False
    changed = [_changed(Path(location)), *(_changed(Path(text)) for text in settings.config.overlay)]
    return any(time is not None and time > built for time in changed)
