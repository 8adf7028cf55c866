"""Certificates by a real authority, on a real HAProxy: had, served without a restart, renewed, refused."""

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
from authority import Authority, running_authority
from gateway_support import Place, eventually

from moorage.entrypoints.gateway_role import create_dataplane
from moorage.entrypoints.health_parts import State, certificate_part
from moorage.entrypoints.served_certificates import served_certificates
from moorage.gateway.acme.certificate import read
from moorage.gateway.acme.keeper import CertificateKeeper, begin_with_some_certificate, last_try
from moorage.gateway.dataplane import DataPlane
from moorage.gateway.table import GatewayTable
from moorage.kit.clock import system_clock
from moorage.kit.settings import Settings
from tests.ports import free_port

CLOUD, INFERENCE = "cloud.example.com", "inference.example.com"


@dataclass
class Installation:
    settings: Settings
    authority: Authority
    gateway: DataPlane

    @property
    def keeper(self) -> CertificateKeeper:
        """Another process's: it knows what is in the files."""
        return CertificateKeeper(self.settings, system_clock)

    async def served(self) -> None:
        await self.gateway.apply(GatewayTable({}, {}))

    async def presented(self, name: str) -> set[str]:
        """The names of the certificate that a client gets who trusts this authority alone."""
        trusted = ssl.create_default_context(cadata=await self.authority.roots())
        port = int(self.settings.gateway_listen.rpartition(":")[2])
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusted, server_hostname=name)
        certificate = writer.get_extra_info("ssl_object").getpeercert()
        writer.close()
        return {value for kind, value in certificate["subjectAltName"] if kind == "DNS"}

    async def asked(self, method: str, path: str, host: str = CLOUD) -> tuple[int, str, str]:
        url = f"http://{self.settings.acme_listen}{path}"
        async with (
            aiohttp.ClientSession() as http,
            http.request(method, url, headers={"Host": host}, allow_redirects=False) as answer,
        ):
            return answer.status, await answer.text(), answer.headers.get("Location", "")


@asynccontextmanager
async def installation_in(folder: Path, **environment: str) -> AsyncIterator[Installation]:
    asks_port, gateway_port = free_port(), free_port()
    async with running_authority(folder, asks_port, **environment) as authority:
        settings = Settings(
            home=folder,
            public_url=f"https://{CLOUD}",
            gateway_url=f"https://{INFERENCE}:8443",
            api_listen=f"127.0.0.1:{free_port()}",
            gateway_listen=f"127.0.0.1:{gateway_port}",
            acme_email="ann@example.com",
            acme_listen=f"127.0.0.1:{asks_port}",
            acme_directory=authority.directory,
            acme_root=authority.root,
        )
        settings.run_dir.mkdir(exist_ok=True)
        begin_with_some_certificate(settings, system_clock.now())
        gateway = create_dataplane(settings)
        await gateway.start()
        try:
            yield Installation(settings, authority, gateway)
        finally:
            Place(folder, gateway.config).kill()


@pytest.fixture
async def installation(short_folder: Path) -> AsyncIterator[Installation]:
    async with installation_in(short_folder) as made:
        yield made


def health(settings: Settings, now: datetime | None = None) -> tuple[State, str]:
    now = now or system_clock.now()
    (part,) = (certificate_part(one, now) for one in served_certificates(settings, now))
    return part.state, part.message


async def test_from_nothing_to_a_certificate_that_is_served_and_renewed(installation: Installation) -> None:
    settings = installation.settings
    assert health(settings)[0] is State.WARNING
    with pytest.raises(ssl.SSLCertVerificationError):
        await installation.presented(CLOUD)
    await installation.keeper.look()
    await installation.served()
    assert await installation.presented(CLOUD) == {CLOUD, INFERENCE}
    assert await installation.presented(INFERENCE) == {CLOUD, INFERENCE}
    assert health(settings)[0] is State.OK
    first = settings.acme_certificate.read_bytes()
    await installation.keeper.look()
    assert settings.acme_certificate.read_bytes() == first, "it has most of its time left"
    held = read(first)
    assert held is not None
    late = Later(held.ends_at - (held.ends_at - held.begins_at) / 4)
    await CertificateKeeper(settings, late).look()
    assert settings.acme_certificate.read_bytes() != first
    await installation.served()
    assert await installation.presented(CLOUD) == {CLOUD, INFERENCE}


@pytest.mark.long
async def test_an_authority_that_finds_somebody_else_is_heard_and_left_alone(
    installation: Installation,
) -> None:
    settings = installation.settings
    with socket.socket() as nobody:
        nobody.bind(("127.9.9.9", 0))
        await installation.authority.lead_to("127.9.9.9")
        await installation.keeper.look()
    state, message = health(settings)
    assert state is State.FAILING
    assert CLOUD in message or INFERENCE in message, message
    tried = last_try(settings.acme_dir)
    assert tried is not None
    assert tried.trouble is not None
    await installation.authority.lead_to("127.0.0.1")
    await installation.keeper.look()
    assert last_try(settings.acme_dir) == tried, "another process does not ask again so soon"
    await CertificateKeeper(settings, Later(tried.at + timedelta(minutes=16))).look()
    await installation.served()
    assert await installation.presented(CLOUD) == {CLOUD, INFERENCE}
    assert health(settings)[0] is State.OK


@pytest.mark.long
async def test_whoever_adds_a_name_gets_another(installation: Installation) -> None:
    alone = installation.settings.model_copy(update={"gateway_url": None})
    await CertificateKeeper(alone, system_clock).look()
    held = read(alone.acme_certificate.read_bytes())
    assert held is not None
    assert held.names == {CLOUD}
    await installation.keeper.look()
    held = read(alone.acme_certificate.read_bytes())
    assert held is not None
    assert held.names == {CLOUD, INFERENCE}


@pytest.mark.long
async def test_an_authority_that_is_away(installation: Installation) -> None:
    away = installation.settings.model_copy(update={"acme_directory": f"https://localhost:{free_port()}/dir"})
    before = away.acme_certificate.read_bytes()
    await CertificateKeeper(away, system_clock).look()
    assert away.acme_certificate.read_bytes() == before
    tried = last_try(away.acme_dir)
    assert tried is not None
    assert "Connection refused" in str(tried.trouble)


@pytest.mark.long
async def test_who_ends_does_not_wait_for_an_authority_and_leaves_nobody_behind(
    short_folder: Path,
) -> None:
    """One that takes its time: it sleeps before it looks."""
    async with installation_in(short_folder, PEBBLE_VA_NOSLEEP="0", PEBBLE_VA_SLEEPTIME="60") as made:
        looking = asyncio.create_task(made.keeper.look())
        await eventually(lambda: _children("moorage.gateway.acme.obtain", made.settings.acme_dir) == 1)
        looking.cancel()
        async with asyncio.timeout(10):
            with pytest.raises(asyncio.CancelledError):
                await looking
        assert _children("moorage.gateway.acme.obtain", made.settings.acme_dir) == 0
        tried = last_try(made.settings.acme_dir)
        assert tried is not None
        assert tried.trouble == "The last try was broken off."


QUESTION = "/.well-known/acme-challenge/"
TOKEN = "evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA"


ASKED = [
    ("GET", QUESTION + TOKEN, CLOUD, 200, ""),
    ("GET", QUESTION + TOKEN, "anything", 200, ""),
    ("POST", QUESTION + TOKEN, "anything", 404, ""),
    ("GET", QUESTION + "<script>alert(1)</script>", "anything", 404, ""),
    ("GET", QUESTION + TOKEN + "/more", "anything", 404, ""),
    ("GET", QUESTION, "anything", 404, ""),
    ("GET", "/projects?page=2", CLOUD, 308, f"https://{CLOUD}/projects?page=2"),
    ("POST", "/c/ctr_1/api/v1", INFERENCE, 308, f"https://{INFERENCE}:8443/c/ctr_1/api/v1"),
    ("GET", "//evil.example.com/", CLOUD, 308, f"https://{CLOUD}//evil.example.com/"),
    ("GET", "/", "evil.example.com", 404, ""),
]
"""Method, path, host; status, and where it leads."""


async def test_what_is_said_at_port_80(installation: Installation) -> None:
    for method, path, host, status, to in ASKED:
        found, text, location = await installation.asked(method, path, host)
        assert (found, location) == (status, to), (method, path, host)
        if status == 200:
            token, _, thumbprint = text.partition(".")
            assert token == TOKEN
            assert len(thumbprint) == 43


@dataclass
class Later:
    """The clock of somebody who looks then."""

    at: datetime

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return system_clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await system_clock.sleep(seconds)


def _children(module: str, folder: Path) -> int:
    """Processes of that module that were told this folder."""
    found = 0
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = command.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue  # It has ended meanwhile.
        if module in words:
            found += json.loads(words[words.index(module) + 1])["folder"] == str(folder)
    return found
