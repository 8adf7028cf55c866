"""Registries that lie, stall or fish for passwords, over real HTTPS in a network of the test's own."""

import asyncio
import gzip
import time
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from moorage.kit.clock import SystemClock
from moorage.kit.errors import ImageError
from moorage.outbound.registry.client import MAX_CONFIG_BYTES, MAX_MANIFEST_BYTES
from moorage.outbound.registry.session import MAX_TOKEN_BYTES
from tests.registry.hostile import (
    CDN,
    CREDENTIALS,
    IMAGE,
    OTHER,
    REGISTRY,
    Hostile,
    challenge,
    hostile_registry,
)
from tests.registry.images import MANIFEST_TYPE, index_of, single_image
from tests.registry.own_network import in_own_network

_HELM_CHART = b'{"config": {"mediaType": "application/vnd.cncf.helm.config.v1+json"}}'
_TOKEN = "token-canary-9876"
_PASSWORD_HEADER = "Basic YW5uOnBhc3N3b3JkLWNhbmFyeS0xMjM0"


def run(story: Callable[[Hostile], Awaitable[None]]) -> None:
    async def live() -> None:
        async with hostile_registry() as hostile:
            await story(hostile)
            assert await hostile.canary.take_hits() == []

    in_own_network(live)


async def refusal(hostile: Hostile, **arguments: object) -> tuple[str, str]:
    """Code and sentence; neither it nor anything in its chain may hold a secret."""
    with pytest.raises(ImageError) as caught:
        await hostile.preflight(**arguments)  # type: ignore[arg-type]
    error: BaseException | None = caught.value
    while error is not None:
        said = f"{error!r} {error} {error.args!r}"
        for secret in (CREDENTIALS.password, _PASSWORD_HEADER[6:], _TOKEN, "signature-canary"):
            assert secret not in said
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return caught.value.code, caught.value.message


def token_registry(realm_host: str) -> Callable[[web.Request], Awaitable[web.Response | None]]:
    """Wants a token from `realm_host`, and sends blobs to the CDN with a signed address."""

    async def script(request: web.Request) -> web.Response | None:
        if request.path == "/token":
            assert request.query["scope"] == "repository:acme/chat:pull"
            return web.json_response({"token": _TOKEN})
        if request.host == REGISTRY and request.headers.get("Authorization") != f"Bearer {_TOKEN}":
            return challenge(f"https://{realm_host}/token")
        if request.host == REGISTRY and "/blobs/" in request.path:
            raise web.HTTPTemporaryRedirect(f"https://{CDN}{request.path}?signed=signature-canary")
        return None

    return script


def test_token_and_blobs_elsewhere() -> None:
    async def story(hostile: Hostile) -> None:
        hostile.script = token_registry(REGISTRY)
        facts = await hostile.preflight(credentials=CREDENTIALS)
        assert facts.digest == hostile.image.top
        assert hostile.authorizations_at(CDN) == [None]
        assert hostile.authorizations_at(REGISTRY) == [
            None,
            _PASSWORD_HEADER,
            *[f"Bearer {_TOKEN}"] * 2,
        ]

    run(story)


def test_token_elsewhere_without_password() -> None:
    async def story(hostile: Hostile) -> None:
        hostile.script = token_registry(OTHER)
        assert (await hostile.preflight()).digest == hostile.image.top
        assert hostile.authorizations_at(OTHER) == [None]

    run(story)


def test_password_is_not_sent_to_a_foreign_realm() -> None:
    async def story(hostile: Hostile) -> None:
        hostile.script = token_registry(OTHER)
        code, message = await refusal(hostile, credentials=CREDENTIALS)
        assert code == "registry_auth_failed"
        assert f"wants the password sent to {OTHER}" in message
        assert hostile.authorizations_at(OTHER) == []
        assert hostile.authorizations_at(REGISTRY) == [None]

    run(story)


@pytest.mark.parametrize("part", ["/manifests/", "/blobs/", "/token"])
def test_password_is_not_sent_along_a_redirect(part: str) -> None:
    async def story(hostile: Hostile) -> None:
        async def script(request: web.Request) -> web.Response | None:
            if request.host == REGISTRY and request.headers.get("Authorization") is None:
                return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="x"'})
            if request.host == REGISTRY and part in request.path:
                raise web.HTTPTemporaryRedirect(f"https://{OTHER}{request.path}")
            # The host that we were sent to would like a password too.
            return challenge(f"https://{OTHER}/token") if request.host == OTHER else None

        async def bearer_script(request: web.Request) -> web.Response | None:
            if request.path == "/token" and request.host == REGISTRY:
                raise web.HTTPTemporaryRedirect(f"https://{OTHER}/token")
            return challenge(f"https://{REGISTRY}/token")

        hostile.script = bearer_script if part == "/token" else script
        code, _ = await refusal(hostile, credentials=CREDENTIALS)
        assert code == "registry_unreachable"
        assert set(hostile.authorizations_at(OTHER)) <= {None}
        assert _PASSWORD_HEADER in hostile.authorizations_at(REGISTRY)

    run(story)


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("at_token", [True, False])
def test_token_denied(status: int, at_token: bool) -> None:
    async def story(hostile: Hostile) -> None:
        async def script(request: web.Request) -> web.Response | None:
            if request.path == "/token":
                if at_token:
                    return web.Response(status=status, text=str(request.headers.get("Authorization")))
                return web.json_response({"access_token": _TOKEN})
            if request.headers.get("Authorization") is None:
                return challenge(f"https://{REGISTRY}/token")
            return web.Response(status=status, text=str(request.headers.get("Authorization")))

        hostile.script = script
        code, message = await refusal(hostile, credentials=CREDENTIALS)
        assert code == "registry_auth_failed"
        assert ("refused the username" if at_token else "accepted the username") in message
        code, message = await refusal(hostile)
        assert code == "registry_auth_failed"
        assert "private, or it does not exist" in message

    run(story)


def test_redirect_loop() -> None:
    async def story(hostile: Hostile) -> None:
        async def script(request: web.Request) -> web.Response | None:
            raise web.HTTPFound(str(request.url))

        hostile.script = script
        code, message = await refusal(hostile)
        assert code == "registry_unreachable"
        assert "from one address to the next" in message
        assert len(hostile.requests) == 6

    run(story)


@pytest.mark.parametrize(
    ("part", "limit_bytes"),
    [("/manifests/", MAX_MANIFEST_BYTES), ("/blobs/", MAX_CONFIG_BYTES), ("/token", MAX_TOKEN_BYTES)],
)
@pytest.mark.parametrize("compressed", [False, True])
def test_too_much(part: str, limit_bytes: int, compressed: bool) -> None:
    async def story(hostile: Hostile) -> None:
        sent_bytes = 0

        async def script(request: web.Request) -> web.StreamResponse | None:
            nonlocal sent_bytes
            if part == "/token" and request.path != "/token":
                return challenge(f"https://{REGISTRY}/token")
            if part not in request.path:
                return None
            if compressed:  # small on the way, and huge for whoever unpacks it unasked
                body = gzip.compress(b" " * (limit_bytes * 4))
                return web.Response(body=body, headers={"Content-Encoding": "gzip"})
            response = web.StreamResponse()
            await response.prepare(request)
            while sent_bytes < limit_bytes * 20:
                await response.write(b" " * 65536)
                sent_bytes += 65536
            return response

        hostile.script = script
        code, message = await refusal(hostile)
        assert code == "registry_unreachable"
        assert compressed or "KiB" in message
        assert sent_bytes < limit_bytes * 2 + (8 << 20)

    run(story)


def test_wrong_digests() -> None:
    async def story(hostile: Hostile) -> None:
        other = single_image("arm64").manifests.popitem()[1][0]

        async def wrong_body(request: web.Request) -> web.Response | None:
            wrong = other if "/manifests/" in request.path else b"{}"
            return web.Response(body=wrong, headers={"Content-Type": MANIFEST_TYPE})

        async def wrong_config(request: web.Request) -> web.Response | None:
            return web.Response(body=b"{}") if "/blobs/" in request.path else None

        async def wrong_header(request: web.Request) -> web.Response | None:
            answer = hostile.honest_answer(request.path)
            answer.headers["Docker-Content-Digest"] = f"sha256:{'0' * 64}"
            return answer

        by_digest = f"{REGISTRY}/acme/chat@{hostile.image.top}"
        for script, reference in ((wrong_body, by_digest), (wrong_config, IMAGE), (wrong_header, IMAGE)):
            hostile.script = script
            code, message = await refusal(hostile, reference=reference)
            assert code == "registry_unreachable"
            assert "does not have the digest it should" in message

    run(story)


def test_odd_documents() -> None:
    bodies: tuple[tuple[bytes, str, str], ...] = (
        (b'{"schemaVersion": 1, "name": "x"}', "application/json", "image_not_found"),
        (b"{}", "application/vnd.docker.distribution.manifest.v1+prettyjws", "image_not_found"),
        (b"<html>", "text/html", "registry_unreachable"),
        (b"[" * 100_000, MANIFEST_TYPE, "registry_unreachable"),
        (b"9" * 100_000, MANIFEST_TYPE, "registry_unreachable"),
        (b"[]", MANIFEST_TYPE, "registry_unreachable"),
        (b"{}", MANIFEST_TYPE, "registry_unreachable"),
        (b"{}", "application/json", "image_not_found"),
        (_HELM_CHART, MANIFEST_TYPE, "image_not_found"),
    )

    async def story(hostile: Hostile) -> None:
        for body, content_type, expected in bodies:

            async def script(
                request: web.Request, body: bytes = body, content_type: str = content_type
            ) -> web.Response | None:
                return web.Response(body=body, headers={"Content-Type": content_type})

            hostile.script = script
            code, message = await refusal(hostile)
            assert (code, body[:20]) == (expected, body[:20])
            assert len(message) < 400
        hostile.image, hostile.script = index_of(("amd64", index_of(("amd64", single_image())))), None
        code, message = await refusal(hostile)
        assert (code, "index inside an index" in message) == ("registry_unreachable", True)

    run(story)


@pytest.mark.parametrize(("status", "words"), [(429, "wait some minutes"), (503, "503"), (400, "400")])
def test_odd_status(status: int, words: str) -> None:
    async def story(hostile: Hostile) -> None:
        async def script(request: web.Request) -> web.Response | None:
            return web.Response(status=status)

        hostile.script = script
        code, message = await refusal(hostile)
        assert code == "registry_unreachable"
        assert words in message

    run(story)


def test_configuration_is_missing() -> None:
    async def story(hostile: Hostile) -> None:
        hostile.image.blobs.clear()
        code, message = await refusal(hostile)
        assert (code, "Push it again" in message) == ("image_not_found", True)

    run(story)


@pytest.mark.long
def test_slow_drip() -> None:
    """A byte now and then keeps no pre-flight alive: 10 s for a request, 15 s for all of them."""

    async def drip(request: web.Request) -> web.StreamResponse | None:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(1000):
            await response.write(b" ")
            await asyncio.sleep(0.05)
        return response

    class LateClock(SystemClock):
        """14 of the 15 seconds are over when the first request is made."""

        calls = 0

        def monotonic(self) -> float:
            self.calls += 1
            return super().monotonic() + (14.0 if self.calls > 1 else 0.0)

    async def story(hostile: Hostile) -> None:
        hostile.script = drip
        for clock, expected_s in ((LateClock(), 1.0), (SystemClock(), 10.0)):
            begun_s = time.monotonic()
            code, message = await refusal(hostile, clock=clock)
            assert expected_s - 0.1 <= time.monotonic() - begun_s < expected_s + 3
            assert (code, "does not answer in time" in message) == ("registry_unreachable", True)

    run(story)


def test_certificate_for_another_name() -> None:
    """The connection goes to a judged address; TLS still asks for the name."""

    async def story(hostile: Hostile) -> None:
        hostile.names["impostor.example.com"] = hostile.names[REGISTRY]
        code, message = await refusal(hostile, reference="impostor.example.com/acme/chat:1")
        assert (code, "certificate" in message) == ("registry_unreachable", True)
        assert hostile.requests == []

    run(story)
