"""Client certificates that are revoked: by fingerprint, serial, subject or issuer, while gateways run, and beside a broken policy."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from tests.cli.commands import Run
from tests.frontends.http.test_authentication import BY_NAME, CERTIFICATE, certificate, der, identity, rfc9440
from tests.gateway.governed import PRINCIPALS, project, upstream, write_policy
from tests.gateway.test_identity_keys import gateways
from toolgen.core.errors import PolicyError
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.call import CredentialProof, Principal
from toolgen.policy.credentials import CertificateRevocation, Revocation
from toolgen.policy.document.policy import load_credentials
from toolgen.policy.key_list import editing

NAMES = {"subject": "CN=bot,O=Acme", "issuer": "CN=Acme CA,O=Acme"}
FINGERPRINT = hashlib.sha256(der(CERTIFICATE)).hexdigest()
SERIAL = f"{CERTIFICATE.serial_number:x}"
RULE = {"id": "reads", "to": ["mesh"], "tools": ["*"], "effects": ["read"], "verdict": "allow"}


def mesh(root: Path, server: str, rule: dict[str, Any] = RULE, **more: Any) -> Path:
    """A project with a principal whose certificate a proxy on this machine vouches for."""
    header = {"header": "X-Client-Cert", "proxies": ["127.0.0.0/8"]}
    people = {**PRINCIPALS, "mesh": {"mtls": NAMES, "roles": ["mesh"]}}
    policy = {"principals": people, "rules": [rule], **more}
    return project(root, server, policy, gateway={"client_certificates": header})


@pytest.mark.parametrize(
    ("revoked", "gone"),
    [
        ({"fingerprint": FINGERPRINT}, True),
        ({"serial": SERIAL}, True),
        ({"serial": SERIAL, "issuer": NAMES["issuer"]}, True),
        ({"subject": NAMES["subject"]}, True),
        ({"issuer": NAMES["issuer"]}, True),
        ({"fingerprint": FINGERPRINT, "serial": "1"}, False),
        ({"fingerprint": "0" * 64}, False),
        ({"serial": "1"}, False),
        ({"serial": SERIAL, "issuer": "CN=Other CA,O=Acme"}, False),
        ({"subject": "CN=bot"}, False),
    ],
)
def test_what_fits_all_that_a_revocation_says_is_revoked(revoked: dict[str, str], gone: bool) -> None:
    who = identity(BY_NAME, revoked_certificates=(CertificateRevocation(**revoked),))
    assert isinstance(who.certified(rfc9440(CERTIFICATE)), Principal) is not gone
    known = identity(BY_NAME).certified(rfc9440(CERTIFICATE))
    assert isinstance(known, Principal)
    assert (who.current(known) is None) is gone  # what it left waiting ends as well


def test_who_was_known_by_a_certificate_before_it_was_kept_which_is_gone_once_any_is_revoked() -> None:
    known = identity(BY_NAME).certified(rfc9440(CERTIFICATE))
    assert isinstance(known, Principal)
    assert known.proof is not None
    old = Principal(id="bot", roles=known.roles, proof=CredentialProof(certificate=known.proof.certificate))
    assert identity(BY_NAME).current(old) is not None
    other = CertificateRevocation(fingerprint="0" * 64)
    assert identity(BY_NAME, revoked_certificates=(other,)).current(old) is None
    tokens = (Revocation(subject="somebody"),)
    assert identity(BY_NAME, revocations=tokens).current(old) is not None


def shown(url: str, found: x509.Certificate) -> int:
    return httpx.get(f"{url}/v1/tools", headers={"X-Client-Cert": rfc9440(found)}).status_code


def test_every_gateway_follows_also_beside_a_policy_that_cannot_be_used(
    tmp_path: Path, toolgen: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mesh(tmp_path, "http://127.0.0.1:9")
    other = certificate()  # the same names, another key
    assert toolgen("build").code == 0
    with gateways(tmp_path, 2) as urls:
        assert [shown(url, one) for url in urls for one in (CERTIFICATE, other)] == [200] * 4
        (tmp_path / "policies" / "broken.yaml").write_text("rules: [{id: x, to: [nobody], verdict: maybe}]\n")
        assert toolgen("keys", "revoke", "--certificate", f"sha256:{FINGERPRINT}").code == 0
        deadline = time.monotonic() + 30
        for url in urls:
            while shown(url, CERTIFICATE) != 401:
                assert time.monotonic() < deadline, url
                time.sleep(0.05)
        assert [shown(url, other) for url in urls] == [200, 200]


async def test_a_call_that_waits_ends_with_the_certificate_it_came_with(tmp_path: Path, toolgen: Run) -> None:
    rule = {**RULE, "verdict": "ask"}
    lena = {"api_key": "sha256:" + "0" * 64, "roles": ["lead"]}
    people = {**PRINCIPALS, "mesh": {"mtls": NAMES, "roles": ["mesh"]}, "lena": lena}

    with upstream() as (seen, server):
        more = {"approvals": {"approvers": ["lead"], "expires": "1h"}, "principals": people}
        async with Gateway.load(mesh(tmp_path, server, rule, **more)) as gateway:
            first, second = (gateway.callers.certified(rfc9440(one)) for one in (CERTIFICATE, certificate()))
            assert isinstance(first, Principal)
            assert isinstance(second, Principal)
            waiting = [await gateway.call("orders__get_health", {}, principal=one) for one in (first, second)]
            with editing(tmp_path / "policies") as found:
                found.revoked.append({"certificate": {"serial": SERIAL}})
            assert await gateway.operations.reload()
            for one in waiting:
                await gateway.approvals.decide(one.call_id, approve=True, note="", principal=gateway.principal("lena"))
            gone, made = tuple([await gateway.approvals.calls.outcome(one.call_id, second, wait=30) for one in waiting])  # type: ignore[return-value]
    assert (gone.error.code, made.status) == ("expired", "ok")
    assert len(seen.requests) == 1


@pytest.mark.parametrize(
    ("arguments", "entry"),
    [
        (["sha256:" + "AB:" * 31 + "AB"], {"fingerprint": "sha256:" + "ab" * 32}),
        (["serial:00:1E:5"], {"serial": "1e5"}),
        (["serial:0"], {"serial": "0"}),
        (["serial:0123", "--issuer", "CN=CA"], {"serial": "123", "issuer": "CN=CA"}),
        (["CN=bot,O=Acme"], {"subject": "CN=bot,O=Acme"}),
        (["@cert.pem"], {"fingerprint": f"sha256:{FINGERPRINT}"}),
    ],
)
def test_the_command_takes_what_people_have_at_hand(
    tmp_path: Path, toolgen: Run, monkeypatch: pytest.MonkeyPatch, arguments: list[str], entry: dict[str, str]
) -> None:
    monkeypatch.chdir(tmp_path)
    mesh(tmp_path, "http://127.0.0.1:9")
    (tmp_path / "cert.pem").write_bytes(CERTIFICATE.public_bytes(Encoding.PEM))
    for _ in range(2):
        assert toolgen("keys", "revoke", "--certificate", *arguments).code == 0
    (found,) = load_credentials(tmp_path / "policies").revoked_certificates
    written = {"fingerprint": f"sha256:{found.fingerprint}"} if found.fingerprint else {}
    assert written | {name: text for name in ("serial", "subject", "issuer") if (text := getattr(found, name))} == entry
    listed = toolgen("keys", "list", "--json").json()["revoked_certificates"]
    assert [{name: text for name, text in one.items() if text} for one in listed] == [entry]
    assert "revoked: certificates with" in toolgen("keys", "list").out


@pytest.mark.parametrize(
    "arguments",
    [
        ["--certificate", "bot"],
        ["--certificate", "sha256:ab"],
        ["--certificate", "serial:xyz"],
        ["--certificate", "@policies/policy.yaml"],
        ["--certificate", "@nowhere.pem"],
        ["--certificate", "serial:1", "--subject", "ann"],
        ["--certificate", "serial:1", "--all", "bot"],
    ],
)
def test_a_mistake_revokes_nothing(
    tmp_path: Path, toolgen: Run, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    mesh(tmp_path, "http://127.0.0.1:9")
    assert toolgen("keys", "revoke", *arguments).code != 0
    assert not (tmp_path / "policies" / "keys.yaml").exists()


@pytest.mark.parametrize(
    "entry",
    [
        {"certificate": {}},
        {"certificate": {"fingerprint": "ab"}},
        {"certificate": {"serial": "0A"}},
        {"certificate": {"serial": "01"}},
        {"certificate": {"serial": 12}},
        {"certificate": {"name": "x"}},
        {"certificate": {"serial": "1"}, "subject": "ann"},
    ],
)
def test_a_revocation_that_says_nothing_is_an_error(tmp_path: Path, entry: dict[str, Any]) -> None:
    mesh(tmp_path, "http://127.0.0.1:9")
    write_policy(tmp_path, {"rules": [], "revoked": [json.loads(json.dumps(entry))]})
    with pytest.raises(PolicyError):
        load_credentials(tmp_path / "policies")
