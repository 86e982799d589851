"""Key-encryption keys of AWS KMS and of Vault's transit engine, as strict stand-ins speak them, below the store of accounts."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.test_cloud_secrets import AWS, signed_by
from tests.services.authorization import Answered, Asked, Service, serving
from tests.state.test_accounts import account
from toolgen.connectors.key_services import KeyService, ServiceKeys, key_service
from toolgen.core.clock import FixedClock
from toolgen.core.errors import StateError, StateUnavailableError
from toolgen.model.verdict import Deny
from toolgen.state.accounts import AccountStore
from toolgen.state.accounts_sqlite import SqliteAccountRows
from toolgen.state.key_encryption import FileKeys


class Kms:
    """AWS KMS: a wrapped key opens with its encryption context alone."""

    def __init__(self) -> None:
        self.origin = ""
        self.wrapped: dict[str, tuple[str, dict[str, str]]] = {}
        self.status = 200

    def __call__(self, asked: Asked) -> Answered:
        if self.status != 200:
            return Answered.json(self.status, __type="KMSInternalException", message="canary")
        assert signed_by(asked, self.origin, "AKIDEXAMPLE", "canary-aws-key")
        given: dict[str, Any] = json.loads(asked.body)
        assert given["KeyId"] == "alias/toolgen"
        if asked.headers["X-Amz-Target"] == "TrentService.Encrypt":
            blob = base64.b64encode(secrets.token_bytes(40)).decode()
            self.wrapped[blob] = given["Plaintext"], given["EncryptionContext"]
            return Answered.json(CiphertextBlob=blob)
        assert asked.headers["X-Amz-Target"] == "TrentService.Decrypt"
        found = self.wrapped.get(given["CiphertextBlob"])
        if found is None or found[1] != given["EncryptionContext"]:
            return Answered.json(400, __type="InvalidCiphertextException")
        return Answered.json(Plaintext=found[0])


class Transit:
    """Vault's transit engine with an AEAD key, which opens for its associated data alone."""

    def __init__(self) -> None:
        self.latest = 1
        self.wrapped: dict[str, tuple[str, str]] = {}
        self.status = 200

    def __call__(self, asked: Asked) -> Answered:
        if self.status != 200 or asked.headers.get("X-Vault-Token") != "canary-token":
            return Answered.json(self.status if self.status != 200 else 403, errors=["canary"])
        if asked.path == "/v1/transit/keys/accounts":
            return Answered.json(data={"latest_version": self.latest, "type": "aes256-gcm96"})
        given = json.loads(asked.body)
        if asked.path == "/v1/transit/encrypt/accounts":
            text = f"vault:v{self.latest}:{secrets.token_urlsafe(32)}"
            self.wrapped[text] = given["plaintext"], given["associated_data"]
            return Answered.json(data={"ciphertext": text, "key_version": self.latest})
        assert asked.path == "/v1/transit/decrypt/accounts"
        found = self.wrapped.get(given["ciphertext"])
        if found is None or found[1] != given["associated_data"]:
            return Answered.json(400, errors=["cipher: message authentication failed"])
        return Answered.json(data={"plaintext": found[0]})


@contextmanager
def running(kind: str, clock: FixedClock, **more: Any) -> Iterator[tuple[Any, Service, KeyService]]:
    fake: Any = Kms() if kind == "aws" else Transit()
    with serving(fake) as service:
        fake.origin = service.origin
        written = "aws:alias/toolgen" if kind == "aws" else "vault:transit/accounts"
        aws = {**AWS, "AWS_ENDPOINT_URL_KMS": service.origin}
        environment = aws if kind == "aws" else {"VAULT_ADDR": service.origin, "VAULT_TOKEN": "canary-token"}
        yield fake, service, key_service(written, environment, permit=more.get("permit"), clock=clock)


def opened(root: Path, service: KeyService, clock: FixedClock) -> AccountStore:
    keys = ServiceKeys(service, FileKeys(root / "accounts.key"), clock)
    return AccountStore(SqliteAccountRows(root / "accounts.db", clock), keys)


@pytest.mark.parametrize("kind", ["aws", "vault"])
async def test_accounts_are_kept_under_the_key_of_a_service(tmp_path: Path, kind: str) -> None:
    clock = FixedClock(1_700_000_000.0)
    with running(kind, clock) as (_, service, keys):
        store = opened(tmp_path, keys, clock)
        kept = await store.put(account())
        assert kept is not None
        for _ in range(3):
            assert await store.get(kept.key) == kept
        asked = len(service.asked)
        assert await store.get(kept.key) == kept
        assert len(service.asked) == asked
        await store.close()
        assert not (tmp_path / "accounts.key").exists()
        content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        assert b"canary" not in content
        assert all(b"canary-access" not in one.body for one in service.asked)
        assert "canary" not in repr(ServiceKeys(keys, FileKeys(tmp_path / "x"), clock))


@pytest.mark.parametrize("kind", ["aws", "vault"])
async def test_a_row_put_in_place_of_another_is_not_opened_by_the_service(tmp_path: Path, kind: str) -> None:
    clock = FixedClock(1_700_000_000.0)
    with running(kind, clock) as (_, _, keys):
        store, rows = opened(tmp_path, keys, clock), SqliteAccountRows(tmp_path / "accounts.db", clock)
        await store.put(account(name="a"))
        await store.put(account(name="b"))
        first, second = await rows.get(account(name="a").key.id), await rows.get(account(name="b").key.id)
        assert first is not None
        assert second is not None
        swapped = type(first)(id=first.id, person=first.person, version=first.version + 1, record=second.record)
        assert await rows.put(swapped)
        with pytest.raises(StateError):
            await store.get(account(name="a").key)
        await store.close()
        await rows.close()


@pytest.mark.parametrize("kind", ["aws", "vault"])
async def test_keys_of_a_file_are_wrapped_again_by_the_service(tmp_path: Path, kind: str) -> None:
    clock = FixedClock(1_700_000_000.0)
    before = AccountStore(SqliteAccountRows(tmp_path / "accounts.db", clock), FileKeys(tmp_path / "accounts.key"))
    kept = await before.put(account())
    await before.close()
    assert kept is not None
    with running(kind, clock) as (_, _, keys):
        store = opened(tmp_path, keys, clock)
        assert (await store.get(kept.key)) == kept
        assert (await store.rotate(), await store.rotate()) == (1, 0)
        (tmp_path / "accounts.key").unlink()
        found = await store.get(kept.key)
        assert found is not None
        assert found.access_token == kept.access_token
        await store.close()


async def test_a_rotated_key_of_vault_wraps_again(tmp_path: Path) -> None:
    clock = FixedClock(1_700_000_000.0)
    with running("vault", clock) as (fake, _, keys):
        store = opened(tmp_path, keys, clock)
        await store.put(account())
        assert await store.rotate() == 0
        fake.latest = 2
        clock.advance(61)
        assert (await store.rotate(), await store.rotate()) == (1, 0)
        await store.close()


@pytest.mark.parametrize("kind", ["aws", "vault"])
@pytest.mark.parametrize("status", [400, 403, 500])
async def test_a_service_that_says_no_gives_no_account(tmp_path: Path, kind: str, status: int) -> None:
    clock = FixedClock(1_700_000_000.0)
    with running(kind, clock) as (fake, _, keys):
        store = opened(tmp_path, keys, clock)
        kept = await store.put(account())
        assert kept is not None
        await store.get(kept.key)
        fake.status = status
        clock.advance(301)
        with pytest.raises(StateUnavailableError) as failed:
            await store.get(kept.key)
        assert "canary" not in str(failed.value)
        with pytest.raises(StateUnavailableError):
            await store.put(account(name="other"))
        await store.close()


@pytest.mark.parametrize("kind", ["aws", "vault"])
async def test_a_service_that_the_policy_closes_is_not_asked(tmp_path: Path, kind: str) -> None:
    clock = FixedClock(1_700_000_000.0)
    deny = Deny(code="egress_refused", rule="egress", reason="no")
    with running(kind, clock, permit=lambda _: deny) as (_, service, keys):
        store = opened(tmp_path, keys, clock)
        with pytest.raises(StateUnavailableError):
            await store.put(account())
        assert service.asked == []
        await store.close()
