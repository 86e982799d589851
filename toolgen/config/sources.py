"""Source of toolgen.yaml: its keys, its filters, its location, and the references of its credentials."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

import msgspec

from toolgen.config.poll import PollKeys, read_poll
from toolgen.config.resilience import read_resilience
from toolgen.config.resource import of_resource
from toolgen.config.source_keys import FilterKeys, GivenSource, SourceKeys
from toolgen.connectors.account_providers import checked_account
from toolgen.connectors.auth_headers import check_headers
from toolgen.connectors.base import Connector
from toolgen.connectors.poll_settings import PollConfig
from toolgen.connectors.registry import CONNECTORS
from toolgen.connectors.source import Auth, SourceConfig, SourceSettings
from toolgen.connectors.source_entry import SourceEntry
from toolgen.core.errors import ConfigError
from toolgen.core.spelling import short
from toolgen.core.yaml_file import YamlDocument, decode
from toolgen.model.auth import AuthError, Form, UserAccount, literals, parsed_auth, read_form
from toolgen.model.auth_schemes import HEADERS
from toolgen.model.names import SOURCE_NAME
from toolgen.model.secret import SecretReference

__all__ = ["read_source"]

_NOTHING_GIVEN = GivenSource()


def read_source(document: YamlDocument, name: str, root: Path, warnings: list[str]) -> SourceSettings:
    """Read the section `sources.<name>`; notices for a person are added to `warnings`. Raises `ConfigError` with its line."""
    source, connector, resource = _decoded(document, name, root)
    auth = {} if isinstance(source.auth, str) else dict(source.auth)
    entry = SourceEntry(
        document=document,
        name=name,
        root=root,
        auth=auth,
        warnings=warnings,
        anonymous=_is_anonymous(document, name, source.auth),
        resource=resource,
    )
    if connector.free_headers:
        check_headers(auth, document, (*entry.path, "auth"))
    made = connector.configure(source, entry)
    location = made.location or (Path(resource).name if resource and connector.runs_functions else "")
    command = bool(made.config.get("command"))
    return SourceSettings(
        config=SourceConfig(
            name=name,
            kind=connector.kind,
            location=connector.location(location, root, entry.where()),
            root=str(root) if connector.needs_root else "",
            listed_output=source.output_schema,
            strict_arguments=source.arguments == "strict",
            exact_schema=source.input_schema == "exact",
            resource=resource,
            include=_filter(source.include),
            exclude=_filter(source.exclude),
            **made.config,
        ),
        auth=_auth(document, name, made.auth, warnings, connector),
        environment=made.environment,
        poll=None if source.poll is None else _poll(document, name),
        trace=source.trace,
        http2=source.http2,
        resilience=read_resilience(source, document, entry.path, connector, command=command),
    )


def _decoded(document: YamlDocument, name: str, root: Path) -> tuple[SourceKeys, Connector, str]:
    """Decode a source and check that its keys belong to its kind. Return the source, its connector, and the file of its resource."""
    here = partial(document.where, "sources", name)
    if not SOURCE_NAME.match(name):
        raise ConfigError(
            f"'{short(name)}' is not a source name",
            where=here(),
            suggestion="use up to 20 lower-case letters, digits and _, starting with a letter",
        )
    source = decode(document, ("sources", name), GivenSource, ConfigError)
    resource = ""
    if source.resource:
        source, resource = of_resource(source, source.resource, tuple(CONNECTORS), document, name, root)
    given = [kind for kind in CONNECTORS if getattr(source, kind) is not None]
    if len(given) != 1:
        raise ConfigError(f"source {name} must have exactly one of {', '.join(CONNECTORS)}", where=here())
    kind = given[0]
    connector = CONNECTORS[kind]
    own = {one.kind: one.own_keys | frozenset(one.keys.__struct_encode_fields__) for one in CONNECTORS.values()}
    for key in sorted(frozenset().union(*own.values()) - own[kind]):
        if getattr(source, key) != getattr(_NOTHING_GIVEN, key):
            owners = [one for one, keys in own.items() if key in keys]
            raise ConfigError(f"{key}: belongs to {' and '.join(owners)} sources", where=here(key))
    if (key := connector.server_key) and (address := getattr(source, key)) and not _is_origin(address):
        raise ConfigError(f"{key}: is not an http(s) URL without user name, query and fragment", where=here(key))
    if source.auth and (without := connector.auth_refusal):
        raise ConfigError(f"auth: does not belong to {kind} sources; {without}", where=here("auth"))
    return source, connector, resource


def _poll(document: YamlDocument, name: str) -> PollConfig:
    path = ("sources", name, "poll")
    return read_poll(decode(document, path, PollKeys, ConfigError), document, path)


def _check_account(form: Form, connector: Connector) -> None:
    """Check the account of a form. Raises `ValueError` for one that a source of this kind cannot use, or with an unknown provider."""
    if isinstance(form, UserAccount):
        if not connector.takes_accounts:
            raise ValueError(
                f"account: does not belong to {connector.kind} sources, which share a session among callers"
            )
        checked_account(form)


def _filter(given: FilterKeys | None) -> Mapping[str, Any]:
    built = {} if given is None else msgspec.to_builtins(given)
    return MappingProxyType({key: tuple(value) for key, value in built.items()})


def _is_origin(address: str) -> bool:
    try:
        parts = urlsplit(address)
        more = parts.username or parts.password or parts.query or parts.fragment
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0 and not more
    except ValueError:
        return False


def _is_anonymous(document: YamlDocument, source: str, auth: Mapping[str, Any] | str) -> bool:
    """Return True for `auth: none`. Only descriptions of HTTP APIs demand credentials; other kinds of sources may leave `auth` out."""
    if not isinstance(auth, str):
        return False
    where = document.where("sources", source, "auth")
    if auth != "none":
        raise ConfigError(
            "auth: takes credentials by the security scheme's name, or the word none",
            where=where,
            suggestion="name the scheme that this is for: auth: {api_key: …}",
        )
    return True


def _auth(
    document: YamlDocument, source: str, auth: Mapping[str, Any], warnings: list[str], connector: Connector
) -> Auth:
    parsed: dict[str, SecretReference | Mapping[str, Any]] = {}
    for scheme, value in auth.items():
        path = ("sources", source, "auth", scheme)
        if not isinstance(value, (str, dict)):
            raise ConfigError(f"auth {scheme}: must be text or a mapping", where=document.where(*path))
        try:
            parsed[scheme] = parsed_auth(value)
            if connector.names_schemes and not (scheme == HEADERS and isinstance(value, dict)):
                _check_account(read_form(parsed[scheme]), connector)
        except AuthError as error:
            raise ConfigError(
                f"{(scheme, *error.path)[-1]} {error.message}",
                where=document.where(*path, *error.path),
                suggestion=error.suggestion,
            ) from error
        except ValueError as error:
            raise ConfigError(f"auth {scheme}: {error}", where=document.where(*path)) from error
        warnings += [
            f"{document.where(*path, *key)}: a secret is written out; keep it outside with ${{env:NAME}} or ${{file:/path}}"
            for key in literals(parsed[scheme])
        ]
    return MappingProxyType(parsed)
