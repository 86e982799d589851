"""SQL API of Snowflake in front of its emulator fakesnow: a program of the environment .venv-snowflake, which toolgen is not part of.

fakesnow serves the private protocol of Snowflake's drivers and not the SQL API, so requests and answers are written here after the public
description, and statements are run by fakesnow (SQLGlot and DuckDB). It reads a JSON list of statements from standard input, runs them,
prints its port and serves. What fakesnow does not know (grants, secondary roles, the catalog of functions) is answered from `--answers`.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import json
import sys
import threading
import time
import uuid
from datetime import UTC, date, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import jwt
import snowflake.connector.errors
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key
from fakesnow.converter import from_binding
from fakesnow.instance import FakeSnow
from fakesnow.rowtype import describe_as_rowtype

FIELDS = {"statement", "timeout", "database", "schema", "warehouse", "role", "bindings", "parameters"}
COLUMN = ("name", "type", "length", "precision", "scale", "nullable")
PARAMETERS = {
    *("multi_statement_count", "query_tag", "rows_per_resultset", "timezone", "use_cached_result", "client_result_chunk_size"),
    *("date_output_format", "time_output_format", "timestamp_output_format", "binary_output_format"),
}  # fmt: skip


class Run:
    """Statement that runs, has ended or was cancelled."""

    def __init__(self) -> None:
        self.status = 202
        self.body: dict = {}
        self.rows: list[list[str | None]] = []
        self.connection = None
        self.cancelled = False


class Emulator:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.key = load_pem_public_key(Path(options.public_key).read_bytes())
        self.answers = json.loads(Path(options.answers).read_text(encoding="utf-8"))
        self.snow = FakeSnow()
        self.runs: dict[str, Run] = {}
        self.seen: list[dict] = []

    def setup(self, statements: list[str]) -> None:
        cursor = self.snow.connect(self.options.database, "PUBLIC").cursor()
        for statement in statements:
            cursor.execute(statement)

    def refusal(self, headers) -> str:
        """Return the reason why a request is not signed in, or ""."""
        if headers.get("X-Snowflake-Authorization-Token-Type") != "KEYPAIR_JWT" or not headers.get("User-Agent"):
            return "headers"
        token = (headers.get("Authorization") or "").removeprefix("Bearer ")
        der = self.key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        name = f"{self.options.account}.{self.options.user}"
        issuer = f"{name}.SHA256:{base64.b64encode(hashlib.sha256(der).digest()).decode()}"
        try:
            claims = jwt.decode(
                token, self.key, algorithms=["RS256"], issuer=issuer, options={"require": ["exp", "iat", "sub"]}
            )
        except jwt.PyJWTError as error:
            return type(error).__name__
        return "" if claims["sub"] == name and claims["exp"] - claims["iat"] <= 3600 else "claims"

    def submit(self, body: dict) -> tuple[int, dict]:
        parameters = body.get("parameters", {})
        if set(body) - FIELDS or set(parameters) - PARAMETERS or parameters.get("multi_statement_count", 1) != 1:
            return 400, {"code": "391911", "message": "unknown field"}
        run, handle = Run(), str(uuid.uuid4())
        self.runs[handle] = run
        worker = threading.Thread(target=self.execute, args=(run, body, handle), daemon=True)
        worker.start()
        timer = threading.Timer(body["timeout"] or 604800, self.stop, (run, 408))
        timer.daemon = True
        timer.start()
        return 202, {"code": "333334", "message": "running", "statementHandle": handle}

    def stop(self, run: Run, status: int) -> None:
        if run.status == 202:
            run.status, run.body, run.cancelled = status, {"code": "000604", "sqlState": "57014"}, True
            if run.connection is not None:
                run.connection._duck_conn.interrupt()

    def execute(self, run: Run, body: dict, handle: str) -> None:
        sql = body["statement"]
        answer = next((one for one in self.answers if sql.startswith(one["statement"])), None)
        try:
            if answer is not None:
                kinds = [{"name": name, "type": "text"} for name in answer["columns"]]
                values = answer["rows"]
            else:
                kinds, values = self.run(run, sql, body.get("bindings", {}), body["database"])
            most = body.get("parameters", {}).get("rows_per_resultset") or len(values)
            run.rows = [
                [encoded(value, kind["type"]) for value, kind in zip(row, kinds, strict=True)] for row in values[:most]
            ]
            size = self.options.partition
            counts = [len(run.rows[start : start + size]) for start in range(0, len(run.rows), size)] or [0]
            run.body = {
                "code": "090001",
                "statementHandle": handle,
                "resultSetMetaData": {
                    "numRows": len(run.rows),
                    "format": "jsonv2",
                    "rowType": kinds,
                    "partitionInfo": [{"rowCount": count, "uncompressedSize": 1} for count in counts],
                },
            }
            if not run.cancelled:
                run.status = 200
        except snowflake.connector.errors.Error as error:
            if not run.cancelled:
                run.body = {
                    "code": f"{error.errno or 0:06d}",
                    "sqlState": error.sqlstate or "",
                    "message": str(error),
                    "statementHandle": handle,
                }
                run.status = 422
        except Exception as error:
            print(f"{sql}: {type(error).__name__} {error}", file=sys.stderr, flush=True)
            if not run.cancelled:
                run.body = {"code": "000603", "sqlState": "XX000", "message": str(error), "statementHandle": handle}
                run.status = 422

    def run(self, run: Run, sql: str, bindings: dict, database: str) -> tuple[list[dict], list[tuple]]:
        given = tuple(
            None if one["value"] is None else value_of(one)
            for _, one in sorted(bindings.items(), key=lambda one: int(one[0]))
        )
        connection = self.snow.connect(database, "PUBLIC")
        run.connection = connection
        cursor = connection.cursor()
        cursor.execute(sql, binding_params=given, server=True)
        described = describe_as_rowtype(cursor._describe_last_sql())
        kinds = [{name: one[name] for name in COLUMN if one[name] is not None} for one in described]
        return kinds, list(zip(*(column.to_pylist() for column in cursor._arrow_table.columns), strict=True))

    def partition(self, handle: str, number: int) -> tuple[int, dict]:
        run = self.runs.get(handle)
        if run is None:
            return 404, {}
        body = dict(run.body)
        if run.status == 200:
            size = self.options.partition
            body["data"] = run.rows[number * size : (number + 1) * size]
            if number:
                body = {"data": body["data"]}
        return run.status, {"statementHandle": handle, **body}


def value_of(binding: dict) -> object:
    return float(binding["value"]) if binding["type"] == "REAL" else from_binding(binding)


def encoded(value, kind: str) -> str | None:
    """Return a value in the encoding of the format jsonv2."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        whole = moment - datetime(1970, 1, 1, tzinfo=UTC)
        micros = (whole.days * 86_400 + whole.seconds) * 1_000_000 + whole.microseconds
        text = f"{'-' if micros < 0 else ''}{abs(micros) // 1_000_000}.{abs(micros) % 1_000_000:06d}000"
        return f"{text} 1440" if kind == "timestamp_tz" else text
    if isinstance(value, date):
        return str((value - date(1970, 1, 1)).days)
    if kind == "time":
        return f"{value.hour * 3600 + value.minute * 60 + value.second}.{value.microsecond:06d}000"
    return value.hex() if isinstance(value, bytes) else str(value)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    emulator: Emulator

    def log_message(self, *_: object) -> None:
        """Print nothing: the test asks for the requests that were seen."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path == "/seen":
            self.answer(200, {"seen": self.emulator.seen})
        elif self.signed_in(b""):
            handle = url.path.removeprefix("/api/v2/statements/")
            number = int(parse_qs(url.query).get("partition", ["0"])[0])
            self.answer(*self.emulator.partition(handle, number), packed=number > 0)

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not self.signed_in(content):
            return
        url = urlsplit(self.path)
        if url.path == "/api/v2/statements" and parse_qs(url.query).get("async") == ["true"]:
            self.answer(*self.emulator.submit(json.loads(content)))
        elif url.path.endswith("/cancel"):
            run = self.emulator.runs.get(url.path.split("/")[4])
            if run is not None:
                self.emulator.stop(run, 422)
            self.answer(200 if run is not None else 404, {"statementHandle": url.path.split("/")[4]})
        else:
            self.answer(400, {})

    def signed_in(self, content: bytes) -> bool:
        self.emulator.seen.append({"method": self.command, "path": self.path, "body": json.loads(content or b"{}")})
        reason = self.emulator.refusal(self.headers)
        if reason:
            self.answer(401, {"code": "390144", "message": reason})
        return not reason

    def answer(self, status: int, body: dict, packed: bool = False) -> None:
        content = json.dumps(body).encode()
        if packed:
            content = gzip.compress(content)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        if packed:
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("public-key", "answers", "account", "user", "database"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--partition", type=int, default=2)
    Handler.emulator = Emulator(parser.parse_args())
    Handler.emulator.setup(json.loads(sys.stdin.readline()))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while sys.stdin.read(4096):  # until the test closes its end
        time.sleep(0.01)


if __name__ == "__main__":
    main()
