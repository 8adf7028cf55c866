"""A bad neighbour: one organization attacks as hard as it can, another deploys, calls its endpoint and reads its page.

    python bench/fairness.py [--rounds 3] [--window-s 20] [--only "idle connections" …]

Starts an installation of its own in a temporary folder and removes it afterwards. For each attack, windows of calm and
windows under attack take turns. In calm the same generators run as fast against a sink that does nothing, so that what
they cost this machine is not counted against Moorage. Every window counts: requests of all windows of a kind are one
sample. Target: deploy time, and the 99th percentile of requests and of `/me`, at most 2 × of calm, where one below 5 ms
counts as 5 ms; and no request of the other organization fails.
"""

import argparse
import asyncio
import contextlib
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

import aiodocker
import aiohttp
from deploy_stack import Stack, free_port, running_stack
from fairness_attacks import ATTACKS, LEFT_BEHIND, Target, attacking, idle_sink
from fairness_hogs import HOGS, Hog, command_of, deployed_hogs, started
from fairness_people import CONTAINER, NEVER_READY, Tenant, sign_up

TARGET_RATIO = 2.0
FLOOR_S = 0.005
REQUESTS_PER_S = 40
PAGES_PER_S = 20
DEPLOY_TIMEOUT_S = 120.0
POLL_S = 0.05
BUSY_CONTAINERS, STUBBORN_REPLICAS = 10, 10


@dataclass
class Seen:
    """By the other organization, in all windows of a kind."""

    deploys_s: list[float] = field(default_factory=list)
    requests_s: list[float] = field(default_factory=list)
    pages_s: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    sent: Counter[str] = field(default_factory=Counter)
    """By the attack, and what became of it."""


@dataclass(frozen=True)
class Scene:
    quiet: Tenant
    attacker: Tenant
    endpoint_url: str
    real: Target
    sink: Target
    hogs: dict[str, Hog]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--window-s", type=float, default=20.0)
    parser.add_argument(
        "--only",
        nargs="+",
        choices=[*HOGS, *ATTACKS],
        default=[*HOGS, *ATTACKS],
        metavar="ATTACK",
        help=f"a few of the attacks: {', '.join((*HOGS, *ATTACKS))} (default: all)",
    )
    options = parser.parse_args()
    sink_port = free_port()
    with running_stack() as stack, idle_sink(sink_port):
        results = asyncio.run(measure(stack, sink_port, options.only, options.rounds, options.window_s))
    report(results)


async def measure(
    stack: Stack, sink_port: int, names: Sequence[str], rounds: int, window_s: float
) -> dict[str, tuple[Seen, Seen]]:
    results = {name: (Seen(), Seen()) for name in names}
    timeout = aiohttp.ClientTimeout(total=30)
    connector = aiohttp.TCPConnector(limit=0)
    async with (
        aiohttp.ClientSession(timeout=timeout, connector=connector) as http,
        aiodocker.Docker(url=stack.docker_host) as docker,
    ):
        scene = await prepared(stack, http, docker, sink_port, names)
        for name in names:
            for _ in range(rounds):
                for attacked, seen in zip((False, True), results[name], strict=True):
                    await at_rest(scene, http)
                    async with neighbour(scene, name, seen, attacked=attacked):
                        container_id = await window(scene, http, seen, window_s)
                    if container_id is not None:
                        await removed(scene.quiet, http, container_id)
            tell(name, *results[name])
    return results


async def prepared(
    stack: Stack, http: aiohttp.ClientSession, docker: aiodocker.Docker, sink_port: int, names: Sequence[str]
) -> Scene:
    quiet = await sign_up(stack, http, "quiet@example.com")
    attacker = await sign_up(stack, http, "attacker@example.com")
    made = await quiet.deploy(http, "endpoint")
    await in_state(quiet, http, str(made["id"]), "RUNNING")
    hogs = await deployed_hogs(stack, attacker, http, docker, [name for name in names if name in HOGS])
    policy = {
        "mode": "autoscaling",
        "instance_type": "cpu-nano",
        "min_replicas": 1,
        "max_replicas": 2,
    }
    own = await attacker.deploy(http, "own", resources=policy)
    await in_state(attacker, http, str(own["id"]), "RUNNING")
    busy = []
    if "stops and starts" in names:
        for number in range(BUSY_CONTAINERS):
            container = await attacker.deploy(
                http,
                f"busy-{number}",
                start_command=command_of("ignores its end"),
                health_check=NEVER_READY,
            )
            busy.append(str(container["id"]))
        for container_id in busy:
            await started(attacker, http, container_id)
    address = urlsplit(stack.api_url)
    assert address.hostname is not None
    assert address.port is not None
    real = Target(
        address.hostname,
        address.port,
        attacker.headers,
        attacker.organization_id,
        attacker.project_id,
        str(own["id"]),
        tuple(busy),
        {
            **CONTAINER,
            "resources": {
                "mode": "autoscaling",
                "instance_type": "cpu-nano",
                "min_replicas": STUBBORN_REPLICAS,
                "max_replicas": STUBBORN_REPLICAS,
            },
            "start_command": command_of("ignores its end"),
            "health_check": NEVER_READY,
        },
    )
    return Scene(quiet, attacker, str(made["endpoint_url"]), real, replace(real, port=sink_port), hogs)


async def at_rest(scene: Scene, http: aiohttp.ClientSession) -> None:
    """What the last window left to do is done: calm begins when nobody stops or starts anything any more."""
    attacker = scene.attacker
    for container_id in scene.real.busy_ids:
        async with http.post(
            f"{attacker.api_url}/containers/{container_id}/stop", headers=attacker.headers
        ) as answer:
            await answer.read()
    for container_id in scene.real.busy_ids:
        await in_state(attacker, http, container_id, "STOPPED")
    listed = await attacker.get(http, f"/projects/{attacker.project_id}/containers?limit=100")
    for one in listed["items"]:  # type: ignore[attr-defined]
        if one["name"].startswith(LEFT_BEHIND):
            await removed(attacker, http, one["id"])


@contextlib.asynccontextmanager
async def neighbour(scene: Scene, name: str, seen: Seen, *, attacked: bool) -> AsyncIterator[None]:
    if name in scene.hogs:
        async with scene.hogs[name].loose() if attacked else contextlib.nullcontext():
            yield
        return
    with attacking(name, scene.real if attacked else scene.sink) as tally:
        yield
        seen.sent += tally.taken()


async def window(scene: Scene, http: aiohttp.ClientSession, seen: Seen, window_s: float) -> str | None:
    """At least as long as asked for, and as long as a deployment takes. Returns what was deployed."""
    over = asyncio.Event()
    endpoint = {"Authorization": f"Bearer {scene.quiet.key}"}

    async def deploy() -> str | None:
        await asyncio.sleep(1)  # the attack has begun
        began_s = time.monotonic()
        container_id = None
        try:
            made = await scene.quiet.deploy(http, f"deployed-{time.monotonic_ns()}")
            container_id = str(made["id"])
            await in_state(scene.quiet, http, container_id, "RUNNING")
        except (aiohttp.ClientError, TimeoutError, AssertionError) as exc:
            seen.failures[f"deploy: {type(exc).__name__}"] += 1
        seen.deploys_s.append(time.monotonic() - began_s)
        await asyncio.sleep(max(0.0, window_s - (time.monotonic() - began_s)))
        over.set()
        return container_id

    async with asyncio.TaskGroup() as group:
        deployed = group.create_task(deploy())
        url = f"{scene.endpoint_url}/whoami"
        group.create_task(open_loop(http, url, endpoint, REQUESTS_PER_S, over, seen.requests_s, seen))
        page = f"{scene.quiet.api_url}/me"
        group.create_task(open_loop(http, page, scene.quiet.headers, PAGES_PER_S, over, seen.pages_s, seen))
    return deployed.result()


async def open_loop(
    http: aiohttp.ClientSession,
    url: str,
    headers: dict[str, str],
    per_s: int,
    over: asyncio.Event,
    took_s: list[float],
    seen: Seen,
) -> None:
    """So many requests a second, whether the answers come or not."""

    async def one() -> None:
        began_s = time.monotonic()
        try:
            async with http.get(url, headers=headers) as answer:
                await answer.read()
                if answer.status != 200:
                    seen.failures[f"{urlsplit(url).path[:7]}: {answer.status}"] += 1
        except (aiohttp.ClientError, TimeoutError) as exc:
            seen.failures[f"{urlsplit(url).path[:7]}: {type(exc).__name__}"] += 1
        took_s.append(time.monotonic() - began_s)

    started_s, sent = time.monotonic(), 0
    async with asyncio.TaskGroup() as group:
        while not over.is_set():
            due = int((time.monotonic() - started_s) * per_s)
            for _ in range(due - sent):
                group.create_task(one())
            sent = due
            await asyncio.sleep(0.005)


async def in_state(tenant: Tenant, http: aiohttp.ClientSession, container_id: str, state: str) -> None:
    async with asyncio.timeout(DEPLOY_TIMEOUT_S):
        while True:
            with contextlib.suppress(aiohttp.ClientError):  # asked again: what counts is when it is there
                found = await tenant.get(http, f"/containers/{container_id}")
                if found.get("state") == state:
                    return
                assert found.get("state") != "FAILED", found
            await asyncio.sleep(POLL_S)


async def removed(tenant: Tenant, http: aiohttp.ClientSession, container_id: str) -> None:
    path = f"{tenant.api_url}/containers/{container_id}"
    async with asyncio.timeout(DEPLOY_TIMEOUT_S):
        while True:
            with contextlib.suppress(aiohttp.ClientError):
                async with http.delete(path, headers=tenant.headers) as answer:
                    if answer.status == 404:
                        return
            await asyncio.sleep(0.2)


def ratios(calm: Seen, attacked: Seen) -> dict[str, float]:
    return {
        "deploy": statistics.mean(attacked.deploys_s) / max(statistics.mean(calm.deploys_s), FLOOR_S),
        "requests": p99(attacked.requests_s) / max(p99(calm.requests_s), FLOOR_S),
        "/me": p99(attacked.pages_s) / max(p99(calm.pages_s), FLOOR_S),
    }


def p99(values: Sequence[float]) -> float:
    return sorted(values)[int(0.99 * (len(values) - 1))]


def tell(name: str, calm: Seen, attacked: Seen) -> None:
    times = ratios(calm, attacked)
    parts = (
        f"deploy {statistics.mean(calm.deploys_s):5.2f} → {statistics.mean(attacked.deploys_s):5.2f} s ({times['deploy']:.2f} ×)",
        f"requests {1000 * p99(calm.requests_s):6.1f} → {1000 * p99(attacked.requests_s):6.1f} ms ({times['requests']:.2f} ×)",
        f"/me {1000 * p99(calm.pages_s):6.1f} → {1000 * p99(attacked.pages_s):6.1f} ms ({times['/me']:.2f} ×)",
    )
    failed = f"; failed: {dict(attacked.failures)}" if attacked.failures else ""
    print(f"{name:18} {', '.join(parts)}{failed}", flush=True)
    if attacked.sent:
        print(f"{'':18} sent in calm {dict(+calm.sent)}, in the attack {dict(+attacked.sent)}", flush=True)


def report(results: dict[str, tuple[Seen, Seen]]) -> None:
    print(
        f"\nmeans of deployments, 99th percentiles of all windows' requests; target: at most {TARGET_RATIO:g} ×"
    )
    missed = []
    for name, (calm, attacked) in results.items():
        tell(name, calm, attacked)
        missed += [
            f"{name}: {what} {times:.2f} ×"
            for what, times in ratios(calm, attacked).items()
            if times > TARGET_RATIO
        ]
        missed += [f"{name}: {sum(attacked.failures.values())} failures"] if attacked.failures else []
    print(f"Missed: {'; '.join(missed)}." if missed else "Met.")


if __name__ == "__main__":
    main()
