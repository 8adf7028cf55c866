"""What the pull proxy costs: the same image pulled by the same engine, directly and through the proxy, in turns."""

import argparse
import asyncio
import contextlib
import gzip
import io
import json
import os
import platform
import shutil
import statistics
import sys
import tarfile
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiodocker

sys.path.insert(0, str(Path(__file__).parent.parent))

from moorage.engines.base import ImageRequest
from moorage.engines.docker.daemon import ensure_engine, remove_engine_data, stop_engine
from moorage.engines.docker.engine import DockerEngine
from moorage.kit.clock import system_clock
from moorage.kit.ids import new_installation_id
from moorage.kit.settings import Settings
from moorage.outbound.pulls.proxy import PullProxy
from tests.engine_fixtures import is_own_engine
from tests.registry.conftest import run_registry
from tests.registry.images import CONFIG_TYPE, LAYER_TYPE, MANIFEST_TYPE, BuiltImage, digest_of, push

TARGET_RATIO = 1.3
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=100, help="of the image as it travels")
    parser.add_argument("--layers", type=int, default=4)
    arguments = parser.parse_args()
    with contextlib.contextmanager(run_registry)(with_password=False) as registry:
        asyncio.run(compare(registry.host, arguments.rounds, arguments.megabytes << 20, arguments.layers))


async def compare(registry: str, rounds: int, size_bytes: int, layers: int) -> None:
    home = Path(tempfile.mkdtemp(prefix="moor-", dir="/tmp"))
    settings = Settings(home=home, allowed_registries=(registry,))
    docker_host = await ensure_engine(settings, print)
    image = await asyncio.to_thread(image_of, size_bytes, layers)
    await push(f"http://{registry}", "bench/large", "1", image)
    reference = f"{registry}/bench/large@{image.top}"
    pulls = PullProxy(
        system_clock,
        allowed_registries=settings.allowed_registries,
        max_image_bytes=settings.max_image_bytes,
        pulls_per_organization=settings.pulls_per_organization,
    )
    async with pulls, aiodocker.Docker(docker_host) as docker:
        engine = DockerEngine(docker_host, new_installation_id(), system_clock, pulls=pulls)

        async def directly() -> None:
            await docker.images.pull(reference)

        async def through_the_proxy() -> None:
            await engine.ensure_image(ImageRequest(reference), lambda _: None)

        ways: dict[str, Callable[[], Awaitable[None]]] = {
            "directly": directly,
            "through the proxy": through_the_proxy,
        }
        times_s: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        for number in range(rounds + 1):
            for way, pull in ways.items() if number % 2 else reversed(ways.items()):
                taken = await timed(pull)
                if number:  # the first of each warms the registry's files
                    times_s[way].append(taken)
                await forget(docker, image)
        await engine.close()
    show(times_s, image.layer_bytes)
    if is_own_engine(settings, docker_host):
        await stop_engine(settings)
        await remove_engine_data(settings)
    await asyncio.to_thread(shutil.rmtree, home)


async def timed(pull: Callable[[], Awaitable[None]]) -> tuple[float, float]:
    """Seconds of time, and of this process's processors: the proxy runs in it, Docker and the registry do not."""
    began_s, began_cpu_s = time.monotonic(), time.process_time()
    await pull()
    return time.monotonic() - began_s, time.process_time() - began_cpu_s


async def forget(docker: aiodocker.Docker, image: BuiltImage) -> None:
    manifest = json.loads(image.manifests[image.top][0])
    await docker.images.delete(manifest["config"]["digest"], force=True)


def show(times_s: dict[str, list[tuple[float, float]]], size_bytes: int) -> None:
    print(
        f"\nan image of {size_bytes / 2**20:.0f} MiB as it travels, {len(times_s['directly'])} rounds, median"
    )
    medians_s = {way: statistics.median(taken for taken, _ in taken_s) for way, taken_s in times_s.items()}
    print(f"{'':20}{'seconds':>10}{'MiB/s':>10}{'CPU s of Moorage':>20}")
    for way, taken_s in times_s.items():
        cpu_s = statistics.median(cpu for _, cpu in taken_s)
        rate = size_bytes / 2**20 / medians_s[way]
        print(f"{way:20}{medians_s[way]:10.2f}{rate:10.0f}{cpu_s:20.2f}")
    ratio = medians_s["through the proxy"] / medians_s["directly"]
    verdict = "met" if ratio <= TARGET_RATIO else "missed"
    print(f"ratio {ratio:.2f} (target at most {TARGET_RATIO}: {verdict})")


def image_of(size_bytes: int, layers: int) -> BuiltImage:
    """Half of each layer is noise and half compresses well, which is about what libraries do."""
    packed, plain_digests = [], []
    for number in range(layers):
        plain = io.BytesIO()
        with tarfile.open(fileobj=plain, mode="w") as archive:
            content = os.urandom(size_bytes // layers) + bytes(size_bytes // layers)
            entry = tarfile.TarInfo(f"file-{number}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        packed.append(gzip.compress(plain.getvalue(), 1, mtime=0))
        plain_digests.append(digest_of(plain.getvalue()))
    rootfs = {"type": "layers", "diff_ids": plain_digests}
    config = json.dumps(
        {"os": "linux", "architecture": ARCHITECTURE, "config": {}, "rootfs": rootfs}
    ).encode()
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": {"mediaType": CONFIG_TYPE, "digest": digest_of(config), "size": len(config)},
            "layers": [
                {"mediaType": LAYER_TYPE, "digest": digest_of(layer), "size": len(layer)} for layer in packed
            ],
        }
    ).encode()
    blobs = {digest_of(part): part for part in (config, *packed)}
    return BuiltImage(
        digest_of(manifest), sum(map(len, packed)), blobs, {digest_of(manifest): (manifest, MANIFEST_TYPE)}
    )


if __name__ == "__main__":
    main()
