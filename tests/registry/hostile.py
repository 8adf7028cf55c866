"""A registry at a public address that does what a test tells it to, with certificates and names of its own."""

import asyncio
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from moorage.kit.clock import Clock, system_clock
from moorage.outbound.pulls.proxy import PullProxy
from moorage.outbound.registry.client import ImageFacts, preflight_image
from moorage.outbound.registry.credentials import RegistryCredentials
from tests.registry.images import BuiltImage, single_image
from tests.registry.own_network import Canary

PUBLIC_ADDRESS = "8.8.4.4"
REGISTRY, CDN, OTHER = "registry.example.com", "cdn.example.com", "tokens.example.net"
IMAGE = f"{REGISTRY}/acme/chat:1"
MAX_IMAGE_BYTES = 1 << 30
CREDENTIALS = RegistryCredentials("ann", "password-canary-1234")

Answer = web.StreamResponse
Script = Callable[[web.Request], Awaitable[Answer | None]]


@dataclass
class Hostile:
    """`script` may answer a request in its own way; None leaves it to an honest registry with `image`."""

    canary: Canary
    tls: ssl.SSLContext
    authority_pem: bytes
    image: BuiltImage = field(default_factory=single_image)
    script: Script | None = None
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)
    """Host, path and Authorization of each."""
    lookups: list[str] = field(default_factory=list)

    async def lookup(self, host: str, port: int) -> tuple[str, ...]:
        self.lookups.append(host)
        if host not in self.names:
            raise OSError("there is no such name")
        return self.names[host]

    async def preflight(
        self,
        reference: str = IMAGE,
        credentials: RegistryCredentials | None = None,
        *,
        allowed: tuple[str, ...] = (),
        clock: Clock = system_clock,
    ) -> ImageFacts:
        return await preflight_image(
            reference,
            credentials,
            architecture="amd64",
            allowed_registries=allowed,
            max_image_bytes=MAX_IMAGE_BYTES,
            clock=clock,
            lookup=self.lookup,
            tls=self.tls,
        )

    def pulls(self, **changes: Any) -> PullProxy:
        limits = {"max_image_bytes": MAX_IMAGE_BYTES, "pulls_per_organization": 3} | changes
        return PullProxy(
            system_clock, **{"allowed_registries": ()} | limits, lookup=self.lookup, tls=self.tls
        )

    def authorizations_at(self, host: str) -> list[str | None]:
        return [authorization for seen, _, authorization in self.requests if seen == host]

    async def answer(self, request: web.Request) -> Answer:
        self.requests.append((request.host, request.path, request.headers.get("Authorization")))
        scripted = await self.script(request) if self.script else None
        return scripted or self.honest_answer(request.path)

    def honest_answer(self, path: str) -> web.Response:
        name = path.rpartition("/")[2]
        if "/blobs/" in path and name in self.image.blobs:
            return web.Response(body=self.image.blobs[name])
        found = self.image.manifests.get(self.image.top if name == "1" else name)
        if "/manifests/" in path and found:
            return web.Response(body=found[0], headers={"Content-Type": found[1]})
        return web.Response(status=404)


def challenge(realm: str) -> web.Response:
    header = f'Bearer realm="{realm}",service="registry",scope="repository:everything:*"'
    return web.Response(status=401, headers={"WWW-Authenticate": header})


@asynccontextmanager
async def hostile_registry() -> AsyncIterator[Hostile]:
    """For use inside `in_own_network`."""
    server_tls, client_tls, authority_pem = _certificates()
    async with Canary() as canary:
        hostile = Hostile(canary, client_tls, authority_pem)
        hostile.names |= dict.fromkeys((REGISTRY, CDN, OTHER), (PUBLIC_ADDRESS,))
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", hostile.answer)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, PUBLIC_ADDRESS, 443, ssl_context=server_tls, reuse_port=True).start()
        try:
            yield hostile
        finally:
            await runner.cleanup()
            # TLS connections end in the loop's next turns.
            await asyncio.sleep(0)


def _certificates() -> tuple[ssl.SSLContext, ssl.SSLContext, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "registry of the tests")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName(host) for host in (REGISTRY, CDN, OTHER)]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "both.pem"
        file.write_bytes(pem + key_pem)
        server.load_cert_chain(file)
    return server, ssl.create_default_context(cadata=pem.decode()), pem
