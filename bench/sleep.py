"""What a wake costs its first request: from the request to the first byte of its answer, against a bare `docker start` to first 200.

    python bench/sleep.py [--rounds 8] [--warm-ups 1]

Starts an installation of its own in a temporary folder and removes it afterwards. One container sleeps after 10 s without a request; each
round waits until it does, and then asks it something. The bare side has a container of the same image, network and limits, which is
stopped, and is started as `docker start` does. The two take turns: trust the ratio. Ours makes a new container each time, because nothing
of it is left while it sleeps. Target: ratio of medians at most 1.5.
"""

import argparse
import asyncio
import statistics
import sys
import time
from typing import Any

import aiodocker
import aiohttp
from deploy_stack import HEALTH_PATH, IMAGE, INSTANCE_TYPE, Stack, running_stack

from deploy import CONTAINER_PORT, FIRST_BARE_PORT, bare_spec, first_health_answer, image_id
from moorage.engines.docker.create import HOST_ADDRESS, create_body
from moorage.engines.docker.engine import PUBLIC_DNS
from moorage.engines.docker.network import BridgeNetwork
from moorage.kit import ids

TARGET_RATIO = 1.5
IDLE_S = 10
PATIENCE_S = 120.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--warm-ups", type=int, default=1)
    options = parser.parse_args()
    with running_stack() as stack:
        ours, bare = asyncio.run(measure(stack, options.rounds, options.warm_ups))
    report(ours, bare)


async def measure(stack: Stack, rounds: int, warm_ups: int) -> tuple[list[float], list[float]]:
    ours: list[float] = []
    bare: list[float] = []
    docker = aiodocker.Docker(url=stack.docker_host)
    timeout = aiohttp.ClientTimeout(total=PATIENCE_S)
    connector = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as http:
        stack = await stack.signed_in(http)
        container = await deploy(stack, http)
        stopped = await bare_container(stack, docker)
        try:
            for number in range(-warm_ups, rounds):
                await until_asleep(stack, http, container["id"])
                sides = [woken(stack, http, container), started(stopped, http)]
                # Neither side is always the one that finds the caches warm.
                first, second = sides if number % 2 else reversed(sides)
                took = [await first, await second]
                wake_s, start_s = took if number % 2 else reversed(took)
                if number >= 0:
                    ours.append(wake_s)
                    bare.append(start_s)
                name = "warm-up" if number < 0 else f"round {number + 1:2}"
                print(f"{name}: wake {wake_s * 1000:.0f} ms, bare start {start_s * 1000:.0f} ms", flush=True)
        finally:
            await stopped.delete(force=True)
            await docker.close()
    return ours, bare


async def deploy(stack: Stack, http: aiohttp.ClientSession) -> dict[str, Any]:
    body = {
        "name": "bench-sleep",
        "image": IMAGE,
        "registry": {"provider": "local"},
        "resources": {"mode": "general", "instance_type": INSTANCE_TYPE},
        "port": CONTAINER_PORT,
        "health_check": {"path": HEALTH_PATH, "timeout_s": 60},
        "sleep_after_s": IDLE_S,
    }
    url = f"{stack.api_url}/projects/{stack.project_id}/containers"
    async with http.post(url, json=body, headers=stack.operator_headers) as response:
        container: dict[str, Any] = await response.json()
        if response.status != 201:
            sys.exit(f"create answered {response.status}: {container}")
    return container


async def until_asleep(stack: Stack, http: aiohttp.ClientSession, container_id: str) -> None:
    """And nothing of it is left: its last replica has ended."""
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        url = f"{stack.api_url}/containers/{container_id}"
        async with http.get(url, headers=stack.operator_headers) as response:
            found = await response.json()
        async with http.get(f"{url}/replicas", headers=stack.operator_headers) as response:
            replicas = (await response.json())["items"]
        if found["asleep_since"] and all(one["state"] == "removed" for one in replicas):
            return
        await asyncio.sleep(0.5)
    sys.exit(f"the container does not sleep: {found['state']}")


async def woken(stack: Stack, http: aiohttp.ClientSession, container: dict[str, Any]) -> float:
    """To the first byte of the answer to the request that wakes it."""
    began_s = time.monotonic()
    url = f"{container['endpoint_url']}{HEALTH_PATH}"
    async with http.get(url, headers=stack.endpoint_headers) as response:
        assert response.status == 200, await response.text()
    return time.monotonic() - began_s


async def bare_container(stack: Stack, docker: aiodocker.Docker) -> Any:
    """Made, and not started."""
    spec = bare_spec(await image_id(docker), FIRST_BARE_PORT)
    # Of another installation, so that ours does not look at it; on the same network all the same.
    body = create_body(
        spec,
        installation_id=ids.new_installation_id(),
        network=BridgeNetwork(stack.installation_id).name,
        dns=PUBLIC_DNS,
    )
    return await docker.containers.create(body, name=spec.replica_id)


async def started(stopped: Any, http: aiohttp.ClientSession) -> float:
    began_s = time.monotonic()
    await stopped.start()
    await first_health_answer(http, f"http://{HOST_ADDRESS}:{FIRST_BARE_PORT}{HEALTH_PATH}")
    took_s = time.monotonic() - began_s
    await stopped.stop(t=0)
    return took_s


def report(ours: list[float], bare: list[float]) -> None:
    ratio = statistics.median(ours) / statistics.median(bare)
    print(f"\nwake to first byte: median {statistics.median(ours) * 1000:.0f} ms of {len(ours)}")
    print(f"bare docker start to first 200: median {statistics.median(bare) * 1000:.0f} ms")
    print(f"ratio {ratio:.2f}, target {TARGET_RATIO}: {'met' if ratio <= TARGET_RATIO else 'MISSED'}")


if __name__ == "__main__":
    main()
