"""Pulling, against a real registry protocol on loopback."""

from dataclasses import replace

import pytest

from moorage.engines.base import ImageRequest
from moorage.engines.docker.images import split_reference
from moorage.kit.errors import ImageError
from moorage.outbound.registry.credentials import RegistryCredentials
from tests.engine.conftest import DockerWorld
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
