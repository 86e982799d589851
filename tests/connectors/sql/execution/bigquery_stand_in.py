"""A stand-in for BigQuery's REST interface, strict about requests, over TLS on loopback; and a token endpoint of Google beside it.

It is written from the public reference (https://cloud.google.com/bigquery/docs/reference/rest) for what no emulator answers: tokens,
rights, the statistics of a dry run, pages and cancellation. It knows no SQL. No Google account took part.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.authorities import Authority

__all__ = ["ALL_RIGHTS", "READS", "TOKEN", "StandIn", "standing_in"]

TOKEN: Final = "canary-bigquery-token"
READS: Final = ("bigquery.tables.getData",)
ALL_RIGHTS: Final = (*READS, "bigquery.tables.updateData", "bigquery.tables.delete")
_PRIVATE: Final = rsa.generate_private_key(public_exponent=65537, key_size=2048)
_ROOT: Final = "/bigquery/v2/projects/lab-project/"
_QUERY: Final = {
    "query", "useLegacySql", "defaultDataset", "maximumBytesBilled", "priority", "parameterMode", "queryParameters", "useQueryCache",
}  # fmt: skip


class StandIn:
    """State of the service: what it says of tables, statements and jobs, and what it was asked."""

    def __init__(self) -> None:
        self.origin = ""
        self.host = ""
        self.asked: list[tuple[str, str, Any]] = []
        self.faults: list[str] = []
        self.cancelled: list[str] = []
        self.tables: dict[str, dict[str, Any]] = {
            "orders": {"type": "TABLE", "schema": {"fields": [{"name": "id", "type": "INTEGER", "mode": "REQUIRED"}]}}
        }
        self.rights: dict[str, tuple[str, ...]] = {}
        self.token = TOKEN
        self.tokens = 0
        self.statistics: Callable[[str], dict[str, Any]] = lambda _sql: self.said("orders")
        self.fields: list[dict[str, Any]] = [{"name": "id", "type": "INTEGER"}]
        self.rows: list[Any] = [{"f": [{"v": "1"}]}]
        self.page = 1_000
        self.complete = True
        self.error: dict[str, str] | None = None
        self.late_error: dict[str, str] | None = None
        self.warnings: list[dict[str, str]] = []
        self.results = threading.Event()

    def said(self, *tables: str, kind: str = "SELECT", size: int = 10) -> dict[str, Any]:
        """Statistics of a dry run."""
        names = [{"projectId": "lab-project", "datasetId": "shop", "tableId": name} for name in tables]
        return {
            "statementType": kind,
            "referencedTables": names,
            "totalBytesProcessed": str(size),
            "schema": {"fields": self.fields},
        }

    def awaited(self) -> None:
        """Wait until the results of another job are asked for."""
        self.results.clear()
        assert self.results.wait(60)

    def location(self, options: str = "") -> str:
        return f"bigquery://lab-project@{self.host}/shop{'?' if options else ''}{options}"

    def key(self) -> str:
        """The key of a service account, as its file has it."""
        pem = _PRIVATE.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return json.dumps({"client_email": "a@b", "private_key": pem.decode(), "token_uri": f"{self.origin}/token"})

    # answers

    def answer(self, method: str, path: str, query: Mapping[str, str], body: Any) -> tuple[int, Any]:
        match method, path.split("/"):
            case "POST", ["jobs"]:
                return self._job(body)
            case "POST", ["jobs", name, "cancel"]:
                self.cancelled.append(name)
                return 200, {"kind": "bigquery#jobCancelResponse"}
            case "GET", ["jobs", _]:
                failed = {"errorResult": self.late_error} if self.late_error else {}
                return 200, {"status": {"state": "DONE", "errors": self.warnings, **failed}}
            case "GET", ["queries", _]:
                return self._results(query)
            case "GET", ["datasets", "shop", "tables"]:
                listed = [
                    {"tableReference": {"tableId": name}, "type": one["type"]} for name, one in self.tables.items()
                ]
                start = int(query.get("pageToken", "0"))
                more = {"pageToken": str(start + 1)} if start + 1 < len(listed) else {}
                return 200, {"tables": listed[start : start + 1], **more}
            case "GET", ["datasets", "shop", "routines"]:
                return 200, {"routines": [{"routineReference": {"routineId": "Twice"}}]}
            case "GET", ["datasets", "shop", "tables", name] if name in self.tables:
                return 200, self.tables[name]
            case "POST", ["datasets", "shop", "tables", asked] if asked.endswith(":testIamPermissions"):
                held = self.rights.get(asked.partition(":")[0], READS)
                return 200, {"permissions": [one for one in body["permissions"] if one in held]}
        return 404, _error("notFound")

    def _job(self, body: Any) -> tuple[int, Any]:
        configuration = body["configuration"]
        query = configuration["query"]
        if unknown := {*query} - _QUERY | {*configuration} - {"dryRun", "query", "jobTimeoutMs", "labels"}:
            self.faults.append(f"unknown fields {unknown}")
        if query["useLegacySql"] is not False or int(query["maximumBytesBilled"]) <= 0:
            self.faults.append("legacy SQL, or no cap")
        if query.get("queryParameters") and query.get("parameterMode") != "POSITIONAL":
            self.faults.append("parameters without a mode")
        if configuration.get("dryRun"):
            return 200, {"status": {"state": "DONE"}, "statistics": {"query": self.statistics(query["query"])}}
        if not body["jobReference"]["jobId"].startswith("toolgen_"):
            self.faults.append("a job without a name of its own")
        status = {"state": "DONE", **({"errorResult": self.error} if self.error else {})}
        return 200, {"jobReference": body["jobReference"], "status": status}

    def _results(self, query: Mapping[str, str]) -> tuple[int, Any]:
        self.results.set()
        if not self.complete:
            return 200, {"jobComplete": False}
        start = int(query.get("pageToken", "0"))
        end = min(start + min(int(query["maxResults"]), self.page), len(self.rows))
        more: dict[str, Any] = {"pageToken": str(end)} if end < len(self.rows) else {}
        more |= {"errors": self.warnings} if self.warnings else {}
        return 200, {"jobComplete": True, "schema": {"fields": self.fields}, "rows": self.rows[start:end], **more}

    def granted(self, form: Mapping[str, str]) -> tuple[int, Any]:
        """The token endpoint (RFC 7523)."""
        claims = jwt.decode(
            form["assertion"], _PRIVATE.public_key(), algorithms=["RS256"], audience=f"{self.origin}/token"
        )
        if claims["scope"] != "https://www.googleapis.com/auth/bigquery":
            self.faults.append(f"the scope {claims['scope']}")
        self.tokens += 1
        return 200, {"access_token": self.token, "expires_in": 3600}


def _error(reason: str) -> dict[str, Any]:
    return {
        "error": {
            "errors": [{"reason": reason, "message": "CANARY of the service"}],
            "message": "CANARY of the service",
        }
    }


@contextmanager
def standing_in(folder: Path) -> Iterator[tuple[StandIn, Path]]:
    """A stand-in, and the certificate of its authority."""
    state = StandIn()
    authority = Authority(folder, "authority")
    certificate, key = authority.issue("localhost")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer("GET", b"")

        def do_POST(self) -> None:
            self._answer("POST", self.rfile.read(int(self.headers.get("Content-Length") or 0)))

        def _answer(self, method: str, body: bytes) -> None:
            parts = urlsplit(self.path)
            if parts.path == "/token":
                status, said = state.granted({name: one[0] for name, one in parse_qs(body.decode()).items()})
            elif self.headers.get("Authorization") != f"Bearer {state.token}":
                status, said = 401, _error("authError")
            elif not parts.path.startswith(_ROOT):
                status, said = 404, _error("notFound")
            else:
                query = {name: one[0] for name, one in parse_qs(parts.query, strict_parsing=bool(parts.query)).items()}
                asked = json.loads(body) if body else None
                state.asked.append((method, parts.path.removeprefix(_ROOT), asked))
                status, said = state.answer(method, unquote(parts.path.removeprefix(_ROOT)), query, asked)
            written = said if isinstance(said, bytes) else json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(written)))
            self.end_headers()
            self.wfile.write(written)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    state.host = f"localhost:{server.server_port}"
    state.origin = f"https://{state.host}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state, authority.path
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
