"""Second judge of requests: openapi-core unmarshals a request, and this module knows the requests that it cannot judge.

openapi-core is used only for requests that it can read. The limits were found in its source (0.23), and each is reported per argument. It
splits values after decoding them, does not gather exploded objects, does not read the path styles label and matrix, and leaves a value as
text if a schema has no single type.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from toolgen.connectors.openapi.proof.reader import Absent, is_json, style_of
from toolgen.connectors.openapi.proof.received import Received
from toolgen.connectors.openapi.proof.spec_operation import SpecOperation
from toolgen.core.errors import ConfigError

__all__ = ["RequestJudge", "RequestJudgement", "unable", "unable_body"]

_PRIMITIVE = frozenset({"string", "integer", "number", "boolean"})
_UNKNOWN = "openapi-core leaves text where a schema has no single type"


class RequestJudgement(Struct, frozen=True, kw_only=True):
    """Values and complaints by (place, wire name); `BODY` is the whole body. `broken`: openapi-core could not judge the request at all."""

    values: Mapping[tuple[str, str], Any]
    complaints: Mapping[tuple[str, str], str]
    broken: str = ""


class RequestJudge:
    """Reader of the requests of one operation."""

    def __init__(self, described: SpecOperation) -> None:
        """Prepare the reader. Raises `ConfigError` when openapi-core is not installed."""
        try:
            # Only this command needs the dependency.
            from toolgen.connectors.openapi.proof import unmarshal  # noqa: PLC0415
        except ImportError as error:
            raise ConfigError(
                "`toolgen verify` reads requests with openapi-core, which is not installed",
                suggestion="pip install 'toolgen[verify]'",
            ) from error
        self._unmarshal = unmarshal
        self._described = described
        document = dict(described.document)
        kept = [one for one in described.parameters if not _never(described, one)]
        content = _concrete(described)
        (method,) = document["paths"][described.path]
        operation = {**document["paths"][described.path][method], "parameters": kept}
        if described.body is not None:
            operation["requestBody"] = {**described.body, "content": content}
        document["paths"] = {described.path: {method: operation}}
        json_types = [name.partition(";")[0].strip() for name in content if is_json(name)]
        self._reader = unmarshal.unmarshaller(described.version, document, json_types)

    def read(self, received: Received) -> RequestJudgement:
        """Read a request with openapi-core."""
        try:
            values, complaints = self._unmarshal.unmarshal(self._reader, self._described, received)
        except self._unmarshal.BrokenJudgeError as error:
            return RequestJudgement(values={}, complaints={}, broken=str(error))
        return RequestJudgement(values=values, complaints=complaints)


def _concrete(described: SpecOperation) -> Mapping[str, Any]:
    """Return the media types of the body. A range that contains JSON becomes JSON, because openapi-core reads a range as bytes."""
    written = described.body["content"] if described.body is not None else {}
    ranges = [media for name, media in written.items() if name.strip() in {"*/*", "application/*"}]
    plain = {name: media for name, media in written.items() if "*" not in name}
    return {**({"application/json": ranges[0]} if ranges else {}), **plain}


def unable(described: SpecOperation, parameter: Mapping[str, Any], sent: Any) -> str:
    """Return the reason why openapi-core cannot judge this value of this parameter, or ""."""
    if isinstance(sent, Absent) or sent is None or sent in ("", [], {}):
        return "nothing to read"
    if reason := _never(described, parameter):
        return reason
    style, explode = style_of(parameter)
    schema = described.schema(parameter.get("schema", {}))
    if "content" in parameter or schema["type"] in _PRIMITIVE:
        return ""
    if schema["type"] == "array":
        return "" if explode and style == "form" else _unable_joined(sent, style)
    if not isinstance(sent, Mapping) or not _known_members(described, schema, sent):
        return _UNKNOWN
    if style == "deepObject":
        return "" if all(re.fullmatch(r"\w+", name, re.ASCII) for name in sent) else "openapi-core reads only \\w names"
    return _unable_joined([*sent, *sent.values()], style)


def _never(described: SpecOperation, parameter: Mapping[str, Any]) -> str:
    """Return the reason why openapi-core cannot judge any value of a parameter, or "".

    Such parameters are not shown to openapi-core, because some of them make it raise an exception.
    """
    if parameter["in"] == "querystring":
        return "openapi-core does not read `in: querystring`"
    if "content" in parameter:
        (media_type,) = list(parameter["content"])[:1]
        return "" if is_json(media_type) else "openapi-core reads only JSON there"
    style, explode = style_of(parameter)
    if style not in {"form", "simple", "pipeDelimited", "deepObject"}:
        return f"openapi-core does not read the style {style}"
    if (style, explode) in {("deepObject", False), ("pipeDelimited", True)}:
        return f"openapi-core does not read {style} with explode: {str(explode).lower()}"
    if style == "deepObject" and any(one["name"].startswith(f"{parameter['name']}[") for one in described.parameters):
        return "openapi-core also reads parameters whose names begin with the same text"
    schema = described.schema(parameter.get("schema", {}))
    kind = schema.get("type") if isinstance(schema, dict) else None
    if isinstance(schema, dict) and schema.get("readOnly") is True:
        return "the description calls a parameter read-only, and openapi-core refuses it for that"
    if style == "deepObject" and kind != "object":
        return "openapi-core reads nothing but objects in the style deepObject"
    if kind == "array":
        return "" if _known(described, schema.get("items", {})) else _UNKNOWN
    if kind == "object":
        return "openapi-core does not gather an exploded object" if style == "form" and explode else ""
    return "" if isinstance(kind, str) and kind in _PRIMITIVE else _UNKNOWN


def _unable_joined(values: Any, style: str) -> str:
    if style == "pipeDelimited" and any("|" in str(one) for one in values):
        return "openapi-core decodes before it splits"
    if any("," in str(one) or "=" in str(one) or str(one) == "" for one in values):
        return "openapi-core decodes before it splits"
    return ""


def _known(described: SpecOperation, written: Any) -> bool:
    schema = described.schema(written)
    kind = schema.get("type") if isinstance(schema, dict) else None
    return isinstance(kind, str) and kind in _PRIMITIVE


def _known_members(described: SpecOperation, schema: Mapping[str, Any], sent: Mapping[str, Any]) -> bool:
    properties = schema.get("properties") or {}
    return all(
        _known(described, properties[name]) if name in properties else isinstance(value, str)
        for name, value in sent.items()
    )


def unable_body(described: SpecOperation, content_type: str, sent: Any) -> str:
    """Return the reason why openapi-core cannot judge this body, or ""."""
    if isinstance(sent, Absent) or sent is None:
        return "nothing to read"
    if is_json(content_type):
        return ""
    if content_type.startswith("multipart/"):
        return "openapi-core reads multipart as ASCII text"
    if content_type == "application/x-www-form-urlencoded":
        return "openapi-core reads forms without types and encodings"
    return f"openapi-core does not read {content_type.partition(';')[0]}"
