"""Secrets of cloud providers: over their HTTP interfaces, as strict stand-ins speak them. AWS's signature is checked by botocore."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jwt
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.services.authorization import Answered, Asked, Service, serving
from toolgen.connectors.secrets import SecretResolver, parse_reference
from toolgen.core.clock import FixedClock
from toolgen.core.errors import SecretError
from toolgen.model.verdict import Deny

VALUE = "canary-cloud-value"
AWS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "canary-aws-key", "AWS_REGION": "eu-west-1"}
_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/]+)/\d{8}/([^/]+)/([^/]+)/aws4_request, SignedHeaders=([^,]+), Signature=(\w+)\Z"
)


def signed_by(asked: Asked, origin: str, key: str, secret: str, token: str | None = None) -> bool:
    """Check a signature as botocore makes it."""
    found = _AUTHORIZATION.match(asked.headers["Authorization"])
    assert found
    names = found[4].split(";")
    given = {name.lower(): value for name, value in asked.headers.items()}
    headers = {name: given[name] for name in names if name != "host"}
    request = AWSRequest(method="POST", url=f"{origin}/", headers=headers, data=asked.body)
    request.context["timestamp"] = asked.headers["X-Amz-Date"]
    auth = SigV4Auth(Credentials(key, secret, token), found[3], found[2])
    text = auth.string_to_sign(request, auth.canonical_request(request))
    return found[1] == key and bool(auth.signature(text, request) == found[5])


class SecretsManager:
    """AWS Secrets Manager: `prod/github` is JSON, `plain` a text."""

    def __init__(self) -> None:
        self.origin = ""
        self.secrets: dict[str, dict[str, Any]] = {
            "prod/github": {"SecretString": json.dumps({"token": VALUE})},
            "plain": {"SecretString": VALUE},
            "binary": {"SecretBinary": base64.b64encode(VALUE.encode()).decode()},
        }
        self.status = 200

    def __call__(self, asked: Asked) -> Answered:
        if asked.path == "/credentials":
            if asked.headers.get("Authorization") != "pod-token":
                return Answered.json(401)
            return Answered.json(AccessKeyId="AKIDPOD", SecretAccessKey="canary-pod-key", Token="canary-session")
        if self.status != 200:
            return Answered.json(self.status, message=f"echo {VALUE}")
        assert asked.headers["X-Amz-Target"] == "secretsmanager.GetSecretValue"
        pod = "X-Amz-Security-Token" in asked.headers
        key = ("AKIDPOD", "canary-pod-key", "canary-session") if pod else ("AKIDEXAMPLE", "canary-aws-key")
        if not signed_by(asked, self.origin, *key):
            return Answered.json(403, message="The request signature we calculated does not match")
        found = self.secrets.get(json.loads(asked.body)["SecretId"])
        return Answered.json(400, __type="ResourceNotFoundException") if found is None else Answered.json(**found)


@contextmanager
def aws() -> Iterator[tuple[SecretsManager, Service, dict[str, str]]]:
    manager = SecretsManager()
    with serving(manager) as service:
        manager.origin = service.origin
        yield manager, service, {**AWS, "AWS_ENDPOINT_URL_SECRETS_MANAGER": service.origin}


@pytest.mark.parametrize("name", ["prod/github#token", "plain", "binary"])
async def test_a_secret_of_aws_is_read_and_remembered(name: str) -> None:
    clock = FixedClock(1_700_000_000.0)
    with aws() as (manager, service, environment):
        resolver = SecretResolver(environment, clock=clock)
        reference = parse_reference(f"Bearer ${{aws:{name}}}")
        for _ in range(3):
            assert (await resolver.fetch(reference)).reveal() == f"Bearer {VALUE}"
        assert len(service.asked) == 1
        assert resolver.revealed(reference) == f"Bearer {VALUE}"
        manager.status = 403
        clock.advance(301)
        with pytest.raises(SecretError, match="may not read it") as failed:
            await resolver.fetch(reference)
        assert failed.value.code == "secret_unavailable"
        assert VALUE not in str(failed.value)
        assert len(service.asked) == 2
        with pytest.raises(SecretError):
            resolver.revealed(reference)


async def test_the_credentials_of_a_pod_sign_for_it(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("pod-token\n", encoding="utf-8")
    with aws() as (_, service, _):
        environment = {
            "AWS_REGION": "eu-west-1",
            "AWS_ENDPOINT_URL": service.origin,
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{service.origin}/credentials",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(tmp_path / "token"),
        }
        resolver = SecretResolver(environment)
        assert (await resolver.fetch(parse_reference("${aws:plain}"))).reveal() == VALUE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${aws:prod/github#other}", "no text under this name"),
        ("${aws:plain#token}", "no text under this name"),
        ("${aws:missing}", "answered 400"),
    ],
)
async def test_a_secret_that_is_not_there_is_named_and_nothing_else(text: str, message: str) -> None:
    with aws() as (_, _, environment):
        with pytest.raises(SecretError, match=message) as failed:
            await SecretResolver(environment).fetch(parse_reference(text))
        assert text[2:-1] in str(failed.value)
        assert "canary" not in str(failed.value)


async def test_an_address_that_the_policy_closes_is_not_asked() -> None:
    with aws() as (_, service, environment):
        resolver = SecretResolver(environment, permit=lambda _: Deny(code="egress_refused", rule="egress", reason="no"))
        with pytest.raises(SecretError):
            await resolver.fetch(parse_reference("${aws:plain}"))
        assert service.asked == []


@pytest.mark.parametrize("missing", ["AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
async def test_a_variable_that_is_missing_is_named(missing: str) -> None:
    environment = {name: value for name, value in AWS.items() if name != missing}
    with pytest.raises(SecretError, match="AWS_") as failed:
        await SecretResolver(environment).fetch(parse_reference("${aws:plain}"))
    assert "canary" not in str(failed.value)


class Google:
    """Secret Manager, the token endpoint of Google, and the metadata server of a machine."""

    def __init__(self, key: rsa.RSAPublicKey) -> None:
        self.key, self.origin, self.tokens = key, "", 0

    def __call__(self, asked: Asked) -> Answered:
        if asked.path == "/token":
            claims = jwt.decode(
                asked.form["assertion"], self.key, algorithms=["RS256"], audience=f"{self.origin}/token"
            )
            assert claims["scope"] == "https://www.googleapis.com/auth/cloud-platform"
            self.tokens += 1
            return Answered.json(access_token="canary-google-token", expires_in=3600)
        if asked.path.startswith("/computeMetadata/"):
            if asked.headers.get("Metadata-Flavor") != "Google":
                return Answered.json(403)
            return Answered.json(access_token="canary-google-token", expires_in=3600)
        if asked.headers.get("Authorization") != "Bearer canary-google-token":
            return Answered.json(401)
        if asked.path not in {f"/v1/projects/p-1/secrets/github/versions/{one}:access" for one in ("latest", "3")}:
            return Answered.json(404)
        data = base64.b64encode(json.dumps({"token": VALUE}).encode()).decode()
        return Answered.json(payload={"data": data})


@pytest.mark.parametrize("machine", [True, False])
async def test_a_secret_of_google_is_read(tmp_path: Path, machine: bool) -> None:
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    google = Google(private.public_key())
    with serving(google) as service:
        google.origin = service.origin
        environment = {"CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER": service.origin}
        if machine:
            environment["GCE_METADATA_HOST"] = service.origin.removeprefix("http://")
        else:
            pem = private.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            account = {"client_email": "a@b", "private_key": pem.decode(), "token_uri": f"{service.origin}/token"}
            (tmp_path / "account.json").write_text(json.dumps(account), encoding="utf-8")
            environment["GOOGLE_APPLICATION_CREDENTIALS"] = str(tmp_path / "account.json")
        resolver = SecretResolver(environment)
        for text in ("${gcp:p-1/github#token}", "${gcp:p-1/github@3#token}"):
            assert (await resolver.fetch(parse_reference(text))).reveal() == VALUE
        assert google.tokens == (0 if machine else 1)
        with pytest.raises(SecretError, match="no such secret"):
            await resolver.fetch(parse_reference("${gcp:p-1/other}"))


class Azure:
    """Key Vault and the token endpoint of Entra."""

    def __call__(self, asked: Asked) -> Answered:
        if asked.path == "/tenant/oauth2/v2.0/token":
            form = asked.form
            proof = form.get("client_secret") == "canary-azure-secret" or form.get("client_assertion") == "canary-pod"
            if form["client_id"] != "client" or not proof or not form["scope"].endswith("/.default"):
                return Answered.json(401, error="invalid_client")
            return Answered.json(access_token="canary-azure-token", expires_in=3600)
        if asked.headers.get("Authorization") != "Bearer canary-azure-token":
            return Answered.json(401)
        if asked.path != "/secrets/github?api-version=7.4":
            return Answered.json(404)
        return Answered.json(value=VALUE, id="https://my-vault.vault.azure.net/secrets/github/1")


def _federated(folder: Path) -> dict[str, str]:
    (folder / "token").write_text("canary-pod", encoding="utf-8")
    return {"AZURE_FEDERATED_TOKEN_FILE": str(folder / "token")}


@pytest.mark.parametrize("proof", [lambda _: {"AZURE_CLIENT_SECRET": "canary-azure-secret"}, _federated])
async def test_a_secret_of_azure_is_read(tmp_path: Path, proof: Callable[[Path], dict[str, str]]) -> None:
    with serving(Azure()) as service:
        environment = {
            "AZURE_TENANT_ID": "tenant",
            "AZURE_CLIENT_ID": "client",
            "AZURE_AUTHORITY_HOST": service.origin,
            "TOOLGEN_AZURE_VAULT_URL": service.origin,
            **proof(tmp_path),
        }
        resolver = SecretResolver(environment)
        assert (await resolver.fetch(parse_reference("${azure:my-vault/github}"))).reveal() == VALUE
        wrong = SecretResolver({**environment, "AZURE_CLIENT_ID": "other"})
        with pytest.raises(SecretError, match="does not know this gateway") as failed:
            await wrong.fetch(parse_reference("${azure:my-vault/github}"))
        assert "canary" not in str(failed.value)


@pytest.mark.parametrize(
    "text",
    [
        "${gcp:github}",
        "${gcp:../p/github}",
        "${gcp:p/a/b}",
        "${azure:my.vault/github}",
        "${azure:evil.example.com/x}",
        "${azure:my-vault/a/b}",
        "${aws:a b}",
        "${aws:}",
        "${aws:a?b}",
    ],
)
def test_a_reference_that_could_lead_elsewhere_is_refused(text: str) -> None:
    with pytest.raises(SecretError, match="reference"):
        parse_reference(text)
