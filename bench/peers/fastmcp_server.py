"""FastMCP over an OpenAPI description, stateless with JSON answers: `python fastmcp_server.py DOCUMENT UPSTREAM PORT`."""

import json
import sys
from pathlib import Path

import httpx2
import uvicorn
from fastmcp import FastMCP  # type: ignore[import-not-found]  # it is in .venv-peers

document, upstream, port = sys.argv[1:]
limits = httpx2.Limits(max_connections=200, max_keepalive_connections=200)
client = httpx2.AsyncClient(base_url=upstream, headers={"X-Key": "bench"}, limits=limits)
server = FastMCP.from_openapi(json.loads(Path(document).read_text(encoding="utf-8")), client=client, name="pets")
app = server.http_app(path="/mcp", stateless_http=True, json_response=True)
uvicorn.run(
    app, host="127.0.0.1", port=int(port), log_level="warning", access_log=False, loop="uvloop", http="httptools"
)
