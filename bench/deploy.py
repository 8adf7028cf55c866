"""What Moorage adds to a deployment: create → RUNNING, against the bare Docker API doing create → first 200.

    python bench/deploy.py [--rounds 12] [--warm-ups 2]

Starts an installation of its own in a temporary folder and removes it afterwards. Both sides use the same
engine, image, network, limits and published port (the body of Docker's create call is built by the same
function), and take turns, so that a busy machine is unfair to both alike: trust the ratio. Our clock stops
when the API *says* RUNNING, which means that the endpoint answers; the bare one at the first 200 of /health.
Target: ratio of medians at most 1.3.
"""

import argparse
import asyncio
import contextlib
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import aiodocker
import aiohttp
import asyncpg
from deploy_stack import HEALTH_PATH, IMAGE, INSTANCE_TYPE, Stack, running_stack

from moorage.catalog.defaults import default_catalogue
from moorage.engines.base import ReplicaSpec
from moorage.engines.docker.create import HOST_ADDRESS, create_body, name_of
from moorage.engines.docker.engine import PUBLIC_DNS
from moorage.engines.docker.network import BridgeNetwork
from moorage.kit import ids

TARGET_RATIO = 1.3
POLL_S = 0.005
DEPLOY_TIMEOUT_S = 120.0
CONTAINER_PORT = 8000
FIRST_BARE_PORT = 30100
"""Outside the range from which Moorage takes the ports of replicas."""

Timeline = dict[str, float]
"""Seconds since the create call was sent, by what had happened then."""


@dataclass
class Results:
    ours: list[Timeline]
    bare: list[Timeline]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--warm-ups", type=int, default=2)
    options = parser.parse_args()
    with running_stack() as stack:
        results = asyncio.run(measure(stack, options.rounds, options.warm_ups))
    report(results, options.rounds)


async def measure(stack: Stack, rounds: int, warm_ups: int) -> Results:
    results = Results([], [])
    docker = aiodocker.Docker(url=stack.docker_host)
    database = await asyncpg.connect(stack.dsn)
    timeout = aiohttp.ClientTimeout(total=DEPLOY_TIMEOUT_S)
    # A connection per request on the bare side too: a port that refuses has nothing to keep open.
    bare_connector = aiohttp.TCPConnector(force_close=True)
    async with (
        aiohttp.ClientSession(timeout=timeout) as http,
        aiohttp.ClientSession(timeout=timeout, connector=bare_connector) as bare_http,
    ):
        stack = await stack.signed_in(http)
        for number in range(-warm_ups, rounds):
            bare_port = FIRST_BARE_PORT + warm_ups + number
            if number % 2:  # Neither side is always the one that finds the caches warm.
                bare = await deploy_bare(stack, bare_http, docker, bare_port)
                ours = await deploy_with_moorage(stack, http, database, docker)
            else:
                ours = await deploy_with_moorage(stack, http, database, docker)
                bare = await deploy_bare(stack, bare_http, docker, bare_port)
            if number >= 0:
                results.ours.append(ours)
                results.bare.append(bare)
            name = "warm-up" if number < 0 else f"round {number + 1:2}"
            print(f"{name}: Moorage {_ms(ours['RUNNING'])}, bare Docker {_ms(bare['first 200'])}", flush=True)
    await database.close()
    await docker.close()
    return results


async def deploy_with_moorage(
    stack: Stack, http: aiohttp.ClientSession, database: asyncpg.Connection, docker: aiodocker.Docker
) -> Timeline:
    timeline: Timeline = {}
    notices = Notices()
    await notices.begin(database)
    began_at, began_s = time.time(), time.monotonic()
    async with http.post(
        f"{stack.api_url}/projects/{stack.project_id}/containers",
        json={
            "name": f"bench-{time.monotonic_ns()}",
            "image": IMAGE,
            "registry": {"provider": "local"},
            "resources": {"mode": "general", "instance_type": INSTANCE_TYPE},
            "port": CONTAINER_PORT,
            "health_check": {"path": HEALTH_PATH, "timeout_s": 60},
        },
        headers=stack.operator_headers,
    ) as response:
        container = await response.json()
        if response.status != 201:
            sys.exit(f"create answered {response.status}: {container}")
    timeline["create answered"] = time.monotonic() - began_s
    await wait_until_running(stack, http, database, notices, container["id"])
    timeline["RUNNING"] = time.monotonic() - began_s
    await notices.end(database)
    url = f"{container['endpoint_url']}{HEALTH_PATH}"
    async with http.get(url, headers=stack.endpoint_headers) as response:
        assert response.status == 200, "RUNNING means that the endpoint answers"
    timeline["endpoint answered"] = time.monotonic() - began_s
    timeline |= await moments(database, docker, container["id"], began_at)
    await delete(stack, http, container["id"])
    return timeline


class Notices:
    """What the console hears: that something which people see of a container changed. Between two of them there is
    nothing to look for; a look every few milliseconds would take from the engine, on a machine of two cores, what the
    other side of the comparison leaves it."""

    def __init__(self) -> None:
        self._heard = asyncio.Event()

    async def begin(self, database: asyncpg.Connection) -> None:
        await database.add_listener("moorage_changes", self._hear)

    async def end(self, database: asyncpg.Connection) -> None:
        await database.remove_listener("moorage_changes", self._hear)

    async def next(self, timeout_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._heard.wait()
        self._heard.clear()

    def _hear(self, *_: object) -> None:
        self._heard.set()


async def wait_until_running(
    stack: Stack,
    http: aiohttp.ClientSession,
    database: asyncpg.Connection,
    notices: Notices,
    container_id: str,
) -> None:
    """Looks at the row at every notice, and when that is RUNNING the API says so too."""
    deadline_s = time.monotonic() + DEPLOY_TIMEOUT_S
    state = await database.prepare("SELECT state FROM containers WHERE id = $1")
    while (seen := await state.fetchval(container_id)) != "RUNNING":
        if seen == "FAILED" or time.monotonic() > deadline_s:
            sys.exit(f"the container {container_id} is {seen}, not RUNNING")
        await notices.next(timeout_s=1)
    url = f"{stack.api_url}/containers/{container_id}"
    async with http.get(url, headers=stack.operator_headers) as response:
        assert (await response.json())["state"] == "RUNNING"


async def moments(
    database: asyncpg.Connection, docker: aiodocker.Docker, container_id: str, began_at: float
) -> Timeline:
    """Where our time went, from what the rows and the engine noted; all of it is one machine's clock."""
    row = await database.fetchrow(
        "SELECT r.id, c.created_at AS container_at, r.created_at, r.ready_at, r.routed_at, t.changed_at, "
        "c.state_since FROM containers c JOIN replicas r ON r.container_id = c.id "
        "JOIN replica_routes t ON t.replica_id = r.id WHERE c.id = $1",
        container_id,
    )
    inspected = await docker.containers.container(name_of(row["id"])).show()
    seen: Mapping[str, datetime] = {
        "container's row": row["container_at"],
        "replica's row": row["created_at"],
        "engine: created": _time(inspected["Created"]),
        "engine: process started": _time(inspected["State"]["StartedAt"]),
        "health check passed": row["ready_at"],
        "gateway has it": row["changed_at"],
        "row says RUNNING": row["state_since"],
    }
    return {name: at.timestamp() - began_at for name, at in seen.items()}


async def delete(stack: Stack, http: aiohttp.ClientSession, container_id: str) -> None:
    url = f"{stack.api_url}/containers/{container_id}"
    async with http.delete(url, headers=stack.operator_headers) as response:
        assert response.status == 202
    while True:
        async with http.get(url, headers=stack.operator_headers) as response:
            if response.status == 404:
                return
        await asyncio.sleep(0.1)


async def deploy_bare(
    stack: Stack, http: aiohttp.ClientSession, docker: aiodocker.Docker, host_port: int
) -> Timeline:
    spec = bare_spec(await image_id(docker), host_port)
    # Of another installation, so that ours does not look at it; on the same network all the same.
    body = create_body(
        spec,
        installation_id=ids.new_installation_id(),
        network=BridgeNetwork(stack.installation_id).name,
        dns=PUBLIC_DNS,
    )
    timeline: Timeline = {}
    began_at, began_s = time.time(), time.monotonic()
    container = await docker.containers.create(body, name=spec.replica_id)
    timeline["create answered"] = time.monotonic() - began_s
    await container.start()
    timeline["start answered"] = time.monotonic() - began_s
    await first_health_answer(http, f"http://{HOST_ADDRESS}:{host_port}{HEALTH_PATH}")
    timeline["first 200"] = time.monotonic() - began_s
    inspected = await container.show()
    timeline["engine: process started"] = _time(inspected["State"]["StartedAt"]).timestamp() - began_at
    await container.delete(force=True, v=True)
    return timeline


async def image_id(docker: aiodocker.Docker) -> str:
    return str((await docker.images.inspect(IMAGE))["Id"])


async def first_health_answer(http: aiohttp.ClientSession, url: str) -> None:
    while True:
        with contextlib.suppress(aiohttp.ClientError, OSError):
            async with http.get(url) as response:
                if response.status == 200:
                    return
        await asyncio.sleep(POLL_S)


def bare_spec(image: str, host_port: int) -> ReplicaSpec:
    size = next(one for one in default_catalogue() if one.name == INSTANCE_TYPE)
    return ReplicaSpec(
        replica_id=ids.new_replica_id(),
        container_id=ids.new_container_id(),
        project_id=ids.new_project_id(),
        organization_id=ids.new_organization_id(),
        slot=0,
        generation=1,
        image=image,
        command=None,
        environment={},
        port=CONTAINER_PORT,
        host_port=host_port,
        vcpu_millis=size.vcpu_millis,
        memory_bytes=size.memory_bytes,
        disk_bytes=size.disk_bytes,
    )


def report(results: Results, rounds: int) -> None:
    ours = [timeline["RUNNING"] for timeline in results.ours]
    endpoint = [timeline["endpoint answered"] for timeline in results.ours]
    bare = [timeline["first 200"] for timeline in results.bare]
    bare_median = statistics.median(bare)
    print(f"\n{rounds} rounds each                     median     p90   ratio of medians")
    for name, times in (
        ("bare Docker: create → first 200", bare),
        ("Moorage: create → RUNNING", ours),
        ("Moorage: create → endpoint's 200", endpoint),
    ):
        median = statistics.median(times)
        print(f"{name:33} {_ms(median)} {_ms(_p90(times))}   {median / bare_median:.2f}")
    print("\nWhere the time goes (median since the create call was sent)")
    _print_timeline("Moorage", results.ours)
    _print_timeline("bare Docker", results.bare)
    ratio = statistics.median(ours) / bare_median
    overhead = statistics.median(ours) - bare_median
    verdict = "met" if ratio <= TARGET_RATIO else "missed"
    print(
        f"\nRatio of medians {ratio:.2f} ({overhead * 1000:+.0f} ms), target at most {TARGET_RATIO}: {verdict}"
    )
    print(f"Command: python bench/deploy.py --rounds {rounds}")


def _print_timeline(side: str, timelines: Sequence[Timeline]) -> None:
    medians = {name: statistics.median(one[name] for one in timelines) for name in timelines[0]}
    before = 0.0
    for name, at in sorted(medians.items(), key=lambda item: item[1]):
        print(f"  {side:12} {name:26} {_ms(at)}  (+{(at - before) * 1000:.0f})")
        before = at


def _p90(times: Sequence[float]) -> float:
    return statistics.quantiles(times, n=10, method="inclusive")[8] if len(times) > 1 else times[0]


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:5.0f} ms"


def _time(text: str) -> datetime:
    # Docker writes nanoseconds; Python reads at most microseconds.
    whole, _, fraction = text.removesuffix("Z").partition(".")
    return datetime.fromisoformat(f"{whole}.{fraction[:6]:0<6}+00:00")


if __name__ == "__main__":
    main()
