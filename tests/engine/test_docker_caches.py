"""Caches on a real Docker engine: what stays, whose it is, how much, and what goes first."""

import asyncio
import hashlib
import io
import json
import os
import resource
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiodocker
import pytest

from moorage.engines.base import CacheSpec, ObservedReplica, ReplicaPhase, ReplicaSpec
from moorage.engines.docker.create import cache_mount
from moorage.kit.ids import ContainerId, new_container_id, new_organization_id, new_replica_id
from tests.engine.conftest import DockerWorld
from tests.engine.contract import MEBIBYTE, spec_of

SIZE = CacheSpec(64 * MEBIBYTE)
MODEL = "$HF_HUB_CACHE/models--acme--private"
SERVES = "echo done; while true; do sleep 1; done"
COMPILERS = ("VLLM_CACHE_ROOT", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "CUDA_CACHE_PATH")
SECRET = "weights-of-acme-4711"


async def of_container(world: DockerWorld, container_id: ContainerId, **changes: Any) -> ReplicaSpec:
    spec = await spec_of(world, "serves")
    return replace(spec, **{"container_id": container_id, "cache": SIZE, **changes})


async def said(world: DockerWorld, spec: ReplicaSpec, script: str) -> tuple[ObservedReplica, tuple[str, ...]]:
    """What a replica prints by the time that it says "done", or ends."""
    started = await world.engine.start(replace(spec, command=("/bin/sh", "-c", script)))
    lines: tuple[str, ...] = ()

    async def is_done() -> bool:
        nonlocal lines
        seen = await world.engine.inspect(spec.replica_id)
        assert seen is not None
        ended = seen.phase is ReplicaPhase.EXITED
        lines = await world.engine.last_lines(started.engine_id, 50)
        return ended or "done" in lines

    await world.until(is_done)
    return started, lines


def folder_of(world: DockerWorld, spec: ReplicaSpec, root: str, user: str = "") -> Path:
    name = cache_mount(spec, world.installation_id, user)["Source"]
    return Path(root) / "volumes" / name / "_data"


@pytest.fixture
async def docker_root(docker_host: str) -> str:
    async with aiodocker.Docker(docker_host) as docker:
        return str((await docker.system.info())["DockerRootDir"])


@pytest.mark.long
async def test_what_one_replica_left_the_next_one_finds_and_nobody_else(
    docker_world: DockerWorld, docker_root: str
) -> None:
    container_id = new_container_id()
    first = await of_container(docker_world, container_id)
    write = (
        f"mkdir -p {MODEL} && echo {SECRET} > {MODEL}/model.safetensors; "
        + "; ".join(f"mkdir -p ${name}/4711 && echo {name} > ${name}/4711/kernel" for name in COMPILERS)
        + "; "
    )
    started, _ = await said(docker_world, first, write + SERVES)
    second = await of_container(docker_world, container_id)
    beside, lines = await said(docker_world, second, f"cat {MODEL}/model.safetensors; {SERVES}")
    assert SECRET in lines, "a replica beside it has the same cache"
    for one in (started, beside):
        await docker_world.engine.remove(one.engine_id)
    third = await of_container(docker_world, container_id)
    kernels = "; ".join(f"cat ${name}/4711/kernel" for name in COMPILERS)
    again, lines = await said(docker_world, third, f"cat {MODEL}/model.safetensors; {kernels}; echo done")
    assert lines == (SECRET, *COMPILERS, "done"), "and so has a later start, with all that was compiled"
    (held,) = await docker_world.engine.caches()
    assert held.compiled_bytes > 0
    await docker_world.engine.remove(again.engine_id)

    folder = folder_of(docker_world, first, docker_root)
    tries = (
        f"cat {MODEL}/model.safetensors",
        "cat /var/cache/moorage/*/*/*/*",
        "cat /var/cache/moorage/../*/*/*/*/*",
        f"cat {folder}/huggingface/hub/models--acme--private/model.safetensors",
        f"cat /proc/1/root{folder}/huggingface/hub/models--acme--private/model.safetensors",
        f"cat /proc/1/root/var/cache/moorage/{folder.parent.name}/_data/huggingface/hub/*/*",
        f"ln -s {folder} /var/cache/moorage/x; cat /var/cache/moorage/x/huggingface/hub/*/*",
        f"mkdir -p /mnt; mount --bind {folder} /mnt; cat /mnt/huggingface/hub/*/*",
        "mknod /disk b 8 0; mknod /var/cache/moorage/disk b 254 0; cat /disk /var/cache/moorage/disk",
        f"ln {folder}/huggingface/hub/models--acme--private/model.safetensors /var/cache/moorage/y; cat /var/cache/moorage/y",
        "for f in /proc/*/root/var/cache/moorage /proc/*/cwd; do cat $f/huggingface/hub/*/*; done",
        "grep -r weights-of /var /run /tmp /mnt",
    )
    assert len(tries) >= 10
    stranger = await of_container(
        docker_world,
        new_container_id(),
        organization_id=new_organization_id(),
        # It may say whatever it likes in its environment.
        environment={"HF_HUB_CACHE": str(folder), "MOORAGE_CONTAINER": container_id},
    )
    script = "; ".join(f"({one}) 2>&1 | cut -c1-200" for one in tries)
    other, lines = await said(docker_world, stranger, f"{script}; echo done")
    assert "done" in lines
    assert not [line for line in lines if SECRET in line]
    await docker_world.engine.remove(other.engine_id)


async def test_it_does_not_count_as_its_disk_and_a_volume_of_its_image_does(
    docker_world: DockerWorld,
) -> None:
    spec = await of_container(docker_world, new_container_id())
    fill = "dd if=/dev/zero of=/var/cache/moorage/model bs=1M count=8; "
    started, _ = await said(docker_world, spec, fill + SERVES)
    written = await docker_world.engine.written_bytes({started.engine_id: spec.disk_bytes})
    assert written[started.engine_id] < MEBIBYTE
    (held,) = await docker_world.engine.caches()
    assert 8 * MEBIBYTE <= held.size_bytes < 9 * MEBIBYTE


@pytest.mark.long
async def test_whoever_the_image_runs_as_may_write(docker_world: DockerWorld, docker_host: str) -> None:
    """And finds nothing there that it may not change, which another user made."""
    container_id = new_container_id()
    as_root, lines = await said(
        docker_world, await of_container(docker_world, container_id), f"mkdir -p {MODEL}; echo done"
    )
    assert lines == ("done",)
    async with aiodocker.Docker(docker_host) as docker:
        made = await docker.containers.container(as_root.engine_id).commit(
            repository="local/moorage-cache-user", tag="test", changes="USER 4711:4711"
        )
        image = str(made["Id"])
        try:
            for _ in range(2):
                spec = await of_container(docker_world, container_id, image=image)
                started, lines = await said(
                    docker_world, spec, f"mkdir -p {MODEL} && echo x >> {MODEL}/f && echo done; id -u"
                )
                assert lines == ("done", "4711")
                await docker_world.engine.remove(started.engine_id)
            (held,) = await docker_world.engine.caches()
            assert held.container_id == container_id
            await docker_world.engine.remove(as_root.engine_id)
            assert await docker_world.engine.remove_cache(container_id, None)
            assert await docker_world.engine.caches() == []
        finally:
            await docker.images.delete(image, force=True)


@pytest.mark.long
async def test_what_was_not_used_for_longest_goes_first_and_what_is_open_stays(
    docker_world: DockerWorld, docker_root: str
) -> None:
    container_id = new_container_id()
    spec = await of_container(docker_world, container_id)
    fill = "; ".join(
        f"mkdir -p $HF_HUB_CACHE/models--{name}; dd if=/dev/zero of=$HF_HUB_CACHE/models--{name}/w bs=1M count=4"
        for name in ("old", "older", "opened", "new")
    )
    started, _ = await said(docker_world, spec, f"{fill}; echo done")
    await docker_world.engine.remove(started.engine_id)
    hub = folder_of(docker_world, spec, docker_root) / "huggingface" / "hub"

    def age(name: str, days: int) -> None:
        at = os.stat(hub / f"models--{name}" / "w").st_mtime - days * 86400
        os.utime(hub / f"models--{name}" / "w", (at, at))
        os.utime(hub / f"models--{name}", (at, at))

    for name, days in (("old", 2), ("older", 3), ("opened", 4)):
        await asyncio.to_thread(age, name, days)
    opens = f"exec 5< $HF_HUB_CACHE/models--opened/w; {SERVES}"
    user = replace(spec, replica_id=new_replica_id(), host_port=docker_world.free_port())
    running, _ = await said(docker_world, user, opens)
    await asyncio.to_thread(age, "opened", 4)

    held = await docker_world.engine.trim_cache(container_id, None, 13 * MEBIBYTE)
    assert held is not None
    assert held.size_bytes <= 13 * MEBIBYTE
    assert sorted(one.name for one in hub.iterdir()) == ["models--new", "models--old", "models--opened"]
    held = await docker_world.engine.trim_cache(container_id, None, 0)
    assert held is not None
    assert held.size_bytes >= 4 * MEBIBYTE
    assert "models--opened" in {one.name for one in hub.iterdir()}, "a process has it open"
    await docker_world.engine.remove(running.engine_id)
    held = await docker_world.engine.trim_cache(container_id, None, 0)
    assert held is not None
    assert held.size_bytes < MEBIBYTE


@pytest.mark.long
async def test_what_a_killed_replica_left_half_done_the_next_one_continues(docker_world: DockerWorld) -> None:
    """As hubs' libraries do with a file that is not complete."""
    container_id = new_container_id()
    half = f"mkdir -p {MODEL}; echo first > {MODEL}/w.incomplete; {SERVES}"
    killed, _ = await said(docker_world, await of_container(docker_world, container_id), half)
    await docker_world.engine.stop(killed.engine_id, grace_s=0)
    await docker_world.engine.remove(killed.engine_id)
    rest = f"echo second >> {MODEL}/w.incomplete; mv {MODEL}/w.incomplete {MODEL}/w; cat {MODEL}/w; echo done"
    again, lines = await said(docker_world, await of_container(docker_world, container_id), rest)
    assert lines == ("first", "second", "done")
    await docker_world.engine.remove(again.engine_id)


async def test_an_image_without_settings_of_its_own_has_a_cache_too(docker_world: DockerWorld) -> None:
    """Whoever builds images by hand can leave them out, and the engine then says that they are null."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("empty"))
    digest = hashlib.sha256(layer.getvalue()).hexdigest()
    config = {
        "architecture": "amd64",
        "os": "linux",
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    name = f"bare-{digest[:12]}:latest"
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    image = io.BytesIO()
    with tarfile.open(fileobj=image, mode="w") as archive:
        for path, data in (
            ("config.json", json.dumps(config).encode()),
            ("layer.tar", layer.getvalue()),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            member = tarfile.TarInfo(path)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    docker = docker_world.engine._connection.docker
    await docker.images.import_image(image.getvalue())
    try:
        assert await docker_world.engine._caches.image_user(name) == ""
    finally:
        await docker.images.delete(name, force=True)


@pytest.mark.long
async def test_one_that_is_deeper_than_the_engine_has_descriptors_goes_as_well(
    docker_world: DockerWorld, docker_root: str
) -> None:
    container_id = new_container_id()
    spec = await of_container(docker_world, container_id)
    started, _ = await said(docker_world, spec, "echo done")
    await docker_world.engine.remove(started.engine_id)
    here = os.open(folder_of(docker_world, spec, docker_root), os.O_RDONLY)
    try:
        for _ in range(_engines_descriptors() + 100):
            os.mkdir("d", dir_fd=here)
            below = os.open("d", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
    finally:
        os.close(here)
    assert await docker_world.engine.remove_cache(container_id, None)
    assert await docker_world.engine.caches() == []


def _engines_descriptors() -> int:
    """Such as this process may have as well: it started the engine."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most > 30_000:
        pytest.skip(f"a tree of {most} folders takes too long to make")
    return most
