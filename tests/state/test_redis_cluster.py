"""Redis Cluster: the node that has the keys is found, followed when the slot moves, and asked for when it is gone."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest
from redis.crc import key_slot

from tests.redis_server import RedisCluster, RedisServer
from toolgen.config.gateway import read_state
from toolgen.core.errors import ConfigError
from toolgen.state.count_connection import Script, StoreUnreachableError
from toolgen.state.redis_cluster import ClusterSlot
from toolgen.state.redis_connection import RedisLink
from toolgen.state.redis_location import RedisLocation

COUNT = Script("count", "return redis.call('INCR', KEYS[1] .. ':number')")
BATCH = Script("batch", "return {redis.call('INCR', ARGV[1] .. ':batch')}")
NODES = [
    [0, 5460, [b"10.0.0.1", 7001, b"a", {}], [b"10.0.0.4", 7004, b"d", {}]],
    [5461, 10922, [b"10.0.0.2", 7002, b"b", {}]],
    [10923, 16383, [b"", 7003, b"c", {}]],
]


def link(port: int, prefix: str) -> RedisLink:
    return RedisLink(RedisLocation(host="127.0.0.1", port=port, prefix=prefix, cluster=True), lambda: "")


@pytest.mark.parametrize(
    ("prefix", "owner"),
    [
        ("{b}", ("10.0.0.1", 7001)),
        ("{toolgen}", ("10.0.0.1", 7001)),
        ("{c}", ("10.0.0.2", 7002)),
        ("{a}", ("10.0.0.9", 7003)),
    ],
)
def test_the_owner_of_the_slot_is_found_and_all_nodes_are_remembered(prefix: str, owner: tuple[str, int]) -> None:
    slot = ClusterSlot("first", 6379, prefix)
    assert slot.nodes() == (("first", 6379),)
    assert slot.owner(NODES, "10.0.0.9") == owner
    assert slot.nodes()[0] == owner
    assert set(slot.nodes()) == {
        *(("10.0.0.1", 7001), ("10.0.0.2", 7002), ("10.0.0.4", 7004), ("10.0.0.9", 7003), ("first", 6379))
    }
    known = slot.nodes()
    assert slot.owner([], "10.0.0.9") is None
    assert slot.nodes() == known


def test_the_setting_takes_one_node_of_a_cluster(tmp_path: Path) -> None:
    found = read_state("redis://one.example:7001?cluster=1&prefix=shop", "here", tmp_path, [])
    assert found is not None
    assert (found.location.cluster, found.location.key_prefix) == (True, "{shop}")
    plain = read_state("redis://one.example?prefix=shop", "here", tmp_path, [])
    assert plain is not None
    assert plain.location.key_prefix == "shop"
    for text in ("redis://one.example?cluster=0", "redis://one.example/1?cluster=1", "redis://one.example?cluster="):
        with pytest.raises(ConfigError):
            read_state(text, "here", tmp_path, [])


async def test_a_node_that_is_no_cluster_is_unreachable(tmp_path: Path) -> None:
    server = RedisServer(tmp_path)
    server.start()
    asked = link(server.port, "a")
    try:
        with pytest.raises(StoreUnreachableError):
            await asked.ask(COUNT, f"{asked.prefix}:calls")
    finally:
        await asked.close()
        server.stop()


@pytest.mark.exhaustive
async def test_keys_that_move_to_another_node_are_followed_and_nothing_is_counted_twice(tmp_path: Path) -> None:
    cluster = RedisCluster(tmp_path)
    try:
        cluster.start()
        prefix = secrets.token_hex(6)
        asked = link(cluster.port, prefix)
        slot = key_slot(asked.prefix.encode())
        for number in range(1, 4):
            owner = cluster.owner(slot)
            assert await asked.ask(COUNT, f"{asked.prefix}:calls") == number
            assert await asked.run(BATCH, asked.prefix.encode()) == [number]
            cluster.move(slot, next(node for node in cluster.nodes if node is not owner))
        # The node of the settings is gone: the others, which the cluster named, are asked.
        cluster.move(slot, cluster.nodes[1])
        assert await asked.ask(COUNT, f"{asked.prefix}:calls") == 4
        cluster.nodes[0].stop()
        await asked._drop()
        assert await asked.ask(COUNT, f"{asked.prefix}:calls") == 5
        await asked.close()
    finally:
        cluster.stop()
