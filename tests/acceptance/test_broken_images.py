"""Deployments that cannot work, each for real: the exact reason, a sentence that names the cause, soon, and nothing
left behind."""

import asyncio
import base64
import json
import platform
import time
from collections.abc import Iterator
from pathlib import Path

import aiodocker
import asyncpg
import pytest

from moorage.kit.postgres import database_dsn
from moorage.kit.settings import Settings
from tests.acceptance.broken_images import Case, batches
from tests.acceptance.conftest import run_stack
from tests.acceptance.stack import Person, Stack
from tests.ports import free_port
from tests.registry.conftest import PASSWORD, USERNAME, RunningRegistry, run_registry
from tests.registry.images import push, single_image

SOON_S = 3.0
"""Within which most of them are shown."""
LATE_S = 10.0
"""Each of them, also on a machine with two cores that starts nine containers at once."""
PRICE_MICROUSD = 5_000
"""An hour of the one instance type on which anything here comes to serve."""
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
REPLICA_PORTS = (25000, 25999)


@pytest.fixture(scope="module")
def private_registry() -> Iterator[RunningRegistry]:
    yield from run_registry(with_password=True)


@pytest.fixture(scope="module")
def dead_registry() -> str:
    """Nobody listens there."""
    return f"127.0.0.1:{free_port()}"


@pytest.fixture(scope="module")
def broken_stack(docker_host: str, private_registry: RunningRegistry, dead_registry: str) -> Iterator[Stack]:
    ports = "-".join(str(port) for port in REPLICA_PORTS)
    allowed = json.dumps([private_registry.host, dead_registry])
    yield from run_stack(docker_host, ports, MOORAGE_ALLOWED_REGISTRIES=allowed)


@pytest.mark.proof
@pytest.mark.quiet
async def test_every_broken_deployment_is_explained(
    broken_stack: Stack, private_registry: RunningRegistry, dead_registry: str, docker_host: str
) -> None:
    basic = base64.b64encode(f"{USERNAME}:{PASSWORD}".encode()).decode()
    for name, architecture in (("team/serve", ARCHITECTURE), ("team/foreign", "s390x")):
        await push(private_registry.url, name, "1", single_image(architecture, layers=1), f"Basic {basic}")
    person = broken_stack.sign_up("ann@example.com")
    before = await engine_objects(docker_host)
    cases = batches(private_registry.host, dead_registry)
    for batch in cases:
        credit_microusd = credit(person)
        try_side_by_side(person, batch)
        spent_microusd = credit_microusd - credit(person)
        assert spent_microusd == PRICE_MICROUSD * sum(case.hours for case in batch)
    print_table([case for batch in cases for case in batch])
    await assert_nothing_is_left(broken_stack, docker_host)
    assert await engine_objects(docker_host) == before
    measured = [(took_s, case.name) for batch in cases for case in batch for _, took_s in case.measured]
    late = [f"{name}: {took_s:.1f} s" for took_s, name in measured if took_s > LATE_S]
    assert late == []
    assert sorted(measured)[len(measured) // 2][0] <= SOON_S


def credit(person: Person) -> int:
    """All that the person's organization has; none of it set aside for what is over."""
    organization = person.api.get("/organizations").json()["items"][0]
    billing = person.api.get(f"/organizations/{organization['id']}/billing").json()
    assert billing["held_microusd"] == 0
    balance_microusd: int = billing["balance_microusd"]
    return balance_microusd


async def engine_objects(docker_host: str) -> dict[str, set[str]]:
    """Networks and volumes: one for all containers, and one for each folder that an image declares."""
    docker = aiodocker.Docker(docker_host)
    try:
        volumes = (await docker.volumes.list())["Volumes"] or []
        return {
            "networks": {network["Id"] for network in await docker.networks.list()},
            "volumes": {volume["Name"] for volume in volumes},
        }
    finally:
        await docker.close()


def try_side_by_side(person: Person, batch: list[Case]) -> None:
    for case in batch:
        case.deployed = person.deploy(case.name, **case.settings)
        case.asked_at = time.time()

    deadline_s = time.monotonic() + 180
    while waiting := [case.name for case in batch if len(case.measured) < len(case.expected)]:
        assert time.monotonic() < deadline_s, f"not explained: {waiting}"
        listed = person.api.get(f"/projects/{person.project_id}/containers").json()["items"]
        found = {container["id"]: container for container in listed}
        for case in batch:
            assert case.deployed is not None
            case.look(found[case.deployed.id])
        time.sleep(0.05)
    for case in batch:
        assert case.deployed is not None
        person.api.delete(f"/containers/{case.deployed.id}")
    for case in batch:
        assert case.deployed is not None
        case.deployed.delete()


def print_table(cases: list[Case]) -> None:
    hours = sum(case.hours for case in cases)
    print(
        f"\n{len(cases)} deployments, {hours} hours paid, by those that served; seconds from when it could be known to when it was shown:"
    )
    for case in cases:
        for wanted, took_s in case.measured:
            print(f"  {case.name:26} {wanted.state:9} {wanted.reason or 'ready':28} {took_s:5.2f}")


async def assert_nothing_is_left(stack: Stack, docker_host: str) -> None:
    settings = Settings(home=stack.home)
    connection = await asyncpg.connect(database_dsn(settings))
    try:
        installation_id = await connection.fetchval("SELECT id FROM installation")
        unfinished = "SELECT count(*) FROM replicas WHERE state <> 'removed' OR port_released_at IS NULL"
        # A port is free once every gateway has read that its replica ended.
        async with asyncio.timeout(60):
            while await connection.fetchval(unfinished):  # noqa: ASYNC110 - a database has no event for it
                await asyncio.sleep(0.2)
        assert await connection.fetchval("SELECT count(*) FROM replica_routes") == 0
        assert await connection.fetchval("SELECT count(*) FROM containers WHERE deleted_at IS NULL") == 0
    finally:
        await connection.close()
    docker = aiodocker.Docker(docker_host)
    try:
        filters = {"label": [f"moorage.installation={installation_id}"]}
        assert await docker.containers.list(all=1, filters=filters) == []
    finally:
        await docker.close()
    assert not listening_ports() & set(range(REPLICA_PORTS[0], REPLICA_PORTS[1] + 1))


def listening_ports() -> set[int]:
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A"}
