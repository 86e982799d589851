"""Unmarshalling of a request by openapi-core; the only module that needs it and its parts."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterable, Mapping
from copy import copy
from functools import cache
from typing import Any
from urllib.parse import unquote, unquote_plus

from jsonschema_path import SchemaPath
from openapi_core import V30RequestUnmarshaller, V31RequestUnmarshaller, V32RequestUnmarshaller
from openapi_core.datatypes import RequestParameters
from werkzeug.datastructures import Headers, ImmutableMultiDict

from toolgen.connectors.openapi.proof.received import BODY, Received
from toolgen.connectors.openapi.proof.spec_operation import SERVER, SpecOperation

__all__ = ["BrokenJudgeError", "Unmarshalled", "unmarshal", "unmarshaller"]

Unmarshalled = tuple[Mapping[tuple[str, str], Any], Mapping[tuple[str, str], str]]
"""Values and complaints by (place, name); `BODY` is the place of a complete body."""

_UNMARSHALLERS = {"3.1": V31RequestUnmarshaller, "3.2": V32RequestUnmarshaller}
# It logs errors that it then raises or works around.
logging.getLogger("openapi_core").setLevel(logging.CRITICAL)


class BrokenJudgeError(Exception):
    """Exception of openapi-core itself, which is not a judgement."""


class _AsText(dict[str, Any]):
    """Unmarshallers for all formats that leave text unchanged: no argument becomes a date or bytes, and no format is unknown."""

    def __contains__(self, name: object) -> bool:
        return True

    def __getitem__(self, name: str) -> Any:
        return _unchanged


def _unchanged(value: Any) -> Any:
    return value


class _ReceivedRequest:
    """openapi-core's Request protocol."""

    def __init__(self, described: SpecOperation, received: Received) -> None:
        self.host_url = SERVER
        self.method = described.method.lower()
        self.path = SERVER + described.path
        self.path_pattern = self.path
        self.body = received.body
        self.content_type = received.content_type
        self.parameters = RequestParameters(
            path={name: unquote(value) for name, value in received.path.items()},
            query=ImmutableMultiDict([(name, unquote_plus(value)) for name, value in received.query]),
            header=Headers(list(received.headers.items())),
            cookie=ImmutableMultiDict([(name, unquote_plus(value)) for name, value in received.cookies]),
        )


def unmarshaller(version: str, document: Mapping[str, Any], json_types: Iterable[str]) -> Any:
    """Return openapi-core's request reader for a document, as `Any` because the reader classes share no type."""
    kind = _UNMARSHALLERS.get(version, V30RequestUnmarshaller)
    return kind(
        SchemaPath.from_dict(dict(document)),
        **_factories(kind),
        extra_format_unmarshallers=_AsText(),
        # openapi-core reads application/json, and treats other JSON media types as bytes.
        extra_media_type_deserializers=dict.fromkeys(json_types, _from_json),
    )


class _SharedChecks:
    """Shared format checks. openapi-core copies them for every schema, which takes a third of a proof, only to allow additions."""

    format_checker: Any

    def get_format_checker(self, format_validators: Any = None, extra_format_validators: Any = None) -> Any:
        if format_validators is None and not extra_format_validators:
            return self.format_checker
        return super().get_format_checker(format_validators, extra_format_validators)  # type: ignore[misc]


@cache
def _factories(kind: Any) -> dict[str, Any]:
    """Return the default factories of an unmarshaller with shared format checks."""
    built: dict[str, Any] = {}
    for name in ("schema_unmarshallers_factory", "schema_casters_factory"):
        built[name] = copy(getattr(kind, name))
        validators = copy(built[name].schema_validators_factory)
        plain = type(validators)
        validators.__class__ = type(plain.__name__, (_SharedChecks, plain), {})
        built[name].schema_validators_factory = validators
    return built


def _from_json(value: bytes, **_: str) -> Any:
    return json.loads(value)


def unmarshal(reader: Any, described: SpecOperation, received: Received) -> Unmarshalled:
    """Read a request with openapi-core. Raises `BrokenJudgeError` if it ends with an exception, which is no judgement."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = reader.unmarshal(_ReceivedRequest(described, received))
        except Exception as error:
            raise BrokenJudgeError(f"openapi-core ends with {type(error).__name__}: {error}"[:200]) from error
    values: dict[tuple[str, str], Any] = {}
    complaints: dict[tuple[str, str], str] = {}
    for place in ("path", "query", "header", "cookie"):
        for name, value in getattr(result.parameters, place).items():
            values[place, name] = value
    if result.body is not None:
        values[BODY] = result.body
    for fault in result.errors:
        where = (getattr(fault, "location", ""), getattr(fault, "name", ""))
        complaints[where if where[0] else BODY] = _complaint(fault)
    return values, complaints


def _complaint(error: BaseException) -> str:
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    inner = getattr(cause, "schema_errors", None)
    detail = "; ".join(str(getattr(one, "message", one)) for one in list(inner)[:3]) if inner else str(cause)
    return detail[:300]
