"""Files of a new project, written from its descriptions: toolgen.yaml, and a policy that allows the reads."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from urllib.parse import urlsplit

from msgspec import Struct

from toolgen.connectors.registry import CONNECTORS
from toolgen.connectors.source import SourceSettings
from toolgen.model.database import Table
from toolgen.model.manifest import Manifest, SecurityScheme, SourceInfo
from toolgen.model.names import join
from toolgen.model.tool import Effect, Tool

__all__ = ["GITIGNORE", "PRINCIPAL", "StarterSource", "needed_schemes", "policy_text", "project_text", "variables"]

PRINCIPAL = "agent"
GITIGNORE = """\
# The record, what outlives a call, and keys: none of it belongs in version control.
var/
*.key
.env
# `toolgen build` makes it again. toolgen.lock has each tool's name and digest on a line: it belongs in version control.
generated/
"""
_LIMITS = f"limits:\n  - {{id: per-{PRINCIPAL}, per: [principal], rate: 60/min, burst: 20}}\n"
_PORTS = {"http": 80, "https": 443}
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./:-]*[A-Za-z0-9_/]|[A-Za-z_]")
_WORDS_OF_YAML = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})
_SECRET_COLUMN = re.compile(
    r"(?:\A|_)(?:pass|passwd|password|passphrase|pwd|secret|token|salt|hash|ssn|cvv|cvc|iban|pin|card_number|api_?key|private_?key)(?:\Z|_)",
    re.IGNORECASE,
)
_SIMPLEST = ("apiKey", "http", "oauth2", "openIdConnect", "mutualTLS")


class StarterSource(Struct, frozen=True, kw_only=True):
    """Source for a new toolgen.yaml. `location` is a path below the project's folder, or a URL without a password.

    `server` is its given address, or "". `password`: its location contained a password, which is moved to a variable.
    """

    name: str
    kind: str
    location: str
    server: str = ""
    password: bool = False


def project_text(entries: Sequence[StarterSource], manifest: Manifest) -> str:
    """Return toolgen.yaml. Credentials are names of environment variables; those that no tool needs are comments."""
    lines = ["# What there is to call. policies/ says who may call it.", "sources:"]
    for entry in entries:
        lines += _source_lines(entry, manifest)
    lines += ["policies: policies/", "generated: generated/"]
    lines += ["gateway: {host: 127.0.0.1, port: 8080}", "audit: {dir: var/audit}"]
    return "\n".join(lines) + "\n"


def variables(entry: StarterSource, manifest: Manifest) -> tuple[str, ...]:
    """Return the environment variables that calls to this source need."""
    return tuple(re.findall(r"\$\{env:(\w+)\}", "\n".join(_auth_lines(entry, manifest)[0])))


def policy_text(
    manifest: Manifest,
    sources: Mapping[str, SourceSettings],
    *,
    key_digest: str = "",
    effects: Sequence[Effect] = (Effect.READ,),
    without: Collection[str] = (),
    patterns: Sequence[str] = (),
    limits: str = _LIMITS,
) -> str:
    """Write a policy that lets one principal call the tools with these effects and denies everything else.

    `patterns` select the tools, or all tools of each source if there are none. `key_digest` is the hex SHA-256 of the principal's key, or
    "" for a principal without a key. `without` are tables that stay closed. `limits` is the section of that name, or "".
    """
    tools = [tool for tool in manifest.tools.values() if tool.effect in effects]
    named = list(patterns if tools and patterns else dict.fromkeys(_pattern(tool) for tool in tools))
    key = f'    api_key: "sha256:{key_digest}"\n' if key_digest else ""
    parts = [
        "# Who may do what. Whatever no rule allows is denied. `toolgen policy check` runs the tests at the end.\n"
        f"principals:\n  {PRINCIPAL}:\n{key}    roles: [{PRINCIPAL}]\n",
        f"rules:{_rules(named, effects)}",
        *([limits] if limits else []),
        *_sql(manifest, without),
        _egress(manifest, sources),
        *_tests(manifest, tools, _rule_name(effects)),
    ]
    return "\n".join(parts)


def _source_lines(entry: StarterSource, manifest: Manifest) -> list[str]:
    needed, optional = _auth_lines(entry, manifest)
    connector = CONNECTORS[entry.kind]
    written = connector.written(entry.location)
    inner = ", ".join(f"{key}: {_quoted(value)}" for key, value in written.items()) if isinstance(written, dict) else ""
    lines = [f"  {entry.name}:", f"    {entry.kind}: {f'{{{inner}}}' if inner else _quoted(entry.location)}"]
    if entry.server:
        lines.append(f"    {connector.server_key}: {_quoted(entry.server)}")
    elif connector.server_key and not connector.describes_requests and "://" not in entry.location:
        lines.append("    # endpoint: https://…/graphql   # where the API is: its schema does not say")
    if needed:
        lines.append("    auth:   # set these variables where the gateway runs; they are read when a call needs them")
    elif optional:
        lines.append("    # auth:   # what calls may show: take out the # before what you have")
    return [*lines, *needed, *optional]


def _auth_lines(entry: StarterSource, manifest: Manifest) -> tuple[list[str], list[str]]:
    """Return the lines below `auth:` that calls need, and the optional ones as comments."""
    if entry.password:
        return [f'      password: "${{env:{_variable(entry.name, "password")}}}"'], []
    if CONNECTORS[entry.kind].free_headers:
        return [], [f'    #   bearer: "${{env:{_variable(entry.name, "token")}}}"']
    info = manifest.sources[entry.name]
    own = [tool for tool in manifest.tools.values() if tool.source == entry.name]
    needed = needed_schemes(own, info)
    lines = {
        name: f"{_quoted(name)}: {_credential(scheme, _variable(entry.name, name))}"
        for name, scheme in info.security_schemes.items()
    }
    return (
        [f"      {lines[name]}" for name in lines if name in needed],
        [f"    #   {lines[name]}" for name in lines if name not in needed],
    )


def needed_schemes(tools: Iterable[Tool], info: SourceInfo) -> set[str]:
    """Return the fewest schemes, simple ones first, that together satisfy every tool with a security requirement."""
    schemes, chosen = info.security_schemes, set[str]()

    def cost(option: tuple[str, ...]) -> tuple[int, int]:
        kinds = [schemes[name].type for name in option]
        return len(option), max((_SIMPLEST.index(kind) if kind in _SIMPLEST else 9 for kind in kinds), default=0)

    for tool in tools:
        if (http := tool.http) is None:
            continue
        options = [option for option in http.security if all(name in schemes for name in option)]
        if options and not any(chosen.issuperset(option) for option in options):
            simplest = min(options, key=cost)
            chosen.update(simplest)
    return chosen


def _credential(scheme: SecurityScheme, variable: str) -> str:
    """Return the entry of toolgen.yaml for a credential of this kind."""
    match scheme.type:
        case "oauth2" | "openIdConnect":
            return f'{{token: "${{env:{variable}}}"}}'
        case "mutualTLS":
            return f'{{certificate: "${{env:{variable}_CERTIFICATE}}", key: "${{env:{variable}_KEY}}"}}'
        case "http" if scheme.scheme.lower() == "basic":
            return f'{{username: "${{env:{variable}_USER}}", password: "${{env:{variable}_PASSWORD}}"}}'
        case _:
            return f'"${{env:{variable}}}"'


def _variable(source: str, what: str) -> str:
    letters = "".join(character if character.isalnum() and character.isascii() else "_" for character in what)
    return f"{source}_{letters}".upper()


def _pattern(tool: Tool) -> str:
    """Return a pattern for all tools of its source, or for this tool if their names do not contain the source."""
    prefix = join(tool.source, "")
    return f"{prefix}*" if tool.name.startswith(prefix) else tool.name


def _rules(patterns: Sequence[str], effects: Sequence[Effect]) -> str:
    if not patterns:
        return " []   # nothing here only reads: name what the principal may call\n"
    globs = ", ".join(f'"{pattern}"' for pattern in patterns)
    named = ", ".join(effects)
    rule = f"{{id: {_rule_name(effects)}, to: [{PRINCIPAL}], tools: [{globs}], effects: [{named}], verdict: allow}}"
    return f"\n  - {rule}\n"


def _rule_name(effects: Sequence[Effect]) -> str:
    return f"{PRINCIPAL}-reads" if tuple(effects) == (Effect.READ,) else f"{PRINCIPAL}-calls"


def _sql(manifest: Manifest, without: Collection[str]) -> list[str]:
    """List the tables of every database, without columns whose names look like secrets. Unlisted tables do not exist for callers."""
    databases = {name: info.database for name, info in manifest.sources.items() if info.database is not None}
    if not databases:
        return []
    lines = ["sql:   # tables that are not named here do not exist for anybody"]
    for name, database in databases.items():
        lines += [f"  {name}:", "    tables:"]
        tables = [table for table in database.tables if table.name not in without]
        lines += [f"      {_quoted(_table_name(table))}: {_columns(table)}" for table in tables if not table.view]
        if lines[-1] == "    tables:":
            lines[-1] = "    tables: {}"
        views = [_table_name(table) for table in tables if table.view]
        if views:
            lines.append("      # views read with their owner's rights, past what is closed here:")
            lines += [f"      # {_quoted(view)}: {{}}" for view in views]
        lines.append("    max_rows: 100")
    return ["\n".join(lines) + "\n"]


def _table_name(table: Table) -> str:
    return f"{table.schema}.{table.name}" if table.schema else table.name


def _columns(table: Table) -> str:
    closed = [column.name for column in table.columns if _SECRET_COLUMN.search(column.name)]
    if not closed:
        return "{}"
    opened = ", ".join(_quoted(column.name) for column in table.columns if column.name not in closed)
    return f"{{columns: [{opened}]}}   # closed: {', '.join(map(_quoted, closed))}"


def _egress(manifest: Manifest, sources: Mapping[str, SourceSettings]) -> str:
    """Allow exactly the addresses of the tools. A source without a known address reaches none."""
    places: dict[str, set[str]] = {name: set() for name in sources}
    for name, source in sources.items():
        if (address := CONNECTORS[source.config.kind].address(source.config)) is not None:
            places[name].add(_place(*address))
    for tool in manifest.tools.values():
        places[tool.source].update(filter(None, map(_place_of, tool.binding.addresses)))
    networked = {name for name, source in sources.items() if CONNECTORS[source.config.kind].networked}
    listed = ", ".join(f'"{place}"' for place in sorted(set().union(*places.values())))
    unknown = "" if listed else "".join(f"    {name}: []\n" for name in sorted(networked))
    return (
        "egress:   # where requests may go, as host:port\n"
        + (f"  allow: [{listed}]\n" if listed else "")
        + (f"  sources:   # no server is known, so none is reached: list its host:port\n{unknown}" if unknown else "")
        + "  private_networks: deny\n  redirects: none\n"
    )


def _place_of(url: str) -> str:
    """Return `host:port` of a URL, "" if it has none."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme.replace("ws", "http"), 0)
    except ValueError:
        return ""
    host = parts.hostname or ""
    return _place(host, port) if port and re.fullmatch(r"[A-Za-z0-9._:-]+", host) else ""


def _place(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _tests(manifest: Manifest, allowed: Sequence[Tool], rule: str) -> list[str]:
    """Write a test of an allowed call and a test of a denied call, if there are such tools."""
    names = {tool.name for tool in allowed}
    plain = [tool for tool in allowed if not tool.input_schema.get("required")]
    lines = [
        f"  - {{as: {PRINCIPAL}, call: {tool.name}, expect: allow, rule: {rule}}}" for tool in (plain or allowed)[:1]
    ]
    other = [tool for tool in manifest.tools.values() if tool.name not in names]
    lines += [f"  - {{as: {PRINCIPAL}, call: {tool.name}, expect: deny, rule: default}}" for tool in other[:1]]
    return ["tests:\n" + "\n".join(lines) + "\n"] if lines else []


def _quoted(text: str) -> str:
    """Return text in YAML: bare if that is plain, in JSON's quotes otherwise."""
    plain = _PLAIN.fullmatch(text) and ": " not in text and text.lower() not in _WORDS_OF_YAML
    return text if plain else json.dumps(text)
