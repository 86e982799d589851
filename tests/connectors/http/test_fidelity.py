"""Every case of tests/fixtures/fidelity becomes exactly the request the specification demands, or is refused where that is right."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.http.fidelity import arguments_of, cases, differences, document
from toolgen.connectors.http.credentials import SourceCredentials
from toolgen.connectors.http.parameter_styles import UnbindableError
from toolgen.connectors.http.request_builder import HttpRequest, bind
from toolgen.connectors.secrets import SecretReference, SecretResolver
from toolgen.core.errors import SecretError
from toolgen.gateway.calls.preview import preview
from toolgen.generator.build import build
from toolgen.model.manifest import Manifest
from toolgen.model.tool import HttpBinding

CASES = cases()
TOKENS = ("oauth2", "openIdConnect")


@pytest.mark.parametrize("case", [case for _, case in CASES], ids=[name for name, _ in CASES])
async def test_the_request_is_the_one_the_specification_demands(case: dict[str, Any], tmp_path: Path) -> None:
    manifest = built(case, tmp_path)
    refused = case.get("refused")
    if "not refused" in case:
        assert await sent(case, manifest, case["not refused"]) is not None
    request = await sent(case, manifest, case.get("arguments", {}))
    if request is None:
        assert refused in {"always", "also"}
        return
    assert refused != "always", request
    assert differences(case, request.method, request.url, dict(request.headers), request.body) == []


def test_no_two_cases_have_one_name() -> None:
    assert len({name for name, _ in CASES}) == len(CASES)
    assert len(CASES) > 450


def built(case: dict[str, Any], folder: Path) -> Manifest:
    path = folder / "description.json"
    path.write_text(json.dumps(document(case)), encoding="utf-8")
    return build({"t": {"openapi": str(path)}})


async def sent(case: dict[str, Any], manifest: Manifest, written: dict[str, Any]) -> HttpRequest | None:
    """The request of a call, or None where it is refused; an operation without a tool is one that is."""
    if not manifest.tools:
        assert [problem for problem in manifest.problems if problem.level == "error"]
        return None
    (tool,) = manifest.tools.values()
    binding = tool.binding
    assert isinstance(binding, HttpBinding)
    arguments = arguments_of(binding, written)
    if "credentials" in case or binding.security:
        return await signed(case.get("credentials", {}), manifest, binding, arguments)
    shown = preview(manifest, tool.name, arguments)
    if "error" in shown:
        assert shown["error"]["code"] == "validation"
        return None
    encoded = shown.get("body_base64")
    body = base64.b64decode(encoded) if encoded else shown["body"].encode() if shown["body"] is not None else None
    headers = tuple((name, value) for name, value in shown["headers"])
    return HttpRequest(method=shown["method"], url=shown["url"], headers=headers, body=body)


async def signed(
    written: dict[str, Any], manifest: Manifest, binding: HttpBinding, arguments: dict[str, Any]
) -> HttpRequest | None:
    """With the credentials of the case alone, which a preview would hide and take all to be there."""
    schemes = manifest.sources["t"].security_schemes
    auth = {name: reference(value, schemes[name].type) for name, value in written.items()}
    credentials = SourceCredentials(schemes=schemes, auth=auth, secrets=SecretResolver({}))
    try:
        return (await credentials.sign(bind(binding, arguments), credentials.choose(binding.security))).request
    except (UnbindableError, SecretError):
        return None


def reference(value: Any, kind: str) -> object:
    if isinstance(value, dict):
        return {name: SecretReference("literal", text) for name, text in value.items()}
    literal = SecretReference("literal", value)
    return {"token": literal} if kind in TOKENS else literal
