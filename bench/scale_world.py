"""Rows of an installation in which so many containers run: one replica each, all at the gateway, on one machine or on many."""

import asyncio
import contextlib
import json
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import asyncpg

from moorage.catalog.repository import fill_empty_catalogue
from moorage.containers.secrets import seal
from moorage.containers.spec import ContainerSecrets, ContainerSettings, RegistryProvider, ResourceMode
from moorage.engines.base import LOCAL_ENGINE
from moorage.engines.simulated_machine import engine_ref
from moorage.entrypoints.migrate import migrate
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database
from moorage.kit.home import prepare_home
from moorage.kit.ids import (
    GatewayId,
    ProjectId,
    new_container_id,
    new_organization_id,
    new_project_id,
    new_replica_id,
)
from moorage.kit.postgres import EmbeddedPostgres
from moorage.kit.settings import Settings
from moorage.ledger.repository import grant_initial_credit
from moorage.organizations.models import OrganizationRow, ProjectRow

GATEWAY = GatewayId("gtw_scale")
KEYRING = Keyring(((b"\x01" * 4, b"\x02" * 32),))
IMAGE = "registry.example/chat:1"
"""Of a registry, as those of most: a local one is looked for on every machine."""
PINNED_IMAGE = f"registry.example/chat@{engine_ref(IMAGE)}"
INSTANCE_TYPE = "cpu-nano"
CONTAINER_PORT = 8000
CHANGING = 20
"""So many containers have a health path; they are the ones that are stopped and started. The others have none: nothing
listens at the ports of the simulated machine, and HAProxy would find them all down."""
HEALTH_PATH = "/health"
FIRST_PORT, LAST_PORT = 10_000, 31_999

_CONTAINER = (
    "id project_id name instance_type settings secrets desired_state desired_replicas generation state"
)
_CONTAINER += (
    " state_since failed_generation serving_generation image_generation image_ref port changes failed_passes"
)
_REPLICA = (
    "id container_id slot generation instance_type state engine node gpu_device_ids host host_port engine_id"
)
_REPLICA += " started_at ready_at routed_at ended_badly"


@dataclass(frozen=True)
class World:
    settings: Settings
    dsn: str
    postmaster_pid: int
    project_id: ProjectId
    container_ids: tuple[str, ...]
    machines: int


@dataclass(frozen=True)
class SomeMachine:
    engine: str
    name: str
    address: str


def machine_of(number: int, machines: int) -> SomeMachine:
    """Which of them has the container of this number. Each of many is an engine of its own, at an address of its own."""
    if machines == 1:
        return SomeMachine(LOCAL_ENGINE, "simulated", "127.0.0.1")
    which = number % machines
    return SomeMachine(f"mch_{which}", f"machine-{which}", f"127.1.{which // 250}.{which % 250 + 1}")


@contextlib.asynccontextmanager
async def running_world(
    size: int, options: tuple[str, ...] = ("fsync=off",), machines: int = 1
) -> AsyncIterator[World]:
    # Short, because the paths of unix sockets are; open, because the database's unprivileged user must reach it.
    home = Path(tempfile.mkdtemp(prefix="moor-", dir="/tmp"))
    await asyncio.to_thread(home.chmod, 0o755)
    settings = settings_of(home, _free_port(), _free_port())
    prepare_home(settings)
    server = EmbeddedPostgres(settings, options=options)
    try:
        await server.start()
        await migrate(server.dsn)
        project_id, container_ids = await _fill(server.dsn, size, machines)
        postmaster_pid = server.running_pid()
        assert postmaster_pid is not None, "it has just answered"
        yield World(settings, server.dsn, postmaster_pid, project_id, container_ids, machines)
    finally:
        await server.stop()
        await asyncio.to_thread(shutil.rmtree, home)


def settings_of(home: Path, api_port: int, gateway_port: int) -> Settings:
    return Settings(
        home=home,
        api_listen=f"127.0.0.1:{api_port}",
        gateway_listen=f"127.0.0.1:{gateway_port}",
        replica_ports=f"{FIRST_PORT}-{LAST_PORT}",
        log_level="warning",
    )


async def _fill(dsn: str, size: int, machines: int) -> tuple[ProjectId, tuple[str, ...]]:
    project_id, organization_id = new_project_id(), new_organization_id()
    database = Database(dsn, pool_size=2)
    async with database.transaction() as session:
        await fill_empty_catalogue(session)
        session.add(OrganizationRow(id=organization_id, name="Acme"))
        await session.flush()
        await grant_initial_credit(session, organization_id, "usr_bench")
        session.add(ProjectRow(id=project_id, organization_id=organization_id, name="default"))
    await database.close()

    now = datetime.now(UTC)
    container_ids = tuple(str(new_container_id()) for _ in range(size))
    replicas = [(str(new_replica_id()), container_id) for container_id in container_ids]
    connection = await asyncpg.connect(dsn)
    await connection.execute(
        "INSERT INTO gateways (id, started_at, seen_at) VALUES ($1, now(), now())", GATEWAY
    )
    for table, columns, records in (
        ("containers", _CONTAINER, _container_records(project_id, container_ids, now)),
        ("replicas", _REPLICA, _replica_records(replicas, machines, now)),
        (
            "replica_routes",
            "gateway_id replica_id draining in_flight changed_at",
            [(GATEWAY, replica_id, False, 0, now) for replica_id, _ in replicas],
        ),
    ):
        await connection.copy_records_to_table(table, records=records, columns=columns.split())
    # What autovacuum does in the first minute of an installation's life.
    await connection.execute("VACUUM ANALYZE")
    await connection.close()
    return project_id, container_ids


def _container_records(
    project_id: ProjectId, container_ids: tuple[str, ...], now: datetime
) -> list[tuple[object, ...]]:
    settings = ContainerSettings(
        image=IMAGE,
        registry_provider=RegistryProvider.OTHER,
        registry_username=None,
        resource_mode=ResourceMode.GENERAL,
        instance_type=INSTANCE_TYPE,
        port=CONTAINER_PORT,
        health_path=HEALTH_PATH,
        environment_names=("MODEL",),
    )
    checked, unchecked = (
        json.dumps(one.to_json()) for one in (settings, replace(settings, health_path=None))
    )
    secrets = ContainerSecrets(None, {"MODEL": "small"})
    desired = ("running", 1, 1)
    observed = ("RUNNING", now, 0, 1, 1, engine_ref(IMAGE), CONTAINER_PORT, 0, 0)
    return [
        (
            *(one, project_id, f"container-{number}", INSTANCE_TYPE),
            *(checked if number < CHANGING else unchecked, seal(KEYRING, one, secrets)),
            *(*desired, *observed),
        )
        for number, one in enumerate(container_ids)
    ]


def _replica_records(
    replicas: list[tuple[str, str]], machines: int, now: datetime
) -> list[tuple[object, ...]]:
    return [
        (
            *(replica_id, container_id, 0, 1, INSTANCE_TYPE, "routed", its.engine, its.name, [], its.address),
            *(FIRST_PORT + number, f"sim-preset-{number}", now, now, now, False),
        )
        for number, (replica_id, container_id) in enumerate(replicas)
        for its in (machine_of(number, machines),)
    ]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
