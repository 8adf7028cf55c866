"""Python inside a container, as the hostile tenant of the isolation tests: an image to run it in, and replicas of it.

What runs inside is written as ordinary functions of the test modules and sent by its source (`script_of`), so
that it is read, linted and type-checked like everything else. Such functions import what they need themselves.
"""

import asyncio
import inspect
import io
import json
import os
import signal
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moorage.engines.base import ImageRequest, ObservedReplica, ReplicaSpec
from moorage.engines.docker.connection import DockerConnection
from moorage.entrypoints import debian_rootfs
from moorage.entrypoints.example_image import EXAMPLE_IMAGE, ensure_example_image
from moorage.kit.daemon import Daemon
from moorage.kit.settings import Settings
from tests.engine.conftest import DockerWorld
from tests.engine.contract import MEBIBYTE, Recorder, logs_of, spec_of
from tests.engine_fixtures import is_own_engine

ROOT_IMAGE = "local/chat-moorage:as-root"
"""The example with uid 0: what most images of users run as, and what an attacker would choose."""
Attempts = dict[str, Callable[[], object]]
"""By name; each raises what the kernel says when it is refused."""
NEEDS_DEBIAN = "the probe's image is built from Debian packages; no apt here"
HAS_DEBIAN = debian_rootfs.is_debian_like()


def build_python_images(docker_host: str, cache_dir: Path) -> None:
    """`local/chat:latest` (uid 65534) and the same as root; both are left alone where they are there."""
    asyncio.run(_build(docker_host, cache_dir))


async def _build(docker_host: str, cache_dir: Path) -> None:
    assert await ensure_example_image(docker_host, cache_dir, print) == EXAMPLE_IMAGE
    dockerfile = f"FROM {EXAMPLE_IMAGE}\nUSER 0:0\n".encode()
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        entry = tarfile.TarInfo("Dockerfile")
        entry.size = len(dockerfile)
        archive.addfile(entry, io.BytesIO(dockerfile))
    context.seek(0)
    connection = DockerConnection(docker_host)
    await connection.docker.images.build(fileobj=context, encoding="identity", tag=ROOT_IMAGE)
    await connection.close()


def script_of(*functions: Callable[..., Any], call: str) -> str:
    return "\n\n".join([*(inspect.getsource(function) for function in functions), call, ""])


async def python_spec(
    world: DockerWorld, script: str | None, *, image: str = ROOT_IMAGE, memory_bytes: int = 128 * MEBIBYTE
) -> ReplicaSpec:
    """A replica that runs this script; None is the example's own server."""
    found = await world.engine.ensure_image(ImageRequest(image, local=True), Recorder())
    return replace(
        await spec_of(world, "serves"),
        image=found.engine_ref,
        command=("/usr/bin/python3", "-u", "-c", script) if script is not None else None,
        memory_bytes=memory_bytes,
    )


async def answer_of(world: DockerWorld, spec: ReplicaSpec) -> Any:
    """Start it, and read the one line of JSON that it prints before it ends."""
    started = await world.engine.start(spec)
    output = b"".join(chunk.data for chunk in await logs_of(world, started.engine_id))
    await world.engine.remove(started.engine_id)
    try:
        return json.loads(output)
    except ValueError:
        raise AssertionError(f"the probe said {output[-2000:].decode(errors='replace')}") from None


def _try_all(*parts: "Callable[[], Attempts]") -> None:
    """Inside the container. An attempt counts as refused only when the kernel says that it is not permitted, or that there
    is no such thing. Any other answer, "invalid argument" included, means that the question of permission was passed."""
    import errno
    import json
    import os

    refused = {errno.EPERM, errno.EACCES, errno.EROFS}
    not_there = {errno.ENOSYS, errno.ENOENT, errno.ENODEV, errno.ENXIO, errno.ESRCH, errno.EAFNOSUPPORT}
    not_there |= {errno.ENOTDIR, errno.EISDIR}
    outcomes: dict[str, str | None] = {}
    for part in parts:
        for name, attempt in part().items():
            try:
                attempt()
                outcomes[name] = "done"
            except OSError as exc:
                expected = exc.errno in refused | not_there
                outcomes[name] = None if expected else errno.errorcode.get(exc.errno or 0, str(exc))
    print(json.dumps({"uid": os.getuid(), "tries": outcomes}))


async def assert_all_refused(
    world: DockerWorld, image: str, *parts: "Callable[[], Attempts]", at_least: int
) -> None:
    """Each part gives a name and a call for each of its attempts; all of them are made in one replica."""
    call = f"_try_all({', '.join(part.__name__ for part in parts)})"
    answer = await answer_of(
        world, await python_spec(world, script_of(*parts, _try_all, call=call), image=image)
    )
    passed = {name: outcome for name, outcome in answer["tries"].items() if outcome is not None}
    print(f"\nuid {answer['uid']}: {len(answer['tries'])} tries, {len(passed)} not refused {passed}")
    assert answer["uid"] == (0 if image == ROOT_IMAGE else 65534)
    assert len(answer["tries"]) >= at_least
    assert passed == {}


async def inspected(world: DockerWorld, started: ObservedReplica) -> Mapping[str, Any]:
    connection = DockerConnection(world.docker_host)
    found = dict(await connection.docker.containers.container(started.engine_id).show())
    await connection.close()
    return found


async def addresses(world: DockerWorld, started: ObservedReplica) -> tuple[str, str]:
    """Its own address and that of its bridge."""
    (attached,) = (await inspected(world, started))["NetworkSettings"]["Networks"].values()
    return str(attached["IPAddress"]), str(attached["Gateway"])


async def until_open(world: DockerWorld, address: str, port: int) -> None:
    async def is_open() -> bool:
        try:
            _, writer = await asyncio.open_connection(address, port)
        except OSError:
            return False
        writer.close()
        return True

    await world.until(is_open)


async def kill_engine(own: Daemon, world: DockerWorld) -> None:
    """SIGKILL to the test's own dockerd; its containers run on."""
    pid = own.running_pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)

    async def is_gone() -> bool:
        return own.running_pid() is None

    await world.until(is_gone)


def own_engine_of(settings: Settings, docker_host: str) -> Daemon:
    if not is_own_engine(settings, docker_host):
        pytest.skip("the machine's own Docker engine is in use, and it is not ours to kill")
    return Daemon("dockerd", settings.run_dir.absolute())
