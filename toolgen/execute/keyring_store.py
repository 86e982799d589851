"""`${keyring:service/name}`: the keyring of the account that the gateway runs as, by the keyring library where it is installed."""

from __future__ import annotations

from toolgen.errors import SecretError

__all__ = ["read_keyring"]


def read_keyring(locator: str) -> str:
    """The password `service/name`. May wait for the desktop or the system's service. Raises `SecretError`, naming the reference."""
    try:
        import keyring  # noqa: PLC0415 - behind the extra `keyring`
        from keyring.errors import KeyringError  # noqa: PLC0415
    except ImportError:
        raise SecretError(
            f"${{keyring:{locator}}} needs the keyring library",
            suggestion='install it with: pip install "toolgen[keyring]"',
        ) from None
    service, _, name = locator.partition("/")
    try:
        value = keyring.get_password(service, name)
    except (KeyringError, RuntimeError, OSError) as error:
        raise SecretError(
            f"the keyring cannot be asked for {locator} ({type(error).__name__})",
            suggestion="unlock it, or choose a backend for the account the gateway runs as",
        ) from None
    if not value:
        raise SecretError(
            f"the keyring has no password {locator}", suggestion=f"set it with: keyring set {service} {name}"
        )
    return value
