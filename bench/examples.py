"""Gives every example that a folder of descriptions documents to the tool it belongs to: is it accepted, and delivered unchanged?

`python -m bench.examples ../shared/corpus/openapi` from the project's folder. Examples of parameters and of request bodies are taken
as written; whether one is an example of its own schema is judged by openapi-schema-validator against the description itself.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
from openapi_schema_validator import OAS30WriteValidator, OAS31Validator

from toolgen.connectors.openapi.documents import Documents, UnresolvedRefError
from toolgen.connectors.openapi.proof.requests import ToolProof
from toolgen.connectors.openapi.proof.spec_operation import SERVER, Descriptions, SpecOperation
from toolgen.connectors.openapi.read import read_openapi
from toolgen.connectors.proof.examples import Examples, valid_for
from toolgen.connectors.source import SourceConfig
from toolgen.core.errors import DescriptionError
from toolgen.model.tool import HttpBinding, Tool

Found = tuple[str, str, str, Any]  # place, name, media type, value


def main() -> None:
    """Prints, over all descriptions, how many examples there are and what becomes of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--shown", type=int, default=5, help="examples to show of each outcome")
    options = parser.parse_args()
    counts: dict[str, Counter[str]] = {"parameter": Counter(), "body": Counter()}
    shown: dict[str, list[str]] = {}
    for path in sorted(options.folder.rglob("*")):
        if not path.is_file() or options.only not in path.name:
            continue
        try:
            reading = read_openapi(SourceConfig(name="s", kind="openapi", location=str(path)))
        except DescriptionError:
            continue
        documents = Documents(path)
        descriptions = Descriptions(documents)
        for tool in reading.tools:
            described = descriptions.operation(tool.origin)
            for found in documented(documents, tool.origin):
                outcome, detail = judge(tool, described, found)
                counts["body" if found[0] == "body" else "parameter"][outcome] += 1
                shown.setdefault(outcome, []).append(f"{path.name[:28]} {tool.name} {found[1]}: {detail}"[:300])
    for kind, counter in counts.items():
        total = counter.total() - counter["is not of the media type that is sent"]
        print(f"{kind} examples: {total}")
        for outcome, count in counter.most_common():
            print(f"  {count:6} {count / max(total, 1):6.1%} {outcome}")
    for outcome, lines in shown.items():
        if outcome != "delivered unchanged":
            print(f"\n{outcome}")
            for line in lines[: options.shown]:
                print(f"  {line}")


def documented(documents: Documents, origin: str) -> Iterator[Found]:
    """Every example an operation documents for what it is sent."""
    tokens = [unquote(token).replace("~1", "/").replace("~0", "~") for token in origin.split("/")[2:]]
    item = documents.follow(documents.root["paths"][tokens[0]])
    raw: Any = item
    for token in tokens[1:]:
        raw = raw[token]
    merged = {}
    for written in [*(item.get("parameters") or ()), *(raw.get("parameters") or ())]:
        one = documents.follow(written)
        merged[one["in"], one["name"]] = one
    for (place, name), one in merged.items():
        if place == "formData":
            continue
        holder = {**one, "schema": one.get("schema", one if place != "body" else {})}
        values = [*_values(documents, holder), *([one["x-example"]] if "x-example" in one else [])]
        yield from ((place, name, "", value) for value in values)
    body = documents.follow(raw.get("requestBody"))
    for media_type, written in ((body or {}).get("content") or {}).items():
        media = documents.follow(written)
        yield from (("body", "", media_type, value) for value in _values(documents, media or {}))


def _values(documents: Documents, holder: Mapping[str, Any]) -> list[Any]:
    """Of a parameter or media type itself; else of its schema."""
    found = [holder["example"]] if "example" in holder else []
    named = holder.get("examples")
    for written in named.values() if isinstance(named, dict) else ():
        try:
            one = documents.follow(written)
        except UnresolvedRefError:
            continue
        if isinstance(one, dict) and ("value" in one or "dataValue" in one):
            found.append(one.get("dataValue", one.get("value")))
    if found:
        return found
    schema = documents.follow(holder.get("schema"))
    if not isinstance(schema, dict):
        return []
    listed = schema.get("examples") if isinstance(schema.get("examples"), list) else []
    return [schema["example"]] if "example" in schema else list(listed)


def judge(tool: Tool, described: SpecOperation, found: Found) -> tuple[str, str]:
    """Outcome of one example, and a reason in a word."""
    place, name, media_type, value = found
    binding = tool.binding
    assert isinstance(binding, HttpBinding)
    body = binding.body
    sends = "" if body is None else body.media_type.partition(";")[0].strip()
    if place == "body" and media_type and sends != media_type.partition(";")[0].strip():
        return "is not of the media type that is sent", media_type
    arguments = _arguments(binding, found)
    if arguments is None:
        return "has no argument (a credential, or a header that is the gateway's)", name
    base = next(iter(Examples(tool.input_schema, seed="0").take(1)), {})
    given = {
        **{key: item for key, item in base.items() if key not in _of_body(binding) or place != "body"},
        **arguments,
    }
    properties = tool.input_schema.get("properties") or {}
    fits = _fits(described, found)
    if unknown := sorted(set(arguments) - set(properties)):
        return f"is {fits} and holds what the tool does not take", ", ".join(unknown)
    required = tool.input_schema.get("required") or ()
    if missing := [key for key in required if key not in given]:
        return f"is {fits} and lacks what is required", ", ".join(missing)
    for error in valid_for(tool.input_schema).iter_errors(given):
        if not error.instance_path or error.instance_path[0] in arguments:
            return f"is {fits} and refused by the tool's schema", f"{error.message[:150]} at {error.schema_path}"
    bound = msgspec.structs.replace(binding, servers=(SERVER,))
    reason = ToolProof(tool, bound, described).run(given)
    if reason is None:
        return "delivered unchanged" if fits == "valid" else f"is {fits}, and delivered unchanged all the same", str(
            value
        )[:80]
    return f"is {fits} and not delivered", reason


def _of_body(binding: HttpBinding) -> set[str]:
    body = binding.body
    return set() if body is None else {body.argument} if body.argument is not None else set(body.properties)


def _arguments(binding: HttpBinding, found: Found) -> dict[str, Any] | None:
    place, name, _, value = found
    if place != "body":
        return next(({one.argument: value} for one in binding.parameters if (one.in_, one.name) == (place, name)), None)
    if binding.body is None:
        return None
    if binding.body.argument is not None:
        return {binding.body.argument: value}
    if not isinstance(value, dict):
        return {"body": value}
    names = {wire: argument for argument, wire in binding.body.properties.items()}
    return {names.get(key, key): item for key, item in value.items()}


def _fits(described: SpecOperation, found: Found) -> str:
    """`valid` or `invalid`, by the description's own schema."""
    place, name, media_type, value = found
    if place == "body":
        content = described.body["content"] if described.body is not None else {}
        schema = (content.get(media_type) or next(iter(content.values()), {})).get("schema", {})
    else:
        one = next(one for one in described.parameters if (one["in"], one["name"]) == (place, name))
        schema = next(iter((one.get("content") or {"": one}).values())).get("schema", {})
    kind = OAS31Validator if described.version in {"3.1", "3.2"} else OAS30WriteValidator
    root = {**schema, "components": described.document["components"]} if isinstance(schema, dict) else schema
    return "valid" if kind(root).is_valid(value) else "invalid by its own schema"


if __name__ == "__main__":
    main()
