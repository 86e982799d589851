"""The `limits:` section of a policy, read once every principal is known: each name in it exists, and each cost can be paid.

The `tokens:` section: which tools get values back in the place of tokens.

The `disclose:` section: of which closed tools callers are told that they are not open.

The `credentials:` section of a policy: references, by role and source.

Whose credentials a source is called with: those that the policy gives to a role, in place of the source's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolgen.core.errors import PolicyError
from toolgen.core.spelling import nearest
from toolgen.core.units import parse_duration
from toolgen.core.yaml_file import YamlDocument, decode
from toolgen.model.auth import AuthError, is_exchange, literals, parsed_auth, read_form
from toolgen.model.auth_schemes import fits, takes
from toolgen.model.call import Principal
from toolgen.model.excerpt import bounded
from toolgen.model.manifest import Manifest
from toolgen.policy.cel.expression import compile_expression
from toolgen.policy.cel.names import CelScope
from toolgen.policy.detectors.tokens import KIND
from toolgen.policy.disclosure import Disclosure
from toolgen.policy.document.schema import AssignmentShape, DisclosureShape, LimitShape, TokensShape
from toolgen.policy.document.selectors import matched, selected
from toolgen.policy.limits import ATTRIBUTE, DIMENSIONS, Cost, Limit, parse_rate
from toolgen.policy.value_tokens import TokenGrant

__all__ = [
    "Assignment",
    "assigned",
    "read_assignment",
    "read_disclosure",
    "read_limits",
    "read_tokens",
]

_MAX_WAIT_S = 30.0


def read_limits(places: Iterable[tuple[YamlDocument, int]], scope: CelScope, manifest: Manifest) -> tuple[Limit, ...]:
    """The limits at these places, in the order of their ids. Raises `PolicyError` with file and line."""
    limits: dict[str, Limit] = {}
    for document, index in places:
        given = decode(document, ("limits", index), LimitShape, PolicyError)
        if given.id in limits:
            raise PolicyError(f"the limit id '{given.id}' is taken", where=document.where("limits", index))
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
                        f"{key}: belongs to a rate, and limit {given.id} has none", where=self._where(key)
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
                raise PolicyError("a cost counts one call, and cannot ask about earlier ones", where=where)
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


def read_tokens(document: YamlDocument, index: int, manifest: Manifest) -> TokenGrant:
    """Read an entry of `tokens:`. Raises `PolicyError`."""
    path = ("tokens", index)
    given = decode(document, path, TokensShape, PolicyError)
    tools = matched(given.tools, manifest, document, (*path, "tools"))
    for number, kind in enumerate(given.kinds):
        if not KIND.match(kind):
            raise PolicyError(
                f"'{bounded(kind, 60)}' is no kind of values", where=document.where(*path, "kinds", number)
            )
    known = {name for tool in tools for name in tool.input_schema.get("properties", {})}
    for number, name in enumerate(given.arguments):
        if name not in known and tools:
            raise PolicyError(
                f"none of these tools has an argument '{bounded(name, 60)}'{nearest(name, known)}",
                where=document.where(*path, "arguments", number),
            )
    return TokenGrant(
        tools=tuple(given.tools),
        kinds=frozenset(given.kinds),
        roles=frozenset(given.to),
        arguments=frozenset(given.arguments),
        where=document.where(*path),
    )


def read_disclosure(document: YamlDocument, index: int, manifest: Manifest) -> Disclosure:
    """Read an entry of `disclose:`. Raises `PolicyError`."""
    path = ("disclose", index)
    given = decode(document, path, DisclosureShape, PolicyError)
    matched(given.tools, manifest, document, (*path, "tools"))
    return Disclosure(
        roles=frozenset(given.to),
        tools=tuple(given.tools),
        text=" ".join(given.text.split()),
        where=document.where(*path),
    )


class Assignment(Struct, frozen=True, kw_only=True):
    """An entry of `credentials:`. `use` has the form of `auth:` of the source: references by the security scheme's name.

    `exchanges`: some credentials are obtained in exchange for the caller's token.
    """

    source: str
    roles: frozenset[str]
    use: Mapping[str, object]
    exchanges: bool


def assigned(entries: tuple[Assignment, ...], source: str, principal: Principal) -> Mapping[str, object] | None:
    """Return the credentials that the first entry for this source gives to a caller, or None to use the source's own credentials.

    A principal that acts for another needs one of the entry's roles, and so does the other: acting for others gives no credentials.
    """
    for entry in entries:
        if entry.source == source and _has(principal, entry.roles):
            return entry.use
    return None


def _has(principal: Principal, roles: frozenset[str]) -> bool:
    party: Principal | None = principal
    while party is not None:
        if roles.isdisjoint(party.roles):
            return False
        party = party.on_behalf_of
    return True


def read_assignment(document: YamlDocument, index: int, manifest: Manifest) -> Assignment:
    """Read an entry and check all but its roles. Raises `PolicyError` for an unknown source or scheme, and for a secret in plain text."""
    path = ("credentials", index)
    given = decode(document, path, AssignmentShape, PolicyError)
    info = manifest.sources.get(given.source)
    if info is None or info.database is not None:
        known = [name for name, item in manifest.sources.items() if item.database is None]
        raise PolicyError(
            f"there is no source '{given.source}' that takes credentials{nearest(given.source, known)}",
            where=document.where(*path, "source"),
        )
    use: dict[str, object] = {}
    exchanges = False
    for name, written in given.use.items():
        where = document.where(*path, "use", name)
        scheme = info.security_schemes.get(name)
        if scheme is None:
            near = nearest(name, info.security_schemes) or f" (it has: {', '.join(info.security_schemes) or 'none'})"
            raise PolicyError(f"{given.source} has no security scheme '{name}'{near}", where=where)
        try:
            parsed = parsed_auth(written)
            form = read_form(parsed)
        except AuthError as error:
            raise PolicyError(
                f"{(name, *error.path)[-1]} {error.message}", where=where, suggestion=error.suggestion
            ) from error
        except ValueError as error:
            raise PolicyError(f"{name}: {error}", where=where) from error
        if literals(parsed):
            raise PolicyError(
                f"{name}: a secret is written out, and a policy is read by many",
                where=where,
                suggestion="keep it outside, with ${env:NAME}, ${file:/path} or ${vault:path#key}",
            )
        if not fits(scheme, form):
            raise PolicyError(f"the security scheme '{name}' takes {takes(scheme)}", where=where)
        use[name] = parsed
        exchanges |= is_exchange(form)
    return Assignment(source=given.source, roles=frozenset(given.to), use=MappingProxyType(use), exchanges=exchanges)
