"""Middleware of a project: objects of its own modules, objects given in Python, or decision points, each with its name and a digest."""

from __future__ import annotations

import importlib
import inspect
import logging
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from toolgen.config.checks import DecisionPoint, MiddlewareSettings
from toolgen.connectors.executor import Destination, Permit
from toolgen.connectors.secrets import SecretResolver
from toolgen.core.canonical import canonical
from toolgen.core.clock import Clock
from toolgen.core.errors import ConfigError, place_of
from toolgen.model.middleware import Middleware
from toolgen.pipeline.stages.middleware import Hook

__all__ = ["hooks_of", "imported", "objects_of"]

_HOOKS = ("before", "after", "shows")
_TIMEOUT_S = 0.05
_logger = logging.getLogger(__name__)


def hooks_of(settings: Sequence[MiddlewareSettings], permit: Permit, clock: Clock) -> tuple[Hook, ...]:
    """Load the middleware that toolgen.yaml names, in its order.

    Raises `ConfigError` if one cannot be loaded, because nothing may be served without its checks.
    """
    found: list[Hook] = []
    for one in settings:
        if one.kind == "python":
            target, code = imported(one.use, one.root, one.where)
            made = _instance(target, one.options, one.use, one.where)
            name, digest = one.use, _digest(code, one.use, one.options)
        else:
            assert one.point is not None  # noqa: S101 - the settings say so
            made = _decision_point(one.kind, one.point, one.where, permit, clock)
            name = one.kind
            digest = _digest(_code_of(type(made)), name, {"url": one.point.url, "files": _files(one.point)})
        name = name if all(hook.name != name for hook in found) else f"{name}-{len(found) + 1}"
        found.append(_hook(made, name, digest, one.timeout_s, one.labels, one.where))
    return tuple(found)


def objects_of(given: Iterable[object]) -> tuple[Hook, ...]:
    """Return the hooks that a program passes: objects of `Middleware`, or functions that are called before a call. Raises `ConfigError`."""
    found: list[Hook] = []
    for index, one in enumerate(given):
        where = f"middleware[{index}]"
        kind = one if inspect.isroutine(one) or isinstance(one, type) else type(one)
        name = f"{kind.__module__}.{getattr(kind, '__qualname__', type(kind).__name__)}"
        made = _instance(one, {}, name, where)
        name = name if all(hook.name != name for hook in found) else f"{name}-{index + 1}"
        labels = frozenset(getattr(made, "labels", ()))
        timeout_s = float(getattr(made, "timeout_s", _TIMEOUT_S))
        found.append(_hook(made, name, _digest(_code_of(kind), name, {}), timeout_s, labels, where))
    return tuple(found)


def imported(name: str, root: Path, where: str) -> tuple[Any, bytes]:
    """Import the object `module.name`, from the project's folder first, and return it with the text of its module. Raises `ConfigError`."""
    module, _, attribute = name.rpartition(".")
    added = str(root) not in sys.path
    if added:
        sys.path.insert(0, str(root))
    try:
        loaded = importlib.import_module(module)
    except Exception as error:
        _logger.error("%s cannot be imported: %s", module, place_of(error))  # noqa: TRY400 - its text may quote anything
        told = f"there is no module {error.name}" if isinstance(error, ModuleNotFoundError) else type(error).__name__
        raise ConfigError(f"{module} cannot be imported: {told}", where=where) from error
    finally:
        if added:
            sys.path.remove(str(root))
    found = getattr(loaded, attribute, None)
    if found is None:
        raise ConfigError(f"the module {module} has no '{attribute}'", where=where)
    file = getattr(loaded, "__file__", None)
    return found, Path(file).read_bytes() if file else b""


def _instance(target: Any, options: Mapping[str, Any], name: str, where: str) -> Any:
    if isinstance(target, type):
        try:
            return target(**options)
        except Exception as error:
            raise ConfigError(
                f"{name} cannot be made with its options ({type(error).__name__})", where=where
            ) from error
    if options:
        raise ConfigError(f"options: {name} is not a class, so it takes no options", where=where)
    return target


def _hook(made: Any, name: str, digest: str, timeout_s: float, labels: frozenset[str], where: str) -> Hook:
    if inspect.isroutine(made):
        return Hook(name=name, digest=digest, timeout_s=timeout_s, before=_checked(made, 1, name, where), labels=labels)
    methods: dict[str, Any] = {}
    for each in _HOOKS:
        method = getattr(made, each, None)
        if callable(method) and getattr(type(made), each, None) is not getattr(Middleware, each):
            methods[each] = _checked(method, 1 if each == "before" else 2, f"{name}.{each}", where)
    if not methods:
        raise ConfigError(
            f"{name} is not a middleware", where=where, suggestion="give it one of the methods before, after and shows"
        )
    if "shows" in methods and inspect.iscoroutinefunction(methods["shows"]):
        raise ConfigError(f"{name}.shows: is a plain function, not an asynchronous one", where=where)
    return Hook(name=name, digest=digest, timeout_s=timeout_s, labels=labels, **methods)


def _checked(function: Callable[..., Any], takes: int, name: str, where: str) -> Callable[..., Any]:
    try:
        inspect.signature(function).bind(*(None,) * takes)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{name}: must take {takes} argument{'s' * (takes > 1)}", where=where) from error
    return function


def _code_of(kind: Any) -> bytes:
    try:
        return inspect.getsource(kind).encode()
    except (OSError, TypeError):
        code = getattr(kind, "__code__", None)
        return code.co_code if code is not None else b""


def _digest(code: bytes, name: str, options: Mapping[str, Any]) -> str:
    return "sha256:" + sha256(code + b"\0" + canonical({"name": name, "options": dict(options)})).hexdigest()


def _files(point: DecisionPoint) -> list[str]:
    return [sha256(path.read_bytes()).hexdigest() for path in (point.policies, point.entities) if path is not None]


def _decision_point(kind: str, point: DecisionPoint, where: str, permit: Permit, clock: Clock) -> Middleware:
    from toolgen.connectors.http import decision_points  # noqa: PLC0415 - where one is asked
    from toolgen.connectors.http.outbound.request import Via  # noqa: PLC0415 - the same

    asked: decision_points.Point
    if kind == "cedar":
        assert point.policies is not None  # noqa: S101 - the settings say so
        for path in (point.policies, point.entities):
            if path is not None and not path.is_file():
                raise ConfigError(f"cedar: there is no file {path.name}", where=where)
        if find_spec("cedarpy") is None:
            raise ConfigError(
                "cedar: needs its library", where=where, suggestion='install it with: pip install "toolgen[cedar]"'
            )
        from cedarpy import is_authorized  # noqa: PLC0415 - an extra

        asked = decision_points.CedarPoint(policies=point.policies, entities=point.entities, authorize=is_authorized)
    else:
        via = Via(permit=permit, destination=Destination(host="", port=0))
        made = decision_points.AuthZen if kind == "authzen" else decision_points.Opa
        asked = made(url=point.url, via=via, secrets=SecretResolver(permit=permit), token=point.token)
    return decision_points.DecisionPointMiddleware(point=asked, cache_s=point.cache_s, clock=clock)
