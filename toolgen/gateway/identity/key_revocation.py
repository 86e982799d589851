"""Revocation of API keys by an operator of the gateway: written like `toolgen keys revoke`, in force at once, and recorded."""

from __future__ import annotations

import asyncio

from toolgen.core.errors import ConfigError
from toolgen.gateway.protocol import Administration
from toolgen.policy.key_list import revoke

__all__ = ["revoke_key"]


async def revoke_key(gateway: Administration, key_id: str, *, by: str, client: str) -> str:
    """Revoke the key with an id, and return the name of its principal. The revocation is effective even if it cannot be recorded.

    Raises `ConfigError` if there is not exactly one such accepted key, `PolicyError` if nothing could be written, and `AuditError` if it is
    revoked but not recorded.
    """
    credentials = gateway.policy.credentials
    revoked = credentials.keys_revoked()
    found = [
        (name, key.sha256)
        for name, entry in credentials.principals.items()
        for key in entry.keys
        if key.id == key_id and key.sha256 not in revoked
    ]
    if not found:
        raise ConfigError("no accepted key has this id", suggestion="reload the list")
    if len(found) > 1:
        raise ConfigError(
            f"{len(found)} keys have this id", suggestion="revoke one with `toolgen keys revoke` and more of its hash"
        )
    ((owner, sha256),) = found
    digest = f"sha256:{sha256}"
    await asyncio.to_thread(
        revoke,
        gateway.settings.policies,
        {"key": digest, "of": owner},
        lambda entry: str(entry.get("hash", "")) == digest,
    )
    await gateway.operations.reload(complete=False)
    said = {"key": key_id, "of": owner, "by": by}
    entry = {"event": "keys", "status": "ok", "code": "key_revoked", "client": client, "arguments": said}
    await gateway.tool_calls.approvals.calls.log.append(entry)
    return owner
