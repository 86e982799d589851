"""Keys of AWS KMS and secrets of AWS Secrets Manager, as moto has them: a program of another maker (`make destinations`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from msgspec.structs import replace

from tests.connectors.test_cloud_secrets import AWS, VALUE
from tests.services.other_programs import moto, needs_tools
from tests.state.test_accounts import account
from toolgen.connectors.key_services import ServiceKeys, key_service
from toolgen.connectors.secrets import SecretResolver, parse_reference
from toolgen.core.clock import FixedClock, SystemClock
from toolgen.core.errors import SecretError, StateError
from toolgen.state.accounts import AccountStore
from toolgen.state.accounts_sqlite import SqliteAccountRows
from toolgen.state.key_encryption import FileKeys

pytestmark = needs_tools


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with moto() as found:
        yield found


def client(service: str, url: str) -> Any:
    return botocore.session.get_session().create_client(
        service,
        region_name=AWS["AWS_REGION"],
        endpoint_url=url,
        aws_access_key_id=AWS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=AWS["AWS_SECRET_ACCESS_KEY"],
    )


async def test_accounts_are_kept_under_a_key_of_kms_and_a_row_of_another_does_not_open(
    url: str, tmp_path: Path
) -> None:
    kms = client("kms", url)
    kms.create_alias(AliasName="alias/toolgen", TargetKeyId=kms.create_key()["KeyMetadata"]["KeyId"])
    clock = FixedClock(1_700_000_000.0)
    service = key_service("aws:alias/toolgen", {**AWS, "AWS_ENDPOINT_URL_KMS": url}, permit=None, clock=clock)
    rows = SqliteAccountRows(tmp_path / "accounts.db", clock)

    def opened() -> AccountStore:
        return AccountStore(rows, ServiceKeys(service, FileKeys(tmp_path / "accounts.key"), clock))

    kept = await opened().put(account(name="a"))
    await opened().put(account(name="b"))
    assert kept is not None
    assert await opened().get(kept.key) == kept
    first, second = await rows.get(kept.key.id), await rows.get(account(name="b").key.id)
    assert first is not None
    assert second is not None
    assert await rows.put(replace(first, version=first.version + 1, record=second.record))
    with pytest.raises(StateError):
        await opened().get(kept.key)
    assert not (tmp_path / "accounts.key").exists()


async def test_a_secret_is_read_and_one_that_is_not_there_is_named(url: str) -> None:
    manager = client("secretsmanager", url)
    manager.create_secret(Name="prod/github", SecretString=json.dumps({"token": VALUE}))
    secrets = SecretResolver({**AWS, "AWS_ENDPOINT_URL_SECRETS_MANAGER": url}, clock=SystemClock())
    assert (await secrets.fetch(parse_reference("${aws:prod/github#token}"))).reveal() == VALUE
    with pytest.raises(SecretError, match="prod/gitlab"):
        await secrets.fetch(parse_reference("${aws:prod/gitlab}"))
