"""The example image, built from the machine's packages in a real engine, with no registry in reach."""

import asyncio
import io
import os
import tarfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiodocker
import pytest

from moorage.entrypoints import debian_rootfs, example_rootfs
from moorage.entrypoints.example_image import EXAMPLE_IMAGE, ensure_example_image, example_sources_dir
from moorage.kit.errors import SetupError

DEADLINE_S = 20
MAX_IMAGE_BYTES = 60_000_000
LABEL = "moorage-test-example-image"

pytestmark = pytest.mark.skipif(
    not debian_rootfs.is_debian_like(), reason="the image is built from Debian packages; no apt here"
)


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("example-cache")


@pytest.fixture
async def docker(docker_host: str) -> AsyncIterator[aiodocker.Docker]:
    async with aiodocker.Docker(docker_host) as client:
        yield client
        for container in await client.containers.list(all=True, filters={"label": [LABEL]}):
            await container.delete(force=True)


async def replace_by_something_else(docker: aiodocker.Docker) -> None:
    """Put an image under the example's tag that no recipe of ours made; whoever uses the old one keeps it."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("nothing"))
    repository, _, tag = EXAMPLE_IMAGE.rpartition(":")
    parameters = {"fromSrc": "-", "repo": repository, "tag": tag}
    async with docker._query("images/create", "POST", params=parameters, data=content.getvalue()) as response:
        await response.read()


async def start(docker: aiodocker.Docker, **settings: Any) -> Any:
    config = {
        "Image": EXAMPLE_IMAGE,
        "Labels": {LABEL: "1"},
        "HostConfig": {
            "NetworkMode": "none",
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            "ReadonlyRootfs": True,
        },
        **settings,
    }
    container = await docker.containers.create(config)
    await container.start()
    return container


async def output_of(container: Any, *command: str) -> tuple[int, str]:
    execution = await container.exec(list(command), stdout=True, stderr=True)
    async with execution.start(detach=False) as stream:
        parts = []
        while (message := await stream.read_out()) is not None:
            parts.append(message.data)
    return (await execution.inspect())["ExitCode"], b"".join(parts).decode()


async def health_of(container: Any) -> str:
    deadline_s = time.monotonic() + DEADLINE_S
    while True:
        code, output = await output_of(container, "wget", "-q", "-O", "-", "http://127.0.0.1:8000/health")
        if code == 0:
            return output
        assert time.monotonic() < deadline_s, output
        await asyncio.sleep(0.05)


@pytest.mark.long
async def test_built_once_and_again_only_when_it_differs(
    docker: aiodocker.Docker, docker_host: str, cache_dir: Path
) -> None:
    said: list[str] = []
    await replace_by_something_else(docker)
    assert await ensure_example_image(docker_host, cache_dir, said.append) == EXAMPLE_IMAGE
    first = await docker.images.inspect(EXAMPLE_IMAGE)
    assert said
    said.clear()
    assert await ensure_example_image(docker_host, cache_dir, said.append) == EXAMPLE_IMAGE
    assert said == []
    assert (await docker.images.inspect(EXAMPLE_IMAGE))["Id"] == first["Id"]

    await replace_by_something_else(docker)
    assert await ensure_example_image(docker_host, cache_dir, said.append) == EXAMPLE_IMAGE
    assert not any("Downloading" in line for line in said)
    assert (await docker.images.inspect(EXAMPLE_IMAGE))["Size"] == first["Size"]
    assert first["Size"] <= MAX_IMAGE_BYTES
    assert list(first["Config"]["ExposedPorts"]) == ["8000/tcp"]
    assert [name for name in os.listdir(cache_dir) if not name.startswith("packages-")] == []


async def test_it_serves_under_the_strictest_profile_and_stops_with_zero(
    docker: aiodocker.Docker, docker_host: str, cache_dir: Path
) -> None:
    await ensure_example_image(docker_host, cache_dir, lambda _: None)
    container = await start(docker)
    assert await health_of(container) == '{"status": 200}'
    assert await output_of(container, "id", "-u") == (0, "65534\n")
    await container.stop(t=DEADLINE_S)
    assert (await container.wait())["StatusCode"] == 0
    assert "chat: stopped\n" in await container.log(stdout=True)


async def test_its_python_is_whole(docker: aiodocker.Docker, docker_host: str, cache_dir: Path) -> None:
    await ensure_example_image(docker_host, cache_dir, lambda _: None)
    check = (
        "import asyncio, bz2, ctypes, curses, json, lzma, readline, sqlite3, ssl, uuid, zlib, zoneinfo, sys\n"
        "zoneinfo.ZoneInfo('Europe/Lisbon')\n"
        "assert json.__cached__ and __import__('os').path.exists(json.__cached__)\n"
        "assert json.decoder.JSONDecoder.decode.__code__.co_filename.startswith('/usr/lib/python3')\n"
    )
    container = await start(docker, Cmd=["python3", "-c", check])
    ended = await container.wait()
    assert ended["StatusCode"] == 0, await container.log(stderr=True)


@pytest.mark.long
async def test_package_lists_are_fetched_where_they_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lists" / "partial").mkdir(parents=True)
    (tmp_path / "status").touch()
    settings = f'Dir::State::lists "{tmp_path}/lists";\nDir::State::status "{tmp_path}/status";\nDir::Cache "{tmp_path}";\n'
    (tmp_path / "apt.conf").write_text(settings)
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    said: list[str] = []
    packages_dir = await debian_rootfs.ensure_packages(tmp_path, said.append)
    assert any("apt-get update" in line for line in said)
    names = {path.name.partition("_")[0] for path in packages_dir.iterdir()}
    assert {"libc6", "busybox-static", "tzdata"} <= names


@pytest.mark.long
async def test_dockerfile_where_there_is_no_apt(
    docker: aiodocker.Docker,
    docker_host: str,
    cache_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The Dockerfile's base comes from a registry; here a stand-in of the same shape has its name."""
    await ensure_example_image(docker_host, cache_dir, lambda _: None)
    built = await docker.images.inspect(EXAMPLE_IMAGE)
    await _tag_as_base(docker, "python", "3.11-slim")
    try:
        await replace_by_something_else(docker)
        monkeypatch.setenv("PATH", str(tmp_path))
        said: list[str] = []
        assert await ensure_example_image(docker_host, cache_dir, said.append) == EXAMPLE_IMAGE
        assert any("Dockerfile" in line for line in said)
        assert await health_of(await start(docker)) == '{"status": 200}'
    finally:
        for container in await docker.containers.list(all=True, filters={"label": [LABEL]}):
            await container.delete(force=True)
        await docker.images.delete("python:3.11-slim", noprune=True)
        # Whoever comes next gets the image they expect, not the stand-in's child.
        repository, _, tag = EXAMPLE_IMAGE.rpartition(":")
        await docker.images.tag(built["Id"], repository, tag=tag)


async def _tag_as_base(docker: aiodocker.Docker, repository: str, tag: str) -> None:
    container = await docker.containers.create({"Image": EXAMPLE_IMAGE, "Labels": {LABEL: "1"}})
    await container.commit(repository=repository, tag=tag, changes=["USER root", "WORKDIR /"])


@pytest.mark.parametrize("docker_address", ["unix:///nowhere/d.sock", "tcp://127.0.0.1:9", "npipe://x", "x"])
async def test_engine_out_of_reach_is_one_clear_line(docker_address: str, cache_dir: Path) -> None:
    with pytest.raises(SetupError) as refused:
        await ensure_example_image(docker_address, cache_dir, lambda _: None)
    assert "\n" not in refused.value.message


async def test_broken_package_is_named(tmp_path: Path) -> None:
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "broken_1_all.deb").write_bytes(b"no package")
    sources = example_sources_dir()
    assert sources is not None
    with pytest.raises(SetupError, match="dpkg-deb --extract"):
        await example_rootfs.build_archive(
            tmp_path / "packages", [sources / "server.py"], tmp_path, lambda _: None
        )
