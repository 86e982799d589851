"""Bindings of prompts and resources that are not functions: texts of files, folders, and tools read by URI."""

from __future__ import annotations

from typing import Any

import msgspec

from toolgen.model.binding_properties import BindingProperties
from toolgen.model.schema import JsonObject, Schema
from toolgen.model.uri_variables import typed_value

__all__ = ["FolderBinding", "SkillFileBinding", "TextMessage", "TextPromptBinding", "ToolResourceBinding"]


class TextMessage(msgspec.Struct, frozen=True, kw_only=True):
    """Message of a prompt file: its text has `{{name}}` in the places of arguments."""

    role: str
    text: str


class TextPromptBinding(BindingProperties, frozen=True, kw_only=True, tag_field="kind", tag="text_prompt"):
    """Prompt of a file, as it was built."""

    messages: tuple[TextMessage, ...]

    @property
    def kind(self) -> str:
        return "text_prompt"


class FolderBinding(BindingProperties, frozen=True, kw_only=True, tag_field="kind", tag="folder"):
    """File below the folder of its source, read at each request. `path` is relative to that folder."""

    path: str

    @property
    def kind(self) -> str:
        return "folder"


class SkillFileBinding(BindingProperties, frozen=True, kw_only=True, tag_field="kind", tag="skill_file"):
    """File of a skill below the folder of its source, read at each request if it still has the bytes of the build."""

    path: str
    digest: str
    size: int

    @property
    def kind(self) -> str:
        return "skill_file"


class ToolResourceBinding(BindingProperties, frozen=True, kw_only=True, tag_field="kind", tag="tool_resource"):
    """Resource that a call of a tool reads: the variables of its URI are arguments, in addition to the `fixed` ones."""

    tool: str
    fixed: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def kind(self) -> str:
        return "tool_resource"

    @property
    def reading_tool(self) -> str:
        return self.tool

    def reading_arguments(self, variables: JsonObject, schema: Schema) -> JsonObject:
        return {**{name: typed_value(value, schema, name) for name, value in variables.items()}, **self.fixed}
