"""Limits of a policy (`limits:`), read after all principals: each name has to exist, and each cost has to fit its bucket."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

import msgspec
from msgspec.structs import replace

from toolgen.core.errors import PolicyError
from toolgen.core.spelling import nearest
from toolgen.core.units import parse_duration
from toolgen.core.yaml_file import YamlDocument, decode
from toolgen.model.manifest import Manifest
from toolgen.policy.cel.expression import compile_expression
from toolgen.policy.cel.names import CelScope
from toolgen.policy.document.schema import LimitShape
from toolgen.policy.document.selectors import selected
from toolgen.policy.limits import ATTRIBUTE, DIMENSIONS, Cost, Limit, parse_rate

__all__ = ["read_limits"]

_MAX_WAIT_S = 30.0


def read_limits(places: Iterable[tuple[YamlDocument, int]], scope: CelScope, manifest: Manifest) -> tuple[Limit, ...]:
    """Return the limits at these places, in the order of their ids. Raises `PolicyError` with file and line."""
    limits: dict[str, Limit] = {}
    for document, index in places:
        given = decode(document, ("limits", index), LimitShape, PolicyError)
        if given.id in limits:
            raise PolicyError(f"the limit id '{given.id}' is used twice", where=document.where("limits", index))
        limits[given.id] = _SectionReader(document, index, given, scope, manifest).limit()
    return tuple(limits[name] for name in sorted(limits))


class _SectionReader:
    def __init__(
        self, document: YamlDocument, index: int, given: LimitShape, scope: CelScope, manifest: Manifest
    ) -> None:
        self._document = document
        self._index = index
        self._given = given
        self._manifest = manifest
        self._scope = scope

    def limit(self) -> Limit:
        given = self._given
        per_second, burst = self._bucket()
        return Limit(
            id=given.id,
            per=tuple(sorted({self._dimension(name, number) for number, name in enumerate(given.per)})),
            per_second=per_second,
            burst=burst,
            cost=tuple((pattern, self._cost(pattern, cost, burst)) for pattern, cost in given.cost.items()),
            concurrency=given.concurrency or 0,
            wait_s=self._wait(),
            on_failure=given.on_failure,
            tools=self._tools(),
        )

    def _tools(self) -> frozenset[str] | None:
        given = self._given
        selection = selected(given, self._manifest, self._document, ("limits", self._index))
        if selection is None:
            if not isinstance(given.tools, msgspec.UnsetType):
                raise PolicyError(f"limit {given.id} names no tool", where=self._where("tools"))
            return None
        return frozenset(tool.name for tool in selection.tools)

    def _where(self, *path: str | int) -> str:
        return self._document.where("limits", self._index, *path)

    def _bucket(self) -> tuple[float, int]:
        given = self._given
        if given.rate is None:
            if given.concurrency is None:
                raise PolicyError(
                    f"limit {given.id} has neither a rate nor a concurrency",
                    where=self._where(),
                    suggestion="give it rate: 60/min, concurrency: 4, or both",
                )
            for key, value in (("burst", given.burst), ("cost", given.cost)):
                if value:
                    raise PolicyError(
                        f"{key}: needs rate:, which limit {given.id} does not have", where=self._where(key)
                    )
            return 0.0, 0
        rate = parse_rate(given.rate)
        if rate is None:
            raise PolicyError(f"rate: '{given.rate}' is not like 60/min", where=self._where("rate"))
        count, per_second = rate
        return per_second, count if given.burst is None else given.burst

    def _dimension(self, name: str, number: int) -> str:
        where = self._where("per", number)
        if name.startswith(ATTRIBUTE):
            attribute, known = name.removeprefix(ATTRIBUTE), self._scope.attributes
            if attribute not in known:
                raise PolicyError(
                    f"no principal has the attribute '{attribute}'{nearest(attribute, known)}", where=where
                )
        elif name not in DIMENSIONS:
            raise PolicyError(
                f"limits are not per '{name}'{nearest(name, DIMENSIONS)}",
                where=where,
                suggestion="use principal, tool, source or attribute:NAME",
            )
        return name

    def _cost(self, pattern: str, cost: int | str, burst: int) -> Cost:
        where = self._where("cost", pattern)
        catalog = self._scope.catalog
        tools = {name: tool for name, tool in catalog.items() if fnmatchcase(name, pattern)}
        if not tools:
            raise PolicyError(f"'{pattern}' matches no tool{nearest(pattern, catalog)}", where=where)
        if isinstance(cost, str):
            compiled = compile_expression(cost, replace(self._scope, tools=tools), where=where, wants="number")
            if compiled.asks_history:
                raise PolicyError("a cost is computed for one call, so it cannot use earlier calls", where=where)
            return compiled
        if cost > burst:
            raise PolicyError(
                f"cost of {pattern} is more than the burst, {burst}: no such call would ever pass", where=where
            )
        return cost

    def _wait(self) -> float:
        text = self._given.wait
        if text is None:
            return 0.0
        seconds = parse_duration(text)
        if seconds is None or not 0 < seconds <= _MAX_WAIT_S:
            raise PolicyError(
                f"wait: '{text}' is not like 2s or 500ms, and at most {_MAX_WAIT_S:g}s", where=self._where("wait")
            )
        return seconds
