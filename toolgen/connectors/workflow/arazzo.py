"""Arazzo 1.0 documents: workflows over the operations of OpenAPI descriptions, and over other workflows.

Features without a key in Arazzo are below `x-toolgen`: `when`, `for_each`, `at_most`, `at_once` and `undo`; for a workflow, `timeout`.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from toolgen.connectors.workflow.draft import (
    MAX_AT_ONCE,
    MAX_ATTEMPTS,
    MAX_EACH,
    MAX_STEPS,
    MAX_WAIT_S,
    DraftUse,
    GivenParameter,
    WorkflowDraft,
    checked,
    checked_criterion,
    fault,
    timeout_of,
)
from toolgen.connectors.workflow.short_form import GivenUse
from toolgen.core.errors import DescriptionError
from toolgen.core.spelling import nearest
from toolgen.core.yaml_file import YamlDocument, decode
from toolgen.model.schema import Schema
from toolgen.model.workflow import Action, Criterion, Step, ToolUse

__all__ = ["read_arazzo", "sources_of"]

_VERSION = re.compile(r"1\.0\.[0-9]+\Z")
_ID = re.compile(r"[A-Za-z0-9_-]{1,100}\Z")
_SOURCE = re.compile(r"\$sourceDescriptions\.([A-Za-z0-9_-]+)\.(.+)\Z")
_PATH = re.compile(r"\{\$sourceDescriptions\.([A-Za-z0-9_-]+)\.url\}(#/paths/.+)\Z")
_WORKFLOW_KEYS = frozenset(
    {
        "workflowId",
        "x-toolgen",
        "summary",
        "description",
        "inputs",
        "steps",
        "successActions",
        "failureActions",
        "outputs",
        "parameters",
    }
)
_STEP_KEYS = frozenset(
    {
        *("stepId", "description", "operationId", "operationPath", "workflowId", "parameters", "requestBody"),
        *("successCriteria", "onSuccess", "onFailure", "outputs", "x-toolgen"),
    }
)
_Path = tuple[str | int, ...]


class _WorkflowExtension(msgspec.Struct, forbid_unknown_fields=True):
    """Keys under `x-toolgen` of a workflow."""

    timeout: str = ""


class _StepExtension(msgspec.Struct, forbid_unknown_fields=True):
    """Keys under `x-toolgen` of a step."""

    when: str = ""
    for_each: Any = None
    at_most: int = 20
    at_once: int = 1
    undo: GivenUse | None = None


def sources_of(document: YamlDocument) -> dict[str, str]:
    """Return the URL of each source description by its name. Raises `DescriptionError` for a document that is not Arazzo 1.0."""
    version = document.data.get("arazzo")
    if not isinstance(version, str) or not _VERSION.match(version):
        raise fault(f"is Arazzo {version}, and 1.0 is read", document.where("arazzo"))
    found: dict[str, str] = {}
    listed = document.data.get("sourceDescriptions")
    for index, one in enumerate(listed if isinstance(listed, list) else []):
        if not isinstance(one, dict) or not isinstance(one.get("name"), str) or not isinstance(one.get("url"), str):
            raise fault("a source description has a name and a url", document.where("sourceDescriptions", index))
        found[one["name"]] = one["url"]
    if not found:
        raise fault("has no source under sourceDescriptions:", document.where("sourceDescriptions"))
    return found


def read_arazzo(document: YamlDocument) -> Iterator[tuple[str, WorkflowDraft | DescriptionError]]:
    """Return each workflow of a document, or its fault, by its id. Raises `DescriptionError` if there is none."""
    listed = document.data.get("workflows")
    if not isinstance(listed, list) or not listed:
        raise fault("has no workflow under workflows:", document.where("workflows"))
    known = {one.get("workflowId") for one in listed if isinstance(one, dict)}
    seen: set[str] = set()
    for index, one in enumerate(listed):
        name = one.get("workflowId") if isinstance(one, dict) else None
        if not isinstance(name, str) or not _ID.match(name) or name in seen:
            where = document.where("workflows", index)
            yield f"#{index}", fault("workflowId: takes letters, digits, _ and -, another for each workflow", where)
            continue
        seen.add(name)
        try:
            yield name, _ArazzoReader(document, ("workflows", index), one, frozenset(known)).draft()
        except DescriptionError as error:
            yield name, error


class _ArazzoReader(Struct):
    document: YamlDocument
    path: _Path
    given: dict[str, Any]
    workflows: frozenset[Any]
    uses: dict[str, DraftUse] = {}
    undos: dict[str, DraftUse] = {}
    where: dict[str, str] = {}

    def draft(self) -> WorkflowDraft:
        """Return the draft. Raises `DescriptionError` for the first fault."""
        here = self.where[""] = self.document.where(*self.path)
        if "dependsOn" in self.given:
            where = self.document.where(*self.path, "dependsOn")
            raise fault("dependsOn: is not supported", where, "call the other workflow as a step: workflowId: NAME")
        self._known_keys(self.given, _WORKFLOW_KEYS, self.path)
        listed = self._list(self.given, "steps", self.path)
        if not listed:
            raise fault("has no step", here)
        if len(listed) > MAX_STEPS:
            raise fault(f"has {len(listed)} steps, and {MAX_STEPS} are the limit", here)
        ids = [one.get("stepId") if isinstance(one, dict) else None for one in listed]
        steps = [self._step(one, (*self.path, "steps", index), ids) for index, one in enumerate(listed)]
        outputs = self._outputs(self.given, self.path)
        inside = (*self.path, "x-toolgen")
        more = (
            decode(self.document, inside, _WorkflowExtension, DescriptionError)
            if "x-toolgen" in self.given
            else _WorkflowExtension()
        )
        for key in outputs:
            self.where[f"outputs {key}"] = self.document.where(*self.path, "outputs", key)
        return WorkflowDraft(
            id=str(self.given["workflowId"]),
            title=str(self.given.get("summary") or ""),
            description=str(self.given.get("description") or self.given.get("summary") or ""),
            inputs=self._inputs(),
            stages=tuple((step,) for step in steps),
            outputs=outputs,
            uses=self.uses,
            undos=self.undos,
            where=self.where,
            timeout_s=timeout_of(more.timeout, self.document.where(*self.path, "x-toolgen", "timeout")),
        )

    def _step(self, given: Any, path: _Path, ids: list[Any]) -> Step:
        here = self.document.where(*path)
        if not isinstance(given, dict) or not isinstance(given.get("stepId"), str) or not _ID.match(given["stepId"]):
            raise fault("a step has a stepId of letters, digits, _ and -", here)
        self._known_keys(given, _STEP_KEYS, path)
        name = given["stepId"]
        if name in self.uses:
            raise fault(f"there are two steps {name}", here)
        self.where[name] = here
        self.uses[name] = self._use(given, path)
        more = (
            decode(self.document, (*path, "x-toolgen"), _StepExtension, DescriptionError)
            if "x-toolgen" in given
            else _StepExtension()
        )
        extra = (*path, "x-toolgen")
        if more.undo is not None:
            self.undos[name] = self._undo(more.undo, (*extra, "undo"))
        if more.for_each is not None:
            checked(more.for_each, self.document.where(*extra, "for_each"))
        for key, value, most in (("at_most", more.at_most, MAX_EACH), ("at_once", more.at_once, MAX_AT_ONCE)):
            if not 1 <= value <= most:
                raise fault(f"{key}: takes 1 to {most}", self.document.where(*extra, key))
        when = Criterion(condition=more.when)
        return Step(
            id=name,
            use=ToolUse(tool=""),
            when=(checked_criterion(when, self.document.where(*extra, "when")),) if more.when else (),
            each=more.for_each,
            at_most=more.at_most if more.for_each is not None else 0,
            at_once=more.at_once,
            expect=self._criteria(given, "successCriteria", path),
            outputs=self._outputs(given, path),
            on_success=self._actions(given, "onSuccess", "successActions", path, ids),
            on_failure=self._actions(given, "onFailure", "failureActions", path, ids),
        )

    def _use(self, given: dict[str, Any], path: _Path) -> DraftUse:
        where = self.document.where(*path)
        named = [key for key in ("operationId", "operationPath", "workflowId") if isinstance(given.get(key), str)]
        if len(named) != 1:
            raise fault("a step has one of operationId, operationPath and workflowId", where)
        where = self.document.where(*path, named[0])
        text = given[named[0]]
        source = operation = origin = workflow = ""
        found = _SOURCE.match(text)
        if named[0] == "operationPath":
            pointed = _PATH.match(text)
            if pointed is None:
                raise fault("operationPath: is {$sourceDescriptions.NAME.url}#/paths/…", where)
            source, origin = pointed.groups()
        elif found is not None:
            source, rest = found.groups()
            operation, workflow = (rest, "") if named[0] == "operationId" else ("", rest)
        elif named[0] == "operationId":
            operation = text
        else:
            workflow = text
            if text not in self.workflows:
                raise fault(f"there is no workflow {text}{nearest(text, map(str, self.workflows))}", where)
        body, body_where = self._body(given, path)
        return DraftUse(
            where=where,
            source=source,
            operation=operation,
            origin=origin,
            workflow=workflow,
            given=self._parameters(given, path),
            body=body,
            body_where=body_where,
        )

    def _undo(self, given: GivenUse, path: _Path) -> DraftUse:
        places = {name: self.document.where(*path, "with", name) for name in given.arguments}
        for name, value in given.arguments.items():
            checked(value, places[name])
        where = self.document.where(*path, "call")
        return DraftUse(where=where, tool=given.call, arguments=given.arguments, places=places)

    def _parameters(self, given: dict[str, Any], path: _Path) -> tuple[GivenParameter, ...]:
        """Return the parameters of a step, and those of the workflow that the step does not override."""
        found: dict[tuple[str, str], GivenParameter] = {}
        for holder, at in ((self.given, self.path), (given, path)):
            for index, one in enumerate(self._list(holder, "parameters", at)):
                where = self.document.where(*at, "parameters", index)
                item = self._resolved(one, "parameters", where)
                name, place = item.get("name"), item.get("in", "")
                if (
                    not isinstance(name, str)
                    or place not in {"", "path", "query", "header", "cookie"}
                    or "value" not in item
                ):
                    raise fault("a parameter has a name, in: (path, query, header or cookie) and a value", where)
                value = checked(item["value"], where)
                found[place, name] = GivenParameter(
                    name=name, place=place, value=value, where=where, common=holder is self.given
                )
        return tuple(found.values())

    def _body(self, given: dict[str, Any], path: _Path) -> tuple[Any, str]:
        if "requestBody" not in given:
            return None, ""
        where, body = self.document.where(*path, "requestBody"), given["requestBody"]
        if not isinstance(body, dict) or "payload" not in body:
            raise fault("a requestBody has a payload", where)
        self._known_keys(body, frozenset({"contentType", "payload", "replacements"}), (*path, "requestBody"))
        payload = copy.deepcopy(body["payload"])
        for one in body.get("replacements") or []:
            if not isinstance(one, dict) or not isinstance(one.get("target"), str) or "value" not in one:
                raise fault("a replacement has a target, a JSON Pointer, and a value", where)
            payload = _replaced(payload, one["target"], one["value"], where)
        return checked(payload, where), where

    def _criteria(self, given: dict[str, Any], key: str, path: _Path) -> tuple[Criterion, ...]:
        found = []
        for index, one in enumerate(self._list(given, key, path)):
            where = self.document.where(*path, key, index)
            if not isinstance(one, dict) or not isinstance(one.get("condition"), str):
                raise fault("a criterion has a condition", where)
            kind = one.get("type", "simple")
            kind = kind.get("type") if isinstance(kind, dict) else kind
            if kind not in {"simple", "regex", "jsonpath"}:
                raise fault(f"criteria of type {kind} are not supported: use simple, regex or jsonpath", where)
            context = str(one.get("context") or "")
            criterion = Criterion(condition=one["condition"], type=kind, context=context, fold=kind == "simple")
            found.append(checked_criterion(criterion, where))
        return tuple(found)

    def _actions(self, given: dict[str, Any], key: str, common: str, path: _Path, ids: list[Any]) -> tuple[Action, ...]:
        """Return the step's own actions, then those of the workflow with other names."""
        found: dict[str, Action] = {}
        for holder, name, at in ((given, key, path), (self.given, common, self.path)):
            for index, one in enumerate(self._list(holder, name, at)):
                where = self.document.where(*at, name, index)
                item = self._resolved(one, common, where)
                called = str(item.get("name", f"#{index}"))
                if called not in found:
                    found[called] = self._action(item, (*at, name, index), common == "failureActions", ids, given)
        return tuple(found.values())

    def _action(self, item: dict[str, Any], path: _Path, fails: bool, ids: list[Any], given: dict[str, Any]) -> Action:
        where, does = self.document.where(*path), item.get("type")
        criteria = self._criteria(item, "criteria", path)
        if does == "retry" and fails:
            after, limit = item.get("retryAfter", 0), item.get("retryLimit", 1)
            if not isinstance(after, (int, float)) or not 0 <= after <= MAX_WAIT_S:
                raise fault(f"retryAfter: takes 0 to {MAX_WAIT_S:g} seconds", where)
            if not isinstance(limit, int) or not 0 <= limit < MAX_ATTEMPTS:
                raise fault(f"retryLimit: takes 0 to {MAX_ATTEMPTS - 1}", where)
            return Action(does="retry", criteria=criteria, after_s=float(after), limit=limit)
        if does == "goto":
            return Action(does="goto", step=_target(item, ids, given, where), criteria=criteria)
        kind: Literal["end"] = "end"
        if does != kind:
            raise fault(f"type: takes end, goto{' and retry' if fails else ''}", where)
        return Action(does=kind, criteria=criteria)

    def _outputs(self, given: dict[str, Any], path: _Path) -> dict[str, Any]:
        found = given.get("outputs") or {}
        if not isinstance(found, dict):
            raise fault("outputs: takes names and expressions", self.document.where(*path, "outputs"))
        for key, value in found.items():
            where = self.document.where(*path, "outputs", key)
            if not _ID.match(key):
                raise fault(f"the output {key[:40]} has other characters than letters, digits, _ and -", where)
            checked(value, where)
        return dict(found)

    def _inputs(self) -> Schema:
        where = self.document.where(*self.path, "inputs")
        given: Any = self.given.get("inputs") or {"type": "object", "properties": {}}
        reference = given.get("$ref") if isinstance(given, dict) else None
        if isinstance(reference, str):
            named = self._component("inputs", reference.removeprefix("#/components/inputs/"), where)
            given = named
        if not isinstance(given, dict) or given.get("type", "object") != "object":
            raise fault("inputs: takes a JSON Schema of an object", where)
        return {"type": "object", "properties": {}, **given}

    def _resolved(self, one: Any, kind: str, where: str) -> dict[str, Any]:
        """Return a part as written, or the component that it refers to, with the reference's own value if it has one."""
        if not isinstance(one, dict):
            raise fault("takes an object", where)
        reference = one.get("reference")
        if not isinstance(reference, str):
            return one
        prefix = f"$components.{kind}."
        if not reference.startswith(prefix):
            raise fault(f"reference: begins with {prefix} here", where)
        return {
            **self._component(kind, reference.removeprefix(prefix), where),
            **({"value": one["value"]} if "value" in one else {}),
        }

    def _component(self, kind: str, name: str, where: str) -> dict[str, Any]:
        components = self.document.data.get("components")
        held = components.get(kind) if isinstance(components, dict) else None
        found = held.get(name) if isinstance(held, dict) else None
        if not isinstance(found, dict):
            raise fault(f"components has no {kind}/{name}{nearest(name, held or ())}", where)
        return found

    def _list(self, given: Mapping[str, Any], key: str, path: _Path) -> list[Any]:
        found = given.get(key, [])
        if not isinstance(found, list):
            raise fault(f"{key}: takes a list", self.document.where(*path, key))
        return found

    def _known_keys(self, given: Mapping[str, Any], known: frozenset[str], path: _Path) -> None:
        for key in given:
            if key not in known and not key.startswith("x-"):
                raise fault(f"unknown key '{key}'{nearest(key, known)}", self.document.where(*path, key))


def _target(item: dict[str, Any], ids: list[Any], given: dict[str, Any], where: str) -> str:
    """Return the step that an action continues at: a later one, so that every workflow ends."""
    step = item.get("stepId")
    if not isinstance(step, str):
        raise fault("goto: takes a stepId; call another workflow as a step", where)
    if step not in ids:
        raise fault(f"there is no step {step}{nearest(step, map(str, ids))}", where)
    if ids.index(step) <= ids.index(given.get("stepId")):
        raise fault(f"goto {step} leads back, in a cycle", where, "continue at a later step, or use retry")
    return step


def _replaced(payload: Any, target: str, value: Any, where: str) -> Any:
    """Return a payload with one part replaced (RFC 6901)."""
    if not target.startswith("/"):
        raise fault(f"'{target[:80]}' is not a JSON Pointer", where)
    holder, steps = payload, [part.replace("~1", "/").replace("~0", "~") for part in target.split("/")[1:]]
    for part in steps[:-1]:
        holder = (
            holder[int(part)]
            if isinstance(holder, list) and part.isdecimal() and int(part) < len(holder)
            else (holder.get(part) if isinstance(holder, dict) else None)
        )
    last = steps[-1]
    if isinstance(holder, dict):
        holder[last] = value
    elif isinstance(holder, list) and last.isdecimal() and int(last) < len(holder):
        holder[int(last)] = value
    else:
        raise fault(f"the payload has nothing at {target[:80]}", where)
    return payload
