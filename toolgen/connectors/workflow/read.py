"""Reader of a file of workflows: a draft and an incomplete tool for each, which the build completes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from toolgen.connectors.assigned_names import held_names
from toolgen.connectors.naming import assign, from_identifier, words
from toolgen.connectors.source import SourceConfig, SourceReading
from toolgen.connectors.workflow.arazzo import read_arazzo, sources_of
from toolgen.connectors.workflow.draft import WorkflowDraft
from toolgen.connectors.workflow.short_form import read_short_form
from toolgen.core.errors import DescriptionError
from toolgen.core.files import read_file
from toolgen.core.yaml_file import YamlDocument, read
from toolgen.model.manifest import Problem, SourceInfo
from toolgen.model.tool import Effect, Tool, WorkflowBinding

__all__ = ["Drafts", "read_workflow"]

_MAX_SIZE = 4 * 1024 * 1024


class Drafts(Struct, frozen=True, kw_only=True):
    """Workflows of one source by their ids, and the URLs of the descriptions that it names."""

    workflows: Mapping[str, WorkflowDraft] = {}
    sources: Mapping[str, str] = {}


def read_workflow(config: SourceConfig) -> SourceReading:
    """Read a file. The tools of the reading call nothing yet, because their steps are linked when all tools are known; `drafts` has the
    steps.

    Raises `DescriptionError` for a file that is neither Arazzo 1.0 nor the short form.
    """
    path = Path(config.location)
    document = read(path, path.name, DescriptionError)
    if not isinstance(document.data, dict):
        raise DescriptionError("contains no workflows", where=document.where())
    arazzo = "arazzo" in document.data
    sources = sources_of(document) if arazzo else {}
    read_all = read_arazzo if arazzo else read_short_form
    drafts: dict[str, WorkflowDraft] = {}
    problems: list[Problem] = []
    for name, read_as in read_all(document):
        found = _odd_number(document, name) or read_as
        if isinstance(found, WorkflowDraft):
            drafts[name] = found
        else:
            problems.append(
                Problem(
                    level="error",
                    source=config.name,
                    origin=name,
                    code="bad_workflow",
                    message=f"{found}; the workflow has no tool",
                )
            )
    candidates = {name: from_identifier(name) or (words(name) or ("run",),) for name in sorted(drafts)}
    held = held_names(config.names, {name: name for name in candidates})
    names = assign(config.name, candidates, held=held, reserved={one.name for one in config.names.values()})
    digest = "sha256:" + hashlib.sha256(read_file(path, _MAX_SIZE)).hexdigest()
    info = document.data.get("info") if arazzo else None
    told = info if isinstance(info, dict) else {}
    return SourceReading(
        info=SourceInfo(
            kind="workflow",
            digest=digest,
            title=str(told.get("title") or path.name)[:120],
            version=str(told.get("version") or "")[:40],
        ),
        tools=tuple(_tool(config, draft, names[name]) for name, draft in drafts.items()),
        problems=tuple(problems),
        operations=len(drafts) + len(problems),
        identifiers={name: name for name in drafts},
        files={str(path): digest},
        places={name: draft.where[""] for name, draft in drafts.items()},
        drafts=Drafts(workflows=drafts, sources=sources),
    )


def _odd_number(document: YamlDocument, name: str) -> str:
    """Return the fault of a number in a workflow; "" if there is none."""
    listed = document.data["workflows"]
    keys = (
        [name]
        if isinstance(listed, dict)
        else [at for at, one in enumerate(listed) if isinstance(one, dict) and one.get("workflowId") == name]
    )
    try:
        for key in keys:
            document.check_numbers(("workflows", key), DescriptionError)
    except DescriptionError as error:
        return f"{error.where}: {error.message}"
    return ""


def _tool(config: SourceConfig, draft: WorkflowDraft, name: str) -> Tool:
    title = draft.title or draft.id.replace("_", " ").replace("-", " ").strip().capitalize()
    return Tool(
        name=name,
        title=title[:120],
        description=draft.description or draft.title or f"Runs the workflow {draft.id}.",
        input_schema=draft.inputs,
        output_schema=None,
        effect=Effect.READ,
        idempotent=False,
        source=config.name,
        origin=draft.id,
        binding=WorkflowBinding(workflow=draft.id, stages=()),
    )
