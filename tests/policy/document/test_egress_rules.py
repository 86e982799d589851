"""The proxy of a policy as it is written: what is read, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.authorities import Authority
from toolgen.core.errors import PolicyError
from toolgen.model.egress_proxy import EgressProxy
from toolgen.model.manifest import assemble
from toolgen.policy.document.policy import load
from toolgen.policy.egress import Egress


def read(folder: Path, egress: dict[str, Any]) -> Egress:
    principal = {"api_key": f"sha256:{'0' * 64}", "roles": ["agent"]}
    policies = folder / "policies"
    policies.mkdir(exist_ok=True)
    (policies / "policy.yaml").write_text(json.dumps({"principals": {"agent": principal}, "egress": egress}))
    return load(policies, assemble({}, [], ())).egress


def test_a_proxy_is_read_with_its_credentials_as_references(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    found = read(
        tmp_path,
        {
            "proxy": "https://gateway:${file:/run/password}@Proxy.Example.com:3128/",
            "ca": "../ca.pem",
            "resolve": "local",
            "direct": ["127.0.0.1:80"],
        },
    )
    assert found.proxy == EgressProxy(
        scheme="https",
        host="proxy.example.com",
        port=3128,
        username="gateway",
        password="${file:/run/password}",
        ca=str(authority.path),
        resolve="local",
        direct=frozenset({("127.0.0.1", 80)}),
    )
    assert read(tmp_path, {"proxy": "http://[::1]:3128"}).proxy == EgressProxy(scheme="http", host="::1", port=3128)


@pytest.mark.parametrize(
    "proxy",
    [
        "http://user:canary-password@proxy:3128",
        "http://user:canary-${env:A}@proxy:3128",
        "http://user:${vault:a/b#c}@proxy:3128",
        "http://user:${keyring:a/canary}@proxy:3128",
        "http://${env:CANARY}@proxy:3128",
        "socks5://proxy:1080",
        "http://proxy",
        "http://proxy:0",
        "http://proxy:3128/path",
        "http://proxy:3128?a",
        "proxy:3128",
        "http://pro xy:3128",
        "http://a@b@proxy:3128",
        "http://proxy:3128\r\nX: y",
    ],
)
def test_a_text_that_is_no_proxy_is_refused_and_not_repeated(tmp_path: Path, proxy: str) -> None:
    with pytest.raises(PolicyError) as caught:
        read(tmp_path, {"proxy": proxy})
    assert "canary" not in str(caught.value)
    assert "policy.yaml" in str(caught.value)


@pytest.mark.parametrize(
    "egress",
    [
        {"ca": "ca.pem"},
        {"resolve": "local"},
        {"direct": []},
        {"proxy": ""},
        {"proxy": "http://proxy:3128", "ca": "missing.pem"},
        {"proxy": "http://proxy:3128", "ca": "policy.yaml"},
        {"proxy": "http://proxy:3128", "ca": "/dev/zero"},
        {"proxy": "http://proxy:3128", "direct": ["10.0.0.0/8"]},
        {"proxy": "http://proxy:3128", "no_proxy": []},
    ],
)
def test_a_section_that_does_not_fit_is_refused(tmp_path: Path, egress: dict[str, Any]) -> None:
    with pytest.raises(PolicyError):
        read(tmp_path, egress)
