"""Each message of docs/how-to/troubleshooting.md is what toolgen says when that happens."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.cli.commands import Output, Run, runner
from tests.execute.failing import closed

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "troubleshooting.md"
ROWS = dict(re.findall(r"^\| (.+?) \| `(.+?)` \| .+ \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
LIST = ("call", "shop_orders__list_orders", "--as", "agent")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """In an empty folder, as somebody begins."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHOP_ORDERS_API_KEY", "key-0123456789")
    return runner(capfdbinary)


def made(run: Run, server: str = "http://127.0.0.1:9") -> Path:
    """A project of one description, built."""
    text = (ROOT / "specs" / "orders.yaml").read_text(encoding="utf-8")
    Path("orders.yaml").write_text(re.sub(r"http://127\.0\.0\.1:8801", server, text), encoding="utf-8")
    assert run("init", "orders.yaml").code == 0
    assert run("build").code == 0
    return Path("toolgen.yaml")


def edited(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


@contextmanager
def failing() -> Iterator[str]:
    """A service that answers 500; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b'{"error": "boom"}'
            self.send_response(500)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 - its name there

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def wrong_url(run: Run) -> Output:
    with closed() as server:
        return run("init", f"{server}/openapi.json")


def misspelt_key(run: Run) -> Output:
    edited(made(run), "sources:", "sorces:")
    return run("build")


def misspelt_policy(run: Run) -> Output:
    made(run)
    edited(Path("policies", "policy.yaml"), "  allow:", "  alow:")
    return run("serve")


def half_a_description(run: Run) -> Output:
    made(run)
    Path("orders.json").write_text(json.dumps({"openapi": "3.1.0", "info": {"title": "a"}})[:-9], encoding="utf-8")
    edited(Path("toolgen.yaml"), "orders.yaml", "orders.json")
    return run("build")


def half_a_manifest(run: Run) -> Output:
    made(run)
    manifest = Path("generated", "manifest.json")
    manifest.write_bytes(manifest.read_bytes()[:300])
    return run("serve")


def no_credential(run: Run) -> Output:
    made(run)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SHOP_ORDERS_API_KEY")
        return run(*LIST)


def stopped(run: Run) -> Output:
    with closed() as server:
        made(run, server)
        return run(*LIST)


def broken(run: Run) -> Output:
    with failing() as server:
        made(run, server)
        return run(*LIST)


def stopped_database(run: Run) -> Output:
    with closed() as server:
        location = server.replace("http://", "postgresql://reader@")
        Path("toolgen.yaml").write_text(f'sources:\n  db: {{sql: "{location}/shop"}}\n', encoding="utf-8")
        return run("build")


def port_in_use(run: Run) -> Output:
    made(run)
    with closed() as server:
        return run("serve", "--port", server.rpartition(":")[2])


def foreign_address(run: Run) -> Output:
    edited(made(run), "host: 127.0.0.1", "host: 203.0.113.9")
    return run("serve")


HAPPENS: dict[str, Callable[[Run], Output]] = {
    "The URL of a description is wrong": wrong_url,
    "The file of a description is not there": lambda run: run("init", "nosuch.yaml"),
    "A key of `toolgen.yaml` is misspelt": misspelt_key,
    "A key of a policy is misspelt": misspelt_policy,
    "A description was written by half": half_a_description,
    "`generated/` was written by half": half_a_manifest,
    "A credential is not set": no_credential,
    "The service is stopped": stopped,
    "The service answers 500": broken,
    "The database is stopped": stopped_database,
    "The port is in use": port_in_use,
    "The address is of another machine": foreign_address,
}


@pytest.mark.parametrize("what", ROWS)
def test_the_page_says_what_toolgen_says(what: str, run: Run) -> None:
    ended = HAPPENS[what](run)
    pattern = ".*".join(re.escape(part) for part in ROWS[what].split("…"))
    assert re.search(pattern, ended.err), ended.err
    assert ended.code == 1
    assert "Traceback" not in ended.err


def test_all_that_happens_here_is_on_the_page() -> None:
    assert list(ROWS) == list(HAPPENS)


@pytest.mark.parametrize("name", ["toolgen.yaml", "orders.yaml", "policies/policy.yaml"])
def test_line_ends_of_windows_and_a_mark_are_no_fault(name: str, run: Run) -> None:
    made(run)
    path = Path(name)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert run("build").code == 0
    assert run("policy", "check").code == 0
