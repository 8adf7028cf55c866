"""RELIABILITY row 22: whatever name a user writes and wherever a registry sends us, no private address is
reached. In a network where each of these addresses would really answer."""

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from moorage.kit.errors import ImageError
from tests.registry.hostile import (
    CDN,
    CREDENTIALS,
    IMAGE,
    PUBLIC_ADDRESS,
    REGISTRY,
    Hostile,
    challenge,
    hostile_registry,
)
from tests.registry.own_network import CANARY_PORTS, in_own_network

NAMES = {
    "private.example.com": ("10.0.0.5",),
    "metadata.example.com": ("169.254.169.254",),
    "mixed.example.com": (PUBLIC_ADDRESS, "192.168.1.1"),
    "mapped.example.com": ("::ffff:10.0.0.5",),
    "nat64.example.com": ("64:ff9b::a00:5",),
    "sixtofour.example.com": ("2002:a00:5::1",),
    "unique-local.example.com": ("fd00:ec2::254",),
    "127.0.0.1.example.com": ("127.0.0.1",),
    "metadata.internal": (PUBLIC_ADDRESS,),
    "kubernetes.default.svc.cluster.local": (PUBLIC_ADDRESS,),
    "localhost": ("127.0.0.1",),
    "moorage": ("10.0.0.5",),
}
_HOSTS = (
    *(
        "127.0.0.1",
        "127.0.0.1:5000",
        "127.255.255.254",
        "localhost",
        "localhost:5000",
        "LOCALHOST",
        "localhost.",
    ),
    *(
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0x7f.1",
        "0177.0.0.1",
        "017700000001",
        "0",
    ),
    *("0.0.0.0", "0.0.0.0:2375", "127.0.0.1.", "127.0.0.01", "127.0.0.256", "00000177.0.0.1", "1.0x7f"),
    *(
        "169.254.169.254",
        "169.254.169.254:80",
        "169.254.169.254.",
        "2852039166",
        "0xa9fea9fe",
        "0xA9.0xFE.43518",
    ),
    *(
        "10.0.0.5",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "100.64.0.1",
        "100.100.100.200",
        "192.0.0.192",
    ),
    *("198.18.0.1", "192.0.2.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
    *("168.63.129.16", "192.88.99.1", "0.0.0.1", *NAMES),
)
URLS = (
    *(f"https://{host}/" for host in _HOSTS),
    *("http://127.0.0.1/", "http://127.0.0.1:8080/", "http://localhost/", "http://169.254.169.254/latest/meta-data/"),
    *("https://[::1]/", "https://[::]/", "https://[::ffff:127.0.0.1]/", "https://[::ffff:7f00:1]/"),
    *("https://[0:0:0:0:0:ffff:a9fe:a9fe]/", "https://[::127.0.0.1]/", "https://[::ffff:0:127.0.0.1]/"),
    *("https://[64:ff9b::7f00:1]/", "https://[64:ff9b::169.254.169.254]/", "https://[64:ff9b:1::a00:5]/"),
    *("https://[2002:7f00:1::]/", "https://[2002:a9fe:a9fe::1]/", "https://[2001:0:7f00:1::1]/"),
    *("https://[2001:4860::5efe:7f00:1]/", "https://[2001:4860::200:5efe:a9fe:a9fe]/", "https://[2001:db8::1]/"),
    *("https://[fe80::1]/", "https://[fe80::1%25lo]/", "https://[fc00::1]/", "https://[fd00:ec2::254]/"),
    *("https://[ff02::1]/", "https://[fec0::1]/", "https://[3fff::1]/", "https://[100::1]/", "https://[::1]:5000/"),
    *(f"https://{REGISTRY}@127.0.0.1/", f"https://{REGISTRY}:443@169.254.169.254/", f"https://127.0.0.1#@{REGISTRY}/"),
    *(f"https://127.0.0.1\\@{REGISTRY}/", f"https://127.0.0.1?@{REGISTRY}/", f"https://127.0.0.1%2F@{REGISTRY}/"),
    *("https://127.0.0.1%00.example.com/", "https://%31%32%37.0.0.1/", "https://１２７.0.0.1/", "https://127。0。0。1/"),
    *("https://①②⑦.⓪.⓪.①/", "//127.0.0.1/", "//169.254.169.254/latest/", "///127.0.0.1/", "\\\\127.0.0.1\\x"),
    *("/\\127.0.0.1/", "https:\\\\127.0.0.1/", "https:127.0.0.1", "https:///127.0.0.1/", "HTTPS://127.0.0.1/"),
    *(f"http://{REGISTRY}/", f"http://{REGISTRY}:443/", f"http://{PUBLIC_ADDRESS}:8080/"),
    *("file:///etc/passwd", "gopher://127.0.0.1:6379/_x", "ftp://127.0.0.1/", "unix:///var/run/docker.sock"),
)  # fmt: skip
_CONTROL_ADDRESSES = ("127.0.0.1", "169.254.169.254", "10.0.0.5", "100.64.0.1", "fd00:ec2::254", "fc00::1")

Attempt = Callable[[Hostile], Awaitable[None]]


@pytest.mark.timeout(170)
@pytest.mark.long
def test_no_private_address_is_reached(capsys: pytest.CaptureFixture[str]) -> None:
    attempts = [
        *((f"registry host {host}", _registry_at(host)) for host in _HOSTS),
        *((f"manifest redirect to {url}", _redirect(url, "/manifests/")) for url in URLS),
        *((f"blob redirect to {url}", _redirect(url, "/blobs/")) for url in URLS),
        *((f"second redirect to {url}", _redirect_by_cdn(url)) for url in URLS),
        *((f"token realm {url}", _realm(url, signed_in=False)) for url in URLS),
        *((f"token realm with password {url}", _realm(url, signed_in=True)) for url in URLS),
    ]
    reached: list[str] = []

    async def story() -> None:
        async with hostile_registry() as hostile:
            hostile.names |= NAMES
            await _canary_sees_what_arrives(hostile)
            for title, attempt in attempts:
                hostile.script = None
                with pytest.raises(ImageError) as caught:
                    await attempt(hostile)
                assert CREDENTIALS.password not in caught.value.message, title
                if hostile.canary.hits:
                    reached.append(f"{title}: {hostile.canary.hits}")
                    hostile.canary.hits.clear()
            reached.extend(await hostile.canary.take_hits())

    in_own_network(story)
    with capsys.disabled():
        print(f"\nserver-side request forgery: {len(attempts)} attempts, {len(reached)} reached the canary")
    assert len(attempts) >= 60
    assert reached == []


def test_rebinding() -> None:
    """A name that is public when judged and private when looked up again, at each of its uses."""

    async def story() -> None:
        async with hostile_registry() as hostile:

            async def turning(host: str, port: int) -> tuple[str, ...]:
                hostile.lookups.append(host)
                return (PUBLIC_ADDRESS,) if hostile.lookups.count(host) == 1 else ("127.0.0.1",)

            async def script(request: web.Request) -> web.Response | None:
                if request.headers.get("Authorization") is None and request.host == REGISTRY:
                    return None if request.path == "/token" else challenge(f"https://{REGISTRY}/token")
                if request.path == "/token":
                    return web.json_response({"token": "t"})
                if "/blobs/" in request.path and request.host == REGISTRY:
                    raise web.HTTPTemporaryRedirect(f"https://{CDN}{request.path}")
                return None

            hostile.lookup = turning  # type: ignore[method-assign]
            hostile.script = script
            facts = await hostile.preflight(credentials=CREDENTIALS)
            assert facts.digest == hostile.image.top
            assert sorted(hostile.lookups) == [CDN, REGISTRY]
            assert len(hostile.requests) >= 5
            # And the other way about: a second pre-flight judges afresh, and refuses.
            with pytest.raises(ImageError, match="private address"):
                await hostile.preflight()
            assert await hostile.canary.take_hits() == []

    in_own_network(story)


def test_public_registry_does_not_lead_to_an_allowed_private_one() -> None:
    async def story() -> None:
        async with hostile_registry() as hostile:
            hostile.script = _redirecting("http://127.0.0.1:5000/v2/internal/manifests/1", "/manifests/")
            with pytest.raises(ImageError, match="HTTPS"):
                await hostile.preflight(IMAGE, allowed=("127.0.0.1:5000", "10.0.0.5"))
            hostile.script = _redirecting("https://10.0.0.5/v2/internal/manifests/1", "/manifests/")
            with pytest.raises(ImageError, match="private address"):
                await hostile.preflight(IMAGE, allowed=("127.0.0.1:5000", "10.0.0.5"))
            assert await hostile.canary.take_hits() == []

    in_own_network(story)


async def _canary_sees_what_arrives(hostile: Hostile) -> None:
    """Without this, a silent canary would prove nothing."""
    for address in _CONTROL_ADDRESSES:
        assert not ipaddress.ip_address(address).is_global
        for port in CANARY_PORTS:
            _, writer = await asyncio.open_connection(address, port)
            writer.close()
    expected = len(_CONTROL_ADDRESSES) * len(CANARY_PORTS)
    assert len(await hostile.canary.take_hits()) == expected
    # The same redirects and realms, to where they may lead, do lead there.
    hostile.script = _redirecting(
        f"https://{CDN}/v2/acme/chat/manifests/1", "/manifests/", only_host=REGISTRY
    )
    assert (await hostile.preflight()).digest == hostile.image.top


def _registry_at(host: str) -> Attempt:
    async def attempt(hostile: Hostile) -> None:
        await hostile.preflight(f"{host}/acme/chat:1", CREDENTIALS)

    return attempt


def _redirect(url: str, part: str) -> Attempt:
    async def attempt(hostile: Hostile) -> None:
        hostile.script = _redirecting(url, part)
        await hostile.preflight()

    return attempt


def _redirect_by_cdn(url: str) -> Attempt:
    async def attempt(hostile: Hostile) -> None:
        async def script(request: web.Request) -> web.Response | None:
            target = f"https://{CDN}/v2/x/blobs/x" if request.host == REGISTRY else url
            return _moved(target) if "/blobs/" in request.path else None

        hostile.script = script
        await hostile.preflight()

    return attempt


def _realm(url: str, *, signed_in: bool) -> Attempt:
    async def attempt(hostile: Hostile) -> None:
        async def script(request: web.Request) -> web.Response | None:
            return challenge(url)

        hostile.script = script
        await hostile.preflight(credentials=CREDENTIALS if signed_in else None)

    return attempt


def _redirecting(
    url: str, part: str, only_host: str | None = None
) -> Callable[[web.Request], Awaitable[web.Response | None]]:
    async def script(request: web.Request) -> web.Response | None:
        return _moved(url) if part in request.path and only_host in (None, request.host) else None

    return script


def _moved(url: str) -> web.Response:
    return web.Response(status=307, headers={"Location": url})
