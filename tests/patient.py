"""httpx's functions for servers that are processes of a test's own: on a busy machine such a one may take longer to begin than its
usual five seconds."""

from __future__ import annotations

from functools import partial

import httpx

get = partial(httpx.get, timeout=120)
post = partial(httpx.post, timeout=120)
