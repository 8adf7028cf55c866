"""Pulling, against a real registry protocol on loopback."""

import random
from dataclasses import replace

import aiodocker
import pytest
from aiohttp import web

from moorage.engines.base import ImageRequest
from moorage.engines.docker.images import split_reference
from moorage.kit.errors import ImageError
from moorage.outbound.pulls.ticket import PullOrder
from moorage.outbound.registry.credentials import RegistryCredentials
from tests.engine.conftest import DockerWorld, pull_proxy
from tests.engine.contract import Recorder
from tests.engine.registry import PASSWORD, USERNAME, Registry


@pytest.fixture
def world(docker_world: DockerWorld) -> DockerWorld:
    return docker_world


async def test_pull_pins_the_digest(world: DockerWorld, registry: Registry) -> None:
    image = await world.engine.ensure_image(ImageRequest(f"{registry.host}/chat:1"), Recorder())
    assert image.digest == registry.digest("chat")
    assert image.engine_ref.startswith("sha256:")
    assert image.exposed_ports == (9000,)
    by_digest = ImageRequest(f"{registry.host}/chat@{registry.digest('chat')}")
    assert await world.engine.ensure_image(by_digest, Recorder()) == image


async def test_cached_private_image_is_asked_for_again(
    world: DockerWorld, private_registry: Registry
) -> None:
    request = ImageRequest(f"{private_registry.host}/chat:1", RegistryCredentials(USERNAME, PASSWORD))
    image = await world.engine.ensure_image(request, Recorder())
    assert image.digest == private_registry.digest("chat")
    for credentials in (None, RegistryCredentials(USERNAME, "wrong-canary")):
        with pytest.raises(ImageError) as caught:
            await world.engine.ensure_image(replace(request, credentials=credentials), Recorder())
        assert caught.value.code == "registry_auth_failed"
        assert "canary" not in str(caught.value)


async def test_moved_tag_is_followed(world: DockerWorld, registry: Registry) -> None:
    request = ImageRequest(f"{registry.host}/chat:1")
    first = await world.engine.ensure_image(request, Recorder())
    registry.manifests["chat"] = registry.manifests["newer-chat"]
    second = await world.engine.ensure_image(request, Recorder())
    assert second.engine_ref != first.engine_ref


async def test_other_architecture(world: DockerWorld, registry: Registry) -> None:
    with pytest.raises(ImageError, match="s390x") as caught:
        await world.engine.ensure_image(ImageRequest(f"{registry.host}/foreign:1"), Recorder())
    assert caught.value.code == "image_architecture_mismatch"


async def test_registry_that_does_not_answer(world: DockerWorld) -> None:
    host = f"127.0.0.1:{world.free_port()}"
    world.pulls.allowed_registries += (host,)
    with pytest.raises(ImageError, match="refuses connections") as caught:
        await world.engine.ensure_image(ImageRequest(f"{host}/chat:1"), Recorder())
    assert caught.value.code == "registry_unreachable"


@pytest.mark.parametrize(
    "reference", ["docker.io/local/chat:latest", "local/chat", "index.docker.io/local/a"]
)
async def test_local_names_cannot_be_pulled_over(world: DockerWorld, reference: str) -> None:
    with pytest.raises(ImageError, match="reserved") as caught:
        await world.engine.ensure_image(ImageRequest(reference), Recorder())
    assert caught.value.code == "image_not_found"


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("ghcr.io/acme/chat:1.2", ("ghcr.io/acme/chat", "1.2", "")),
        ("ghcr.io/acme/chat", ("ghcr.io/acme/chat", "latest", "")),
        ("127.0.0.1:5000/chat", ("127.0.0.1:5000/chat", "latest", "")),
        ("127.0.0.1:5000/chat:x@sha256:ab", ("127.0.0.1:5000/chat", "x", "sha256:ab")),
    ],
)
def test_split_reference(reference: str, expected: tuple[str, str, str]) -> None:
    assert split_reference(reference) == expected


async def test_nothing_is_left_of_the_ticket(world: DockerWorld, registry: Registry) -> None:
    image = await world.engine.ensure_image(ImageRequest(f"{registry.host}/chat:1"), Recorder())
    assert await _names_of(world, image.engine_ref) == [f"moorage/pulled:{image.engine_ref[7:]}"]


async def test_ticket_that_a_crash_left_behind(world: DockerWorld, registry: Registry) -> None:
    """Pulled, and the controller was killed before it could exchange the name."""
    request = ImageRequest(f"{registry.host}/chat:1")
    async with pull_proxy((registry.host,)) as earlier, aiodocker.Docker(world.docker_host) as docker:
        architecture = (await docker.version())["Arch"]
        async with earlier.ticket(PullOrder(request.reference, None, architecture)) as ticket:
            auth = {"username": ticket.credentials.username, "password": ticket.credentials.password}
            await docker.images.pull(f"{ticket.name}@{ticket.manifest_digest}", auth=auth)
            pulled = await docker.images.inspect(f"{ticket.name}@{ticket.manifest_digest}")
    assert any("moorage-pull" in name for name in await _names_of(world, pulled["Id"]))
    image = await world.engine.ensure_image(request, Recorder())
    assert image.engine_ref == pulled["Id"]
    assert await _names_of(world, image.engine_ref) == [f"moorage/pulled:{image.engine_ref[7:]}"]


async def test_image_that_is_too_large(world: DockerWorld, registry: Registry) -> None:
    world.pulls.max_image_bytes = 20
    with pytest.raises(ImageError, match="an image may have 20 bytes here") as caught:
        await world.engine.ensure_image(ImageRequest(f"{registry.host}/chat:1"), Recorder())
    assert caught.value.code == "image_too_large"


async def test_progress(world: DockerWorld, registry: Registry) -> None:
    registry.publish(random.randbytes(2_000_000).hex(), world.architecture, name="large")
    registry.pause_s = 0.1  # Docker does not tell of a download that is over at once
    recorder = Recorder()
    await world.engine.ensure_image(ImageRequest(f"{registry.host}/large:1"), recorder)
    assert recorder.progress[-1].done_bytes == recorder.progress[-1].total_bytes > 2_000_000


async def test_layer_that_leads_to_this_machine(world: DockerWorld, registry: Registry) -> None:
    """Docker followed a registry to whatever listens on loopback, and repeated to its owner what it said there."""
    marker = "marker-canary-5555"
    visits: list[str] = []

    async def service(request: web.Request) -> web.Response:
        visits.append(request.path)
        return web.Response(status=403, text=marker)

    application = web.Application()
    application.router.add_get("/{path:.*}", service)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    registry.publish(random.randbytes(8).hex(), world.architecture, name="leads-away")
    registry.layers_at = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        with pytest.raises(ImageError, match="is not reached by HTTPS") as caught:
            await world.engine.ensure_image(ImageRequest(f"{registry.host}/leads-away:1"), Recorder())
    finally:
        await runner.cleanup()
    assert marker not in caught.value.message
    assert visits == []


async def _names_of(world: DockerWorld, image_id: str) -> list[str]:
    async with aiodocker.Docker(world.docker_host) as docker:
        inspected = await docker.images.inspect(image_id)
    return [*inspected["RepoTags"], *inspected["RepoDigests"]]
