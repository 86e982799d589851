"""Operations of the OpenAPI document: parameters, bodies, answers and refusals."""

from __future__ import annotations

from collections.abc import Sequence

from toolgen.frontends.rest.openapi_schemas import Node, ref

__all__ = ["ERRORS", "answer", "body", "errors", "get", "path", "post", "query", "responses", "shaped", "whole"]

ERRORS = {
    "400": "The request is malformed; the pointer names the part.",
    "401": "The credential is missing or wrong.",
    "403": "This principal may not.",
    "404": "There is none.",
    "409": "Somebody was quicker, or it is too late.",
    "410": "It is not asked any more: its time is over, or it was withdrawn.",
    "413": "The body is too large.",
    "415": "The body is not JSON.",
    "429": "Too many; see Retry-After.",
    "503": "It cannot be read or written now; see Retry-After.",
}


def get(name: str, summary: str, responses: Node, parameters: Sequence[Node], text: str = "") -> Node:
    described: Node = {"description": text} if text else {}
    head: Node = {"operationId": name, "summary": summary, **described}
    return {"get": {**head, "parameters": parameters, "responses": responses}}


def post(
    name: str, summary: str, responses: Node, parameters: Sequence[Node], schema: str = "", text: str = ""
) -> Node:
    taken: Node = {"requestBody": body(schema)} if schema else {}
    said: Node = {"description": text} if text else {}
    head: Node = {"operationId": name, "summary": summary, **said, "parameters": parameters, **taken}
    return {"post": {**head, "responses": responses}}


def whole(most: int, default: int | None = None) -> Node:
    """Return the schema of a whole number from 1."""
    return {"type": "integer", "minimum": 1, "maximum": most, **({} if default is None else {"default": default})}


def query(name: str, schema: Node, text: str = "") -> Node:
    return {"name": name, "in": "query", "schema": schema, **({"description": text} if text else {})}


def path(name: str, schema: Node) -> Node:
    return {"name": name, "in": "path", "required": True, "schema": schema}


def body(schema: str) -> Node:
    return {"required": True, "content": {"application/json": {"schema": ref(schema)}}}


def answer(text: str, schema: str) -> Node:
    return shaped(text, ref(schema))


def shaped(text: str, schema: Node) -> Node:
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def errors(*more: str) -> Node:
    return {
        status: answer(text, "Refusal")
        for status, text in ERRORS.items()
        if status in {"400", "401", "413", "415", *more}
    }


def responses(fine: Node, *more: str) -> Node:
    return {"200": fine, **errors(*more)}
