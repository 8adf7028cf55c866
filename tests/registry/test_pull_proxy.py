"""The pull proxy against registries that lie, stall, or point elsewhere; over real HTTPS, in a network where every address
answers. What an engine would do is done by `puller.py`; `test_pull_docker.py` has the engine itself."""

import asyncio
import gzip
import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace

import aiohttp
import pytest
from aiohttp import web

from moorage.kit.errors import ImageError
from moorage.kit.ids import OrganizationId
from moorage.outbound import transport
from moorage.outbound.pulls.ticket import PullOrder
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
from tests.registry.images import (
    CONFIG_TYPE,
    LAYER_TYPE,
    MANIFEST_TYPE,
    BuiltImage,
    digest_of,
    index_of,
    single_image,
)
from tests.registry.own_network import in_own_network
from tests.registry.puller import Puller, pull, refusal_of
from tests.registry.test_server_side_requests import NAMES, URLS

ORDER = PullOrder(IMAGE, None, "amd64")
SIGNED_ORDER = PullOrder(IMAGE, CREDENTIALS, "amd64")
_TOKEN, _MARKER = "token-canary-9876", "marker-canary-5555"

Script = Callable[[web.Request], Awaitable[web.StreamResponse | None]]


def run(story: Callable[[Hostile], Awaitable[None]]) -> None:
    async def live() -> None:
        async with hostile_registry() as hostile:
            await story(hostile)
            assert await hostile.canary.take_hits() == []

    in_own_network(live)


def image_with(*layers: bytes, architecture: str = "amd64") -> BuiltImage:
    config = json.dumps(
        {
            "os": "linux",
            "architecture": architecture,
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": []},
        }
    ).encode()
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": {"mediaType": CONFIG_TYPE, "digest": digest_of(config), "size": len(config)},
        "layers": [
            {"mediaType": LAYER_TYPE, "digest": digest_of(layer), "size": len(layer)} for layer in layers
        ],
    }
    body = json.dumps(manifest).encode()
    blobs = {digest_of(part): part for part in (config, *layers)}
    return BuiltImage(digest_of(body), sum(map(len, layers)), blobs, {digest_of(body): (body, MANIFEST_TYPE)})


def layer_of(image: BuiltImage) -> str:
    manifest = json.loads(image.manifests[image.top][0])
    return str(manifest["layers"][0]["digest"])


def for_layers(hostile: Hostile, answer: Callable[[web.Request], web.StreamResponse | None]) -> Script:
    """Everything else is honest: so far as a pre-flight sees, nothing is wrong."""

    async def script(request: web.Request) -> web.StreamResponse | None:
        return answer(request) if request.path.endswith(layer_of(hostile.image)) else None

    return script


def moved(url: str) -> web.Response:
    return web.Response(status=307, headers={"Location": url})


def test_honest() -> None:
    async def story(hostile: Hostile) -> None:
        hostile.image = index_of(("amd64", single_image("amd64")), ("arm64", single_image("arm64")))
        async with hostile.pulls() as proxy, proxy.ticket(ORDER) as ticket:
            parts = await Puller(ticket).pull()
            assert ticket.digest == hostile.image.top
            assert ticket.manifest_digest in parts
        assert hostile.authorizations_at(REGISTRY)[-1] is None

    run(story)


@pytest.mark.long
def test_no_private_address_is_reached_for_a_layer() -> None:
    """RELIABILITY rows 22 and 38, with the proxy alone."""
    attempts: list[str] = []

    async def story(hostile: Hostile) -> None:
        hostile.names |= NAMES
        cdn = f"https://{CDN}/v2/x/blobs/{layer_of(hostile.image)}"
        async with hostile.pulls() as proxy:
            for url in URLS:
                kinds: dict[str, Callable[[web.Request], web.Response]] = {
                    "redirect": lambda _, url=url: moved(url),
                    "redirect of the CDN": lambda request, url=url: moved(
                        url if request.host == CDN else cdn
                    ),
                    "realm": lambda _, url=url: challenge(url),
                }
                for kind, answer in kinds.items():
                    hostile.script = for_layers(hostile, answer)
                    error = await refusal_of(proxy, SIGNED_ORDER if kind == "realm" else ORDER)
                    assert CREDENTIALS.password not in error.message
                    assert hostile.canary.hits == [], f"{kind} {url}"
                    attempts.append(f"{kind} {url}")

    run(story)
    print(f"\n{len(attempts)} layers that point to private addresses, 0 reached")
    assert len(attempts) >= 60


def test_rebinding() -> None:
    """A name that is public when judged and private ever after."""

    async def story(hostile: Hostile) -> None:
        async def turning(host: str, port: int) -> tuple[str, ...]:
            hostile.lookups.append(host)
            return (PUBLIC_ADDRESS,) if hostile.lookups.count(host) == 1 else ("127.0.0.1",)

        hostile.lookup = turning  # type: ignore[method-assign]
        hostile.script = for_layers(
            hostile,
            lambda request: moved(f"https://{CDN}{request.path}") if request.host == REGISTRY else None,
        )
        async with hostile.pulls() as proxy:
            assert layer_of(hostile.image) in await pull(proxy, ORDER)
            assert sorted(hostile.lookups) == [CDN, REGISTRY]
            assert "private address" in (await refusal_of(proxy, ORDER)).message

    run(story)


def test_credentials_stay_with_the_registry() -> None:
    async def story(hostile: Hostile) -> None:
        async def script(request: web.Request) -> web.Response | None:
            if request.path == "/token":
                return web.json_response({"token": _TOKEN})
            if request.host == REGISTRY and request.headers.get("Authorization") != f"Bearer {_TOKEN}":
                return challenge(f"https://{REGISTRY}/token")
            if request.host == REGISTRY and "/blobs/" in request.path:
                return moved(f"https://{CDN}{request.path}")
            return None

        hostile.script = script
        async with hostile.pulls() as proxy:
            await pull(proxy, SIGNED_ORDER)
        assert set(hostile.authorizations_at(CDN)) == {None}
        assert len(hostile.authorizations_at(CDN)) >= 2

    run(story)


def test_password_is_not_sent_to_a_realm_that_comes_up_later() -> None:
    """The pre-flight's realm is the registry's own; the layer's is not."""

    async def story(hostile: Hostile) -> None:
        hostile.script = for_layers(hostile, lambda _: challenge(f"https://{OTHER}/token"))
        async with hostile.pulls() as proxy:
            error = await refusal_of(proxy, SIGNED_ORDER)
        assert error.code == "registry_auth_failed"
        assert f"wants the password sent to {OTHER}" in error.message
        assert hostile.authorizations_at(OTHER) == []

    run(story)


def test_token_that_runs_out() -> None:
    async def story(hostile: Hostile) -> None:
        given = 0

        async def script(request: web.Request) -> web.Response | None:
            nonlocal given
            if request.path == "/token":
                given += 1
                return web.json_response({"token": f"token-{given}"})
            # The first is good for manifest and configuration alone.
            good = "Bearer token-2" if request.path.endswith(layer_of(hostile.image)) else "Bearer token-"
            signed_in = request.headers.get("Authorization", "").startswith(good)
            return None if signed_in else challenge(f"https://{REGISTRY}/token")

        hostile.script = script
        async with hostile.pulls() as proxy:
            assert layer_of(hostile.image) in await pull(proxy, SIGNED_ORDER)
        assert given == 2

    run(story)


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (401, "registry_unreachable"),
        (403, "registry_auth_failed"),
        (404, "image_not_found"),
        (500, "registry_unreachable"),
    ],
)
def test_what_a_registry_says_is_not_repeated(status: int, code: str) -> None:
    async def story(hostile: Hostile) -> None:
        def answer(_: web.Request) -> web.Response:
            body = {"errors": [{"code": "DENIED", "message": _MARKER}]}
            return web.json_response(body, status=status, reason=_MARKER, headers={"X-Marker": _MARKER})

        for order in (ORDER, SIGNED_ORDER):
            hostile.script = for_layers(hostile, answer)
            async with hostile.pulls() as proxy:
                error = await refusal_of(proxy, order)
            assert _MARKER not in f"{error.message} {error!r} {error.__cause__!r}"
            assert error.code == code

    run(story)


def test_size_is_checked_before_anything_is_pulled() -> None:
    async def story(hostile: Hostile) -> None:
        hostile.image = image_with(bytes(3 << 20))
        async with hostile.pulls(max_image_bytes=2 << 20) as proxy:
            error = await refusal_of(proxy, ORDER)
        assert error.code == "image_too_large"
        assert "has layers of 3 MiB; an image may have 2 MiB here" in error.message
        assert not any("/blobs/" in path for _, path, _ in hostile.requests)

    run(story)


def test_layer_that_unpacks_to_more_than_there_may_be() -> None:
    async def story(hostile: Hostile) -> None:
        hostile.image = image_with(gzip.compress(bytes(64 << 20), 9))
        assert hostile.image.layer_bytes < 1 << 20
        async with hostile.pulls(max_image_bytes=32 << 20) as proxy:
            error = await refusal_of(proxy, ORDER)
        assert error.code == "image_too_large"
        assert "unpacks to more than the 32 MiB" in error.message
        async with hostile.pulls(max_image_bytes=65 << 20) as proxy:
            assert layer_of(hostile.image) in await pull(proxy, ORDER)

    run(story)


@pytest.mark.parametrize(
    ("given", "announced", "says"),
    [
        (b"x" * 200_000, False, "longer than its manifest says"),
        (b"x" * 200_000, True, "does not have the size its manifest says"),
        (b"x" * 100_000, False, "does not have the digest it should"),
        (b"x" * 99_999, True, "does not have the size its manifest says"),
    ],
)
def test_layer_that_is_not_what_the_manifest_says(given: bytes, announced: bool, says: str) -> None:
    async def story(hostile: Hostile) -> None:
        hostile.image = image_with(hashlib.sha256().digest() * 3125)  # 100,000 bytes

        async def script(request: web.Request) -> web.StreamResponse | None:
            if not request.path.endswith(layer_of(hostile.image)):
                return None
            response = web.StreamResponse()
            if announced:
                response.content_length = len(given)
            await response.prepare(request)
            await response.write(given)
            return response

        hostile.script = script
        async with hostile.pulls() as proxy, proxy.ticket(ORDER) as ticket:
            with pytest.raises(ImageError, match=says) as caught:
                await Puller(ticket).pull()
        assert caught.value.code == "registry_unreachable"

    run(story)


@pytest.mark.parametrize("knows_ranges", [True, False])
def test_layer_is_taken_up_where_it_broke_off(knows_ranges: bool) -> None:
    async def story(hostile: Hostile) -> None:
        content = bytes(range(256)) * 8192
        hostile.image = image_with(content)
        breaks_at = [300_000, 1_000_000, len(content) - 1]
        ranges: list[str | None] = []
        given_up_to = [0]

        async def script(request: web.Request) -> web.StreamResponse | None:
            if not request.path.endswith(layer_of(hostile.image)):
                return None
            ranges.append(request.headers.get("Range"))
            first = int((ranges[-1] or "bytes=0-")[6:-1]) if knows_ranges else 0
            response = web.StreamResponse(status=206 if first else 200)
            response.content_length = len(content) - first
            if first:
                response.headers["Content-Range"] = f"bytes {first}-{len(content) - 1}/{len(content)}"
            await response.prepare(request)
            end = breaks_at.pop(0) if breaks_at else len(content)
            await response.write(content[first:end])
            given_up_to.append(end)
            if end < len(content):
                assert request.transport is not None
                request.transport.close()
            return response

        hostile.script = script
        async with hostile.pulls() as proxy:
            parts = await pull(proxy, ORDER, tries=4)
        assert parts[digest_of(content)] == content
        assert len(ranges) == 4
        assert ranges[0] is None
        # Each goes on behind what had arrived by then. Of a try that broke off at once, that may be nothing.
        starts = [int((one or "bytes=0-")[6:-1]) for one in ranges]
        assert all(0 <= start <= given for start, given in zip(starts, given_up_to, strict=False)), starts
        assert starts == sorted(starts)
        assert starts[-1] > 0

    run(story)


def test_another_part_than_was_asked_for() -> None:
    async def story(hostile: Hostile) -> None:
        hostile.image = image_with(bytes(2 << 20))

        async def script(request: web.Request) -> web.StreamResponse | None:
            if not request.path.endswith(layer_of(hostile.image)):
                return None
            if "Range" in request.headers:
                return web.Response(status=206, headers={"Content-Range": "bytes 7-8/9"}, body=b"xx")
            response = web.StreamResponse()
            response.content_length = 2 << 20
            await response.prepare(request)
            await response.write(bytes(1 << 20))
            assert request.transport is not None
            request.transport.close()
            return response

        hostile.script = script
        async with hostile.pulls() as proxy:
            assert "another part of a layer" in (await refusal_of(proxy, ORDER, tries=3)).message

    run(story)


def test_a_ticket_is_for_one_image_and_one_pull() -> None:
    async def story(hostile: Hostile) -> None:
        other = single_image("arm64")
        hostile.image.blobs.update(other.blobs)
        async with hostile.pulls() as proxy, aiohttp.ClientSession() as session:

            async def status(name: str, path: str, username: str, password: str, method: str = "GET") -> int:
                headers = {"Authorization": aiohttp.encode_basic_auth(username, password)}
                listen, _, repository = name.partition("/")
                url = f"http://{listen}/v2/{repository}/{path}"
                async with session.request(method, url, headers=headers) as answer:
                    return answer.status

            layer = f"blobs/{layer_of(hostile.image)}"
            async with proxy.ticket(ORDER) as ticket, proxy.ticket(ORDER) as another:
                mine = (ticket.credentials.username, ticket.credentials.password)
                assert await status(ticket.name, layer, *mine) == 200
                assert await status(ticket.name, layer, *mine, method="HEAD") == 200
                # What the registry has besides, under a password that is right.
                for digest in other.blobs.keys() - {layer_of(hostile.image)}:
                    assert await status(ticket.name, f"blobs/{digest}", *mine) == 404
                assert await status(ticket.name, "manifests/1", *mine) == 404
                assert await status(ticket.name, "tags/list", *mine) == 404
                assert await status(ticket.name, layer, *mine, method="PUT") == 405
                assert await status(another.name, layer, *mine) == 401
                for wrong in (
                    (mine[0], ""),
                    (mine[0], mine[1][:-1]),
                    ("", mine[1]),
                    (another.credentials.username, mine[1]),
                ):
                    assert await status(ticket.name, layer, *wrong) == 401
                listen = ticket.name.partition("/")[0]
                async with session.get(f"http://{listen}/v2/") as greeting:
                    assert greeting.status == 401
            assert await status(ticket.name, layer, *mine) == 401

    run(story)


def test_a_machine_that_takes_for_ever_holds_up_the_pulls_of_no_other() -> None:
    async def story(hostile: Hostile) -> None:
        ann = OrganizationId("org_ann")
        async with hostile.pulls(pulls_per_organization=1) as proxy:
            order = PullOrder(IMAGE, None, "amd64", ann, machine="slow")
            async with proxy.ticket(order), asyncio.timeout(20):
                await pull(proxy, replace(order, machine="quick"))
                await pull(proxy, replace(order, machine=""))

    run(story)


def test_who_asks_without_end_is_refused_and_has_to_connect_anew() -> None:
    async def story(hostile: Hostile) -> None:
        async with (
            hostile.pulls() as proxy,
            proxy.ticket(ORDER) as ticket,
            aiohttp.ClientSession() as session,
        ):
            listen, _, path = ticket.name.partition("/")
            address = f"http://{listen}/v2/{path}/manifests/{ticket.manifest_digest}"
            credentials = ticket.credentials
            mine = {"Authorization": aiohttp.encode_basic_auth(credentials.username, credentials.password)}
            async with session.get(address) as stranger:
                assert (stranger.status, stranger.headers.get("Connection")) == (401, "close")
            layers = {layer.digest for layer in ticket.image.manifest.layers}
            for _ in range(50 * (len(layers) + 3)):
                async with session.get(address, headers=mine) as answer:
                    assert answer.status == 200
            async with session.get(address, headers=mine) as answer:
                assert (answer.status, answer.headers.get("Connection")) == (429, "close")

    run(story)


def test_pulls_of_one_organization_take_turns() -> None:
    async def story(hostile: Hostile) -> None:
        ann, bob = OrganizationId("org_ann"), OrganizationId("org_bob")
        async with hostile.pulls(pulls_per_organization=2) as proxy:
            order = PullOrder(IMAGE, None, "amd64", ann)
            async with proxy.ticket(order):
                async with proxy.ticket(order):
                    third = asyncio.create_task(pull(proxy, order))
                    # Somebody else's goes through all of it while the third has not begun.
                    await pull(proxy, PullOrder(IMAGE, None, "amd64", bob))
                    assert not third.done()
                async with asyncio.timeout(20):
                    await third

    run(story)


def test_a_pull_that_is_given_up_ends_its_connections() -> None:
    async def story(hostile: Hostile) -> None:
        hostile.image = image_with(bytes(1 << 20))
        asked, gone = asyncio.Event(), asyncio.Event()

        async def script(request: web.Request) -> web.StreamResponse | None:
            if not request.path.endswith(layer_of(hostile.image)):
                return None
            response = web.StreamResponse()
            response.content_length = 1 << 20
            await response.prepare(request)
            asked.set()
            try:
                while True:
                    await response.write(b"x")
                    await asyncio.sleep(0.01)
            finally:
                gone.set()

        hostile.script = script
        async with hostile.pulls() as proxy:
            given_up = asyncio.create_task(pull(proxy, ORDER))
            async with asyncio.timeout(20):
                await asked.wait()
                given_up.cancel()
                await gone.wait()

    run(story)


@pytest.mark.long
def test_layer_that_hardly_moves() -> None:
    """Each holds a place at the engine, and engines have few."""

    async def story(hostile: Hostile) -> None:
        hostile.image = image_with(bytes(1 << 20))

        async def script(request: web.Request) -> web.StreamResponse | None:
            if not request.path.endswith(layer_of(hostile.image)):
                return None
            response = web.StreamResponse()
            response.content_length = 1 << 20
            await response.prepare(request)
            while request.transport is not None and not request.transport.is_closing():
                await response.write(bytes(100))
                await asyncio.sleep(0.1)
            return response

        hostile.script = script
        async with hostile.pulls() as proxy:
            began_s = asyncio.get_running_loop().time()
            error = await refusal_of(proxy, ORDER)
            assert asyncio.get_running_loop().time() - began_s < transport.STREAM_PATIENCE_S + 10
        assert "sends too slowly" in error.message

    run(story)
