"""RELIABILITY row 38 with a real engine: Docker itself pulls, in a network where every address answers and every lookup
is seen. So far as a pre-flight can tell nothing is wrong with these registries; what they do, they do to the pull."""

import asyncio
import platform
from collections.abc import Awaitable, Callable

import aiodocker
import pytest
from aiohttp import web

from moorage.engines.base import ImageRequest
from moorage.engines.docker.engine import DockerEngine
from moorage.kit.clock import system_clock
from moorage.kit.errors import ImageError
from moorage.kit.ids import new_installation_id
from moorage.outbound.registry.credentials import RegistryCredentials
from moorage.outbound.transport import STREAM_PATIENCE_S
from tests.registry.hostile import (
    CDN,
    CREDENTIALS,
    IMAGE,
    OTHER,
    PUBLIC_ADDRESS,
    REGISTRY,
    Hostile,
    challenge,
    hostile_registry,
)
from tests.registry.images import digest_of, single_image
from tests.registry.own_engine import NameServer, own_engine
from tests.registry.own_network import in_own_network
from tests.registry.test_pull_proxy import for_layers, image_with, layer_of, moved

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
_DOCKERS_OWN_PLACES = 3
_MARKER = "marker-canary-5555"
_TARGETS = (
    *("https://127.0.0.1/", "https://127.0.0.1:8080/", "http://127.0.0.1:5000/", "http://localhost:6379/"),
    *("https://169.254.169.254/latest/", "http://169.254.169.254/latest/", "https://10.0.0.5/", "http://10.0.0.5/"),
    *("https://172.16.0.1/", "https://192.168.1.1/", "https://100.64.0.1/", "https://168.63.129.16/"),
    *("https://[::1]/", "https://[::ffff:127.0.0.1]/", "https://[fd00:ec2::254]/", "https://[64:ff9b::a00:5]/"),
    *("https://2130706433/", "https://0x7f.1/", "http://0:8080/", f"https://{REGISTRY}@10.0.0.5/"),
    *("https://private.example.com/", "https://metadata.internal/", "https://turning.example.com/"),
)  # fmt: skip
_NAMES = {
    "private.example.com": ("10.0.0.5",),
    "metadata.internal": (PUBLIC_ADDRESS,),
    "turning.example.com": ("10.0.0.5",),
}

Script = Callable[[web.Request], Awaitable[web.StreamResponse | None]]


class Pulling:
    """One engine, one hostile registry, and what was seen of both."""

    def __init__(
        self, hostile: Hostile, engine: DockerEngine, names: NameServer, docker: aiodocker.Docker
    ) -> None:
        self.hostile = hostile
        self.engine = engine
        self.names = names
        self.docker = docker

    async def attempt(self, script: Script | None, credentials: RegistryCredentials | None = None) -> str:
        """The sentence that its owner reads, or nothing if it was pulled; from an empty cache."""
        for image in await self.docker.images.list():
            await self.docker.images.delete(image["Id"], force=True)
        self.hostile.script = script
        try:
            await self.engine.ensure_image(ImageRequest(IMAGE, credentials), lambda _: None)
        except ImageError as exc:
            return exc.message
        return ""


def run(story: Callable[[Pulling], Awaitable[None]]) -> None:
    async def live() -> None:
        async with (
            hostile_registry() as hostile,
            own_engine(hostile.authority_pem) as host,
            NameServer(
                {REGISTRY: [PUBLIC_ADDRESS], CDN: [PUBLIC_ADDRESS], OTHER: [PUBLIC_ADDRESS]}
            ).running() as names,
            hostile.pulls() as pulls,
        ):
            hostile.image = single_image(ARCHITECTURE, layers=1)
            hostile.names |= _NAMES
            engine = DockerEngine(host, new_installation_id(), system_clock, pulls=pulls)
            docker = aiodocker.Docker(host)
            try:
                await story(Pulling(hostile, engine, names, docker))
                assert await hostile.canary.take_hits() == []
            finally:
                await docker.close()
                await engine.close()

    in_own_network(live)


def attempts_for(hostile: Hostile, target: str) -> dict[str, tuple[Script, bool]]:
    """By name: what the registry does, and whether its owner gave a password."""

    async def redirects_greeting(request: web.Request) -> web.Response | None:
        return moved(target) if request.path == "/v2/" else None

    async def wants_token_from_target(request: web.Request) -> web.Response | None:
        return challenge(target) if request.path == "/v2/" else None

    by_cdn = for_layers(
        hostile,
        lambda request: moved(target if request.host == CDN else f"https://{CDN}{request.path}"),
    )
    return {
        "layer redirected to": (for_layers(hostile, lambda _: moved(target)), False),
        "layer redirected by the CDN to": (by_cdn, True),
        "layer's token realm": (for_layers(hostile, lambda _: challenge(target)), True),
        "greeting's token realm": (wants_token_from_target, True),
        "greeting redirected to": (redirects_greeting, False),
    }


@pytest.mark.long
def test_no_private_address_is_reached_through_the_engine() -> None:
    tried: list[str] = []
    reached: list[str] = []

    async def story(pulling: Pulling) -> None:
        hostile = pulling.hostile
        assert await pulling.attempt(None) == ""
        for target in _TARGETS:
            for kind, (script, signed_in) in attempts_for(hostile, target).items():
                said = await pulling.attempt(script, CREDENTIALS if signed_in else None)
                assert CREDENTIALS.password not in said
                tried.append(f"{kind} {target}")
                if hostile.canary.hits:
                    reached.append(f"{tried[-1]}: {hostile.canary.hits}")
                    hostile.canary.hits.clear()
        assert hostile.authorizations_at(OTHER) == []
        assert set(hostile.authorizations_at(CDN)) == {None}
        # Docker looked nothing up at all: it has no name to look up.
        assert pulling.names.asked == []

    run(story)
    print(f"\n{len(tried)} attempts through the engine's own pull, {len(reached)} reached a private address")
    assert len(tried) >= 60
    assert reached == []


@pytest.mark.long
def test_through_the_engine() -> None:
    """The kinds of it, one each: rebinding, a foreign realm, words of a registry, a redirect to this machine."""

    async def story(pulling: Pulling) -> None:
        hostile, names = pulling.hostile, pulling.names
        assert await pulling.attempt(None) == ""
        # Rebinding: whoever looks it up again is sent to a private address.
        names.names[REGISTRY] = [PUBLIC_ADDRESS, "10.0.0.5"]
        assert await pulling.attempt(None) == ""
        said = await pulling.attempt(for_layers(hostile, lambda _: moved("https://127.0.0.1:8080/")))
        assert "127.0.0.1:8080 is at a private address, which the operator has not allowed" in said

        async def foreign_realm(request: web.Request) -> web.Response | None:
            return challenge(f"https://{OTHER}/token") if request.path == "/v2/" else None

        assert await pulling.attempt(foreign_realm, CREDENTIALS) == ""
        said = await pulling.attempt(
            for_layers(hostile, lambda _: challenge(f"https://{OTHER}/token")), CREDENTIALS
        )
        assert f"wants the password sent to {OTHER}" in said
        assert hostile.authorizations_at(OTHER) == []

        async def talks(request: web.Request) -> web.Response | None:
            layer = request.path.endswith(layer_of(hostile.image))
            return web.Response(status=403, text=_MARKER) if layer or request.path == "/v2/" else None

        said = await pulling.attempt(talks, CREDENTIALS)
        assert "refused the username and password" in said
        assert _MARKER not in said
        assert names.asked == []

    run(story)


@pytest.mark.long
def test_layers_that_hardly_move_do_not_hold_up_others() -> None:
    """Docker has three places for layers, for everybody together: so it did, and who took them had them."""

    async def story(pulling: Pulling) -> None:
        hostile = pulling.hostile
        slow_layers = [f"layer {number}".encode() * 1000 for number in range(6)]
        slow = image_with(*slow_layers, architecture=ARCHITECTURE)
        hostile.image.manifests.update(slow.manifests)
        hostile.image.blobs.update(slow.blobs)
        digests = {digest_of(layer) for layer in slow_layers}
        waiting, enough = set[str](), asyncio.Event()

        async def script(request: web.Request) -> web.StreamResponse | None:
            digest = request.path.rpartition("/")[2]
            if digest not in digests:
                return None
            waiting.add(digest)
            if len(waiting) >= _DOCKERS_OWN_PLACES:
                enough.set()
            response = web.StreamResponse()
            response.content_length = len(hostile.image.blobs[digest])
            await response.prepare(request)
            while True:
                await response.write(b"x")
                await asyncio.sleep(0.05)

        hostile.script = script
        request = ImageRequest(f"{REGISTRY}/acme/slow@{slow.top}")
        held_up = asyncio.create_task(pulling.engine.ensure_image(request, lambda _: None))
        async with asyncio.timeout(STREAM_PATIENCE_S - 10):
            await enough.wait()
            await pulling.engine.ensure_image(ImageRequest(IMAGE), lambda _: None)
        assert not held_up.done()
        held_up.cancel()
        await asyncio.gather(held_up, return_exceptions=True)

    run(story)
