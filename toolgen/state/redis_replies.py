"""Classification of the errors of a Redis client: Redis cannot be used now, or it answered one request with an error."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from toolgen.core.errors import connection_failure
from toolgen.state.count_connection import LinkError, ReplyError, StoreUnreachableError

__all__ = ["is_moved", "link_error"]

OWN_CODE = "TOOLGEN"
"""Code of errors of our own scripts; their text is fixed and quotes nothing."""

_UNUSABLE: Mapping[str, str] = MappingProxyType(
    {
        "LOADING": "it still loads its data",
        "READONLY": "it is a read-only replica",
        "MASTERDOWN": "it is a replica without its primary",
        "CLUSTERDOWN": "its cluster is down",
        "TRYAGAIN": "its cluster moves keys",
        "MOVED": "it is one node of a cluster; write `?cluster=1` in `state:`",
        "ASK": "it is one node of a cluster; write `?cluster=1` in `state:`",
        "CROSSSLOT": "it is one node of a cluster; write `?cluster=1` in `state:`",
        "BUSY": "a script keeps it busy",
        "MISCONF": "it cannot save its data, and takes no writes",
        "NOREPLICAS": "it has too few replicas, and takes no writes",
        "OOM": "its memory is full (maxmemory)",
        "NOAUTH": "it wants a password; check `state:` in toolgen.yaml",
        "WRONGPASS": "it does not accept the user and password; check `state:` in toolgen.yaml",
        "NOPERM": "its user may not run the commands that toolgen needs; check its ACL",
        "DENIED": "its protected mode refuses this client; check its bind address and password",
    }
)
"""Codes with which Redis refuses all requests, or all of ours."""

_CODE_OF_CLASS: Mapping[str, str] = MappingProxyType(
    {
        "BusyLoadingError": "LOADING",
        "ReadOnlyError": "READONLY",
        "MasterDownError": "MASTERDOWN",
        "ClusterDownError": "CLUSTERDOWN",
        "TryAgainError": "TRYAGAIN",
        "MovedError": "MOVED",
        "AskError": "ASK",
        "ClusterCrossSlotError": "CROSSSLOT",
        "OutOfMemoryError": "OOM",
        "AuthenticationError": "WRONGPASS",
        "AuthenticationWrongNumberOfArgsError": "WRONGPASS",
        "AuthorizationError": "NOPERM",
        "NoPermissionError": "NOPERM",
        "NoScriptError": "NOSCRIPT",
        "ExecAbortError": "EXECABORT",
    }
)
"""Code by error class of the client, which removes the code from the text. By name, because the client is an optional dependency."""

# An error inside a script: up to Redis 6 within the text ("ERR Error running script (…): @user_script: 1: -OOM command not allowed …").
_CODE = re.compile(r"(?:\A|: -)([A-Z]{2,20}) ")
_CODE_INSIDE = re.compile(r": -([A-Z]{2,20}) ")
_OWN_TEXT = re.compile(rf"{OWN_CODE} ([a-z ]{{1,100}})")


def link_error(error: BaseException, place: str, *, connecting: bool = False) -> LinkError:
    """Convert an exception of the Redis client. `place` is host and port; `connecting`: no request was sent yet.

    The text has the code of an answer and words of our own, never the answer's text, which may quote a key or a value.
    """
    from redis import exceptions  # noqa: PLC0415 - an optional dependency

    if isinstance(error, exceptions.ConnectionError) and "max number of clients" in str(error):
        return StoreUnreachableError(f"{place}: it takes no more connections (maxclients)")
    answers = (
        exceptions.ResponseError,
        exceptions.AuthenticationError,
        exceptions.AuthorizationError,
        exceptions.BusyLoadingError,
    )
    if not isinstance(error, answers):
        return StoreUnreachableError(f"{place}: {connection_failure(error)[0]}", unconfirmed=not connecting)
    code = _code_of(error)
    if code in _UNUSABLE:
        return StoreUnreachableError(f"{place}: {_UNUSABLE[code]} ({code})")
    if connecting:
        return StoreUnreachableError(f"{place}: it refuses the connection ({code}); check `state:` in toolgen.yaml")
    own = _OWN_TEXT.search(str(error))
    return ReplyError(own[1].strip() if own else f"Redis answered with an error ({code})")


def is_moved(error: BaseException) -> bool:
    """Return True if a node of a cluster refused a request because another node has the keys. Then nothing was executed."""
    return _code_of(error) == "MOVED"


def _code_of(error: BaseException) -> str:
    code = getattr(error, "status_code", None)  # since version 8 of the client
    if code is None:
        code = _CODE_OF_CLASS.get(type(error).__name__)
    if code is not None and code != "ERR":
        return str(code)
    found = (_CODE_INSIDE if code else _CODE).findall(f"{error} ")
    return str(found[-1]) if found else "ERR"
