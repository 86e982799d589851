"""`gateway.files.shown: 0KiB` gives models the reference to a picture alone, for clients that turn pictures into text."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

from tests.frontends.mcp.peers import Peer, close_peers
from tests.gateway.clients import listening
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway

PICTURE = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(range(256)) * 8
FUNCTIONS = f'''
import toolgen

@toolgen.tool(effect="read")
def draw() -> toolgen.Image:
    """Draw a picture."""
    return toolgen.Image({PICTURE!r})
'''


async def _blocks(root: Path, name: str, shown: str) -> list[dict[str, str]]:
    root.mkdir()
    (root / f"{name}.py").write_text(FUNCTIONS, encoding="utf-8")
    (root / "policies").mkdir()
    key = hashlib.sha256(b"key-of-bot").hexdigest()
    policy = {
        "principals": {"bot": {"api_key": f"sha256:{key}", "roles": ["bot"]}},
        "rules": [{"id": "all", "to": ["bot"], "tools": ["*"], "verdict": "allow"}],
    }
    (root / "policies" / "p.yaml").write_text(json.dumps(policy), encoding="utf-8")
    settings = {
        "sources": {"art": {"python": name}},
        "policies": "policies/",
        "gateway": {"files": {"shown": shown}},
    }
    (root / "toolgen.yaml").write_text(json.dumps(settings), encoding="utf-8")
    async with Gateway.load(root / "toolgen.yaml") as gateway, listening(App(gateway)) as url:
        try:
            found = await Peer(url).ask("tools/call", name="art__draw", arguments={})
        finally:
            await close_peers()
    blocks: list[dict[str, str]] = found["content"]
    return blocks


async def test_a_picture_is_a_reference_alone_where_none_is_shown(tmp_path: Path) -> None:
    shown = await _blocks(tmp_path / "shown", "pictures_shown", "1MiB")
    assert "image" in {one["type"] for one in shown}
    hidden = await _blocks(tmp_path / "hidden", "pictures_hidden", "0KiB")
    assert "image" not in {one["type"] for one in hidden}
    assert "toolgen://answers/" in json.dumps(hidden)
    assert base64.b64encode(PICTURE).decode() not in json.dumps(hidden)
