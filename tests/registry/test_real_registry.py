"""The pre-flight against Debian's docker-registry, open and behind htpasswd."""

import socket

import aiohttp
import pytest

from moorage.containers.preflight import look_ahead
from moorage.containers.schemas import PreflightResult
from moorage.kit.clock import system_clock
from moorage.kit.errors import ImageError
from moorage.kit.settings import Settings
from moorage.outbound.registry.client import ImageFacts, preflight_image
from moorage.outbound.registry.credentials import RegistryCredentials
from tests.registry.conftest import PASSWORD, USERNAME, RunningRegistry
from tests.registry.images import (
    DOCKER_INDEX_TYPE,
    DOCKER_MANIFEST_TYPE,
    BuiltImage,
    index_of,
    push,
    single_image,
)

_RIGHT = RegistryCredentials(USERNAME, PASSWORD)
_WRONG = RegistryCredentials(USERNAME, "wrong-canary-0815")


async def ask(
    registry: RunningRegistry, image: str, credentials: RegistryCredentials | None = None, **changes: str
) -> ImageFacts:
    return await preflight_image(
        f"{registry.host}/{image}",
        credentials,
        architecture=changes.get("architecture", "amd64"),
        allowed_registries=(registry.host,),
        max_image_bytes=1 << 30,
        clock=system_clock,
    )


async def refusal(
    registry: RunningRegistry, image: str, credentials: RegistryCredentials | None = None, **changes: str
) -> tuple[str, str]:
    with pytest.raises(ImageError) as caught:
        await ask(registry, image, credentials, **changes)
    for secret in (PASSWORD, _WRONG.password):
        assert secret not in caught.value.message
    return caught.value.code, caught.value.message


@pytest.mark.parametrize("media_type", [None, DOCKER_MANIFEST_TYPE])
async def test_found(open_registry: RunningRegistry, media_type: str | None) -> None:
    image = single_image(media_type=media_type) if media_type else single_image()
    await push(open_registry.url, "acme/chat", "1", image)
    facts = await ask(open_registry, "acme/chat:1")
    assert facts == ImageFacts(
        digest=image.top,
        platforms=("linux/amd64",),
        size_bytes=image.layer_bytes,
        exposed_ports=(9000,),
        entrypoint=("/serve",),
        command=("--port", "9000"),
        user="1000:1000",
        labels={"org.example.model": "tiny"},
        environment={"CUDA_VERSION": "12.4.1", "PATH": "/bin"},
    )
    assert await ask(open_registry, f"acme/chat@{image.top}") == facts


@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
@pytest.mark.parametrize("docker_types", [False, True])
async def test_index(open_registry: RunningRegistry, architecture: str, docker_types: bool) -> None:
    index = _two_platforms(docker_types)
    await push(open_registry.url, "acme/both", "latest", index)
    facts = await ask(open_registry, "acme/both:latest", architecture=architecture)
    assert facts.digest == index.top
    assert facts.platforms == ("linux/amd64", "linux/arm64/v8")
    by_digest = await ask(open_registry, f"acme/both@{index.top}", architecture=architecture)
    assert by_digest == facts


async def test_wrong_architecture(open_registry: RunningRegistry) -> None:
    await push(open_registry.url, "acme/mainframe", "index", index_of(("s390x", single_image("s390x"))))
    await push(open_registry.url, "acme/mainframe", "single", single_image("s390x"))
    for tag in ("index", "single"):
        code, message = await refusal(open_registry, f"acme/mainframe:{tag}")
        assert code == "image_architecture_mismatch"
        assert "only for linux/s390x" in message
        assert "linux/amd64" in message


async def test_too_large(open_registry: RunningRegistry) -> None:
    image = single_image()
    await push(open_registry.url, "acme/chat", "1", image)
    with pytest.raises(ImageError, match=f"an image may have {image.layer_bytes - 1} bytes here") as caught:
        await preflight_image(
            f"{open_registry.host}/acme/chat:1",
            None,
            architecture="amd64",
            allowed_registries=(open_registry.host,),
            max_image_bytes=image.layer_bytes - 1,
            clock=system_clock,
        )
    assert caught.value.code == "image_too_large"


async def test_missing(open_registry: RunningRegistry) -> None:
    await push(open_registry.url, "acme/chat", "1", single_image())
    for image in ("acme/chat:2", "acme/absent:1", f"acme/chat@sha256:{'0' * 64}"):
        code, message = await refusal(open_registry, image)
        assert code == "image_not_found"
        assert f"there is no image {image}" in message
        assert "private images need username and password" in message


async def test_password(private_registry: RunningRegistry) -> None:
    image = single_image()
    sign_in = aiohttp.encode_basic_auth(USERNAME, PASSWORD)
    await push(private_registry.url, "acme/secret", "1", image, sign_in)
    assert (await ask(private_registry, "acme/secret:1", _RIGHT)).digest == image.top
    assert (await ask(private_registry, f"acme/secret@{image.top}", _RIGHT)).digest == image.top
    code, message = await refusal(private_registry, "acme/secret:1", _WRONG)
    assert (code, "refused the username and password" in message) == ("registry_auth_failed", True)
    code, message = await refusal(private_registry, "acme/secret:1")
    assert (code, "give username and password" in message) == ("registry_auth_failed", True)
    code, message = await refusal(private_registry, "acme/secret:2", _RIGHT)
    assert (code, "'ann' may not read" in message) == ("image_not_found", True)


async def test_registry_down() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but nobody listens
        gone = RunningRegistry(f"127.0.0.1:{taken.getsockname()[1]}")
        code, message = await refusal(gone, "acme/chat:1")
    assert code == "registry_unreachable"
    assert "refuses connections" in message


async def test_not_allowed(open_registry: RunningRegistry) -> None:
    with pytest.raises(ImageError, match="not reached by HTTPS") as caught:
        await preflight_image(
            f"{open_registry.host}/acme/chat:1",
            None,
            architecture="amd64",
            allowed_registries=("127.0.0.1:1",),
            max_image_bytes=1 << 30,
            clock=system_clock,
        )
    assert caught.value.code == "registry_unreachable"


def _two_platforms(docker_types: bool) -> BuiltImage:
    if not docker_types:
        return index_of(("amd64", single_image("amd64")), ("arm64", single_image("arm64", variant="v8")))
    return index_of(
        ("amd64", single_image("amd64", media_type=DOCKER_MANIFEST_TYPE)),
        ("arm64", single_image("arm64", media_type=DOCKER_MANIFEST_TYPE)),
        media_type=DOCKER_INDEX_TYPE,
    )


async def test_any_of_the_machines_architectures_will_do(open_registry: RunningRegistry) -> None:
    await push(open_registry.url, "acme/anywhere", "1", single_image())
    settings = Settings(allowed_registries=(open_registry.host,))

    async def looked(*architectures: str) -> PreflightResult:
        image = f"{open_registry.host}/acme/anywhere:1"
        return await look_ahead(
            image, None, None, architectures=architectures, settings=settings, clock=system_clock
        )

    assert (await looked("amd64", "arm64")).ok
    assert (await looked("arm64", "amd64")).ok
    assert (await looked("amd64")).entrypoint == ["/serve"]
    wrong = await looked("arm64", "riscv64")
    assert (wrong.reason, wrong.entrypoint) == ("image_architecture_mismatch", None)
