"""Secret references and the wrapped values they resolve to, at send time and not before."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from toolgen.errors import SecretError

__all__ = ["MASK", "Secret", "SecretReference", "Secrets", "parse_reference"]

MASK = "***"
# Before it, what some headers have before their secret: `token ${env:NAME}`, `session=${env:NAME}`.
_REFERENCE = re.compile(r"([A-Za-z][A-Za-z0-9_.-]{0,39}[ =])?\$\{(env|file):([^}]+)\}\Z")
_LARGEST_FILE = 65_536


@dataclass(frozen=True, slots=True)
class SecretReference:
    """`${env:NAME}` or `${file:/path}`, or a literal that somebody wrote into toolgen.yaml all the same."""

    provider: str  # env | file | literal
    locator: str
    prefix: str = ""  # sent before the value

    def __repr__(self) -> str:
        return (
            "SecretReference(literal:***)"
            if self.provider == "literal"
            else f"SecretReference({self.provider}:{self.locator})"
        )


class Secret:
    """A value nobody prints by accident: `repr`, `str` and formatting all give `***`; `reveal` gives the value."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself; called only where a request is put together."""
        return self._value

    def __repr__(self) -> str:
        return MASK

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return MASK

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a Secret is not pickled")


def parse_reference(text: str) -> SecretReference:
    """Reads a secret as written in toolgen.yaml. Text that is no reference is a literal secret.

    Raises `SecretError` for `${…}` with a provider this toolgen does not have.
    """
    if found := _REFERENCE.match(text):
        return SecretReference(found[2], found[3], found[1] or "")
    if text.startswith("${"):
        raise SecretError("is not a secret reference toolgen knows", suggestion="use ${env:NAME} or ${file:/path}")
    return SecretReference("literal", text)


class Secrets:
    """Resolves references each time one is needed, so that a rotated file or variable is seen by the next call."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._environment = environment

    def resolve(self, reference: SecretReference) -> Secret:
        """Raises `SecretError`, naming the reference, when there is no value or an empty one."""
        match reference.provider:
            case "env":
                value = self._environment.get(reference.locator, "")
                missing = f"the environment variable {reference.locator} is not set"
            case "file":
                value = _read(reference.locator)
                missing = f"the secret file {reference.locator} is empty or cannot be read"
            case _:
                value = reference.locator
                missing = "a secret in toolgen.yaml is empty"
        if not value:
            raise SecretError(missing, suggestion="set it where the gateway runs")
        return Secret(reference.prefix + value)


def _read(path: str) -> str:
    try:
        with Path(path).open(encoding="utf-8") as file:
            return file.read(_LARGEST_FILE).strip()
    except (OSError, UnicodeDecodeError):
        return ""
