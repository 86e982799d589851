"""Routes below /v1/prompts, /v1/resources and /v1/skills in the OpenAPI document."""

from __future__ import annotations

from toolgen.frontends.rest.context import PROMPTS, READ, RESOURCES, SKILLS, TEMPLATES
from toolgen.frontends.rest.openapi_operations import answer, get, path, post, query, responses, whole
from toolgen.frontends.rest.openapi_schemas import TEXT, Node, described, ref
from toolgen.frontends.rest.tools import DEFAULT_PAGE, MAX_PAGE
from toolgen.model.uri_template import MAX_URI_LENGTH

__all__ = ["context_paths", "context_schemas"]

_CODES = ("403", "404", "429", "503")


def context_paths() -> Node:
    """Return their operations."""
    page = [query("limit", whole(MAX_PAGE, DEFAULT_PAGE)), query("cursor", TEXT, "`next_cursor` of the page before.")]
    listed = ("404", "503")
    return {
        PROMPTS: get(
            "listPrompts",
            "The prompts this principal may get, in name order",
            responses(answer("A page of prompts.", "Prompts"), *listed),
            page,
        ),
        f"{PROMPTS}/{{name}}": post(
            "getPrompt",
            "The messages of a prompt",
            _ended(answer("The messages.", "PromptMessages")),
            [path("name", {"type": "string", "maxLength": 128})],
            "PromptBody",
        ),
        RESOURCES: get(
            "listResources",
            "The resources this principal may read, by URI",
            responses(answer("A page of resources.", "Resources"), *listed),
            page,
        ),
        TEMPLATES: get(
            "listResourceTemplates",
            "The templates of which this principal may read some resource, by URI",
            responses(answer("A page of templates.", "ResourceTemplates"), *listed),
            page,
        ),
        READ: post(
            "readResource",
            "The contents of a resource: texts, and files in base64",
            _ended(answer("The contents.", "ResourceContents")),
            [],
            "ResourceRead",
        ),
        SKILLS: get(
            "listSkills",
            "The skills this principal may read, by URI, with the digests of their files",
            responses(answer("A page of skills.", "Skills"), *listed),
            page,
        ),
    }


def _ended(fine: Node) -> Node:
    """Return the statuses of a read, which may fail like a call."""
    failed = {
        "500": "The function or the gateway failed.",
        "502": "The system behind it failed.",
        "504": "The system behind it did not answer in time.",
    }
    return {**responses(fine, *_CODES), **{status: answer(text, "Refusal") for status, text in failed.items()}}


def context_schemas() -> Node:
    """Return their schemas."""
    properties: Node = {**dict.fromkeys(("name", "title", "description"), TEXT), "values": _list(TEXT)}
    argument = described(properties, "name")
    properties = {**properties, "required": {"type": "boolean"}}
    prompt_argument = described(properties, "name", "required")
    about: Node = {
        **dict.fromkeys(("name", "title", "description", "media_type", "digest"), TEXT),
        "size": {"type": "integer"},
        "icons": _list({"type": "object"}),
    }
    message = described({"role": {"enum": ["user", "assistant"]}, "content": {}}, "role", "content")
    content = described({**dict.fromkeys(("uri", "media_type", "text", "base64"), TEXT)}, "uri", "media_type")
    file = described({"uri": TEXT, "digest": TEXT, "size": {"type": "integer"}}, "uri", "digest", "size")
    return {
        "Prompt": described(
            {
                **dict.fromkeys(("name", "title", "description", "digest"), TEXT),
                "arguments": _list(prompt_argument),
                "icons": _list({"type": "object"}),
            },
            "name",
            "arguments",
        ),
        "Prompts": described({"prompts": _list(ref("Prompt")), "next_cursor": TEXT}, "prompts"),
        "PromptBody": {
            **described({"arguments": {"type": "object", "additionalProperties": TEXT}}),
            "additionalProperties": False,
        },
        "PromptMessages": described(
            {"call_id": TEXT, "description": TEXT, "messages": _list(message)}, "call_id", "messages"
        ),
        "Resource": described({"uri": TEXT, **about}, "uri", "name"),
        "Resources": described({"resources": _list(ref("Resource")), "next_cursor": TEXT}, "resources"),
        "ResourceTemplate": described(
            {"uri_template": TEXT, **about, "variables": _list(argument)}, "uri_template", "name", "variables"
        ),
        "ResourceTemplates": described({"templates": _list(ref("ResourceTemplate")), "next_cursor": TEXT}, "templates"),
        "ResourceRead": {
            **described({"uri": {"type": "string", "minLength": 1, "maxLength": MAX_URI_LENGTH}}, "uri"),
            "additionalProperties": False,
        },
        "Skill": described(
            {"uri": TEXT, "front_matter": {"type": "object"}, "files": _list(file), "dynamic": {"const": True}},
            "uri",
            "front_matter",
        ),
        "Skills": described({"skills": _list(ref("Skill")), "next_cursor": TEXT}, "skills"),
        "ResourceContents": described({"contents": _list(content)}, "contents"),
    }


def _list(items: Node) -> Node:
    return {"type": "array", "items": items}
