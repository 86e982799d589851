"""Sources of a project that are called with accounts of people."""

from __future__ import annotations

from collections.abc import Mapping

from toolgen.config.settings import Settings
from toolgen.connectors.registry import CONNECTORS
from toolgen.model.auth import UserAccount, read_form
from toolgen.model.auth_schemes import HEADERS

__all__ = ["account_forms"]


def account_forms(settings: Settings) -> Mapping[str, UserAccount]:
    """Return the account of each source that is called with accounts of people."""
    found: dict[str, UserAccount] = {}
    for name, source in settings.sources.items():
        if CONNECTORS[source.config.kind].takes_accounts:
            for scheme, written in source.auth.items():
                form = None if scheme == HEADERS else read_form(written)
                if isinstance(form, UserAccount):
                    found[name] = form
    return found
