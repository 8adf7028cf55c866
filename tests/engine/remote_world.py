"""A machine that joined, on loopback: the node role with a real Docker engine, and the remote engine that speaks to it."""

import secrets
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from moorage.engines.remote.engine import RemoteEngine
from moorage.engines.remote.machine import Machine, PlacedReplica
from moorage.kit.clock import system_clock
from moorage.kit.ids import InstallationId, ReplicaId
from moorage.node.main import credential_digest, serving
from moorage.node.settings import NodeSettings
from moorage.outbound.pulls.proxy import PullProxy
from tests.engine.conftest import DockerWorld
from tests.ports import free_port

LOOPBACK = "127.0.0.1"


class NoRows:
    """Where there is no database: every replica is a stranger."""

    async def placed(self, replica_ids: Collection[ReplicaId]) -> Mapping[ReplicaId, PlacedReplica]:
        return {}


def node_settings(
    docker_host: str, installation_id: InstallationId, credential: str, pulls_port: int, **changes: Any
) -> NodeSettings:
    return NodeSettings(
        installation_id=installation_id,
        credential_sha256=credential_digest(credential),
        address=LOOPBACK,
        port=free_port(),
        pulls_address=LOOPBACK,
        pulls_port=pulls_port,
        docker_host=docker_host,
        **changes,
    )


@asynccontextmanager
async def joined(
    docker_host: str, installation_id: InstallationId, pulls: PullProxy, name: str = "machine-1"
) -> AsyncIterator[RemoteEngine]:
    credential = secrets.token_urlsafe(32)
    async with AsyncExitStack() as stack:
        assert pulls.port is not None
        settings = node_settings(docker_host, installation_id, credential, pulls.port)
        await stack.enter_async_context(serving(settings))
        machine = Machine(name, "operator", LOOPBACK, settings.port, credential)
        engine = RemoteEngine(machine, NoRows(), system_clock, pulls)
        stack.push_async_callback(engine.close)
        yield engine


@pytest.fixture
async def remote_world(docker_world: DockerWorld, pulls: PullProxy) -> AsyncIterator[DockerWorld]:
    """Docker's world, with a machine between it and whoever asks."""
    docker_host = docker_world.docker_host
    async with (
        joined(docker_host, docker_world.installation_id, pulls) as engine,
        joined(docker_host, docker_world.other_installation_id, pulls) as other_engine,
    ):
        local_engines = docker_world.engine, docker_world.other_engine
        docker_world.engine, docker_world.other_engine = engine, other_engine
        await engine.prepare()
        yield docker_world
        docker_world.engine, docker_world.other_engine = local_engines
