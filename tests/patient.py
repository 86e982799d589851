"""httpx's functions for servers that are processes of a test's own: on a busy machine such a one may take longer to begin than its
usual five seconds. They speak plain HTTP: no call reads the certificates of this machine, which takes longer than the call."""

from __future__ import annotations

import ssl
from functools import partial

import httpx

_NOBODY = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

get = partial(httpx.get, timeout=120, verify=_NOBODY)
post = partial(httpx.post, timeout=120, verify=_NOBODY)
