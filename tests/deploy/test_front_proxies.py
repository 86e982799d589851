"""nginx and Caddy with the configuration of deploy/: TLS, and of a client's address and certificate nothing but what is true."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import unquote

import httpx
import pytest

from tests.authorities import CLIENT, Authority
from tests.served_workers import until
from tests.services.local import LocalServer, running

DEPLOY = Path(__file__).parents[2] / "deploy"
FORGED = {"X-Forwarded-For": "192.0.2.7", "Forwarded": "for=192.0.2.8", "X-Client-Cert": ":Zm9yZ2Vk:"}


class Echo(BaseHTTPRequestHandler):
    """Answers with the headers that reached it."""

    def do_GET(self) -> None:
        body = json.dumps({name.lower(): value for name, value in self.headers.items()}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


def nginx(folder: Path, port: int, upstream: int) -> list[str]:
    text = (DEPLOY / "nginx" / "toolgen.conf").read_text(encoding="utf-8")
    text = text.replace("listen 443 ssl;", f"listen 127.0.0.1:{port} ssl;").replace("listen [::]:443 ssl;", "")
    text = text.replace("127.0.0.1:8080", f"127.0.0.1:{upstream}").replace("/etc/toolgen/tls", str(folder))
    paths = "".join(
        f"{name}_temp_path {folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    whole = f"daemon off;\nerror_log {folder}/error.log;\npid {folder}/nginx.pid;\nevents {{}}\nhttp {{\naccess_log off;\n{paths}{text}}}\n"
    (folder / "nginx.conf").write_text(whole, encoding="utf-8")
    command = ["nginx", "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")]
    subprocess.run([*command, "-t"], check=True, capture_output=True, timeout=60)
    return command


def caddy(folder: Path, port: int, upstream: int) -> list[str]:
    text = (DEPLOY / "caddy" / "Caddyfile").read_text(encoding="utf-8")
    text = text.replace("/etc/toolgen/tls", str(folder)).replace(
        "admin off\n", "admin off\nauto_https disable_redirects\n"
    )
    text = text.replace("{$TOOLGEN_HOST:localhost}", f"https://localhost:{port}")
    text = text.replace("{$TOOLGEN_UPSTREAM:127.0.0.1:8080}", f"127.0.0.1:{upstream}")
    text = text.replace("	tls {", f"	tls {folder}/server.crt {folder}/server.key {{")
    (folder / "Caddyfile").write_text(text, encoding="utf-8")
    named = ["--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]
    subprocess.run(["caddy", "validate", *named], check=True, capture_output=True, timeout=60)
    return ["caddy", "run", *named]


@contextlib.contextmanager
def behind(make: Callable[[Path, int, int], list[str]], folder: Path) -> Iterator[str]:
    """A proxy before a server that echoes; yields its URL."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    server = LocalServer(("127.0.0.1", 0), Echo)
    with running(server):
        command = make(folder, port, server.server_port)
        where = {
            "HOME": str(folder),
            "XDG_DATA_HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder),
            "PATH": "/usr/sbin:/usr/bin",
        }
        with (folder / "said").open("wb") as said:
            process = subprocess.Popen(command, stdout=said, stderr=said, env=where)
        try:
            yield f"https://localhost:{port}"
        finally:
            process.terminate()
            process.wait(60)


def asked(url: str, context: ssl.SSLContext) -> dict[str, str] | None:
    try:
        return dict(httpx.get(url, headers=FORGED, verify=context, timeout=60).json())
    except (httpx.HTTPError, ValueError):
        return None


@pytest.mark.parametrize("make", [nginx, caddy], ids=["nginx", "caddy"])
def test_a_proxy_hands_on_what_is_true(make: Callable[[Path, int, int], list[str]], tmp_path: Path) -> None:
    if shutil.which(make.__name__) is None:
        pytest.skip(f"{make.__name__} is not installed: `make deploy-tools` installs it")
    authority, clients = Authority(tmp_path, "ca"), Authority(tmp_path, "clients")
    foreign = Authority(tmp_path, "foreign")
    authority.issue("server")
    shown, stranger = clients.issue("agent", usage=CLIENT), foreign.issue("stranger", usage=CLIENT)
    plain = ssl.create_default_context(cafile=authority.path)
    certified = ssl.create_default_context(cafile=authority.path)
    certified.load_cert_chain(*shown)
    refused = ssl.create_default_context(cafile=authority.path)
    refused.load_cert_chain(*stranger)
    with behind(make, tmp_path) as url:
        until(lambda: asked(url, plain) is not None, 60)
        without, with_one = asked(url, plain), asked(url, certified)
        assert without is not None
        assert with_one is not None
        for found in (without, with_one):
            assert found["x-forwarded-for"] == "127.0.0.1"
            assert "192.0.2" not in found.get("forwarded", "")
        assert not without.get("x-client-cert")
        expected = ssl.PEM_cert_to_DER_cert(shown[0].read_text())
        written = with_one["x-client-cert"]
        der = base64.b64decode(written.strip(":")) if written[0] == ":" else ssl.PEM_cert_to_DER_cert(unquote(written))
        assert der == expected
        assert asked(url, refused) is None
