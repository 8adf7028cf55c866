"""How much a container may write to its disk, and how much it wrote, on real file systems."""

import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from moorage.engines.docker.daemon import ensure_own_engine, remove_engine_data, stop_engine
from moorage.kit.settings import Settings
from tests.engine.conftest import DockerWorld
from tests.engine.contract import MEBIBYTE, spec_of
from tests.engine_fixtures import build_busybox, remove_installation
from tests.packages import install

DISK_BYTES = 512 * MEBIBYTE
"""The tools make none that are much smaller."""


@pytest.mark.long
async def test_what_it_wrote_is_seen_wherever_it_wrote_it(docker_world: DockerWorld) -> None:
    """In its layer, over the engine's own files, and where no name is left."""
    places = {
        "layer": "dd if=/dev/zero of=/www/model bs=1M count=8",
        "the engine's file": "dd if=/dev/zero of=/etc/hosts bs=1M count=8",
        "a file without a name": "exec 5>/www/gone; rm /www/gone; dd if=/dev/zero bs=1M count=8 >&5",
    }
    rm = "rm() { /bin/busybox rm $1; }; "
    for place, script in places.items():
        written = await _written_by(docker_world, f"{rm}{script}; echo written; while true; do sleep 1; done")
        assert 8 * MEBIBYTE <= written < 9 * MEBIBYTE, place


async def _written_by(world: DockerWorld, script: str) -> int:
    spec = replace(await spec_of(world, "serves"), command=("/bin/sh", "-c", script))
    started = await world.engine.start(spec)

    async def has_written() -> bool:
        return "written" in await world.engine.last_lines(started.engine_id, 5)

    await world.until(has_written)
    written = await world.engine.written_bytes({started.engine_id: spec.disk_bytes})
    await world.engine.remove(started.engine_id)
    assert await world.engine.written_bytes({started.engine_id: spec.disk_bytes}) == {}
    return written[started.engine_id]


async def test_the_machine_of_an_engine_that_bounds_nothing(docker_world: DockerWorld) -> None:
    space = await docker_world.engine.disk_space()
    assert space is not None
    assert 0 < space.free_bytes < space.total_bytes


@dataclass(frozen=True)
class Storage:
    """A file system for an engine's data, and whether the engine can bound the containers on it."""

    filesystem: str
    options: str
    bounds_disk: bool

    def __str__(self) -> str:
        return f"{self.filesystem} {self.options}"


STORAGES = [
    Storage("xfs", "loop,pquota", bounds_disk=True),
    Storage("btrfs", "loop", bounds_disk=True),
    Storage("xfs", "loop", bounds_disk=False),
]


@pytest.fixture(params=STORAGES, ids=str)
def storage(request: pytest.FixtureRequest, short_home: Path) -> Iterator[Storage]:
    """Mounted where an engine of ours has its data."""
    wanted: Storage = request.param
    _install_tools()
    disk, data = short_home / "disk", short_home / "docker"
    disk.touch()
    os.truncate(disk, DISK_BYTES)
    data.mkdir()
    subprocess.run([f"mkfs.{wanted.filesystem}", "-q", str(disk)], check=True, timeout=60)
    mount = ["mount", "-t", wanted.filesystem, "-o", wanted.options, str(disk), str(data)]
    mounted = subprocess.run(mount, capture_output=True, text=True, timeout=60)
    if mounted.returncode != 0:
        pytest.skip(f"this kernel mounts no {wanted}: {mounted.stderr.strip().splitlines()[0]}")
    yield wanted
    if data.is_mount():  # what removes an engine's data unmounts it
        subprocess.run(["umount", str(data)], check=True, timeout=60)


def _install_tools() -> None:
    if shutil.which("mkfs.xfs") is None or shutil.which("mkfs.btrfs") is None:
        install("xfsprogs", "btrfs-progs")


@pytest.fixture
async def stored_world(storage: Storage, short_home: Path) -> AsyncIterator[DockerWorld]:
    settings = Settings(home=short_home)
    docker_host = await ensure_own_engine(settings, lambda _: None)
    world = DockerWorld(docker_host, await build_busybox(docker_host), "absent")
    await world.engine.prepare()
    yield world
    await world.engine.close()
    await world.other_engine.close()
    await remove_installation(docker_host, world.installation_id)
    await stop_engine(settings)
    await remove_engine_data(settings)


async def test_an_engine_that_can_bounds_the_disk_itself(stored_world: DockerWorld, storage: Storage) -> None:
    """One that cannot starts the container all the same."""
    script = "dd if=/dev/zero of=/www/model bs=1M count=64; echo ended; while true; do sleep 1; done"
    spec = replace(
        await spec_of(stored_world, "serves"),
        command=("/bin/sh", "-c", script),
        # Or what is not written yet, to a disk that is slow to make, is too much for it.
        memory_bytes=256 * MEBIBYTE,
        disk_bytes=32 * MEBIBYTE,
    )
    started = await stored_world.engine.start(spec)

    async def ended() -> bool:
        return "ended" in await stored_world.engine.last_lines(started.engine_id, 5)

    await stored_world.until(ended)
    lines = await stored_world.engine.last_lines(started.engine_id, 5)
    refused = any("No space left on device" in line or "Disk quota exceeded" in line for line in lines)
    assert refused is storage.bounds_disk, lines
    space = await stored_world.engine.disk_space()
    assert space is not None
    assert space.total_bytes <= DISK_BYTES, "the engine's disk, not the machine's"
    written = await stored_world.engine.written_bytes({started.engine_id: spec.disk_bytes})
    assert (written[started.engine_id] > spec.disk_bytes + MEBIBYTE) is not storage.bounds_disk, lines
