"""Each message of docs/how-to/troubleshooting.md is what toolgen says when that happens."""

from __future__ import annotations

import json
import re
import shlex
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.authorities import Authority
from tests.cli.commands import Output, Run, runner
from tests.connectors.failing import closed
from tests.databases import postgres_database
from tests.gateway import issuer
from tests.patient import get
from tests.redis_server import RedisServer
from tests.served_workers import serving, until

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "troubleshooting.md"
TABLES = PAGE.read_text(encoding="utf-8").split("| What the log says |")
ROWS, LOGGED = (dict(re.findall(r"^\| (.+?) \| `(.+?)` \| .+ \|$", table, re.MULTILINE)) for table in TABLES)
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


def over_tls(folder: Path, answer: Callable[[str], Output]) -> Output:
    """What is said where the service's certificate is signed by an authority of its own, whose file is `private.pem`."""
    certificate, key = Authority(folder, "private").issue("service")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    with failing(context) as server:
        return answer(server.replace("http://127.0.0.1", "https://localhost"))


@contextmanager
def failing(tls: ssl.SSLContext | None = None) -> Iterator[str]:
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
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
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


def a_page(run: Run) -> Output:
    Path("docs.json").write_text("<!DOCTYPE html><title>API</title>", encoding="utf-8")
    return run("init", "docs.json")


def distrusted_description(run: Run) -> Output:
    return over_tls(Path.cwd(), lambda server: run("init", f"{server}/openapi.json"))


def distrusted_service(run: Run) -> Output:
    def called(server: str) -> Output:
        made(run, server)
        return run(*LIST)

    return over_tls(Path.cwd(), called)


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


def refusing_database(run: Run) -> Output:
    with postgres_database("") as location:
        text = f'sources:\n  db: {{sql: "{location.replace("postgres@", "nobody_known@")}"}}\n'
        Path("toolgen.yaml").write_text(text, encoding="utf-8")
        return run("build")


def redis_gone(run: Run) -> Output:
    made(run)
    with closed() as server:
        shared(server.rpartition(":")[2])
        return in_a_process(sys.executable, "-m", "toolgen", *LIST)


def in_a_process(*command: str) -> Output:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return Output(code=done.returncode, out=done.stdout, err=done.stderr)


def shared(port: str | int) -> None:
    with Path("toolgen.yaml").open("a", encoding="utf-8") as file:
        file.write(f"state: redis://127.0.0.1:{port}/0\n")


def full_disk(run: Run) -> Output:
    """In a mount namespace of its own, where the record is on a file system that something else fills."""
    made(run)
    script = (
        "mount -t tmpfs -o size=4m none var/audit; head -c 8m /dev/zero > var/audit/filler 2>/dev/null; exec "
        + shlex.join([sys.executable, "-m", "toolgen", *LIST])
    )
    Path("var", "audit").mkdir(parents=True, exist_ok=True)
    command = ["unshare", "--mount", "--propagation", "private"]
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not make a mount namespace")
    return in_a_process(*command, "sh", "-c", script)


def port_in_use(run: Run) -> Output:
    made(run)
    with closed() as server:
        return run("serve", "--port", server.rpartition(":")[2])


def foreign_address(run: Run) -> Output:
    edited(made(run), "host: 127.0.0.1", "host: 203.0.113.9")
    return run("serve")


def log_of(credential: str = "", within: Callable[[], None] = lambda: None, says: str = "") -> str:
    """What a gateway that is asked with this credential has written until it stops."""
    path = Path("toolgen.yaml").resolve()
    log = path.parent / "serve.log"
    with serving(path) as served:
        within()
        if credential:
            assert get(f"{served.url}/v1/tools", headers={"authorization": f"Bearer {credential}"}).status_code == 401
        until(lambda: says in log.read_text(encoding="utf-8"))
        served.end()
    return log.read_text(encoding="utf-8")


def expired_key(run: Run) -> str:
    made(run)
    key = run("keys", "new", "agent", "--expires", "2099-01-01").out.strip()
    edited(Path("policies", "keys.yaml"), "2099-01-01", "2026-01-01")
    return log_of(key)


def late_clock(run: Run) -> str:
    made(run)
    Path("keys.json").write_text(json.dumps({"keys": [issuer.jwk("rsa")]}), encoding="utf-8")
    user = {"issuer": issuer.ISSUER, "audience": issuer.AUDIENCE, "jwks": "../keys.json", "subject": "ann"}
    policy = {"principals": {"ann": {"roles": ["agent"], "jwt": user}}}
    Path("policies", "ann.yaml").write_text(json.dumps(policy), encoding="utf-8")
    later = issuer.now() + 3660
    return log_of(issuer.token(iat=later, exp=later + 600))


def redis_stops(run: Run) -> str:
    made(run)
    redis = RedisServer(Path.cwd())
    redis.start()
    shared(redis.port)
    try:
        return log_of(within=redis.stop, says="cannot be used")
    finally:
        redis.stop()


def other_seal(run: Run) -> str:
    """Two machines, each with a key of its own for what they share."""
    made(run)
    redis = RedisServer(Path.cwd())
    redis.start()
    shared(redis.port)
    rules = {"id": "asked", "to": ["agent"], "tools": ["*"], "effects": ["destructive"], "verdict": "ask"}
    policy = {"principals": {"ann": {"roles": ["lead"]}}, "approvals": {"approvers": ["lead"]}, "rules": [rules]}
    Path("policies", "ask.yaml").write_text(json.dumps(policy), encoding="utf-8")
    try:
        assert log_of()
        seal = Path("var", "audit", "seal.key")
        seal.unlink()
        return log_of(says="another key")
    finally:
        redis.stop()


HAPPENS: dict[str, Callable[[Run], Output]] = {
    "The URL of a description is wrong": wrong_url,
    "A private authority signed the certificate of a description's server": distrusted_description,
    "The URL of a description is that of a page": a_page,
    "The file of a description is not there": lambda run: run("init", "nosuch.yaml"),
    "A key of `toolgen.yaml` is misspelt": misspelt_key,
    "A key of a policy is misspelt": misspelt_policy,
    "A description was written by half": half_a_description,
    "`generated/` was written by half": half_a_manifest,
    "A credential is not set": no_credential,
    "The service is stopped": stopped,
    "A private authority signed the certificate of the service": distrusted_service,
    "The service answers 500": broken,
    "The database is stopped": stopped_database,
    "The database takes neither user nor password": refusing_database,
    "Redis is gone": redis_gone,
    "The disk is full": full_disk,
    "The port is in use": port_in_use,
    "The address is of another machine": foreign_address,
}


IN_THE_LOG: dict[str, Callable[[Run], str]] = {
    "A key has expired": expired_key,
    "The clock of this machine is an hour late": late_clock,
    "Redis is gone while it runs": redis_stops,
    "The key of what is sealed in Redis is another": other_seal,
}


def pattern(text: str) -> str:
    return ".*".join(re.escape(part) for part in text.split("…"))


@pytest.mark.parametrize("what", ROWS)
def test_the_page_says_what_toolgen_says(what: str, run: Run) -> None:
    ended = HAPPENS[what](run)
    assert re.search(pattern(ROWS[what]), ended.err), ended.err
    assert ended.code == 1
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("what", LOGGED)
def test_the_page_says_what_the_log_says(what: str, run: Run) -> None:
    log = IN_THE_LOG[what](run)
    assert re.search(pattern(LOGGED[what]), log), log
    assert "Traceback" not in log


def test_all_that_happens_here_is_on_the_page() -> None:
    assert list(ROWS) == list(HAPPENS)
    assert list(LOGGED) == list(IN_THE_LOG)


def test_an_authority_that_the_environment_names_is_believed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def called(server: str) -> Output:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "private.pem"))
        assert "answers 500" in run("init", f"{server}/openapi.json", "--dir", "other").err
        made(run, server)
        return run(*LIST)

    assert "the server answered 500" in over_tls(tmp_path, called).err


@pytest.mark.parametrize("name", ["toolgen.yaml", "orders.yaml", "policies/policy.yaml"])
def test_line_ends_of_windows_and_a_mark_are_no_fault(name: str, run: Run) -> None:
    made(run)
    path = Path(name)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert run("build").code == 0
    assert run("policy", "check").code == 0
