"""Secrets of a Vault: over its real HTTP API, spoken by a stand-in for its development server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
import respx
from httpx import Response

from tests.services.authorization import Answered, Asked, Service, serving
from toolgen.connectors.secrets import SecretResolver, parse_reference
from toolgen.core.clock import FixedClock
from toolgen.core.errors import SecretError
from toolgen.model.verdict import Allow, Deny
from toolgen.policy.egress import Egress

VALUE = "canary-vault-value"
REFERENCE = parse_reference("${vault:secret/github/app#token}")


class DevVault:
    """KV version 2 at `secret/`, token and AppRole login, namespaces and policies, as Vault 1.x answers them."""

    def __init__(self) -> None:
        self.tokens = {"root-token": ""}
        self.secrets: dict[str, dict[str, Any]] = {"github/app": {"token": VALUE, "number": 7}}
        self.namespace = ""
        self.lease = 0
        self.logins = 0
        self.down = False
        self.login: Answered | None = None
        self.read: Answered | None = None

    def __call__(self, asked: Asked) -> Answered:
        if self.down:
            return Answered.json(503, errors=["Vault is sealed"])
        instead = self.login if asked.path.startswith("/v1/auth/") else self.read
        if instead is not None:
            return instead
        if asked.headers.get("X-Vault-Request") != "true":
            return Answered.json(400, errors=["missing 'X-Vault-Request' header"])
        if asked.headers.get("X-Vault-Namespace", "") != self.namespace:
            return Answered.json(403, errors=["permission denied"])
        if asked.path == "/v1/auth/approle/login":
            if json.loads(asked.body) != {"role_id": "role", "secret_id": "canary-secret-id"}:
                return Answered.json(400, errors=["invalid role or secret ID"])
            self.logins += 1
            fresh = f"canary-approle-{self.logins}"
            self.tokens = {fresh: ""}
            return Answered.json(auth={"client_token": fresh, "lease_duration": 600, "renewable": True})
        if asked.headers.get("X-Vault-Token") not in self.tokens:
            return Answered.json(403, errors=["permission denied"])
        found = self.secrets.get(asked.path.removeprefix("/v1/secret/data/"))
        if found is None:
            return Answered.json(404, errors=[])
        metadata = {"created_time": "2026-01-01T00:00:00Z", "version": 1, "destroyed": False}
        return Answered.json(lease_duration=self.lease, renewable=False, data={"data": found, "metadata": metadata})


@pytest.fixture
def vault() -> DevVault:
    return DevVault()


@pytest.fixture
def service(vault: DevVault) -> Iterator[Service]:
    with serving(vault) as running:
        yield running


def held(service: Service, clock: FixedClock | None = None, **environment: str) -> SecretResolver:
    given = {"VAULT_ADDR": service.origin, "VAULT_TOKEN": "root-token", **environment}
    return SecretResolver(given, permit=lambda _: Allow(rule="test"), clock=clock or FixedClock())


async def fetch(secrets: SecretResolver, text: str = "") -> str:
    return (await secrets.fetch(parse_reference(text) if text else REFERENCE)).reveal()


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("${vault:secret/github/app#token}", VALUE),
        ("${vault:secret/data/github/app#token}", VALUE),
        ("token ${vault:secret/github/app#token}", f"token {VALUE}"),
    ],
)
async def test_a_field_is_read_by_the_path_of_the_command_line_or_of_the_api(
    service: Service, text: str, sent: str
) -> None:
    assert await fetch(held(service), text) == sent
    assert service.asked[0].path == "/v1/secret/data/github/app"


async def test_builds_and_commands_read_it_too(service: Service) -> None:
    assert held(service).resolve(REFERENCE).reveal() == VALUE
    found = held(service).resolve(REFERENCE).reveal()  # a loop is running here already
    assert found == VALUE


async def test_many_readers_share_a_request_and_later_ones_need_none(service: Service, vault: DevVault) -> None:
    clock = FixedClock()
    secrets = held(service, clock)

    found = await asyncio.gather(*(secrets.fetch(REFERENCE) for _ in range(50)))
    result = [secret.reveal() for secret in found]
    assert set(result) == {VALUE}
    assert len(service.asked) == 1
    known = secrets.revealed(REFERENCE)
    assert known == VALUE
    vault.secrets["github/app"]["token"] = "canary-rotated"
    assert await fetch(secrets) == VALUE
    clock.advance(300)
    assert secrets.revealed(REFERENCE) is None
    assert await fetch(secrets) == "canary-rotated"


async def test_a_vault_that_is_down_is_not_asked_by_every_call(service: Service, vault: DevVault) -> None:
    """Each would wait for it as long as the first did."""
    clock = FixedClock()
    secrets = held(service, clock)
    await fetch(secrets)
    vault.down = True
    clock.advance(301)
    asked = len(service.asked)
    for _ in range(20):
        assert await fetch(secrets) == VALUE
    assert len(service.asked) == asked + 1
    vault.down, vault.secrets["github/app"]["token"] = False, "canary-rotated"
    clock.advance(5)
    assert await fetch(secrets) == "canary-rotated"


async def test_a_lease_that_is_no_time_is_no_fault_of_the_gateways(service: Service, vault: DevVault) -> None:
    vault.lease = 10**400
    assert await fetch(held(service)) == VALUE


async def test_an_address_that_is_no_name_is_said(service: Service) -> None:
    with pytest.raises(SecretError, match="cannot be resolved"):
        await fetch(held(service, VAULT_ADDR=f"http://{'a' * 70}.test"))


async def test_a_lease_shorter_than_that_is_kept_to(service: Service, vault: DevVault) -> None:
    vault.lease = 20
    clock = FixedClock()
    secrets = held(service, clock)
    await fetch(secrets)
    clock.advance(20)
    assert secrets.revealed(REFERENCE) is None


async def test_what_was_read_is_used_for_a_while_when_vault_is_down_and_not_when_it_says_no(
    service: Service, vault: DevVault, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FixedClock()
    secrets = held(service, clock)
    await fetch(secrets)
    vault.down = True
    clock.advance(301)
    assert await fetch(secrets) == VALUE
    clock.advance(300)
    with pytest.raises(SecretError, match="503"):
        await fetch(secrets)
    vault.down = False
    clock.advance(5)
    await fetch(secrets)
    vault.tokens.clear()
    clock.advance(301)
    with pytest.raises(SecretError, match="does not let this gateway read it"):
        await fetch(secrets)
    assert "canary" not in caplog.text


ROLE = {"VAULT_TOKEN": "", "VAULT_ROLE_ID": "role", "VAULT_SECRET_ID": "canary-secret-id"}
NO = (400, 401, 403, 404, 405, 410, 307)
AWAY = (429, 472, 473, 500, 502, 503, 504)


@pytest.mark.parametrize("at", ["login", "read"])
@pytest.mark.parametrize("status", [*NO, *AWAY, 0, 200])
async def test_only_a_vault_that_cannot_be_reached_leaves_a_secret_in_use(
    service: Service, vault: DevVault, at: str, status: int
) -> None:
    clock, environment = FixedClock(), {"VAULT_ADDR": service.origin, **ROLE}
    secrets = SecretResolver(environment, permit=lambda _: Allow(rule="test"), clock=clock)
    await fetch(secrets)
    vault.secrets["other"] = {"token": "canary-other"}
    other = "${vault:secret/other#token}"
    clock.advance(290)
    assert await fetch(secrets, other) == "canary-other"
    clock.advance(300)  # the token of the AppRole is over too, as is the time of what was read first, but not its last
    if status == 0:
        environment["VAULT_ADDR"] = "http://127.0.0.1:1"
    answered = (
        Answered.json(status, errors=["canary-words"]) if status != 200 else Answered.json(nothing="canary-words")
    )
    setattr(vault, at, answered)
    if status in {0, *AWAY}:
        assert await fetch(secrets) == VALUE
        return
    for text in ("", other) if at == "login" else ("",):
        with pytest.raises(SecretError) as caught:
            await fetch(secrets, text)
        assert "canary" not in str(caught.value)
    with pytest.raises(SecretError):
        secrets.revealed(REFERENCE)
    environment["VAULT_ADDR"] = "http://127.0.0.1:1"  # nor is it used again because Vault cannot be reached afterwards
    clock.advance(6)
    with pytest.raises(SecretError):
        await fetch(secrets)


async def test_a_login_that_is_refused_ends_what_was_read_by_earlier_ones_too(
    service: Service, vault: DevVault
) -> None:
    clock = FixedClock()
    secrets = held(service, clock, **ROLE)
    await fetch(secrets)
    clock.advance(250)
    vault.secrets["other"] = {"token": "canary-other"}
    await fetch(secrets, "${vault:secret/other#token}")
    clock.advance(291)  # the login's time is over, and what was read last still good
    vault.login = Answered.json(400, errors=["invalid role or secret ID"])
    with pytest.raises(SecretError, match="did not log"):
        await fetch(secrets)
    with pytest.raises(SecretError, match="did not log"):
        secrets.revealed(parse_reference("${vault:secret/other#token}"))


async def test_a_token_that_was_taken_from_the_gateway_is_a_no(
    service: Service, vault: DevVault, tmp_path: Any
) -> None:
    file, clock = tmp_path / "token", FixedClock()
    file.write_text("root-token")
    secrets = held(service, clock, VAULT_TOKEN="", VAULT_TOKEN_FILE=str(file))
    await fetch(secrets)
    clock.advance(301)
    file.unlink()
    with pytest.raises(SecretError, match="VAULT_TOKEN"):
        await fetch(secrets)


async def test_a_policy_that_closes_the_address_of_vault_is_a_no(service: Service, vault: DevVault) -> None:
    clock, open_ = FixedClock(), [True]
    environment = {"VAULT_ADDR": service.origin, "VAULT_TOKEN": "root-token"}
    closed = Deny(rule="egress", reason="this address is closed")
    secrets = SecretResolver(environment, permit=lambda _: Allow(rule="test") if open_[0] else closed, clock=clock)
    await fetch(secrets)
    clock.advance(301)
    open_[0] = False
    with pytest.raises(SecretError, match="closed"):
        await fetch(secrets)


async def test_an_approle_logs_in_once_and_again_when_its_token_is_over_or_taken_back(
    service: Service, vault: DevVault
) -> None:
    clock = FixedClock()
    role = {"VAULT_TOKEN": "", "VAULT_ROLE_ID": "role", "VAULT_SECRET_ID": "canary-secret-id", "TOOLGEN_VAULT_TTL": "1"}
    secrets = held(service, clock, **role)
    for _ in range(3):
        assert await fetch(secrets) == VALUE
        clock.advance(2)
    assert vault.logins == 1
    vault.tokens.clear()
    assert await fetch(secrets) == VALUE
    assert vault.logins == 2
    clock.advance(541)
    await fetch(secrets)
    assert vault.logins == 3


async def test_a_namespace_is_named_and_a_token_may_stand_in_a_file(
    service: Service, vault: DevVault, tmp_path: Any
) -> None:
    vault.namespace = "team/a"
    file = tmp_path / "token"
    file.write_text("root-token\n", encoding="utf-8")
    with pytest.raises(SecretError):
        await fetch(held(service))
    assert await fetch(held(service, VAULT_NAMESPACE="team/a", VAULT_TOKEN="", VAULT_TOKEN_FILE=str(file))) == VALUE


@pytest.mark.parametrize(
    ("text", "environment", "why"),
    [
        ("${vault:secret/nothing#token}", {}, "no such secret"),
        ("${vault:secret/github/app#other}", {}, "no text under 'other'"),
        ("${vault:secret/github/app#number}", {}, "no text under 'number'"),
        ("", {"VAULT_TOKEN": "wrong"}, "does not let"),
        ("", {"VAULT_TOKEN": ""}, "VAULT_TOKEN"),
        ("", {"VAULT_TOKEN": "a\r\nX: canary"}, "cannot be sent"),
        ("", {"VAULT_ADDR": ""}, "VAULT_ADDR"),
        ("", {"VAULT_ADDR": "file:///etc/passwd"}, "VAULT_ADDR"),
        ("", {"VAULT_TOKEN": "", "VAULT_ROLE_ID": "role", "VAULT_SECRET_ID": "wrong"}, "did not log"),
    ],
)
async def test_what_cannot_be_read_is_named_and_asked_for_once(
    service: Service, text: str, environment: dict[str, str], why: str
) -> None:
    secrets = held(service, **environment)
    for _ in range(20):
        with pytest.raises(SecretError, match=why) as caught:
            await fetch(secrets, text)
        assert "vault:secret/" in caught.value.message
        assert "canary" not in str(caught.value)
        assert caught.value.code == "secret_unavailable"
    assert len(service.asked) <= 1


@pytest.mark.parametrize("address", ["http://169.254.169.254", "http://[::ffff:169.254.169.254]", "http://100.64.0.1"])
async def test_a_vault_where_cloud_metadata_is_never_asked(address: str) -> None:
    egress = Egress(private_networks=True)
    secrets = SecretResolver(
        {"VAULT_ADDR": address, "VAULT_TOKEN": "t"},
        permit=lambda to: egress.check_keys(to.host, to.port, to.address),
        clock=FixedClock(),
    )
    with pytest.raises(SecretError, match="does not connect"):
        await fetch(secrets)


@respx.mock
async def test_a_vault_elsewhere_is_asked_over_tls_by_its_name() -> None:
    route = respx.get("https://vault.example.com:8200/v1/secret/data/github/app").mock(
        return_value=Response(200, json={"data": {"data": {"token": VALUE}}})
    )
    secrets = SecretResolver({"VAULT_ADDR": "https://vault.example.com:8200/", "VAULT_TOKEN": "t"}, clock=FixedClock())
    assert await fetch(secrets) == VALUE
    assert route.calls[0].request.headers["x-vault-token"] == "t"
