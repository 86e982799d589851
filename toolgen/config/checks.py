"""Sections `middleware:` and `inspect_results:` of toolgen.yaml: a project's own checks of calls, and detectors for answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from toolgen.core.errors import ConfigError, SecretError
from toolgen.core.spelling import nearest
from toolgen.core.units import parse_duration
from toolgen.core.yaml_file import YamlDocument, apart, decode
from toolgen.model.secret import SecretReference, parse_reference
from toolgen.policy.detectors.tokens import KIND

__all__ = [
    "DecisionPoint",
    "DetectorSettings",
    "GivenDetector",
    "GivenMiddleware",
    "InspectionSettings",
    "MiddlewareSettings",
    "read_inspection",
    "read_middleware",
]

Kind: TypeAlias = Literal["python", "authzen", "opa", "cedar"]
Action: TypeAlias = Literal["label", "redact", "tokenise", "block"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)+\Z")
_LABEL = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,47}\Z")
_ORDERS = frozenset({"hidden_text", "instructions", "leaks", "classifier"})
_MAX_TIMEOUT_S, _MAX_CACHE_S = 10.0, 3600.0
_READ_S = 2.0  # seconds that `classifier` has for one answer


class _DecisionPoint(msgspec.Struct, forbid_unknown_fields=True):
    url: str
    token: str | None = None
    cache: str = "5s"


class _Cedar(msgspec.Struct, forbid_unknown_fields=True):
    policies: str
    entities: str | None = None
    cache: str = "5s"


class GivenMiddleware(msgspec.Struct, forbid_unknown_fields=True):
    """An entry of `middleware:` as it is written."""

    use: str | None = None
    options: dict[str, Any] = {}
    authzen: Annotated[Any, apart(_DecisionPoint)] = None
    opa: Annotated[Any, apart(_DecisionPoint)] = None
    cedar: Annotated[Any, apart(_Cedar)] = None
    labels: list[str] = []
    timeout: str | None = None


class DecisionPoint(Struct, frozen=True, kw_only=True):
    """Service that decides about a call: a URL, or the files of Cedar. A decision is cached for `cache_s` seconds."""

    url: str = ""
    token: SecretReference | None = None
    policies: Path | None = None
    entities: Path | None = None
    cache_s: float = 5.0


class MiddlewareSettings(Struct, frozen=True, kw_only=True):
    """Settings of a middleware: an object of a Python module (`use`), or a decision point. `where` is its place in toolgen.yaml."""

    kind: Kind
    where: str
    timeout_s: float
    root: Path
    use: str = ""
    options: dict[str, Any] = {}
    point: DecisionPoint | None = None
    labels: frozenset[str] = frozenset()


class GivenDetector(msgspec.Struct, forbid_unknown_fields=True):
    """An entry of `inspect_results:` as it is written."""

    detector: str
    then: Action | None = None
    label: str | None = None
    kinds: list[str] = []
    countries: list[str] = []
    timeout: str | None = None
    tools: list[str] = msgspec.field(default_factory=lambda: ["*"])


class DetectorSettings(Struct, frozen=True, kw_only=True):
    """Settings of a detector: the kinds it looks for (`kinds`, () for its default), the tools whose answers it inspects, the action on
    findings, and the label that the session gets, "" for none. `countries` are those of `national_ids`, `timeout_s` is the time limit of
    `classifier`."""

    detector: str
    where: str
    then: Action
    label: str
    kinds: tuple[str, ...]
    tools: tuple[str, ...]
    countries: tuple[str, ...] = ()
    timeout_s: float = 0.0


class InspectionSettings(Struct, frozen=True, kw_only=True):
    """Detectors for answers. `root` is the folder from which detectors of the project's own are imported."""

    detectors: tuple[DetectorSettings, ...]
    root: Path

    @property
    def labels(self) -> frozenset[str]:
        """Return the labels that sessions may get."""
        return frozenset(one.label for one in self.detectors if one.label)

    @property
    def tokenised(self) -> frozenset[str]:
        """Return the kinds of values that are replaced by tokens."""
        return frozenset(kind for one in self.detectors if one.then == "tokenise" for kind in one.kinds)


# Kinds of each built-in detector, by default and on request, its action, and its label.
SHIPPED: dict[str, tuple[tuple[str, ...], tuple[str, ...], Action, str]] = {
    "hidden_text": (("invisible", "bidirectional", "tags"), (), "redact", "untrusted"),
    "instructions": (("instruction",), (), "label", "untrusted"),
    "secrets": (("key", "private_key", "token", "password"), (), "redact", "secret"),
    "personal_data": (("email", "phone", "iban", "card"), ("national_id",), "label", "private"),
    "national_ids": (("national_id",), (), "label", "private"),
    "classifier": (("instruction",), (), "label", "untrusted"),
    "leaks": (("image", "data_url"), (), "redact", "untrusted"),
}


def read_middleware(
    document: YamlDocument, given: Sequence[object], root: Path, warnings: list[str]
) -> tuple[MiddlewareSettings, ...]:
    """Return the entries in order, the first outermost. Raises `ConfigError`."""
    return tuple(_middleware(document, index, root, warnings) for index in range(len(given)))


def _middleware(document: YamlDocument, index: int, root: Path, warnings: list[str]) -> MiddlewareSettings:
    path = ("middleware", index)
    where = document.where(*path)
    entry = document.data["middleware"][index]
    if isinstance(entry, str):
        return MiddlewareSettings(kind="python", where=where, timeout_s=0.05, root=root, use=_python(entry, where))
    given = decode(document, path, GivenMiddleware, ConfigError)
    named: tuple[tuple[Kind, object], ...] = (
        ("python", given.use),
        ("authzen", given.authzen),
        ("opa", given.opa),
        ("cedar", given.cedar),
    )
    kinds = [kind for kind, value in named if value is not None]
    if len(kinds) != 1:
        raise ConfigError("takes one of use, authzen, opa and cedar", where=where)
    kind = kinds[0]
    if given.options and kind != "python":
        raise ConfigError("options: belong to use:", where=document.where(*path, "options"))
    default_s = 0.05 if kind in {"python", "cedar"} else 1.0
    return MiddlewareSettings(
        kind=kind,
        where=where,
        timeout_s=_seconds(given.timeout, default_s, 0.001, _MAX_TIMEOUT_S, document, (*path, "timeout")),
        root=root,
        use=_python(given.use, where) if given.use is not None else "",
        options=given.options,
        point=None if kind == "python" else _point(document, path, kind, root, warnings),
        labels=frozenset(_label(text, document, (*path, "labels", at)) for at, text in enumerate(given.labels)),
    )


def _point(
    document: YamlDocument, path: tuple[str | int, ...], kind: Kind, root: Path, warnings: list[str]
) -> DecisionPoint:
    inside = (*path, kind)
    if kind == "cedar":
        cedar = decode(document, inside, _Cedar, ConfigError)
        entities = None if cedar.entities is None else root / cedar.entities
        cache_s = _seconds(cedar.cache, 5.0, 0.0, _MAX_CACHE_S, document, (*inside, "cache"))
        return DecisionPoint(policies=root / cedar.policies, entities=entities, cache_s=cache_s)
    given = decode(document, inside, _DecisionPoint, ConfigError)
    try:
        parts = urlsplit(given.url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.username is None
        parts.port  # noqa: B018 - raises for what is none
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError("url: takes an http(s) address without a user", where=document.where(*inside, "url"))
    token = None
    if given.token is not None:
        where = document.where(*inside, "token")
        try:
            token = parse_reference(given.token)
        except SecretError as error:
            raise ConfigError(f"token: {error.message}", where=where, suggestion=error.suggestion) from None
        if token.provider == "literal":
            warnings.append(f"{where}: a secret is written out; keep it outside with ${{env:NAME}} or ${{file:/path}}")
    cache_s = _seconds(given.cache, 5.0, 0.0, _MAX_CACHE_S, document, (*inside, "cache"))
    return DecisionPoint(url=given.url, token=token, cache_s=cache_s)


def _python(text: str, where: str) -> str:
    if not _NAME.match(text):
        raise ConfigError(
            f"'{text[:60]}' is not a name like my_package.my_check", where=where, suggestion="write module.name"
        )
    return text


def _seconds(
    text: str | None, default: float, least: float, most: float, document: YamlDocument, path: tuple[str | int, ...]
) -> float:
    if text is None:
        return default
    seconds = parse_duration(text)
    if seconds is None or not least <= seconds <= most:
        raise ConfigError(
            f"{path[-1]}: takes a time from {least:g}s to {most:g}s, like 50ms", where=document.where(*path)
        )
    return seconds


def _label(text: str, document: YamlDocument, path: tuple[str | int, ...]) -> str:
    if not _LABEL.match(text):
        raise ConfigError(
            f"'{text[:60]}' is not a label: a letter, then letters, digits, - or _", where=document.where(*path)
        )
    return text


def read_inspection(document: YamlDocument, given: Sequence[object], root: Path) -> InspectionSettings | None:
    """Read the detectors for answers; None if there are none. Raises `ConfigError`."""
    if not given:
        return None
    return InspectionSettings(detectors=tuple(_detector(document, index) for index in range(len(given))), root=root)


def _check_tokens(document: YamlDocument, path: tuple[str | int, ...], given: GivenDetector) -> None:
    """Check that tokens are used only for known kinds of values: text that is an instruction to a model must never be returned."""
    if given.detector in _ORDERS:
        raise ConfigError(
            f"then: findings of {given.detector} cannot be replaced by tokens",
            where=document.where(*path, "then"),
            suggestion="label it, redact it or block it",
        )
    if given.detector not in SHIPPED and not given.kinds:
        raise ConfigError(
            "then: tokenise needs the kinds that the detector finds",
            where=document.where(*path, "then"),
            suggestion="list them under kinds:",
        )
    for at, kind in enumerate(given.kinds):
        if not KIND.match(kind):
            raise ConfigError(
                f"'{kind[:60]}' is not a kind that a token can have: small letters, digits and _",
                where=document.where(*path, "kinds", at),
            )


def _detector(document: YamlDocument, index: int) -> DetectorSettings:
    path = ("inspect_results", index)
    where = document.where(*path)
    entry = document.data["inspect_results"][index]
    given = (
        GivenDetector(detector=entry) if isinstance(entry, str) else decode(document, path, GivenDetector, ConfigError)
    )
    if given.detector not in SHIPPED and not _NAME.match(given.detector):
        raise ConfigError(
            f"there is no detector '{given.detector[:60]}'{nearest(given.detector, list(SHIPPED))}",
            where=where,
            suggestion=f"use one of {', '.join(SHIPPED)}, or module.name of your own",
        )
    usual, more, then, label = SHIPPED.get(given.detector, ((), (), "label", "untrusted"))
    if given.detector in SHIPPED:
        for at, kind in enumerate(given.kinds):
            if kind not in (*usual, *more):
                raise ConfigError(
                    f"{given.detector} finds no '{kind[:60]}'{nearest(kind, [*usual, *more])}",
                    where=document.where(*path, "kinds", at),
                    suggestion=f"it finds {', '.join((*usual, *more))}",
                )
    if given.then == "tokenise":
        _check_tokens(document, path, given)
    _check_options(document, path, given)
    return DetectorSettings(
        detector=given.detector,
        where=where,
        then=given.then or then,
        label=label if given.label is None else _label(given.label, document, (*path, "label")) if given.label else "",
        kinds=tuple(given.kinds) or usual,
        tools=tuple(given.tools),
        countries=tuple(dict.fromkeys(given.countries)),
        timeout_s=_seconds(given.timeout, _READ_S, 0.01, _MAX_TIMEOUT_S, document, (*path, "timeout"))
        if given.detector == "classifier"
        else 0.0,
    )


def _check_options(document: YamlDocument, path: tuple[str | int, ...], given: GivenDetector) -> None:
    """Check the options that only one detector takes."""
    for name, owner, said in (
        ("countries", "national_ids", bool(given.countries)),
        ("timeout", "classifier", given.timeout is not None),
    ):
        if said and given.detector != owner:
            raise ConfigError(f"{name}: belongs to {owner}", where=document.where(*path, name))
    if given.detector == "national_ids" and not given.countries:
        raise ConfigError(
            "national_ids needs countries:",
            where=document.where(*path),
            suggestion="name those whose ids may be in answers, like countries: [DE, PL]",
        )
    if given.detector == "classifier" and given.then == "redact":
        raise ConfigError(
            "then: classifier judges a whole text, so that there is no part to redact",
            where=document.where(*path, "then"),
            suggestion="label it or block it",
        )
