"""Secrets: the reference that a project writes, and the wrapped value that cannot be printed by accident."""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from toolgen.core.errors import SecretError

__all__ = ["MASK", "Secret", "SecretReference", "Unprinted", "parse_reference"]

MASK = "***"
# Optional prefix of some headers before their secret: `token ${env:NAME}`, `session=${env:NAME}`.
_REFERENCE = re.compile(r"([A-Za-z][A-Za-z0-9_.-]{0,39}[ =])?\$\{(env|file|vault|keyring|aws|gcp|azure):([^}]+)\}\Z")
_SHAPES = {
    "vault": (re.compile(r"[^/#\s]+(?:/[^/#\s]+)+#[^#]+\Z"), "write it like ${vault:secret/github#token}"),
    "aws": (re.compile(r"[A-Za-z0-9/_+=.@:-]{1,2048}(?:#[^#]+)?\Z"), "write it like ${aws:prod/github#token}"),
    "gcp": (
        re.compile(r"[A-Za-z0-9:.-]{1,128}/[A-Za-z0-9_-]{1,255}(?:@[A-Za-z0-9_-]{1,64})?(?:#[^#]+)?\Z"),
        "write it like ${gcp:my-project/github#token}",
    ),
    "azure": (
        re.compile(r"[A-Za-z0-9-]{3,24}/[A-Za-z0-9-]{1,127}(?:@[0-9a-f]{32})?(?:#[^#]+)?\Z"),
        "write it like ${azure:my-vault/github#token}",
    ),
    "keyring": (re.compile(r"[^/]+/.+\Z"), "write it like ${keyring:service/name}"),
}


class Secret:
    """Value protected against accidental printing: `repr`, `str` and formatting give `***`; `reveal` gives the value."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the value; called only where a request is built."""
        return self._value

    def __repr__(self) -> str:
        return MASK

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return MASK

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a Secret is not pickled")


class _Unencodable:
    """Value that every encoder refuses, even one that writes unknown values as text."""

    __slots__ = ()

    def __repr__(self) -> str:
        raise TypeError("a record that may contain a secret cannot be encoded")

    __str__ = __repr__

    def __reduce__(self) -> str:
        return "_UNENCODABLE"  # copies of a record are equal


_UNENCODABLE = _Unencodable()


class Unprinted(Struct, frozen=True, kw_only=True):
    """Base class of records that may contain a secret: neither `repr` nor rich, which asks msgspec for the fields, prints any."""

    _unencodable: Any = _UNENCODABLE
    """Makes encoders refuse the record, because msgspec would write its fields."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(***)"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return []


class SecretReference(Unprinted, frozen=True):
    """Secret reference, such as `${env:NAME}`, `${file:/path}`, `${vault:path#key}`, `${keyring:service/name}`, `${aws:…}`, `${gcp:…}` or
    `${azure:…}`; or a literal secret despite the advice.
    """

    provider: str  # env | file | vault | keyring | aws | gcp | azure | literal
    locator: str
    prefix: str = ""  # prefix before the value

    def __repr__(self) -> str:
        return (
            "SecretReference(literal:***)"
            if self.provider == "literal"
            else f"SecretReference({self.provider}:{self.locator})"
        )

    def __rich_repr__(self) -> list[tuple[str, str]]:
        return [("provider", self.provider), ("locator", MASK if self.provider == "literal" else self.locator)]


def parse_reference(text: str) -> SecretReference:
    """Parse a secret in a configuration file. Text other than a reference is a literal secret.

    Raises `SecretError` for `${…}` with an unknown provider, or a locator that is invalid for its provider.
    """
    if found := _REFERENCE.match(text):
        shape, suggestion = _SHAPES.get(found[2], (None, ""))
        if shape is not None and not shape.match(found[3]):
            raise SecretError("is not a known secret reference", suggestion=suggestion)
        return SecretReference(found[2], found[3], found[1] or "")
    if text.startswith("${"):
        raise SecretError(
            "is not a known secret reference",
            suggestion="use ${env:NAME}, ${file:/path}, ${vault:path#key}, ${keyring:service/name}, "
            "${aws:name#key}, ${gcp:project/name#key} or ${azure:vault/name#key}",
        )
    return SecretReference("literal", text)
