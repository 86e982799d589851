"""Rules of the converters that agent frameworks and provider APIs make of tools, as data: what makes them refuse a schema.

Each rule was found by trying the converter, or is documented by the provider. A rule is held at every schema of a tool; with `root` at the
outermost alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["CLIENTS", "RULES", "Rule", "broken", "schemas"]

CLIENTS = (
    "Amazon Bedrock",
    "AutoGen",
    "Claude API",
    "CrewAI",
    "Cursor",
    "DSPy",
    "Gemini API",
    "LangChain with Gemini",
    "LlamaIndex",
    "Mastra 0.14",
    "OpenAI API",
    "Semantic Kernel",
    "VS Code",
    "google-genai",
    "smolagents",
)
"""The converters and clients whose rules are here."""
NAMES = {
    "Amazon Bedrock": (r"[A-Za-z0-9_-]{1,64}", ""),
    "Claude API": (r"[A-Za-z0-9_-]{1,64}", ""),
    "Claude Code": (r"[A-Za-z0-9_-]{1,64}", "mcp__toolgen__"),
    "Cursor": (r"[A-Za-z0-9_:-]{1,60}", "toolgen:"),
    "Gemini API": (r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}", ""),
    "OpenAI API": (r"[A-Za-z0-9_-]{1,64}", ""),
    "VS Code": (r"[a-zA-Z0-9_-]{1,64}", "mcp_toolgen_"),
}
"""What each takes as a tool's name, and what it puts before that of a server called toolgen."""
_ARGUMENT = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")

_TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
# Pydantic's types for formats, as AutoGen maps them.
_FORMATS = frozenset(
    {
        *("uuid", "uri", "hostname", "ipv4", "ipv6", "date-time", "date", "time", "duration"),
        *("int32", "int64", "float", "double", "password"),
    }
)
_NO_RUST = re.compile(r"\(\?(?:[=!]|<[=!])|\\[1-9]|\\k")
_CHILDREN = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_MAPS = ("properties", "patternProperties", "$defs", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")


@dataclass(frozen=True, kw_only=True)
class Rule:
    """`refuses` is true of a schema that the clients cannot take. `example` is a member of an object that breaks the rule, `place` is where
    the rule is held: at every schema, at members of objects, at the branches of unions or at the root."""

    name: str
    clients: tuple[str, ...]
    refuses: Callable[[Mapping[str, Any]], bool]
    example: Any
    place: str = "anywhere"


def _repeats(values: list[Any]) -> bool:
    return any(
        value == other and type(value) is type(other) for at, value in enumerate(values) for other in values[:at]
    )


RULES = (
    Rule(
        name="a list of types",
        clients=("Semantic Kernel", "AutoGen", "DSPy"),
        refuses=lambda one: isinstance(one.get("type"), list),
        example={"type": ["string", "null"]},
    ),
    Rule(
        name="null in an enum",
        clients=("LangChain with Gemini",),
        refuses=lambda one: None in one.get("enum", ()),
        example={"enum": ["a", None]},
    ),
    Rule(
        name="a boolean additionalProperties",
        clients=("google-genai",),
        refuses=lambda one: isinstance(one.get("additionalProperties"), bool),
        example={"type": "object", "additionalProperties": False},
    ),
    Rule(
        name="a reference",
        clients=("LlamaIndex", "CrewAI", "smolagents"),
        refuses=lambda one: bool({"$ref", "$defs", "definitions"} & one.keys()),
        example={"$ref": "#/$defs/A"},
    ),
    Rule(
        name="a schema that is a boolean",
        clients=("google-genai", "AutoGen"),
        refuses=lambda one: any(isinstance(child, bool) for child in _children(one)),
        example={"type": "array", "items": True},
    ),
    Rule(
        name="a member without type",
        clients=("AutoGen",),
        refuses=lambda one: not {"type", "anyOf", "enum"} & one.keys(),
        example={"description": "Anything."},
        place="member",
    ),
    Rule(
        name="a branch without type",
        clients=("AutoGen",),
        refuses=lambda one: one.get("type") not in _TYPES,
        example={"anyOf": [{"anyOf": [{"type": "string"}, {"type": "boolean"}]}, {"type": "null"}]},
        place="branch",
    ),
    Rule(
        name="a const or an enum without type",
        clients=("AutoGen", "Gemini API"),
        refuses=lambda one: bool({"const", "enum"} & one.keys()) and "type" not in one,
        example={"const": "a"},
    ),
    Rule(
        name="an enum whose values repeat",
        clients=("OpenAI API", "LlamaIndex"),
        refuses=lambda one: _repeats(one.get("enum", [])),
        example={"type": "string", "enum": ["a", "a"]},
    ),
    Rule(
        name="an enum of other values than texts",
        clients=("LangChain with Gemini", "LlamaIndex", "AutoGen"),
        refuses=lambda one: any(not isinstance(value, str) for value in one.get("enum", ())),
        example={"type": "integer", "enum": [1, 2]},
    ),
    Rule(
        name="a format that needs one more package",
        clients=("AutoGen", "CrewAI"),
        refuses=lambda one: one.get("format") in {"email", "idn-email"},
        example={"type": "string", "format": "email"},
    ),
    Rule(
        name="a leading underscore",
        clients=("LlamaIndex", "CrewAI", "AutoGen"),
        refuses=lambda one: any(name.startswith("_") for name in one.get("properties", ())),
        example={"type": "object", "properties": {"_id": {"type": "string"}}, "required": ["_id"]},
    ),
    Rule(
        name="an enum of objects or lists",
        clients=("LlamaIndex", "AutoGen"),
        refuses=lambda one: any(isinstance(value, (dict, list)) for value in one.get("enum", ())),
        example={"enum": [[1]]},
    ),
    Rule(
        name="an empty enum",
        clients=("Gemini API", "AutoGen"),
        refuses=lambda one: one.get("enum") == [],
        example={"type": "string", "enum": []},
    ),
    Rule(
        name="an unknown format",
        clients=("AutoGen",),
        refuses=lambda one: one.get("format", "date") not in _FORMATS,
        example={"type": "string", "format": "repo.nwo"},
    ),
    Rule(
        name="look-around in a pattern",
        clients=("AutoGen",),
        refuses=lambda one: bool(_NO_RUST.search(str(one.get("pattern", "")))),
        example={"type": "string", "pattern": "^(?!a)"},
    ),
    Rule(
        name="an array without items",
        clients=("OpenAI API", "Gemini API", "Semantic Kernel", "VS Code", "Cursor"),
        refuses=lambda one: one.get("type") == "array" and "items" not in one,
        example={"type": "array"},
    ),
    Rule(
        name="an empty required",
        clients=("Mastra 0.14", "Gemini API"),
        refuses=lambda one: one.get("required") == [],
        example={"type": "object", "required": []},
    ),
    Rule(
        name="a required member that is not described",
        clients=("Gemini API",),
        refuses=lambda one: not set(one.get("required", ())) <= one.get("properties", {}).keys(),
        example={"type": "object", "required": ["a"]},
    ),
    Rule(
        name="oneOf",
        clients=("Gemini API", "LlamaIndex"),
        refuses=lambda one: "oneOf" in one,
        example={"oneOf": [{"type": "string"}, {"type": "integer"}]},
    ),
    Rule(
        name="allOf",
        clients=("Gemini API", "google-genai", "LlamaIndex"),
        refuses=lambda one: "allOf" in one,
        example={"allOf": [{"type": "string"}, {"maxLength": 3}]},
    ),
    Rule(
        name="not, if or unevaluated members",
        clients=("Gemini API", "Mastra 0.14"),
        refuses=lambda one: bool(
            {"not", "if", "then", "else", "unevaluatedProperties", "unevaluatedItems"} & one.keys()
        ),
        example={"type": "string", "not": {"const": "a"}},
    ),
    Rule(
        name="members beside a union",
        clients=("AutoGen", "LangChain with Gemini"),
        refuses=lambda one: "anyOf" in one and bool({"type", "properties", "items", "enum"} & one.keys()),
        example={"type": "object", "properties": {"a": {"type": "string"}}, "anyOf": [{"required": ["a"]}]},
    ),
    Rule(
        name="a default of null",
        clients=("Gemini API",),
        refuses=lambda one: one.get("default", 0) is None,
        example={"type": "string", "default": None},
    ),
    Rule(
        name="a root that is no object",
        clients=("OpenAI API", "Gemini API", "Semantic Kernel", "Claude API", "Amazon Bedrock", "VS Code"),
        refuses=lambda one: one.get("type") != "object" or "properties" not in one,
        example={"type": "string"},
        place="root",
    ),
    Rule(
        name="a name of an argument beyond ASCII or 64 characters",
        clients=("Claude API", "Amazon Bedrock"),
        refuses=lambda one: not all(map(_ARGUMENT.match, one.get("properties", ()))),
        example={"type": "object", "properties": {"größe": {"type": "string"}}},
        place="root",
    ),
    Rule(
        name="a union at the root",
        clients=("OpenAI API", "Claude API", "Amazon Bedrock"),
        refuses=lambda one: bool({"anyOf", "oneOf", "allOf", "not", "enum"} & one.keys()),
        example={"anyOf": [{"type": "object"}]},
        place="root",
    ),
)


def _children(schema: Mapping[str, Any]) -> Iterator[Any]:
    for key in _CHILDREN:
        if key in schema and not (key == "additionalProperties" and isinstance(schema[key], bool)):
            yield schema[key]
    for key in _MAPS:
        yield from schema.get(key, {}).values()
    for key in _LISTS:
        yield from schema.get(key, ())


def schemas(schema: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every schema within one, with its place: root, member, branch or inner."""
    todo: list[tuple[str, Any]] = [("root", schema)]
    while todo:
        place, one = todo.pop()
        if not isinstance(one, Mapping):
            continue
        yield place, one
        members = one.get("properties", {}).values()
        branches = [*one.get("anyOf", ()), *one.get("oneOf", ())]
        todo += [("member", child) for child in members] + [("branch", child) for child in branches]
        known = {id(child) for child in (*members, *branches)}
        todo += [("inner", child) for child in _children(one) if id(child) not in known]


def broken(schema: Mapping[str, Any], rules: tuple[Rule, ...] = RULES) -> Iterator[str]:
    """The rules that a tool's arguments break, each with the schema that does."""
    for place, one in schemas(schema):
        for rule in rules:
            if rule.place in {"anywhere", place} and rule.refuses(one):
                yield f"{rule.name} ({', '.join(rule.clients)}): {str(one)[:200]}"
