"""Id tokens of people in the console, kept encrypted with their sessions where a source exchanges tokens of callers."""

from __future__ import annotations

from toolgen.core.errors import StateError
from toolgen.gateway.identity.jwt import LEEWAY_S, RefusedTokenError, check_claims, read_token
from toolgen.gateway.protocol import Administration
from toolgen.model.secret import Secret
from toolgen.state.key_encryption import SealedRecord
from toolgen.state.sessions import SignInSession

__all__ = ["id_token_of", "sealed_id_token"]


async def sealed_id_token(gateway: Administration, id_token: str, form_token: str) -> SealedRecord | None:
    """Return an id token, encrypted for the session with this form token; None without one, or if no source needs it.

    Raises `StateError`.
    """
    if not id_token or not gateway.callers.exchange_tokens:
        return None
    return await gateway.accounts.store.seal(id_token.encode("ascii"), _about(form_token))


async def id_token_of(gateway: Administration, session: SignInSession, now: float) -> Secret | None:
    """Return the id token of a session; None if it has expired, no source needs it any more, or its key is gone."""
    if session.id_token is None or not gateway.callers.exchange_tokens:
        return None
    try:
        text = (await gateway.accounts.store.unseal(session.id_token, _about(session.form_token))).decode("ascii")
        check_claims(read_token(text).claims, now + LEEWAY_S)
    except (StateError, RefusedTokenError):
        return None
    return Secret(text)


def _about(form_token: str) -> str:
    return f"console session {form_token}"
