"""What a cache saves: a restart and a second replica with one, without, and with the weights baked into the image.

    python bench/cache.py [--gib 1] [--rounds 3] [--replicas 20]

Starts an installation of its own in a temporary folder, and a hub with a real repository's layout in a network of its own; as root.
The three take turns, so that a busy machine is unfair to all alike: trust the ratios. The clock runs from the request to the
moment at which the API says that the replica serves; bytes are counted at the hub. At the end many replicas of one container
start at once, with an empty cache.
Targets: with a cache 0 bytes, and at most 1.1 × the time of weights in the image; many at once download once.
"""

import argparse
import asyncio
import contextlib
import io
import os
import statistics
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiodocker
import aiohttp
import cache_client
from cache_hub import MODEL, OUTSIDE, URL, Repository, forget_served, hub_outside, serve, served_bytes
from deploy_stack import HEALTH_PATH, IMAGE, Stack, running_stack

TARGET_RATIO = 1.1
INSTANCE_TYPE, MANY_INSTANCE_TYPE = "cpu-medium", "cpu-nano"
"""The first has memory for the weights: files that a container reads are in its memory, and those of an image, which the engine wrote, are not."""
BAKED_IMAGE = "local/cache-bench-baked:latest"
BAKED_FOLDER = "/weights/hub"
IMAGE_USER = 65534
POLL_S = 0.02
TIMEOUT_S = 600.0
CLIENT = Path(cache_client.__file__).read_text()
WAYS = ("without", "with", "baked")


@dataclass
class Figures:
    seconds: list[float] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)


Results = dict[tuple[str, str], Figures]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--gib", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--replicas", type=int, default=20)
    options = parser.parse_args()
    weights_bytes = int(options.gib * 2**30)
    with running_stack() as stack, hub_outside(weights_bytes):
        asyncio.run(measure(stack, weights_bytes, options.rounds, options.replicas))


async def measure(stack: Stack, weights_bytes: int, rounds: int, replicas: int) -> None:
    results: Results = {(way, what): Figures() for way in WAYS for what in ("restart", "second replica")}
    async with (
        aiodocker.Docker(url=stack.docker_host) as docker,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S)) as http,
    ):
        stack = await stack.signed_in(http)
        await bake(docker, weights_bytes)
        try:
            for number in range(rounds):
                for way in WAYS[number % 3 :] + WAYS[: number % 3]:
                    await one_round(Containers(stack, http), way, f"{way}-{number}", results)
                    print(".", end="", flush=True)
            many_s, many_bytes = await many_at_once(Containers(stack, http), replicas)
        finally:
            await docker.images.delete(BAKED_IMAGE, force=True)
    report(results, Repository(weights_bytes).total_bytes, replicas, many_s, many_bytes)


@dataclass
class Containers:
    stack: Stack
    http: aiohttp.ClientSession

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        url = f"{self.stack.api_url}{path}"
        async with self.http.request(method, url, json=body, headers=self.stack.operator_headers) as answer:
            text = await answer.text()
            assert answer.status < 300, f"{method} {path}: {answer.status} {text}"
            return await answer.json()

    async def create(self, name: str, way: str, instance_type: str, replicas: int, most: int) -> str:
        environment = {"CLIENT": CLIENT, "MODEL": MODEL, "HF_ENDPOINT": URL}
        body: dict[str, Any] = {
            "name": name,
            "image": BAKED_IMAGE if way == "baked" else IMAGE,
            "registry": {"provider": "local"},
            "start_command": """python3 -c 'import os; exec(os.environ["CLIENT"])'""",
            "port": 8000,
            "health_check": {"path": HEALTH_PATH, "timeout_s": 600},
            "resources": {
                "mode": "autoscaling",
                "instance_type": instance_type,
                "min_replicas": replicas,
                "max_replicas": most,
            },
            "env": environment | ({"HF_HUB_CACHE": BAKED_FOLDER} if way == "baked" else {}),
        }
        if way == "with":
            body["cache"] = {"size_gib": 100}
        made = await self.ask("POST", f"/projects/{self.stack.project_id}/containers", body)
        return str(made["id"])

    async def until(self, container_id: str, state: str, ready: int) -> None:
        deadline_s = time.monotonic() + TIMEOUT_S
        while True:
            shown = await self.ask("GET", f"/containers/{container_id}")
            if shown["state"] == state and shown["replicas"]["ready"] >= ready:
                return
            assert shown["state"] != "FAILED", f"{shown['reason']}: {shown['message']}"
            assert time.monotonic() < deadline_s, f"not {state} in time: {shown['state']} {shown['message']}"
            await asyncio.sleep(POLL_S)


async def one_round(containers: Containers, way: str, name: str, results: Results) -> None:
    container_id = await containers.create(name, way, INSTANCE_TYPE, 1, 2)
    path = f"/containers/{container_id}"
    await containers.until(container_id, "RUNNING", 1)

    await containers.ask("POST", f"{path}/stop")
    await containers.until(container_id, "STOPPED", 0)
    with timed(results[way, "restart"]):
        await containers.ask("POST", f"{path}/start")
        await containers.until(container_id, "RUNNING", 1)
    with timed(results[way, "second replica"]):
        await containers.ask("POST", f"{path}/scale", {"min_replicas": 2, "max_replicas": 2})
        await containers.until(container_id, "RUNNING", 2)
    await containers.ask("DELETE", path)


@contextlib.contextmanager
def timed(figures: Figures) -> Iterator[None]:
    os.sync()  # Else what a download left unwritten slows whoever comes after it.
    forget_served()
    began_s = time.monotonic()
    yield
    figures.seconds.append(time.monotonic() - began_s)
    figures.bytes.append(served_bytes())


async def many_at_once(containers: Containers, replicas: int) -> tuple[float, int]:
    figures = Figures()
    with timed(figures):
        container_id = await containers.create("many", "with", MANY_INSTANCE_TYPE, replicas, replicas)
        await containers.until(container_id, "RUNNING", replicas)
    await containers.ask("DELETE", f"/containers/{container_id}")
    return figures.seconds[0], figures.bytes[0]


async def bake(docker: aiodocker.Docker, weights_bytes: int) -> None:
    """The same repository, fetched by the same program, as a layer of an image."""
    archive = await asyncio.to_thread(_baked_archive, weights_bytes)
    container = await docker.containers.create({"Image": IMAGE})
    try:
        with archive:
            target = f"containers/{container.id}/archive"
            async with docker._query(target, method="PUT", params={"path": "/"}, data=archive.read()):
                pass
        await container.commit(repository=BAKED_IMAGE.rpartition(":")[0], tag="latest")
    finally:
        await container.delete(force=True)


def _baked_archive(weights_bytes: int) -> io.BytesIO:
    server = serve(weights_bytes, ("127.0.0.1", 0))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    written = io.BytesIO()
    try:
        with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=written, mode="w") as archive:
            endpoint = f"http://127.0.0.1:{server.server_address[1]}"
            cache_client.fetched(endpoint, MODEL, Path(folder))
            archive.add(folder, BAKED_FOLDER.lstrip("/"), filter=_owned_by_its_user)
    finally:
        server.shutdown()
    written.seek(0)
    return written


def _owned_by_its_user(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = IMAGE_USER
    return entry


def report(results: Results, total_bytes: int, replicas: int, many_s: float, many_bytes: int) -> None:
    print(
        f"\n\nA model of {total_bytes / 2**30:.2f} GiB at {OUTSIDE}; medians of {len(results['with', 'restart'].seconds)}\n"
    )
    print("| | restart | bytes | second replica | bytes |\n|---|---|---|---|---|")
    for way in WAYS:
        restart, second = results[way, "restart"], results[way, "second replica"]
        cells = [f"{statistics.median(one.seconds):.2f} s | {max(one.bytes):,}" for one in (restart, second)]
        print(f"| {way} | {' | '.join(cells)} |")
    for what in ("restart", "second replica"):
        cached, baked, none = (
            statistics.median(results[way, what].seconds) for way in ("with", "baked", "without")
        )
        met = "met" if cached <= TARGET_RATIO * baked else "MISSED"
        print(
            f"{what}: {cached / baked:.2f} × baked (target {TARGET_RATIO}: {met}), {none / cached:.1f} × faster than without"
        )
    downloaded = max(max(results["with", what].bytes) for what in ("restart", "second replica"))
    print(
        f"downloaded with a cache: {downloaded:,} bytes (target 0: {'met' if downloaded == 0 else 'MISSED'})"
    )
    once = many_bytes == total_bytes
    print(
        f"{replicas} replicas at once, empty cache: {many_bytes / total_bytes:.2f} downloads in {many_s:.1f} s "
        f"(target 1: {'met' if once else 'MISSED'})"
    )


if __name__ == "__main__":
    main()
