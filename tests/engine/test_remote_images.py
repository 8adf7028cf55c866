"""Images of a machine that joined: they come through Moorage's pull proxy, and by no other way."""

import asyncio
import random
import secrets
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import aiodocker
import pytest

from moorage.engines.base import ImageRequest
from moorage.kit.errors import ImageError, SettingsError
from moorage.kit.ids import new_installation_id
from moorage.node.settings import load_node_settings
from moorage.outbound.registry.credentials import RegistryCredentials
from tests.engine.conftest import DockerWorld
from tests.engine.contract import Recorder
from tests.engine.registry import PASSWORD, USERNAME, Registry
from tests.engine.remote_world import node_settings, remote_world  # noqa: F401 - a fixture
from tests.unit.remote_machines import engine_at


@pytest.fixture
def world(remote_world: DockerWorld) -> DockerWorld:  # noqa: F811
    return remote_world


async def test_an_image_comes_through_the_proxy(world: DockerWorld, registry: Registry) -> None:
    registry.publish(random.randbytes(500_000).hex(), world.architecture, name="large")
    registry.pause_s = 0.1  # Docker does not tell of a download that is over at once
    recorder = Recorder()
    image = await world.engine.ensure_image(ImageRequest(f"{registry.host}/large:1"), recorder)
    assert image.digest == registry.digest("large")
    assert image.exposed_ports == (9000,)
    assert recorder.progress[-1].done_bytes == recorder.progress[-1].total_bytes > 500_000
    assert image.engine_ref in {one.engine_ref for one in await world.engine.pulled_images()}
    async with aiodocker.Docker(world.docker_host) as docker:
        inspected = await docker.images.inspect(image.engine_ref)
    assert [*inspected["RepoTags"], *inspected["RepoDigests"]] == [f"moorage/pulled:{image.engine_ref[7:]}"]
    assert await world.engine.remove_image(image.engine_ref)


async def test_a_private_image_is_asked_for_each_time(world: DockerWorld, private_registry: Registry) -> None:
    request = ImageRequest(f"{private_registry.host}/chat:1", RegistryCredentials(USERNAME, PASSWORD))
    image = await world.engine.ensure_image(request, Recorder())
    assert image.digest == private_registry.digest("chat")
    for credentials in (None, RegistryCredentials(USERNAME, "wrong-canary")):
        with pytest.raises(ImageError) as caught:
            await world.engine.ensure_image(replace(request, credentials=credentials), Recorder())
        assert caught.value.code == "registry_auth_failed"
        assert "canary" not in str(caught.value)


async def test_a_layer_that_is_damaged(world: DockerWorld, registry: Registry) -> None:
    registry.publish(random.randbytes(8).hex(), world.architecture, name="damaged")
    for digest, data in registry.blobs.items():
        if not data.startswith(b"{"):
            registry.blobs[digest] = data[:-1] + b"x"
    with pytest.raises(ImageError) as caught:
        await world.engine.ensure_image(ImageRequest(f"{registry.host}/damaged:1"), Recorder())
    assert registry.host in caught.value.message, "the registry is named, not the way to it"


@pytest.mark.long
async def test_the_command(world: DockerWorld, short_home: Path) -> None:
    """`moor-node serve` with a settings file, until SIGTERM."""
    credential, installation_id = secrets.token_urlsafe(32), new_installation_id()
    settings = node_settings(world.docker_host, installation_id, credential, pulls_port=1)
    file = short_home / "node.toml"
    file.write_text(
        f"""
        installation_id = "{settings.installation_id}"
        credential_sha256 = "{settings.credential_sha256}"
        address = "127.0.0.1"
        port = {settings.port}
        pulls_address = "127.0.0.1"
        docker_host = "{world.docker_host}"
        """
    )
    command = [sys.executable, "-m", "moorage.node", "serve", "--settings", str(file)]
    process = await asyncio.create_subprocess_exec(*command, stderr=subprocess.PIPE)
    engine = engine_at(settings.port, infrastructure="operator", credential=credential)
    try:
        assert process.stderr is not None
        async with asyncio.timeout(120):
            while b"node_serves" not in (line := await process.stderr.readline()):
                assert line, "it ended"
        assert await engine.list_replicas() == []
        (node,) = await engine.capacity()
        assert (node.name, node.closed_because) == ("machine-1", "the network has not been prepared yet")
    finally:
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            ended = await process.wait()
        await engine.close()
    assert ended == 0


def test_settings_that_are_wrong(short_home: Path) -> None:
    file = short_home / "node.toml"
    for text, complaint in (('address = "the tunnel"', "address"), ("address =", "not valid TOML")):
        file.write_text(text)
        with pytest.raises(SettingsError, match=complaint):
            load_node_settings(file)
    command = [sys.executable, "-m", "moorage.node", "serve", "--settings", str(short_home / "absent")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1
    assert ended.stderr.startswith("Cannot read")
