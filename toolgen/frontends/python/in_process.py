"""Project without files: a description or functions, and a policy that allows the effects given in Python."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from toolgen.config.bare_specs import name_for, title_name
from toolgen.config.policies import load_policy
from toolgen.config.settings import Settings, from_data
from toolgen.connectors.functions.decorator import MARK, tool
from toolgen.connectors.pins import stage
from toolgen.core.errors import ConfigError
from toolgen.core.spelling import nearest
from toolgen.generator.build import build_sources
from toolgen.generator.starter import needed_schemes, policy_text
from toolgen.model.manifest import Manifest
from toolgen.model.secret import Unprinted
from toolgen.model.tool import Effect
from toolgen.policy.document.policy import Policy
from toolgen.policy.key_list import new_key
from toolgen.policy.limits import parse_rate

__all__ = ["InProcess", "RateLimits", "of_functions", "of_openapi"]

_NUMBERS = count(1)
_MODULE = "toolgen_functions_{}"
RateLimits = str | Sequence[str | Mapping[str, Any]]
"""Rates (`60/min`), or limits as under `limits:` of a policy."""
_ALL = ("*",)
"""Pattern of all tools, including those that are added later."""


class InProcess(Unprinted, frozen=True, kw_only=True):
    """Parts of a gateway that runs in the program. `key` is its principal's, for programs that serve it. `discard` removes its folder."""

    settings: Settings
    manifest: Manifest
    policy: Policy
    key: str
    discard: Callable[[], None]


def of_openapi(
    spec: str | Path | Mapping[str, Any],
    *,
    name: str,
    server: str,
    allow: Sequence[str],
    credentials: str | Mapping[str, Any] | None,
    record: str | Path | None,
    limits: RateLimits = (),
) -> InProcess:
    """Create the project of an OpenAPI document: a path, an http(s) URL, which is fetched now, or the document itself. Raises
    `ToolgenError`."""
    effects = _effects(allow)
    with _folder() as folder:
        path = _document(spec, folder)
        name = name or title_name(path) or name_for(path.name, folder, "openapi", ())
        source: dict[str, Any] = {"openapi": str(spec) if _is_remote(spec) else str(path)}
        if server:
            source["server"] = server
        if isinstance(credentials, str):
            source["auth"] = _auth(credentials, *_settled({name: source}, folder, record, path))
        elif credentials:
            source["auth"] = dict(credentials)
        settings, manifest = _settled({name: source}, folder, record, path)
        return _finished(settings, manifest, effects, folder, limits=_limits(limits))


def of_functions(
    functions: Sequence[Callable[..., Any]],
    *,
    name: str,
    allow: Sequence[str],
    record: str | Path | None,
    limits: RateLimits = (),
) -> InProcess:
    """Create the project of functions of this program. One without `@tool` counts as writing. Raises `ConfigError` for one that cannot be a
    tool."""
    effects = _effects(allow)
    module = types.ModuleType(_MODULE.format(next(_NUMBERS)))
    for function in functions:
        if not isinstance(function, types.FunctionType):
            raise ConfigError(
                f"{function!r:.60} is not a function", suggestion="give functions, not objects or methods"
            )
        if hasattr(module, function.__name__):
            raise ConfigError(f"two functions are called {function.__name__}")
        setattr(module, function.__name__, _moved(function, module.__name__))
    sys.modules[module.__name__] = module
    with _folder(module.__name__) as folder:
        settings, manifest = _settled({name: {"python": module.__name__, "prefix": "none"}}, folder, record)
        if errors := [problem for problem in manifest.problems if problem.level == "error"]:
            raise ConfigError(errors[0].message, where=errors[0].origin.partition(".")[2])
        return _finished(settings, manifest, effects, folder, module.__name__, limits=_limits(limits))


def _effects(allow: Sequence[str]) -> tuple[Effect, ...]:
    if isinstance(allow, str):
        raise ConfigError("allow: must be a list of effects, like ['read']")
    for one in allow:
        if one not in set(Effect):
            raise ConfigError(f"allow: '{one}' is not read, write or destructive{nearest(one, list(Effect))}")
    return tuple(Effect(one) for one in allow)


def _limits(limits: RateLimits) -> str:
    """Return the section `limits:` of the policy. A rate alone is one for each principal."""
    given = [limits] if isinstance(limits, str) else list(limits)
    if wrong := [one for one in given if isinstance(one, str) and parse_rate(one) is None]:
        raise ConfigError(f"limits: '{wrong[0]}' is not like 60/min")
    if not given:
        return ""
    section = [
        {"id": f"limit-{number}", "per": ["principal"], "rate": one} if isinstance(one, str) else dict(one)
        for number, one in enumerate(given, start=1)
    ]
    try:
        return f"limits: {json.dumps(section)}\n"
    except (TypeError, ValueError) as error:
        raise ConfigError("limits: must be rates like '60/min', or mappings as under `limits:` of a policy") from error


@contextmanager
def _folder(module: str = "") -> Iterator[Path]:
    """Create a temporary folder, which is removed at once if the block fails."""
    folder = Path(tempfile.mkdtemp(prefix="toolgen-"))
    try:
        yield folder
    except BaseException:
        _discard(folder, module)
        raise


def _discard(folder: Path, module: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    sys.modules.pop(module, None)


def _is_remote(spec: object) -> bool:
    return isinstance(spec, str) and spec.startswith(("http://", "https://"))


def _document(spec: str | Path | Mapping[str, Any], folder: Path) -> Path:
    """Return the file of a document: the original, or a copy of what was fetched or given."""
    if isinstance(spec, Mapping):
        path = folder / "openapi.json"
        try:
            path.write_text(json.dumps(spec), encoding="utf-8")
        except (TypeError, ValueError) as error:
            raise ConfigError("the document is not JSON") from error
        return path
    if not _is_remote(spec):
        return Path(spec).resolve()
    from toolgen.connectors.remote import fetch  # noqa: PLC0415 - httpx takes long to import

    source = from_data({"sources": {"fetched": {"openapi": spec}}}, folder / "toolgen.yaml").sources["fetched"]
    fetched = fetch(source.config)
    return stage(folder, "fetched", fetched.filename, str(spec), fetched.data).path


def _settled(
    sources: Mapping[str, Any], folder: Path, record: str | Path | None, path: Path | None = None
) -> tuple[Settings, Manifest]:
    """Return the settings and the catalog of a project in this folder. `path` is the copy of a remote description."""
    data: dict[str, Any] = {"sources": dict(sources)}
    if record is not None:
        data["audit"] = {"dir": str(Path(record).resolve())}
    settings = from_data(data, folder / "toolgen.yaml")
    for name, source in settings.sources.items():
        if path is not None and _is_remote(source.config.location):
            pin = stage(folder, name, path.name, source.config.location, path.read_bytes())
            pinned = {name: replace(source, config=replace(source.config, pin=pin))}
            settings = replace(settings, sources=types.MappingProxyType({**settings.sources, **pinned}))
    return settings, build_sources(settings.sources).manifest


def _auth(credential: str, settings: Settings, manifest: Manifest) -> dict[str, Any]:
    """Return the scheme of a single credential. Raises `ConfigError` if several could be meant."""
    (name,) = settings.sources
    schemes = manifest.sources[name].security_schemes
    needed = sorted(needed_schemes(manifest.tools.values(), manifest.sources[name]) or schemes)
    if not needed:
        return {"bearer": credential}
    if len(needed) > 1:
        raise ConfigError(
            f"the description asks for {len(needed)} credentials", suggestion=f"give a mapping of {', '.join(needed)}"
        )
    oauth = schemes[needed[0]].type in {"oauth2", "openIdConnect"}
    return {needed[0]: {"token": credential} if oauth else credential}


def _finished(
    settings: Settings, manifest: Manifest, effects: tuple[Effect, ...], folder: Path, module: str = "", *, limits: str
) -> InProcess:
    key, digest = new_key()
    settings.policies.mkdir()
    text = policy_text(manifest, settings.sources, key_digest=digest, effects=effects, patterns=_ALL, limits=limits)
    (settings.policies / "policy.yaml").write_text(text, encoding="utf-8")
    policy = load_policy(settings.policies, manifest)
    return InProcess(
        settings=settings, manifest=manifest, policy=policy, key=key, discard=lambda: _discard(folder, module)
    )


def _moved(function: types.FunctionType, module: str) -> types.FunctionType:
    """Return a copy of the function with another module name, marked as a tool if it is not yet. Its global names keep their meaning."""
    made = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__, made.__annotations__ = function.__kwdefaults__, function.__annotations__
    made.__doc__, made.__qualname__, made.__module__ = function.__doc__, function.__qualname__, module
    made.__dict__.update(function.__dict__)
    if not hasattr(made, MARK):
        tool(made)
    return made
