"""Bindings of prompts and resources that are not functions: texts of files, folders, and tools read by URI."""

from __future__ import annotations

import msgspec

from toolgen.model.binding_properties import BindingProperties

__all__ = ["FolderBinding", "TextMessage", "TextPromptBinding"]


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
    """File below the folder of its source, which is read when it is asked for. `path` is relative to that folder."""

    path: str

    @property
    def kind(self) -> str:
        return "folder"
