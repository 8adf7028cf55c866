"""The HAProxy process itself: found again, started again, never started twice."""

import asyncio
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from gateway_support import Container, Place, eventually, make_place, new_key, table

from moorage.gateway.table import Route
from moorage.kit import ids
from moorage.kit.errors import SetupError

PROJECT = ids.new_project_id()
CONTAINER = ids.new_container_id()
KEY = new_key(PROJECT)


@pytest.fixture
def other_place() -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="moor-gw-") as folder:
        Path(folder).chmod(0o755)
        place = make_place(Path(folder))
        yield place
        place.kill()


async def status(client: aiohttp.ClientSession) -> int:
    async with client.get(f"/c/{CONTAINER}/v1", headers=KEY.headers) as response:
        return response.status


@pytest.mark.parametrize("whom", ["master", "worker"])
async def test_a_killed_haproxy_comes_back_with_everything_it_had(
    place: Place, container: Container, client: aiohttp.ClientSession, whom: str
) -> None:
    gateway = place.dataplane()
    await gateway.start()
    wanted = table([Route(CONTAINER, PROJECT, (container.server(),), "/healthz", 3)], [KEY])
    await gateway.apply(wanted)
    assert await status(client) == 200
    master = gateway.process.pid()
    assert master is not None
    os.kill(master if whom == "master" else await gateway.process.worker.pid(), signal.SIGKILL)
    await eventually(lambda: not gateway.alive())

    # The agent knows no table yet: Postgres may be down. The files say it all.
    successor = place.dataplane()
    await successor.start()
    assert await status(client) == 200
    assert (await successor.apply(wanted)).changes == 0


async def test_apply_starts_a_haproxy_that_died(
    place: Place, container: Container, client: aiohttp.ClientSession
) -> None:
    gateway = place.dataplane()
    await gateway.start()
    place.kill()
    await eventually(lambda: not gateway.alive())
    await gateway.apply(table([Route(CONTAINER, PROJECT, (container.server(),))], [KEY]))
    assert await status(client) == 200


async def test_a_haproxy_that_lost_its_files_too_gets_the_same_table_again(
    place: Place, container: Container, client: aiohttp.ClientSession
) -> None:
    gateway = place.dataplane()
    await gateway.start()
    wanted = table([Route(CONTAINER, PROJECT, (container.server(),))], [KEY])
    await gateway.apply(wanted)
    assert (await gateway.apply(wanted)).changes == 0
    place.kill()
    await eventually(lambda: not gateway.alive())
    shutil.rmtree(place.config.state_dir.parent)
    assert (await gateway.apply(wanted)).changes > 0
    assert await status(client) == 200


@pytest.mark.long
async def test_a_second_haproxy_on_the_same_port_is_refused(place: Place, other_place: Place) -> None:
    first = place.dataplane()
    await first.start()
    config = replace(other_place.config, endpoint_listen=place.config.endpoint_listen)
    with pytest.raises(SetupError) as refusal:
        await Place(other_place.home, config).dataplane().start()
    assert place.config.endpoint_listen in refusal.value.message
    assert "Address already in use" in refusal.value.message
    assert "\n" not in refusal.value.message
    assert first.alive()


@pytest.mark.long
async def test_a_port_that_a_stranger_shares_is_refused(other_place: Place) -> None:
    with socket.socket() as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        stranger.bind(("127.0.0.1", other_place.port))
        stranger.listen()
        with pytest.raises(SetupError, match=other_place.config.endpoint_listen):
            await other_place.dataplane().start()


async def test_a_wrong_configuration_is_explained(other_place: Place) -> None:
    config = replace(other_place.config, endpoint_certificate=other_place.home / "absent.pem")
    with pytest.raises(SetupError, match=r"absent\.pem"):
        await Place(other_place.home, config).dataplane().start()


async def test_two_agents_that_start_together_share_one_haproxy(place: Place) -> None:
    place.kill()
    gateways = [place.dataplane(), place.dataplane()]
    await eventually(lambda: not gateways[0].alive())
    async with asyncio.timeout(30):
        for gateway in gateways:
            await gateway.start()
    assert gateways[0].process.pid() == gateways[1].process.pid()


async def test_new_settings_reach_a_running_haproxy(
    place: Place, container: Container, client: aiohttp.ClientSession
) -> None:
    gateway = place.dataplane()
    await gateway.start()
    await gateway.apply(table([Route(CONTAINER, PROJECT, (container.server(),))], [KEY]))
    worker = await gateway.process.worker.pid()
    changed = Place(place.home, replace(place.config, queue_limit=77)).dataplane()
    await changed.start()
    assert await changed.process.worker.pid() != worker
    assert await status(client) == 200
    text = (place.config.state_dir / "haproxy.cfg").read_text()
    assert "queue ge 77" in text
