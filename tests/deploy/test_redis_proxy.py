"""HAProxy with the file of deploy/haproxy in front of a real master and its replica: a gateway's link reaches whichever is the master."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest
from redis import Redis

from tests.faults.processes import free_port
from tests.redis_server import RedisServer
from toolgen.state.count_connection import Script, StoreUnreachableError
from toolgen.state.redis_connection import RedisLink
from toolgen.state.redis_location import RedisLocation

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "haproxy" / "redis.cfg"
ROLE = Script("role", "return redis.call('GET', KEYS[1])")


async def said(link: RedisLink, wanted: bytes) -> None:
    """Returns once the link answers what only the wanted server has."""
    async with asyncio.timeout(60):
        while True:
            try:
                if await link.ask(ROLE, "who") == wanted:
                    return
            except StoreUnreachableError:
                pass
            await asyncio.sleep(0.05)


def test_gateways_reach_the_master_through_the_proxy_also_after_a_failover(tmp_path: Path) -> None:
    if shutil.which("haproxy") is None:
        pytest.skip("haproxy is not installed")
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    servers = [RedisServer(folder) for folder in folders]
    port, text = free_port(), CONFIGURATION.read_text(encoding="utf-8")
    for given, used in (
        ("127.0.0.1:6380", f"127.0.0.1:{port}"),
        ("10.0.0.11:6379", f"127.0.0.1:{servers[0].port}"),
        ("10.0.0.12:6379", f"127.0.0.1:{servers[1].port}"),
    ):
        assert given in text
        text = text.replace(given, used)
    config = tmp_path / "redis.cfg"
    config.write_text(text, encoding="utf-8")
    for server in servers:
        server.start()
    one, two = (Redis(host="127.0.0.1", port=server.port) for server in servers)
    two.replicaof("127.0.0.1", str(servers[0].port))
    proxy = subprocess.Popen(
        ["haproxy", "-db", "-f", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:

        async def follow() -> None:
            link = RedisLink(RedisLocation(host="127.0.0.1", port=port), lambda: "")
            one.set("who", "one")
            await said(link, b"one")
            servers[0].stop()
            two.replicaof("NO", "ONE")  # as Sentinel does
            two.set("who", "two")
            await said(link, b"two")
            servers[0].start()  # and makes the old master a replica
            one.replicaof("127.0.0.1", str(servers[1].port))
            await said(link, b"two")
            await link.close()

        asyncio.run(follow())
    finally:
        proxy.kill()
        proxy.wait()
        one.close()
        two.close()
        for server in servers:
            server.stop()
