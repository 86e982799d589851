"""Secrets and records that may hold one: no encoder writes them out."""

from __future__ import annotations

import contextlib
import copy
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator

import msgspec
import pytest

import toolgen
from toolgen.cli.output import json_line
from toolgen.core.canonical import canonical
from toolgen.core.errors import CanonicalError, ConfigError
from toolgen.core.json_codec import encode_json, file_json
from toolgen.model.secret import Secret, SecretReference, Unprinted


def below(kind: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for sub in kind.__subclasses__():
        yield sub
        yield from below(sub)


def every(kind: type[msgspec.Struct]) -> set[type[msgspec.Struct]]:
    """The classes below one in all modules of the package that can be imported here."""
    for found in pkgutil.walk_packages(toolgen.__path__, "toolgen."):
        if not found.name.endswith("__main__"):
            try:
                importlib.import_module(found.name)
            except (ImportError, ConfigError):  # an extra that is not installed
                continue
    return {sub for sub in below(kind) if sub.__module__.startswith("toolgen.")}


WRITERS: tuple[Callable[[object], object], ...] = (
    encode_json,
    file_json,
    json_line,
    canonical,
    msgspec.json.encode,
    msgspec.msgpack.encode,
    msgspec.to_builtins,
    lambda value: encode_json(value, str),
    lambda value: file_json(value, str),
    lambda value: msgspec.json.encode(value, enc_hook=repr),
)


NAMED = {"OutboundRequest": {"method"}, "OutboundResponse": {"status"}, "SecretReference": {"provider", "locator"}}
"""Fields that the text of a record shows, and that hold no secret: a literal one is masked, as the tests below hold it to."""


def written(value: object) -> str:
    """All that any encoder makes of a value."""
    found = []
    for write in WRITERS:
        with contextlib.suppress(TypeError, CanonicalError):
            found.append(repr(write(value)))
    return "".join(found)


def types(kind: type[msgspec.Struct]) -> dict[str, str]:
    """The types of a record's fields, as they are written."""
    found = {name: str(said) for base in kind.__mro__ for name, said in getattr(base, "__annotations__", {}).items()}
    return {name: found[name] for name in kind.__struct_fields__ if name != "_unencodable"}


def test_no_encoder_writes_out_a_record_that_may_hold_a_secret() -> None:
    kinds = every(Unprinted)
    assert len(kinds) > 15
    for kind in kinds:
        value = [kind(**{name: f"canary {name};" for name in types(kind)})]
        found = {name for name in types(kind) if f"canary {name};" in written({"a": value})}
        assert found <= NAMED.get(kind.__name__, set()), kind
        with pytest.raises(TypeError):
            encode_json(value)
        assert copy.deepcopy(value) == value


def test_secrets_among_the_fields_of_any_record_are_masked_or_refused() -> None:
    kinds = [
        kind for kind in every(msgspec.Struct) if re.search(r"Secret\b|SecretReference", " ".join(types(kind).values()))
    ]
    assert len(kinds) > 3
    for kind in kinds:
        held = {
            name: SecretReference("literal", "canary") if "SecretReference" in said else Secret("canary")
            for name, said in types(kind).items()
            if re.search(r"Secret\b|SecretReference", said)
        }
        value = kind(**dict.fromkeys(types(kind), "x") | held)
        assert "canary" not in written([value]), kind


def test_a_secret_by_itself_is_masked_or_refused() -> None:
    for value in (Secret("canary"), SecretReference("literal", "canary")):
        assert "canary" not in written({"a": [value]})
        with pytest.raises(TypeError):
            encode_json([value])
    assert json_line([Secret("canary")]) == '["***"]\n'


def test_the_writers_would_write_a_canary() -> None:
    assert written({"a": ["canary"]}).count("canary") == len(WRITERS)
