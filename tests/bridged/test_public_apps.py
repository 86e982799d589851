"""Apps of public MCP servers in the console, in Chromium: drawn from the answers of their tools, within the policy of their pages."""

from __future__ import annotations

import hashlib
import json
import socket
import subprocess
import sys
from pathlib import Path

from playwright.async_api import expect

from tests.bridged.servers import SERVERS, installed
from tests.frontends.console.people import needs_chromium
from tests.frontends.console.test_apps import KEY, opened, tried
from tests.gateway.clients import listening
from toolgen.frontends.console.app import console_of
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway

TOOL = "model__get_scenario_data"


def project(root: Path, port: int) -> Path:
    (root / "policies").mkdir()
    hashed = "sha256:" + hashlib.sha256(KEY.encode()).hexdigest()
    rule = {"id": "all", "to": ["bot"], "tools": ["model__*"], "resources": ["ui://*"], "verdict": "allow"}
    policy = {
        "principals": {"bot": {"api_key": hashed, "roles": ["bot"]}},
        "rules": [{**rule, "effects": ["read", "write", "destructive"]}],
    }
    (root / "policies" / "policy.yaml").write_text(json.dumps(policy), encoding="utf-8")
    settings = {
        "sources": {"model": {"mcp": {"command": SERVERS["scenario-modeler"].command({}), "allow": ["apps"]}}},
        "console": {"viewers": ["bot"], "apps": f"http://apps.localhost:{port}"},
        "audit": {"dir": "audit"},
    }
    path = root / "toolgen.yaml"
    path.write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "toolgen", "build", "--config", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return path


@needs_chromium
async def test_the_app_of_a_public_server_is_drawn_in_the_console(tmp_path: Path) -> None:
    installed("scenario-modeler")
    listener = socket.create_server(("127.0.0.1", 0))
    faults: list[str] = []
    async with Gateway.load(project(tmp_path, listener.getsockname()[1])) as gateway:
        app, apps = App(gateway), gateway.settings.console
        app.open_console(lambda authentication: console_of(gateway, authentication), apps_host=apps.apps_host)
        async with listening(app, listener) as url, opened(url) as (page, _):
            page.on("console", lambda said: faults.append(said.text) if said.type in {"error", "warning"} else None)
            page.on("pageerror", lambda error: faults.append(str(error)))
            await tried(page, url, TOOL)
            frame = page.frame_locator("iframe")
            await expect(frame.get_by_text("SaaS Scenario Modeler")).to_be_visible()
            await expect(frame.locator("canvas").first).to_be_visible()
            await frame.get_by_role("combobox").select_option(index=1)
            await expect(frame.get_by_text("12-MONTH PROJECTION", exact=False)).to_be_visible()
            app.end_streams()
        await app.close()
    assert faults == []
