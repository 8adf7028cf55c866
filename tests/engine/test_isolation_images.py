"""A private image that lies in the engine's cache is nobody else's: each one who names it must be let in by its registry."""

import itertools
import json
from dataclasses import replace

from moorage.engines.base import Image, ImageRequest
from moorage.kit.errors import ImageError
from moorage.outbound.registry.credentials import RegistryCredentials
from tests.engine.conftest import DockerWorld
from tests.engine.contract import Recorder
from tests.engine.registry import PASSWORD, USERNAME, Registry

OWNER = RegistryCredentials(USERNAME, PASSWORD)
STRANGERS = (
    None,
    RegistryCredentials(USERNAME, "wrong-canary"),
    RegistryCredentials("bob", PASSWORD),
    RegistryCredentials("bob", "another-canary"),
    RegistryCredentials("", ""),
)


async def test_refused_to_whoever_is_not_let_in(
    docker_world: DockerWorld, private_registry: Registry
) -> None:
    owned = await _pulled_by_owner(docker_world, private_registry)
    assert owned.digest == private_registry.digest("chat")
    references = _names(private_registry, owned)
    before = await _refusals(docker_world, references)

    private_registry.manifests["chat"] = private_registry.manifests["newer-chat"]
    moved = await _pulled_by_owner(docker_world, private_registry)
    assert moved.engine_ref != owned.engine_ref
    after = await _refusals(docker_world, references + _names(private_registry, moved))

    codes = [code for code in before + after if code != "registry_auth_failed"]
    print(f"\n{len(before + after)} requests of strangers, {len(codes)} not refused as they should be")
    assert codes == []
    # And the owner is still let in, so it is not the registry that is out of order.
    assert await _pulled_by_owner(docker_world, private_registry) == moved


async def test_refused_under_every_name_without_a_registry(
    docker_world: DockerWorld, private_registry: Registry
) -> None:
    """The image's id, its digest and its name, as a `local` image or as one of no registry."""
    owned = await _pulled_by_owner(docker_world, private_registry)
    assert owned.digest is not None
    bare = owned.engine_ref.removeprefix("sha256:")
    names = (
        owned.engine_ref,
        bare,
        bare[:12],
        owned.digest,
        f"{private_registry.host}/chat:1",
        f"local/{bare}",
    )
    outcomes = [
        await _outcome(docker_world, ImageRequest(name, credentials, local=True))
        for name, credentials in itertools.product(names, (None, OWNER))
    ]
    assert outcomes == ["image_not_found"] * len(outcomes)


async def test_refused_while_the_registry_is_away(
    docker_world: DockerWorld, private_registry: Registry
) -> None:
    """Nobody can say who may have it, so nobody gets it, the owner included."""
    owned = await _pulled_by_owner(docker_world, private_registry)
    await private_registry.__aexit__(None, None, None)
    requests = [
        ImageRequest(reference, credentials)
        for reference in _names(private_registry, owned)
        for credentials in (*STRANGERS, OWNER)
    ]
    assert {await _outcome(docker_world, request) for request in requests} == {"registry_unreachable"}


async def test_a_registry_cannot_give_away_what_it_does_not_have(
    docker_world: DockerWorld, private_registry: Registry, registry: Registry
) -> None:
    """A tenant's own registry repeats another's manifest, in the hope that the engine takes the rest from its cache."""
    owned = await _pulled_by_owner(docker_world, private_registry)
    registry.manifests["stolen"] = private_registry.manifests["chat"]
    for digest in _blobs(registry.manifests["stolen"]):
        registry.blobs.pop(digest, None)
    outcome = await _outcome(docker_world, ImageRequest(f"{registry.host}/stolen:1"))
    assert outcome != "pulled", f"{owned.engine_ref} was given to somebody who knows its digest"


async def _pulled_by_owner(world: DockerWorld, registry: Registry) -> Image:
    return await world.engine.ensure_image(ImageRequest(f"{registry.host}/chat:1", OWNER), Recorder())


def _names(registry: Registry, image: Image) -> list[str]:
    name = f"{registry.host}/chat"
    return [f"{name}:1", name, f"{name}@{image.digest}", f"{name}:1@{image.digest}"]


async def _refusals(world: DockerWorld, references: list[str]) -> list[str]:
    requests = [ImageRequest(reference) for reference in references]
    return [
        await _outcome(world, replace(request, credentials=credentials))
        for request, credentials in itertools.product(requests, STRANGERS)
    ]


async def _outcome(world: DockerWorld, request: ImageRequest) -> str:
    try:
        await world.engine.ensure_image(request, Recorder())
    except ImageError as exc:
        return exc.code if "canary" not in str(exc) else "told a secret"
    return "pulled"


def _blobs(manifest: bytes) -> list[str]:
    parsed = json.loads(manifest)
    return [parsed["config"]["digest"], *(layer["digest"] for layer in parsed["layers"])]
