"""Request headers that belong to the gateway: no argument of a tool ever sets one."""

from __future__ import annotations

from functools import lru_cache

from toolgen.model.parameter_names import NameSet

__all__ = ["GATEWAY_HEADERS", "is_gateway_header"]


GATEWAY_HEADERS = frozenset(
    {
        "accept",
        "accept-encoding",
        "authorization",
        "connection",
        "content-length",
        "content-type",
        "cookie",
        "expect",
        "forwarded",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "x-forwarded-for",
        "x-http-method",
        "x-http-method-override",
        "x-method-override",
        "x-forwarded-host",
        "x-forwarded-proto",
    }
)
"""Gateway headers in lower case: framing and routing (RFC 9110 section 7.6.1, RFC 9112), identity and overrides, and headers determined
by the body.
"""

_NAMES = NameSet(GATEWAY_HEADERS)


@lru_cache(maxsize=4096)
def is_gateway_header(name: str) -> bool:
    """Return True if some service takes a header for one of `GATEWAY_HEADERS`: CGI and similar take `X_Forwarded_For` for
    `X-Forwarded-For`.

    `contentType` differs from `Content-Type` for every service, and descriptions use it.
    """
    return _NAMES.find(name) is not None and name.lower() != "contenttype"
