"""Stores that every test of the contract runs on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.redis_server import RedisCluster, RedisServer
from tests.state.contract.stores import ClusterStore, FileStore, RedisStore, Store


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def redis_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    cluster = RedisCluster(tmp_path_factory.mktemp("cluster"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(params=["file", "redis", pytest.param("cluster", marks=pytest.mark.exhaustive)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "file":
        return FileStore(tmp_path)
    if request.param == "cluster":
        return ClusterStore(tmp_path, request.getfixturevalue("redis_cluster"))
    return RedisStore(tmp_path, request.getfixturevalue("redis_server").port)
