"""A certificate that is exchanged just then is served all the same."""

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_support import Place, make_place

from moorage.gateway.acme.certificate import first_certificate, read
from moorage.gateway.certificates import Certificates
from moorage.gateway.table import GatewayTable
from moorage.kit.clock import system_clock

NOTHING = GatewayTable({}, {})
BEFORE, AFTER = "before.example.com", "after.example.com"


@pytest.fixture
def place(short_folder: Path) -> Iterator[Place]:
    made = make_place(short_folder, endpoint_certificate=short_folder / "certificate.pem")
    made.run_dir.mkdir()
    exchange(made, BEFORE)
    yield made
    made.kill()


def exchange(place: Place, name: str) -> None:
    assert place.config.endpoint_certificate is not None
    place.config.endpoint_certificate.write_text(first_certificate([name], system_clock.now()))


async def presented(place: Place) -> frozenset[str]:
    anybody = ssl.create_default_context()
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", place.port, ssl=anybody)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    held = read(ssl.DER_cert_to_PEM_cert(shown).encode())
    assert held is not None
    return held.names


async def next_agent(place: Place) -> frozenset[str]:
    gateway = place.dataplane()
    await gateway.start()
    await gateway.apply(NOTHING)
    return await presented(place)


async def test_an_agent_that_ends_before_haproxy_has_read_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = place.dataplane()
    await gateway.start()
    exchange(place, AFTER)

    async def ended() -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(gateway.process, "reload", ended)
    with pytest.raises(asyncio.CancelledError):
        await gateway.apply(NOTHING)
    assert await presented(place) == {BEFORE}
    assert await next_agent(place) == {AFTER}


async def test_one_that_comes_while_haproxy_starts(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = place.dataplane()
    start = gateway.process.adopt_or_start

    async def started(config: Path) -> bool:
        adopted = await start(config)
        exchange(place, AFTER)
        return adopted

    monkeypatch.setattr(gateway.process, "adopt_or_start", started)
    await gateway.start()
    assert await next_agent(place) == {AFTER}


async def test_one_that_nobody_can_read_keeps_nothing_else_from_changing(place: Place) -> None:
    gateway = place.dataplane()
    await gateway.start()
    file = place.config.endpoint_certificate
    assert file is not None
    file.unlink()
    file.mkdir()
    await gateway.apply(NOTHING)
    assert await presented(place) == {BEFORE}
    file.rmdir()
    exchange(place, AFTER)
    await gateway.apply(NOTHING)
    assert await presented(place) == {AFTER}


def test_what_cannot_be_written_down_is_not_served_again_and_again(tmp_path: Path) -> None:
    file = tmp_path / "certificate.pem"
    file.write_text("one")
    certificates = Certificates([file], tmp_path / "absent/record")
    assert certificates.changed()
    with pytest.raises(FileNotFoundError):
        certificates.note_served(certificates.digest())
    assert not certificates.changed()
    file.write_text("two")
    assert certificates.changed()
