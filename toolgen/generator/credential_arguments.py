"""Credentials among the arguments of tools whose description declares no scheme for them: lines for `auth:`, so that the gateway sends
them and models need not know them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from toolgen.connectors.registry import CONNECTORS
from toolgen.model.manifest import Manifest, SecurityScheme
from toolgen.model.parameter_names import may_be_one
from toolgen.model.tool import HttpParameter, Tool

__all__ = ["CredentialArguments", "credential_arguments"]

_NAMES = frozenset(
    {
        *(
            "accesskey",
            "accesstoken",
            "apikey",
            "apisecret",
            "apitoken",
            "appkey",
            "authorization",
            "authtoken",
            "bearertoken",
        ),
        *("oauthtoken", "secretkey", "subscriptionkey"),
    }
)
_ENDINGS = ("accesstoken", "apikey", "apitoken", "authtoken", "subscriptionkey")
_PERHAPS = frozenset({"appid", "auth", "key", "password", "secret", "token", "username"})
_SAID = re.compile(
    r"\bapi[ -]?(?:key|token)|\bcredentials?\b|authenticat|authoriz|\byour (?:key|token|secret|app(?:lication)? id)\b",
    re.IGNORECASE,
)
_PLACES = frozenset({"query", "header", "cookie"})
_REPEATED, _MOST = (
    3,
    0.8,
)  # minimum number, and part of all tools, that require an argument for it to count as common to them


class CredentialArguments(Struct, frozen=True, kw_only=True):
    """Credentials among the arguments of one source's tools: the arguments, the number of such tools, and the lines for toolgen.yaml."""

    source: str
    arguments: tuple[str, ...]
    tools: int
    lines: tuple[str, ...]

    def __str__(self) -> str:
        have = "tool has" if self.tools == 1 else "tools have"
        return (
            f"{self.tools} {have} credentials of {self.source} as arguments ({', '.join(self.arguments)}), which models must not know. "
            "The gateway sends them with these lines in toolgen.yaml:\n" + "\n".join(self.lines)
        )


def credential_arguments(manifest: Manifest) -> tuple[CredentialArguments, ...]:
    """Return the sources whose tools have credentials as arguments."""
    found = []
    for source, info in manifest.sources.items():
        described = CONNECTORS[info.kind].describes_requests
        tools = [tool for tool in manifest.tools.values() if tool.source == source] if described else []
        places: Counter[tuple[str, str]] = Counter()
        required = _required(tools)
        having = 0
        for tool in tools:
            own = {
                (one.in_, one.name)
                for one, said in _candidates(tool)
                if _is_credential(one, said, required, len(tools))
            }
            places.update(own)
            having += bool(own)
        if places:
            lines = _lines(source, sorted(places), info.security_schemes)
            names = tuple(sorted({name for _, name in places}))
            found.append(CredentialArguments(source=source, arguments=names, tools=having, lines=tuple(lines)))
    return tuple(found)


def _candidates(tool: Tool) -> Iterable[tuple[HttpParameter, str]]:
    """Return the parameters that may be credentials, each with its description."""
    if (http := tool.http) is not None:
        properties = tool.input_schema.get("properties", {})
        for one in http.parameters:
            if one.in_ in _PLACES:
                schema = properties.get(one.argument)
                yield one, str(schema.get("description", "")) if isinstance(schema, dict) else ""


def _required(tools: Iterable[Tool]) -> Counter[tuple[str, str]]:
    """Count the tools that require each parameter."""
    return Counter((one.in_, one.name) for tool in tools for one, _ in _candidates(tool) if one.required)


def _is_credential(one: HttpParameter, said: str, required: Counter[tuple[str, str]], tools: int) -> bool:
    folded = re.sub(r"[^a-z0-9]", "", one.name.lower()).removeprefix("x")
    if folded in _NAMES or folded.endswith(_ENDINGS):
        return True
    if folded not in _PERHAPS:
        return False
    count = required[one.in_, one.name]
    return bool(_SAID.search(said)) or (count >= _REPEATED and count >= _MOST * tools)


def _lines(source: str, places: Iterable[tuple[str, str]], schemes: dict[str, SecurityScheme]) -> Iterable[str]:
    yield "sources:"
    yield f"  {source}:"
    yield "    auth:"
    taken: set[str] = set()
    for place, name in places:
        scheme = next((key for key, one in schemes.items() if _shows(one, place, name)), "")
        variable = f"{source}_{re.sub(r'[^A-Za-z0-9]+', '_', name).strip('_')}".upper()
        value = f"${{env:{variable}}}"
        if scheme:
            yield f"      {_written(scheme)}: {json.dumps(value)}"
        else:
            key = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "credential"
            key = "api_key" if key.endswith("api_key") or key == "apikey" else key
            while key in taken or key in {"bearer", "basic", "headers", "oauth", "mutual"}:
                key += "_2"
            taken.add(key)
            yield f"      {key}: {{name: {_written(name)}, in: {place}, value: {json.dumps(value)}}}"


def _shows(scheme: SecurityScheme, place: str, name: str) -> bool:
    return scheme.type == "apiKey" and scheme.in_ == place and may_be_one(scheme.name, name)


def _written(text: str) -> str:
    """Return a text in YAML."""
    return text if re.fullmatch(r"[A-Za-z][\w.-]*", text) else json.dumps(text)
