"""Requests of the scene: one that woke a container, in a project of its own, and one that failed."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from moorage.telemetry.requests.record import Ending
from tests.browser.people import new_api_key
from tests.browser.world import World
from tests.database.api_support import Home
from tests.database.request_support import new_waking_request


@dataclass(frozen=True)
class Requests:
    woken: str
    """The address of its page."""
    failed: str


NO_REQUESTS = Requests("", "")


WOKEN_AGO = timedelta(minutes=59, seconds=48)
SLEEPS_SINCE_AGO = timedelta(minutes=12)
_MADE_AGO = timedelta(days=4, hours=5, minutes=21)


def add_requests(world: World, home: Home, running: str, key_id: str, machine: tuple[str, str]) -> Requests:
    """`key_id`: what failed came with it."""
    now = world.now()
    with world.at(now - _MADE_AGO):
        staging = world.do(world.api.new_project(home.organization_id, "staging", home.user_id))
        router_key = world.do(new_api_key(world.api, home.admin, staging, "router-staging"))
    there = Home(home.admin, home.token, home.user_id, home.organization_id, staging)
    past = [("PENDING", 0), ("PULLING", 4), ("STARTING", 151), ("RUNNING", 193)]
    router = world.container(
        there,
        "support-router",
        "RUNNING",
        asleep_since=now - SLEEPS_SINCE_AGO,
        serving_generation=1,
        past=[(state, now - _MADE_AGO + timedelta(seconds=after)) for state, after in past],
        settings={"instance_type": "l4-24gb", "sleep_after_s": 900, "health_path": "/health"},
    )
    woken = world.do(_woken(world, staging, router, router_key, machine, now - WOKEN_AGO))
    failed = world.do(_failed(world, home.project_id, running, key_id, now))
    return Requests(
        f"/projects/{staging}/containers/{router}/requests/{woken}",
        f"/projects/{home.project_id}/containers/{running}/requests/{failed}",
    )


async def _woken(
    world: World, project_id: str, container_id: str, key_id: str, machine: tuple[str, str], at: datetime
) -> str:
    engine, node = machine
    replica_id = await world.api.new_replica(container_id, state="removed", node=node)
    await world.api.execute(
        "UPDATE replicas SET version = 3, instance_type = 'l4-24gb', engine = :engine, ended_at = :at, port_released_at = :at "
        "WHERE id = :id",
        id=replica_id,
        engine=engine,
        at=at + WOKEN_AGO - SLEEPS_SINCE_AGO,
    )
    woken = await new_waking_request(world.api, project_id, container_id, key_id, replica_id, at)
    return woken.request_id


async def _failed(world: World, project_id: str, container_id: str, key_id: str, now: datetime) -> str:
    """And some that went well, all while its replicas printed their lines."""
    replicas = await world.api.rows(
        "SELECT id FROM replicas WHERE container_id = :id ORDER BY slot", id=container_id
    )
    asked = {
        "container_id": container_id,
        "replica_id": replicas[0][0],
        "queue_ms": 0,
        "connect_ms": 1,
        "retries": 0,
        "method": "POST",
        "path": "/api/v1/chat/completions",
    }
    for number in range(12):
        await world.api.new_request(
            project_id,
            key_id,
            **asked,
            started_at=now - timedelta(seconds=7 * number + 3),
            first_byte_ms=180 + 7 * number,
            total_ms=1_580 + 90 * number,
            status=200,
            response_bytes=9_804 + 311 * number,
            ended=Ending.COMPLETED,
        )
    return await world.api.new_request(
        project_id,
        key_id,
        **asked,
        started_at=now - timedelta(seconds=40),
        first_byte_ms=None,
        total_ms=11_204,
        status=502,
        ended=Ending.CONTAINER_CLOSED,
    )
