"""Cases of tests/fixtures/fidelity: a description in few words, arguments, and the request that the specification demands of them."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import yaml

__all__ = ["BASE", "arguments_of", "cases", "differences", "document"]

BASE = "http://api.test"
FOLDER = Path(__file__).parents[2] / "fixtures" / "fidelity"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as quick, where it is
_OK = {"200": {"description": "ok"}}
_STRING = {"type": "string"}
_BINARY = {"type": "string", "format": "binary"}
_INTEGER = {"type": "integer"}
# One word for a schema, wherever a schema stands.
_WORDS: dict[str, dict[str, Any]] = {
    "any": {},
    "string": _STRING,
    "strings": {"type": "array", "items": _STRING},
    "integer": _INTEGER,
    "integers": {"type": "array", "items": _INTEGER},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "object": {"type": "object"},
    "binary": _BINARY,
    "binaries": {"type": "array", "items": _BINARY},
    "colour": {"type": "object", "properties": {"R": _INTEGER, "G": _INTEGER, "B": _INTEGER}},
}
_ONE = frozenset({"schema", "itemSchema", "items", "additionalProperties", "not", "if", "then", "else"})
_NAMED = frozenset({"properties", "patternProperties", "$defs", "schemas", "definitions"})
_SEVERAL = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})


def cases() -> list[tuple[str, dict[str, Any]]]:
    """(name, case), once for every version a case is for."""
    found: list[tuple[str, dict[str, Any]]] = []
    for file in sorted(FOLDER.glob("*.yaml")):
        for case in yaml.load(file.read_text(encoding="utf-8"), Loader=_LOADER):
            versions = case.get("version", "2.0" if file.stem == "swagger2" else "3.0")
            for version in versions if isinstance(versions, list) else [versions]:
                name = case["case"] if isinstance(versions, str) else f"{case['case']} ({version})"
                found.append((f"{file.stem}: {name}", {**case, "version": version}))
    return found


def document(case: dict[str, Any]) -> dict[str, Any]:
    """The whole description that a case is about."""
    old = case["version"] == "2.0"
    head: dict[str, Any] = {"info": {"title": "t", "version": "1"}}
    if old:
        head |= {"swagger": "2.0", "host": "api.test", "basePath": "/b", "schemes": ["http"]}
    else:
        head |= {"openapi": f"{case['version']}.0", "servers": [{"url": BASE}]}
    method, _, path = case.get("operation", "GET /e").partition(" ")
    operation = {"operationId": "op", "summary": "s", "responses": _OK}
    if "parameters" in case:
        operation["parameters"] = case["parameters"]
    if "body" in case:
        body = dict(case["body"])
        required, media_type = not body.pop("optional", False), body.pop("type")
        operation["requestBody"] = {"required": required, "content": {media_type: body}}
    operation |= case.get("also in the operation", {})
    item = {**case.get("also in the path", {}), method.lower(): operation}
    whole: dict[str, Any] = _spelt({**head, "paths": {path: item}, **case.get("also in the document", {})})
    return whole


def _spelt(node: Any, key: str = "") -> Any:
    """The same with every word that stands for a schema spelt out."""
    if isinstance(node, list):
        return [_word(item) if key in _SEVERAL else _spelt(item) for item in node]
    if not isinstance(node, dict):
        return _word(node) if key in _ONE else node
    if key in _NAMED:
        return {name: _word(item) for name, item in node.items()}
    return {name: _spelt(item, name) for name, item in node.items()}


def _word(node: Any) -> Any:
    return _WORDS[node] if isinstance(node, str) else _spelt(node)


def arguments_of(binding: Any, written: dict[str, Any]) -> dict[str, Any]:
    """`{place: {wire name: value}, body: value}` as the tool's own arguments."""
    arguments: dict[str, Any] = {}
    for one in binding.parameters:
        if one.name in written.get(one.in_, {}):
            arguments[one.argument] = written[one.in_][one.name]
    if binding.body is None or "body" not in written:
        return arguments
    if binding.body.argument is not None:
        return {**arguments, binding.body.argument: written["body"]}
    members = {name: argument for argument, name in binding.body.properties.items()}
    return {**arguments, **{members[name]: value for name, value in written["body"].items()}}


def differences(case: dict[str, Any], method: str, url: str, headers: dict[str, str], body: bytes | None) -> list[str]:
    """What of a request is not as the case demands; empty when it is all right."""
    found: list[str] = []
    line = f"{method} {url.removeprefix(BASE)}"
    wanted = case.get("request", case.get("operation", "GET /e"))
    if line not in ([wanted] if isinstance(wanted, str) else wanted):
        found.append(line)
    for name, values in case.get("headers", {}).items():
        allowed = values if isinstance(values, list) else [values]
        if headers.get(name) not in allowed and not _same_type(name, headers.get(name), allowed):
            found.append(f"{name}: {headers.get(name)}")
    if not _same_body(case.get("sends"), headers.get("Content-Type", ""), body):
        found.append(f"{headers.get('Content-Type')} {body!r}")
    return found


def _same_type(name: str, sent: str | None, allowed: list[Any]) -> bool:
    return name == "Content-Type" and (sent or "").lower() in [str(one).lower() for one in allowed]


def _same_body(wanted: Any, media_type: str, body: bytes | None) -> bool:
    match wanted:
        case None:
            return body is None
        case {"json": value}:
            return body is not None and _same(value, json.loads(body))
        case {"form": value}:
            return _form(body) in [_form(one.encode()) for one in ([value] if isinstance(value, str) else value)]
        case {"text": value}:
            return body == value.encode()
        case {"base64": _}:
            return body == _decoded(wanted["base64"])
        case {"parts": value}:
            parts = _parts(media_type, body or b"")
            return len(parts) == len(value) and all(map(_same_part, value, parts))
    raise AssertionError(f"a case demands {wanted!r}, which is no kind of body")


def _form(body: bytes | None) -> str:
    """With the one spelling of a space, and of what forms and URLs encode differently."""
    return (body or b"").decode("ascii").replace("%20", "+").replace("%2A", "*")


def _parts(media_type: str, body: bytes) -> list[dict[str, Any]]:
    """Name, filename, type and content of each part, read by hand so that not a byte of a header is put right."""
    mark = b"--" + media_type.rpartition("boundary=")[2].encode()
    chunks = (b"\r\n" + body).split(b"\r\n" + mark)
    assert chunks[0] == b""
    assert chunks[-1].strip() == b"--"
    found = []
    for chunk in chunks[1:-1]:
        head, _, content = chunk.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if line)
        about = re.fullmatch(r'form-data; name="([^"]*)"(?:; filename="([^"]*)")?', headers["Content-Disposition"])
        assert about is not None
        found.append({"name": about[1], "filename": about[2], "type": headers.get("Content-Type"), "content": content})
    return found


def _same_part(wanted: dict[str, Any], part: dict[str, Any]) -> bool:
    content = part["content"]
    if part["name"] != wanted["name"] or wanted.get("type", part["type"]) != part["type"]:
        return False
    if (part["filename"] is None) != ("filename" not in wanted) or wanted.get("filename", "?") not in {
        "?",
        part["filename"],
    }:
        return False
    match wanted:
        case {"text": text}:
            return bool(content == text.encode()) and (part["type"] or "text/plain") in {
                "text/plain",
                wanted.get("type"),
            }
        case {"json": value}:
            return _same(value, json.loads(content))
        case _:
            return bool(content == _decoded(wanted["base64"]))


def _same(left: Any, right: Any) -> bool:
    """Equal, and of equal types: 1, 1.0 and true are three values."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def _decoded(text: str) -> bytes:
    return base64.b64decode(text)
