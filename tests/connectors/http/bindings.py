"""Short ways to write the bindings and calls that the tests of this folder need."""

from __future__ import annotations

from typing import Any

from toolgen.model.call import Call, Principal
from toolgen.model.tool import Effect, HttpBinding, HttpBody, HttpParameter, Tool

BASE = "http://api.test"


def parameter(in_: str, style: str = "", *, name: str = "q", explode: bool | None = None, **more: Any) -> HttpParameter:
    style = style or {"path": "simple", "header": "simple"}.get(in_, "form")
    return HttpParameter(
        argument=more.pop("argument", name),
        in_=in_,
        name=name,
        style=style,
        explode=style == "form" if explode is None else explode,
        **more,
    )


def binding(*parameters: HttpParameter, body: HttpBody | None = None, **more: Any) -> HttpBinding:
    fields: dict[str, Any] = {"method": "GET", "path": "/e", "servers": (BASE,), "security": ()}
    return HttpBinding(**{**fields, **more, "parameters": parameters, "body": body})


def call(bound: HttpBinding, arguments: dict[str, Any] | None = None) -> Call:
    reading = bound.method in {"GET", "HEAD"}
    tool = Tool(
        name="t__op",
        title="op",
        description="op",
        input_schema={"type": "object"},
        output_schema=None,
        effect=Effect.READ if reading else Effect.WRITE,
        idempotent=reading,
        source="t",
        origin="#/paths/~1e/get",
        binding=bound,
    )
    return Call(id="c", tool=tool, arguments=arguments or {}, principal=Principal(id="p"))
